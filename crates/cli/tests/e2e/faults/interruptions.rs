//! An answer is interrupted by the network, by `kill -9` of the owner, or by a pause. It is requested again (`restart`)
//! or continued (`continue`), and subscribers receive each part once.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::{Asked, Does, Home, Planned, Process, said, until, whole};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interruption {
    Network,
    Kill,
    Pause,
}

const INTERRUPTIONS: [Interruption; 3] = [Interruption::Network, Interruption::Kill, Interruption::Pause];

/// The text before the interruption.
const BEGIN: [&str; 3] = ["Once ", "upon ", "a 潮汐 "];
const END: [&str; 2] = ["time.\n", "The end."];
const TEXT: &str = "Once upon a 潮汐 time.\nThe end.";

/// A server that sends the beginning of an answer, and for the next request all of it or the rest.
fn server(interruption: Interruption, again: Vec<&'static str>) -> Planned {
    Planned::start(move |number, _| match (number, interruption) {
        (0, Interruption::Network) => Does::Answer(said(&BEGIN)),
        (0, Interruption::Kill | Interruption::Pause) => Does::Hold(said(&BEGIN)),
        _ => Does::Answer(whole(&again)),
    })
}

/// An interrupted run that completes: what was sent, and what its own terminal and a subscriber received.
fn carried(home: &Home, server: &Planned, interruption: Interruption) -> (Vec<Vec<Value>>, [Vec<Value>; 2]) {
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    // `--follow` starts when the owner has the subscription: wait for a line of an earlier session.
    let listener = home.start(&["events", "--follow", "--whole", "--json"]);
    until("a line for the subscriber", || {
        home.run(&["agent", "--session", "other", "--model", "offline/offline", "-m", "Who are you?"]).expect_code(0);
        listener.pieces() > 0
    });
    let agent = home.start(&["agent", "--json", "-m", "Tell me a story."]);
    let observed = |process: &Process| {
        let is_main = |line: &Value| line["session"] == "agent:main:main" && line["type"] == "delta";
        process.until_line("the beginning", |line| {
            is_main(line) && line["text"].as_str().is_some_and(|text| text.contains('潮'))
        });
    };
    let owner = match interruption {
        Interruption::Network => Some(owner),
        Interruption::Kill => {
            observed(&agent);
            observed(&listener);
            owner.kill();
            None
        }
        Interruption::Pause => {
            observed(&agent);
            observed(&listener);
            home.run(&["runs", "pause", "--session", "main"]).expect_code(0);
            home.run(&["runs", "resume", "--session", "main"]).expect_code(0);
            Some(owner)
        }
    };
    let received = agent.finish().expect_code(0).lines();
    listener.until_line("the end", |line| line["session"] == "agent:main:main" && line["type"] == "end");
    listener.signal(rustix::process::Signal::INT);
    let observed = listener.finish().lines().into_iter().filter(|line| line["session"] == "agent:main:main").collect();
    drop(owner);
    let messages = |asked: Asked| asked.body["messages"].as_array().expect("a list").clone();
    (server.seen().into_iter().map(messages).collect(), [received, observed])
}

/// The pieces of text that were not retracted. They contain each byte of each answer once, in order.
#[track_caller]
fn joined_text(lines: &[Value]) -> (String, usize) {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    let (mut order, mut retracted) = (vec![], 0);
    for line in lines.iter().filter(|line| line["stream"] == "assistant") {
        let effect = line["effect"].to_string();
        match line["type"].as_str() {
            Some("delta") => {
                if !texts.contains_key(&effect) {
                    order.push(effect.clone());
                }
                let text = texts.entry(effect).or_default();
                assert_eq!(line["offset"].as_u64(), Some(text.len() as u64), "a gap, or sent twice: {line}");
                text.push_str(line["text"].as_str().expect("a text"));
            }
            Some("struck") => {
                retracted += 1;
                assert!(texts.remove(&effect).is_some(), "retracted, and was not there: {line}");
                order.retain(|known| *known != effect);
            }
            _ => {}
        }
    }
    (order.iter().map(|effect| texts[effect].as_str()).collect(), retracted)
}

#[test]
fn r12_r43_restart_retracts_an_interrupted_answer_and_requests_it_again() {
    for interruption in INTERRUPTIONS {
        let server = server(interruption, [&BEGIN[..], &END].concat());
        let home = Home::new().served_at(&server.base_url).with("LIMULUS_RUNS__RESUME", "restart");
        let (sent, received) = carried(&home, &server, interruption);
        assert_eq!(sent.len(), 2, "{interruption:?}: {sent:?}");
        assert_eq!(sent[0], sent[1], "{interruption:?}: the same request");
        for lines in received {
            assert_eq!(joined_text(&lines), (TEXT.to_owned(), 1), "{interruption:?}: {lines:?}");
            assert_eq!(lines.last().expect("an end")["text"], TEXT, "{interruption:?}");
        }
        assert_eq!(home.json(&["runs", "show", "--session", "main"])["text"], TEXT, "{interruption:?}");
    }
}

#[test]
fn r12_r43_continue_keeps_an_interrupted_answer_and_continues_it() {
    for interruption in INTERRUPTIONS {
        let server = server(interruption, END.to_vec());
        let home = Home::new().served_at(&server.base_url).with("LIMULUS_RUNS__RESUME", "continue");
        let (sent, received) = carried(&home, &server, interruption);
        let [first, second] = &sent[..] else { panic!("{interruption:?}: {sent:?}") };
        let (same, added) = second.split_at(first.len());
        assert_eq!(same, first, "{interruption:?}");
        let [kept, go_on] = added else { panic!("{interruption:?}: {added:?}") };
        assert_eq!(
            (&kept["role"], &kept["content"]),
            (&"assistant".into(), &BEGIN.concat().into()),
            "{interruption:?}"
        );
        // Providers refuse a conversation that ends with their own message.
        assert_eq!(go_on["role"], "user", "{interruption:?}");
        assert!(go_on["content"].to_string().contains("Go on"), "{interruption:?}: {go_on}");
        for lines in received {
            assert_eq!(joined_text(&lines), (TEXT.to_owned(), 0), "{interruption:?}: {lines:?}");
            assert_eq!(lines.last().expect("an end")["text"], TEXT, "{interruption:?}");
        }
        assert_eq!(home.json(&["runs", "show", "--session", "main"])["text"], TEXT, "{interruption:?}");
    }
}

/// R12: interrupted several times at different places by kills of the owner: every piece is in the answer once.
#[test]
fn r12_an_answer_interrupted_by_several_kills_continues_each_time() {
    let pieces = ["One ", "two ", "three ", "four."];
    let server = Planned::start(move |number, _| match pieces.get(number) {
        Some(piece) if number + 1 < pieces.len() => Does::Hold(said(&[piece])),
        Some(piece) => Does::Answer(whole(&[piece])),
        None => Does::Hold(String::new()),
    });
    let home = Home::new()
        .served_at(&server.base_url)
        .with("LIMULUS_RUNS__RESUME", "continue")
        .with("LIMULUS_RUNS__POISON_AFTER", "0");
    let agent = home.start(&["agent", "--json", "-m", "Count."]);
    agent.until_said("One ");
    agent.kill();
    for said in ["two ", "three "] {
        let resuming = home.start(&["resume", "--json"]);
        resuming.until_said(said);
        resuming.kill();
    }
    home.run(&["resume"]).expect_code(0);
    assert_eq!(home.json(&["runs", "show"])["text"], "One two three four.");
    let recorded = home.run(&["events", "--session", "main", "--json"]).expect_code(0).lines();
    assert_eq!(joined_text(&recorded), ("One two three four.".to_owned(), 0));
    let contents = |asked: &Asked| -> Vec<Value> {
        asked.body["messages"].as_array().expect("a list").iter().map(|message| message["content"].clone()).collect()
    };
    let last = contents(server.seen().last().expect("a request"));
    // The pieces are one message: the model reads its answer as it was meant.
    assert_eq!(last.iter().filter(|content| *content == "One two three ").count(), 1, "{last:?}");
    assert!(!last.iter().any(|content| pieces.iter().any(|piece| content == piece)), "{last:?}");
}
