//! The receipts of messages.

use engine::tables::transitions::RunState;
use engine::{Outcome, ReceiptState, ResumeMode};
use protocol::method::{ReceiptParams, SessionsListParams};
use protocol::show::ReceiptStory;
use views::scene::Scene;

use super::super::*;

fn of(scene: &Scene, params: ReceiptParams) -> Result<ReceiptStory, Error> {
    ReceiptsGet::read(&Source::of(&scene.journal), params)
}

fn by_key(scene: &Scene, key: &str) -> ReceiptStory {
    of(scene, ReceiptParams { key: Some(key.to_owned()), ..ReceiptParams::default() }).unwrap()
}

#[test]
fn r46_a_waiting_message_shows_where_it_came_from() {
    let mut scene = Scene::new();
    scene.start("hello");
    let origin = Some(Box::new(engine::Address { channel: "telegram".to_owned(), ..engine::Address::default() }));
    scene.offer(engine::Command::Message {
        message: engine::MessageId(uuid::Uuid::from_u128(0x200)),
        content: engine::Content::text(engine::BodyKind::Message, "and now"),
        mode: None,
        queue: engine::QueueSettings::default(),
        key: None,
        overrides: engine::Overrides::default(),
        attachments: vec![],
        options: engine::SenderOptions { origin: origin.clone(), ..engine::SenderOptions::default() },
    });
    let listed = SessionsList::read(&Source::of(&scene.journal), SessionsListParams::default()).unwrap();
    let waiting = &listed.sessions[0].queue[0];
    assert_eq!((&waiting.origin, &waiting.reply_to), (&origin, &None));
}

#[test]
fn a3_r10_a_receipt_follows_a_message_from_queue_to_end() {
    let mut scene = Scene::new();
    scene.keyed("first", "k1");
    scene.keyed("second", "k2");
    let at = |scene: &Scene, key: &str| {
        let receipt = by_key(scene, key);
        (receipt.state, receipt.ahead, receipt.run_state, receipt.outcome)
    };
    assert_eq!(at(&scene, "k1"), (ReceiptState::Queued, Some(1), RunState::Idle, None));
    assert_eq!(at(&scene, "k2"), (ReceiptState::Queued, Some(2), RunState::Idle, None));
    scene.enter_lane(ResumeMode::Restart);
    scene.stream("One.");
    assert_eq!(at(&scene, "k1"), (ReceiptState::Started, None, RunState::Streaming, None));
    assert_eq!(at(&scene, "k2"), (ReceiptState::Queued, Some(1), RunState::Idle, None));
    scene.crash();
    assert_eq!(at(&scene, "k1"), (ReceiptState::Started, None, RunState::Preparing, None));
    scene.stream("One.");
    scene.end_stream();
    assert_eq!(at(&scene, "k1"), (ReceiptState::Ended, None, RunState::Completed, Some(Outcome::Completed)));
    let receipt = by_key(&scene, "k1");
    assert!(receipt.started_at.is_some() && receipt.ended_at > receipt.started_at && receipt.error.is_none());
    assert_eq!((receipt.session_key.as_str(), receipt.key.as_deref()), ("agent:main:main", Some("k1")));
}

#[test]
fn a3_r10_a_receipt_is_found_by_the_id_of_its_message_also_before_a_run_has_started() {
    let mut scene = Scene::new();
    scene.keyed("first", "k1");
    let by_id = |scene: &Scene, id: String| of(scene, ReceiptParams { id: Some(id), ..ReceiptParams::default() });
    let queued = by_key(&scene, "k1");
    assert_eq!(by_id(&scene, queued.message.to_string()).unwrap(), queued);
    scene.enter_lane(ResumeMode::Restart);
    let started = by_key(&scene, "k1");
    assert_eq!(by_id(&scene, started.run.to_string()).unwrap(), started);
    assert_ne!(started, queued);
}

#[test]
fn a3_r61_what_was_never_acknowledged_is_not_there() {
    let mut scene = Scene::new();
    scene.keyed("first", "k1");
    let refused = |params: ReceiptParams| {
        let shape = of(&scene, params).unwrap_err().shape();
        (shape.details.unwrap().exit, shape.message)
    };
    let key = |key: &str, session: Option<&str>| ReceiptParams {
        key: Some(key.to_owned()),
        session: session.map(str::to_owned),
        id: None,
    };
    assert_eq!(refused(key("k2", None)), (4, "no message was sent with the key `k2`".to_owned()));
    assert_eq!(refused(key("k1", Some("other"))), (4, "there is no session `agent:main:other`".to_owned()));
    let id = "00000000-0000-0000-0000-00000000ffff".to_owned();
    let none = refused(ReceiptParams { id: Some(id.clone()), ..ReceiptParams::default() });
    assert_eq!(none, (4, format!("there is no message {id}")));
    let both = ReceiptParams { id: Some(id), ..key("k1", None) };
    assert_eq!(refused(both).0, 2);
    assert_eq!(of(&scene, key("k1", Some("main"))).unwrap(), by_key(&scene, "k1"));
}
