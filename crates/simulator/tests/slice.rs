//! A part of the workload for `cargo test`; the program `simulator check` runs all of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::{CallOutcome, Event, Found, InterruptCause, Next, ToolClass};
use simulator::case::Form;
use simulator::checkers;
use simulator::explore::{Explorer, Extent};
use simulator::plan::Plan;
use simulator::random::{self, Counts, Mode, SMALL, Trial};
use simulator::report::Tally;
use simulator::world::{Recorded, Start, Watch, World};

fn plan(seed: u64) -> Arc<Plan> {
    Arc::new(Plan::new(seed).expect("the workload has this seed"))
}

fn explore(seed: u64, extent: Extent) -> Tally {
    let mut tally = Tally::default();
    Explorer::new(plan(seed), extent, &mut tally).explore().unwrap_or_else(|failure| panic!("{failure}"));
    tally
}

/// All events of the journals at the end of these worlds: one for each of the seed's points, crashed in one form.
fn crashed_everywhere(seed: u64, crash: impl Fn(&World) -> Vec<Form>) -> Vec<Event> {
    let plan = plan(seed);
    let mut world = World::begin(&plan, Watch::Ends).expect("a new world holds");
    let mut events = vec![];
    loop {
        for form in crash(&world) {
            let mut next = world.crashed(form).unwrap_or_else(|violation| panic!("{form}: {violation}"));
            next.settle().unwrap_or_else(|violation| panic!("{form}: {violation}"));
            checkers::check(next.outside()).unwrap_or_else(|violation| panic!("{form}: {violation}"));
            let entries = next.outside().disk.entries().expect("a journal in memory can be read");
            events.extend(entries.into_iter().map(|entry| entry.event));
        }
        if world.step().expect("the world holds without a crash").is_none() {
            return events;
        }
    }
}

#[test]
fn r10_what_was_acknowledged_survives_a_crash_at_any_point_in_any_form() {
    let tally = explore(1, Extent { first_every: 1, pairs: 0 });
    assert!(tally.single > 1000, "only {} cases", tally.single);
    for operation in ["append_synced", "append_written", "publish", "answer", "start_request", "text", "start_run_call"]
    {
        assert!(tally.pairs.keys().any(|(_, hit)| *hit == operation), "no crash after {operation}");
    }
}

#[test]
fn r11_a_run_is_resumed_after_two_crashes() {
    let tally = explore(2, Extent { first_every: 40, pairs: 2 });
    assert!(tally.double > 300, "only {} cases", tally.double);
    for phase in ["preparing", "streaming", "tool_exec", "retry"] {
        assert!(tally.pairs.keys().any(|(hit, _)| *hit == phase), "no crash while {phase}");
    }
}

#[test]
fn r17_sessions_are_opened_through_snapshots_when_idle_and_in_the_middle_of_runs() {
    let mut world = World::begin(&plan(1), Watch::Ends).expect("a new world holds");
    let mut phases = BTreeSet::new();
    while world.step().expect("the world holds without a crash").is_some() {
        let line = world.outside().disk.line().expect("a journal in memory can be read");
        phases.extend(line.start.map(|start| start.session.run_state().name()));
    }
    for phase in ["idle", "preparing", "tool_exec"] {
        assert!(phases.contains(phase), "no snapshot while {phase}, only {phases:?}");
    }
}

#[test]
fn r12_interrupted_text_is_retracted_or_is_a_part_of_the_answer() {
    let cut = |event: &Event| matches!(event, Event::StreamInterrupted(e) if e.cause == InterruptCause::Crash && e.text.is_some());
    let kept = |event: &Event| matches!(event, Event::MessageSealed(e) if e.next == Next::Cut && e.text.is_some());
    let process = |world: &World| if world.phase() == "streaming" { vec![Form::Process] } else { vec![] };
    let restarted = crashed_everywhere(1, process);
    assert!(restarted.iter().any(cut) && restarted.iter().any(|event| matches!(event, Event::TextRetracted(_))));
    let continued = crashed_everywhere(2, process);
    assert!(continued.iter().any(cut) && continued.iter().any(kept));
}

#[test]
fn r13_a_lost_call_is_looked_up_and_never_run_twice() {
    let with_calls = |world: &World| if world.phase() == "tool_exec" { world.outside().forms() } else { vec![] };
    let events: Vec<Event> = [1, 2].into_iter().flat_map(|seed| crashed_everywhere(seed, with_calls)).collect();
    let found: BTreeSet<String> = events
        .iter()
        .filter_map(|event| match event {
            Event::CallFound(e) => Some(format!("{:?}", e.found)),
            _ => None,
        })
        .collect();
    for each in [Found::NeverStarted, Found::Running, Found::Ended, Found::Unknown] {
        assert!(found.contains(&format!("{each:?}")), "no call was found {each:?}, only {found:?}");
    }
    assert!(events.iter().any(|event| matches!(event, Event::CallSettled(e) if e.outcome == CallOutcome::Interrupted)));
}

#[test]
fn r10_r13_a_loss_of_power_takes_a_message_only_together_with_read_only_calls() {
    let plan = plan(1);
    let mut world = World::begin(&plan, Watch::Ends).expect("a new world holds");
    let mut lost: Vec<ToolClass> = vec![];
    while world.step().expect("the world holds without a crash").is_some() {
        if world.phase() != "tool_exec" {
            continue;
        }
        let mut next = world.crashed(Form::Power { keep: 0 }).unwrap_or_else(|violation| panic!("{violation}"));
        let kept = |start: &&Start| next.outside().tools.starts.iter().any(|kept| kept.effect == start.effect);
        lost.extend(world.outside().tools.starts.iter().filter(|start| !kept(start)).map(|start| start.class));
        next.settle().unwrap_or_else(|violation| panic!("{violation}"));
        checkers::check(next.outside()).unwrap_or_else(|violation| panic!("{violation}"));
    }
    lost.dedup();
    assert_eq!(lost, [ToolClass::ReadOnly], "the classes of calls whose message was lost");
}

#[test]
fn r10_r13_a_kill_takes_a_message_only_together_with_read_only_calls_that_began_early() {
    let plan = plan(1);
    let mut world = World::begin(&plan, Watch::Ends).expect("a new world holds");
    let (mut lost, mut early) = (vec![], 0);
    while world.step().expect("the world holds without a crash").is_some() {
        if world.phase() != "tool_exec" {
            continue;
        }
        let mut next = world.crashed(Form::Process).unwrap_or_else(|violation| panic!("{violation}"));
        let kept = |start: &&Start| next.outside().tools.starts.iter().any(|kept| kept.effect == start.effect);
        lost.extend(world.outside().tools.starts.iter().filter(|start| !kept(start)).cloned());
        early += world.outside().tools.starts.iter().filter(|start| start.recorded == Recorded::No).count();
        next.settle().unwrap_or_else(|violation| panic!("{violation}"));
        checkers::check(next.outside()).unwrap_or_else(|violation| panic!("{violation}"));
    }
    assert!(early > 0, "no call began before its start was recorded");
    assert!(!lost.is_empty(), "no message was lost");
    assert!(lost.iter().all(|start| (start.class, start.recorded) == (ToolClass::ReadOnly, Recorded::No)), "{lost:?}");
}

fn drawn(mode: Mode, seeds: std::ops::Range<u64>) -> Counts {
    let mut counts = Counts::default();
    for seed in seeds {
        let trial = Trial::new(mode, seed);
        random::twice(&trial, &mut counts).unwrap_or_else(|violation| panic!("{trial} {violation}"));
    }
    counts
}

#[test]
fn r10_drawn_workloads_hold_under_several_faults_and_do_the_same_twice() {
    let counts = drawn(Mode::Random, 0..150);
    assert_eq!(counts.faults.len(), 11, "some faults never came: {:?}", counts.faults);
}

#[test]
fn r11_when_faults_stop_everything_settles() {
    let counts = drawn(Mode::Liveness, 0..60);
    assert!(counts.faults.values().sum::<u64>() > 200, "{:?}", counts.faults);
}

#[test]
fn r10_r11_r18_the_real_journal_holds_what_was_acknowledged_whatever_happens_at_any_operation_of_its_disk() {
    // The power fails at every operation, and any sectors survive; the program `simulator disk` does the rest.
    let trials = random::every_operation(SMALL).unwrap_or_else(|failed| panic!("{failed}"));
    let is_torn = |trial: &Trial| trial.to_string().contains("=0:torn@");
    let trials: Vec<Trial> = trials.into_iter().filter(is_torn).collect();
    let (counts, failed) = random::sweep_all(&trials);
    assert_eq!(failed, None);
    assert!(counts.cases > 300, "only {} cases", counts.cases);
}

#[test]
fn r10_the_real_journal_under_several_faults_of_its_disk_does_the_same_twice() {
    let counts = drawn(Mode::Disk, 0..40);
    assert!(counts.faults.len() > 15, "some faults never came: {:?}", counts.faults);
}
