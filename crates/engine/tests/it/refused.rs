//! Refused answers to a call that asks: what is recorded of them, and how much.

use engine::tables::limits::REFUSED_ANSWERS;
use engine::{AnswerRefusal, Event};

use crate::support::World;
use crate::support::script::run_line;

fn refused(world: &World) -> Vec<(AnswerRefusal, String)> {
    let events = world.journal.iter().map(|record| &record.event);
    let refused = |event: &Event| match event {
        Event::AnswerRefused(e) => Some((e.why, e.by.clone())),
        _ => None,
    };
    events.filter_map(refused).collect()
}

/// A session whose first call asks.
fn asking() -> World {
    let mut world = World::new();
    let lines = ["create", "open 1", "message \"hello\"", "lane", "prepared", "first-byte"];
    for line in lines.into_iter().chain(["say call 0 exec {}", "end", "checked 0 ask"]) {
        run_line(&mut world, line);
    }
    world
}

/// R60: who has given an answer that is refused, and why it is, stands in the journal.
#[test]
fn r60_a_refused_answer_is_recorded_with_who_and_why() {
    let mut world = asking();
    run_line(&mut world, "answer 0 yes stale");
    run_line(&mut world, "refuse 0");
    assert_eq!(world.session().account.refused_answers, 2);
    for line in ["answer 0 no", "answer 0 yes", "answer 7 yes"] {
        run_line(&mut world, line);
    }
    let by = |why, by: &str| (why, by.to_owned());
    let expected = [
        by(AnswerRefusal::Fingerprint, "the user"),
        by(AnswerRefusal::InCall, "a command"),
        by(AnswerRefusal::Closed, "the user"),
        by(AnswerRefusal::Closed, "the user"),
    ];
    assert_eq!(refused(&world), expected);
    world.crash_and_open();
    assert_eq!(world.session().account.refused_answers, 4, "the next owner counts on");
}

/// R60: a command that answers again and again fills no journal; the next run is recorded again.
#[test]
fn r60_so_many_refused_answers_are_recorded_and_no_more() {
    let mut world = asking();
    for _ in 0..1_000 {
        run_line(&mut world, "answer 0 yes stale");
        run_line(&mut world, "refuse 0");
    }
    assert_eq!(refused(&world).len(), REFUSED_ANSWERS as usize);
    run_line(&mut world, "answer 0 no");
    run_line(&mut world, "finish");
    run_line(&mut world, "answer 0 no");
    assert_eq!(refused(&world).len(), REFUSED_ANSWERS as usize, "the same run");
    for line in ["message \"again\"", "lane", "answer 0 no"] {
        run_line(&mut world, line);
    }
    assert_eq!(refused(&world).len(), REFUSED_ANSWERS as usize + 1, "another run");
}
