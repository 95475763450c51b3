//! R48: chat over the socket: the answer so far at intervals and the whole answer at the end, also for a resuming
//! client.

use std::time::Duration;

use protocol::Events;
use protocol::chat::{CHAT_DELTA_MS, Chat, ChatState};
use protocol::method::{Agent, AgentAnswer, EventsSubscribe, RunsAbort, SubscribeParams};

use crate::support::{Home, message, observe};

fn chat(from: Option<&str>) -> SubscribeParams {
    let from = from.map(str::to_owned);
    SubscribeParams { session: Some("main".to_owned()), whole: from.is_none(), from, chat: true, ..Default::default() }
}

async fn next(events: &mut Events) -> (u64, Chat) {
    let frame = observe(events).await.unwrap();
    assert_eq!(frame.event, "chat", "{frame:?}");
    (frame.seq.unwrap(), serde_json::from_value(frame.payload).unwrap())
}

/// The chat events until the run has ended.
async fn to_end(events: &mut Events) -> Vec<(u64, Chat)> {
    let mut chats = vec![];
    loop {
        let chat = next(events).await;
        let is_last = chat.1.state != ChatState::Delta;
        chats.push(chat);
        if is_last {
            return chats;
        }
    }
}

fn text(chat: &Chat) -> String {
    chat.message.as_ref().map(protocol::chat::ChatMessage::text).unwrap_or_default()
}

/// Each delta is the whole text so far, longer than the one before, and at least 150 ms after it.
fn assert_grows(chats: &[(u64, Chat)], mut seq: u64, whole: &str) {
    let deltas: Vec<&Chat> = chats.iter().map(|(_, chat)| chat).filter(|chat| chat.state == ChatState::Delta).collect();
    for pair in deltas.windows(2) {
        let (before, after) = (pair[0], pair[1]);
        assert!(text(after).starts_with(&text(before)) && text(after) != text(before), "{before:?} {after:?}");
        let at = |chat: &Chat| chat.message.as_ref().unwrap().timestamp;
        assert!(at(after).since(at(before)) >= CHAT_DELTA_MS, "{before:?} {after:?}");
    }
    assert!(deltas.iter().all(|delta| whole.starts_with(&text(delta))), "{deltas:?}");
    for (number, chat) in chats {
        seq += 1;
        assert_eq!(*number, seq, "{chat:?}");
    }
}

#[tokio::test]
async fn r48_deltas_hold_the_text_so_far_and_the_final_all_of_it_also_for_a_resumed_reader() {
    let home = Home::paced(Duration::from_millis(60));
    let (client, mut events) = home.client().await;
    client.call::<EventsSubscribe>(chat(None)).await.unwrap();
    let mut answers = client.ask::<Agent>(message("main", "k", "Who are you?")).unwrap();
    let first = next(&mut events).await;
    assert_eq!(first.1.state, ChatState::Delta);

    // A client that comes back with the cursor of a delta continues behind it.
    let (other, mut others) = home.client().await;
    other.call::<EventsSubscribe>(chat(Some(&first.1.cursor))).await.unwrap();
    let (mut chats, rest) = (vec![first], to_end(&mut others).await);
    chats.extend(to_end(&mut events).await);
    let whole = loop {
        if let AgentAnswer::Ok(ended) = answers.next().await.unwrap() {
            break ended.text;
        }
    };
    for chats in [&chats, &rest] {
        let last = &chats.last().unwrap().1;
        assert_eq!((last.state, text(last)), (ChatState::Final, whole.clone()));
        assert!(last.usage.is_some() && last.error_message.is_none(), "{last:?}");
    }
    assert!(chats.len() > 2, "a long answer has more than one delta: {chats:?}");
    assert_grows(&chats, 0, &whole);
    assert_grows(&rest, 1, &whole);
    assert!(rest.iter().all(|(_, chat)| text(chat).len() > text(&chats[0].1).len()), "nothing is sent twice: {rest:?}");

    // A client that comes back after the end receives only the final event.
    let (late, mut lates) = home.client().await;
    late.call::<EventsSubscribe>(chat(Some(&chats[0].1.cursor))).await.unwrap();
    let lately = to_end(&mut lates).await;
    assert_eq!(text(&lately.last().unwrap().1), whole);
    assert_grows(&lately, 1, &whole);
    home.leave().await;
}

#[tokio::test]
async fn r48_an_aborted_run_reports_its_text_so_far() {
    let home = Home::paced(Duration::from_millis(20));
    let (client, mut events) = home.client().await;
    client.call::<EventsSubscribe>(chat(None)).await.unwrap();
    client.ask::<Agent>(message("main", "k", "Who are you?")).unwrap();
    let (_, first) = next(&mut events).await;
    let abort = protocol::method::AbortParams { run: Some(first.run_id.to_string()), ..Default::default() };
    client.call::<RunsAbort>(abort).await.unwrap();
    let chats = to_end(&mut events).await;
    let (_, last) = chats.last().unwrap();
    assert_eq!(last.state, ChatState::Aborted);
    assert!(text(last).starts_with(&text(&first)), "{last:?}");
    home.leave().await;
}
