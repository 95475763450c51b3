//! Prompt caching: what providers read anew, and what `limulus runs trace` says of it.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Does, Home, Planned, STREAM, said, whole};

/// An answer whose prompt had this many tokens, of which these came from the provider's cache.
fn answer(prompt: u64, cached: u64) -> String {
    let usage = json!({
        "prompt_tokens": prompt, "completion_tokens": 1, "prompt_tokens_details": { "cached_tokens": cached },
    });
    let end = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }], "usage": usage });
    format!("{}data: {end}\n\ndata: [DONE]\n\n", said(&["done"]))
}

/// What the trace of the last run says of the cache, if it says anything.
fn said_of_cache(home: &Home) -> Option<String> {
    let trace = home.run(&["runs", "trace"]).expect_code(0).out;
    let line = trace.lines().find_map(|line| line.split_once("; only "));
    line.map(|(_, said)| format!("only {}", said.trim_end()))
}

/// R66: a request that had less from the cache than the one before it left there is named, with the first byte that differed.
#[test]
pub(crate) fn r66_a_cache_that_should_have_been_used_is_named_with_the_first_byte_that_differed() {
    let cached = [0, 5_000, 0, 5_000, 0, 0, 4_900];
    let server = Planned::start(move |at, _| Does::Answer(answer(6_000, cached[at])));
    let home = Home::new().served_at(&server.base_url);
    home.put("AGENTS.md", "Count in fathoms.\n");
    let says = |text: &str| {
        home.run(&["agent", "-m", text]).expect_code(0);
        said_of_cache(&home)
    };
    // The provider keeps nothing yet, then what it is known to keep.
    assert_eq!((says("one"), says("two")), (None, None));
    let alike = says("three").expect("the third request should have had 5,000 tokens");
    assert!(alike.starts_with("only 0 of about 5000 tokens came from the cache: it begins with all of the"), "{alike}");
    assert_eq!(says("four"), None);
    home.put("AGENTS.md", "Count in feet.\n");
    let differs = says("five").expect("the prompt differs");
    let prompts: Vec<String> = server.seen().iter().map(|asked| system(&asked.body)).collect();
    let same = prompts[3].bytes().zip(prompts[4].bytes()).take_while(|(one, other)| one == other).count();
    assert!(prompts[4][same..].starts_with("eet."), "{}", &prompts[4][same..]);
    let expected = format!("the system prompt differs from byte {same} on (AGENTS.md)");
    assert_eq!(differs, format!("only 0 of about 5000 tokens came from the cache: {expected}"));
    // Nothing is known to be kept.
    assert_eq!(says("six"), None);
    assert_eq!(says("seven"), None);
    let audit = home.run(&["audit", "main"]).expect_code(0).out;
    assert_eq!(audit.matches("came from the cache").count(), 2, "{audit}");
}

fn system(body: &Value) -> String {
    body["messages"][0]["content"].as_str().expect("a system prompt").to_owned()
}

/// R66: the date is a note before the message with which it changed, once a day, so that each request begins with the one before it.
#[test]
pub(crate) fn r41_r66_each_request_begins_with_the_one_before_it() {
    let server = Planned::start(|_, _| Does::Answer(whole(&["done"])));
    let home = Home::new().served_at(&server.base_url);
    fs::create_dir(home.file(".git")).unwrap();
    home.put(".git/HEAD", "ref: refs/heads/topic\n");
    for text in ["one", "two"] {
        home.run(&["agent", "-m", text]).expect_code(0);
    }
    home.put(".git/HEAD", "ref: refs/heads/other\n");
    home.run(&["agent", "-m", "three"]).expect_code(0);
    let bodies: Vec<Value> = server.seen().into_iter().map(|asked| asked.body).collect();
    let messages = |at: usize| bodies[at]["messages"].as_array().expect("messages").clone();
    for at in 1..3 {
        let (before, now) = (messages(at - 1), messages(at));
        assert_eq!(now[..before.len()], before, "request {at}");
        assert_eq!(bodies[at]["tools"], bodies[0]["tools"]);
    }
    let last = messages(2);
    let of_user = last.iter().filter(|message| message["role"] == "user");
    let asked: Vec<&str> = of_user.map(|message| message["content"].as_str().expect("a text")).collect();
    assert_eq!([asked[1], asked[2], asked[4]], ["one", "two", "three"], "{asked:?}");
    assert!(asked[0].starts_with("Note from limulus: today is ") && asked[0].ends_with("the git branch is `topic`."));
    assert!(asked[3].ends_with("the git branch is `other`."), "{asked:?}");
    let shown = home.json(&["prompt"]);
    let facts = shown["parts"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&facts["name"], &facts["stable"], &facts["text"]), (&json!("facts"), &json!(false), &json!(asked[3])));
}

/// R66: a new day, or another time zone, changes nothing of what was sent before, also after a restart.
#[test]
fn r66_a_day_that_changes_leaves_what_was_sent() {
    let server = Planned::start(|_, _| Does::Answer(whole(&["done"])));
    let mut home = Home::new().served_at(&server.base_url);
    // Between these two it is never the same day.
    for zone in ["EAST-14", "WEST+12"] {
        home = home.with("TZ", zone);
        home.run(&["agent", "-m", zone]).expect_code(0);
    }
    let bodies: Vec<Value> = server.seen().into_iter().map(|asked| asked.body).collect();
    let messages = |at: usize| bodies[at]["messages"].as_array().expect("messages").clone();
    let (before, now) = (messages(0), messages(1));
    assert_eq!(now[..before.len()], before);
    assert_eq!(bodies[0]["tools"], bodies[1]["tools"]);
    let notes: Vec<&str> = now
        .iter()
        .filter_map(|message| message["content"].as_str())
        .filter(|text| text.starts_with("Note from"))
        .collect();
    assert_eq!(notes.len(), 2, "{now:?}");
    assert!(notes[0].contains("(UTC+14:00)") && notes[1].contains("(UTC-12:00)"), "{notes:?}");
    let day = |note: &str| note.split(", ").nth(1).and_then(|rest| rest.split(' ').next()).map(str::to_owned);
    assert!(day(notes[0]).is_some() && day(notes[0]) != day(notes[1]), "{notes:?}");
}

/// R41, R65: what the rules for a history changed in a request is in the trace, once for each change.
#[test]
pub(crate) fn r41_r65_the_trace_names_what_was_changed_in_the_history() {
    let call = json!({ "index": 0, "id": "functions.ls:0", "type": "function",
        "function": { "name": "ls", "arguments": "{}" } });
    let frame = json!({ "choices": [{ "index": 0, "delta": { "role": "assistant", "tool_calls": [call] } }] });
    let end = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "tool_calls" }] });
    let calls = format!("{STREAM}data: {frame}\n\ndata: {end}\n\ndata: [DONE]\n\n");
    let server = Planned::start(move |at, _| Does::Answer(if at == 0 { calls.clone() } else { whole(&["done"]) }));
    let home = Home::new().served_at(&server.base_url).with("LIMULUS_AGENTS__MAIN__HISTORY_TURNS", "2");
    let history = |text: &str| {
        home.run(&["agent", "-m", text]).expect_code(0);
        let trace = home.run(&["runs", "trace"]).expect_code(0).out;
        let said =
            trace.lines().filter_map(|line| line.split_once("; history: ")).map(|(_, said)| said.trim_end().to_owned());
        said.collect::<Vec<_>>()
    };
    assert_eq!(history("list the files"), ["ids 1"], "the second request has the odd id of the first answer");
    assert_eq!(history("two"), [""; 0], "nothing more is changed");
    // The note with the date, the message, two answers and the result are left out, with the odd id.
    assert_eq!(history("three"), ["turns 5"]);
    assert_eq!(history("four"), ["turns 7"]);
    let rules = home.run(&["graph", "--chain"]).expect_code(0).out;
    for rule in ["turns", "ids", "alternate"] {
        assert!(rules.lines().any(|line| line.starts_with(rule)), "{rules}");
    }
}

/// C5, R66: a provider that counts more tokens than there can be breaks no sum.
#[test]
pub(crate) fn c5_r66_a_provider_that_counts_what_cannot_be_breaks_no_sum() {
    let counts = [u64::MAX, 7, u64::MAX, 1 << 60];
    let server = Planned::start(move |at, _| Does::Answer(answer(counts[at], counts[3 - at])));
    let home = Home::new().served_at(&server.base_url);
    for text in ["one", "two", "three", "four"] {
        home.run(&["agent", "-m", text]).expect_code(0);
    }
    assert_eq!(said_of_cache(&home), None);
    let all = home.json(&["usage"])["all"]["usage"].clone();
    assert_eq!((&all["input"], &all["cached"]), (&json!(7), &json!(0)), "{all}");
    home.run(&["usage", "--cache"]).expect_code(0);
    home.run(&["status"]).expect_code(0);
}
