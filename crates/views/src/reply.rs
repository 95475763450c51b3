//! The reply of a run that has ended (R46), gathered from the entries of the run.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::reply::payloads::{ReplyPart, ReplyParts, payloads};
use engine::{
    Address, Attachment, Batch, Body, CallOutcome, Candidate, CandidateCooldownSet, DeliveryKind, DeliveryWanted,
    EffectId, Event, Failed, Failure, Next, Outcome, ReasoningMode, ReplySettings, RequestSent, RunEnded, RunId,
    RunRow, SealedCall, Seq, StopReason, Thinking, Timestamp,
};
use journal::{Entry, Read};
use protocol::method::{WaitStatus, Waited};
use protocol::show::{AttachedFile, Attempt, AttemptKind, Payload, Reply, ReplyError, ReplyMeta, ReplyStop};
use serde::Deserialize;

use super::Texts;
use super::sentence::name;
use super::vocabulary::excerpt;
use crate::error::Error;

const ARGUMENT_CHARS: usize = 160;

/// How many entries are read at once: a run may be followed by many others.
const PIECE: u64 = 512;

/// The entries of a run, up to its end. If its first entries were removed, all entries that remain in its branch.
pub fn entries(read: &dyn Read, row: &RunRow) -> Result<Vec<Entry>, Error> {
    let (mut entries, mut from) = (vec![], row.first_seq);
    let last = read.last(row.branch)?;
    while from <= last && end_of(&entries, row.run).is_none() {
        let until = Seq(from.0.saturating_add(PIECE - 1)).min(last);
        match read.range(row.branch, from, until) {
            Ok(piece) => entries.extend(piece),
            Err(_) => return Ok(read.history(row.branch)?.entries().map(|(_, entry)| entry.clone()).collect()),
        }
        from = Seq(until.0 + 1);
    }
    Ok(entries)
}

/// The reply of a run to whoever follows its session; none if it has not ended, or its end was removed.
pub fn reply(read: &dyn Read, row: &RunRow, texts: Texts<'_>) -> Result<Option<Reply>, Error> {
    reply_from(read, row, &entries(read, row)?, (None, texts))
}

/// The reply to an address, which may have a part of it already.
pub struct AddressedReply {
    /// What it does not have.
    pub reply: Reply,
    /// Whether it has the text in blocks.
    pub in_blocks: bool,
}

/// The reply of a run to this address.
pub fn reply_to(
    read: &dyn Read,
    row: &RunRow,
    to: &Address,
    texts: Texts<'_>,
) -> Result<Option<AddressedReply>, Error> {
    let of_run = entries(read, row)?;
    let is_block = |e: &DeliveryWanted| e.kind == DeliveryKind::Block && e.to.as_deref() == Some(to);
    let in_blocks =
        |entry: &Entry| matches!(&entry.event, Event::DeliveryWanted(e) if e.delivery.run == row.run && is_block(e));
    let in_blocks = of_run.iter().any(in_blocks);
    let reply = reply_from(read, row, &of_run, (Some(to), texts))?;
    Ok(reply.map(|reply| AddressedReply { reply, in_blocks }))
}

fn reply_from(
    read: &dyn Read,
    row: &RunRow,
    of_run: &[Entry],
    to: (Option<&Address>, Texts<'_>),
) -> Result<Option<Reply>, Error> {
    if row.outcome.is_none() {
        return Ok(None);
    }
    let settings = read.body(&row.settings)?;
    let records: Vec<_> = of_run.iter().map(|entry| (&entry.event, entry.at)).collect();
    gathered(row, settings.as_deref(), &records, to)
}

/// The same from all batches of the run.
pub fn reply_of(batches: &[Arc<Batch>], row: &RunRow, texts: Texts<'_>) -> Result<Option<Reply>, Error> {
    let bodies = batches.iter().flat_map(|batch| &batch.bodies);
    let settings = bodies.rev().find(|content| content.body.hash == row.settings).map(|content| &*content.bytes);
    let records = batches.iter().flat_map(|batch| &batch.records).filter(|record| record.seq.is_some());
    let records: Vec<_> = records.map(|record| (&record.event, record.at)).collect();
    gathered(row, settings, &records, (None, texts))
}

fn gathered(
    row: &RunRow,
    settings: Option<&[u8]>,
    records: &[(&Event, Timestamp)],
    (to, texts): (Option<&Address>, Texts<'_>),
) -> Result<Option<Reply>, Error> {
    let Some((at, end)) = end_in(records.iter().copied(), row.run) else { return Ok(None) };
    let OfSettings { candidates, reply } = settings.map(of_settings).unwrap_or_default();
    let to = to.cloned().map(Box::new);
    let mut gathered = Gathered { candidates, reply, to, ..Gathered::default() };
    for (event, at) in records.iter().take_while(|(_, of)| *of <= at) {
        gathered.visit(row.run, event, *at);
    }
    gathered.finish(row, (end, at), texts).map(Some)
}

/// How a run ended, as a wait for it answers. A run that has not ended is one that the wait was too short for.
pub fn waited(read: &dyn Read, row: &RunRow) -> Result<Waited, Error> {
    let status = match row.outcome {
        Some(Outcome::Completed) => WaitStatus::Ok,
        Some(Outcome::TimedOut | Outcome::Stalled) | None => WaitStatus::Timeout,
        Some(Outcome::Failed | Outcome::Aborted | Outcome::Interrupted) => WaitStatus::Error,
    };
    // How it ended is in its row; a damaged entry costs no more than the reply.
    let reply = reply(read, row, &super::texts(read)).ok().flatten();
    let RunRow { run, started_at, ended_at, ref error, stop_reason, .. } = *row;
    // The row of an unfinished run has its last failure so far.
    let error = error.clone().filter(|_| ended_at.is_some());
    Ok(Waited { run_id: run, status, started_at: Some(started_at), ended_at, error, stop_reason, reply })
}

/// The end of a run, and its time.
pub fn end_of(entries: &[Entry], run: RunId) -> Option<(Timestamp, &RunEnded)> {
    end_in(entries.iter().map(|entry| (&entry.event, entry.at)), run)
}

fn end_in<'a>(
    mut records: impl Iterator<Item = (&'a Event, Timestamp)>,
    run: RunId,
) -> Option<(Timestamp, &'a RunEnded)> {
    records.find_map(|(event, at)| match event {
        Event::RunEnded(ended) if ended.run == run => Some((at, ended)),
        _ => None,
    })
}

/// What a reply needs of settings. Nothing else of these is read: the schemas of their tools are long.
#[derive(Default, Deserialize)]
struct OfSettings {
    candidates: Vec<Candidate>,
    #[serde(default)]
    reply: ReplySettings,
}

fn of_settings(settings: &[u8]) -> OfSettings {
    serde_json::from_slice(settings).unwrap_or_default()
}

/// What the entries of a run say.
#[derive(Default)]
struct Gathered {
    candidates: Vec<Candidate>,
    attempts: Vec<Attempt>,
    /// The candidate that is asked, its request, and whether its attempt is over.
    asked: Option<(u32, EffectId, bool)>,
    /// The thinking level of a candidate that refused its own.
    lowered: Option<(u32, Thinking)>,
    /// Candidates in cooldown that were not asked since.
    passed_over: BTreeMap<u32, Attempt>,
    calls: Vec<(SealedCall, CallOutcome)>,
    images: Vec<Attachment>,
    reply: ReplySettings,
    /// Who receives the reply; none = whoever follows the session.
    to: Option<Box<Address>>,
    /// The reasoning of the messages that are the answer so far.
    reasoning: Vec<Body>,
    /// The messages that the model has sent, each with its recipient.
    sent: Vec<(Option<Box<Address>>, Body)>,
    /// Who has received parts of the answer in blocks.
    in_blocks: Vec<Address>,
}

impl Gathered {
    fn visit(&mut self, run: RunId, event: &Event, at: Timestamp) {
        match event {
            Event::RequestSent(e) if e.request.run == run => self.sent(e, at),
            Event::Failed(e) => self.failed(e),
            Event::StreamInterrupted(e) => self.ended(e.request, name(&e.cause)),
            Event::RetryScheduled(e) if e.candidate.is_some() || e.thinking.is_some() => {
                let candidate = e.candidate.or(self.asked.map(|(candidate, ..)| candidate)).unwrap_or_default();
                self.lowered = e.thinking.map(|level| (candidate, level));
            }
            Event::CandidateCooldownSet(e) => self.cooled(e, at),
            Event::CandidateCooldownLifted(e) => {
                self.passed_over.remove(&e.candidate);
            }
            Event::MessageSealed(e) if e.request.run == run => {
                self.images.extend(e.images.iter().cloned());
                self.reasoning.extend(e.reasoning);
                if e.next == Next::Calls {
                    self.reasoning.clear();
                }
                let settled = |call: &SealedCall| (call.clone(), CallOutcome::Skipped);
                self.calls.extend(e.calls.iter().map(settled));
            }
            Event::CallSettled(e) => {
                if let Some((_, outcome)) = self.calls.iter_mut().find(|(call, _)| call.id == e.call) {
                    *outcome = e.outcome;
                }
            }
            Event::DeliveryWanted(e) if e.delivery.run == run => self.wanted(e),
            // Nothing of the run is left to be passed over.
            Event::RunEnded(e) if e.run == run && e.outcome == Outcome::Failed => self.pass_over(u32::MAX),
            _ => {}
        }
    }

    fn wanted(&mut self, e: &DeliveryWanted) {
        match (e.kind, e.text, &e.to) {
            (DeliveryKind::Message, Some(text), to) if e.again.is_none() => self.sent.push((to.clone(), text)),
            (DeliveryKind::Block, _, Some(to)) => self.in_blocks.push(Address::clone(to)),
            (DeliveryKind::Message | DeliveryKind::Block | DeliveryKind::Reply, ..) => {}
        }
    }

    fn sent(&mut self, e: &RequestSent, at: Timestamp) {
        if self.lowered.is_some_and(|(candidate, _)| candidate != e.candidate) {
            self.lowered = None;
        }
        let own = self.candidates.get(e.candidate as usize).and_then(|candidate| candidate.thinking);
        let thinking = self.lowered.map(|(_, level)| level).or(own);
        let same = self.asked.is_some_and(|(candidate, _, is_over)| candidate == e.candidate && !is_over);
        self.passed_over.remove(&e.candidate);
        if !same {
            self.pass_over(e.candidate);
            let attempt = self.attempt(e.candidate, at, AttemptKind::Tried);
            self.attempts.push(Attempt { thinking, ..attempt });
        }
        self.asked = Some((e.candidate, e.request, false));
    }

    /// The candidates in cooldown that stand before this one were not asked.
    fn pass_over(&mut self, candidate: u32) {
        let behind = self.passed_over.split_off(&candidate);
        self.attempts.extend(std::mem::replace(&mut self.passed_over, behind).into_values());
    }

    fn failed(&mut self, e: &Failed) {
        let Some(request) = e.request else { return };
        let Failure { class, status, ref code, .. } = e.failure;
        if self.asked.is_some_and(|(_, asked, is_over)| asked == request && !is_over)
            && let Some(attempt) = self.attempts.last_mut()
        {
            (attempt.status, attempt.code) = (status, code.clone());
        }
        self.ended(request, class.name());
    }

    /// The attempt of this request is over.
    fn ended(&mut self, request: EffectId, reason: String) {
        if let Some((_, asked, is_over)) = &mut self.asked
            && *asked == request
            && !std::mem::replace(is_over, true)
            && let Some(attempt) = self.attempts.last_mut()
        {
            attempt.reason = Some(reason);
        }
    }

    fn cooled(&mut self, e: &CandidateCooldownSet, at: Timestamp) {
        if let Some((candidate, _, true)) = self.asked
            && candidate == e.candidate
            && let Some(attempt) = self.attempts.last_mut()
        {
            attempt.until = e.until;
            return;
        }
        let skipped = self.attempt(e.candidate, at, AttemptKind::Skipped);
        let reason = e.class.map(engine::FailureClass::name);
        self.passed_over.insert(e.candidate, Attempt { reason, until: e.until, ..skipped });
    }

    fn attempt(&self, candidate: u32, at: Timestamp, kind: AttemptKind) -> Attempt {
        let known = self.candidates.get(candidate as usize);
        Attempt {
            provider: known.map(|known| known.provider.clone()).unwrap_or_default(),
            model: known.map(|known| known.model.clone()).unwrap_or_default(),
            profile: known.and_then(|known| known.profile.clone()),
            thinking: known.and_then(|known| known.thinking),
            at,
            kind,
            reason: None,
            status: None,
            code: None,
            until: None,
        }
    }

    fn finish(self, row: &RunRow, (end, at): (&RunEnded, Timestamp), texts: Texts<'_>) -> Result<Reply, Error> {
        let payloads = self.payloads(end, texts)?;
        let last = self.attempts.iter().rfind(|attempt| attempt.kind == AttemptKind::Tried);
        let last = last.filter(|attempt| !attempt.model.is_empty());
        let failure = end.failure.as_ref();
        let meta = ReplyMeta {
            session: row.session,
            provider: last.map(|attempt| attempt.provider.clone()),
            model: last.map(|attempt| attempt.model.clone()),
            profile: last.and_then(|attempt| attempt.profile.clone()),
            stop_reason: stop_reason(end),
            usage: end.usage,
            cost: row.cost,
            duration_ms: at.since(row.started_at),
            error: failure.map(|failure| ReplyError { kind: failure.class, message: failure.message.clone() }),
            attempts: self.attempts,
        };
        Ok(Reply { payloads, meta })
    }

    /// What the recipient receives: an address, or whoever follows the session.
    fn payloads(&self, end: &RunEnded, texts: Texts<'_>) -> Result<Vec<Payload>, Error> {
        let all = |bodies: &mut dyn Iterator<Item = &Body>| bodies.map(texts).collect::<Result<Vec<_>, _>>();
        let detailed = self.calls.iter().filter(|_| end.verbose);
        let summaries = detailed.map(|(call, outcome)| Ok(summary(call, *outcome, &texts(&call.arguments)?)));
        let to = self.to.as_deref();
        let of_recipient = |(of, _): &&(Option<Box<Address>>, Body)| of.as_deref() == to;
        let failed = |(call, outcome): (&SealedCall, CallOutcome)| {
            format!("`{}` {}", excerpt(&call.tool, ARGUMENT_CHARS), name(&outcome))
        };
        let reasons = self.reply.reasoning == ReasoningMode::Block;
        let parts = ReplyParts {
            summaries: summaries.collect::<Result<_, Error>>()?,
            reasoning: all(&mut self.reasoning.iter().filter(|_| reasons))?,
            answer: end.text.iter().map(texts).collect::<Result<String, _>>()?,
            images: self.images.len(),
            failure: end.failure.as_ref().map(|failure| failure.message.clone()),
            failed_call: self.failed_call().map(failed),
            sent: all(&mut self.sent.iter().filter(of_recipient).map(|(_, text)| text))?,
            has_blocks: to.is_some_and(|to| self.in_blocks.contains(to)),
        };
        let payload = |part: ReplyPart| match part {
            ReplyPart::ToolSummary(text) => Payload::ToolSummary { text },
            ReplyPart::Reasoning(text) => Payload::Reasoning { text },
            ReplyPart::Text(text) => Payload::Text { text, place: None },
            ReplyPart::Media(at) => Payload::Media { file: AttachedFile::from(&self.images[at]) },
            ReplyPart::Error(text) => Payload::Error { text },
        };
        Ok(payloads(parts).into_iter().map(payload).collect())
    }

    /// The last call that failed, unless the same tool succeeded after it.
    fn failed_call(&self) -> Option<(&SealedCall, CallOutcome)> {
        let mut last: Option<(&SealedCall, CallOutcome)> = None;
        for (call, outcome) in &self.calls {
            match outcome {
                CallOutcome::Done if last.is_some_and(|(failed, _)| failed.tool == call.tool) => last = None,
                CallOutcome::Failed | CallOutcome::TimedOut | CallOutcome::Interrupted | CallOutcome::Unended => {
                    last = Some((call, *outcome));
                }
                CallOutcome::Done | CallOutcome::Denied | CallOutcome::Skipped | CallOutcome::Aborted => {}
            }
        }
        last
    }
}

fn summary(call: &SealedCall, outcome: CallOutcome, arguments: &str) -> String {
    let tool = excerpt(&call.tool, ARGUMENT_CHARS);
    format!("{tool} {} — {}", excerpt(arguments, ARGUMENT_CHARS), name(&outcome))
}

fn stop_reason(end: &RunEnded) -> ReplyStop {
    match end.outcome {
        Outcome::Completed if end.compacted => ReplyStop::Compacted,
        Outcome::Completed => match end.stop_reason {
            None => ReplyStop::Stop,
            Some(StopReason::Length) => ReplyStop::Length,
            Some(StopReason::ContentFilter) => ReplyStop::ContentFilter,
        },
        Outcome::Failed => ReplyStop::Error,
        Outcome::Aborted => ReplyStop::Aborted,
        Outcome::Interrupted => ReplyStop::Interrupted,
        Outcome::TimedOut => ReplyStop::TimedOut,
        Outcome::Stalled => ReplyStop::Stalled,
    }
}
