//! Compares what tools did with what was recorded of them.

use std::collections::{BTreeMap, BTreeSet};

use engine::{AskAnswered, CallId, CallOutcome, CallSettled, EffectId, Event, Hash, RunId, ToolClass};

use super::{Evidence, TIGHT_MS};
use crate::invariant::{Invariant, Violation};
use crate::plan::Planned;
use crate::workload::{CallOf, Ends, Expiry, Leave, Life};
use crate::world::{Outside, Recorded, Start};

/// A read-only call that needs no approval may begin before its start is recorded. It is recorded then, unless its process
/// ends before.
pub(super) fn starts_were_recorded(evidence: &Evidence<'_>) -> Result<(), Violation> {
    evidence.starts().iter().try_for_each(|start| {
        let read_only = start.class == ToolClass::ReadOnly;
        let least = if read_only { Recorded::Written } else { Recorded::Synced };
        let is_start =
            |event: &Event| matches!(event, Event::CallStarted(e) if e.call == start.call && e.effect == start.effect);
        let early = || read_only && !start.asks && (start.lost || evidence.events().any(is_start));
        Invariant::Intent.holds(start.recorded >= least || early(), || {
            format!("{} began ({}) when its start was recorded: {:?}", start.call, start.effect, start.recorded)
        })
    })
}

pub(super) fn once_is_once(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let mut begun = BTreeSet::new();
    let once = evidence.starts().iter().filter(|start| start.class == ToolClass::Once);
    once.map(|start| (start.call, start.effect)).try_for_each(|(call, effect): (CallId, EffectId)| {
        Invariant::Once.holds(begun.insert(call), || format!("{call} began again, by {effect}"))
    })
}

pub(super) fn keys_stay(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let mut keys = BTreeMap::new();
    evidence.starts().iter().try_for_each(|start| {
        let first = *keys.entry(start.call).or_insert(start.key);
        Invariant::Key.holds(first == start.key, || format!("{} began with another key", start.call))
    })
}

pub(super) fn approval_was_given(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let given = |call: CallId| {
        evidence
            .events()
            .any(|event| matches!(event, Event::AskAnswered(AskAnswered { call: of, allow: true, .. }) if *of == call))
    };
    let asked = evidence.starts().iter().filter(|start| start.asks);
    asked
        .map(|start| start.call)
        .try_for_each(|call| Invariant::Leave.holds(given(call), || format!("{call} began without approval")))
}

/// A call whose arguments somebody has changed runs with these, and any other with its own.
pub(super) fn edited_calls_run_as_edited(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let edited = |call: CallId| {
        let mut answers = evidence.events().filter_map(|event| match event {
            Event::AskAnswered(AskAnswered { call: of, edited: Some(edited), .. }) if *of == call => {
                Some(edited.body.hash)
            }
            _ => None,
        });
        answers.next()
    };
    evidence.starts().iter().try_for_each(|start| {
        let planned = match edited(start.call) {
            Some(arguments) => evidence.outside.plan.call(&arguments),
            None => planned_of(evidence, start.call),
        };
        let is_it = planned.is_some_and(|planned| planned.fingerprint() == start.key);
        Invariant::Leave.holds(is_it, || format!("{} began with other arguments than it was approved with", start.call))
    })
}

/// Whether nobody answered in time, so that the call was denied.
fn has_expired(evidence: &Evidence<'_>, call: CallId) -> bool {
    let plan = &evidence.outside.plan;
    let mut expired =
        evidence.events().filter(|event| matches!(event, Event::AskExpired(e) if e.call == call && !e.kept));
    plan.seed.expiry == Expiry::Denies && expired.next().is_some()
}

/// An approval request has one answer, or expires, or its run ends; never two of these.
pub(super) fn requests_have_one_answer(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let mut closed = BTreeSet::new();
    evidence.events().try_for_each(|event| {
        let call = match event {
            Event::AskAnswered(e) => e.call,
            Event::AskExpired(e) if !e.kept => e.call,
            _ => return Ok(()),
        };
        Invariant::Leave.holds(closed.insert(call), || format!("the request of {call} was closed twice"))
    })
}

pub(super) fn nothing_starts_after_the_end(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let late = evidence.starts().iter().find(|start| start.late);
    Invariant::Terminal.holds(late.is_none(), || format!("its run had ended, and it began: {late:?}"))
}

/// A call that is recorded as done was done; a call that never started is never recorded as done; a call is recorded as
/// interrupted only if its outcome cannot be known.
pub(super) fn results_are_true(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let tools = &evidence.outside.tools;
    let mut settled = BTreeSet::new();
    for result in evidence.settled() {
        let call = result.call;
        Invariant::Result.holds(settled.insert(call), || format!("{call} has two results"))?;
        let fits = fits(evidence, result);
        Invariant::Result.holds(fits, || {
            let ran_by = result.effect.map(|effect| effect.to_string());
            let began = tools.starts.iter().any(|start| start.call == call);
            let did = tools.done.contains(&call);
            format!("{call} ({ran_by:?}) is {:?}; it began: {began}, did it: {did}", result.outcome)
        })?;
    }
    let ended: BTreeSet<RunId> = evidence.ends().map(|e| e.run).collect();
    let open = |start: &&Start| !settled.contains(&start.call) && ended.contains(&start.call.run);
    let unsettled = tools.starts.iter().find(open);
    Invariant::Result.holds(unsettled.is_none(), || format!("no result for {unsettled:?}"))
}

/// Whether this call can have this result.
fn fits(evidence: &Evidence<'_>, result: &CallSettled) -> bool {
    let Outside { tools, plan, past, .. } = evidence.outside;
    let call = result.call;
    let began = tools.starts.iter().any(|start| start.call == call);
    let Some(planned) = planned_of(evidence, call) else {
        // The result of a wrong call says what is wrong with it, unless the run or its budget ended first.
        let is_wrong = arguments_of(evidence, call).is_some_and(|arguments| plan.wrong_call(&arguments).is_some());
        return is_wrong && !began && matches!(result.outcome, CallOutcome::Denied | CallOutcome::Skipped);
    };
    match result.outcome {
        CallOutcome::Done if planned.of == CallOf::Question => !began && was_answered(evidence, call),
        CallOutcome::Done if adopted(evidence, call) => began && planned.background,
        CallOutcome::Done | CallOutcome::Failed => tools.done.contains(&call) && planned.outcome() == result.outcome,
        CallOutcome::Denied => {
            let is_refused = plan.seed.leave == Leave::Denied || has_expired(evidence, call);
            !began && (!plan.may_run(planned) || planned.asks && is_refused)
        }
        // If a crash interrupted a try of a repeatable call, that try has no result; the run ended before the next try.
        CallOutcome::Skipped => match planned.class {
            ToolClass::ReadOnly => true,
            ToolClass::Idempotent => !tools.done.contains(&call),
            ToolClass::Once => !began,
        },
        CallOutcome::Interrupted => nobody_knows(evidence, call),
        CallOutcome::Aborted => evidence.decided().contains_key(&call.run),
        CallOutcome::TimedOut => {
            !planned.comes_to_an_end() || plan.limits().tool_timeout_ms < TIGHT_MS || past.gaps > 0
        }
        CallOutcome::Unended => planned.ends == Ends::Stubborn || past.gaps > 0,
    }
}

fn was_answered(evidence: &Evidence<'_>, call: CallId) -> bool {
    let answers = |event: &Event| matches!(event, Event::AskAnswered(e) if e.call == call && e.answer.is_some());
    evidence.events().any(answers)
}

/// A call that sets the plan has set it once if it is done, and no other call has.
pub(super) fn plans_are_set_once(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let mut set: Vec<CallId> = evidence
        .events()
        .filter_map(|event| match event {
            Event::PlanSet(e) => Some(e.call),
            _ => None,
        })
        .collect();
    let done = |result: &&CallSettled| {
        let planned = planned_of(evidence, result.call);
        result.outcome == CallOutcome::Done && planned.is_some_and(|planned| planned.of == CallOf::Plan)
    };
    let mut expected: Vec<CallId> = evidence.settled().filter(done).map(|result| result.call).collect();
    set.sort_unstable();
    expected.sort_unstable();
    Invariant::Result.holds(set == expected, || format!("{set:?} have set a plan, and {expected:?} are to have"))
}

fn adopted(evidence: &Evidence<'_>, call: CallId) -> bool {
    evidence.events().any(|event| matches!(event, Event::ProcessAdopted(e) if e.call == call))
}

/// Every command in the background has exactly one end, and the recorded end is how it ended.
pub(super) fn processes_have_ended(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let tools = &evidence.outside.tools;
    let mut held = BTreeMap::new();
    let mut to_end = BTreeSet::new();
    for event in evidence.events() {
        match event {
            Event::ProcessAdopted(e) => {
                let again = held.insert(e.process, e.call);
                Invariant::Process.holds(again.is_none(), || format!("{} was adopted again", e.process))?;
            }
            Event::ProcessEnding(e) => drop(to_end.insert(e.process)),
            Event::ProcessEnded(e) => {
                let call = held.remove(&e.process);
                let fits = call.is_some_and(|call| match e.outcome {
                    CallOutcome::Interrupted => tools.died.contains(&call),
                    outcome => {
                        let planned = planned_of(evidence, call).filter(|_| tools.done.contains(&call));
                        to_end.contains(&e.process) || planned.is_some_and(|planned| planned.outcome() == outcome)
                    }
                });
                Invariant::Process
                    .holds(fits, || format!("{} ended as {:?}, which it did not", e.process, e.outcome))?;
            }
            _ => {}
        }
    }
    Invariant::Process.holds(held.is_empty(), || format!("in the background without an end: {held:?}"))
}

/// The scripted call that belongs to this call.
fn planned_of<'a>(evidence: &Evidence<'a>, call: CallId) -> Option<&'a Planned> {
    evidence.outside.plan.call(&arguments_of(evidence, call)?)
}

fn arguments_of(evidence: &Evidence<'_>, call: CallId) -> Option<Hash> {
    evidence.events().find_map(|event| match event {
        Event::MessageSealed(e) => e.calls.iter().find(|sealed| sealed.id == call).map(|sealed| sealed.arguments.hash),
        _ => None,
    })
}

/// Whether the outcome cannot be known: a call of class `Once` in the process, or a command that died with the machine.
fn nobody_knows(evidence: &Evidence<'_>, call: CallId) -> bool {
    planned_of(evidence, call).is_some_and(|planned| match planned.life {
        Life::Process => planned.class == ToolClass::Once,
        Life::Supervised => evidence.outside.tools.died.contains(&call),
    })
}
