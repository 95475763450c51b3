//! The calls of tools on the screen: the line of each, and what is shown below it.

use std::collections::BTreeMap;
use std::path::Path;

use engine::{CallId, CallOutcome, EffectId, Timestamp};
use protocol::Event;
use protocol::event::{Delta, Stream, ToolLine};
use protocol::method::FileDiff;
use unicode_width::UnicodeWidthStr as _;

use super::Screen;
use super::footer::rows_now;
use crate::language::word;
use crate::output::{Control, Output, Part};
use crate::render::call_output::CallOutputs;
use crate::render::call_text::{self, CallEnd};
use crate::render::diff::{self, DiffRow};
use crate::render::live_output::LiveOutput;
use crate::render::rows::{MARK, untabbed};
use crate::render::{rows, vocabulary};
use crate::show::human::excerpt;

/// Maximum characters of the arguments of a call in a line, where a question shows what matters.
const ARGUMENT_CHARS: usize = 100;
/// The same if no question shows the call: as many as a question quotes.
const WHOLE_ARGUMENT_CHARS: usize = 8 << 10;
/// Maximum characters of the name of a tool, which a model may have made up.
const TOOL_CHARS: usize = 80;

/// Maximum rows of a line that is written anew when its call ends: they must still be on the screen.
const REPLACED_ROWS: usize = 5;

/// A running call.
struct Started {
    at: Timestamp,
    /// The effect that runs it.
    effect: EffectId,
    output: LiveOutput,
    /// What it does, if that is known and shown.
    sentence: Option<String>,
}

/// Of which calls the output is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Detail {
    #[default]
    Failures,
    /// Of all, because the session wants it.
    SessionAll,
    /// Of all, because this command wants it.
    All,
}

/// The calls that run, and how much is shown of calls.
pub(super) struct Calls {
    started: BTreeMap<CallId, Started>,
    /// The call whose line is the last thing on stderr, and the cells of its rows.
    last: Option<(CallId, Vec<usize>)>,
    detail: Detail,
    /// The call that has set the plan on the screen.
    plan_of: Option<CallId>,
    /// Maximum characters of the arguments of a call in a line.
    argument_chars: usize,
    /// Where whole outputs are.
    outputs: Option<CallOutputs>,
}

impl Default for Calls {
    fn default() -> Self {
        let detail = Detail::default();
        Self {
            started: BTreeMap::new(),
            last: None,
            detail,
            plan_of: None,
            argument_chars: ARGUMENT_CHARS,
            outputs: None,
        }
    }
}

impl Calls {
    /// The line of a call is no longer the last thing on the screen.
    pub(super) fn leave_line(&mut self) {
        self.last = None;
    }

    /// The plan that this call has set is on the screen.
    pub(super) fn sets_plan(&mut self, call: CallId) {
        self.plan_of = Some(call);
    }

    /// What the last call that runs does, if its line is not right above.
    pub(super) fn running(&self) -> Option<&str> {
        let running = self.started.values().next_back().filter(|_| self.last.is_none())?;
        running.sentence.as_deref()
    }

    /// Takes in what a running call wrote.
    pub(super) fn wrote(&mut self, piece: &Delta) {
        if let Some(started) = self.started.values_mut().find(|started| started.effect == piece.effect) {
            started.output.push(&piece.text);
        }
    }

    /// The last lines of the call that began last and has written something, in rows that fit.
    pub(super) fn live_rows(&self, width: usize) -> Vec<String> {
        let lines =
            self.started.values().rev().map(|started| started.output.last_lines()).find(|lines| !lines.is_empty());
        lines
            .unwrap_or_default()
            .into_iter()
            .map(|line| rows::cut(&format!("{MARK}{}", untabbed(&line)), width))
            .collect()
    }

    /// The lines below a call that has ended. Where all of them are wanted they are read, since its line has only their ends.
    fn below(&mut self, event: &Event, call: CallId, bytes: u64, end: &CallEnd<'_>) -> Vec<String> {
        if self.detail == Detail::Failures {
            return call_text::below(end);
        }
        let is_cut = bytes != end.output.len() as u64;
        let whole = self.outputs.as_mut().filter(|_| is_cut).and_then(|outputs| outputs.of(call, &event.cursor));
        call_text::all_below(end, whole.as_deref())
    }
}

impl Screen {
    /// Sets whether the session wants the output of calls to be shown.
    pub(crate) fn set_verbose(&mut self, verbose: bool) {
        if self.calls.detail != Detail::All {
            self.calls.detail = if verbose { Detail::SessionAll } else { Detail::Failures };
        }
    }

    /// Shows the output of every call, whatever the session says.
    pub(crate) fn show_detail(&mut self) {
        self.calls.detail = Detail::All;
    }

    /// Sets the home that has the whole outputs of calls.
    pub(crate) fn read_outputs_of(&mut self, home: &Path) {
        self.calls.outputs = Some(CallOutputs::new(home));
    }

    /// Sets that the line of a call shows all of a command.
    pub(crate) fn show_whole_calls(&mut self) {
        self.calls.argument_chars = WHOLE_ARGUMENT_CHARS;
    }

    pub(super) fn call_started(&mut self, event: &Event) {
        let Stream::Tool(ToolLine::Start { call, effect, tool, arguments, .. }) = &event.what else { return };
        // Another owner goes on with it: its line is there already.
        if self.calls.started.get(call).is_some_and(|started| started.effect == *effect) {
            return;
        }
        let sentence = call_text::sentence(tool, arguments).filter(|_| self.live).map(call_text::in_language);
        self.call_line(event, (*call, tool, arguments), sentence.as_deref());
        let started = Started { at: event.at, effect: *effect, output: LiveOutput::default(), sentence };
        self.calls.started.insert(*call, started);
    }

    pub(super) fn call_settled(&mut self, event: &Event) {
        let Stream::Tool(ToolLine::End { call, tool, outcome, bytes, output, lines, tail, changes }) = &event.what
        else {
            return;
        };
        let started = self.calls.started.remove(call);
        if self.calls.plan_of.take() == Some(*call) && self.live {
            return;
        }
        let took_ms = started.as_ref().map(|started| event.at.since(started.at));
        let end = CallEnd { outcome: *outcome, output, tail: tail.as_deref(), lines: *lines, took_ms, changes };
        match started.and_then(|started| started.sentence).filter(|_| self.live) {
            Some(sentence) => self.call_ended(event, (*call, *bytes), (tool, &sentence), &end),
            None => self.call_noted(event, (*call, *bytes), tool, &end),
        }
    }

    /// The line of a call. What does not fit is counted, and on a terminal its further rows are marked.
    fn call_line(&mut self, event: &Event, (id, tool, arguments): (CallId, &str, &str), sentence: Option<&str>) {
        let most = self.calls.argument_chars;
        let line = match sentence {
            Some(sentence) => cut_arguments(sentence, most),
            None => format!("{} {}", excerpt(tool, TOOL_CHARS), cut_arguments(arguments, most)),
        };
        if !self.live {
            return self.note(event, &format!("▸ {line}"));
        }
        let mark = if sentence.is_some() { "" } else { "▸ " };
        let rows = rows::rows(&format!("{}{mark}", self.whose(event)), &line, Output::Stderr.width());
        self.say_rows(&rows);
        let is_alone = rows.len() <= REPLACED_ROWS && sentence.is_some_and(|sentence| sentence == line);
        let cells = rows.iter().map(|row| row.width()).collect();
        self.calls.last = Some((id, cells)).filter(|_| is_alone && !self.answer.is_open());
    }

    /// The end of a call on a terminal: its line says how it ended, in the place where it says what the call does if that is
    /// the last line.
    fn call_ended(
        &mut self,
        event: &Event,
        (call, bytes): (CallId, u64),
        (tool, sentence): (&str, &str),
        end: &CallEnd<'_>,
    ) {
        self.hide_status();
        self.has_terminal();
        if let Some((_, cells)) = self.calls.last.take().filter(|(last, _)| *last == call) {
            let rows = rows_now(&cells, Output::Stderr.width());
            let _ = Output::Stderr.draw(&[Part::Control(Control::EraseLines(rows))]);
        }
        let sentence = cut_arguments(sentence, ARGUMENT_CHARS);
        let line = call_text::ended(tool, &sentence, end);
        let rows = rows::rows(&self.whose(event), &line, Output::Stderr.width());
        self.say_rows(&rows);
        let below = self.calls.below(event, call, bytes, end);
        let rows: Vec<String> = below.iter().flat_map(|line| rows::below(line, Output::Stderr.width())).collect();
        if !rows.is_empty() {
            self.say_rows(&rows);
        }
        self.say_diff(end.changes);
    }

    /// What a call changed in files, below its line.
    fn say_diff(&mut self, changes: &[FileDiff]) {
        for DiffRow { colour, text } in diff::below(changes, Output::Stderr.width()) {
            let colour = colour.map(Part::Control);
            let parts = colour.into_iter().chain([Part::Text(&text), Part::Control(Control::Plain)]);
            self.say_parts(&text, &parts.collect::<Vec<_>>());
        }
    }

    /// The end of a call in a pipe, or of one that has no sentence.
    fn call_noted(&mut self, event: &Event, (call, bytes): (CallId, u64), tool: &str, end: &CallEnd<'_>) {
        let time = end.took_ms.map(|ms| format!(" · {ms} ms")).unwrap_or_default();
        let (mark, outcome) = (vocabulary::mark(end.outcome), vocabulary::plain(&end.outcome));
        let tool = excerpt(tool, TOOL_CHARS);
        let counts = diff::counts(end.changes).map(|counts| format!(" · {counts}")).unwrap_or_default();
        let status = call_text::status(end).filter(|_| end.outcome != CallOutcome::Done);
        let status = status.map(|status| format!(" · {}", word(status))).unwrap_or_default();
        let (outcome, size) = (word(outcome), word(format!("{bytes} bytes")));
        self.note(event, &format!("{mark} {tool} {outcome}{status}{time} · {size}{counts}"));
        let below = self.calls.below(event, call, bytes, end);
        match call_text::limit(end).filter(|_| below.is_empty()) {
            Some(limit) => self.note(event, &format!("  {limit}")),
            None => below.iter().for_each(|line| self.note(event, &format!("{MARK}{line}"))),
        }
    }

    /// The name of the session, if several are followed.
    fn whose(&self, event: &Event) -> String {
        if self.sessions > 1 { format!("[{}] ", event.session) } else { String::new() }
    }
}

/// The beginning of the arguments of a call, and how much more there is.
fn cut_arguments(arguments: &str, most: usize) -> String {
    let end = arguments.char_indices().nth(most).map_or(arguments.len(), |(at, _)| at);
    let shown = arguments[..end].replace('\n', " ");
    match arguments[end..].chars().count() {
        0 => shown,
        more => word(format!("{shown}… ({more} characters more)")),
    }
}

#[cfg(test)]
mod tests {
    use super::cut_arguments;

    #[test]
    fn r09_what_is_cut_of_a_call_is_counted() {
        assert_eq!(cut_arguments("abc", 3), "abc");
        assert_eq!(cut_arguments("好好好好", 3), "好好好… (1 characters more)");
        assert_eq!(cut_arguments("a\nb", 9), "a b");
    }
}
