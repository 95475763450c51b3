//! A minimal client of the same server, for the baselines of W1 and W4. The time of its requests is that of the network and
//! the server; the rest is ours.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;

use model_server::prose::Prose;
use serde_json::json;

use super::Problem;

/// Requests that are measured; the result is their median.
const TIMES: usize = 11;

/// A client with one connection.
pub(super) struct Bare {
    stream: TcpStream,
    host: String,
}

impl Bare {
    /// Connects to the server.
    pub(super) fn connect(base_url: &str) -> Result<Self, Problem> {
        let host = base_url.trim_start_matches("http://").split('/').next().unwrap_or_default().to_owned();
        let stream = TcpStream::connect(&host)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, host })
    }

    /// The time of a request that holds this many turns, to the end of its answer, ms.
    pub(super) fn request(&mut self, turns: usize, question: usize, answer: usize) -> Result<f64, Problem> {
        let body = body(turns, question, answer);
        let mut taken = vec![];
        for _ in 0..=TIMES {
            let started = Instant::now();
            self.post(&body)?;
            taken.push(started.elapsed().as_secs_f64() * 1e3);
        }
        // The first one warms the connection.
        let counted = &mut taken[1..];
        counted.sort_by(f64::total_cmp);
        Ok(counted[TIMES / 2])
    }

    /// Sends a request and reads its whole answer, with its head and its chunks.
    pub(super) fn post(&mut self, body: &[u8]) -> Result<Vec<u8>, Problem> {
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.host,
            body.len()
        );
        self.stream.write_all(head.as_bytes())?;
        self.stream.write_all(body)?;
        let (mut seen, mut piece) = (vec![], [0; 16 << 10]);
        while !seen.ends_with(b"\r\n0\r\n\r\n") {
            match self.stream.read(&mut piece)? {
                0 => return Err("the server has closed the connection".into()),
                length => seen.extend_from_slice(&piece[..length]),
            }
        }
        if seen.starts_with(b"HTTP/1.1 200") { Ok(seen) } else { Err("the server has refused the request".into()) }
    }
}

/// The conversation before turn `turns`, and its question.
fn body(turns: usize, question: usize, answer: usize) -> Vec<u8> {
    let mut prose = Prose::new(11);
    let directive = format!(" prose={answer}");
    let mut messages = vec![];
    for turn in 1..=turns {
        let text = prose.text(question - directive.len()) + &directive;
        messages.push(json!({ "role": "user", "content": text }));
        if turn < turns {
            messages.push(json!({ "role": "assistant", "content": prose.text(answer) }));
        }
    }
    let request = json!({ "model": "wire", "stream": true, "messages": messages });
    request.to_string().into_bytes()
}
