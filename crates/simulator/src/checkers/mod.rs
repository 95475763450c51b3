//! What must hold once the world is quiet. The checkers see only what is outside of the machine: the journal, what
//! callers and subscribers received, and what the tools and the provider did.

mod calls;
pub mod chain;
mod compactions;
mod deliveries;
mod runs;
pub mod spending;
mod streams;
mod tasks;
#[cfg(test)]
pub(crate) mod tests;
mod titles;

use std::collections::{BTreeMap, BTreeSet};

use engine::{CallSettled, EffectKind, Event, Outcome, RunEnded, RunId};
use journal::Entry;

use crate::invariant::{Invariant, Violation};
use crate::plan::{message_id, session_id};
use crate::world::{Caller, Outside, Start};

/// Everything that is known about a case.
struct Evidence<'a> {
    outside: &'a Outside,
    entries: Vec<Entry>,
}

type Checker = fn(&Evidence<'_>) -> Result<(), Violation>;

/// All checkers, in the order in which they run.
const CHECKERS: &[Checker] = &[
    journal_holds_what_was_appended,
    all_was_shown,
    acknowledged_is_kept,
    runs::a_key_is_one_run,
    runs::all_has_ended,
    runs::one_at_a_time,
    runs::one_end_each,
    runs::ends_are_those_of_the_script,
    runs::aborts_are_kept,
    runs::runs_keep_the_order,
    chain::counters_survive,
    streams::answers_are_whole,
    streams::complete_means_an_end_mark,
    streams::silence_has_a_limit,
    calls::starts_were_recorded,
    calls::once_is_once,
    calls::keys_stay,
    calls::approval_was_given,
    calls::edited_calls_run_as_edited,
    calls::requests_have_one_answer,
    calls::nothing_starts_after_the_end,
    calls::results_are_true,
    calls::plans_are_set_once,
    calls::processes_have_ended,
    compactions::are_whole,
    compactions::are_announced_once,
    compactions::run_does_not_end_in_one,
    spending::is_within_its_limits,
    titles::are_asked_within_their_runs,
    tasks::runs_stop_where_they_are_to,
    tasks::a_plan_only_reads,
    tasks::a_misfit_is_asked_for_once_more,
    deliveries::arrive_once_and_in_order,
    deliveries::have_one_end,
    deliveries::blocks_are_the_text,
    views_are_those_of_the_entries,
];

/// Limits below this many milliseconds may expire in the middle of ordinary work.
const TIGHT_MS: u64 = 20_000;

/// Milliseconds by which ordinary work may be late.
const SLACK_MS: u64 = 2_000;

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

    /// The outcomes that were decided before the runs ended, by run.
    fn decided(&self) -> BTreeMap<RunId, Outcome> {
        let mut decided = BTreeMap::new();
        let mut run = None;
        for event in self.events() {
            match event {
                Event::RunStarted(e) => run = Some(e.run),
                Event::EndingSet(e) => {
                    run.map(|run| decided.entry(run).or_insert(e.outcome));
                }
                _ => {}
            }
        }
        decided
    }
}

fn journal_holds_what_was_appended(evidence: &Evidence<'_>) -> Result<(), Violation> {
    evidence.outside.disk.check(&evidence.entries)?;
    let progress = evidence.outside.disk.progress()?;
    let over: BTreeSet<RunId> = evidence.ends().map(|e| e.run).collect();
    let mut left = progress.iter().filter_map(|record| record.event.progress()).map(|(effect, _)| effect);
    let open = left.find(|effect| over.contains(&effect.run)).map(|effect| effect.to_string());
    Invariant::Journal.holds(open.is_none(), || format!("progress that nothing sealed is left: {open:?}"))
}

/// The stored rows of the views match the entries.
fn views_are_those_of_the_entries(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let journal = evidence.outside.disk.journal();
    let unreadable = |error: journal::Error| Invariant::Journal.violated(error.to_string());
    let rebuilt = journal::views::rebuilt(journal).map_err(unreadable)?;
    let mut anew = (vec![], vec![], vec![], vec![]);
    for views in rebuilt.rows {
        anew.0.extend(views.session);
        anew.1.extend(views.runs);
        anew.2.extend(views.receipts);
        // Only open requests are listed.
        anew.3.extend(views.approvals.into_iter().filter(|row| row.allowed.is_none()));
    }
    let kept = (
        journal.sessions().map_err(unreadable)?,
        journal.runs(None).map_err(unreadable)?,
        journal.receipts(session_id()).map_err(unreadable)?,
        journal.approvals(None).map_err(unreadable)?,
    );
    Invariant::Journal.holds(kept == anew, || format!("the views are {kept:#?}, the entries imply {anew:#?}"))
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

/// Whatever a caller was answered is in these entries of the journal. Also checked at each opening.
pub fn acknowledged(outside: &Outside, entries: &[Entry]) -> Result<(), Violation> {
    let any = |is: &dyn Fn(&Event) -> bool| entries.iter().any(|entry| is(&entry.event));
    for (caller, answered) in outside.callers.answers().iter().filter(|(_, answered)| answered.answer.is_ok()) {
        let kept = match caller {
            Caller::Message(index) | Caller::Repeat(index) => {
                any(&|event| matches!(event, Event::MessageAccepted(e) if e.message == message_id(*index)))
            }
            Caller::Cancel(index) => {
                any(&|event| matches!(event, Event::MessageSettled(e) if e.message == message_id(*index)))
            }
            Caller::Leave(call) => any(&|event| matches!(event, Event::AskAnswered(e) if e.call == *call)),
            Caller::Abort(index) => ending_of(entries, message_id(*index).into()),
            Caller::Pause(_) => any(&|event| matches!(event, Event::Paused(_))),
            Caller::Resume(seq) | Caller::Repair(seq) => entries
                .iter()
                .any(|entry| entry.seq > *seq && matches!(entry.event, Event::Resumed(_) | Event::LifecycleChanged(_))),
            Caller::Raise(_, scope) => any(&|event| matches!(event, Event::BudgetSet(e) if e.scope == *scope)),
            Caller::Conflict(_) | Caller::Mistake(_) => false,
        };
        Invariant::Acknowledged.holds(kept, || format!("{caller:?} got {answered:?}, the journal does not have it"))?;
    }
    Ok(())
}

/// Whether an end of this run was decided.
fn ending_of(entries: &[Entry], run: RunId) -> bool {
    let from = entries.iter().position(|entry| matches!(&entry.event, Event::RunStarted(e) if e.run == run));
    let of_run = from.map_or(&[][..], |from| &entries[from + 1..]);
    let until = of_run.iter().position(|entry| matches!(entry.event, Event::RunStarted(_))).unwrap_or(of_run.len());
    of_run[..until].iter().any(|entry| matches!(entry.event, Event::EndingSet(_)))
}

/// The last entries, one per line, for the report of a failure.
pub fn last_entries(outside: &Outside, count: usize) -> Vec<String> {
    let entries = outside.disk.entries().unwrap_or_default();
    let skip = entries.len().saturating_sub(count);
    entries[skip..]
        .iter()
        .map(|entry| format!("{} {} (epoch {})", entry.seq, in_words(&entry.event), entry.epoch))
        .collect()
}

fn in_words(event: &Event) -> String {
    let payload = String::from_utf8_lossy(&event.payload()).into_owned();
    let short: String = payload.chars().take(160).collect();
    format!("{} {short}", event.kind())
}

const _: () = assert!(EffectKind::ALL.len() == 19, "a new kind of effect needs its name among the operations");
