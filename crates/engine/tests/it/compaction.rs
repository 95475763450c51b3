//! A compaction with a crash at every point: the old or the new history is current, never a mixture, and a message that
//! arrives meanwhile is answered once. Uses the real pump over an in-memory journal.

use engine::{Event, Item, Leg, MessageId, Outcome, QueueMode, ReceiptState, RunId};
use uuid::Uuid;

use crate::support::World;
use crate::support::rest::{come_to_rest, ends_of};
use crate::support::script::run_line;

/// The points around a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Point {
    /// The call runs whose result will be too long.
    Running,
    /// It has ended: this is being recorded with the start of the compaction.
    Begins,
    /// The summary is in flight.
    Compacting,
    /// It failed, and waits for its retry.
    Retry,
    /// It is in flight again.
    Again,
    /// It is complete: this is being recorded with the next request.
    Compacted,
    /// The request with the new history was sent and has no byte yet.
    Sent,
    /// In the middle of its answer.
    Streaming,
}

const POINTS: [Point; 8] = [
    Point::Running,
    Point::Begins,
    Point::Compacting,
    Point::Retry,
    Point::Again,
    Point::Compacted,
    Point::Sent,
    Point::Streaming,
];

/// The outcome of the batch at the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// It is recorded, and the run continues.
    Continues,
    /// It is recorded, and then the process crashes.
    Crash,
    /// It cannot be recorded: the process restarts.
    Lost,
}

const THENS: [Then; 3] = [Then::Continues, Then::Crash, Then::Lost];

const SENT: MessageId = MessageId(Uuid::from_u128(2));

fn first_run() -> RunId {
    MessageId(Uuid::from_u128(1)).into()
}

/// A run at the point; `message`, if there is one, arrives there.
fn reach(point: Point, message: Option<&str>, then: Then) -> World {
    let mut world = World::new();
    let lines: [(Point, &[&str]); 8] = [
        (
            Point::Running,
            &[
                "set window 16000",
                "set keep 1000",
                "create",
                "open 1",
                "message \"hello\"",
                "lane",
                "prepared",
                "say call 0 ls {\"path\":\".\"}",
                "end",
                "checked 0 allow",
                "ended 0 done size=20000",
                "say call 0 ls {\"path\":\"b\"}",
                "end",
                "checked 0 allow",
            ],
        ),
        (Point::Begins, &["ended 0 done size=18000"]),
        (Point::Compacting, &[]),
        (Point::Retry, &["fail server \"503\""]),
        (Point::Again, &["due +500"]),
        (Point::Compacted, &["compacted summary \"in short\" by=acme/one"]),
        (Point::Sent, &[]),
        (Point::Streaming, &["first-byte", "say text \"So \""]),
    ];
    for (at, lines) in lines {
        for (index, line) in lines.iter().enumerate() {
            let is_last = at == point && index + 1 == lines.len();
            if is_last && matches!(point, Point::Begins | Point::Compacted) {
                world.meanwhile = message.map(str::to_owned);
                world.append_fails = then == Then::Lost;
            }
            run_line(&mut world, line);
        }
        if at == point {
            break;
        }
    }
    if let Some(message) = message.filter(|_| !matches!(point, Point::Begins | Point::Compacted)) {
        run_line(&mut world, &format!("+ {message}"));
        world.append_fails = then == Then::Lost;
    }
    if !world.broken {
        world.settle();
    }
    if then != Then::Continues {
        world.crash_and_open();
    }
    // A sender without a response sends again.
    if let Some(message) = message.filter(|_| then == Then::Lost) {
        run_line(&mut world, message);
    }
    world
}

/// The kinds of the items of the conversation.
fn kinds(world: &World) -> Vec<&'static str> {
    let kind = |item: &Item| match item {
        Item::Summary { .. } => "summary",
        Item::Note { .. } => "note",
        Item::User { .. } => "user",
        Item::Assistant { .. } => "assistant",
        Item::Result { .. } => "result",
    };
    world.session().conversation.transcript.items().iter().map(kind).collect()
}

const OLD: &[&str] = &["user", "assistant", "result", "assistant", "result"];
const NEW: &[&str] = &["summary", "user", "assistant", "result"];

/// R14: at any point and for any outcome, one of the two histories is current and complete, and the run completes.
#[test]
fn r14_the_old_history_is_in_force_or_the_new_one() {
    for point in POINTS {
        for then in THENS {
            let mut world = reach(point, None, then);
            let history = kinds(&world);
            let is_new = matches!(point, Point::Compacted if then != Then::Lost)
                || matches!(point, Point::Sent | Point::Streaming);
            // A call without a recorded result is looked up again.
            let expected = if is_new { NEW } else { &OLD[..history.len().min(OLD.len())] };
            assert_eq!(history, expected, "{point:?} {then:?}");
            come_to_rest(&mut world);
            let ended: Vec<Outcome> = outcomes(&world);
            assert_eq!(ended, [Outcome::Completed], "{point:?} {then:?}");
            assert_eq!(world.session().conversation.transcript.check(), Ok(()));
            let compacted = world.journal.iter().filter(|record| matches!(record.event, Event::Compacted(_))).count();
            // If the long result was not recorded, the call has another result.
            let begun = point != Point::Running && (point, then) != (Point::Begins, Then::Lost);
            assert_eq!(compacted, usize::from(begun), "{point:?} {then:?}");
        }
    }
}

fn outcomes(world: &World) -> Vec<Outcome> {
    let ended = |event: &Event| match event {
        Event::RunEnded(e) if e.run == first_run() => Some(e.outcome),
        _ => None,
    };
    world.journal.iter().filter_map(|record| ended(&record.event)).collect()
}

/// R32, R44: in each mode, at each of eight points around a compaction: the message is in the conversation once and
/// answered.
#[test]
fn r32_r44_a_message_at_any_point_of_a_compaction_is_answered_once() {
    let modes =
        [QueueMode::Steer, QueueMode::Followup, QueueMode::Collect, QueueMode::SteerBacklog, QueueMode::Interrupt];
    for mode in modes {
        let name = serde_json::to_value(mode).expect("a mode has a name");
        let message = format!("message \"and this\" mode={} id=2", name.as_str().expect("it is a word"));
        for (point, then) in POINTS.into_iter().flat_map(|point| THENS.map(|then| (point, then))) {
            let mut world = reach(point, Some(&message), then);
            come_to_rest(&mut world);
            answered_once(&world, mode, &format!("{mode:?} at {point:?}, {then:?}"));
        }
    }
}

fn answered_once(world: &World, mode: QueueMode, what: &str) {
    let receipt = &world.session().account.messages[&SENT];
    assert_eq!(receipt.state, ReceiptState::Ended, "{what}");
    assert_eq!(ends_of(world, SENT, Leg::Followup), 1, "{what}: how often it ended");
    assert!(receipt.steer.is_none() || ends_of(world, SENT, Leg::Steer) == 1, "{what}: how often its steer ended");
    let legs = 1 + usize::from(receipt.steer.is_some_and(|steer| steer.run != receipt.run));
    let is_taking = |event: &Event| match event {
        Event::MessageSettled(e) => e.message == SENT && e.state == ReceiptState::Steered,
        Event::RunStarted(e) => e.inputs.contains(&SENT),
        _ => false,
    };
    let said: Vec<usize> =
        world.journal.iter().enumerate().filter(|(_, record)| is_taking(&record.event)).map(|(at, _)| at).collect();
    assert_eq!(said.len(), legs, "{what}: how often it was said");
    for at in said {
        let whole = |event: &Event| matches!(event, Event::MessageSealed(e) if e.next != engine::Next::Cut);
        assert!(world.journal[at..].iter().any(|record| whole(&record.event)), "{what}: it was not answered");
    }
    let expected = if mode == QueueMode::Interrupt { Outcome::Interrupted } else { Outcome::Completed };
    assert_eq!(outcomes(world), [expected], "{what}: how the run before ended");
}

/// The scripts of the points lead to these points.
#[test]
fn r14_the_points_are_where_they_say() {
    for (point, state) in [
        (Point::Running, "tool_exec"),
        (Point::Begins, "compacting"),
        (Point::Compacting, "compacting"),
        (Point::Retry, "retry"),
        (Point::Again, "compacting"),
        (Point::Compacted, "preparing"),
        (Point::Sent, "preparing"),
        (Point::Streaming, "streaming"),
    ] {
        let world = reach(point, None, Then::Continues);
        assert_eq!(world.session().run_state().name(), state, "{point:?}");
    }
}
