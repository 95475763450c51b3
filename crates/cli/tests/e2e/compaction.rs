//! Compaction with a server that refuses requests that do not fit: automatic, on demand, with failing summaries, and
//! with the process killed in between.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use model_server::ModelServer;
use serde_json::{Value, json};

use crate::support::{Asked, Does, Home, Planned, STREAM, refused, said, until, whole};

/// Tokens that the server accepts for a request and its answer; four bytes of JSON are one token.
const WINDOW: usize = 64_000;
const MAX_OUTPUT: usize = 4_096;

/// Commands that a run is asked for, each with 20 KB of output.
const ROUNDS: usize = 30;

/// Whether a summary is asked for: such a request has no tools.
fn is_summary(asked: &Asked) -> bool {
    asked.body["tools"].is_null()
}

fn too_long(asked: &Asked) -> bool {
    asked.body.to_string().len() / 4 + MAX_OUTPUT > WINDOW
}

fn overflow() -> String {
    let error = json!({ "error": {
        "message": format!("This model's maximum context length is {WINDOW} tokens. Please reduce the length of the messages."),
        "type": "invalid_request_error", "code": "context_length_exceeded",
    } });
    refused(400, &error)
}

/// An answer that asks for the command, so many times at once.
fn calls(number: usize, times: usize) -> String {
    let command = |index| format!("yes 'line {number}/{index} of the log of the tides' | head -c 20000");
    asks_for(number, "exec", (0..times).map(|index| json!({ "command": command(index) })))
}

/// An answer that asks for a tool, once for each of these arguments.
fn asks_for(number: usize, tool: &str, arguments: impl Iterator<Item = Value>) -> String {
    let call = |(index, arguments): (usize, Value)| {
        json!({ "index": index, "id": format!("call_{number}_{index}"), "type": "function",
                "function": { "name": tool, "arguments": arguments.to_string() } })
    };
    let calls: Vec<Value> = arguments.enumerate().map(call).collect();
    let frame = json!({ "choices": [{ "index": 0, "delta": { "role": "assistant", "tool_calls": calls } }] });
    let end = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "tool_calls" }] });
    format!("{STREAM}data: {frame}\n\ndata: {end}\n\ndata: [DONE]\n\n")
}

/// A home whose model has that window.
fn home(base_url: &str) -> Home {
    let home = Home::new().served_at(base_url);
    std::fs::create_dir_all(home.path()).expect("a home");
    let models = format!("[models.\"acme/scripted\"]\ncontext_window = {WINDOW}\nmax_output = {MAX_OUTPUT}\n");
    std::fs::write(home.path().join("config.toml"), models).expect("its configuration");
    home
}

/// A strict server: the first request of a run asks for `at_once` commands, and so on until all were asked for.
fn strict(at_once: usize) -> (Planned, Arc<AtomicUsize>) {
    let overflows = Arc::new(AtomicUsize::new(0));
    let (counted, asked_for) = (Arc::clone(&overflows), AtomicUsize::new(0));
    let server = Planned::start(move |number, asked| {
        if too_long(asked) {
            counted.fetch_add(1, Ordering::SeqCst);
            return Does::Answer(overflow());
        }
        if is_summary(asked) {
            return Does::Answer(whole(&["## Goal\nRead the log of the tides.", "\n## Done\nParts of it were read."]));
        }
        let before = asked_for.fetch_add(at_once, Ordering::SeqCst);
        Does::Answer(if before < ROUNDS { calls(number, at_once) } else { whole(&["All of it ", "was read."]) })
    });
    (server, overflows)
}

#[test]
pub(crate) fn r25_r52_a_turn_of_thirty_tools_never_reaches_the_providers_overflow() {
    let (server, overflows) = strict(1);
    let home = home(&server.base_url);
    let answer = home.run(&["agent", "--yes", "-m", "Read the log"]).expect_code(0);
    assert_eq!(answer.out, "All of it was read.\n");
    assert_eq!(overflows.load(Ordering::SeqCst), 0, "{}", answer.err);
    let summaries: Vec<Asked> = server.seen().into_iter().filter(is_summary).collect();
    assert!(!summaries.is_empty(), "150,000 tokens of results do not fit into {WINDOW}");
    assert!(answer.err.contains("⇲ history compacted: "), "{}", answer.err);
    assert!(answer.err.contains("summarised by acme/scripted"), "{}", answer.err);
    // Every request contains the user's message, word for word.
    let asks = |asked: &Asked| asked.body.to_string().contains("Read the log");
    assert!(server.seen().iter().all(asks));
    let shown = home.json(&["sessions", "context"]);
    let is_head = |part: &&serde_json::Value| part["what"] == "system" || part["what"] == "tools";
    let after = shown["parts"].as_array().and_then(|parts| parts.iter().find(|part| !is_head(part)));
    assert_eq!((&shown["window"], &after.unwrap()["what"]), (&json!(WINDOW), &json!("summary")), "{shown}");
    let dropped = home.json(&["sessions", "context", "--dropped"]);
    assert!(dropped["parts"].as_array().is_some_and(|parts| parts.len() > 2), "{dropped}");
}

/// Whether the last message of the request is the note of the memory flush.
fn is_flush(asked: &Asked) -> bool {
    let last = asked.body["messages"].as_array().and_then(|messages| messages.last());
    last.is_some_and(|last| last.to_string().contains("write it now into a file of the workspace"))
}

/// Before each summary the model once receives the note of the memory flush, with its tools.
#[test]
pub(crate) fn r14_r25_the_model_can_write_down_important_facts_before_a_summary() {
    for flush in [true, false] {
        let rounds = AtomicUsize::new(0);
        let server = Planned::start(move |number, asked| match () {
            () if is_summary(asked) => Does::Answer(whole(&["## Goal\nRead the log of the tides."])),
            () if is_flush(asked) => {
                let notes = json!({ "path": "memory/NOTES.md", "content": "high at noon" });
                Does::Answer(asks_for(number, "write", std::iter::once(notes)))
            }
            () if rounds.fetch_add(1, Ordering::SeqCst) < ROUNDS => Does::Answer(calls(number, 1)),
            () => Does::Answer(whole(&["All of it ", "was read."])),
        });
        let home =
            home(&server.base_url).with("LIMULUS_COMPACTION__MEMORY_FLUSH", if flush { "true" } else { "false" });
        let answer = home.run(&["agent", "--yes", "-m", "Read the log"]).expect_code(0);
        assert_eq!(answer.out, "All of it was read.\n");
        let times = |of: fn(&Asked) -> bool| server.seen().iter().filter(|asked| of(asked)).count();
        let (summaries, flushes) = (times(is_summary), times(is_flush));
        assert!(summaries > 1, "{summaries}: {}", answer.err);
        let seen = server.seen();
        let mut asked = seen.iter().filter(|asked| is_summary(asked)).map(|asked| asked.body.to_string());
        assert!(
            asked.all(|asked| !asked.contains("Note from limulus")),
            "its note to the model is no request of the user"
        );
        if flush {
            assert!((summaries..=summaries + 1).contains(&flushes), "{flushes} for {summaries}");
            assert_eq!(home.text("memory/NOTES.md"), "high at noon");
            let expected = "! the model receives: Note from limulus: this conversation is nearly as long as fits";
            assert_eq!(answer.err.matches(expected).count(), flushes, "{}", answer.err);
        } else {
            assert_eq!((flushes, home.text("memory/NOTES.md")), (0, String::new()));
        }
        home.run(&["audit", "main", "--verify"]).expect_code(0);
    }
}

/// A summary reserves its budget like any request. If too little is left, the run continues without a summary.
#[test]
pub(crate) fn r23_a_summary_that_too_little_is_left_for_is_not_asked_for() {
    for (scope, expected) in [("RUN", "too little is left for a summary"), ("DAY", "no budget for a summary")] {
        let (server, overflows) = strict(1);
        let home = home(&server.base_url).with(&format!("LIMULUS_BUDGET__{scope}__COST"), "1");
        let dear =
            "[compaction]\nmodel = \"acme/dear\"\n[models.\"acme/dear\"]\nprice = { input = 1000, output = 1000 }\n";
        let file = home.path().join("config.toml");
        let models = std::fs::read_to_string(&file).expect("its configuration");
        std::fs::write(&file, models + dear).expect("its configuration");
        let answer = home.run(&["agent", "--yes", "-m", "Read the log"]).expect_code(0);
        assert_eq!(answer.out, "All of it was read.\n");
        assert!(answer.err.contains(expected), "{scope}: {}", answer.err);
        assert!(!server.seen().iter().any(is_summary), "{scope}: a summary was asked for");
        assert_eq!(overflows.load(Ordering::SeqCst), 0, "{}", answer.err);
        assert_eq!(home.json(&["usage"])["all"]["costMicros"], 0);
    }
}

/// If all results arrive at once, there is nothing older to summarise: long results are truncated.
#[test]
pub(crate) fn r52_thirty_results_at_once_are_truncated_before_they_are_sent() {
    let (server, overflows) = strict(ROUNDS);
    let home = home(&server.base_url);
    let answer = home.run(&["agent", "--yes", "-m", "Read the log"]).expect_code(0);
    assert_eq!(answer.out, "All of it was read.\n");
    assert_eq!(overflows.load(Ordering::SeqCst), 0, "{}", answer.err);
    assert!(answer.err.contains("30 long results truncated"), "{}", answer.err);
    let last = server.seen().last().expect("the last request").body.to_string();
    assert_eq!(last.matches("were left out to make room").count(), ROUNDS);
}

/// If the provider reports a smaller window than configured, the run compacts for that window: three summaries, then
/// the next steps.
#[test]
pub(crate) fn r52_an_overflow_is_compacted_and_then_reported_readably() {
    let server = Planned::start(|number, asked| match () {
        () if is_summary(asked) => Does::Answer(whole(&["They greeted each other."])),
        () if number < 2 => Does::Answer(whole(&["Hello to you."; 40])),
        () => Does::Answer(overflow()),
    });
    let home = home(&server.base_url);
    home.run(&["agent", "-m", "Hello, and good morning"]).expect_code(0);
    home.run(&["agent", "-m", "Hello again"]).expect_code(0);
    let failed = home.run(&["agent", "-m", "And again"]).expect_code(1);
    assert!(
        failed.err.contains("start a new conversation with `/new`, or use a model with a larger window"),
        "{}",
        failed.err
    );
    let is_whole = |line: &str| line.contains("maximum context length") && line.contains("): start a new conversation");
    assert!(failed.err.lines().any(is_whole), "one sentence, with no hint inside: {}", failed.err);
    let requests = server.seen().iter().filter(|asked| !is_summary(asked)).count() - 2;
    assert!((2..=6).contains(&requests), "{requests} requests are no endless loop");
}

/// The response to a summary request.
type Answer = Box<dyn Fn() -> Does + Send + Sync>;

/// A summary hangs, is empty, is longer, fails, or is interrupted: the run continues with the old history, which fits.
#[test]
pub(crate) fn r14_a_summary_that_goes_wrong_leaves_the_old_history() {
    let long = "a summary that is longer than what it stands for ".repeat(4_000);
    let ways: [(&str, Answer); 5] = [
        ("no summary within 1 s", Box::new(|| Does::Hold(said(&["A sum"])))),
        ("the summary is empty", Box::new(|| Does::Answer(whole(&["  "])))),
        ("would not reduce the history", Box::new(move || Does::Answer(whole(&[&long])))),
        (
            "overloaded for the test",
            Box::new(|| Does::Answer(refused(401, &json!({ "error": { "message": "overloaded for the test" } })))),
        ),
        ("before its end mark", Box::new(|| Does::Answer(said(&["A sum"])))),
    ];
    for (why, way) in ways {
        let server = Planned::start(move |number, asked| match () {
            () if too_long(asked) => Does::Answer(overflow()),
            () if is_summary(asked) => way(),
            () if number < 5 => Does::Answer(calls(number, 2)),
            () => Does::Answer(whole(&["Done."])),
        });
        let home = home(&server.base_url).with("LIMULUS_COMPACTION__LIMIT_S", "1");
        let answer = home.run(&["agent", "--yes", "-m", "Read the log"]).expect_code(0);
        assert_eq!(answer.out, "Done.\n", "{why}");
        assert!(
            answer.err.contains("✗ the history was not compacted") && answer.err.contains(why),
            "{why}: {}",
            answer.err
        );
        home.assert_usable("main");
    }
}

/// Killed during a summary: the old history is in force, and the next owner compacts it once.
#[test]
fn r11_r14_a_kill_in_a_compaction_leaves_the_old_history_and_the_next_owner_continues() {
    let summaries = AtomicUsize::new(0);
    let server = Planned::start(move |number, asked| match () {
        () if is_summary(asked) && summaries.fetch_add(1, Ordering::SeqCst) == 0 => Does::Hold(said(&["A sum"])),
        () if is_summary(asked) => Does::Answer(whole(&["They read the log."])),
        () if number < 5 => Does::Answer(calls(number, 2)),
        () => Does::Answer(whole(&["Done."])),
    });
    let home = home(&server.base_url);
    let agent = home.start(&["agent", "--yes", "-m", "Read the log"]);
    agent.until_err("⇲ compacting the history: summary");
    until("a summary that is asked for", || server.seen().iter().any(is_summary));
    agent.kill();
    let shown = home.json(&["sessions", "show"]);
    assert_eq!((&shown["run_state"], &shown["transcript"][0]["role"]), (&json!("compacting"), &json!("note")));
    home.run(&["resume"]).expect_code(0);
    let shown = home.json(&["sessions", "show"]);
    assert_eq!((&shown["run_state"], &shown["transcript"][0]["role"]), (&json!("idle"), &json!("summary")));
    assert_eq!(home.json(&["runs", "show"])["text"], "Done.");
    let trace = home.run(&["runs", "trace"]).expect_code(0).out;
    assert_eq!(trace.matches("compacted ").count(), 1, "{trace}");
    home.run(&["audit", "main", "--verify"]).expect_code(0);
}

/// The owner is killed in a compaction that a command waits for: the command takes the home over, and finishes it.
#[test]
fn r11_r14_r62_a_compaction_on_demand_is_finished_by_the_command_whose_owner_was_killed() {
    let summaries = AtomicUsize::new(0);
    let server = Planned::start(move |_, asked| match () {
        () if is_summary(asked) && summaries.fetch_add(1, Ordering::SeqCst) == 0 => Does::Hold(said(&["A sum"])),
        () if is_summary(asked) => Does::Answer(whole(&["They spoke of the tides."])),
        () => Does::Answer(whole(&[&"the tide is high at noon, ".repeat(200)])),
    });
    let home = home(&server.base_url);
    for text in ["When is the tide high?", "And tomorrow?", "And then?"] {
        home.run(&["agent", "-m", text]).expect_code(0);
    }
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    let compact = home.start(&["sessions", "compact", "main"]);
    until("a summary that is asked for", || server.seen().iter().any(is_summary));
    owner.kill();
    let done = compact.finish().expect_code(0);
    assert!(done.out.contains("was compacted: about"), "{done:?}");
    let shown = home.json(&["sessions", "show"]);
    let states = (&shown["lifecycle"], &shown["run_state"], &shown["transcript"][0]["role"]);
    assert_eq!(states, (&json!("idle"), &json!("idle"), &json!("summary")), "{done:?}");
    home.run(&["resume"]).expect_code(0).expect_err("nothing is unfinished");
    assert_eq!(server.seen().iter().filter(|asked| is_summary(asked)).count(), 2);
}

/// Undo restores the previous summary, and a second undo restores what that one replaced.
#[test]
pub(crate) fn r62_each_summary_can_be_undone_in_turn() {
    let home = Home::new();
    home.put("tide.txt", "high at noon\n".repeat(200));
    let talk = || {
        for text in ["Read tide.txt", "Who are you?", "List the files here"] {
            home.run(&["agent", "-m", text]).expect_code(0);
        }
    };
    let parts = |words: &[&str]| home.json(words)["parts"].as_array().expect("parts").clone();
    let (context, dropped) = (&["sessions", "context"][..], &["sessions", "context", "--dropped"][..]);
    talk();
    let first = parts(context);
    home.run(&["sessions", "compact"]).expect_code(0);
    let before = parts(dropped);
    talk();
    let second = parts(context);
    home.run(&["sessions", "compact"]).expect_code(0);
    home.run(&["sessions", "compact", "--undo"]).expect_code(0);
    assert_eq!(parts(context), second);
    assert_eq!(parts(dropped), before, "the older summary is in force, and says what it replaces");
    home.run(&["sessions", "compact", "--undo"]).expect_code(0);
    let all = parts(context);
    assert_eq!(all[..first.len()], first, "the beginning is as it was");
    assert!(all.iter().all(|part| part["what"] != "summary"), "{all:?}");
    home.run(&["sessions", "compact", "--undo"]).expect_code(3).expect_err("no compaction that can be undone");
    home.run(&["audit", "main", "--verify"]).expect_code(0);
    home.assert_usable("main");
}

/// Without any model: an extract on demand, and its undo.
#[test]
pub(crate) fn r62_a_history_is_compacted_on_demand_and_that_is_undone() {
    let home = Home::new();
    home.put("tide.txt", "high at noon\n".repeat(200));
    for text in ["Read tide.txt", "Who are you?", "List the files here"] {
        home.run(&["agent", "-m", text]).expect_code(0);
    }
    let before = home.json(&["sessions", "context"]);
    let compacted = home.run(&["sessions", "compact", "main", "--focus", "the tide"]).expect_code(0);
    assert!(compacted.out.starts_with("the history of agent:main:main was compacted: about "), "{compacted:?}");
    let after = home.json(&["sessions", "context"]);
    assert!(after["tokens"].as_u64() < before["tokens"].as_u64(), "{before}\n{after}");
    let summary = after["parts"].as_array().and_then(|parts| parts.iter().find(|part| part["what"] == "summary"));
    assert!(summary.is_some_and(|summary| summary["text"].as_str().is_some_and(|text| text.contains("tide.txt"))));
    home.run(&["agent", "-m", "Who are you?"]).expect_code(0);
    let undone = home.run(&["sessions", "compact", "--undo"]).expect_code(0);
    assert!(undone.out.contains("is undone: "), "{undone:?}");
    let undone = home.json(&["sessions", "context"]);
    let parts = |context: &Value| context["parts"].as_array().map_or(0, Vec::len);
    assert_eq!(parts(&undone), parts(&before) + 3, "all of before, and the date, the message and its answer");
    home.run(&["sessions", "compact", "--undo"]).expect_code(3).expect_err("no compaction that can be undone");
    let said = home.run(&["agent", "-m", "/compact the tide"]).expect_code(0).out;
    assert!(said.starts_with("the history of agent:main:main was compacted: about "), "{said}");
    let empty = home.run(&["sessions", "compact", "nobody"]).expect_code(4);
    assert!(empty.err.contains("no session"), "{}", empty.err);
    home.run(&["audit", "main", "--verify"]).expect_code(0);
    home.assert_usable("main");
}

#[test]
pub(crate) fn r41_a_request_holds_the_newest_turns_of_the_history() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server).with("LIMULUS_AGENTS__MAIN__HISTORY_TURNS", "2");
    for _ in 0..4 {
        home.run(&["agent", "-m", "tokens=2"]).expect_code(0);
    }
    let messages: Vec<usize> = server.seen().iter().map(|seen| seen.messages).collect();
    let more: Vec<usize> = messages.iter().map(|of| of - messages[0]).collect();
    assert_eq!(more, [0, 2, 2, 2], "each earlier turn is a question and an answer");
    let context = home.json(&["sessions", "context"]);
    let asked = context["parts"].as_array().expect("parts").iter().filter(|part| part["what"] == "user").count();
    assert_eq!((asked, &context["left_out"]), (2, &5.into()), "{context}");
    let page = home.run(&["sessions", "context"]).expect_code(0).out;
    assert!(page.contains("it leaves out 5 older items"), "{page}");
    assert_eq!(server.violations(), [""; 0]);
}
