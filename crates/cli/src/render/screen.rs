//! The screen of `agent` and `resume`: a stream of committed batches drawn for a terminal, for a pipe, or as JSON.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _, stderr, stdout};
use std::sync::Arc;

use engine::{Batch, CallId, EffectId, Event, Flags, Record, Seq, SessionRow, Timestamp, Views};
use journal::{Entry, ROOM_BYTES, Read};
use runtime::{Lines, Parked, Published};
use serde_json::json;
use unicode_width::UnicodeWidthChar as _;

use super::words;

/// How it is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// One JSON object a line.
    Json,
    /// Text as it streams; struck text is erased.
    Terminal,
    /// Each message once it is sealed.
    Plain,
}

impl Style {
    /// What fits stdout. Several sessions at once are never streamed into one another.
    pub(crate) fn of_stdout(json: bool, sessions: usize) -> Self {
        match (json, stdout().is_terminal() && sessions < 2) {
            (true, _) => Self::Json,
            (false, true) => Self::Terminal,
            (false, false) => Self::Plain,
        }
    }
}

/// What turns while something is waited for.
pub(crate) const SPINNER: [char; 8] = ['⣾', '⣽', '⣻', '⢿', '⡿', '⣟', '⣯', '⣷'];

/// Characters of a call's arguments that a line shows.
const ARGUMENT_CHARS: usize = 100;

/// Text of an open stream, with what was said below it meanwhile.
struct OpenText {
    effect: EffectId,
    /// All that was written to the terminal since its first character.
    written: String,
    /// What stays when it is struck.
    notes: Vec<String>,
}

/// What is drawn, and what has been.
pub(crate) struct Screen {
    style: Style,
    store: Arc<dyn Read>,
    lines: Lines,
    live: bool,
    status: Option<String>,
    /// What is said while sessions wait for space.
    parked: Option<String>,
    status_shown: bool,
    ticks: usize,
    /// Text on the screen that may yet be struck.
    open: Option<OpenText>,
    at_line_start: bool,
    calls: BTreeMap<CallId, (String, Timestamp)>,
    sessions: usize,
}

impl Screen {
    pub(crate) fn new(style: Style, store: Arc<dyn Read>, sessions: usize) -> Self {
        Self {
            style,
            lines: Lines::new(Arc::clone(&store)),
            store,
            live: stderr().is_terminal(),
            status: None,
            parked: None,
            status_shown: false,
            ticks: 0,
            open: None,
            at_line_start: true,
            calls: BTreeMap::new(),
            sessions,
        }
    }

    /// Draws a committed batch.
    pub(crate) fn draw(&mut self, published: &Published) {
        self.hide_status();
        if self.style == Style::Json {
            for line in self.lines.of(published) {
                self.out(&format!("{line}\n"));
            }
        } else {
            for (id, tool, arguments) in runtime::asked_calls(published) {
                self.calls.insert(id, (call_line(&tool, &arguments), Timestamp(0)));
            }
            for record in &published.batch.records {
                self.draw_event(published, &record.event, record.at);
            }
        }
        let rests = matches!(published.lifecycle.name(), "idle" | "ready") && !published.flags.is_waiting;
        // A question on the screen says itself what is waited for, and its answer is typed behind it.
        let quiet = rests || published.flags.is_blocked;
        self.status = (!quiet).then(|| words::state(published.run_state, published.flags).to_owned());
        self.tick();
    }

    /// Draws the end of a run that ended before, as the journal has it.
    pub(crate) fn draw_again(&mut self, session: &SessionRow, end: &Entry) -> Result<(), journal::Error> {
        let Event::RunEnded(ended) = &end.event else { return Ok(()) };
        if self.style == Style::Json {
            let record = Record { seq: Some(end.seq), at: end.at, event: end.event.clone() };
            let batch = Batch {
                session: session.session,
                branch: session.branch,
                records: vec![record],
                bodies: vec![],
                views: Views::default(),
            };
            self.draw(&Published {
                session: session.session,
                key: session.key.as_str().into(),
                batch: Arc::new(batch),
                epoch: end.epoch,
                lifecycle: session.lifecycle,
                run_state: session.run_state,
                flags: Flags::default(),
            });
            return Ok(());
        }
        for body in &ended.text {
            let bytes = self.store.body(&body.hash)?.unwrap_or_default();
            self.out(&String::from_utf8_lossy(&bytes));
        }
        self.end_line();
        Ok(())
    }

    /// Turns the spinner; called a few times a second.
    pub(crate) fn tick(&mut self) {
        let busy_text = self.open.is_some() && !self.at_line_start;
        if !self.live || busy_text || self.style == Style::Json && stdout().is_terminal() {
            return;
        }
        if let Some(status) = self.parked.as_ref().or(self.status.as_ref()) {
            let spinner = SPINNER[self.ticks % SPINNER.len()];
            self.ticks += 1;
            let _ = write!(stderr(), "\r\x1b[2K\x1b[2m{spinner} {status}\x1b[0m");
            let _ = stderr().flush();
            self.status_shown = true;
        }
    }

    /// Shows which sessions wait for space: once as a line, then in the status line until they wait no more.
    pub(crate) fn park(&mut self, parked: &BTreeMap<String, Parked>) {
        let waited = self.parked.take().is_some();
        self.parked = parked.values().next().map(words::parked);
        let line = match (&self.parked, waited) {
            (Some(parked), false) => format!("… {parked}; it goes on by itself"),
            (None, true) => "… there is space again".to_owned(),
            (Some(_), true) | (None, false) => return self.tick(),
        };
        if self.style == Style::Json {
            let what = if waited { "unparked" } else { "parked" };
            let sessions: Vec<&String> = parked.keys().collect();
            let line = json!({ "stream": "state", "type": what, "sessions": sessions, "needs_bytes": ROOM_BYTES });
            self.out(&format!("{line}\n"));
        }
        self.say(&line);
        self.tick();
    }

    /// Takes the status line away, before anything else is written.
    pub(crate) fn hide_status(&mut self) {
        if std::mem::take(&mut self.status_shown) {
            let _ = write!(stderr(), "\r\x1b[2K");
            let _ = stderr().flush();
        }
    }

    /// Asks something on stderr; the answer is typed behind it.
    pub(crate) fn ask(&mut self, question: &str) {
        self.hide_status();
        self.end_line();
        let _ = write!(stderr(), "{question} ");
        let _ = stderr().flush();
    }

    /// Says something on stderr, on a line of its own.
    pub(crate) fn say(&mut self, text: &str) {
        self.hide_status();
        self.end_line();
        let _ = writeln!(stderr(), "{text}");
        if let Some(open) = self.open.as_mut().filter(|_| self.live) {
            open.written.push_str(text);
            open.written.push('\n');
            open.notes.push(text.to_owned());
        }
    }

    fn draw_event(&mut self, published: &Published, event: &Event, at: Timestamp) {
        match event {
            Event::TextAdded(e) if self.style == Style::Terminal => self.stream(e.effect, &e.text),
            Event::TextStruck(_) => self.strike(),
            Event::MessageSealed(e) => self.sealed(published, e),
            Event::CallStarted(e) => {
                let line = self.name(published, e.call);
                self.calls.insert(e.call, (line.clone(), at));
                self.note(published, &format!("▸ {line}"));
            }
            Event::CallSettled(e) => {
                let line = self.name(published, e.call);
                let started = self.calls.remove(&e.call).map_or(Timestamp(0), |(_, started)| started);
                let tool = line.split(' ').next().unwrap_or_default().to_owned();
                let time = if started.0 == 0 { String::new() } else { format!(" · {} ms", at.since(started)) };
                let bytes = e.output.bytes;
                let mark = words::mark(e.outcome);
                self.note(published, &format!("{mark} {tool} {}{time} · {bytes} bytes", words::plain(&e.outcome)));
            }
            // The command that follows the run says what it failed of.
            Event::Failed(_) if ends_a_run(&published.batch) => {}
            event => {
                if let Some(note) = words::note(event) {
                    self.note(published, &note);
                }
            }
        }
    }

    /// A call in a person's words. One that another process asked for is looked up in the journal.
    fn name(&self, published: &Published, id: CallId) -> String {
        if let Some((line, _)) = self.calls.get(&id) {
            return line.clone();
        }
        let entries = self.store.read(published.batch.branch, Seq(1)).unwrap_or_default();
        let sealed = entries.iter().rev().find_map(|entry| match &entry.event {
            Event::MessageSealed(e) => e.calls.iter().find(|call| call.id == id),
            _ => None,
        });
        let Some(call) = sealed else { return id.to_string() };
        let arguments = self.store.body(&call.arguments.hash).ok().flatten();
        let arguments = arguments.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        call_line(&call.tool, &arguments.unwrap_or_default())
    }

    fn note(&mut self, published: &Published, note: &str) {
        if self.sessions > 1 {
            self.say(&format!("[{}] {note}", published.key));
        } else {
            self.say(note);
        }
    }

    fn stream(&mut self, effect: EffectId, text: &str) {
        if self.open.as_ref().is_none_or(|open| open.effect != effect) {
            self.open = Some(OpenText { effect, written: String::new(), notes: vec![] });
        }
        self.out(text);
    }

    fn sealed(&mut self, published: &Published, sealed: &engine::MessageSealed) {
        let streamed = self.open.take().is_some_and(|open| open.effect == sealed.request);
        let text = sealed.text.and_then(|body| {
            let content = published.batch.bodies.iter().find(|content| content.body.hash == body.hash)?;
            Some(String::from_utf8_lossy(&content.bytes).into_owned())
        });
        if let Some(text) = text.filter(|_| !streamed) {
            self.out(&text);
        }
        self.end_line();
    }

    /// Erases the open text where it can still be reached; what was said meanwhile is said again.
    fn strike(&mut self) {
        let Some(open) = self.open.take() else { return };
        match rows_of(&open.written, width()) {
            0 => self.out("\r\x1b[J"),
            rows => self.out(&format!("\r\x1b[{rows}A\x1b[J")),
        }
        self.at_line_start = true;
        for note in open.notes {
            self.say(&note);
        }
    }

    fn end_line(&mut self) {
        if !self.at_line_start {
            self.out("\n");
        }
    }

    fn out(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        // A reader that has gone away is told by SIGPIPE's exit elsewhere; what is recorded stays recorded.
        let _ = stdout().write_all(text.as_bytes());
        let _ = stdout().flush();
        self.at_line_start = text.ends_with('\n');
        if let Some(open) = &mut self.open {
            open.written.push_str(text);
        }
    }
}

fn ends_a_run(batch: &Batch) -> bool {
    batch.records.iter().any(|record| matches!(record.event, Event::RunEnded(_)))
}

fn call_line(tool: &str, arguments: &str) -> String {
    let arguments: String = arguments.replace('\n', " ").chars().take(ARGUMENT_CHARS).collect();
    format!("{tool} {arguments}")
}

/// How many rows above the cursor's a text begins that was written from the start of a row.
fn rows_of(text: &str, width: usize) -> usize {
    let width = width.max(1);
    let (mut rows, mut column) = (0, 0);
    for c in text.chars() {
        match (c, c.width().unwrap_or(0)) {
            ('\n', _) => (rows, column) = (rows + 1, 0),
            ('\t', _) => column = (column / 8 * 8 + 8).min(width - 1),
            // What does not fit goes to the next row whole; a full row is left only when something follows.
            (_, cells) if column + cells > width => (rows, column) = (rows + 1, cells),
            (_, cells) => column += cells,
        }
    }
    rows
}

fn width() -> usize {
    rustix::termios::tcgetwinsize(stdout()).map_or(80, |size| usize::from(size.ws_col.max(1)))
}

#[cfg(test)]
mod tests {
    use super::rows_of;

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
        ] {
            assert_eq!(rows_of(text, width), rows, "{text:?}");
        }
    }
}
