//! What is typed on the terminal in answer to a question. What was typed before the question is never its answer: it is
//! discarded when the question is on the screen, and nothing is read ahead.

#![allow(clippy::disallowed_methods, reason = "this is the one place that reads answers")]

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Stdin, stdin};
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr, tcsetattr,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{SignalKind, signal};

use crate::keyboard;
use crate::language;
use crate::output::Output;

/// Bytes of one line: a terminal gives no longer one at once.
const LINE_BYTES: usize = 4096;

/// Bytes of a secret from a pipe: far more than any key has.
const SECRET_BYTES: usize = 64 << 10;

/// Whether this terminal can be asked.
pub(crate) fn is_possible() -> bool {
    stdin().is_terminal() && Output::Stderr.is_terminal()
}

/// Whether an answer is a yes.
pub(crate) fn is_yes(line: &str) -> bool {
    matches!(line.trim().to_lowercase().as_str(), "y" | "yes" | "是" | "好")
}

/// Asks, in the language of this process, and waits for the answer. `mark` stands behind the question when it can be answered. None if
/// the input is at its end.
pub(crate) fn ask(question: &str, mark: &str) -> Option<String> {
    // With a closed stderr the question is not visible, and there is no answer.
    Output::Stderr.write(&language::lines(question)).ok()?;
    let mut answer = Answer::default();
    answer.discard();
    Output::Stderr.write(&language::lines(mark)).ok()?;
    loop {
        match answer.read() {
            Ok(Some(line)) => return Some(line),
            Ok(None) => {}
            Err(End) => return None,
        }
    }
}

/// The mark behind a question without a default answer.
pub(crate) const OPEN: &str = " > ";

/// The mode of the terminal before its echo was switched off, while it is.
static ECHOING: Mutex<Option<Termios>> = Mutex::new(None);

/// Asks for a secret: nothing that is typed is shown. None if the input is at its end, or if the terminal goes on showing it.
pub(crate) fn ask_unseen(question: &str) -> Option<String> {
    let _unseen = Unseen::begin()?;
    ask(question, OPEN)
}

/// A secret from the terminal, else the first line of stdin; empty if there is none. An error says why it cannot be one.
pub(crate) fn unseen_or_piped(question: &str) -> Result<String, String> {
    if is_possible() {
        return Ok(ask_unseen(question).unwrap_or_default());
    }
    let mut line = vec![];
    let read = stdin().lock().take(SECRET_BYTES as u64 + 1).read_until(b'\n', &mut line);
    read.map_err(|error| error.to_string())?;
    if line.len() > SECRET_BYTES {
        return Err(format!("that has more than {SECRET_BYTES} bytes"));
    }
    String::from_utf8(line).map_err(|_| "that is not text in UTF-8".to_owned())
}

/// Shows nothing of what is typed until it is dropped. A new line is shown, and Ctrl-Z does nothing: a shell would show the rest.
struct Unseen;

impl Unseen {
    fn begin() -> Option<Self> {
        let was = tcgetattr(stdin()).ok()?;
        let mut unseen = was.clone();
        unseen.local_modes.remove(LocalModes::ECHO);
        unseen.local_modes.insert(LocalModes::ECHONL | LocalModes::ICANON | LocalModes::ISIG);
        unseen.special_codes[SpecialCodeIndex::VSUSP] = 0;
        *ECHOING.lock().unwrap_or_else(PoisonError::into_inner) = Some(was);
        // From here on the mode is restored by whoever drops this or ends the process.
        let begun = Self;
        tcsetattr(stdin(), OptionalActions::Flush, &unseen).ok()?;
        let is_unseen = tcgetattr(stdin()).is_ok_and(|now| !now.local_modes.contains(LocalModes::ECHO));
        is_unseen.then_some(begun)
    }
}

impl Drop for Unseen {
    fn drop(&mut self) {
        echo_again();
    }
}

/// Makes the terminal show again what is typed, if its echo was switched off.
fn echo_again() {
    if let Some(was) = ECHOING.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // What was typed of a secret and not read is for nobody.
        let _ = tcsetattr(stdin(), OptionalActions::Flush, &was);
    }
}

/// From here on a signal ends the process with the terminal as it was. Called by a command that asks, within the runtime: a task
/// waits for the signals while the command waits for its answers.
pub(crate) fn leave_on_signals() {
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()] {
        // Without it the signal ends the process as ever.
        let Ok(mut signals) = signal(kind) else { continue };
        tokio::spawn(async move {
            signals.recv().await;
            echo_again();
            // Where the shell goes on.
            let _ = Output::Stderr.write("\n");
            std::process::exit(128 + kind.as_raw_value());
        });
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
        loop {
            let terminal = self.terminal()?;
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

    /// Waits for keys, of a terminal that gives them one by one. None as above. Cancel-safe.
    pub(crate) async fn keys(&mut self) -> Option<Vec<u8>> {
        loop {
            let terminal = self.terminal()?;
            let mut ready = terminal.readable().await.ok()?;
            match keyboard::read() {
                None => return None,
                Some(bytes) if bytes.is_empty() => ready.clear_ready(),
                Some(bytes) => return Some(bytes),
            }
        }
    }

    fn terminal(&mut self) -> Option<&AsyncFd<Stdin>> {
        if self.terminal.is_none() {
            #[expect(deprecated, reason = "stdin is never closed, and its successor is an unsafe function")]
            let terminal = AsyncFd::with_interest(stdin(), Interest::READABLE);
            self.terminal = Some(terminal.ok()?);
        }
        self.terminal.as_ref()
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
