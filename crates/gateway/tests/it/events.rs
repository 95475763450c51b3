//! Subscriptions over the socket: missed lines, then live lines, without a gap and nothing twice.

use std::time::Duration;

use protocol::event::{AssistantLine, Stream};
use protocol::method::{Agent, AgentAnswer, EventsSubscribe, EventsUnsubscribe, SubscribeParams, UnsubscribeParams};
use protocol::{Client, Event, EventFrame, Events};
use serde_json::json;

use crate::support::{CONNECT, Home, message, observe};

/// A line with its number.
fn line(frame: EventFrame) -> (u64, Event) {
    assert_eq!(frame.event, "agent");
    (frame.seq.unwrap(), serde_json::from_value(frame.payload).unwrap())
}

fn from(cursor: &str) -> SubscribeParams {
    SubscribeParams { session: Some("main".to_owned()), from: Some(cursor.to_owned()), ..SubscribeParams::default() }
}

fn whole() -> SubscribeParams {
    SubscribeParams { session: Some("main".to_owned()), whole: true, ..SubscribeParams::default() }
}

/// Reads to the end of the run.
async fn to_end(events: &mut Events) -> Vec<(u64, Event)> {
    let mut lines = vec![];
    loop {
        let line = line(observe(events).await.unwrap());
        let ends = line.1.run_end().is_some();
        lines.push(line);
        if ends {
            return lines;
        }
    }
}

/// The text that these lines stream.
fn text(lines: &[(u64, Event)]) -> String {
    let delta = |line: &Event| match &line.what {
        Stream::Assistant(AssistantLine::Delta(delta)) => Some(delta.text.clone()),
        _ => None,
    };
    lines.iter().filter_map(|(_, line)| delta(line)).collect()
}

async fn run(client: &Client, key: &str, text: &str) {
    let mut answers = client.ask::<Agent>(message("main", key, text)).unwrap();
    while matches!(answers.next().await.unwrap(), AgentAnswer::Accepted { .. }) {}
}

/// Numbers are 1, 2, 3 … within a run.
fn assert_numbered(lines: &[(u64, Event)], mut last: u64) {
    for (seq, line) in lines.iter().filter(|(_, line)| line.run.is_some()) {
        last += 1;
        assert_eq!(*seq, last, "{line:?}");
    }
}

/// R43: a client that comes back during a response continues at its position: text, entries and numbers.
#[tokio::test]
async fn r43_a_reader_resumes_at_any_line_of_a_live_run_without_gap_or_repeat() {
    let home = Home::paced(Duration::from_millis(2));
    let (client, mut events) = home.client().await;
    client.call::<EventsSubscribe>(whole()).await.unwrap();
    let mut answers = client.ask::<Agent>(message("main", "k", "Who are you?")).unwrap();
    let (mut first, mut others) = (vec![], vec![]);
    loop {
        let line = line(observe(&mut events).await.unwrap());
        let (ends, cursor) = (line.1.run_end().is_some(), line.1.cursor.clone());
        first.push(line);
        if ends {
            break;
        }
        if first.len() % 3 == 0 {
            let (client, mut events) = home.client().await;
            let at = first.len();
            others.push(tokio::spawn(async move {
                let subscribed = client.call::<EventsSubscribe>(from(&cursor)).await.unwrap();
                assert_eq!(subscribed.subscription, 1);
                (at, to_end(&mut events).await)
            }));
        }
    }
    while matches!(answers.next().await.unwrap(), AgentAnswer::Accepted { .. }) {}
    assert_numbered(&first, 0);
    assert!(others.len() >= 3, "the run was over before anybody came back");
    for other in others {
        let (at, rest) = other.await.unwrap();
        assert_eq!(text(&rest), text(&first[at..]), "from line {at}");
        let numbered = first[..at].iter().filter(|(_, line)| line.run.is_some()).count();
        assert_numbered(&rest, numbered as u64);
        let (end, last) = (&rest.last().unwrap().1, &first.last().unwrap().1);
        assert_eq!((&end.what, end.run), (&last.what, last.run));
    }
    home.leave().await;
}

/// R43: a reader of the journal alone reads the same, also after another owner took the home over.
#[tokio::test]
async fn r43_an_ended_run_is_read_from_its_beginning() {
    let home = Home::new();
    let (client, mut events) = home.client().await;
    client.call::<EventsSubscribe>(whole()).await.unwrap();
    run(&client, "k1", "list this folder").await;
    let live = to_end(&mut events).await;
    run(&client, "k2", "Who are you?").await;
    let id = live.last().unwrap().1.run.unwrap();
    let of_run = SubscribeParams { run: Some(id.to_string()), whole: true, ..SubscribeParams::default() };

    let home = home.again(Duration::ZERO).await;
    let (client, mut events) = home.client().await;
    client.call::<EventsSubscribe>(of_run).await.unwrap();
    let read = to_end(&mut events).await;
    assert!(read.iter().all(|(_, line)| line.run == Some(id)));
    assert_eq!(text(&read), text(&live));
    assert_eq!(read.last().unwrap().1.what, live.last().unwrap().1.what);

    let (client, mut events) = home.client().await;
    let subscribed = client.call::<EventsSubscribe>(whole()).await.unwrap();
    let both = [to_end(&mut events).await, to_end(&mut events).await];
    assert_eq!(text(&both[0]), text(&live));
    let end = UnsubscribeParams { subscription: subscribed.subscription };
    client.call::<EventsUnsubscribe>(end).await.unwrap();
    while events.try_recv().is_ok() {}
    run(&client, "k3", "Who are you?").await;
    assert!(events.try_recv().is_err(), "an event came after the end of the subscription");
    home.leave().await;
}

/// R43: a cursor ahead of the journal is answered with `rewound` and the position to resume from.
#[tokio::test]
async fn r43_a_reader_ahead_of_the_journal_receives_rewound() {
    let home = Home::new();
    let (client, mut events) = home.client().await;
    run(&client, "k", "Who are you?").await;
    client.call::<EventsSubscribe>(from("1.4000#=3")).await.unwrap();
    let frame = observe(&mut events).await.unwrap();
    assert_eq!((&frame.payload["stream"], &frame.payload["type"]), (&json!("state"), &json!("rewound")));
    let to = frame.payload["to"].as_str().unwrap();
    assert!(frame.payload["cursor"].as_str().unwrap().starts_with(to));
    home.leave().await;
}

/// R43: a client that does not read is dropped with a cursor, delays nobody, and misses nothing when it comes back.
#[tokio::test]
async fn r43_a_subscriber_that_does_not_read_is_dropped_with_its_cursor() {
    const RUNS: usize = 20;
    const SUBSCRIPTIONS: usize = 100;
    let home = Home::new();
    let mut slow = home.raw().await;
    slow.say(CONNECT).await;
    for _ in 0..SUBSCRIPTIONS {
        let params = r#"{"session":"main","whole":true}"#;
        slow.say(&format!(r#"{{"type":"req","id":"s","method":"events.subscribe","params":{params}}}"#)).await;
    }
    for _ in 0..=SUBSCRIPTIONS {
        assert_eq!(slow.observe().await.unwrap()["ok"], true);
    }
    let (client, _events) = home.client().await;
    for nth in 0..RUNS {
        run(&client, &nth.to_string(), "Who are you?").await;
    }
    let frames = slow.rest().await;
    let (dropped, seen) = frames.split_last().unwrap();
    assert_eq!(dropped["event"], "dropped", "it was kept");
    let stands = dropped["payload"]["subscriptions"].as_array().unwrap();
    assert_eq!(stands.len(), SUBSCRIPTIONS);
    for stand in [&stands[0], &stands[SUBSCRIPTIONS - 1]] {
        let seen: Vec<_> = seen.iter().filter(|frame| frame["subscription"] == stand["subscription"]).collect();
        let cursor = stand["cursor"].as_str().unwrap();
        assert_eq!(seen.last().unwrap()["payload"]["cursor"], cursor, "the cursor is that of the last line");
        let ended = seen.iter().filter(|frame| frame["payload"]["type"] == "end").count();
        assert!(ended < RUNS);
        let (client, mut events) = home.client().await;
        client.call::<EventsSubscribe>(from(cursor)).await.unwrap();
        for _ in ended..RUNS {
            to_end(&mut events).await;
        }
    }
    home.leave().await;
}
