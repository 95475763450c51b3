//! Answers that are cut at their output limit or by a content filter.

use serde_json::Value;

use crate::formats::bodies_with;
use crate::support::{Does, Home, Planned, said, serve, whole};

const GO_ON: &str = "Go on exactly where it stopped";

/// An answer of chat completions with these words and this finish reason.
fn cut(words: &[&str], reason: &str) -> String {
    let end = format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"{reason}\"}}]}}\n\n");
    said(words) + &end + "data: [DONE]\n\n"
}

/// A server whose answers are all cut like this.
fn always(reason: &'static str) -> Planned {
    Planned::start(move |_, _| Does::Answer(cut(&["and ", "so on "], reason)))
}

fn home_at(server: &Planned) -> Home {
    Home::new().served_at(&server.base_url)
}

#[test]
pub(crate) fn r40_an_answer_that_is_cut_is_continued_as_one_text_on_each_wire_format() {
    let answers = [bodies_with("There is ", true), bodies_with("one file.", false), bodies_with("Yes.", false)];
    for (at, (api, _)) in answers[0].iter().enumerate() {
        let (address, bodies) = serve(answers.each_ref().map(|answers| answers[at].1.clone()));
        let home = Home::new().served_at(&address).with("LIMULUS_PROVIDERS__ACME__API", api);
        let answer = home.run(&["agent", "-m", "What is here?"]).expect_code(0);
        assert_eq!(answer.out, "There is one file.\n", "{api}");
        let run = home.json(&["runs", "show"]);
        assert_eq!((&run["text"], &run["stop_reason"]), (&"There is one file.".into(), &Value::Null), "{api}");
        home.run(&["agent", "-m", "Really?"]).expect_code(0);
        let bodies: Vec<String> = bodies.iter().map(|body| body.to_string()).collect();
        assert_eq!(bodies.len(), 3, "{api}");
        assert_eq!(bodies[1].matches(GO_ON).count(), 1, "{api}: {}", bodies[1]);
        let (beginning, rest) = (bodies[2].find("There is "), bodies[2].find("one file."));
        assert!(beginning.is_some() && beginning < rest, "{api}: {}", bodies[2]);
        // Text that a provider has signed stays as it was.
        let asks_again = usize::from(*api == "openai-responses");
        assert_eq!(bodies[2].matches(GO_ON).count(), asks_again, "{api}: {}", bodies[2]);
    }
}

#[test]
pub(crate) fn r40_an_answer_that_stays_cut_is_reported() {
    let server = always("length");
    let home = home_at(&server);
    let answer = home.run(&["agent", "-m", "Tell me all."]).expect_code(5);
    assert_eq!(answer.out, format!("{}\n", "and so on ".repeat(3)));
    let verdict = answer.verdict();
    assert!(verdict.contains("the answer is incomplete: it reached the output limit"), "{verdict}");
    assert!(verdict.contains("requests.continuations"), "it says what can be done: {verdict}");
    assert_eq!(server.seen().len(), 3);
    let run = home.json(&["runs", "show"]);
    assert_eq!((&run["outcome"], &run["stop_reason"]), (&"completed".into(), &"length".into()));
    assert_eq!(home.json(&["runs", "list"])[0]["stop_reason"], "length");
    home.run(&["runs", "show"]).expect_code(0).out.lines().find(|line| line.contains("output limit")).expect("a line");
    let trace = home.run(&["runs", "trace"]).expect_code(0).out;
    assert_eq!(trace.matches("so it is continued").count(), 2, "{trace}");
    assert!(trace.contains("completed, incomplete: it reached the output limit"), "{trace}");
    let waited = home.run(&["runs", "wait", "--json"]).expect_code(5);
    assert!(waited.out.contains("\"stopReason\": \"length\""), "{waited:?}");

    let home = home.with("LIMULUS_REQUESTS__CONTINUATIONS", "0");
    let lines = home.run(&["agent", "--json", "-m", "Again."]).expect_code(5).lines();
    let of = |stream: &str, kind: &str| {
        let found = lines.iter().rfind(|line| line["stream"] == stream && line["type"] == kind);
        found.unwrap_or_else(|| panic!("no {stream} {kind}")).clone()
    };
    assert_eq!(of("lifecycle", "end")["stop_reason"], "length");
    assert_eq!(of("assistant", "message")["stop_reason"], "length");
    assert_eq!(server.seen().len(), 4, "nothing is continued");
}

/// The rest of an answer is asked for once, and that fails.
fn home_with_a_part(server: &Planned) -> Home {
    home_at(server).with("LIMULUS_REQUESTS__RETRIES", "0")
}

#[test]
pub(crate) fn r24_r40_r46_an_answer_whose_rest_fails_is_completed_with_what_came() {
    let server = Planned::start(|number, _| {
        if number == 0 {
            return Does::Answer(cut(&["and ", "so on "], "length"));
        }
        let body = r#"{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}"#;
        let head = "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\nconnection: close\r\n";
        Does::Answer(format!("{head}content-length: {}\r\n\r\n{body}", body.len()))
    });
    let home = home_with_a_part(&server);
    let answer = home.run(&["agent", "-m", "Tell me all."]).expect_code(5);
    assert_eq!(answer.out, "and so on \n");
    let verdict = answer.verdict();
    assert!(
        verdict.contains("output limit") && verdict.contains("; its rest did not come: ") && verdict.contains("401"),
        "{verdict}"
    );
    let run = home.json(&["runs", "show"]);
    assert_eq!((&run["outcome"], &run["stop_reason"]), (&"completed".into(), &"length".into()));
    assert!(run["error"].as_str().is_some_and(|error| error.contains("401")), "{run}");
    let kinds: Vec<&Value> = run["payloads"].as_array().expect("a list").iter().map(|of| &of["kind"]).collect();
    assert_eq!((kinds, &run["meta"]["stop_reason"]), (vec![&"text".into(), &"error".into()], &"length".into()));
    let waited = home.run(&["runs", "wait"]).expect_code(5);
    assert!(waited.verdict().contains("its rest did not come"), "{waited:?}");
    home.run(&["audit", "main", "--verify"]).expect_code(0);
}

#[test]
pub(crate) fn r23_r40_an_answer_whose_rest_the_budget_forbids_is_completed_with_what_came() {
    let server = always("length");
    let home = home_at(&server).with("LIMULUS_BUDGET__AT_LIMIT", "end").with("LIMULUS_BUDGET__RUN__TOKENS", "9000");
    let answer = home.run(&["agent", "-m", &"tide ".repeat(1_000)]).expect_code(5);
    assert_eq!(answer.out, "and so on \n");
    assert!(answer.verdict().contains("its rest did not come: what this run may spend is too little"), "{answer:?}");
    assert_eq!(server.seen().len(), 1);
}

#[test]
pub(crate) fn r40_a_filtered_answer_is_reported_and_not_continued() {
    let server = always("content_filter");
    let home = home_at(&server);
    let answer = home.run(&["agent", "-m", "Tell me all."]).expect_code(5);
    assert_eq!(answer.out, "and so on \n");
    assert!(answer.verdict().contains("a content filter of the provider stopped it"), "{answer:?}");
    assert_eq!(home.json(&["runs", "show"])["stop_reason"], "content_filter");
    assert_eq!(server.seen().len(), 1);
}

#[test]
pub(crate) fn r40_a_continuation_without_content_says_that_the_answer_was_whole() {
    let server = Planned::start(|number, _| {
        let answers = [cut(&["All of it."], "length"), whole(&[])];
        Does::Answer(answers.into_iter().nth(number).unwrap_or_else(|| whole(&["Fine."])))
    });
    let home = home_at(&server);
    let answer = home.run(&["agent", "-m", "Tell me all."]).expect_code(0);
    assert_eq!(answer.out, "All of it.\n");
    assert_eq!(server.seen().len(), 2, "an empty answer is no failure here");
    home.assert_usable("main");
}

#[test]
pub(crate) fn r14_a_summary_that_is_cut_is_not_used() {
    let server = Planned::start(|_, asked| {
        let is_summary = asked.body["tools"].is_null();
        Does::Answer(if is_summary { cut(&["## Goal"], "length") } else { whole(&["Done."]) })
    });
    let home = home_at(&server);
    home.run(&["agent", "-m", &format!("Read this: {}", "words ".repeat(500))]).expect_code(0);
    let refused = home.run(&["sessions", "compact"]).expect_code(3);
    assert!(refused.err.contains("the summary is incomplete"), "{refused:?}");
    let context = home.run(&["sessions", "show"]).expect_code(0).out;
    assert!(!context.contains("## Goal"), "the old history is in force: {context}");
}
