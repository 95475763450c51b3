//! The only way to stdout and stderr. A terminal gets every text escaped: what it is to obey is a [`Control`] of our own. A
//! pipe gets the text as it is. A write can get stuck: a full pipe that nobody reads blocks its writer forever, and a signal
//! must still end such a command.

#![allow(clippy::disallowed_methods, reason = "this is the one place that writes to the process's streams")]

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use config::NotifyBy;
use gateway::Service;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::signal::unix::{SignalKind, signal};
use views::{AnswerText, PrintableAnswer};

use crate::error::{CliError, Exit};
use crate::language;
use crate::wrap;

/// After a signal, a write that lasts longer than this counts as stuck.
const PATIENCE: Duration = Duration::from_secs(2);
/// Poll interval for stuck writes.
const LOOK: Duration = Duration::from_millis(100);
/// Time that an owner has for an orderly shutdown if its own command is stuck.
const LEAVING: Duration = Duration::from_secs(10);

/// Start of the current write, in milliseconds since the first write of the program plus 1; 0 if no write is running.
static WRITING: AtomicU64 = AtomicU64::new(0);
/// Whether notes are lines of the log.
static NOTES_IN_LOG: OnceLock<()> = OnceLock::new();
static FIRST: OnceLock<Instant> = OnceLock::new();
/// The service, if this process owns a home.
static OWNER: Mutex<Weak<Service>> = Mutex::new(Weak::new());

fn now_ms() -> u64 {
    let first = FIRST.get_or_init(Instant::now);
    u64::try_from(first.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
}

/// A stream of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// Results.
    Stdout,
    /// Notes, questions and errors.
    Stderr,
}

/// When colours are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum ColorWhen {
    /// To a terminal, unless the environment says otherwise.
    #[default]
    Auto,
    Always,
    Never,
}

static COLOR: OnceLock<ColorWhen> = OnceLock::new();

/// Sets when colours are written, before anything is.
pub(crate) fn set_color(when: ColorWhen) {
    let _ = COLOR.set(when);
}

/// Whether a stream gets colours: the flag decides, else the environment by its usual conventions (no-color.org,
/// bixense.com/clicolors).
fn has_colors(when: ColorWhen, is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
    let is_set = |name| variable(name).is_some_and(|value| !value.is_empty());
    let is_on = |name| variable(name).is_some_and(|value| !value.is_empty() && value != "0");
    match when {
        ColorWhen::Always => true,
        ColorWhen::Never => false,
        ColorWhen::Auto if is_set("NO_COLOR") => false,
        ColorWhen::Auto if is_on("CLICOLOR_FORCE") => true,
        ColorWhen::Auto => {
            let is_off = variable("CLICOLOR").is_some_and(|value| value == "0");
            is_terminal && !is_off && !is_dumb(variable("TERM").as_deref())
        }
    }
}

/// Whether a terminal of this kind only takes lines: nothing on it can be drawn again. One of which nothing is known may be such.
fn is_dumb(term: Option<&str>) -> bool {
    term.is_none_or(|term| term.is_empty() || term == "dumb")
}

/// A control sequence for a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Control {
    /// Go to the beginning of the line and erase it.
    EraseLine,
    /// Erase this line, what is below, and so many lines above; go to the beginning of the first.
    EraseLines(usize),
    /// What follows is dim.
    Dim,
    /// What follows was added.
    Added,
    /// What follows was removed.
    Removed,
    /// What follows is bold.
    Bold,
    /// What follows is italic.
    Italic,
    /// What follows is underlined.
    Underlined,
    /// What follows is code in a sentence.
    Code,
    /// What follows is a keyword of a language.
    Keyword,
    /// What follows is a string in code.
    Literal,
    /// What follows is a number in code.
    Number,
    /// What follows is plain again.
    Plain,
    /// Move the cursor left by so many cells.
    Left(usize),
    /// From now on what is pasted comes between marks.
    MarkPastes,
    /// From now on it does not.
    LeavePastes,
}

impl Control {
    /// The sequence that sets the style of what follows; nothing for a movement.
    fn sequence(self) -> &'static str {
        match self {
            Self::EraseLine | Self::EraseLines(_) | Self::Left(_) | Self::MarkPastes | Self::LeavePastes => "",
            Self::Bold => "\x1b[1m",
            Self::Dim => "\x1b[2m",
            Self::Italic => "\x1b[3m",
            Self::Underlined => "\x1b[4m",
            Self::Removed => "\x1b[31m",
            Self::Added | Self::Literal => "\x1b[32m",
            Self::Number => "\x1b[33m",
            Self::Keyword => "\x1b[35m",
            Self::Code => "\x1b[36m",
            Self::Plain => "\x1b[0m",
        }
    }
}

/// A part of what is written to a terminal.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Part<'a> {
    /// Any text: it is escaped.
    Text(&'a str),
    Control(Control),
}

impl Output {
    /// Whether it is a terminal.
    pub(crate) fn is_terminal(self) -> bool {
        static TERMINALS: OnceLock<[bool; 2]> = OnceLock::new();
        let terminals = TERMINALS.get_or_init(|| [io::stdout().is_terminal(), io::stderr().is_terminal()]);
        terminals[usize::from(self == Self::Stderr)]
    }

    /// Whether it is a terminal on which something can be drawn again.
    pub(crate) fn can_redraw(self) -> bool {
        static IS_DUMB: OnceLock<bool> = OnceLock::new();
        self.is_terminal() && !*IS_DUMB.get_or_init(|| is_dumb(std::env::var("TERM").ok().as_deref()))
    }

    /// Whether its terminal is that of another process now: the shell writes on it, and this process is in the background.
    pub(crate) fn is_in_background(self) -> bool {
        let foreground = match self {
            Self::Stdout => rustix::termios::tcgetpgrp(io::stdout()),
            Self::Stderr => rustix::termios::tcgetpgrp(io::stderr()),
        };
        // Without job control there is no other one.
        foreground.is_ok_and(|group| group != rustix::process::getpgrp())
    }

    /// Whether it gets colours.
    pub(crate) fn has_colors(self) -> bool {
        static COLORS: OnceLock<[bool; 2]> = OnceLock::new();
        let of = |stream: Self| {
            let when = COLOR.get().copied().unwrap_or_default();
            has_colors(when, stream.is_terminal(), |name| std::env::var(name).ok())
        };
        COLORS.get_or_init(|| [of(Self::Stdout), of(Self::Stderr)])[usize::from(self == Self::Stderr)]
    }

    /// The cells of its rows.
    pub(crate) fn width(self) -> usize {
        let size = match self {
            Self::Stdout => rustix::termios::tcgetwinsize(io::stdout()),
            Self::Stderr => rustix::termios::tcgetwinsize(io::stderr()),
        };
        size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(80)
    }

    /// Its rows.
    pub(crate) fn height(self) -> usize {
        let size = match self {
            Self::Stdout => rustix::termios::tcgetwinsize(io::stdout()),
            Self::Stderr => rustix::termios::tcgetwinsize(io::stderr()),
        };
        size.ok().map(|size| usize::from(size.ws_row)).filter(|rows| *rows > 0).unwrap_or(24)
    }

    /// The text as this stream gets it.
    pub(crate) fn shown(self, text: &str) -> Cow<'_, str> {
        if self.is_terminal() { for_terminal(text) } else { Cow::Borrowed(text) }
    }

    /// A note as this stream gets it: on a terminal its words are wrapped, but for a dumb one.
    pub(crate) fn note(self, text: &str) -> String {
        if self.can_redraw() {
            wrap::note(text, self.width())
        } else if self.is_terminal() {
            wrap::note(text, usize::MAX)
        } else {
            text.to_owned()
        }
    }

    /// Writes the whole text.
    pub(crate) fn write(self, text: &str) -> io::Result<()> {
        self.write_all(&self.shown(text))
    }

    /// Writes a part of an answer.
    pub(crate) fn write_answer(self, text: &PrintableAnswer) -> io::Result<()> {
        self.write_all(text.as_str())
    }

    /// Writes to a terminal: texts, and control sequences.
    pub(crate) fn draw(self, parts: &[Part<'_>]) -> io::Result<()> {
        self.write_all(&drawn(parts, self.has_colors()))
    }

    /// Draws at once or not at all, whatever another thread is writing: for a process that ends, perhaps because nothing can be
    /// written any more.
    pub(crate) fn control_at_once(self, control: Control) {
        let drawn = drawn(&[Part::Control(control)], self.has_colors());
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let write = |to: &dyn AsFd| {
            let mut polled = [PollFd::from_borrowed_fd(to.as_fd(), PollFlags::OUT)];
            if matches!(poll(&mut polled, Some(&now)), Ok(1..)) && polled[0].revents().contains(PollFlags::OUT) {
                // It is a few bytes, and the end does not depend on them.
                let _ = rustix::io::write(to, drawn.as_bytes());
            }
        };
        match self {
            Self::Stdout => write(&io::stdout()),
            Self::Stderr => write(&io::stderr()),
        }
    }

    /// Tells a terminal to call for its user.
    pub(crate) fn notify(self, by: NotifyBy, text: &str, multiplexer: Multiplexer) {
        // A terminal that cannot be written to any more calls nobody.
        let _ = self.write_all(&notification(by, text, multiplexer));
    }

    /// Writes a line, to a terminal or to a pipe, which gets texts as they are.
    pub(crate) fn say(self, parts: &[Part<'_>]) -> io::Result<()> {
        let line = [parts, &[Part::Text("\n")]].concat();
        if self.is_terminal() {
            return self.draw(&line);
        }
        let texts = line.iter().map(|part| if let Part::Text(text) = part { text } else { "" });
        self.write_all(&texts.collect::<String>())
    }

    fn write_all(self, text: &str) -> io::Result<()> {
        WRITING.store(now_ms(), Ordering::Relaxed);
        let write = |to: &mut dyn Write| to.write_all(text.as_bytes()).and_then(|()| to.flush());
        let written = match self {
            Self::Stdout => write(&mut io::stdout().lock()),
            Self::Stderr => write(&mut io::stderr().lock()),
        };
        WRITING.store(0, Ordering::Relaxed);
        written
    }
}

/// A text as a terminal gets it. Emoji stay whole.
pub(crate) fn for_terminal(text: &str) -> Cow<'_, str> {
    if !text.contains(views::is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut whole = AnswerText::default();
    let shown = whole.push(text);
    Cow::Owned(shown.as_str().to_owned() + whole.finish().as_str())
}

/// What is between this program and the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Multiplexer {
    None,
    /// It passes on what is wrapped for it, if its user allows that, and else drops it.
    Tmux,
    /// Another one: it may show what it does not know.
    Other,
}

/// Characters of a text in a notification.
const NOTIFICATION_CHARS: usize = 200;

/// The bytes that call for the user. The text has no control character, and no `;`, which separates the parts of a sequence.
fn notification(by: NotifyBy, text: &str, multiplexer: Multiplexer) -> String {
    let text: String =
        views::printable_line(text).chars().filter(|c| !c.is_control()).take(NOTIFICATION_CHARS).collect();
    let text = text.replace(';', ",");
    let sequence = match by {
        NotifyBy::Bell => return "\x07".to_owned(),
        NotifyBy::Osc9 => format!("\x1b]9;{text}\x07"),
        NotifyBy::Osc777 => format!("\x1b]777;notify;limulus;{text}\x07"),
    };
    match multiplexer {
        Multiplexer::None => sequence,
        Multiplexer::Tmux => format!("\x1bPtmux;{}\x1b\\", sequence.replace('\x1b', "\x1b\x1b")),
        Multiplexer::Other => String::new(),
    }
}

fn drawn(parts: &[Part<'_>], has_colors: bool) -> String {
    let mut drawn = String::new();
    for part in parts {
        match part {
            Part::Text(text) => drawn.push_str(&for_terminal(text)),
            Part::Control(Control::EraseLine | Control::EraseLines(0)) => drawn.push_str("\r\x1b[2K"),
            Part::Control(Control::EraseLines(rows)) => {
                // Row by row: to erase a whole screen at once is, for tmux, to keep it in its history.
                drawn.push_str("\r\x1b[J");
                drawn.extend(std::iter::repeat_n("\x1b[1A\x1b[2K", *rows));
            }
            Part::Control(Control::Left(0)) => {}
            Part::Control(Control::Left(cells)) => {
                // Writing to a String cannot fail.
                let _ = write!(drawn, "\x1b[{cells}D");
            }
            Part::Control(Control::MarkPastes) => drawn.push_str("\x1b[?2004h"),
            Part::Control(Control::LeavePastes) => drawn.push_str("\x1b[?2004l"),
            Part::Control(style) if has_colors => drawn.push_str(style.sequence()),
            Part::Control(_) => {}
        }
    }
    drawn
}

/// What this program says from here on are lines of its log, in English, for programs that read it.
pub(crate) fn log_notes() {
    let _ = NOTES_IN_LOG.set(());
}

/// Writes a text to stderr. A closed stderr is not an error.
pub(crate) fn say_text(text: &str) {
    let _ = Output::Stderr.write(text);
}

/// Writes lines of this program to stderr; on a terminal their words are wrapped. A closed stderr is not an error.
pub(crate) fn say_lines(text: &str) {
    if NOTES_IN_LOG.get().is_some() {
        telemetry::log::note(text.trim_end_matches('\n'));
        return;
    }
    say_text(&(Output::Stderr.note(&language::lines(text.trim_end_matches('\n'))) + "\n"));
}

/// Redraws the line of a step that takes time, if stderr is a terminal that can.
pub(crate) fn say_step(step: &str) {
    if Output::Stderr.can_redraw() {
        let step = language::lines(step);
        let _ = Output::Stderr.draw(&[Part::Control(Control::EraseLine), Part::Text(&step)]);
    }
}

/// Writes a line to stderr, as `eprintln!` does.
macro_rules! say {
    ($($arg:tt)*) => {
        $crate::output::say_lines(&format!($($arg)*))
    };
}

pub(crate) use say;

/// A panic may quote any text.
pub(crate) fn escape_panics() {
    if !Output::Stderr.is_terminal() {
        return;
    }
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let backtrace = std::backtrace::Backtrace::capture();
        let backtrace = match backtrace.status() {
            std::backtrace::BacktraceStatus::Captured => format!("{backtrace}\n"),
            _ => String::new(),
        };
        say_text(&format!("thread '{}' {panic}\n{backtrace}", thread.name().unwrap_or("?")));
    }));
}

/// Whether the current write is stuck.
fn is_stuck() -> bool {
    let began = WRITING.load(Ordering::Relaxed);
    began > 0 && now_ms().saturating_sub(began) >= PATIENCE.as_millis() as u64
}

/// Registers the service of this process, so that it is shut down in order even if the command is stuck.
pub(crate) fn owned_by(service: Weak<Service>) {
    *OWNER.lock().unwrap_or_else(PoisonError::into_inner) = service;
}

/// Whether this process owns a home.
pub(crate) fn is_owner() -> bool {
    OWNER.lock().unwrap_or_else(PoisonError::into_inner).strong_count() > 0
}

/// Ends the process on a signal if its command is stuck. A command that is not stuck handles signals itself.
pub(crate) fn end_where_stuck() -> Result<(), CliError> {
    static BEGUN: OnceLock<()> = OnceLock::new();
    if BEGUN.set(()).is_err() {
        return Ok(());
    }
    let signal = |kind| signal(kind).map_err(|error| CliError::bug(&format!("no signals: {error}")));
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::spawn(async move {
        let exit = tokio::select! {
            _ = interrupt.recv() => Exit::Aborted,
            _ = terminate.recv() => Exit::Stopped,
        };
        while !is_stuck() {
            tokio::time::sleep(LOOK).await;
        }
        let owner = OWNER.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        if let Some(owner) = owner {
            // The process ends even if the shutdown fails: committed entries are durable.
            let _ = tokio::time::timeout(LEAVING, owner.leave(Duration::ZERO)).await;
        }
        crate::keyboard::give_back();
        std::process::exit(i32::from(exit as u8));
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r44_a_notification_has_the_text_without_anything_that_a_terminal_obeys() {
        let check = |by: NotifyBy, text: &str, multiplexer: Multiplexer, expected: &str| {
            assert_eq!(notification(by, text, multiplexer), expected, "{by:?} {text:?} {multiplexer:?}");
        };
        check(NotifyBy::Bell, "done", Multiplexer::Other, "\x07");
        check(NotifyBy::Osc9, "main is done", Multiplexer::None, "\x1b]9;main is done\x07");
        check(NotifyBy::Osc777, "a;b", Multiplexer::None, "\x1b]777;notify;limulus;a,b\x07");
        check(NotifyBy::Osc777, "a", Multiplexer::Tmux, "\x1bPtmux;\x1b\x1b]777;notify;limulus;a\x07\x1b\\");
        check(NotifyBy::Osc9, "a", Multiplexer::Other, "");
        for hostile in ["x\x07\x1b]52;c;aGk=\x07", "x\x1b\\\x1b[2J", "x\u{9c}\u{9b}2J", "\r\n\t\0x", "\u{202e}x"] {
            for by in [NotifyBy::Osc9, NotifyBy::Osc777] {
                let sent = notification(by, hostile, Multiplexer::None);
                let inner = sent.strip_prefix("\x1b]").and_then(|rest| rest.strip_suffix('\x07')).unwrap();
                assert!(!inner.contains(|c: char| c.is_control() || views::is_unsafe(c)), "{sent:?}");
                let most = if by == NotifyBy::Osc9 { 1 } else { 3 };
                assert_eq!(inner.matches(';').count(), most, "{sent:?}");
            }
        }
        assert!(notification(NotifyBy::Osc9, &"x".repeat(5_000), Multiplexer::None).len() < 250);
    }

    #[test]
    fn r09_colours_follow_the_flag_and_then_the_conventions_of_the_environment() {
        let check = |when, is_terminal, set: &[(&str, &str)], expected| {
            let variable =
                |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            assert_eq!(has_colors(when, is_terminal, variable), expected, "{when:?} {is_terminal} {set:?}");
        };
        let auto = ColorWhen::Auto;
        check(auto, true, &[("TERM", "xterm")], true);
        check(auto, true, &[], false);
        check(auto, true, &[("TERM", "")], false);
        check(auto, false, &[], false);
        check(auto, true, &[("NO_COLOR", "1")], false);
        check(auto, true, &[("NO_COLOR", ""), ("TERM", "xterm")], true);
        check(auto, true, &[("CLICOLOR", "0"), ("TERM", "xterm")], false);
        check(auto, true, &[("CLICOLOR", "1"), ("TERM", "xterm")], true);
        check(auto, true, &[("TERM", "dumb")], false);
        check(auto, false, &[("CLICOLOR_FORCE", "1")], true);
        check(auto, false, &[("CLICOLOR_FORCE", "0")], false);
        check(auto, false, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false);
        check(ColorWhen::Never, true, &[("CLICOLOR_FORCE", "1")], false);
        check(ColorWhen::Always, false, &[("NO_COLOR", "1")], true);
    }

    #[test]
    fn r09_without_colours_nothing_is_written_but_text_and_movements() {
        let parts = [Part::Control(Control::Added), Part::Text("+a\u{1b}[1m"), Part::Control(Control::Plain)];
        assert_eq!(drawn(&parts, true), "\u{1b}[32m+a\\u001b[1m\u{1b}[0m");
        assert_eq!(drawn(&parts, false), "+a\\u001b[1m");
        assert_eq!(drawn(&[Part::Control(Control::EraseLine)], false), "\r\u{1b}[2K");
        let up = "\u{1b}[1A\u{1b}[2K";
        assert_eq!(drawn(&[Part::Control(Control::EraseLines(2))], false), format!("\r\u{1b}[J{up}{up}"));
    }
}
