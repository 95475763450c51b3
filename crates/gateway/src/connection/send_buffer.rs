//! The bounded, ordered buffer of frames for one client. A writer never waits: a client that reads too slowly is
//! notified and closed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::limits::BUFFERED_BYTES;
use tokio::sync::Notify;

/// Bytes that are gathered for one write, so that small frames go out together.
const WRITE_BYTES: usize = 64 << 10;

/// A piece of a frame.
#[derive(Debug, Clone)]
pub(crate) enum Chunk {
    /// Bytes of this client alone.
    Own(Vec<u8>),
    /// Bytes that all clients share.
    Shared(Arc<[u8]>),
}

impl Chunk {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

/// The buffer of one client.
#[derive(Debug, Default)]
pub(crate) struct SendBuffer {
    queue: Mutex<Queue>,
    /// Notified when there is something to write, or when the buffer is closed.
    changed: Notify,
    /// Notified when there is space again.
    space: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    chunks: VecDeque<Chunk>,
    bytes: usize,
    /// Set when nothing more may be added.
    finished: bool,
}

/// The buffer is full: the client reads more slowly than events arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slow;

impl SendBuffer {
    /// Adds a frame regardless of the bound: the response to a request.
    pub(crate) fn put(&self, frame: Vec<u8>) {
        self.push(&mut self.lock(), [Chunk::Own(frame)]);
    }

    /// Adds an event if there is space for it.
    pub(crate) fn offer<const N: usize>(&self, chunks: [Chunk; N]) -> Result<(), Slow> {
        let mut queue = self.lock();
        let bytes: usize = chunks.iter().map(|chunk| chunk.bytes().len()).sum();
        if queue.bytes > 0 && queue.bytes + bytes > BUFFERED_BYTES {
            return Err(Slow);
        }
        self.push(&mut queue, chunks);
        Ok(())
    }

    /// Stops accepting frames. What is buffered is still written.
    pub(crate) fn finish(&self) {
        self.lock().finished = true;
        self.changed.notify_one();
    }

    /// Waits until the buffer is below its bound.
    pub(crate) async fn wait_for_space(&self) {
        while self.lock().bytes > BUFFERED_BYTES {
            self.space.notified().await;
        }
    }

    /// Returns the next bytes to write, or `None` when there will be no more.
    pub(crate) async fn take(&self) -> Option<Vec<u8>> {
        loop {
            {
                let mut queue = self.lock();
                if !queue.chunks.is_empty() {
                    return Some(self.gather(&mut queue));
                }
                if queue.finished {
                    return None;
                }
            }
            self.changed.notified().await;
        }
    }

    fn gather(&self, queue: &mut Queue) -> Vec<u8> {
        let mut bytes = match queue.chunks.pop_front() {
            Some(Chunk::Own(bytes)) => bytes,
            Some(Chunk::Shared(bytes)) => bytes.to_vec(),
            None => vec![],
        };
        while let Some(next) = queue.chunks.front() {
            if bytes.len() + next.bytes().len() > WRITE_BYTES {
                break;
            }
            bytes.extend_from_slice(next.bytes());
            queue.chunks.pop_front();
        }
        queue.bytes -= bytes.len();
        self.space.notify_one();
        bytes
    }

    fn push<const N: usize>(&self, queue: &mut Queue, chunks: [Chunk; N]) {
        if queue.finished {
            return;
        }
        queue.bytes += chunks.iter().map(|chunk| chunk.bytes().len()).sum::<usize>();
        queue.chunks.extend(chunks);
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn r60_a_full_buffer_refuses_an_event_and_accepts_a_response() {
        let buffer = SendBuffer::default();
        let shared = || Chunk::Shared(vec![b'e'; BUFFERED_BYTES / 2].into());
        assert_eq!(buffer.offer([Chunk::Own(vec![]), shared()]), Ok(()));
        assert_eq!(buffer.offer([shared()]), Ok(()));
        assert_eq!(buffer.offer([Chunk::Own(vec![b'e'])]), Err(Slow));
        buffer.put(b"answer".to_vec());
        buffer.finish();
        buffer.put(b"late".to_vec());
        let mut all = vec![];
        while let Some(bytes) = buffer.take().await {
            all.extend(bytes);
        }
        assert_eq!(all.len(), BUFFERED_BYTES + 6);
        assert!(all.ends_with(b"eanswer"));
        buffer.wait_for_space().await;
    }

    #[tokio::test]
    async fn small_frames_go_out_together_and_a_large_one_alone() {
        let buffer = SendBuffer::default();
        (0..3).for_each(|_| buffer.put(vec![b'a'; 10]));
        buffer.put(vec![b'b'; WRITE_BYTES]);
        assert_eq!(buffer.take().await.map(|bytes| bytes.len()), Some(30));
        assert_eq!(buffer.take().await.map(|bytes| bytes.len()), Some(WRITE_BYTES));
    }
}
