//! Runs from the acceptance of their message to their single end.

use std::collections::{BTreeMap, BTreeSet};

use engine::tables::limits::END_GRACE_MS;
use engine::tables::transitions::RunState;
use engine::{
    Acknowledgement, AtLimit, Event, FailureClass, Outcome, ReceiptState, RunEnded, RunId, SessionRow, Timestamp,
};

use super::{Evidence, SLACK_MS, TIGHT_MS};
use crate::invariant::{Invariant, Violation};
use crate::plan::{SESSION_KEY, message_id};
use crate::workload::{Leave, Then};
use crate::world::{Caller, Outside};

pub(super) fn a_key_is_one_run(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let mut accepted = BTreeMap::<RunId, u32>::new();
    evidence.accepted().for_each(|run| *accepted.entry(run).or_default() += 1);
    let planned = |run: RunId| evidence.outside.plan.script_of(run).is_some();
    let wrong = accepted.iter().find(|(run, times)| **times != 1 || !planned(**run));
    Invariant::SameKey.holds(wrong.is_none(), || format!("accepted, and not once: {wrong:?}"))?;
    for (caller, answered) in evidence.outside.callers.answers() {
        if let (Caller::Message(index) | Caller::Repeat(index), Ok(Acknowledgement::Receipt(receipt))) =
            (caller, &answered.answer)
        {
            let run: RunId = message_id(*index).into();
            Invariant::SameKey
                .holds(receipt.run == run, || format!("{caller:?} got the receipt of run {}", receipt.run))?;
        }
    }
    Ok(())
}

fn cancelled(evidence: &Evidence<'_>) -> BTreeSet<RunId> {
    let taken_back = evidence.events().filter_map(|event| match event {
        Event::MessageSettled(e) if e.state == ReceiptState::Cancelled => Some(e.message.into()),
        _ => None,
    });
    taken_back.collect()
}

/// Everything that was accepted has ended, except what waits for a human who never comes; the views name that human's
/// task.
pub(super) fn all_has_ended(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let unreadable = |error: journal::Error| Invariant::Journal.violated(error.to_string());
    let accepted: BTreeSet<RunId> = evidence.accepted().collect();
    let ended: BTreeSet<RunId> = evidence.ends().map(|e| e.run).collect();
    let over: BTreeSet<RunId> = ended.union(&cancelled(evidence)).copied().collect();
    let journal = evidence.outside.disk.journal();
    let row = journal.session(SESSION_KEY).map_err(unreadable)?;
    let waits = match &row {
        Some(row) => accepted != over && waits_by_name(evidence, row)?,
        None => false,
    };
    Invariant::Settled
        .holds(waits || accepted.len() == evidence.runs(), || format!("{} were accepted", accepted.len()))?;
    Invariant::Settled.holds(waits || accepted == over, || format!("accepted {accepted:?}, over {over:?}"))?;
    // A row also says so if something that went out did not arrive.
    let undelivered =
        evidence.events().any(|event| matches!(event, Event::DeliveryEnded(e) if e.arrived != Some(true)));
    let rests = row.is_some_and(|row| {
        !row.unfinished && row.queued == 0 && row.run.is_none() && (undelivered || row.trouble.is_none())
    });
    Invariant::Settled.holds(waits || rests, || "the session's row says that it is not idle".into())?;
    let runs = journal.runs(None).map_err(unreadable)?;
    let fits = |row: &engine::RunRow| match row.outcome {
        Some(outcome) => evidence.ends().any(|e| e.run == row.run && e.outcome == outcome),
        None => waits && !ended.contains(&row.run),
    };
    let whole = runs.len() == ended.len() + usize::from(waits);
    Invariant::Settled.holds(whole && runs.iter().all(fits), || format!("the rows of the runs say {runs:?}"))
}

/// Whether the session waits for a human who, by the script, does not come; the views must name what it waits for.
fn waits_by_name(evidence: &Evidence<'_>, row: &SessionRow) -> Result<bool, Violation> {
    let Outside { plan, disk, .. } = evidence.outside;
    let run = row.run.and_then(|run| plan.script_of(run));
    let is_held = row.run_state == RunState::Paused && run.is_some_and(|run| plan.stays_held(run));
    if plan.seed.leave != Leave::Never || row.run_state != RunState::Awaiting {
        return Ok(is_held);
    }
    let open = disk.journal().approvals(None).map_err(|e| Invariant::Journal.violated(e.to_string()))?;
    let named = open.iter().any(|approval| Some(approval.call.run) == row.run);
    Invariant::Settled.holds(named, || "the session waits for an approval, and no request is open".into())?;
    Ok(named)
}

pub(super) fn one_at_a_time(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let mut active = None;
    for event in evidence.events() {
        match event {
            Event::RunStarted(e) => {
                let before = active.replace(e.run);
                Invariant::Lanes.holds(before.is_none(), || format!("{} starts beside {before:?}", e.run))?;
            }
            Event::RunEnded(e) => {
                active.take_if(|run| *run == e.run);
            }
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn one_end_each(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let mut ended = BTreeSet::new();
    for event in evidence.events() {
        let run = match event {
            Event::RunEnded(e) => {
                Invariant::Terminal.holds(ended.insert(e.run), || format!("run {} has two ends", e.run))?;
                continue;
            }
            Event::RunStarted(e) => Some(e.run),
            Event::RequestSent(e) => Some(e.request.run),
            Event::MessageSealed(e) => Some(e.request.run),
            Event::CallStarted(e) => Some(e.call.run),
            Event::CallSettled(e) => Some(e.call.run),
            _ => None,
        };
        let late = run.filter(|run| ended.contains(run));
        Invariant::Terminal.holds(late.is_none(), || format!("{} comes after the end of its run", event.kind()))?;
    }
    Ok(())
}

pub(super) fn ends_are_those_of_the_script(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let decided = evidence.decided();
    evidence.ends().try_for_each(|end| {
        let decided = decided.get(&end.run).copied();
        Invariant::Outcome.holds(may_end(evidence, end, decided), || {
            let why = end.failure.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("run {} ended as {} {why}; {decided:?} was decided", end.run, end.outcome.name())
        })
    })
}

fn is_of(end: &RunEnded, class: FailureClass) -> bool {
    end.failure.as_ref().is_some_and(|failure| failure.class == class)
}

/// Whether a run of the script can end like this.
fn may_end(evidence: &Evidence<'_>, end: &RunEnded, decided: Option<Outcome>) -> bool {
    let Outside { plan, past, .. } = evidence.outside;
    let Some(run) = plan.script_of(end.run) else { return false };
    let script = &plan.workload.runs[run];
    let limits = plan.limits();
    match end.outcome {
        Outcome::Completed if end.failure.is_none() => decided.is_none(),
        // The rest of the answer of a completed run failed: INV-ANSWER looks at what came.
        Outcome::Completed | Outcome::Failed if is_of(end, FailureClass::Budget) => {
            decided.is_none() && plan.settings.budget.at_limit == AtLimit::End
        }
        Outcome::Completed | Outcome::Failed => {
            decided.is_none() && plan.failures(run).is_none_or(|most| most + past.gaps > limits.retries)
        }
        Outcome::Aborted => decided == Some(end.outcome) && script.abort.is_some(),
        Outcome::Interrupted => {
            decided == Some(end.outcome) && script.pause.is_some_and(|pause| pause.then == Then::Dropped)
        }
        Outcome::TimedOut | Outcome::Stalled => {
            let is_stalled = end.outcome == Outcome::Stalled;
            let most = if is_stalled { limits.stall_ms } else { limits.deadline_ms };
            let lasts = |most: u64| plan.held_up_ms(run).is_none_or(|ms| ms + TIGHT_MS > most);
            let says = is_of(end, FailureClass::Stalled) || end.failure.is_some();
            let could = most.is_some_and(|most| lasts(most) || past.gaps > 0);
            decided == Some(end.outcome) && could && (says || !is_stalled)
        }
    }
}

/// A run whose abort was acknowledged ends by a decision, and soon, unless a fault came in between.
pub(super) fn aborts_are_kept(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let Outside { callers, past, plan, .. } = evidence.outside;
    let decided = evidence.decided();
    let promised = (0..plan.workload.runs.len()).filter(|index| callers.was_promised(Caller::Abort(*index)));
    for index in promised {
        let run = RunId::from(message_id(index));
        Invariant::Abort.holds(decided.contains_key(&run), || format!("the abort of {run} decided nothing"))?;
        let acknowledged = callers.answers().get(&Caller::Abort(index)).map_or(Timestamp(0), |answered| answered.at);
        let ended = evidence.entries.iter().find(|entry| matches!(&entry.event, Event::RunEnded(e) if e.run == run));
        let late = ended.is_none_or(|entry| entry.at.since(acknowledged) > END_GRACE_MS + SLACK_MS);
        let disturbed = past.until > acknowledged || past.gaps > 0;
        Invariant::Abort.holds(disturbed || !late, || {
            format!("the abort of {run} was acknowledged at {acknowledged:?}: {ended:?}")
        })?;
    }
    Ok(())
}

pub(super) fn runs_keep_the_order(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let started: Vec<RunId> = evidence
        .events()
        .filter_map(|event| match event {
            Event::RunStarted(e) => Some(e.run),
            _ => None,
        })
        .collect();
    let cancelled = cancelled(evidence);
    let accepted: Vec<RunId> = evidence.accepted().filter(|run| !cancelled.contains(run)).collect();
    let sent: Vec<RunId> = (0..evidence.runs()).map(|index| message_id(index).into()).collect();
    let all: Vec<RunId> = evidence.accepted().collect();
    Invariant::Order.holds(accepted.starts_with(&started) && sent.starts_with(&all), || {
        format!("sent {sent:?}, accepted {accepted:?}, started {started:?}")
    })
}
