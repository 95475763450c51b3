//! The screen of commands that follow sessions: draws their lines for a terminal, for a pipe, or as JSON. What is written
//! stays, but for an answer that may be retracted and the footer, which is erased before anything else is written.

mod answer;
mod calls;
mod footer;
mod lines;
mod messages;
mod plan;
mod status;

use engine::{RunId, Timestamp};
use protocol::Event;
use protocol::event::{AssistantLine, Delta, LifecycleLine, PlanLine, StateLine, Stream, ToolLine};
use protocol::notice::DiskFull;
use protocol::show::BackgroundCommand;
use serde_json::json;

use self::answer::Answer;
use self::calls::Calls;
use self::footer::Footer;
use self::messages::Messages;
use self::status::Status;
use super::{Style, vocabulary};
use crate::commands::background;
use crate::commands::paused::WaitLine;
use crate::commands::result::ResultLine;
use crate::output::{self, Output};
use crate::show::json_line;

pub(crate) use self::footer::SPINNER;
pub(crate) use self::lines::Asks;

/// The state of the screen.
pub(crate) struct Screen {
    style: Style,
    /// Whether stderr is a terminal on which something can be drawn again.
    live: bool,
    sessions: usize,
    footer: Footer,
    status: Status,
    answer: Answer,
    calls: Calls,
    messages: Messages,
    at_line_start: bool,
    stdout: Stdout,
}

/// What a closed stdout means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stdout {
    /// A run works, and goes on without it.
    Optional,
    /// The command only shows, and ends.
    Needed,
    /// It is closed, and that was said.
    Closed,
}

impl Screen {
    pub(crate) fn new(style: Style, sessions: usize) -> Self {
        Self {
            style,
            live: Output::Stderr.can_redraw(),
            sessions,
            footer: Footer::default(),
            status: Status::default(),
            answer: Answer::new(style),
            calls: Calls::default(),
            messages: Messages::default(),
            at_line_start: true,
            stdout: Stdout::Optional,
        }
    }

    /// From now on the command ends when nobody reads its stdout any more: it owns nothing and only shows.
    pub(crate) fn end_with_stdout(&mut self) {
        self.stdout = Stdout::Needed;
    }

    /// Draws a line of a stream, in the style of this screen.
    pub(crate) fn draw(&mut self, event: &Event) {
        if self.style == Style::Json {
            let line = serde_json::to_string(event).expect("a line is plain data");
            self.out(&format!("{line}\n"));
        } else {
            self.draw_line(event);
        }
        let begins_to_queue = self.status.see(event);
        // On a pipe, where no line is redrawn, this is reported once.
        if let Some(wait) = begins_to_queue.filter(|_| !self.live && self.style != Style::Json) {
            self.say(&format!("… queued behind {}", wait.behind_whom()));
        }
        let is_piece = match &event.what {
            Stream::Tool(ToolLine::Update(_)) | Stream::Assistant(AssistantLine::Delta(_)) | Stream::Reasoning(_) => {
                true
            }
            Stream::Tool(_)
            | Stream::Assistant(_)
            | Stream::State(_)
            | Stream::Queue(_)
            | Stream::Lifecycle(_)
            | Stream::Compaction(_)
            | Stream::Usage(_)
            | Stream::Delivery(_)
            | Stream::Plan(_) => false,
        };
        // More of the same waits for its frame, and what is drawn meanwhile with it.
        if !is_piece || self.footer.is_due() {
            self.tick();
        }
    }

    /// Draws what went out of a session whose run has ended. The result is the last line of JSON.
    pub(crate) fn draw_delivery(&mut self, event: &Event) {
        if self.style != Style::Json && matches!(event.what, Stream::Delivery(_)) {
            self.draw(event);
        }
    }

    /// Draws the whole answer of a run that had ended before.
    pub(crate) fn draw_again(&mut self, event: &Event) {
        match event.run_end() {
            Some(_) if self.style == Style::Notes => {}
            Some(end) if self.style != Style::Json => {
                self.out_whole(&end.text);
                self.leave_unfinished();
            }
            _ => self.draw(event),
        }
    }

    fn draw_line(&mut self, event: &Event) {
        match &event.what {
            Stream::Assistant(line) => self.draw_answer(event, line),
            Stream::Tool(ToolLine::Start { .. }) => self.call_started(event),
            Stream::Tool(ToolLine::Update(piece)) => self.calls.wrote(piece),
            Stream::Tool(ToolLine::End { .. }) => self.call_settled(event),
            Stream::Plan(PlanLine::Set { call, items }) => self.plan_set(event, *call, items),
            Stream::State(StateLine::Rewound { .. }) => {
                self.retract();
                self.note(event, vocabulary::REWOUND);
            }
            what => {
                if matches!(what, Stream::Lifecycle(LifecycleLine::End(_) | LifecycleLine::Error(_))) {
                    self.leave_unfinished();
                }
                self.see_message(event);
                if let Some(note) = vocabulary::note(event) {
                    self.note(event, &note);
                }
            }
        }
    }

    fn draw_answer(&mut self, event: &Event, line: &AssistantLine) {
        match line {
            AssistantLine::Delta(Delta { effect, text, .. }) => {
                if self.style == Style::Terminal {
                    self.stream(*effect, text);
                }
            }
            AssistantLine::Struck { .. } => self.retract(),
            AssistantLine::Cut { cause, .. } => self.note(event, &vocabulary::interrupted(*cause)),
            AssistantLine::Message { .. } if self.style == Style::Notes => {}
            AssistantLine::Message { effect, text, continues, .. } => {
                self.sealed(*effect, text.as_deref(), *continues);
            }
        }
    }

    /// Shows which sessions wait for space: once as a line, then in the status line until they continue.
    pub(crate) fn disk_full(&mut self, notice: &DiskFull) {
        let waits = notice.sessions.first().map(|session| vocabulary::disk_full(session, notice.needs_bytes));
        let waited = self.status.set_disk_full(waits.clone());
        let line = match (&waits, waited) {
            (Some(note), false) => format!("… {note}; it continues by itself"),
            (None, true) => "… there is space again".to_owned(),
            (Some(_), true) | (None, false) => return self.tick(),
        };
        if self.style == Style::Json {
            let what = if waited { "unparked" } else { "parked" };
            let sessions: Vec<&String> = notice.sessions.iter().map(|session| &session.session_key).collect();
            let line =
                json!({ "stream": "state", "type": what, "sessions": sessions, "needs_bytes": notice.needs_bytes });
            self.out(&format!("{line}\n"));
        }
        self.say(&line);
        self.tick();
    }

    /// Shows the background commands that a run leaves: a line each to a person, one line to a program.
    pub(crate) fn still_running(&mut self, run: RunId, session: &str, still: &[BackgroundCommand], now: Timestamp) {
        if still.is_empty() {
            return;
        }
        if self.style == Style::Json {
            let line = json!({
                "stream": "state", "type": "still_running", "session": session, "run": run, "at": now, "commands": still
            });
            self.out(&format!("{line}\n"));
        }
        if self.is_watched() {
            for command in still {
                self.say(&background::line(command, now));
            }
        }
    }

    /// Writes the result of a message, for a program.
    pub(crate) fn result(&mut self, result: &ResultLine<'_>) {
        self.out(&result.line());
    }

    /// Says on stderr what the command waits for: a line for a person, or one of JSON for a program.
    pub(crate) fn waits(&mut self, text: &str, line: &WaitLine<'_>) {
        if self.style == Style::Json {
            output::say_text(&json_line(line));
        } else {
            self.say(&format!("… {text}"));
        }
    }

    /// The run to ask about, if it waits for long and its status line does not say what for.
    pub(crate) fn wants_explanation(&mut self) -> Option<RunId> {
        self.status.wants_explanation().filter(|_| self.live && self.sessions == 1)
    }

    /// Shows what a run waits for.
    pub(crate) fn explained(&mut self, run: RunId, waits_for: Option<String>) {
        self.status.explained(run, waits_for);
        self.tick();
    }

    /// Prints nothing more on stdout.
    pub(crate) fn leave_stdout(&mut self) {
        self.style = Style::Notes;
        self.answer = Answer::new(self.style);
    }

    /// Whether a person watches a run here: answers stream to a terminal, and so do notes.
    pub(crate) fn is_watched(&self) -> bool {
        self.live && self.style == Style::Terminal
    }

    /// Whether what a person types here has a row of its own.
    pub(crate) fn shows_input(&self) -> bool {
        self.live && self.style != Style::Json
    }

    /// A note about an event, with the name of its session if several are followed.
    fn note(&mut self, event: &Event, note: &str) {
        if self.sessions > 1 {
            self.say(&format!("[{}] {note}", event.session));
        } else {
            self.say(note);
        }
    }
}

/// What is open of an answer stays on the screen, also if its end never came.
impl Drop for Screen {
    fn drop(&mut self) {
        if self.answer.is_rendered() {
            self.leave_unfinished();
            self.hide_status();
        }
    }
}
