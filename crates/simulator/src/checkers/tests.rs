//! Each checker can fail: a good world is changed, and the test names the invariant that must be violated.

use std::sync::Arc;

use engine::tables::compaction::CompactionStep;
use engine::{
    Acknowledgement, Address, ApprovalRow, AskExpired, Batch, Body, CallId, CallOutcome, CandidateCooldownSet,
    CompactionBegun, CompactionCause, DeliveryEnded, DeliveryKind, DeliveryStarted, DeliveryWanted, EffectId, Epoch,
    Failed, Failure, FailureClass, Hash, Note, Noted, PauseCause, Paused, PlanSet, ProcessAdopted, ProcessEnded,
    ReceiptState, Record, RequestSent, ResultsTruncated, RetryScheduled, Seq, Spent, StopReason, TextAdded, Thinking,
    Timestamp, TitleAsked, TitleEnded, ToolClass, Usage, Views, WaitBegan, WaitEnded, WaitFor,
};

use super::*;
use crate::plan::{Plan, ROUTE, SESSION_KEY, branch_id, session_id};
use crate::workload::{Task, Workload};
use crate::world::{Recorded, View, Watch, World};

/// A change of a good world that violates this invariant.
type Violate = (Invariant, fn(&mut Outside));

/// Violations that are found once everything is quiet.
pub(crate) const VIOLATIONS: &[Violate] = &[
    (Invariant::Lanes, |outside| [0; 2].iter().for_each(|_| append(outside, event_of(outside, "run_started")))),
    (Invariant::Published, |outside| outside.view = View::default()),
    (Invariant::Acknowledged, |outside| {
        let call = CallId { run: message_id(2).into(), step: 9, index: 9 };
        outside.callers.answered(Caller::Leave(call), Ok(Acknowledgement::Done), outside.now).unwrap();
    }),
    (Invariant::Terminal, |outside| append(outside, event_of(outside, "run_ended"))),
    (Invariant::Terminal, |outside| {
        let start = start_of(outside, ToolClass::ReadOnly);
        outside.tools.starts.push(Start { late: true, ..start });
    }),
    (Invariant::Leave, |outside| {
        let call = CallId { run: message_id(2).into(), step: 9, index: 9 };
        [0; 2].iter().for_each(|_| append(outside, AskExpired { call, kept: false }.into()));
    }),
    (Invariant::SameKey, |outside| append(outside, event_of(outside, "message_accepted"))),
    (Invariant::Settled, |outside| {
        let Event::MessageAccepted(mut another) = event_of(outside, "message_accepted") else { unreachable!() };
        another.message = message_id(7);
        append(outside, another.into());
    }),
    (Invariant::Order, |outside| append(outside, event_of(outside, "run_started"))),
    (Invariant::Journal, |outside| {
        let effect = EffectId { try_no: 9, ..request_of(outside) };
        let open = TextAdded { effect, offset: 0, text: "left".into() };
        append(outside, open.into());
    }),
    (Invariant::Journal, |outside| {
        let mut row = outside.disk.journal().session(SESSION_KEY).unwrap().unwrap();
        row.unfinished = true;
        let views = Views { session: Some(row), ..Views::default() };
        append_with(outside, event_of(outside, "run_started"), views);
    }),
    (Invariant::Journal, |outside| {
        let mut row = outside.disk.journal().receipts(session_id()).unwrap().swap_remove(0);
        row.state = ReceiptState::Refused;
        append_with(outside, idle_event(outside), Views { receipts: vec![row], ..Views::default() });
    }),
    (Invariant::Journal, |outside| {
        let (call, session) = (CallId { run: message_id(2).into(), step: 9, index: 9 }, session_id());
        let row = ApprovalRow::open(call, session, "may it?".into(), outside.now);
        append_with(outside, idle_event(outside), Views { approvals: vec![row], ..Views::default() });
    }),
    (Invariant::Outcome, |outside| {
        let ended = end_of(outside);
        append(outside, RunEnded { outcome: Outcome::Failed, ..ended }.into());
    }),
    (Invariant::Answer, |outside| {
        let ended = end_of(outside);
        append(outside, RunEnded { text: vec![], ..ended }.into());
    }),
    (Invariant::Answer, |outside| {
        let ended = end_of(outside);
        append(outside, RunEnded { stop_reason: Some(StopReason::Length), ..ended }.into());
    }),
    (Invariant::EndMark, |outside| outside.model.whole.clear()),
    (Invariant::Stall, |outside| {
        outside.model.silent.insert(request_of(outside), Timestamp(0));
    }),
    (Invariant::Abort, |outside| {
        outside.callers.answered(Caller::Abort(0), Ok(Acknowledgement::Done), outside.now).unwrap();
    }),
    (Invariant::Abort, |outside| {
        // It ended as requested, but too late.
        let aborted = Caller::Abort(2);
        assert!(outside.callers.was_promised(aborted));
        outside.callers.answered(aborted, Ok(Acknowledgement::Done), Timestamp(0)).unwrap();
        outside.past.until = Timestamp(0);
    }),
    (Invariant::Counters, |outside| {
        append(
            outside,
            RetryScheduled {
                as_it_is: false,
                compaction_step: None,
                until: outside.now.plus(1_000),
                try_no: 2,
                candidate: None,
                model: None,
                thinking: None,
            }
            .into(),
        );
        append(outside, WaitEnded { on: WaitFor::Retry }.into());
    }),
    (Invariant::Counters, |outside| [0; 9].iter().for_each(|_| append(outside, event_of(outside, "failed")))),
    (Invariant::Counters, |outside| {
        append(
            outside,
            CandidateCooldownSet { candidate: 0, model: String::new(), until: None, class: None, request: None }.into(),
        );
        append(outside, event_of(outside, "request_sent"));
    }),
    (Invariant::Chain, |outside| append(outside, WaitBegan { on: WaitFor::Quota, until: None, limit: None }.into())),
    (Invariant::Chain, |outside| {
        let Event::Failed(failed) = event_of(outside, "failed") else { unreachable!() };
        let failure = Failure::new(FailureClass::Auth, "refused");
        [0; 2].iter().for_each(|_| append(outside, Failed { failure: failure.clone(), ..failed.clone() }.into()));
    }),
    (Invariant::Chain, |outside| {
        let thinking = Some(Thinking::High);
        append(
            outside,
            RetryScheduled {
                as_it_is: false,
                compaction_step: None,
                until: outside.now,
                try_no: 2,
                candidate: None,
                model: None,
                thinking,
            }
            .into(),
        );
    }),
    (Invariant::Chain, |outside| {
        let (Event::Failed(failed), ended) = (event_of(outside, "failed"), end_of(outside)) else { unreachable!() };
        let failure = Some(failed.failure.clone());
        append(outside, failed.into());
        append(outside, RunEnded { outcome: Outcome::Failed, failure, ..ended }.into());
    }),
    (Invariant::Task, |outside| {
        append(outside, Noted { note: Note::SchemaMismatch, body: end_of(outside).text[0] }.into());
    }),
    (Invariant::Task, |outside| {
        let paused = Paused { cause: PauseCause::Breakpoint, freeze: false, call: None, state: None, cleared: true };
        append(outside, paused.into());
    }),
    (Invariant::Task, |outside| {
        let task = Task { plan: true, ..Task::default() };
        let workload = Workload { task, ..outside.plan.workload.clone() };
        outside.plan = Arc::new(Plan::of(workload, outside.plan.seed));
    }),
    (Invariant::Once, |outside| outside.tools.starts.push(start_of(outside, ToolClass::Once))),
    (Invariant::Intent, |outside| {
        let start = start_of(outside, ToolClass::Idempotent);
        outside.tools.starts.push(Start { recorded: Recorded::Written, ..start });
    }),
    (Invariant::Intent, |outside| {
        let start = start_of(outside, ToolClass::ReadOnly);
        outside.tools.starts.push(Start { recorded: Recorded::No, asks: true, ..start });
    }),
    (Invariant::Intent, |outside| {
        let start = start_of(outside, ToolClass::ReadOnly);
        let effect = EffectId { try_no: 9, ..start.effect };
        outside.tools.starts.push(Start { recorded: Recorded::No, effect, ..start });
    }),
    (Invariant::Process, |outside| {
        let process = EffectId { try_no: 9, ..request_of(outside) };
        let call = CallId { run: process.run, step: 9, index: 0 };
        append(outside, ProcessAdopted { process, call, until: outside.now }.into());
    }),
    (Invariant::Process, |outside| {
        let Event::ProcessEnded(ended) = event_of(outside, "process_ended") else { unreachable!() };
        append(outside, ProcessEnded { outcome: CallOutcome::Interrupted, ..ended }.into());
    }),
    (Invariant::Key, |outside| {
        let start = start_of(outside, ToolClass::Idempotent);
        outside.tools.starts.push(Start { key: Hash([7; 32]), ..start });
    }),
    (Invariant::Leave, |outside| {
        let start = start_of(outside, ToolClass::ReadOnly);
        outside.tools.starts.push(Start { asks: true, ..start });
    }),
    (Invariant::Leave, |outside| {
        let start = start_of(outside, ToolClass::Once);
        outside.tools.starts.push(Start { key: Hash([7; 32]), ..start });
    }),
    (Invariant::Result, |outside| {
        let Event::CallSettled(settled) = event_of(outside, "call_settled") else { unreachable!() };
        let set = PlanSet { call: settled.call, items: settled.output, steps: 1, done: 0, reminder: None };
        append(outside, set.into());
    }),
    (Invariant::Result, |outside| outside.tools.done.clear()),
    (Invariant::Compaction, |outside| {
        let ended = end_of(outside);
        append(outside, begun(outside).into());
        append(outside, ended.into());
    }),
    (Invariant::Compaction, |outside| {
        let compaction = begun(outside).compaction;
        append(outside, ResultsTruncated { compaction, results: vec![], before: 9, after: 5 }.into());
    }),
    (Invariant::Compaction, |outside| {
        let compaction = begun(outside).compaction;
        append(outside, begun(outside).into());
        append(outside, ResultsTruncated { compaction, results: vec![], before: 9, after: 9 }.into());
    }),
    (Invariant::Compaction, |outside| {
        [0; 2].iter().for_each(|_| append(outside, flush(outside)));
    }),
    (Invariant::Request, |outside| {
        let ended = end_of(outside);
        append(outside, TitleAsked { title: title_of(outside), reserved: None }.into());
        append(outside, ended.into());
    }),
    (Invariant::Request, |outside| {
        for _ in 0..2 {
            append(outside, TitleAsked { title: title_of(outside), reserved: None }.into());
            append(outside, untitled(outside));
        }
    }),
    (Invariant::Request, |outside| append(outside, untitled(outside))),
    (Invariant::Delivery, |outside| outside.arrived.push(delivery_of(outside))),
    (Invariant::Delivery, |outside| {
        let delivery = delivery_of(outside);
        append(outside, wanted(delivery, None).into());
        append(outside, DeliveryStarted { delivery, epoch: Epoch(1), joined: vec![] }.into());
        append(outside, ended_delivery(delivery, None).into());
        outside.arrived.extend([delivery, delivery]);
    }),
    (Invariant::Delivery, |outside| append(outside, wanted(delivery_of(outside), None).into())),
    (Invariant::Delivery, |outside| append(outside, ended_delivery(delivery_of(outside), None).into())),
    (Invariant::Delivery, |outside| {
        let delivery = delivery_of(outside);
        append(outside, wanted(delivery, None).into());
        append(outside, ended_delivery(delivery, Some(true)).into());
    }),
    (Invariant::Delivery, |outside| {
        let (delivery, text) = (delivery_of(outside), end_of(outside).text[0]);
        append(outside, wanted(delivery, Some(text)).into());
        append(outside, ended_delivery(delivery, Some(false)).into());
    }),
    (Invariant::Budget, |outside| append(outside, WaitBegan { on: WaitFor::Budget, until: None, limit: None }.into())),
    (Invariant::Budget, |outside| {
        let Event::RequestSent(sent) = event_of(outside, "request_sent") else { unreachable!() };
        let reserved = Some(Spent { tokens: 1, ..Spent::default() });
        append(outside, RequestSent { reserved, ..sent }.into());
    }),
];

fn delivery_of(outside: &Outside) -> EffectId {
    EffectId { kind: EffectKind::Deliver, ordinal: 9, try_no: 1, ..request_of(outside) }
}

fn wanted(delivery: EffectId, text: Option<Body>) -> DeliveryWanted {
    let kind = if text.is_some() { DeliveryKind::Block } else { DeliveryKind::Reply };
    let to = Some(Box::new(Address { channel: ROUTE.to_owned(), ..Address::default() }));
    let (has_keys, goes_on, call, again) = (false, false, None, None);
    let (taken, reopened, from, short) = (0, None, 0, None);
    DeliveryWanted { delivery, kind, to, text, has_keys, call, taken, reopened, from, goes_on, short, again }
}

fn ended_delivery(delivery: EffectId, arrived: Option<bool>) -> DeliveryEnded {
    DeliveryEnded { delivery, arrived, why: None, dropped: false }
}

fn quiet() -> Outside {
    let plan = Arc::new(Plan::new(1).unwrap());
    let mut world = World::begin(&plan, Watch::Ends).unwrap();
    world.settle().unwrap();
    world.outside().clone()
}

/// Appends as a faulty machine would, and notifies the subscriber.
pub(crate) fn append(outside: &mut Outside, event: Event) {
    append_with(outside, event, Views::default());
}

fn append_with(outside: &mut Outside, event: Event, views: Views) {
    let entries = outside.disk.entries().unwrap();
    let at = entries.last().unwrap().at;
    let seq = event.progress().is_none().then(|| Seq(entries.len() as u64 + 1));
    let record = Record { seq, at, event };
    let batch = Batch { session: session_id(), branch: branch_id(), records: vec![record], bodies: vec![], views };
    let (batch, epoch) = (Arc::new(batch), outside.disk.open().unwrap());
    let now = outside.now;
    outside.disk.append(&batch, epoch, now).unwrap();
    let Outside { view, disk, .. } = outside;
    view.receive(&batch, disk.journal()).unwrap();
}

fn start_of(outside: &Outside, class: ToolClass) -> Start {
    outside.tools.starts.iter().find(|start| start.class == class).unwrap().clone()
}

pub(crate) fn event_of(outside: &Outside, kind: &str) -> Event {
    outside.disk.entries().unwrap().into_iter().find(|entry| entry.event.kind() == kind).unwrap().event
}

/// An event that changes nothing while nothing runs, so that only a row beside it is wrong.
fn idle_event(outside: &Outside) -> Event {
    event_of(outside, "request_opened")
}

fn end_of(outside: &Outside) -> RunEnded {
    match event_of(outside, "run_ended") {
        Event::RunEnded(ended) => ended,
        other => unreachable!("{other:?} is of another kind"),
    }
}

fn begun(outside: &Outside) -> CompactionBegun {
    let compaction = EffectId { kind: EffectKind::Compact, try_no: 9, ..request_of(outside) };
    let (cause, compaction_step) = (CompactionCause::Threshold, CompactionStep::Truncate);
    CompactionBegun { try_no: 1, compaction, cause, compaction_step, items: 1, tokens: 9, focus: None, reserved: None }
}

/// The model is asked to save what must not be lost.
fn flush(outside: &Outside) -> Event {
    let Event::MessageAccepted(accepted) = event_of(outside, "message_accepted") else { unreachable!() };
    Noted { note: Note::MemoryFlush, body: accepted.body }.into()
}

fn title_of(outside: &Outside) -> EffectId {
    EffectId { kind: EffectKind::Title, try_no: 9, ..request_of(outside) }
}

fn untitled(outside: &Outside) -> Event {
    let failure = Some(Failure::new(FailureClass::Server, "no title"));
    let title = title_of(outside);
    TitleEnded { title, text: None, by: None, usage: Usage::default(), cost: 0, failure }.into()
}

/// A request of a run that has ended.
fn request_of(outside: &Outside) -> EffectId {
    *outside.model.whole.first().unwrap()
}

/// What each checker finds after this change.
fn found(change: fn(&mut Outside)) -> Vec<Option<Invariant>> {
    let mut outside = quiet();
    check(&outside).unwrap();
    change(&mut outside);
    let evidence = Evidence { outside: &outside, entries: outside.disk.entries().unwrap() };
    CHECKERS.iter().map(|holds| holds(&evidence).err().map(|violation| violation.invariant)).collect()
}

#[test]
fn r10_what_must_hold_at_the_end_is_found_where_it_does_not_and_no_checker_is_idle() {
    let mut idle: BTreeSet<usize> = (0..CHECKERS.len()).collect();
    for (number, (invariant, change)) in VIOLATIONS.iter().enumerate() {
        let found = found(*change);
        let finders: Vec<usize> = (0..found.len()).filter(|at| found[*at] == Some(*invariant)).collect();
        assert!(!finders.is_empty(), "{invariant:?}, violated by change {number}, is not among {found:?}");
        idle.retain(|at| !finders.contains(at));
    }
    assert!(idle.is_empty(), "no change violates what these checkers check: {idle:?}");
}
