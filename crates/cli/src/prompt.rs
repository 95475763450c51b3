//! What is typed on the terminal in answer to a question. What was typed before the question is never its answer: it is
//! discarded when the question is on the screen, and nothing is read ahead.

#![allow(clippy::disallowed_methods, reason = "this is the one place that reads answers")]

use std::io::{self, IsTerminal as _, Read as _, Stdin, stdin};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};
use rustix::termios::{QueueSelector, tcflush};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::output::Output;

/// Bytes of one line: a terminal gives no longer one at once.
const LINE_BYTES: usize = 4096;

/// Whether this terminal can be asked.
pub(crate) fn is_possible() -> bool {
    stdin().is_terminal() && Output::Stderr.is_terminal()
}

/// Whether an answer is a yes.
pub(crate) fn is_yes(line: &str) -> bool {
    matches!(line.trim().to_lowercase().as_str(), "y" | "yes" | "是" | "好")
}

/// Asks, and waits for the answer. `mark` stands behind the question when it can be answered. None if the input is at its end.
pub(crate) fn ask(question: &str, mark: &str) -> Option<String> {
    // With a closed stderr the question is not visible, and there is no answer.
    Output::Stderr.write(question).ok()?;
    let mut answer = Answer::default();
    answer.discard();
    Output::Stderr.write(mark).ok()?;
    loop {
        match answer.read() {
            Ok(Some(line)) => return Some(line),
            Ok(None) => {}
            Err(End) => return None,
        }
    }
}

/// All of stdin, for a message that it holds.
pub(crate) fn whole_input() -> io::Result<Vec<u8>> {
    let mut bytes = vec![];
    stdin().read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The answer that is being typed.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    terminal: Option<AsyncFd<Stdin>>,
    typed: Vec<u8>,
}

/// The input is at its end.
struct End;

impl Answer {
    /// Discards what was typed so far. The question is on the screen, and the mark for its answer is not.
    pub(crate) fn discard(&mut self) {
        self.typed.clear();
        // It fails only if stdin is no terminal.
        let _ = tcflush(stdin(), QueueSelector::IFlush);
    }

    /// Waits for the line. None at the end of the input, or if the terminal cannot be waited for. Cancel-safe.
    pub(crate) async fn line(&mut self) -> Option<String> {
        if self.terminal.is_none() {
            #[expect(deprecated, reason = "stdin is never closed, and its successor is an unsafe function")]
            let terminal = AsyncFd::with_interest(stdin(), Interest::READABLE);
            self.terminal = Some(terminal.ok()?);
        }
        loop {
            let terminal = self.terminal.as_ref().expect("it was made above");
            let mut ready = terminal.readable().await.ok()?;
            if !has_input() {
                ready.clear_ready();
                continue;
            }
            drop(ready);
            match self.read() {
                Ok(Some(line)) => return Some(line),
                Ok(None) => {}
                Err(End) => return None,
            }
        }
    }

    /// Reads what was typed; returns the line once it is whole. Blocks if there is nothing.
    fn read(&mut self) -> Result<Option<String>, End> {
        let mut bytes = [0; LINE_BYTES];
        let read = match read(stdin(), &mut bytes) {
            Ok(0) => return Err(End),
            Ok(read) => read,
            Err(Errno::INTR | Errno::AGAIN) => return Ok(None),
            Err(_) => return Err(End),
        };
        // What follows the line was typed ahead.
        let end = bytes[..read].iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        self.typed.extend(&bytes[..end.unwrap_or(read)]);
        if end.is_none() && self.typed.len() < LINE_BYTES {
            return Ok(None);
        }
        Ok(Some(String::from_utf8_lossy(&std::mem::take(&mut self.typed)).into_owned()))
    }
}

/// Whether a read would not block.
fn has_input() -> bool {
    let stdin = stdin();
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&now)), Ok(1..))
}
