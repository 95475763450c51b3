//! The keyboard during a run: what is typed is a line of our own, and nothing of it is left for the shell. The terminal gives
//! keys one by one and echoes none; Ctrl-C and the like stay signals. Its mode is what it was whenever a question is open that a line answers, the
//! process is suspended, or it ends. A question that one key answers has the keys as well.

#![allow(clippy::disallowed_methods, reason = "beside prompt.rs this is the place that reads the terminal")]

mod line;
mod signals;

use std::io::stdin;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal as ProcessSignal;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep_until};

pub(crate) use self::line::Entered;
use self::line::Line;
pub(crate) use self::signals::interruptions;
use self::signals::suspensions;
use crate::output::{Control, Output, Part};
use crate::prompt;

/// Bytes that are read at once.
const READ_BYTES: usize = 4096;

/// How long nobody has typed when a question may be asked; and how long, if the end of a paste never comes.
const QUIET: Duration = Duration::from_millis(250);
const PASTE: Duration = Duration::from_secs(3);

/// Interval of looks whether the terminal has become that of this process.
const TRY: Duration = Duration::from_millis(500);

/// The exit code after Ctrl-\\, as a shell counts it.
const QUIT: i32 = 128 + 3;

/// How long the rest of a sequence may take: after that, Escape was the key.
const ESCAPE: Duration = Duration::from_millis(40);

/// The mode of the terminal before it was changed, while it is.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

fn before() -> MutexGuard<'static, Option<Termios>> {
    BEFORE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What was typed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    /// The line has changed, or the terminal is this process' again.
    Changed,
    /// These lines were ended with Enter.
    Entered(Vec<Entered>),
    /// Ctrl-Z: [`Keyboard::suspend`] does it, once the screen is in order.
    Suspend,
}

/// The keyboard.
pub(crate) struct Keyboard {
    /// A handle of its own: the answer to a question waits for the same terminal.
    terminal: AsyncFd<OwnedFd>,
    line: Line,
    /// When the last keys came.
    escape_at: Instant,
    /// Whether the terminal is to give keys.
    is_on: bool,
    /// Whether the terminal is gone: nothing is typed any more.
    is_gone: bool,
    /// When it was tried last to have it give keys.
    tried_at: Instant,
    /// How often this process had been suspended when it was looked at last.
    suspensions: u32,
    quits: Option<Signal>,
    /// None: whoever started this process has it ignored.
    suspends: Option<Signal>,
    continues: Signal,
}

impl Keyboard {
    /// The keyboard of this terminal; none if there is no terminal, or if it cannot be known whose it is.
    pub(crate) fn open() -> Option<Self> {
        if !prompt::is_possible() || !is_foreground()? {
            return None;
        }
        let terminal = rustix::io::dup(stdin()).ok()?;
        #[expect(deprecated, reason = "the handle is its own, and its successor is an unsafe function")]
        let terminal = AsyncFd::with_interest(terminal, Interest::READABLE).ok()?;
        let (suspends, quits) = (signals::stream(ProcessSignal::TSTP), signals::stream(ProcessSignal::QUIT));
        let continues = signal(SignalKind::from_raw(ProcessSignal::CONT.as_raw())).ok()?;
        let (line, now) = (Line::default(), Instant::now());
        signals::listen();
        Some(Self {
            terminal,
            line,
            escape_at: now,
            is_on: false,
            is_gone: false,
            tried_at: now,
            suspensions: suspensions(),
            quits,
            suspends,
            continues,
        })
    }

    /// The line that is being typed: what is before and after the cursor. None if it is empty.
    pub(crate) fn line(&self) -> Option<(&str, &str)> {
        (!self.line.is_empty()).then(|| self.line.text())
    }

    /// From now on the terminal gives keys.
    pub(crate) fn turn_on(&mut self) {
        // A process that was started in the background may get the terminal without a signal.
        let is_due = before().is_none() && self.tried_at.elapsed() > TRY;
        if !self.is_on || is_due {
            (self.is_on, self.tried_at) = (true, Instant::now());
            take_terminal();
        }
    }

    /// Whether nobody is typing: what is asked now is not answered by what was on its way.
    pub(crate) fn is_quiet(&self) -> bool {
        let quiet = if self.line.is_pasting() { PASTE } else { QUIET };
        !self.is_on || self.escape_at.elapsed() > quiet
    }

    /// The terminal is as it was. What is half typed stays.
    pub(crate) fn turn_off(&mut self) {
        if std::mem::take(&mut self.is_on) {
            self.line.pause();
            give_back();
        }
    }

    /// Waits for what is typed. Reads nothing while it is off or another process has the terminal. Cancel-safe.
    pub(crate) async fn typed(&mut self) -> Typed {
        loop {
            tokio::select! {
                () = signals::next(&mut self.quits) => {
                    give_back();
                    std::process::exit(QUIT);
                }
                () = signals::next(&mut self.suspends) => {
                    // Where this came too late, the process was suspended without it.
                    let is_due = suspensions() == self.suspensions;
                    self.suspensions = suspensions();
                    return if is_due { Typed::Suspend } else { Typed::Changed };
                }
                _ = self.continues.recv() => {
                    if self.is_on {
                        take_terminal();
                    }
                    return Typed::Changed;
                }
                () = sleep_until(self.escape_at + ESCAPE), if self.line.has_escape() => {
                    self.line.escape();
                    return Typed::Changed;
                }
                ready = self.terminal.readable(), if self.is_on && !self.is_gone => {
                    let Ok(mut ready) = ready else { return std::future::pending().await };
                    let Some(bytes) = read() else {
                        self.is_gone = true;
                        continue;
                    };
                    if bytes.is_empty() {
                        ready.clear_ready();
                        continue;
                    }
                    drop(ready);
                    let entered = self.line.feed(&bytes);
                    self.escape_at = Instant::now();
                    return if entered.is_empty() { Typed::Changed } else { Typed::Entered(entered) };
                }
            }
        }
    }

    /// Stops this process until it is continued, as Ctrl-Z does.
    pub(crate) fn suspend(&mut self) {
        self.line.pause();
        signals::suspend(self.suspensions);
        self.suspensions = suspensions();
        if self.is_on {
            take_terminal();
        }
    }

    /// Gives the terminal back; returns what was typed and not entered, line by line.
    pub(crate) fn finish(mut self) -> Vec<String> {
        let mut rest = vec![];
        while self.is_on
            && let Some(bytes) = read().filter(|bytes| !bytes.is_empty())
        {
            rest.extend(self.line.feed(&bytes).into_iter().map(|entered| match entered {
                Entered::Line(line) => line,
                Entered::TooLong => String::new(),
            }));
        }
        // The rest of a sequence does not come any more.
        self.line.escape();
        self.turn_off();
        let last = self.line.take();
        rest.extend(Some(last).filter(|last| !last.trim().is_empty()));
        rest
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        give_back();
    }
}

/// Has the terminal give keys, if this process may.
fn take_terminal() {
    let mut before = before();
    if is_foreground() != Some(true) {
        return;
    }
    // The shell may have changed the mode while this process was stopped: what it was before is known.
    let Some(was) = before.clone().or_else(|| tcgetattr(stdin()).ok()) else { return };
    let mut keys = was.clone();
    keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    keys.special_codes[SpecialCodeIndex::VMIN] = 1;
    keys.special_codes[SpecialCodeIndex::VTIME] = 0;
    if tcsetattr(stdin(), OptionalActions::Now, &keys).is_ok() {
        *before = Some(was);
        // Whoever ends the process does not wait for a terminal that takes nothing.
        drop(before);
        let _ = Output::Stderr.draw(&[Part::Control(Control::MarkPastes)]);
    }
}

/// Makes the terminal what it was before this process changed it. Whoever ends the process calls it.
pub(crate) fn give_back() {
    // Another thread may be at it: then it is done.
    let Ok(mut before) = BEFORE.try_lock() else { return };
    let Some(was) = before.take() else { return };
    // In the background the terminal is that of another process, which has a mode of its own.
    if is_foreground() == Some(true) {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &was);
        Output::Stderr.control_at_once(Control::LeavePastes);
    }
}

/// Has the terminal give keys for the answer to a question. Returns whether it does. [`give_back`] ends it.
pub(crate) fn give_keys() -> bool {
    if before().is_none() {
        signals::listen();
        take_terminal();
    }
    before().is_some()
}

/// What was typed and is not read yet: empty if there is nothing, or if another process has the terminal. None if the terminal
/// is gone.
pub(crate) fn read() -> Option<Vec<u8>> {
    let terminal = stdin();
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut polled = [PollFd::new(&terminal, PollFlags::IN)];
    let is_ready = matches!(poll(&mut polled, Some(&now)), Ok(1..));
    if polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        return None;
    }
    if !is_ready || is_foreground() != Some(true) {
        return Some(vec![]);
    }
    let mut bytes = vec![0; READ_BYTES];
    match rustix::io::read(&terminal, &mut bytes) {
        Ok(0) => None,
        Ok(read) => {
            bytes.truncate(read);
            Some(bytes)
        }
        Err(Errno::AGAIN | Errno::INTR) => Some(vec![]),
        Err(_) => None,
    }
}

/// Whether this process is in the foreground of its terminal; none if that cannot be known. A process in the background that
/// reads or changes the terminal is stopped.
fn is_foreground() -> Option<bool> {
    foreground_of(&std::fs::read_to_string("/proc/self/stat").ok()?)
}

/// The same of a line of `/proc/PID/stat`: behind the name come the state, the parent, the group, the session, the terminal, and
/// the group in its foreground. A group outside of this namespace has the number 0.
fn foreground_of(stat: &str) -> Option<bool> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(2);
    let group: i32 = fields.next()?.parse().ok()?;
    let foreground: i32 = fields.nth(2)?.parse().ok()?;
    (group > 0).then_some(group == foreground)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r15_the_foreground_is_known_from_the_line_of_the_process() {
        for (stat, expected) in [
            ("7 (a) b (c) S 1 7 7 34816 7 4194304 1", Some(true)),
            ("7 (limulus) S 1 7 7 34816 9 4194304", Some(false)),
            ("7 (limulus) S 1 7 7 0 -1 4194304", Some(false)),
            ("7 (limulus) S 0 0 0 34816 0 4194304", None),
            ("", None),
        ] {
            assert_eq!(foreground_of(stat), expected, "{stat}");
        }
    }
}
