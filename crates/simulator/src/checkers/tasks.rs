//! What a message asks of its run: to stop before calls, to plan only, to answer so that it fits a schema.

use std::collections::{BTreeMap, BTreeSet};

use engine::{CallId, Event, Note, Outcome, PauseCause, RunId, ToolClass};

use super::Evidence;
use crate::invariant::{Invariant, Violation};
use crate::world::text_of;

/// A run stops before the first call of each group of tools, whatever crashes, and once.
pub(super) fn runs_stop_where_they_are_to(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let groups = &evidence.outside.plan.workload.task.stop_before;
    let mut tools = BTreeMap::<CallId, &str>::new();
    let mut left = BTreeMap::<RunId, Vec<&Vec<String>>>::new();
    let group_of = |left: &BTreeMap<RunId, Vec<&Vec<String>>>, tools: &BTreeMap<CallId, &str>, call: CallId| {
        let tool = tools.get(&call)?;
        left.get(&call.run)?.iter().position(|group| group.iter().any(|of| of == tool))
    };
    for event in evidence.events() {
        match event {
            Event::RunStarted(e) => drop(left.insert(e.run, groups.iter().collect())),
            Event::MessageSealed(e) => tools.extend(e.calls.iter().map(|call| (call.id, call.tool.as_str()))),
            Event::Paused(e) if e.cause == PauseCause::Breakpoint => {
                let stopped = e.call.and_then(|call| Some((call.run, group_of(&left, &tools, call)?)));
                let Some((run, group)) = stopped else {
                    return Err(Invariant::Task.violated(format!("a run stopped where nothing stops it: {e:?}")));
                };
                if let Some(left) = left.get_mut(&run) {
                    left.remove(group);
                }
            }
            Event::CallStarted(e) => {
                let passed = group_of(&left, &tools, e.call);
                Invariant::Task
                    .holds(passed.is_none(), || format!("{} began, and its run was to stop before", e.call))?;
            }
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn a_plan_only_reads(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let is_plan = evidence.outside.plan.workload.task.plan;
    let mut starts = evidence.starts().iter();
    let wrong = starts.find(|start| is_plan && start.class != ToolClass::ReadOnly);
    Invariant::Task.holds(wrong.is_none(), || format!("a plan does more than read: {wrong:?}"))
}

/// The model receives once at most that its answer does not fit, and a run does not complete with its first answer if that
/// does not fit. One that closes its report early is not asked again.
pub(super) fn a_misfit_is_asked_for_once_more(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let (plan, journal) = (&evidence.outside.plan, evidence.outside.disk.journal());
    let (mut warned, mut closes) = (BTreeSet::new(), BTreeSet::new());
    let mut run = None;
    for event in evidence.events() {
        match event {
            Event::RunStarted(e) => run = Some(e.run),
            Event::Noted(e) if e.note == Note::SchemaMismatch => {
                let is_first = run.is_some_and(|run| warned.insert(run));
                Invariant::Task.holds(is_first && plan.workload.task.schema, || {
                    format!("the model of {run:?} receives once more that its answer does not fit")
                })?;
            }
            Event::Noted(e) if e.note == Note::Closing => closes.extend(run),
            Event::RunEnded(e) if e.outcome == Outcome::Completed && e.stop_reason.is_none() && e.text.len() == 1 => {
                let misfit = plan.misfit(&text_of(journal, &e.text[0])?);
                let is_asked = warned.contains(&e.run) || closes.contains(&e.run);
                Invariant::Task.holds(misfit.is_none() || is_asked, || {
                    format!("run {} completed with its first answer, which does not fit", e.run)
                })?;
            }
            _ => {}
        }
    }
    Ok(())
}
