//! Runs a world until it is idle, and counts how often a message ended there.

use engine::{CompactionStep, Effect, Event, Leg, MessageId, ReceiptState};

use super::World;
use super::script::run_line;

/// Runs all effects until nothing is unfinished.
pub(crate) fn come_to_rest(world: &mut World) {
    for _ in 0..200 {
        let session = world.session();
        if session.run().is_some_and(|run| run.pause.is_some()) {
            run_line(world, "resume");
            continue;
        }
        if session.run().is_none() && session.conversation.queue.is_empty() {
            return;
        }
        let Some(effect) = world.running.values().next().cloned() else {
            let at = world.armed.expect("something is waited for");
            world.now = world.now.max(at.0);
            run_line(world, "due");
            continue;
        };
        for line in carried_out(&effect) {
            run_line(world, &line);
        }
    }
    panic!("it does not come to rest: {:#?}", world.session());
}

fn carried_out(effect: &Effect) -> Vec<String> {
    let lines = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect();
    match effect {
        Effect::Lane { .. } => lines(&["lane"]),
        Effect::Prepare { .. } => lines(&["prepared"]),
        Effect::Reserve { .. } => lines(&["reserved"]),
        Effect::Request { .. } => lines(&["say text \"That is all.\"", "end"]),
        Effect::Compact { compaction_step: CompactionStep::Truncate, .. } => lines(&["compacted results"]),
        Effect::Compact { .. } => lines(&["compacted summary \"in short\" by=acme/one"]),
        Effect::CheckCall { call, .. } => vec![format!("checked {} allow", call.index)],
        Effect::RunCall { call, .. } => vec![format!("ended {} done \"ok\"", call.index)],
        Effect::FindCall { call, .. } => vec![format!("found {} ended \"ok\"", call.index)],
        Effect::EndCall { call, .. } => vec![format!("ended {} failed \"was ended\"", call.index)],
        Effect::Report { .. } => lines(&["reported"]),
        Effect::Undo { .. } => lines(&["undone"]),
        Effect::Deliver { .. } => lines(&["delivered"]),
        Effect::Title { .. } => lines(&["titled \"the tide\""]),
        Effect::Erase { .. } => lines(&["erased"]),
        Effect::FreezeCall { .. } | Effect::HoldProcess { .. } | Effect::EndProcess { .. } => {
            panic!("nobody asked for {effect:?}")
        }
    }
}

/// How often a leg ended, according to the records.
pub(crate) fn ends_of(world: &World, message: MessageId, leg: Leg) -> usize {
    let known = &world.session().account.messages[&message];
    let run = known.leg(leg).run;
    let is_leg = |at: Option<Leg>| known.steer.is_none() || at == Some(leg);
    let ends = |event: &Event| match event {
        Event::MessageSettled(e) if e.message == message && is_leg(e.leg) => {
            matches!(e.state, ReceiptState::Cancelled | ReceiptState::Dropped)
        }
        Event::RunEnded(e) => e.run == run,
        _ => false,
    };
    world.journal.iter().filter(|record| ends(&record.event)).count()
}
