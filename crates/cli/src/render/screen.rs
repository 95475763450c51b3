//! The screen of commands that follow sessions: draws their lines for a terminal, for a pipe, or as JSON.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use engine::tables::lifecycle::LifecycleKind;
use engine::tables::transitions::RunState;
use engine::{CallId, EffectId, Timestamp, Usage, WaitFor};
use protocol::Event;
use protocol::event::{AssistantLine, Delta, LifecycleLine, QueueLine, StateLine, Stream, ToolLine, UsageLine};
use protocol::method::BudgetLine;
use protocol::notice::DiskFull;
use protocol::show::LaneWait;
use serde_json::json;
use unicode_width::UnicodeWidthChar as _;
use views::{AnswerText, PrintableAnswer};

use super::calls::{self, CallEnd};
use super::{rows, vocabulary};
use crate::output::{Control, Output, Part};
use crate::show::human::{self, excerpt};

/// How lines are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// One JSON object a line.
    Json,
    /// Text as it streams; retracted text is erased.
    Terminal,
    /// Each message when it is sealed.
    Plain,
    /// Nothing on stdout: only notes.
    Notes,
}

impl Style {
    /// The mode for this stdout. The texts of several sessions are never streamed into one another.
    pub(crate) fn of_stdout(json: bool, sessions: usize) -> Self {
        match (json, Output::Stdout.is_terminal() && sessions < 2) {
            (true, _) => Self::Json,
            (false, true) => Self::Terminal,
            (false, false) => Self::Plain,
        }
    }
}

/// The frames of the spinner.
pub(crate) const SPINNER: [char; 8] = ['⣾', '⣽', '⣻', '⢿', '⡿', '⣟', '⣯', '⣷'];

/// Maximum characters of the arguments of a call in a line, where a question shows what matters.
const ARGUMENT_CHARS: usize = 100;
/// The same if no question shows the call: as many as a question quotes.
const WHOLE_ARGUMENT_CHARS: usize = 8 << 10;
/// Maximum characters of what a run does, in the status line.
const STATUS_CHARS: usize = 60;
/// Maximum characters of the name of a tool, which a model may have made up.
const TOOL_CHARS: usize = 80;

/// The text of an open stream, with the notes below it.
struct OpenText {
    effect: EffectId,
    /// What stands before it in its first line: the end of the message that it continues.
    before: String,
    /// Everything written to the terminal since its first character.
    written: String,
    /// What stays if it is retracted.
    notes: Vec<String>,
}

/// A running call.
struct Started {
    at: Timestamp,
    /// What it does, if that is known and shown.
    sentence: Option<String>,
}

/// Of which calls the output is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    Failures,
    /// Of all, because the session wants it.
    SessionAll,
    /// Of all, because this command wants it.
    All,
}

/// The content of the last line of stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastLine {
    Free,
    Status,
    /// A question; the user types the answer after it.
    Prompt,
}

/// The state of the screen.
pub(crate) struct Screen {
    style: Style,
    live: bool,
    status: Option<String>,
    /// What the run waits for without a human.
    waits_for: Option<String>,
    /// The status while sessions wait for space.
    disk_full: Option<String>,
    /// The wait in a lane, and how long it had lasted when it was reported.
    queued: Option<(LaneWait, Duration, Instant)>,
    last_line: LastLine,
    ticks: usize,
    /// Text on the screen that may still be retracted.
    open: Option<OpenText>,
    /// What is on its way to the screen.
    answer: AnswerText,
    /// The last line of a message that the next one continues.
    unfinished: String,
    at_line_start: bool,
    /// Start times of the running calls.
    started: BTreeMap<CallId, Started>,
    /// The call whose line is the last thing on stderr, in one row.
    last_call: Option<CallId>,
    sessions: usize,
    detail: Detail,
    /// When the run that is shown began to be busy, and what it has used since.
    busy_since: Option<Instant>,
    used: Option<Usage>,
    /// Maximum characters of the arguments of a call in a line.
    argument_chars: usize,
}

impl Screen {
    pub(crate) fn new(style: Style, sessions: usize) -> Self {
        Self {
            style,
            live: Output::Stderr.is_terminal(),
            status: None,
            waits_for: None,
            disk_full: None,
            queued: None,
            last_line: LastLine::Free,
            ticks: 0,
            open: None,
            answer: AnswerText::default(),
            unfinished: String::new(),
            at_line_start: true,
            started: BTreeMap::new(),
            last_call: None,
            sessions,
            detail: Detail::Failures,
            busy_since: None,
            used: None,
            argument_chars: ARGUMENT_CHARS,
        }
    }

    /// Draws a line of a stream, in the style of this screen.
    pub(crate) fn draw(&mut self, event: &Event) {
        self.hide_status();
        if self.style == Style::Json {
            let line = serde_json::to_string(event).expect("a line is plain data");
            self.out(&format!("{line}\n"));
        } else {
            self.draw_line(event);
        }
        self.queue(&event.what);
        if let Stream::State(StateLine::Waiting { on: WaitFor::Quota, until, .. }) = &event.what {
            self.waits_for = Some(vocabulary::waits_for_a_model(*until));
            self.status.clone_from(&self.waits_for);
        }
        if let Stream::State(StateLine::Waiting { on: WaitFor::Budget, budget, .. }) = &event.what {
            let figures = budget.as_ref().and_then(BudgetLine::as_limit).map(|limit| format!(": {}", limit.figures()));
            self.waits_for = Some(format!("waits for more to spend{}", figures.unwrap_or_default()));
            self.status.clone_from(&self.waits_for);
        }
        if let Stream::State(StateLine::Changed { state, lifecycle, flags, .. }) = &event.what {
            let is_idle = matches!(lifecycle, LifecycleKind::Idle | LifecycleKind::Ready) && !flags.is_waiting;
            // A question on the screen already shows what the run waits for.
            let quiet = is_idle || flags.is_blocked;
            self.waits_for = self.waits_for.take().filter(|_| *state == RunState::Awaiting);
            let waits_for = self.waits_for.clone();
            self.status = waits_for.or_else(|| (!quiet).then(|| vocabulary::state(*state, *flags).to_owned()));
            if is_idle {
                (self.busy_since, self.used) = (None, None);
            } else {
                self.busy_since.get_or_insert_with(Instant::now);
            }
        }
        if let Stream::Usage(UsageLine::Run { usage, .. }) = &event.what {
            self.used = Some(*usage);
        }
        self.tick();
    }

    /// Whether the run is queued. On a pipe, where no line is redrawn, this is reported once.
    fn queue(&mut self, what: &Stream) {
        match what {
            Stream::Queue(QueueLine::Waiting { waited_ms, wait, .. }) => {
                let begins = self.queued.is_none() && *waited_ms < 1_000;
                if begins && !self.live && self.style != Style::Json {
                    self.say(&format!("… queued behind {}", wait.behind_whom()));
                }
                self.queued = Some((wait.clone(), Duration::from_millis(*waited_ms), Instant::now()));
            }
            Stream::Queue(QueueLine::Entered { .. }) | Stream::State(StateLine::Changed { .. }) => self.queued = None,
            // Another message of the session does not change this wait.
            Stream::Queue(QueueLine::Accepted { .. } | QueueLine::Settled { .. } | QueueLine::Shows)
            | Stream::Lifecycle(_)
            | Stream::Assistant(_)
            | Stream::Reasoning(_)
            | Stream::Compaction(_)
            | Stream::Tool(_)
            | Stream::Usage(_)
            | Stream::State(_) => {}
        }
    }

    /// The current status line.
    fn status(&self) -> Option<String> {
        let queued = self.queued.as_ref().map(|(wait, waited, reported)| {
            vocabulary::queued_behind(wait, (*waited + reported.elapsed()).as_millis() as u64)
        });
        self.disk_full.clone().or(queued).or_else(|| self.waits_for.clone()).or_else(|| self.busy())
    }

    /// What the run does, for how long it has been busy, and what it has used.
    fn busy(&self) -> Option<String> {
        let status = self.status.clone()?;
        // The line of the call itself may be right above.
        let running = self.started.values().next_back().filter(|_| self.last_call.is_none());
        let running = running.and_then(|started| started.sentence.as_deref());
        let status = running.map_or(status, |sentence| excerpt(sentence, STATUS_CHARS));
        let seconds = self.busy_since.map(|since| since.elapsed().as_secs()).filter(|seconds| *seconds > 0);
        let time = seconds.map(|seconds| format!(" · {}", human::duration(seconds * 1_000))).unwrap_or_default();
        let used = self.used.map(|usage| usage.prompt() + usage.output).filter(|tokens| *tokens > 0);
        let tokens = used.map(|tokens| format!(" · {} tokens", human::rounded(tokens))).unwrap_or_default();
        Some(format!("{status}{time}{tokens}"))
    }

    /// Draws the whole answer of a run that had ended before.
    pub(crate) fn draw_again(&mut self, event: &Event) {
        match event.run_end() {
            Some(end) if self.style != Style::Json => {
                self.out(&end.text);
                self.end_line();
            }
            _ => self.draw(event),
        }
    }

    /// Draws the next frame of the spinner; called a few times a second.
    pub(crate) fn tick(&mut self) {
        let busy_text = self.open.is_some() && !self.at_line_start;
        if !self.live
            || self.last_line == LastLine::Prompt
            || busy_text
            || self.style == Style::Json && Output::Stdout.is_terminal()
        {
            return;
        }
        if let Some(status) = self.status() {
            let spinner = SPINNER[self.ticks % SPINNER.len()];
            self.ticks += 1;
            let line = rows::cut(&format!("{spinner} {status}"), Output::Stderr.width().saturating_sub(1));
            let (erase, dim, plain) = (Control::EraseLine, Control::Dim, Control::Plain);
            let parts = [Part::Control(erase), Part::Control(dim), Part::Text(&line), Part::Control(plain)];
            let _ = Output::Stderr.draw(&parts);
            self.last_line = LastLine::Status;
        }
    }

    /// Shows which sessions wait for space: once as a line, then in the status line until they continue.
    pub(crate) fn disk_full(&mut self, notice: &DiskFull) {
        let waited = self.disk_full.take().is_some();
        self.disk_full = notice.sessions.first().map(|session| vocabulary::disk_full(session, notice.needs_bytes));
        let line = match (&self.disk_full, waited) {
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

    /// Clears the status line before anything else is written.
    pub(crate) fn hide_status(&mut self) {
        if self.last_line == LastLine::Status {
            self.last_line = LastLine::Free;
            let _ = Output::Stderr.draw(&[Part::Control(Control::EraseLine)]);
        }
    }

    /// Leaves the line of a question that is not answered: it is asked again below what follows.
    fn leave_prompt(&mut self) {
        if self.last_line == LastLine::Prompt {
            self.last_line = LastLine::Free;
            let _ = Output::Stderr.write("\n");
        }
    }

    /// Prints a question on stderr; the user types the answer after it.
    /// What was typed until then is discarded before the mark for the answer is there.
    pub(crate) fn ask(&mut self, session: &str, question: &str, discard_input: impl FnOnce()) {
        self.hide_status();
        self.end_line();
        self.last_call = None;
        let whose = if self.sessions > 1 { format!("[{session}] ") } else { String::new() };
        let rows = rows::question(&format!("{whose}{question}"), Output::Stderr.width());
        let _ = Output::Stderr.write(&rows.join("\n"));
        discard_input();
        let _ = Output::Stderr.write(rows::ANSWER);
        self.last_line = LastLine::Prompt;
    }

    /// Whether a question is the last thing on the screen.
    pub(crate) fn is_asking(&self) -> bool {
        self.last_line == LastLine::Prompt
    }

    /// Marks the question as resolved, here or elsewhere.
    pub(crate) fn answered(&mut self) {
        self.last_line = LastLine::Free;
    }

    /// Prints a line on stderr.
    pub(crate) fn say(&mut self, text: &str) {
        self.last_call = None;
        self.hide_status();
        self.leave_prompt();
        // Elsewhere the two outputs do not mix, and an answer that is continued is one text.
        if self.style == Style::Terminal {
            self.end_line();
        }
        let line = if self.live { marked(text) } else { text.to_owned() } + "\n";
        let _ = Output::Stderr.write(&line);
        if let Some(open) = self.open.as_mut().filter(|_| self.live) {
            open.written.push_str(&Output::Stderr.shown(&line));
            open.notes.push(text.to_owned());
        }
    }

    fn draw_line(&mut self, event: &Event) {
        match &event.what {
            Stream::Assistant(line) => self.draw_answer(event, line),
            Stream::Tool(ToolLine::Start { call, tool, arguments, .. }) => {
                let sentence = calls::sentence(tool, arguments).filter(|_| self.live);
                self.call(event, (*call, tool, arguments), sentence.as_deref());
                self.started.insert(*call, Started { at: event.at, sentence });
            }
            Stream::Tool(ToolLine::End { call, tool, outcome, bytes, output, lines, tail }) => {
                let started = self.started.remove(call);
                let took_ms = started.as_ref().map(|started| event.at.since(started.at));
                let (tail, lines) = (tail.as_deref(), *lines);
                let end = CallEnd { outcome: *outcome, output, tail, lines, took_ms };
                match started.and_then(|started| started.sentence).filter(|_| self.live) {
                    Some(sentence) => self.call_ended(event, *call, (tool, &sentence), &end),
                    None => self.call_noted(event, (tool, *bytes), &end),
                }
            }
            Stream::State(StateLine::Rewound { .. }) => {
                self.retract();
                self.note(event, vocabulary::REWOUND);
            }
            what => {
                if matches!(what, Stream::Lifecycle(LifecycleLine::End(_) | LifecycleLine::Error(_))) {
                    // The rest of an answer may never have come.
                    self.unfinished.clear();
                    self.end_line();
                }
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
                self.sealed(*effect, text.as_deref());
                if *continues {
                    self.unfinished = last_line(&self.unfinished, text.as_deref().unwrap_or_default());
                } else {
                    self.unfinished.clear();
                    self.end_line();
                }
            }
        }
    }

    /// Prints nothing more on stdout.
    pub(crate) fn leave_stdout(&mut self) {
        self.style = Style::Notes;
    }

    /// Sets whether the session wants the output of calls to be shown.
    pub(crate) fn set_verbose(&mut self, verbose: bool) {
        if self.detail != Detail::All {
            self.detail = if verbose { Detail::SessionAll } else { Detail::Failures };
        }
    }

    /// Shows the output of every call, whatever the session says.
    pub(crate) fn show_detail(&mut self) {
        self.detail = Detail::All;
    }

    /// Whether a person watches a run here: answers stream to a terminal, and so do notes.
    pub(crate) fn is_watched(&self) -> bool {
        self.live && self.style == Style::Terminal
    }

    fn is_detailed(&self) -> bool {
        self.detail != Detail::Failures
    }

    /// Sets that the line of a call shows all of a command.
    pub(crate) fn show_whole_calls(&mut self) {
        self.argument_chars = WHOLE_ARGUMENT_CHARS;
    }

    /// The line of a call. What does not fit is counted, and on a terminal its further rows are marked.
    fn call(&mut self, event: &Event, (id, tool, arguments): (CallId, &str, &str), sentence: Option<&str>) {
        let line = match sentence {
            Some(sentence) => cut_arguments(sentence, self.argument_chars),
            None => format!("{} {}", excerpt(tool, TOOL_CHARS), cut_arguments(arguments, self.argument_chars)),
        };
        if !self.live {
            return self.note(event, &format!("▸ {line}"));
        }
        let whose = if self.sessions > 1 { format!("[{}] ", event.session) } else { String::new() };
        let mark = if sentence.is_some() { "" } else { "▸ " };
        let rows = rows::rows(&format!("{whose}{mark}"), &line, Output::Stderr.width());
        self.say(&rows.join("\n"));
        let is_alone = rows.len() == 1 && sentence.is_some_and(|sentence| sentence == line);
        self.last_call = Some(id).filter(|_| is_alone && self.open.is_none());
    }

    /// The end of a call on a terminal: its line says how it ended, in the place where it says what the call does if that is
    /// the last line.
    fn call_ended(&mut self, event: &Event, call: CallId, (tool, sentence): (&str, &str), end: &CallEnd<'_>) {
        self.hide_status();
        if self.last_call.take() == Some(call) {
            let _ = Output::Stderr.draw(&[Part::Control(Control::EraseLines(1))]);
        }
        let sentence = cut_arguments(sentence, ARGUMENT_CHARS);
        let whose = if self.sessions > 1 { format!("[{}] ", event.session) } else { String::new() };
        let line = rows::rows(&whose, &calls::ended(tool, &sentence, end), Output::Stderr.width());
        self.say(&line.join("\n"));
        for line in calls::below(end, self.is_detailed()) {
            self.say(&rows::cut(&line, Output::Stderr.width().saturating_sub(1)));
        }
    }

    /// The end of a call in a pipe, or of one that has no sentence.
    fn call_noted(&mut self, event: &Event, (tool, bytes): (&str, u64), end: &CallEnd<'_>) {
        let time = end.took_ms.map(|ms| format!(" · {ms} ms")).unwrap_or_default();
        let (mark, outcome) = (vocabulary::mark(end.outcome), vocabulary::plain(&end.outcome));
        let tool = excerpt(tool, TOOL_CHARS);
        self.note(event, &format!("{mark} {tool} {outcome}{time} · {bytes} bytes"));
        let below = match (self.live, self.is_detailed()) {
            (true, is_detailed) => calls::below(end, is_detailed),
            (false, true) => calls::beginning(end.output),
            (false, false) => vec![],
        };
        match calls::limit(end).filter(|_| below.is_empty()) {
            Some(limit) => self.note(event, &format!("  {limit}")),
            None => below.iter().for_each(|line| self.note(event, line)),
        }
    }

    fn note(&mut self, event: &Event, note: &str) {
        if self.sessions > 1 {
            self.say(&format!("[{}] {note}", event.session));
        } else {
            self.say(note);
        }
    }

    fn stream(&mut self, effect: EffectId, text: &str) {
        if self.open.as_ref().is_none_or(|open| open.effect != effect) {
            self.release_answer();
            let before = if self.at_line_start { String::new() } else { self.unfinished.clone() };
            self.open =
                Some(OpenText { effect, written: Output::Stdout.shown(&before).into_owned(), before, notes: vec![] });
        }
        let shown = self.answer.push(text);
        self.out_answer(&shown);
    }

    /// Shows what of a streamed text waited for its next part.
    fn release_answer(&mut self) {
        let rest = self.answer.finish();
        self.out_answer(&rest);
    }

    fn sealed(&mut self, effect: EffectId, text: Option<&str>) {
        self.release_answer();
        let streamed = self.open.take().is_some_and(|open| open.effect == effect);
        if let Some(text) = text.filter(|_| !streamed) {
            self.out(text);
        }
    }

    /// Erases the open text if it is still on the screen, and prints the notes below it again.
    fn retract(&mut self) {
        self.answer = AnswerText::default();
        let Some(open) = self.open.take() else { return };
        self.leave_prompt();
        let rows = rows_of(&open.written, Output::Stdout.width());
        let _ = Output::Stdout.draw(&[Part::Control(Control::EraseLines(rows))]);
        self.at_line_start = true;
        self.out(&open.before);
        for note in open.notes {
            self.say(&note);
        }
    }

    fn end_line(&mut self) {
        if !self.at_line_start && self.style != Style::Notes {
            self.out("\n");
        }
    }

    fn out(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.leave_prompt();
        self.last_call = None;
        // A closed pipe ends the process elsewhere (SIGPIPE); committed entries are durable.
        let _ = Output::Stdout.write(text);
        self.wrote(&Output::Stdout.shown(text));
    }

    fn out_answer(&mut self, text: &PrintableAnswer) {
        if text.as_str().is_empty() {
            return;
        }
        self.leave_prompt();
        self.last_call = None;
        let _ = Output::Stdout.write_answer(text);
        self.wrote(text.as_str());
    }

    /// Notes what is on the screen now.
    fn wrote(&mut self, text: &str) {
        self.at_line_start = text.ends_with('\n');
        if let Some(open) = &mut self.open {
            open.written.push_str(text);
        }
    }
}

/// The last line of a text whose first line continues `before`.
fn last_line(before: &str, text: &str) -> String {
    text.rsplit_once('\n').map_or_else(|| format!("{before}{text}"), |(_, last)| last.to_owned())
}

/// The beginning of the arguments of a call, and how much more there is.
fn cut_arguments(arguments: &str, most: usize) -> String {
    let end = arguments.char_indices().nth(most).map_or(arguments.len(), |(at, _)| at);
    let shown = arguments[..end].replace('\n', " ");
    match arguments[end..].chars().count() {
        0 => shown,
        more => format!("{shown}… ({more} characters more)"),
    }
}

/// A text of several lines: each but the first is indented, so that it looks like no line of its own.
fn marked(text: &str) -> String {
    let mut lines = text.split('\n');
    let mut marked = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        marked.push_str(if line.starts_with("  ") { "\n" } else { "\n  " });
        marked.push_str(line);
    }
    marked
}

/// The number of rows between the start of a text, written from the start of a row, and the cursor. Where terminals differ
/// (joined emoji), the smaller number: nothing above the text may be erased.
fn rows_of(text: &str, width: usize) -> usize {
    let width = width.max(1);
    let (mut rows, mut column, mut joined) = (0, 0, false);
    for c in text.chars() {
        let is_part = std::mem::replace(&mut joined, c == '\u{200D}') || ('\u{1F3FB}'..='\u{1F3FF}').contains(&c);
        match (c, if is_part { 0 } else { c.width().unwrap_or(0) }) {
            ('\n', _) => (rows, column) = (rows + 1, 0),
            ('\t', _) => column = (column / 8 * 8 + 8).min(width - 1),
            // A wide character that does not fit moves to the next row; a full row ends only when another character
            // follows.
            (_, cells) if column + cells > width => (rows, column) = (rows + 1, cells),
            (_, cells) => column += cells,
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::{cut_arguments, marked, rows_of};

    #[test]
    fn r09_what_is_cut_of_a_call_is_counted() {
        assert_eq!(cut_arguments("abc", 3), "abc");
        assert_eq!(cut_arguments("好好好好", 3), "好好好… (1 characters more)");
        assert_eq!(cut_arguments("a\nb", 9), "a b");
    }

    #[test]
    fn r09_the_lines_of_a_note_are_indented() {
        assert_eq!(marked("✗ a\n✓ read done\n  hint: b"), "✗ a\n  ✓ read done\n  hint: b");
    }

    #[test]
    fn rows_count_breaks_and_wrapping() {
        for (text, width, rows) in [
            ("", 10, 0),
            ("abc", 10, 0),
            ("abc\ndef", 10, 1),
            ("abcdefghijk", 10, 1),
            ("abcdefghij", 10, 0),
            ("abcdefghij\n", 10, 1),
            ("好好好好好好", 10, 1),
            ("a好好好好好好好好好", 10, 1),
            ("好好好", 3, 2),
            // Up to three emoji, or one.
            ("👩\u{200d}👩\u{200d}👧👍🏽", 4, 0),
        ] {
            assert_eq!(rows_of(text, width), rows, "{text:?}");
        }
    }
}
