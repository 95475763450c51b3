//! Calls for the user of a terminal when a run waits for a person or is done, if nobody was needed for a while: by the terminal, or
//! by a program of the user. What a model or a file said is data for both.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use config::{Config, Notifications};
use engine::CallId;
use protocol::Event;
use protocol::event::{LifecycleLine, Stream};
use protocol::notice::{Answered, Asked};
use serde_json::json;

use crate::ended_program::NOTIFICATION;
use crate::output::{Multiplexer, Output};
use crate::show::human::{excerpt, printable_line, session_name};

/// Characters of a text.
const TEXT_CHARS: usize = 300;
/// Open questions that are known at most. A further one is not called for; they are answered one after the other.
const QUESTIONS: usize = 64;

/// Calls for the user of this terminal.
#[derive(Debug)]
pub(crate) struct Notifier {
    /// None if nobody is called.
    how: Option<Notifications>,
    /// When the user was last needed or seen.
    since: Instant,
    questions: Vec<Question>,
}

#[derive(Debug)]
struct Question {
    call: CallId,
    session: String,
    text: String,
    is_notified: bool,
}

/// Why the user is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    Asks,
    Done,
    Failed,
}

impl Why {
    fn name(self) -> &'static str {
        match self {
            Self::Asks => "asks",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

impl Notifier {
    /// As configured. A pipe, a terminal that takes lines only, and one that gets JSON call nobody.
    pub(crate) fn of(config: &Config, as_json: bool) -> Self {
        let is_watched = Output::Stdout.can_redraw() && !as_json;
        Self { how: config.notifications().filter(|_| is_watched), ..Self::off() }
    }

    /// One that calls nobody.
    pub(crate) fn off() -> Self {
        Self { how: None, since: Instant::now(), questions: vec![] }
    }

    /// The user did something here.
    pub(crate) fn seen(&mut self) {
        self.since = Instant::now();
    }

    /// A question is open.
    pub(crate) fn asked(&mut self, asked: &Asked) {
        if self.how.is_some()
            && self.questions.len() < QUESTIONS
            && !self.questions.iter().any(|open| open.call == asked.call)
        {
            let (session, text) = (asked.session.clone(), asked.question.clone());
            self.questions.push(Question { call: asked.call, session, text, is_notified: false });
        }
    }

    /// Questions were answered, here or elsewhere.
    pub(crate) fn answered(&mut self, answered: &Answered) {
        self.questions.retain(|open| answered.call != Some(open.call) && answered.run != Some(open.call.run));
    }

    /// The user answered this question here.
    pub(crate) fn resolved(&mut self, call: CallId) {
        self.questions.retain(|open| open.call != call);
        self.seen();
    }

    /// Time passes: a question that waits long enough calls for the user, once.
    pub(crate) fn tick(&mut self) {
        if !self.is_due() || self.questions.iter().all(|open| open.is_notified) {
            return;
        }
        let Some(first) = self.questions.iter().find(|open| !open.is_notified) else { return };
        let text = format!("{} asks: {}", session_name(&first.session), first.text);
        self.call(Why::Asks, &first.session, &text);
        self.questions.iter_mut().for_each(|open| open.is_notified = true);
    }

    /// A line of a run that is followed.
    pub(crate) fn line(&mut self, event: &Event) {
        let name = session_name(&event.session);
        let (why, text) = match &event.what {
            Stream::Lifecycle(LifecycleLine::End(_)) => (Why::Done, format!("{name} is done")),
            Stream::Lifecycle(LifecycleLine::Error(end)) => {
                (Why::Failed, format!("{name}: {}", end.error.as_deref().unwrap_or("the run has failed")))
            }
            _ => return,
        };
        if self.is_due() {
            self.call(why, &event.session, &text);
        }
        // What comes next is another run.
        self.seen();
    }

    fn is_due(&self) -> bool {
        self.how.as_ref().is_some_and(|how| self.since.elapsed() >= how.after)
    }

    fn call(&self, why: Why, session: &str, text: &str) {
        let Some(how) = &self.how else { return };
        let text = excerpt(&printable_line(text), TEXT_CHARS);
        // The shell has the terminal of a process in the background.
        if !Output::Stdout.is_in_background() {
            let multiplexer = multiplexer(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
            how.by.iter().for_each(|by| Output::Stdout.notify(*by, &text, multiplexer));
        }
        if !how.command.is_empty() {
            // A program that cannot be started calls nobody; the run is not about it.
            let _ = start(&how.command, why, session, &text);
        }
    }
}

fn multiplexer(is_set: impl Fn(&str) -> bool) -> Multiplexer {
    match (is_set("TMUX"), is_set("STY")) {
        (true, _) => Multiplexer::Tmux,
        (false, true) => Multiplexer::Other,
        (false, false) => Multiplexer::None,
    }
}

/// Starts the program of the user, under a process that ends it after a while, also if this one has ended.
fn start(command: &[String], why: Why, session: &str, text: &str) -> std::io::Result<()> {
    let mut program = Command::new(tools::THIS_PROGRAM);
    // A text that begins so would be taken for an option.
    let argument = if text.starts_with('-') { format!(" {text}") } else { text.to_owned() };
    program.arg(NOTIFICATION).args(command).arg(argument);
    program.env("NOTIFY_EVENT", why.name()).env("NOTIFY_SESSION", session).env("NOTIFY_TEXT", text);
    program.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let mut child = program.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A pipe has room for it, so nobody waits. A program that does not read it has the text elsewhere.
        let _ = writeln!(stdin, "{}", json!({ "event": why.name(), "session": session, "text": text }));
    }
    // Somebody must learn of its end.
    thread::Builder::new().name("notification".to_owned()).spawn(move || child.wait())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r60_inside_a_multiplexer_only_tmux_gets_sequences() {
        assert_eq!(multiplexer(|_| false), Multiplexer::None);
        assert_eq!(multiplexer(|name| name == "TMUX"), Multiplexer::Tmux);
        assert_eq!(multiplexer(|name| name == "STY"), Multiplexer::Other);
    }
}
