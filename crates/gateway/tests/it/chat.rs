//! R48: chat over the socket: the answer so far now and then, and the whole of it at the end, also for who comes back.

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

/// What is told until the run is over.
async fn to_end(events: &mut Events) -> Vec<(u64, Chat)> {
    let mut told = vec![];
    loop {
        let chat = next(events).await;
        let is_last = chat.1.state != ChatState::Delta;
        told.push(chat);
        if is_last {
            return told;
        }
    }
}

fn text(chat: &Chat) -> String {
    chat.message.as_ref().map(protocol::chat::ChatMessage::text).unwrap_or_default()
}

/// Each delta is the whole text so far, more than the one before, and no sooner than 150 ms after it.
fn assert_grows(told: &[(u64, Chat)], mut seq: u64, whole: &str) {
    let deltas: Vec<&Chat> = told.iter().map(|(_, chat)| chat).filter(|chat| chat.state == ChatState::Delta).collect();
    for pair in deltas.windows(2) {
        let (before, after) = (pair[0], pair[1]);
        assert!(text(after).starts_with(&text(before)) && text(after) != text(before), "{before:?} {after:?}");
        let at = |chat: &Chat| chat.message.as_ref().unwrap().timestamp;
        assert!(at(after).since(at(before)) >= CHAT_DELTA_MS, "{before:?} {after:?}");
    }
    assert!(deltas.iter().all(|delta| whole.starts_with(&text(delta))), "{deltas:?}");
    for (number, chat) in told {
        seq += 1;
        assert_eq!(*number, seq, "{chat:?}");
    }
}

#[tokio::test]
async fn r48_deltas_are_the_whole_text_so_far_and_the_final_is_all_of_it_also_for_who_comes_back() {
    let home = Home::paced(Duration::from_millis(60));
    let (client, mut events) = home.client().await;
    client.call::<EventsSubscribe>(chat(None)).await.unwrap();
    let mut answers = client.ask::<Agent>(message("main", "k", "Who are you?")).unwrap();
    let first = next(&mut events).await;
    assert_eq!(first.1.state, ChatState::Delta);

    // Who comes back with the cursor of a delta goes on behind it.
    let (other, mut others) = home.client().await;
    other.call::<EventsSubscribe>(chat(Some(&first.1.cursor))).await.unwrap();
    let (mut told, rest) = (vec![first], to_end(&mut others).await);
    told.extend(to_end(&mut events).await);
    let whole = loop {
        if let AgentAnswer::Ok(ended) = answers.next().await.unwrap() {
            break ended.text;
        }
    };
    for told in [&told, &rest] {
        let last = &told.last().unwrap().1;
        assert_eq!((last.state, text(last)), (ChatState::Final, whole.clone()));
        assert!(last.usage.is_some() && last.error_message.is_none(), "{last:?}");
    }
    assert!(told.len() > 2, "an answer of so many pieces is told in more than one: {told:?}");
    assert_grows(&told, 0, &whole);
    assert_grows(&rest, 1, &whole);
    assert!(rest.iter().all(|(_, chat)| text(chat).len() > text(&told[0].1).len()), "nothing is told twice: {rest:?}");

    // And who comes back when all is over is told the last word alone.
    let (late, mut lates) = home.client().await;
    late.call::<EventsSubscribe>(chat(Some(&told[0].1.cursor))).await.unwrap();
    let lately = to_end(&mut lates).await;
    assert_eq!(text(&lately.last().unwrap().1), whole);
    assert_grows(&lately, 1, &whole);
    home.leave().await;
}

#[tokio::test]
async fn r48_a_run_that_is_aborted_says_so_with_what_had_come() {
    let home = Home::paced(Duration::from_millis(20));
    let (client, mut events) = home.client().await;
    client.call::<EventsSubscribe>(chat(None)).await.unwrap();
    client.ask::<Agent>(message("main", "k", "Who are you?")).unwrap();
    let (_, first) = next(&mut events).await;
    let abort = protocol::method::AbortParams { run: Some(first.run_id.to_string()), ..Default::default() };
    client.call::<RunsAbort>(abort).await.unwrap();
    let told = to_end(&mut events).await;
    let (_, last) = told.last().unwrap();
    assert_eq!(last.state, ChatState::Aborted);
    assert!(text(last).starts_with(&text(&first)), "{last:?}");
    home.leave().await;
}
