//! A message that arrives at any point of a run, in any mode, is answered once, whatever happens to its batch. Uses the
//! real pump over an in-memory journal.

use engine::{Event, Item, Leg, MessageId, Next, Outcome, QueueMode, ReceiptState, RunId, Stage};
use uuid::Uuid;

use crate::support::World;
use crate::support::rest::{come_to_rest, ends_of};
use crate::support::script::run_line;

/// The points around a call and the end of a stream at which the message arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Point {
    /// The prompt of the request is being made.
    Making,
    /// The request was sent and has no byte yet.
    Sent,
    /// In the middle of the stream.
    Streaming,
    /// The answer has calls, and none has started: the first is being checked.
    Asked,
    /// The first call runs, the second has not started.
    Running,
    /// Both have ended: this is being recorded with the next request, which has not started.
    Settled,
    /// In the last stream.
    Last,
    /// The stream has ended, and the run with it: this is being recorded.
    Ending,
}

const POINTS: [Point; 8] = [
    Point::Making,
    Point::Sent,
    Point::Streaming,
    Point::Asked,
    Point::Running,
    Point::Settled,
    Point::Last,
    Point::Ending,
];

/// The outcome of the message's batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// It is recorded, and the run continues.
    Continues,
    /// It is recorded, and then the process crashes.
    Crash,
    /// It cannot be recorded: the process restarts, and the sender sends again.
    Lost,
    /// It is recorded, the process crashes before it answers the sender, and the sender sends again.
    Unanswered,
}

const SENT: MessageId = MessageId(Uuid::from_u128(2));

/// A session whose run is at the point, with the message sent there.
fn reach(point: Point, settings: &[&str], message: &str) -> World {
    let mut world = World::new();
    let lines = [
        (Point::Making, &["message \"hello\"", "lane"][..]),
        (Point::Sent, &["prepared"]),
        (Point::Streaming, &["first-byte", "say text \"Let me see. \""]),
        (Point::Asked, &["say call 0 exec {}", "say call 1 read {}", "end"]),
        (Point::Running, &["checked 0 allow"]),
        (Point::Settled, &["ended 0 done \"ok\"", "checked 1 allow", "ended 1 done \"ok\""]),
        (Point::Last, &["first-byte", "say text \"It is done.\""]),
        (Point::Ending, &["end"]),
    ];
    ["create", "open 1"].iter().chain(settings).for_each(|line| run_line(&mut world, line));
    for (at, lines) in lines {
        for (index, line) in lines.iter().enumerate() {
            if at == point && index + 1 == lines.len() && matches!(point, Point::Settled | Point::Ending) {
                world.meanwhile = Some(message.to_owned());
            }
            run_line(&mut world, line);
        }
        if at == point {
            break;
        }
    }
    world
}

/// Sends the message if it was not sent yet, and lets its batch come to this outcome.
fn send(world: &mut World, point: Point, message: &str, then: Then) {
    if !matches!(point, Point::Settled | Point::Ending) {
        run_line(world, &format!("+ {message}"));
    }
    world.append_fails = then == Then::Lost;
    world.settle();
    assert_eq!(world.broken, then == Then::Lost);
    if then != Then::Continues {
        world.crash_and_open();
    }
    if matches!(then, Then::Lost | Then::Unanswered) {
        run_line(world, message);
    }
}

/// How many answers were given to a message: where its text is in the conversation, and a whole answer was given to a
/// request that holds it, before the next time that its text is there.
fn answers(world: &World, message: MessageId) -> usize {
    let items = world.session().conversation.transcript.items();
    let is_it = |item: &Item| matches!(item, Item::User { message: id, .. } if *id == message);
    let mut answered = 0;
    for (at, _) in items.iter().enumerate().filter(|(_, item)| is_it(item)) {
        let holds = |request| {
            let sent =
                |event: &Event| matches!(event, Event::RequestSent(e) if e.request == request && e.items as usize > at);
            world.journal.iter().any(|record| sent(&record.event))
        };
        let whole = |event: &Event| matches!(event, Event::MessageSealed(e) if e.next != Next::Cut && holds(e.request));
        answered += usize::from(world.journal.iter().any(|record| whole(&record.event)));
    }
    answered
}

/// Sends a message of this mode at this point, and checks its outcome.
fn check(mode: QueueMode, point: Point, then: Then, settings: &[&str]) {
    let name = serde_json::to_value(mode).expect("a mode has a name");
    let message = format!("message \"and this\" mode={} id=2", name.as_str().expect("it is a word"));
    let mut world = reach(point, settings, &message);
    send(&mut world, point, &message, then);
    come_to_rest(&mut world);
    let what = format!("{mode:?} at {point:?}, {then:?}, {settings:?}");
    let session = world.session();
    let receipt = &session.account.messages[&SENT];
    assert_eq!(receipt.state, ReceiptState::Ended, "{what}");
    let steer = receipt.steer.map(|steer| steer.run);
    assert!(receipt.steer.is_none_or(|steer| steer.state == ReceiptState::Ended), "{what}: {receipt:?}");
    assert_eq!(ends_of(&world, SENT, Leg::Followup), 1, "{what}: how often it ended");
    assert!(receipt.steer.is_none() || ends_of(&world, SENT, Leg::Steer) == 1, "{what}: how often its steer ended");
    // Two legs of one message in the same run are in the conversation once.
    let legs = 1 + usize::from(steer.is_some_and(|steer| steer != receipt.run));
    let said = |item: &&Item| matches!(item, Item::User { message, .. } if *message == SENT);
    assert_eq!(
        session.conversation.transcript.items().iter().filter(said).count(),
        legs,
        "{what}: how often it was said"
    );
    assert_eq!(answers(&world, SENT), legs, "{what}: how often it was answered");
    let accepted = |event: &Event| matches!(event, Event::MessageAccepted(e) if e.message == SENT);
    assert_eq!(world.journal.iter().filter(|record| accepted(&record.event)).count(), 1, "{what}");
    the_run_before(&world, mode, point, settings, &what);
}

/// The first run ends once: as interrupted if the message ended it, else completed and answered.
fn the_run_before(world: &World, mode: QueueMode, point: Point, settings: &[&str], what: &str) {
    let first = RunId::from(MessageId(Uuid::from_u128(1)));
    let ends: Vec<Outcome> = world
        .journal
        .iter()
        .filter_map(|record| match &record.event {
            Event::RunEnded(e) if e.run == first => Some(e.outcome),
            _ => None,
        })
        .collect();
    let replaced =
        mode == QueueMode::Interrupt && point != Point::Ending && !settings.contains(&"set interrupt suspend");
    let expected = if replaced { Outcome::Interrupted } else { Outcome::Completed };
    assert_eq!(ends, [expected], "{what}: how the run before ended");
}

/// In each mode, at each of eight points, for each outcome of its batch: one answer for each leg.
#[test]
fn r32_r33_r34_a_message_at_any_point_of_a_run_is_always_answered_once() {
    let modes =
        [QueueMode::Steer, QueueMode::Followup, QueueMode::Collect, QueueMode::SteerBacklog, QueueMode::Interrupt];
    for mode in modes {
        let ways: &[&[&str]] = match mode {
            QueueMode::Steer | QueueMode::SteerBacklog => &[&["set cut off"], &["set cut on"]],
            QueueMode::Interrupt => &[&["set interrupt replace"], &["set interrupt suspend"]],
            QueueMode::Followup | QueueMode::Collect => &[&[]],
        };
        for (settings, resume) in ways.iter().flat_map(|way| [(*way, "restart"), (*way, "continue")]) {
            let resume = format!("set resume {resume}");
            let settings: Vec<&str> = settings.iter().copied().chain([resume.as_str()]).collect();
            for point in POINTS {
                for then in [Then::Continues, Then::Crash, Then::Lost, Then::Unanswered] {
                    check(mode, point, then, &settings);
                }
            }
        }
    }
}

/// The scripts of the points lead to these points.
#[test]
fn r32_the_points_are_where_they_say() {
    let stages = |world: &World| -> Vec<&'static str> {
        let calls = world.session().run().map(|run| run.step.calls.as_slice()).unwrap_or_default();
        calls.iter().map(|call| call.stage.name()).collect()
    };
    for (point, state, calls) in [
        (Point::Making, "preparing", &[][..]),
        (Point::Sent, "preparing", &[]),
        (Point::Streaming, "streaming", &[]),
        (Point::Asked, "tool_exec", &["guarding", "guarding"]),
        (Point::Running, "tool_exec", &["started", "guarding"]),
        (Point::Settled, "preparing", &[]),
        (Point::Last, "streaming", &[]),
        (Point::Ending, "idle", &[]),
    ] {
        let world = reach(point, &[], "message \"and this\" mode=followup id=2");
        assert_eq!((world.session().run_state().name(), stages(&world)), (state, calls.to_vec()), "{point:?}");
        assert!(world.session().conversation.queue.is_empty(), "{point:?}: it is not decided on yet");
        let is_out = world
            .session()
            .run()
            .is_some_and(|run| run.step.calls.iter().any(|call| matches!(call.stage, Stage::Started { .. })));
        assert_eq!(is_out, point == Point::Running);
    }
}
