//! The scripted model: its answer follows from the request alone, and from which of its planned failures are used up.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use engine::tables::limits::CALLS_PER_MESSAGE;
use engine::{
    Body, BodyKind, CallId, CompactionResult, Content, EffectId, Failure, FailureClass, Hash, Item, Part, Report,
    RunId, StopReason, Thinking, Timestamp, Usage,
};
use journal::Read;

use crate::invariant::{Invariant, Violation};
use crate::plan::Plan;
use crate::workload::{Odd, Turn};

/// The result of a call that did not run because the turn was interrupted or the budget was used up; the model asks for
/// such a call again.
const NOT_RUN: [&str; 2] = ["Not run: the turn was cut.", "Not run: the budget is used up."];

/// What the model says when it is asked to continue and has said everything.
const NOTHING_MORE: &str = "That is all.";

/// The provider's side of the world: which planned failures have happened, and which answers were complete.
#[derive(Debug, Clone, Default)]
pub struct Model {
    spent: BTreeMap<Cause, u32>,
    /// Requests whose answer came with its end mark.
    pub whole: BTreeSet<EffectId>,
    /// Requests whose answer came with its end mark, at its output limit.
    pub cut: BTreeSet<EffectId>,
    /// Requests that fell silent, and since when.
    pub silent: BTreeMap<EffectId, Timestamp>,
    /// What its summaries stand for: the run, and the position in its script.
    summaries: BTreeMap<Hash, (usize, ScriptPosition)>,
}

/// An answer in progress.
#[derive(Debug)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Reply {
    /// What is reported, piece by piece.
    pub reports: VecDeque<Report>,
    pub end: ReplyEnd,
}

/// The cause of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The planned failure of this run and turn.
    Turn(usize, usize),
    /// The odd answer of this run and turn.
    Odd(usize, usize),
    /// The defect of this candidate.
    Candidate(u32),
    /// The thinking level is above what this candidate accepts.
    Thinking(u32),
}

/// How an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyEnd {
    /// With its end mark.
    Whole,
    /// With its end mark, but malformed.
    Odd(Cause),
    /// With its end mark, at its output limit.
    Cut(Cause),
    /// With the planned failure.
    Fails(Cause),
    /// With silence, as planned.
    Silent(Cause),
}

/// A request as the provider sees it.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Asking<'a> {
    pub request: EffectId,
    /// The index of the candidate.
    pub candidate: u32,
    /// The thinking level, if it differs from the settings.
    pub thinking: Option<Thinking>,
    pub items: &'a [Item],
}

impl Model {
    /// Counts one more occurrence of the failure.
    pub fn spend(&mut self, failure: Cause) {
        *self.spent.entry(failure).or_default() += 1;
    }

    /// Whether the failure still has to happen.
    fn is_left(&self, failure: Cause, times: u32) -> bool {
        self.spent.get(&failure).copied().unwrap_or_default() < times
    }

    /// Answers a request.
    pub fn reply(&self, asking: Asking<'_>, plan: &Plan, journal: &dyn Read) -> Result<Reply, Violation> {
        let Asking { request, items, .. } = asking;
        let run = script_of(plan, request)?;
        let position = ScriptPosition::read(run, items, (plan, &self.summaries), journal)?;
        if let Some((cause, class)) = self.refusal(asking, plan) {
            let failure = Failure::new(class, "the candidate is not in order");
            let reports = VecDeque::from([Report::RequestFailed { effect: request, failure }]);
            return Ok(Reply { reports, end: ReplyEnd::Fails(cause) });
        }
        let turn = &plan.workload.runs[run].turns[position.turn];
        let mut pieces = position.pieces(run, turn);
        let place = Cause::Turn(run, position.turn);
        let Some(failure) = turn.failure.filter(|failure| self.is_left(place, failure.times)) else {
            let odd = Cause::Odd(run, position.turn);
            let end = if turn.odd.is_some_and(Odd::is_failure) && self.is_left(odd, 1) {
                pieces = if turn.odd == Some(Odd::Empty) { vec![] } else { too_many(run, position.turn) };
                ReplyEnd::Odd(odd)
            } else if turn.odd == Some(Odd::Length) && turn.calls.is_empty() && pieces.len() > 1 && self.is_left(odd, 1)
            {
                pieces.truncate(pieces.len() / 2);
                ReplyEnd::Cut(odd)
            } else {
                ReplyEnd::Whole
            };
            let stop_reason = matches!(end, ReplyEnd::Cut(_)).then_some(StopReason::Length);
            let usage = Usage { input: items.len() as u64, output: pieces.len() as u64, ..Usage::default() };
            let schema_mismatch = answer_in(&pieces).and_then(|text| plan.misfit(&text));
            let mut reports = said(request, pieces);
            reports.push_back(Report::RequestEnded { effect: request, usage, stop_reason, schema_mismatch });
            return Ok(Reply { reports, end });
        };
        let half = pieces.get(failure.after).and_then(|piece| cut(piece, failure.cut));
        pieces.truncate(failure.after);
        pieces.extend(half);
        let mut reports = if pieces.is_empty() { VecDeque::new() } else { said(request, pieces) };
        if failure.is_silence() {
            return Ok(Reply { reports, end: ReplyEnd::Silent(place) });
        }
        let retry_after_ms = failure.retry_after_ms;
        let failed = Failure { retry_after_ms, ..Failure::new(failure.class, "the script says so") };
        reports.push_back(Report::RequestFailed { effect: request, failure: failed });
        Ok(Reply { reports, end: ReplyEnd::Fails(place) })
    }

    /// The provider's refusal of the candidate, whatever is asked of it.
    fn refusal(&self, asking: Asking<'_>, plan: &Plan) -> Option<(Cause, FailureClass)> {
        let asked = plan.workload.candidates.get(asking.candidate as usize)?;
        let cause = Cause::Candidate(asking.candidate);
        if let Some(flaw) = asked.flaw.filter(|flaw| self.is_left(cause, flaw.times)) {
            return Some((cause, flaw.class));
        }
        let is_too_much = asked.accepts.is_some() && asking.thinking.or(asked.thinking) > asked.accepts;
        is_too_much.then_some((Cause::Thinking(asking.candidate), FailureClass::ThinkingUnsupported))
    }

    /// Summarises items, or fails to: the effect determines which.
    pub fn summarise(
        &mut self,
        effect: EffectId,
        items: &[Item],
        plan: &Plan,
        journal: &dyn Read,
    ) -> Result<Report, Violation> {
        let run = script_of(plan, effect)?;
        let asks = |item: &Item| matches!(item, Item::User { message, .. } if RunId::from(*message) == effect.run);
        let of_run = items.iter().any(asks);
        let position =
            of_run.then(|| ScriptPosition::read(run, items, (plan, &self.summaries), journal)).transpose()?;
        let failed = |class| Report::RequestFailed { effect, failure: Failure::new(class, "no summary") };
        let summary = |text: &str| CompactionResult::Summary {
            text: Content::text(BodyKind::Message, text),
            by: Some("scripted/script".into()),
            usage: Usage { input: items.len() as u64, output: 1, ..Usage::default() },
        };
        Ok(match Hash::of(effect.to_string().as_bytes()).0[0] % 8 {
            0 => failed(FailureClass::Server),
            1 => failed(FailureClass::InvalidRequest),
            2 => Report::Compacted { effect, made: summary(" ") },
            3 => Report::Compacted { effect, made: summary(&"no shorter than before ".repeat(100)) },
            _ => {
                // All summaries are different, even if one says nothing of the run.
                let made = summary(&self.summaries.len().to_string());
                if let CompactionResult::Summary { text, .. } = &made {
                    self.summaries.insert(text.body.hash, (run, position.unwrap_or_default()));
                }
                Report::Compacted { effect, made }
            }
        })
    }
}

/// Names a conversation, or fails to: the effect determines which.
pub(super) fn title(effect: EffectId) -> Report {
    let title = match Hash::of(effect.to_string().as_bytes()).0[0] % 4 {
        0 => Err(Failure::new(FailureClass::Server, "no title")),
        1 => Err(Failure::new(FailureClass::Network, "reset")),
        _ => Ok(Content::text(BodyKind::Message, &format!("of {}", effect.run))),
    };
    let usage = Usage { input: 20, output: u64::from(title.is_ok()), ..Usage::default() };
    Report::Titled { effect, title, by: "scripted/script".into(), usage }
}

/// The index in the workload of the run that wants this effect.
fn script_of(plan: &Plan, effect: EffectId) -> Result<usize, Violation> {
    let unknown = || Invariant::Request.violated(format!("{effect} is of no run of the workload"));
    plan.script_of(effect.run).ok_or_else(unknown)
}

/// The first `bytes` bytes of a piece, never the whole piece.
fn cut(piece: &Part, bytes: usize) -> Option<Part> {
    match piece {
        Part::Text(text) if bytes > 0 => {
            let end = (1 + bytes % text.len()).min(text.len() - 1);
            let begin = text.get(..end).filter(|begin| !begin.is_empty());
            begin.map(|begin| Part::Text(begin.to_owned()))
        }
        _ => None,
    }
}

/// The text of a message without calls. One with calls is no answer yet.
fn answer_in(pieces: &[Part]) -> Option<String> {
    let texts = pieces.iter().map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        Part::Call { .. } => None,
        Part::Reasoning(_) | Part::Signature { .. } | Part::Image(_) => Some(""),
    });
    texts.collect()
}

fn said(effect: EffectId, pieces: Vec<Part>) -> VecDeque<Report> {
    let pieces = pieces.into_iter().map(|part| Report::Streamed { effect, part });
    std::iter::once(Report::RequestOpened { effect }).chain(pieces).collect()
}

/// The position of a request in the script.
#[derive(Debug, Clone, Default)]
struct ScriptPosition {
    turn: usize,
    said: String,
    asked: BTreeMap<CallId, Hash>,
    done: BTreeSet<Hash>,
    /// Turns whose wrong calls were made already.
    wrong: BTreeSet<usize>,
}

impl ScriptPosition {
    fn read(
        run: usize,
        items: &[Item],
        (plan, summaries): (&Plan, &BTreeMap<Hash, (usize, Self)>),
        journal: &dyn Read,
    ) -> Result<Self, Violation> {
        let turns = &plan.workload.runs[run].turns;
        let begin = items.iter().rposition(|item| matches!(item, Item::User { .. })).unwrap_or(0);
        let cut = NOT_RUN.map(|text| Hash::of(text.as_bytes()));
        let summary = match items.first() {
            Some(Item::Summary { body, .. }) => summaries.get(&body.hash).filter(|(of, _)| *of == run),
            _ => None,
        };
        let mut position = summary.map(|(_, position)| position.clone()).unwrap_or_default();
        for item in &items[begin..] {
            match item {
                Item::User { body, .. } => {
                    let text = text_of(journal, body)?;
                    let sent = &plan.workload.runs[run].message;
                    Invariant::Request.holds(text == *sent, || format!("run {run} was sent `{sent}`, not `{text}`"))?;
                }
                Item::Assistant { text, calls, .. } => {
                    if let Some(text) = text {
                        position.said.push_str(&text_of(journal, text)?);
                    }
                    position.asked.extend(calls.iter().map(|call| (call.id, call.arguments.hash)));
                    let wrong = calls.iter().filter_map(|call| plan.wrong_call(&call.arguments.hash));
                    position.wrong.extend(wrong.filter(|(of, _)| *of == run).map(|(_, turn)| turn));
                }
                Item::Result { call, output, .. } if !cut.contains(&output.hash) => {
                    position.done.extend(position.asked.get(call));
                }
                Item::Result { .. } | Item::Summary { .. } | Item::Note { .. } => {}
            }
            position.turn_over(run, turns);
        }
        let whole = turns[position.turn].text();
        let fits = whole.starts_with(&position.said) || only_closes(&whole, &position.said);
        Invariant::Request.holds(fits, || {
            format!("turn {} of run {run} says `{whole}`, the request says `{}`", position.turn, position.said)
        })?;
        Ok(position)
    }

    fn is_done(&self, run: usize, call: usize) -> bool {
        self.done.contains(&Hash::of(Plan::arguments(run, self.turn, call).as_bytes()))
    }

    fn turn_over(&mut self, run: usize, turns: &[Turn]) {
        let turn = &turns[self.turn];
        let over = self.said == turn.text() && (0..turn.calls.len()).all(|call| self.is_done(run, call));
        if over && self.turn + 1 < turns.len() {
            self.turn += 1;
            self.said.clear();
        }
    }

    /// The rest of the turn.
    fn pieces(&self, run: usize, turn: &Turn) -> Vec<Part> {
        if turn.odd == Some(Odd::WrongCalls) && !self.wrong.contains(&self.turn) {
            let broken = call_parts(0, "look", &Plan::broken_arguments(run, self.turn));
            let unknown = call_parts(1, "nothing_like_it", &Plan::unknown_arguments(run, self.turn));
            return [broken, unknown].concat();
        }
        let mut skip = self.said.len();
        let mut pieces = vec![];
        for chunk in &turn.chunks {
            let rest = chunk.get(skip.min(chunk.len())..).unwrap_or(chunk);
            skip = skip.saturating_sub(chunk.len());
            if !rest.is_empty() {
                pieces.push(Part::Text(rest.to_owned()));
            }
        }
        let missing = (0..turn.calls.len()).filter(|call| !self.is_done(run, *call));
        let calls = missing.enumerate().map(|(index, call)| {
            call_parts(index as u32, &turn.calls[call].tool, &Plan::arguments(run, self.turn, call))
        });
        pieces.extend(arranged(calls.collect(), turn.odd));
        if pieces.is_empty() {
            pieces.push(Part::Text(NOTHING_MORE.to_owned()));
        }
        pieces
    }
}

/// Whether this text is the whole of another followed only by closing words.
pub fn only_closes(whole: &str, text: &str) -> bool {
    text.strip_prefix(whole).is_some_and(|rest| rest.replace(NOTHING_MORE, "").is_empty())
}

/// Whether this text is the beginning of another, or is that followed by a beginning of closing words.
pub fn only_begins(whole: &str, text: &str) -> bool {
    let closes = |rest: &str| NOTHING_MORE.starts_with(&rest.replace(NOTHING_MORE, ""));
    whole.starts_with(text) || text.strip_prefix(whole).is_some_and(closes)
}

/// The parts of calls, in the order and with the ids that the provider gives them.
fn arranged(calls: Vec<[Part; 2]>, odd: Option<Odd>) -> Vec<Part> {
    let mut parts: Vec<Part> = match odd {
        Some(Odd::Interleaved) => {
            let (first, second): (Vec<Part>, Vec<Part>) = calls.into_iter().rev().map(|[a, b]| (a, b)).unzip();
            [first, second].concat()
        }
        _ => calls.into_iter().flatten().collect(),
    };
    for part in &mut parts {
        if let Part::Call { provider_id: Some(id), .. } = part {
            match odd {
                Some(Odd::SameIds) => "provider".clone_into(id),
                Some(Odd::NoIds) => id.clear(),
                _ => {}
            }
        }
    }
    parts
}

/// More calls than the limit.
fn too_many(run: usize, turn: usize) -> Vec<Part> {
    let calls = (0..=CALLS_PER_MESSAGE as u32).map(|index| call_parts(index, "look", &Plan::arguments(run, turn, 0)));
    calls.flatten().collect()
}

/// A call in two parts, as providers stream it.
fn call_parts(index: u32, tool: &str, arguments: &str) -> [Part; 2] {
    let (first, second) = arguments.split_at(arguments.len() / 2);
    let provider_id = Some(format!("provider_{index}"));
    [
        Part::Call { index, provider_id, name: Some(tool.to_owned()), arguments: first.to_owned() },
        Part::Call { index, provider_id: None, name: None, arguments: second.to_owned() },
    ]
}

/// The text of a body.
pub fn text_of(journal: &dyn Read, body: &Body) -> Result<String, Violation> {
    let bytes = journal.body(&body.hash).ok().flatten();
    let bytes =
        bytes.ok_or_else(|| Invariant::Journal.violated(format!("the body {} is named and not kept", body.hash)))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
