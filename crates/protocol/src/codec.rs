//! Reads and writes frames on a byte stream. Each frame is one line of JSON; its length is checked before it is read
//! whole.

use serde::Serialize;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::task::{JoinError, JoinHandle};

use crate::frame::Frame;
use crate::limits::OFF_THREAD_BYTES;

/// Why no frame could be read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The frame is longer than the limit. The reader cannot find the next frame after it.
    #[error("the frame is longer than {limit} bytes, the limit of this connection")]
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// The line is not a frame.
    #[error("not a frame: {detail}")]
    Invalid {
        /// Why it is not a frame.
        detail: String,
    },
    /// The stream ended in the middle of a frame.
    #[error("the connection ended in the middle of a frame")]
    Cut,
    /// Reading from the stream failed.
    #[error("the connection failed: {0}")]
    Io(#[from] std::io::Error),
}

/// Reads frames. `next` is cancel-safe.
#[derive(Debug)]
pub struct FrameReader<R> {
    stream: BufReader<R>,
    line: Vec<u8>,
    limit: usize,
    last_bytes: usize,
    /// A large frame that a thread parses: `next` may be dropped meanwhile.
    parsing: Option<JoinHandle<Result<Frame, FrameError>>>,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// Reads frames of at most `limit` bytes.
    pub fn new(stream: R, limit: usize) -> Self {
        Self { stream: BufReader::new(stream), line: vec![], limit, last_bytes: 0, parsing: None }
    }

    /// Sets the limit for the following frames, in bytes.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// The length of the last frame in bytes.
    pub fn last_bytes(&self) -> usize {
        self.last_bytes
    }

    /// Waits for the next frame; none if the stream ended between two frames.
    pub async fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        loop {
            if let Some(parsing) = &mut self.parsing {
                let parsed = parsing.await;
                self.parsing = None;
                let failed = |error: JoinError| FrameError::Invalid { detail: error.to_string() };
                return parsed.map_err(failed)?.map(Some);
            }
            let bytes = self.stream.fill_buf().await?;
            if bytes.is_empty() {
                return if self.line.is_empty() { Ok(None) } else { Err(FrameError::Cut) };
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let taken = end.unwrap_or(bytes.len());
            if self.line.len() + taken > self.limit {
                return Err(FrameError::TooLong { limit: self.limit });
            }
            self.line.extend_from_slice(&bytes[..taken]);
            self.stream.consume(taken + usize::from(end.is_some()));
            if end.is_some() {
                let line = std::mem::take(&mut self.line);
                self.last_bytes = line.len();
                if line.len() < OFF_THREAD_BYTES {
                    return decode(&line).map(Some);
                }
                self.parsing = Some(tokio::task::spawn_blocking(move || decode(&line)));
            }
        }
    }
}

fn decode(line: &[u8]) -> Result<Frame, FrameError> {
    serde_json::from_slice(line).map_err(|error| FrameError::Invalid { detail: error.to_string() })
}

/// Encodes a frame as one line.
pub fn encode(frame: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(frame).expect("a frame is plain data");
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    /// Reads these bytes in two parts, split at `cut`; returns the frames before the end or the error.
    fn read(bytes: &[u8], cut: usize, limit: usize) -> (Vec<Frame>, Option<String>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (mut write, read) = tokio::io::duplex(1 << 20);
            let (first, second) = (bytes[..cut].to_vec(), bytes[cut..].to_vec());
            let writer = async move {
                write.write_all(&first).await.unwrap();
                tokio::task::yield_now().await;
                write.write_all(&second).await.unwrap();
            };
            let reader = async {
                let mut reader = FrameReader::new(read, limit);
                let mut frames = vec![];
                loop {
                    match reader.next().await {
                        Ok(Some(frame)) => frames.push(frame),
                        Ok(None) => return (frames, None),
                        Err(error) => return (frames, Some(error.to_string())),
                    }
                }
            };
            tokio::join!(writer, reader).1
        })
    }

    const TWO: &str = concat!(
        r#"{"type":"req","id":"1","method":"health"}"#,
        "\n",
        r#"{"type":"res","id":"1","ok":true,"payload":{"text":"好"}}"#,
        "\n"
    );

    #[test]
    fn r60_frames_are_the_same_wherever_the_stream_is_split() {
        let whole = read(TWO.as_bytes(), 0, 100);
        assert_eq!((whole.0.len(), &whole.1), (2, &None));
        for cut in 0..=TWO.len() {
            assert_eq!(read(TWO.as_bytes(), cut, 100), whole, "{cut}");
        }
        assert_eq!(
            whole.0.iter().flat_map(encode).collect::<Vec<_>>(),
            TWO.as_bytes(),
            "encoding a frame again gives the same line"
        );
    }

    #[test]
    fn r60_an_invalid_frame_is_reported_and_a_frame_that_is_too_long_is_not_buffered() {
        let says = |bytes: &[u8], says: &str| {
            let (frames, error) = read(bytes, 0, 60);
            assert!(frames.is_empty() && error.as_ref().is_some_and(|error| error.contains(says)), "{error:?}: {says}");
        };
        says(b"hello\n", "not a frame");
        says(b"\n", "not a frame");
        says(b"\xff\xfe{}\n", "not a frame");
        says(br#"{"type":"req","id":"1","method":"health""#, "in the middle of a frame");
        says(
            br#"{"type":"req","id":"1","method":"m","more":1}
"#,
            "unknown field `more`",
        );
        says(
            br#"{"type":"dream","id":"1"}
"#,
            "unknown variant `dream`",
        );
        says(&[b'a'; 61], "longer than 60 bytes");
        let deep = format!("{}{}\n", r#"{"type":"req","id":"1","method":"m","params":"#, "[".repeat(200_000));
        let (_, error) = read(deep.as_bytes(), 0, 1 << 20);
        assert!(error.is_some_and(|error| error.contains("recursion limit")));
    }
}
