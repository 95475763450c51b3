//! Invariants that hold after every step, for any inputs.

use std::collections::{BTreeMap, BTreeSet};

use engine::tables::limits::TITLE_MS;
use engine::{
    Batch, Call, CallId, Decide as _, DeliveryState, Effect, EffectKind, Event, Found, Leg, LegState, Lifecycle,
    MessageId, Phase, PrepareStage, ProcessState, QueueWatch, ReceiptState, Record, Run, Session, Stage, ToolClass,
    WaitFor,
};

use super::World;

/// Checks a record before it is committed: `world` holds what came before it, and the bodies of its batch.
pub(crate) fn check_record(world: &World, record: &Record) {
    let event = &record.event;
    assert_eq!(event.reserved(), None, "{} has no producer yet", event.kind());
    for body in event.bodies() {
        let content = world.bodies.get(&body.hash);
        assert_eq!(content.map(|content| content.body), Some(body), "{}: a body came after its name", event.kind());
    }
    if let Event::RunEnded(ended) = event {
        let again = |earlier: &&Record| matches!(&earlier.event, Event::RunEnded(e) if e.run == ended.run);
        assert!(!world.journal.iter().any(|record| again(&record)), "run {} ended twice", ended.run);
    }
    if let Event::CallStarted(started) = event
        && started.class == ToolClass::Once
    {
        assert!(may_start(world, started.call), "call {} may not start again", started.call);
    }
}

/// A call of class `Once` starts once, and again only after the look-up found that it never started.
fn may_start(world: &World, call: CallId) -> bool {
    let mut may = true;
    for record in &world.journal {
        match &record.event {
            Event::CallStarted(e) if e.call == call => may = false,
            Event::CallFound(e) if e.call == call => may = matches!(e.found, Found::NeverStarted | Found::Running),
            _ => {}
        }
    }
    may
}

/// Checks that a batch's rows name the session whenever an entry was recorded.
pub(crate) fn check_views(batch: &Batch) {
    let entries = batch.records.iter().any(|record| record.seq.is_some());
    assert_eq!(batch.views.session.is_some(), entries, "the session's row goes with every entry");
}

/// Checks the world at rest.
pub(crate) fn check(world: &World) {
    let Some(session) = world.pump.session() else { return };
    assert_eq!(world.pump.machine().fault(), None);
    assert_eq!(session.check(), Ok(()));
    check_fold(world);
    if let Some(snapshot) = world.snapshots.last() {
        check_snapshot(world, snapshot);
    }
    let wanted: BTreeSet<_> = world.pump.machine().effects().iter().map(engine::Effect::id).collect();
    let running: BTreeSet<_> = world.running.keys().copied().collect();
    assert_eq!(running, wanted, "the running effects are the wanted ones");
    assert_eq!(world.armed, world.pump.machine().deadline(), "the soonest time is armed");
    check_starts(world);
    check_processes(world);
    check_receipts(world);
    check_shows(world);
    check_taken(world);
    if !session.account.closed {
        check_liveness(world);
    }
}

/// R23: the row of the unfinished run has its spending and its reservation: the next owner of the home starts with
/// that.
fn check_taken(world: &World) {
    let Some(run) = world.session().run() else { return };
    let row = world.run_row.as_ref().filter(|row| row.run == run.id).expect("a run has a row");
    let taken = run.taken();
    assert_eq!((row.tokens, row.cost), (taken.tokens, taken.cost), "the row of the unfinished run");
}

/// R36: the states of messages, reported entry by entry, lead to the final states, from any start.
fn check_shows(world: &World) {
    let half = world.journal.len() / 2;
    let mut watch = QueueWatch::at_rest();
    let reported: Vec<_> = world.journal.iter().map(|record| watch.see(&record.event, record.at)).collect();
    let mut last = BTreeMap::new();
    for change in reported.iter().flatten() {
        let of: &mut (Option<_>, Option<_>) = last.entry(change.message).or_default();
        *of = (change.queue_state.or(of.0), change.steer_state.or(of.1));
    }
    let session = world.session();
    for id in session.account.messages.keys() {
        let (own, other) = last.get(id).copied().unwrap_or_default();
        let now = (session.queue_state(*id), session.steer_state(*id));
        // A cancelled message shows nothing; its settling reports that.
        assert!(now.0.is_none() || now.0 == own, "message {id} shows {own:?}, not {:?}", now.0);
        assert!(now.1.is_none() || now.1 == other, "message {id} shows {other:?}, not {:?}", now.1);
    }
    if let Some(before) = world.recovered(&world.journal[..half]).session() {
        let mut watch = QueueWatch::of(before.clone());
        let again: Vec<_> = world.journal[half..].iter().map(|record| watch.see(&record.event, record.at)).collect();
        assert_eq!(again, reported[half..], "a report that starts here is the same");
    }
    assert!(!watch.is_idle() || session.conversation.queue.is_empty() && session.run().is_none());
}

/// The recorded events alone give the same state; so do the entries with only the progress that is not sealed yet.
fn check_fold(world: &World) {
    let machine = world.pump.machine();
    for records in [world.journal.clone(), world.surviving()] {
        let again = world.recovered(&records);
        assert_eq!(again.session(), machine.session(), "the fold of the journal is the state");
        assert_eq!(again.settings(), machine.settings(), "a run keeps its settings");
        // The time to end calls counts from the record of the end, and for the next owner from its opening.
        let is_ending = world.session().run().is_some_and(|run| run.ending.is_some());
        assert!(is_ending || again.deadline() == machine.deadline(), "a restart arms the same times");
        assert_eq!(again.effects(), machine.effects(), "a restart wants the same effects");
    }
}

/// The fold from any snapshot on is the fold of everything, to the byte.
pub(crate) fn check_snapshots(world: &World) {
    // Only a few, spread over the journal: each costs a fold.
    for snapshot in world.snapshots.iter().step_by(world.snapshots.len() / 8 + 1) {
        check_snapshot(world, snapshot);
    }
}

fn check_snapshot(world: &World, (length, snapshot): &(usize, Vec<u8>)) {
    let start = Session::from_snapshot(snapshot).expect("a state reads back").expect("it is of this version");
    assert_eq!(start.to_snapshot(), *snapshot, "what is read back is what was written");
    let later: BTreeSet<_> = world.journal[*length..].iter().filter_map(|record| record.seq).collect();
    let mut records = world.surviving();
    records.retain(|record| record.seq.is_none_or(|seq| later.contains(&seq)));
    let again = world.recovered_from(Some(start), &records);
    assert_eq!(again.session(), world.pump.session(), "the fold from the snapshot at {length} is the fold of all");
    assert_eq!(again.session().map(Session::to_snapshot), world.pump.session().map(Session::to_snapshot));
}

/// If a receipt names an ended run, the journal has its end.
fn check_receipts(world: &World) {
    let session = world.session();
    for (id, message) in &session.account.messages {
        let legs =
            [(Leg::Followup, Some(LegState { state: message.state, run: message.run })), (Leg::Steer, message.steer)];
        for (leg, state) in legs {
            if let Some(state) = state {
                check_ended(world, (*id, leg), state);
            }
        }
    }
}

/// Whether the run of a leg has ended is what its receipt says. `Session::check` sees to the rest.
fn check_ended(world: &World, (id, leg): (MessageId, Leg), LegState { state, run }: LegState) {
    let is_extra = leg == Leg::Steer;
    let ended = world.journal.iter().any(|record| matches!(&record.event, Event::RunEnded(e) if e.run == run));
    let expected = match state {
        // A leg that came too late goes with the other leg.
        ReceiptState::Merged if is_extra && run == id.into() => return,
        ReceiptState::Queued
        | ReceiptState::Started
        | ReceiptState::Steered
        | ReceiptState::Delivered
        | ReceiptState::Merged => false,
        ReceiptState::Ended => true,
        ReceiptState::Cancelled | ReceiptState::Dropped => ended && is_extra,
        ReceiptState::Refused => panic!("a message that was refused is not there"),
    };
    assert_eq!(ended, expected, "{leg:?} of message {id} is {state:?}");
}

/// Everything unfinished has a wanted effect, an armed time, or waits for a human.
fn check_liveness(world: &World) {
    let session = world.session();
    // These continue whatever happens to the run.
    let goes_on = |kind| {
        use EffectKind::{Deliver, EndProcess, Erase, HoldProcess, Report, Undo};
        matches!(kind, HoldProcess | EndProcess | Report | Undo | Erase | Deliver)
    };
    let effects = world.running.keys().any(|effect| !goes_on(effect.kind));
    for delivery in session.account.outbox.heads().filter(|_| !session.account.closed) {
        let moves = match delivery.state {
            DeliveryState::Waiting { until } => world.armed.is_some_and(|at| at <= until),
            DeliveryState::Started { .. } => world.running.contains_key(&delivery.effect),
            DeliveryState::Wanted | DeliveryState::Undelivered { .. } => false,
        };
        assert!(moves, "a delivery is stuck: {delivery:?}");
    }
    match &session.conversation.lifecycle {
        Lifecycle::Initializing => panic!("a session never rests so"),
        Lifecycle::Recovering { run } => {
            let is_lost = |run: &Run| run.step.calls.iter().any(|call| call.stage == Stage::Lost);
            let finds = world.running.keys().any(|effect| effect.kind == EffectKind::FindCall);
            assert!(run.as_deref().is_some_and(is_lost) && finds, "it recovers until its calls are looked up");
        }
        Lifecycle::Ready | Lifecycle::Idle => {
            let gathers = session.gathering_until().is_some_and(|until| world.armed.is_some_and(|at| at <= until));
            if session.may_begin_run() {
                assert_eq!(
                    effects || gathers,
                    !session.conversation.queue.is_empty(),
                    "the head gets its lane, or gathers"
                );
            } else {
                assert!(!effects, "nothing starts while files are restored or a conversation is erased");
            }
        }
        Lifecycle::Active(run) => assert!(moves(world, run), "the run is stuck: {:?}", run.phase),
        Lifecycle::Error { next: Some(next), .. } => {
            assert!(world.armed.is_some_and(|at| at <= next.at), "its next attempt is armed");
        }
        Lifecycle::Suspended(_) | Lifecycle::Error { next: None, .. } => {}
        Lifecycle::Terminated => {
            let delivers = session.account.outbox.pending().next().is_some();
            assert!(!effects && (delivers || world.armed.is_none()), "nothing is wanted of a terminated session");
        }
    }
}

/// Whether something outside will advance a run: the effect of its phase, an approval request, a time.
fn moves(world: &World, run: &Run) -> bool {
    let runs = |kind| world.running.keys().any(|effect| effect.kind == kind);
    if run.ending.is_some() {
        let ends = world.running.keys().any(|effect| matches!(effect.kind, EffectKind::FindCall | EffectKind::EndCall));
        return run.step.calls.iter().any(Call::is_out) && ends && world.armed.is_some();
    }
    match &run.phase {
        Phase::Preparing { stage: PrepareStage::Gathering } => run.prompt.is_none() && runs(EffectKind::Prepare),
        // It keeps requesting a grant.
        Phase::Preparing { stage: PrepareStage::Reserving }
        | Phase::Awaiting { on: WaitFor::Budget, until: Some(_) } => runs(EffectKind::Reserve),
        Phase::Preparing { stage: PrepareStage::Sent(_) } | Phase::Streaming(_) => runs(EffectKind::Request),
        Phase::ToolExec => [EffectKind::CheckCall, EffectKind::RunCall, EffectKind::FindCall, EffectKind::EndCall]
            .into_iter()
            .any(runs),
        Phase::Awaiting { on: WaitFor::Lane, .. } => runs(EffectKind::Lane),
        Phase::Awaiting { on: WaitFor::Approval, .. } => run.step.calls.iter().any(|call| call.stage == Stage::Asking),
        Phase::Awaiting { on: WaitFor::Answer, .. } => {
            run.step.calls.iter().any(|call| call.stage == Stage::Asking && call.takes.is_some())
        }
        // It waits until a limit is raised. For memory it keeps requesting a grant.
        Phase::Awaiting { on: WaitFor::Budget, until: None } => run.budget.asked.is_none() || runs(EffectKind::Reserve),
        // The limit of a process or of a title may come earlier.
        Phase::Retry { until } | Phase::Awaiting { on: WaitFor::Quota, until: Some(until) } => {
            let processes = world.session().account.processes.iter();
            let limits =
                processes.filter(|process| process.state == ProcessState::Running).map(|process| process.until);
            let of_title = run.title.map(|asked| asked.since.plus(TITLE_MS));
            let deliveries = world.session().account.outbox.heads().filter_map(|delivery| match delivery.state {
                DeliveryState::Waiting { until } => Some(until),
                _ => None,
            });
            world.armed == limits.chain(of_title).chain(deliveries).chain([*until]).min()
        }
        Phase::Compacting(Some(_)) => runs(EffectKind::Compact),
        // Decided in the batch that leads to this phase.
        Phase::Awaiting { .. } | Phase::Compacting(None) | Phase::Error { .. } => false,
    }
}

/// A call starts in the world at most once for each recorded start.
fn check_starts(world: &World) {
    let Some((Effect::RunCall { id, call }, _)) = world.started.last() else { return };
    let starts = world.started.iter().filter(|(effect, _)| effect.id() == *id).count();
    let recorded = world.journal.iter().filter(|record| match &record.event {
        Event::CallStarted(e) => e.effect == *id,
        _ => false,
    });
    assert!(starts <= recorded.count(), "call {call} was started more often than it was recorded");
}

/// A process is followed or ended until its end, whatever the session does, and has a time limit.
fn check_processes(world: &World) {
    let session = world.session();
    for process in &session.account.processes {
        let [held, ended] = [EffectKind::HoldProcess, EffectKind::EndProcess]
            .map(|kind| world.running.contains_key(&process.effect(kind)));
        let expected = match process.state {
            ProcessState::Running => (true, false),
            ProcessState::Ending { .. } => (false, true),
            ProcessState::Ended { .. } => (false, false),
        };
        let expected = if session.account.closed { (false, false) } else { expected };
        assert_eq!((held, ended), expected, "process {}", process.name());
        let is_timed = session.account.closed || !held || world.armed.is_some_and(|at| at <= process.until);
        assert!(is_timed, "process {} has no time limit", process.name());
    }
}
