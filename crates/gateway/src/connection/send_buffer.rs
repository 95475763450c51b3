//! The bounded, ordered buffer of frames for one client. A writer never waits: a client that reads too slowly is
//! notified and closed.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::limits::BUFFERED_BYTES;
use tokio::sync::Notify;

/// Bytes that are gathered for one write, so that small frames go out together.
const WRITE_BYTES: usize = 64 << 10;

/// Events that are too large for the bound may wait beside the others: a long answer is in the line of its message and in
/// that of its run's end, which are one batch, so that no client can read the one before the other is there.
const LARGE_EVENTS: usize = 2;

/// Bytes from which an event is large.
const LARGE_BYTES: usize = BUFFERED_BYTES / 4;

/// Chunks for which an empty queue keeps space.
const QUEUE_CHUNKS: usize = 64;

/// A piece of a frame.
#[derive(Debug, Clone)]
pub(crate) enum Chunk {
    /// Bytes of this client alone.
    Own(Vec<u8>),
    /// Bytes that all clients share.
    Shared(Arc<[u8]>),
}

impl Chunk {
    pub(crate) fn bytes(&self) -> &[u8] {
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
    /// The large chunks among them, and their bytes.
    large: usize,
    large_bytes: usize,
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
        if !queue.has_space(bytes_of(&chunks)) {
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

    /// The bytes that wait to be written.
    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Gives up what waits: its client does not read, and the memory is needed. The client notices the end of the
    /// connection in the middle of a frame, or before one.
    pub(crate) fn clear(&self) {
        let mut queue = self.lock();
        *queue = Queue { finished: true, ..Queue::default() };
        self.changed.notify_one();
        self.space.notify_waiters();
    }

    /// Waits until the buffer is below its bound.
    pub(crate) async fn wait_for_space(&self) {
        self.wait_until(|queue| queue.bytes <= BUFFERED_BYTES).await;
    }

    /// Waits until there is space for an event of this many bytes.
    pub(crate) async fn wait_for(&self, bytes: usize) {
        self.wait_until(|queue| queue.has_space(bytes)).await;
    }

    /// Waits until everything is on its way.
    pub(crate) async fn wait_until_empty(&self) {
        self.wait_until(|queue| queue.bytes == 0).await;
    }

    async fn wait_until(&self, is_enough: impl Fn(&Queue) -> bool) {
        loop {
            // Several requests of a client may wait. Each is woken, also by a write that comes before it waits.
            let mut space = pin!(self.space.notified());
            space.as_mut().enable();
            if is_enough(&self.lock()) {
                return;
            }
            space.await;
        }
    }

    /// Returns the next bytes to write, or `None` when there will be no more.
    pub(crate) async fn take(&self) -> Option<Chunk> {
        loop {
            {
                let mut queue = self.lock();
                if let Some(first) = queue.chunks.pop_front() {
                    return Some(self.gather(&mut queue, first));
                }
                if queue.finished {
                    return None;
                }
            }
            self.changed.notified().await;
        }
    }

    /// The first chunk with all that fit into one write behind it. A large one goes out as it is: what all clients share
    /// is not copied for each of them.
    fn gather(&self, queue: &mut Queue, first: Chunk) -> Chunk {
        queue.took(&first);
        let fits = |bytes: usize, next: &VecDeque<Chunk>| {
            next.front().is_some_and(|next| bytes + next.bytes().len() <= WRITE_BYTES)
        };
        let mut taken = first;
        if fits(taken.bytes().len(), &queue.chunks) {
            let mut bytes = match taken {
                Chunk::Own(bytes) => bytes,
                Chunk::Shared(bytes) => bytes.to_vec(),
            };
            while fits(bytes.len(), &queue.chunks)
                && let Some(next) = queue.chunks.pop_front()
            {
                bytes.extend_from_slice(next.bytes());
                queue.took(&next);
            }
            taken = Chunk::Own(bytes);
        }
        if queue.chunks.is_empty() {
            // A client that was behind for a while has left a long queue.
            queue.chunks.shrink_to(QUEUE_CHUNKS);
        }
        self.space.notify_waiters();
        taken
    }

    fn push<const N: usize>(&self, queue: &mut Queue, chunks: [Chunk; N]) {
        if queue.finished {
            return;
        }
        queue.bytes += bytes_of(&chunks);
        for large in chunks.iter().filter(|chunk| is_large(chunk)) {
            queue.large += 1;
            queue.large_bytes += large.bytes().len();
        }
        queue.chunks.extend(chunks);
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Whether an event of this many bytes may be added.
    fn has_space(&self, bytes: usize) -> bool {
        let small = self.bytes - self.large_bytes;
        let fits = self.bytes == 0 || self.bytes + bytes <= BUFFERED_BYTES;
        let fits_beside = || bytes > LARGE_BYTES && self.large < LARGE_EVENTS && small <= BUFFERED_BYTES;
        self.finished || fits || fits_beside()
    }

    fn took(&mut self, chunk: &Chunk) {
        self.bytes -= chunk.bytes().len();
        if is_large(chunk) {
            self.large -= 1;
            self.large_bytes -= chunk.bytes().len();
        }
    }
}

fn bytes_of(chunks: &[Chunk]) -> usize {
    chunks.iter().map(|chunk| chunk.bytes().len()).sum()
}

fn is_large(chunk: &Chunk) -> bool {
    chunk.bytes().len() > LARGE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn r60_a_full_buffer_refuses_an_event_and_accepts_a_response() {
        let buffer = SendBuffer::default();
        let shared = || Chunk::Shared(vec![b'e'; BUFFERED_BYTES / 4].into());
        assert_eq!(buffer.offer([Chunk::Own(vec![]), shared()]), Ok(()));
        (0..3).for_each(|_| assert_eq!(buffer.offer([shared()]), Ok(())));
        assert_eq!(buffer.offer([Chunk::Own(vec![b'e'])]), Err(Slow));
        buffer.put(b"answer".to_vec());
        buffer.finish();
        buffer.put(b"late".to_vec());
        let mut all = vec![];
        while let Some(bytes) = buffer.take().await {
            all.extend(bytes.bytes());
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
        assert_eq!(buffer.take().await.map(|chunk| chunk.bytes().len()), Some(30));
        assert_eq!(buffer.take().await.map(|chunk| chunk.bytes().len()), Some(WRITE_BYTES));
    }
    /// A long answer is in two lines of one batch. Both wait beside what is there, a third one does not.
    #[tokio::test]
    async fn r43_two_large_events_wait_beside_the_others_and_are_not_copied() {
        let buffer = SendBuffer::default();
        let large: Arc<[u8]> = vec![b'l'; 2 * BUFFERED_BYTES].into();
        let offer = || buffer.offer([Chunk::Own(vec![b'h']), Chunk::Shared(Arc::clone(&large))]);
        assert_eq!(buffer.offer([Chunk::Own(vec![b'e'])]), Ok(()));
        assert_eq!((offer(), offer(), offer()), (Ok(()), Ok(()), Err(Slow)));
        assert_eq!(buffer.offer([Chunk::Own(vec![b'e'])]), Err(Slow));
        assert_eq!(buffer.take().await.map(|chunk| chunk.bytes().len()), Some(2));
        assert!(matches!(buffer.take().await, Some(Chunk::Shared(shared)) if Arc::ptr_eq(&shared, &large)));
        assert_eq!(offer(), Ok(()), "one of them is gone");
    }

    /// Two requests of one client wait for the same space.
    #[tokio::test]
    async fn r43_all_who_wait_for_space_are_woken() {
        let buffer = SendBuffer::default();
        buffer.put(vec![b'r'; BUFFERED_BYTES + 1]);
        let waiting = async { tokio::join!(buffer.wait_for_space(), buffer.wait_for(BUFFERED_BYTES)) };
        let reading = async {
            tokio::task::yield_now().await;
            buffer.take().await
        };
        let both = async { tokio::join!(waiting, reading) };
        tokio::time::timeout(std::time::Duration::from_mins(1), both).await.expect("both go on");
    }
}
