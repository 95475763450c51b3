//! Lines on their way to a slow reader.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Lines that wait to be written.
const LINES: usize = 4_096;

/// What the thread that writes receives.
#[derive(Debug)]
enum Job {
    Write(String),
    /// Everything before it is written.
    Confirm(SyncSender<()>),
}

/// Takes lines and never waits.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    lines: SyncSender<Job>,
    dropped: Arc<AtomicU64>,
}

/// One line, or what a formatter writes at once.
pub(super) struct Lines<'a> {
    queue: &'a Queue,
    text: String,
}

impl Queue {
    /// The lines go to `write`, on a thread of its own.
    pub(super) fn new(write: impl FnMut(&str) + Send + 'static) -> io::Result<Self> {
        let (lines, waiting) = sync_channel(LINES);
        let dropped = Arc::new(AtomicU64::new(0));
        let of = Arc::clone(&dropped);
        thread::Builder::new().name("log".to_owned()).spawn(move || pass(&waiting, &of, write))?;
        Ok(Self { lines, dropped })
    }

    pub(super) fn lines(&self) -> Lines<'_> {
        Lines { queue: self, text: String::new() }
    }

    /// Waits until the lines so far are written, at most this long.
    pub(super) fn flush(&self, most: Duration) {
        let (written, writing) = sync_channel(1);
        if self.lines.try_send(Job::Confirm(written)).is_ok() {
            let _ = writing.recv_timeout(most);
        }
    }

    fn send(&self, text: String) {
        if self.lines.try_send(Job::Write(text)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn pass(waiting: &Receiver<Job>, dropped: &AtomicU64, mut write: impl FnMut(&str)) {
    while let Ok(job) = waiting.recv() {
        match job {
            Job::Write(text) => write(&text),
            // Who has waited for too long is gone.
            Job::Confirm(written) => drop(written.try_send(())),
        }
        match dropped.swap(0, Ordering::Relaxed) {
            0 => {}
            lines => tracing::warn!(target: "limulus", lines, "lines of this log were left out: it is read too slowly"),
        }
    }
}

impl Lines<'_> {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.text.push_str(&String::from_utf8_lossy(bytes));
    }
}

impl Drop for Lines<'_> {
    fn drop(&mut self) {
        if !self.text.is_empty() {
            self.queue.send(std::mem::take(&mut self.text));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn r68_a_log_that_nobody_reads_delays_nobody() {
        let (reading, may_read) = channel::<()>();
        let written = Arc::new(Mutex::new(0_usize));
        let (count, of) = (Arc::clone(&written), Mutex::new(may_read));
        let queue = Queue::new(move |_| {
            // The sender is gone once everything may be read.
            let _ = of.lock().unwrap().recv();
            *count.lock().unwrap() += 1;
        })
        .unwrap();
        let more = LINES * 2;
        for number in 0..more {
            writeln!(queue.lines(), "line {number}").unwrap();
        }
        let dropped = queue.dropped.load(Ordering::Relaxed) as usize;
        // One line may be with the reader, the others wait.
        assert!((more - LINES - 1..=more - LINES).contains(&dropped), "{dropped}");
        drop(reading);
        // The queue is full until the first line is written.
        while *written.lock().unwrap() < more - dropped {
            queue.flush(Duration::from_mins(1));
        }
        assert_eq!(*written.lock().unwrap(), more - dropped);
        assert_eq!(queue.dropped.load(Ordering::Relaxed), 0, "they are said");
    }
}
