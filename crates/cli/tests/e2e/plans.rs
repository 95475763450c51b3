//! The plan of a conversation: shown each time that the model sets it, and kept over kill -9 and compactions.

use model_server::ModelServer;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Asked, Does, Home, Planned, STREAM, Terminal, until, whole};

/// A call that sets a plan: each step with its status.
fn plan(steps: &[(&str, &str)]) -> String {
    let items: Vec<Value> = steps.iter().map(|(step, status)| json!({ "step": step, "status": status })).collect();
    format!("call:plan {}", json!({ "items": items }))
}

fn three() -> String {
    plan(&[("look at it", "done"), ("write the fix", "in_progress"), ("run the tests", "pending")])
}

/// The plan of the session `main`, `STATUS STEP` each.
fn shown(home: &Home) -> Vec<String> {
    let session = home.json(&["sessions", "show"]);
    let text = |item: &Value, key: &str| item[key].as_str().expect("a text").to_owned();
    let items = session["plan"].as_array().cloned().unwrap_or_default();
    items.iter().map(|item| format!("{} {}", text(item, "status"), text(item, "step"))).collect()
}

/// An answer that depends on the last message alone: the call in it, a long text, or a summary.
fn answer(asked: &Asked) -> String {
    let last = asked.body["messages"].as_array().and_then(|messages| messages.last()).expect("a message");
    let text = last["content"].as_str().unwrap_or_default();
    let call = text.strip_prefix("call:plan ").filter(|_| last["role"] == "user");
    match call {
        _ if asked.body["tools"].is_null() => whole(&["The tide was looked at."]),
        Some(arguments) => {
            let function = json!({ "name": "plan", "arguments": arguments });
            let call = json!({ "index": 0, "id": format!("call_{}", arguments.len()), "type": "function", "function": function });
            let frame = json!({ "choices": [{ "index": 0, "delta": { "role": "assistant", "tool_calls": [call] } }] });
            let end = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "tool_calls" }] });
            format!("{STREAM}data: {frame}\n\ndata: {end}\n\ndata: [DONE]\n\n")
        }
        None if text == "tell me more" => whole(&["The tide is high at noon. "; 200]),
        None => whole(&["Fine."]),
    }
}

/// The notes but those with the date that the model has received in the session `main`.
fn notes(home: &Home) -> Vec<String> {
    let session = home.json(&["sessions", "show"]);
    let items = session["transcript"].as_array().expect("a conversation").iter();
    let texts =
        items.filter(|item| item["role"] == "note").map(|item| item["text"].as_str().expect("a text").to_owned());
    texts.filter(|text| !text.starts_with("Note from limulus: today is ")).collect()
}

/// R13 R43: the plan is shown each time that it changes, as lines to a person and as one line of the stream to a program.
#[test]
pub(crate) fn r13_r43_a_plan_is_shown_each_time_that_it_changes() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let changed = plan(&[("look at it", "done"), ("write\u{1b}[2J the fix", "done")]);
    let answer = home.run(&["agent", "-m", &format!("{}\n{changed}", three())]).expect_code(0);
    let at = |line: &str| answer.err.lines().position(|known| known == line).unwrap_or_else(|| panic!("{answer:?}"));
    assert!(at("  ✔ look at it") < at("  ▸ write the fix") && at("  ▸ write the fix") < at("  ☐ run the tests"));
    assert!(at("  ☐ run the tests") < at("  ✔ write\\u001b[2J the fix"), "what a terminal would obey is escaped");
    let page = home.run(&["sessions", "show"]).expect_code(0).out;
    assert!(page.contains("\nplan\n  ✔ look at it\n  ✔ write\\u001b[2J the fix\n"), "{page}");
    assert_eq!(shown(&home)[0], "done look at it");
    let call = home.json(&["runs", "show"])["steps"][0]["calls"][0].clone();
    assert_eq!(call["output"].as_str().map(str::trim), Some("Plan saved: 1 of 3 done."));

    let lines = home.run(&["agent", "--json", "-m", "call:plan {\"items\": []}"]).expect_code(0).lines();
    let lines: Vec<&Value> = lines.iter().filter(|line| line["stream"] == "plan").collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!((&lines[0]["type"], &lines[0]["items"]), (&json!("set"), &json!([])));
    assert_eq!(shown(&home), Vec::<String>::new(), "an empty list clears it");
    home.run(&["audit", "main", "--verify"]).expect_code(0);
}

/// R13: on a terminal the plan stands below the line of its call.
#[test]
pub(crate) fn r13_a_terminal_shows_the_plan_below_its_call() {
    if !Terminal::is_there() {
        return;
    }
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let terminal = Terminal::run(&home, &["agent", "-m", &three()]);
    let screen = terminal.until("exit=0");
    assert!(screen.contains("\nPlan\n  ✔ look at it\n  ▸ write the fix\n  ☐ run the tests\n"), "{screen}");
    assert_eq!(screen.matches("Plan").count(), 1, "its end says nothing more: {screen}");
}

/// R13 R11: a plan outlives kill -9, with and without an owner, and the run goes on with it.
#[test]
fn r11_r13_a_plan_outlives_kill_9() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let service = home.start(&["serve"]);
    service.until_err("serving");
    let waiting = home.start(&["agent", "-m", &format!("{}\ncall:ask_user {{\"question\": \"which?\"}}", three())]);
    waiting.until_err("  ▸ write the fix");
    waiting.until_err("which?");
    let before = shown(&home);
    assert_eq!(before, ["done look at it", "in_progress write the fix", "pending run the tests"]);
    service.signal(Signal::KILL);
    service.finish();
    assert_eq!(shown(&home), before, "without an owner");
    let service = home.start(&["serve"]);
    service.until_err("serving");
    assert_eq!(shown(&home), before, "the next owner resumed its run");
    let mut question = String::new();
    until("the question is open", || {
        question = home.json(&["answer"])[0]["id"].as_str().unwrap_or_default().to_owned();
        !question.is_empty()
    });
    home.run(&["answer", &question, "the second"]).expect_code(0);
    waiting.finish().expect_code(0);
    assert_eq!(shown(&home), before);
    home.run(&["audit", "main", "--verify"]).expect_code(0);
}

/// R13 R25: a summary replaces the call that set the plan: the model receives the plan again, once, and not if it is done.
#[test]
pub(crate) fn r13_r25_a_plan_survives_a_compaction() {
    let server = Planned::start(|_, asked| Does::Answer(answer(asked)));
    let home = Home::new().served_at(&server.base_url);
    let say = |text: &str| drop(home.run(&["agent", "-m", text]).expect_code(0));
    let read = "tell me more";
    say(&three());
    (0..3).for_each(|_| say(read));
    assert_eq!(notes(&home), Vec::<String>::new(), "the model sees its call");
    home.run(&["sessions", "compact"]).expect_code(0);
    say("go on");
    say("and on");
    let notes_now = notes(&home);
    assert_eq!(notes_now.len(), 1, "{notes_now:?}");
    assert!(notes_now[0].ends_with("open:\n[x] look at it\n[>] write the fix\n[ ] run the tests"), "{notes_now:?}");
    say(&plan(&[("look at it", "done"), ("write the fix", "done")]));
    (0..3).for_each(|_| say(read));
    home.run(&["sessions", "compact"]).expect_code(0);
    say("anything else?");
    assert_eq!(notes(&home), Vec::<String>::new(), "nothing of it is open");
    assert_eq!(shown(&home), ["done look at it", "done write the fix"]);
    home.run(&["audit", "main", "--verify"]).expect_code(0);
}

/// R13: a new conversation begins without the plan of the one before, and a rule can take the tool away.
#[test]
pub(crate) fn r13_a_plan_ends_with_its_conversation() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    home.run(&["agent", "-m", &three()]).expect_code(0);
    assert_eq!(shown(&home).len(), 3);
    home.run(&["agent", "-m", "/new"]).expect_code(0);
    assert_eq!(shown(&home), Vec::<String>::new());
    let several = plan(&[("a", "in_progress"), ("b", "in_progress")]);
    home.run(&["agent", "-m", &several]).expect_code(0);
    assert_eq!(shown(&home), Vec::<String>::new());
    let call = home.json(&["runs", "show"])["steps"][0]["calls"][0].clone();
    assert!(call["output"].as_str().is_some_and(|output| output.contains("leave one")), "{call}");
}

/// R13 R22: while a step is open, the status names the next one, and the explanation of the run has them all.
#[test]
pub(crate) fn r13_r22_an_open_plan_is_in_the_status_and_in_the_explanation() {
    let server = ModelServer::start().expect("a model server");
    let home = Home::new().served_by(&server);
    let stops = ["agent", "--stop-before", "exec", "-m"];
    home.run(&["agent", "-m", &three()]).expect_code(0);
    let stopped = [&stops[..], &["call:exec {\"command\":\"true\"}"]].concat();
    home.run(&stopped);
    let status = home.run(&["status"]).expect_code(0).out;
    assert!(status.contains("plan of main: 1 of 3 done, next: write the fix"), "{status}");
    assert_eq!(home.json(&["status"])["unfinished"][0]["plan"][2]["step"], "run the tests");
    let explained = home.run(&["runs", "explain"]).expect_code(0).out;
    assert!(
        explained.contains("  its plan:\n    ✔ look at it\n    ▸ write the fix\n    ☐ run the tests\n"),
        "{explained}"
    );
    assert_eq!(home.json(&["runs", "explain"])["plan"][1]["status"], "in_progress");
}
