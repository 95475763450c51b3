//! Effects that change nothing start before their batch is recorded, and what they report joins it.

use std::sync::Arc;

use engine::{Batch, Do, Effect, EffectKind};

use crate::support::World;
use crate::support::script::run_line;

/// A run whose model has asked for this call; the end of its answer is offered and not decided on.
fn asked_for(tool: &str) -> World {
    let mut world = World::new();
    for line in ["begin", &format!("say call 0 {tool} {{\"path\":\".\"}}"), "+ end"] {
        run_line(&mut world, line);
    }
    world
}

/// Decides without taking the batch, and returns the kinds of the effects that start.
fn decide(world: &mut World) -> Vec<EffectKind> {
    world.pump.decide();
    let started = std::iter::from_fn(|| world.pump.poll()).map(|todo| match todo {
        Do::Start(effect) => effect,
        other => panic!("it came before its batch was committed: {other:?}"),
    });
    let started: Vec<Effect> = started.collect();
    // Reports name the running effect.
    world.running.extend(started.iter().map(|effect| (effect.id(), effect.clone())));
    started.iter().map(|effect| effect.id().kind).collect()
}

fn kinds(batch: Option<Arc<Batch>>) -> Vec<&'static str> {
    batch.map(|batch| batch.records.iter().map(|record| record.event.kind()).collect()).unwrap_or_default()
}

#[test]
fn r10_r13_a_round_of_read_only_calls_is_one_batch_if_its_calls_report_in_time() {
    let mut world = asked_for("ls");
    assert_eq!(decide(&mut world), [EffectKind::CheckCall]);
    assert!(world.pump.waits_for_more() && world.pump.is_ahead());
    run_line(&mut world, "+ checked 0 allow");
    assert_eq!(decide(&mut world), [EffectKind::RunCall]);
    assert!(world.pump.waits_for_more());
    run_line(&mut world, "+ ended 0 done \"a b\"");
    assert_eq!(decide(&mut world), [], "a request starts once it is recorded");
    assert!(!world.pump.waits_for_more());
    let batch = world.pump.next_batch();
    let round = ["message_sealed", "call_checked", "call_started", "call_settled", "step_begun", "request_sent"];
    assert_eq!(kinds(batch), round);
    assert!(world.pump.poll().is_none() && world.pump.next_batch().is_none(), "it is not recorded yet");
}

#[test]
fn r10_r13_a_batch_that_is_not_held_is_as_before_and_its_early_effects_report_into_the_next() {
    let mut world = asked_for("ls");
    decide(&mut world);
    run_line(&mut world, "+ checked 0 allow");
    assert_eq!(decide(&mut world), [EffectKind::RunCall]);
    assert_eq!(kinds(world.pump.next_batch()), ["message_sealed", "call_checked", "call_started"]);
    run_line(&mut world, "+ ended 0 done \"a b\"");
    assert_eq!(decide(&mut world), [], "nothing is decided while a batch is being recorded");
    world.pump.committed(engine::Timestamp(world.now));
    let starts = std::iter::from_fn(|| world.pump.poll()).any(|todo| matches!(todo, Do::Start(_)));
    assert!(!starts, "what runs is not started twice");
    assert_eq!(kinds(world.pump.next_batch()), ["call_settled", "step_begun", "request_sent"]);
}

#[test]
fn r13_a_call_that_changes_something_is_checked_early_and_starts_once_its_start_is_recorded() {
    let mut world = asked_for("exec");
    assert_eq!(decide(&mut world), [EffectKind::CheckCall]);
    run_line(&mut world, "+ checked 0 allow");
    assert_eq!(decide(&mut world), []);
    assert!(!world.pump.waits_for_more());
    assert_eq!(kinds(world.pump.next_batch()), ["message_sealed", "call_checked", "call_started"]);
    world.pump.committed(engine::Timestamp(world.now));
    let started =
        std::iter::from_fn(|| world.pump.poll()).any(|todo| matches!(todo, Do::Start(Effect::RunCall { .. })));
    assert!(started);
}

#[test]
fn r13_a_read_only_call_that_needed_approval_starts_once_the_approval_is_recorded() {
    let mut world = asked_for("ls");
    decide(&mut world);
    run_line(&mut world, "checked 0 ask \"may it?\"");
    run_line(&mut world, "+ answer 0 yes");
    assert_eq!(decide(&mut world), []);
    assert_eq!(kinds(world.pump.next_batch())[0], "ask_answered");
}

#[test]
fn r10_the_beginning_of_an_answer_may_wait_for_its_end() {
    let mut world = World::new();
    for line in ["begin", "+ say text \"Hel\""] {
        run_line(&mut world, line);
    }
    decide(&mut world);
    assert!(world.pump.waits_for_more());
    run_line(&mut world, "+ say text \"lo.\"");
    run_line(&mut world, "+ end");
    decide(&mut world);
    assert!(!world.pump.waits_for_more());
    assert_eq!(kinds(world.pump.next_batch())[..3], ["request_opened", "text_added", "message_sealed"]);
}

/// What an opening counts must be recorded first: a call that ends its process would otherwise be made for ever.
#[test]
fn r13_a_read_only_call_that_starts_once_more_waits_for_the_record_of_the_opening() {
    let mut world = asked_for("ls");
    decide(&mut world);
    run_line(&mut world, "checked 0 allow");
    world.crash();
    run_line(&mut world, "+ open 2");
    assert_eq!(decide(&mut world), []);
    let batch = kinds(world.pump.next_batch());
    assert!(batch.contains(&"opened") && batch.contains(&"call_started"), "{batch:?}");
    world.pump.committed(engine::Timestamp(world.now));
    let started =
        std::iter::from_fn(|| world.pump.poll()).any(|todo| matches!(todo, Do::Start(Effect::RunCall { .. })));
    assert!(started);
}
