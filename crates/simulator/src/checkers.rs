//! What must hold once the world is quiet. The checkers see only what is outside of the machine: the journal, what
//! callers and subscribers were told, and what the tools did.

use std::collections::{BTreeMap, BTreeSet};

use engine::{
    Answer, AskAnswered, CallId, CallOutcome, CallSettled, EffectId, EffectKind, Event, Outcome, RunEnded, RunId,
    ToolClass,
};
use journal::{Entry, Read};

use crate::invariant::{Invariant, Violation};
use crate::workload::{Life, SESSION_KEY, message_id};
use crate::world::{Caller, Outside, Recorded, Start, last_run, only_closes, text_of};

/// All that is known of a case.
struct Evidence<'a> {
    outside: &'a Outside,
    entries: Vec<Entry>,
}

type Checker = fn(&Evidence<'_>) -> Result<(), Violation>;

/// Every checker, in the order in which they are run.
const CHECKERS: &[Checker] = &[
    journal_holds_what_was_appended,
    all_was_shown,
    acknowledged_is_kept,
    a_key_is_one_run,
    all_has_ended,
    one_end_each,
    ends_are_those_of_the_script,
    runs_keep_the_order,
    answers_are_whole,
    starts_were_recorded,
    once_is_once,
    keys_stay,
    leave_was_given,
    results_are_true,
];

/// Checks a quiet world.
pub fn check(outside: &Outside) -> Result<(), Violation> {
    let evidence = Evidence { outside, entries: outside.disk.entries()? };
    CHECKERS.iter().try_for_each(|holds| holds(&evidence))
}

impl<'a> Evidence<'a> {
    fn events(&self) -> impl Iterator<Item = &Event> {
        self.entries.iter().map(|entry| &entry.event)
    }

    fn starts(&self) -> &'a [Start] {
        &self.outside.tools.starts
    }

    fn ends(&self) -> impl Iterator<Item = &RunEnded> {
        self.events().filter_map(|event| match event {
            Event::RunEnded(e) => Some(e),
            _ => None,
        })
    }

    fn settled(&self) -> impl Iterator<Item = &CallSettled> {
        self.events().filter_map(|event| match event {
            Event::CallSettled(e) => Some(e),
            _ => None,
        })
    }

    fn accepted(&self) -> impl Iterator<Item = RunId> {
        self.events().filter_map(|event| match event {
            Event::MessageAccepted(e) => Some(e.message.into()),
            _ => None,
        })
    }

    fn runs(&self) -> usize {
        self.outside.plan.workload.runs.len()
    }
}

fn journal_holds_what_was_appended(evidence: &Evidence<'_>) -> Result<(), Violation> {
    evidence.outside.disk.check(&evidence.entries)?;
    let progress = evidence.outside.disk.progress()?;
    let open = progress.iter().find_map(|record| record.event.progress()).map(|(effect, _)| effect.to_string());
    Invariant::Journal.holds(open.is_none(), || format!("progress that nothing sealed is left: {open:?}"))
}

fn all_was_shown(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let shown = evidence.outside.view.entries();
    let same = shown.len() == evidence.entries.len() && shown.iter().map(AsRef::as_ref).eq(evidence.events());
    Invariant::Published
        .holds(same, || format!("{} entries were shown, {} are in the journal", shown.len(), evidence.entries.len()))
}

fn acknowledged_is_kept(evidence: &Evidence<'_>) -> Result<(), Violation> {
    acknowledged(evidence.outside, &evidence.entries)
}

/// Whatever a caller was told is in these entries of the journal. Checked at each opening too.
pub fn acknowledged(outside: &Outside, entries: &[Entry]) -> Result<(), Violation> {
    let any = |is: &dyn Fn(&Event) -> bool| entries.iter().any(|entry| is(&entry.event));
    for (caller, told) in outside.callers.told() {
        let kept = match (caller, told) {
            (_, Err(_)) => true,
            (Caller::Message(index) | Caller::Repeat(index), Ok(_)) => {
                any(&|event| matches!(event, Event::MessageAccepted(e) if e.message == message_id(*index)))
            }
            (Caller::Leave(call), Ok(_)) => any(&|event| matches!(event, Event::AskAnswered(e) if e.call == *call)),
            (Caller::Abort, Ok(_)) => any(&|event| matches!(event, Event::EndingSet(_))),
        };
        Invariant::Acknowledged
            .holds(kept, || format!("{caller:?} was told {told:?}, the journal has nothing of it"))?;
    }
    Ok(())
}

fn a_key_is_one_run(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let mut accepted = BTreeMap::<RunId, u32>::new();
    evidence.accepted().for_each(|run| *accepted.entry(run).or_default() += 1);
    let twice = accepted.iter().find(|(_, times)| **times != 1);
    Invariant::SameKey.holds(twice.is_none(), || format!("accepted more than once: {twice:?}"))?;
    for (caller, told) in evidence.outside.callers.told() {
        if let (Caller::Message(index) | Caller::Repeat(index), Ok(Answer::Receipt(receipt))) = (caller, told) {
            let run: RunId = message_id(*index).into();
            Invariant::SameKey.holds(receipt.run == run, || format!("{caller:?} was told of run {}", receipt.run))?;
        }
    }
    Ok(())
}

fn all_has_ended(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let accepted: BTreeSet<RunId> = evidence.accepted().collect();
    let ended: BTreeSet<RunId> = evidence.ends().map(|e| e.run).collect();
    Invariant::Settled.holds(accepted.len() == evidence.runs(), || format!("{} were accepted", accepted.len()))?;
    Invariant::Settled.holds(accepted == ended, || format!("accepted {accepted:?}, ended {ended:?}"))?;
    let journal = evidence.outside.disk.journal();
    let row = journal.session(SESSION_KEY).map_err(|e| Invariant::Journal.violated(e.to_string()))?;
    let rests = row.is_some_and(|row| !row.unfinished && row.queued == 0 && row.run.is_none() && row.trouble.is_none());
    Invariant::Settled.holds(rests, || "the session's row says that it is not at rest".into())?;
    let runs = journal.runs(None).map_err(|e| Invariant::Journal.violated(e.to_string()))?;
    let rows = runs.iter().all(|row| evidence.ends().any(|e| e.run == row.run && Some(e.outcome) == row.outcome));
    Invariant::Settled.holds(rows && runs.len() == ended.len(), || format!("the rows of the runs say {runs:?}"))
}

fn one_end_each(evidence: &Evidence<'_>) -> Result<(), Violation> {
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

fn ends_are_those_of_the_script(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let aborted = last_run(&evidence.outside.plan);
    let told = evidence.outside.callers.told().get(&Caller::Abort);
    evidence.ends().try_for_each(|end| {
        let fits = match (end.outcome, told) {
            (Outcome::Aborted, _) => end.run == aborted,
            (Outcome::Completed, Some(Ok(_))) => end.run != aborted,
            (Outcome::Completed, _) => true,
            _ => false,
        };
        Invariant::Outcome.holds(fits, || {
            let why = end.failure.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("run {} ended as {} {why}; the abort was told {told:?}", end.run, end.outcome.name())
        })
    })
}

fn runs_keep_the_order(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let started: Vec<RunId> = evidence
        .events()
        .filter_map(|event| match event {
            Event::RunStarted(e) => Some(e.run),
            _ => None,
        })
        .collect();
    let accepted: Vec<RunId> = evidence.accepted().collect();
    let sent: Vec<RunId> = (0..evidence.runs()).map(|index| message_id(index).into()).collect();
    Invariant::Order.holds(accepted == sent && started == sent, || {
        format!("sent {sent:?}, accepted {accepted:?}, started {started:?}")
    })
}

/// The final text is that of the messages of the last step, and for a completed run what the script says.
fn answers_are_whole(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let journal = evidence.outside.disk.journal();
    let mut step = vec![];
    for event in evidence.events() {
        match event {
            Event::StepBegun(_) => step.clear(),
            Event::MessageSealed(e) => step.extend(e.text),
            Event::RunEnded(e) => {
                Invariant::Answer
                    .holds(e.text == step, || format!("run {} names {:?}, not {step:?}", e.run, e.text))?;
                let text = e.text.iter().map(|body| text_of(journal, body)).collect::<Result<String, _>>()?;
                let plan = &evidence.outside.plan;
                let answer = plan.script_of(e.run).map(|run| plan.answer(run)).unwrap_or_default();
                let whole = only_closes(&answer, &text) || e.outcome != Outcome::Completed;
                Invariant::Answer
                    .holds(whole, || format!("run {} answers `{text}`, the model said `{answer}`", e.run))?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn starts_were_recorded(evidence: &Evidence<'_>) -> Result<(), Violation> {
    evidence.starts().iter().try_for_each(|start| {
        let least = if start.class == ToolClass::ReadOnly { Recorded::Written } else { Recorded::Synced };
        Invariant::Intent.holds(start.recorded >= least, || {
            format!("{} began ({}) when its start was recorded: {:?}", start.call, start.effect, start.recorded)
        })
    })
}

fn once_is_once(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let mut begun = BTreeSet::new();
    let once = evidence.starts().iter().filter(|start| start.class == ToolClass::Once);
    once.map(|start| (start.call, start.effect)).try_for_each(|(call, effect): (CallId, EffectId)| {
        Invariant::Once.holds(begun.insert(call), || format!("{call} began again, by {effect}"))
    })
}

fn keys_stay(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let mut keys = BTreeMap::new();
    evidence.starts().iter().try_for_each(|start| {
        let first = *keys.entry(start.call).or_insert(start.key);
        Invariant::Key.holds(first == start.key, || format!("{} began with another key", start.call))
    })
}

fn leave_was_given(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let given = |call: CallId| {
        evidence
            .events()
            .any(|event| matches!(event, Event::AskAnswered(AskAnswered { call: of, allow: true, .. }) if *of == call))
    };
    let asked = evidence.starts().iter().filter(|start| start.asks);
    asked
        .map(|start| start.call)
        .try_for_each(|call| Invariant::Leave.holds(given(call), || format!("{call} began without leave")))
}

/// Done means done; nothing that never began is called done; only what nobody can know is called interrupted.
fn results_are_true(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let tools = &evidence.outside.tools;
    let mut settled = BTreeSet::new();
    for result in evidence.settled() {
        let call = result.call;
        Invariant::Result.holds(settled.insert(call), || format!("{call} has two results"))?;
        let began = tools.starts.iter().any(|start| start.call == call);
        let fits = match result.outcome {
            CallOutcome::Done => tools.done.contains(&call),
            CallOutcome::Denied | CallOutcome::Skipped => !began,
            CallOutcome::Interrupted => nobody_knows(evidence, call),
            CallOutcome::Aborted => call.run == last_run(&evidence.outside.plan),
            CallOutcome::Failed | CallOutcome::TimedOut | CallOutcome::Unended => false,
        };
        Invariant::Result.holds(fits, || {
            let ran_by = result.effect.map(|effect| effect.to_string());
            format!(
                "{call} ({ran_by:?}) is {:?}; it began: {began}, did it: {}",
                result.outcome,
                tools.done.contains(&call)
            )
        })?;
    }
    let unsettled = tools.starts.iter().find(|start| !settled.contains(&start.call));
    Invariant::Result.holds(unsettled.is_none(), || format!("no result for {unsettled:?}"))
}

/// A call in the process that may run once, or a command that died with the machine.
fn nobody_knows(evidence: &Evidence<'_>, call: CallId) -> bool {
    let Outside { tools, plan, .. } = evidence.outside;
    let arguments = evidence.events().find_map(|event| match event {
        Event::MessageSealed(e) => e.calls.iter().find(|sealed| sealed.id == call).map(|sealed| sealed.arguments.hash),
        _ => None,
    });
    let planned = arguments.and_then(|arguments| plan.call(&arguments));
    planned.is_some_and(|planned| match planned.life {
        Life::Process => planned.class == ToolClass::Once,
        Life::Supervised => tools.died.contains(&call),
    })
}

/// The last entries, one a line, for whoever reads a failure.
pub fn last_entries(outside: &Outside, count: usize) -> Vec<String> {
    let entries = outside.disk.entries().unwrap_or_default();
    let skip = entries.len().saturating_sub(count);
    entries[skip..]
        .iter()
        .map(|entry| format!("{} {} (epoch {})", entry.seq, told(&entry.event), entry.epoch))
        .collect()
}

fn told(event: &Event) -> String {
    let payload = String::from_utf8_lossy(&event.payload()).into_owned();
    let short: String = payload.chars().take(160).collect();
    format!("{} {short}", event.kind())
}

const _: () = assert!(EffectKind::ALL.len() == 13, "a new kind of effect needs its name among the operations");

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use engine::{Batch, Hash, Record, Seq, Views};

    use super::*;
    use crate::workload::{Plan, branch_id, session_id};
    use crate::world::{View, Watch, World};

    fn quiet() -> Outside {
        let plan = Arc::new(Plan::new(1).unwrap());
        let mut world = World::begin(&plan, Watch::Ends).unwrap();
        world.settle().unwrap();
        world.outside().clone()
    }

    /// Appends as a machine that went wrong would, and tells the subscriber.
    fn append(outside: &mut Outside, event: Event) {
        let entries = outside.disk.entries().unwrap();
        let at = entries.last().unwrap().at;
        let record = Record { seq: Some(Seq(entries.len() as u64 + 1)), at, event };
        let (session, branch, views) = (session_id(), branch_id(), Views::default());
        let batch = Arc::new(Batch { session, branch, records: vec![record], bodies: vec![], views });
        let epoch = outside.disk.open();
        outside.disk.append(&batch, epoch).unwrap();
        let Outside { view, disk, .. } = outside;
        view.told(&batch, disk.journal()).unwrap();
    }

    fn start_of(outside: &Outside, class: ToolClass) -> Start {
        outside.tools.starts.iter().find(|start| start.class == class).unwrap().clone()
    }

    fn event_of(outside: &Outside, kind: &str) -> Event {
        outside.disk.entries().unwrap().into_iter().find(|entry| entry.event.kind() == kind).unwrap().event
    }

    /// Changes a good world and names what must be found.
    fn check_finds(invariant: Invariant, change: impl FnOnce(&mut Outside)) {
        let mut outside = quiet();
        check(&outside).unwrap();
        change(&mut outside);
        let evidence = Evidence { outside: &outside, entries: outside.disk.entries().unwrap() };
        let found: Vec<Invariant> =
            CHECKERS.iter().filter_map(|holds| holds(&evidence).err()).map(|violation| violation.invariant).collect();
        assert!(found.contains(&invariant), "{invariant:?} is not among {found:?}");
    }

    #[test]
    fn r10_what_was_told_and_is_not_there_is_found() {
        check_finds(Invariant::Published, |outside| outside.view = View::default());
        check_finds(Invariant::Acknowledged, |outside| {
            let call = CallId { run: last_run(&outside.plan), step: 9, index: 9 };
            outside.callers.answered(Caller::Leave(call), Ok(Answer::Done)).unwrap();
        });
    }

    #[test]
    fn r11_an_end_that_is_missing_or_comes_twice_is_found() {
        check_finds(Invariant::Terminal, |outside| append(outside, event_of(outside, "run_ended")));
        check_finds(Invariant::SameKey, |outside| append(outside, event_of(outside, "message_accepted")));
        check_finds(Invariant::Settled, |outside| {
            let Event::MessageAccepted(mut another) = event_of(outside, "message_accepted") else { unreachable!() };
            another.message = message_id(7);
            append(outside, another.into());
        });
        check_finds(Invariant::Order, |outside| append(outside, event_of(outside, "run_started")));
    }

    #[test]
    fn r10_an_answer_or_an_outcome_that_is_not_the_scripts_is_found() {
        let ended = |outside: &Outside| match event_of(outside, "run_ended") {
            Event::RunEnded(ended) => ended,
            other => unreachable!("{other:?} is of another kind"),
        };
        check_finds(Invariant::Outcome, |outside| {
            append(outside, RunEnded { outcome: Outcome::Failed, ..ended(outside) }.into());
        });
        check_finds(Invariant::Answer, |outside| append(outside, RunEnded { text: vec![], ..ended(outside) }.into()));
    }

    #[test]
    fn r13_a_call_that_ran_as_it_must_not_is_found() {
        check_finds(Invariant::Once, |outside| {
            outside.tools.starts.push(start_of(outside, ToolClass::Once));
        });
        check_finds(Invariant::Intent, |outside| {
            let recorded = Recorded::Written;
            outside.tools.starts.push(Start { recorded, ..start_of(outside, ToolClass::Idempotent) });
        });
        check_finds(Invariant::Key, |outside| {
            let key = Hash([7; 32]);
            outside.tools.starts.push(Start { key, ..start_of(outside, ToolClass::Idempotent) });
        });
        check_finds(Invariant::Leave, |outside| {
            outside.tools.starts.push(Start { asks: true, ..start_of(outside, ToolClass::ReadOnly) });
        });
        check_finds(Invariant::Result, |outside| {
            outside.tools.done.pop_first();
        });
    }
}
