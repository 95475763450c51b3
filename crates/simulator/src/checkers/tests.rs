//! Each checker is able to fail: a good world is changed, and what must be found is named.

use std::sync::Arc;

use engine::{Answer, Batch, CallId, Hash, Record, Seq, ToolClass, Views};

use super::*;
use crate::plan::{Plan, branch_id, session_id};
use crate::world::{Recorded, View, Watch, World};

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
    let now = outside.now;
    outside.disk.append(&batch, epoch, now).unwrap();
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
        let call = CallId { run: message_id(2).into(), step: 9, index: 9 };
        outside.callers.answered(Caller::Leave(call), Ok(Answer::Done), outside.now).unwrap();
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
