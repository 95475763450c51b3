//! Every invariant can fail: the state is corrupted by hand, and the test names the invariant that must be violated.
//! Violations that are found in a quiet world are tested beside the checkers; this module tests those found on the way,
//! and that no invariant is missing.

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::{
    Batch, BodyKind, CallOutcome, Content, Decide as _, Effect, EffectId, EffectKind, Ending, FailureClass,
    FailureReport, Item, Ledger, Lifecycle, Lineage, Machine, Outcome, Phase, ReceiptState, Record, Report, Run, RunId,
    Session, TextAdded, Timestamp, Views,
};
use journal::Snapshot;

use crate::case::Form;
use crate::checkers::{spending, tests as quiet};
use crate::explore;
use crate::invariant::{Invariant, Violation};
use crate::plan::{Plan, branch_id, message_id, session_id};
use crate::random;
use crate::shared::LedgerOracle;
use crate::workload::Ends;
use crate::world::always;
use crate::world::perform::{Performer, each_message_once};
use crate::world::process::Process;
use crate::world::tools::{Command, Record as Running};
use crate::world::{Disk, Outside, View, Watch, World};

type Checked = Result<(), Violation>;

/// A change that violates this invariant.
type Violate = (Invariant, fn() -> Checked);

/// Violations that are found on the way, at the operation that causes them.
const VIOLATIONS: &[Violate] = &[
    (Invariant::Accounts, a_message_nobody_knows_of),
    (Invariant::State, a_key_of_another_message),
    (Invariant::Fence, an_append_of_an_owner_that_still_owns),
    (Invariant::Owner, a_run_with_nothing_under_way),
    (Invariant::Journal, an_entry_that_is_gone),
    (Invariant::Fold, an_entry_that_the_machine_never_made),
    (Invariant::Snapshot, a_snapshot_of_another_state),
    (Invariant::Repeat, two_cases_that_differ),
    (Invariant::Poison, a_disk_that_takes_more_after_it_failed),
    (Invariant::Stream, text_that_leaves_a_gap),
    (Invariant::Pairing, a_request_without_a_result),
    (Invariant::Request, a_request_of_another_run),
    (Invariant::Arguments, a_call_that_nobody_asked_for),
    (Invariant::Orphan, a_command_that_outlives_its_run),
    (Invariant::Process, a_running_process_that_is_reported_as_ended),
    (Invariant::Compaction, a_message_that_is_sent_twice),
    (Invariant::Budget, a_state_that_knows_of_less),
    (Invariant::Edge, a_step_outside_of_the_tables),
    (Invariant::Cooldown, a_cooldown_that_a_crash_has_taken),
    (Invariant::Liveness, a_world_that_becomes_quiet_too_late),
];

fn begin() -> World {
    World::begin(&Arc::new(Plan::new(1).unwrap()), Watch::Ends).unwrap()
}

/// The first world for which this holds.
fn world_when(is: impl Fn(&World) -> bool) -> World {
    let mut world = begin();
    while !is(&world) {
        assert!(world.step().unwrap().is_some(), "it never comes to this");
    }
    world
}

fn world_in(phase: &str) -> World {
    world_when(|world| world.phase() == phase)
}

fn session_of(world: &World) -> Session {
    world.session().unwrap().clone()
}

fn run_of(session: &mut Session) -> &mut Run {
    match &mut session.conversation.lifecycle {
        Lifecycle::Active(run) => run,
        other => unreachable!("{other:?} has no run in progress"),
    }
}

/// A process that starts from this state, and has done nothing with it.
fn process_with(session: Session, outside: &Outside) -> Process {
    let settings = |_| Some(Arc::clone(&outside.plan.settings));
    let machine = Machine::recover(Lineage { start: Some(session), ..Lineage::default() }, &settings).unwrap();
    Process::around(machine, outside.disk.epoch())
}

fn batch_of(record: Record) -> Arc<Batch> {
    let (session, branch, views) = (session_id(), branch_id(), Views::default());
    Arc::new(Batch { session, branch, records: vec![record], bodies: vec![], views })
}

fn a_message_nobody_knows_of() -> Checked {
    let mut world = begin();
    world.settle().unwrap();
    let mut session = session_of(&world);
    session.account.messages.get_mut(&message_id(0)).unwrap().state = ReceiptState::Queued;
    always::check(&process_with(session, world.outside()), world.outside())
}

fn a_key_of_another_message() -> Checked {
    let mut world = begin();
    world.settle().unwrap();
    let mut session = session_of(&world);
    session.account.keys.insert("a key that nobody sent".to_owned(), message_id(0));
    always::check(&process_with(session, world.outside()), world.outside())
}

fn a_cooldown_that_a_crash_has_taken() -> Checked {
    let mut ledger = Ledger::default();
    let request = EffectId { run: RunId(uuid::Uuid::nil()), kind: EffectKind::Request, ordinal: 1, try_no: 1 };
    let (provider, model, class) = ("acme".to_owned(), "one".to_owned(), FailureClass::RateLimit);
    let failure_report = FailureReport { request, provider, model, profile: None, class, until: None, probe: false };
    ledger.record_failure(&failure_report, Timestamp(0));
    let mut oracle = LedgerOracle::default();
    let reports = [(request, failure_report)].into();
    for record in &ledger.take_batch().unwrap().records {
        oracle.take(record, &reports).unwrap();
    }
    oracle.is_kept_by(&ledger, Timestamp(1)).unwrap();
    oracle.is_kept_by(&Ledger::default(), Timestamp(1))
}

fn an_append_of_an_owner_that_still_owns() -> Checked {
    let mut world = begin();
    let (process, outside) = world.parts();
    process.is_fenced(outside)
}

fn a_run_with_nothing_under_way() -> Checked {
    let world = world_in("preparing");
    always::check(&process_with(session_of(&world), world.outside()), world.outside())
}

fn an_entry_that_is_gone() -> Checked {
    let disk = &world_in("streaming").outside().disk.clone();
    let mut entries = disk.entries().unwrap();
    entries.pop();
    disk.check(&entries)
}

fn an_entry_that_the_machine_never_made() -> Checked {
    let mut world = begin();
    world.settle().unwrap();
    let (process, outside) = world.parts();
    quiet::append(outside, quiet::event_of(outside, "message_accepted"));
    process.check_fold(outside)
}

fn a_snapshot_of_another_state() -> Checked {
    let mut world = begin();
    world.settle().unwrap();
    let mut session = session_of(&world);
    session.account.keys.clear();
    let snapshot = Snapshot::new(session.account.branch, session.account.head, session.to_snapshot());
    world.parts().1.disk.keep_snapshot(snapshot).unwrap();
    world.crashed(Form::Process).map(drop)
}

fn two_cases_that_differ() -> Checked {
    let (first, mut again) = (begin(), begin());
    explore::same(&first, &again).unwrap();
    again.step().unwrap();
    explore::same(&first, &again)
}

fn a_disk_that_takes_more_after_it_failed() -> Checked {
    let mut world = world_in("preparing");
    let (process, outside) = world.parts();
    let effect = EffectId { run: message_id(0).into(), kind: EffectKind::Request, ordinal: 1, try_no: 1 };
    let text = TextAdded { effect, offset: 0, text: "more".into() };
    let record = Record { seq: None, at: outside.now, event: text.into() };
    process.is_refused(&batch_of(record), Invariant::Poison, outside)
}

fn text_that_leaves_a_gap() -> Checked {
    let outside = Outside::new(&Arc::new(Plan::new(1).unwrap()), Disk::default());
    let effect = EffectId { run: message_id(0).into(), kind: EffectKind::Request, ordinal: 1, try_no: 1 };
    let text = TextAdded { effect, offset: 1, text: "b".into() };
    let record = Record { seq: None, at: outside.now, event: text.into() };
    View::default().receive(&batch_of(record), outside.disk.journal())
}

/// Sends a request at a place where the conversation holds results.
fn send(change: impl FnOnce(&mut EffectId, &mut u32, &[Item])) -> Checked {
    let has_result = |item: &Item| matches!(item, Item::Result { .. });
    let mut world = world_when(|world| {
        world.session().is_some_and(|session| session.conversation.transcript.items().iter().any(has_result))
    });
    let session = session_of(&world);
    let items = session.conversation.transcript.items();
    let run = session.run().unwrap();
    let (mut id, mut count) = (run.effect(EffectKind::Request, 9, 1), items.len() as u32);
    change(&mut id, &mut count, items);
    let request = Effect::Request { id, candidate: 0, thinking: None, prompt: run.prompt.unwrap(), items: count };
    Performer::start(&request, world.parts().1, &session).map(drop)
}

fn a_request_without_a_result() -> Checked {
    let asks = |item: &Item| matches!(item, Item::Assistant { calls, .. } if !calls.is_empty());
    send(|_, count, items| *count = items.iter().position(asks).unwrap() as u32 + 1)
}

fn a_message_that_is_sent_twice() -> Checked {
    let session = session_of(&world_in("tool_exec"));
    let items = session.conversation.transcript.items();
    let id = session.run().unwrap().effect(EffectKind::Request, 9, 1);
    each_message_once(id, &[items[0].clone(), items[0].clone()])
}

fn a_state_that_knows_of_less() -> Checked {
    let mut world = begin();
    world.settle().unwrap();
    let mut session = session_of(&world);
    session.account.spent.tokens -= 1;
    spending::is_as_the_state_says(&session, &world.outside().disk.entries().unwrap())
}

fn a_request_of_another_run() -> Checked {
    send(|id, _, _| id.run = message_id(1).into())
}

fn a_call_that_nobody_asked_for() -> Checked {
    let mut world = world_in("tool_exec");
    let mut session = session_of(&world);
    let call = &mut run_of(&mut session).step.calls[0];
    call.arguments = Content::text(BodyKind::Arguments, r#"{"call":"1."#).body;
    let check = Effect::CheckCall { id: call.effect(EffectKind::CheckCall), call: call.id };
    Performer::start(&check, world.parts().1, &session).map(drop)
}

fn a_command_that_outlives_its_run() -> Checked {
    let mut world = world_in("tool_exec");
    let call = run_of(&mut session_of(&world)).step.calls[0].clone();
    let effect = EffectId { ordinal: 99, ..call.effect(EffectKind::RunCall) };
    let record = Running::Running { pieces: 1 };
    let command = Command { call: call.id, arguments: call.arguments.hash, record, ends: Ends::Hangs };
    world.parts().1.tools.commands.insert(effect, command);
    world.settle()
}

fn a_running_process_that_is_reported_as_ended() -> Checked {
    let held = |world: &World| world.session().is_some_and(|session| !session.account.processes.is_empty());
    let mut world = world_when(held);
    let effect = session_of(&world).account.processes[0].effect(EffectKind::HoldProcess);
    let (process, outside) = world.parts();
    for command in outside.tools.commands.values_mut() {
        (command.record, command.ends) = (Running::Running { pieces: 1 }, Ends::Hangs);
    }
    let gone = Report::ProcessEnded { effect, outcome: CallOutcome::Done, how: "it is over".into(), changes: vec![] };
    process.report(gone, outside)?;
    world.settle()
}

/// Decides an end while a call has no result, in a state in which no run has calls.
fn a_step_outside_of_the_tables() -> Checked {
    let mut world = world_in("tool_exec");
    let mut session = session_of(&world);
    let outside = world.parts().1;
    let run = run_of(&mut session);
    run.phase = Phase::Retry { until: outside.now };
    run.ending = Some(Ending { outcome: Outcome::Aborted, terminate: false, reset: false, since: outside.now });
    process_with(session, outside).resume(outside)
}

fn a_world_that_becomes_quiet_too_late() -> Checked {
    let mut world = begin();
    world.settle().unwrap();
    world.parts().1.past.until = Timestamp(0);
    random::settles_in_time(&world)
}

#[test]
fn r10_what_must_hold_on_the_way_is_found_where_it_does_not() {
    for (invariant, plant) in VIOLATIONS {
        let found = plant().expect_err(invariant.name());
        assert_eq!(found.invariant, *invariant, "{found}");
    }
}

#[test]
fn r10_each_invariant_is_proven_to_be_able_to_fail() {
    let at_the_end = quiet::VIOLATIONS.iter().map(|(invariant, _)| *invariant);
    let proven: BTreeSet<Invariant> = at_the_end.chain(VIOLATIONS.iter().map(|(invariant, _)| *invariant)).collect();
    let missing: Vec<_> = Invariant::ALL.iter().filter(|invariant| !proven.contains(invariant)).collect();
    assert!(missing.is_empty(), "nothing shows that these can fail: {missing:?}");
}
