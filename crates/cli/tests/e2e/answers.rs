//! What a person and a program get back for a message: the answer on stdout, the rest on stderr, or JSON lines.

use model_server::ModelServer;
use serde_json::Value;

use crate::support::Home;

fn a_folder() -> Home {
    let home = Home::new();
    home.put("README.md", "# The crab\n\nTODO: feed it.\n");
    home.put("notes.txt", "eats worms\n");
    home
}

#[test]
pub(crate) fn r61_the_first_command_needs_no_key_and_no_configuration() {
    let home = a_folder().without("LIMULUS_HOME");
    let answer = home.run(&["agent", "-m", "What is in this folder?"]).expect_code(0);
    for part in ["README.md", "notes.txt", "The crab"] {
        assert!(answer.out.contains(part), "{answer:?}");
    }
    for note in ["▸", "✓", "offline model answers"] {
        assert!(!answer.out.contains(note) && answer.err.contains(note), "{note}: {answer:?}");
    }
    assert!(home.user().join(".local/share/limulus/journal.db").exists(), "the platform's folder for data");
}

#[test]
pub(crate) fn r61_a_request_in_chinese_is_answered_in_chinese() {
    let answer = a_folder().run(&["agent", "-m", "这个文件夹里有什么？"]).expect_code(0);
    assert!(answer.out.contains("文件") && answer.out.contains("notes.txt"), "{answer:?}");
}

#[test]
pub(crate) fn r61_one_sentence_may_ask_for_several_tools() {
    let home = a_folder();
    let asked = "read notes.txt, search for TODO, write \"worms\" to food.txt and then run `wc -c < food.txt`";
    let answer = home.run(&["agent", "--yes", "-m", asked]).expect_code(0);
    for part in ["eats worms", "TODO: feed it.", "food.txt", "  5"] {
        assert!(answer.out.contains(part), "{part}: {answer:?}");
    }
    assert_eq!(home.text("food.txt"), "worms");
    let tools: Vec<&str> = ["read", "grep", "write", "exec"].to_vec();
    let started: Vec<&str> = answer.err.lines().filter_map(|line| line.strip_prefix("▸ ")?.split(' ').next()).collect();
    assert_eq!(started, tools);
}

#[test]
pub(crate) fn r22_r43_json_lines_tell_the_run_from_its_acceptance_to_its_one_end() {
    let home = a_folder();
    let lines = home.run(&["agent", "--json", "-m", "read notes.txt"]).expect_code(0).lines();
    for line in &lines {
        let line = line.as_object().expect("an object");
        for key in ["cursor", "session", "run", "stream", "type", "at"] {
            assert!(line.contains_key(key), "{key}: {line:?}");
        }
    }
    let at = |stream: &str, kind: &str| lines.iter().position(|line| line["stream"] == stream && line["type"] == kind);
    let accepted = at("queue", "accepted").expect("the acceptance");
    let run = lines[accepted]["run"].as_str().expect("its run");
    assert!(lines[..accepted].iter().all(|line| line["run"].is_null()), "nothing of the run comes before it");
    assert!(Some(accepted) < at("lifecycle", "start") && at("lifecycle", "start") < at("tool", "start"));

    let mut text = String::new();
    for delta in lines.iter().filter(|line| line["type"] == "delta") {
        assert_eq!((delta["run"].as_str(), delta["offset"].as_u64()), (Some(run), Some(text.len() as u64)));
        assert!(delta["effect"].as_str().is_some_and(|effect| effect.starts_with(run)), "{delta}");
        text += delta["text"].as_str().expect("text");
    }
    let end = lines.last().expect("an end");
    assert_eq!(
        (&end["stream"], &end["type"], &end["outcome"]),
        (&"lifecycle".into(), &"end".into(), &"completed".into())
    );
    assert_eq!((end["run"].as_str(), end["text"].as_str()), (Some(run), Some(text.as_str())));
    assert!(text.contains("eats worms") && end["usage"]["output"].as_u64() > Some(0), "{end}");
    let ends =
        lines.iter().filter(|line| line["stream"] == "lifecycle" && (line["type"] == "end" || line["type"] == "error"));
    assert_eq!(ends.count(), 1);
}

#[test]
pub(crate) fn r43_what_a_run_takes_is_a_stream_of_its_own() {
    let lines = a_folder().run(&["agent", "--json", "-m", "read notes.txt"]).expect_code(0).lines();
    let told: Vec<&Value> = lines.iter().filter(|line| line["stream"] == "usage").collect();
    assert_eq!(told.len(), 2, "one for each request: {told:#?}");
    let end = lines.last().expect("the end of the run");
    let of_model = |line: &Value| line["model"].as_str().is_some_and(|model| model.starts_with("offline/"));
    let is_it = |line: &&Value| line["type"] == "run" && line["run"] == end["run"] && of_model(line);
    assert!(told.iter().all(is_it), "{told:#?}");
    let output = |line: &Value| line["usage"]["output"].as_u64().expect("a number");
    assert!(0 < output(told[0]) && output(told[0]) < output(told[1]), "it is what all requests took so far: {told:#?}");
    assert_eq!(told[1]["usage"], end["usage"]);
}

#[test]
pub(crate) fn r22_every_change_of_state_is_a_line() {
    let home = a_folder();
    let lines = home.run(&["agent", "--json", "-m", "read notes.txt"]).expect_code(0).lines();
    let changed: Vec<&Value> =
        lines.iter().filter(|line| line["stream"] == "state" && line["type"] == "changed").collect();
    let states: Vec<&str> = changed.iter().filter_map(|line| line["state"].as_str()).collect();
    let mut ahead = states.iter();
    for state in ["preparing", "streaming", "tool_exec", "preparing", "streaming", "idle"] {
        assert!(ahead.any(|seen| *seen == state), "{state} in its turn: {states:?}");
    }
    let streaming = changed.iter().find(|line| line["state"] == "streaming").expect("it streams");
    assert_eq!((&streaming["flags"]["isStreaming"], &streaming["flags"]["canInterrupt"]), (&true.into(), &true.into()));
}

#[test]
pub(crate) fn r44_a_pipe_gets_each_message_once() {
    let server = ModelServer::start().unwrap();
    let home = a_folder().served_by(&server);
    let answer = home.run(&["agent", "-m", "rounds=2 preamble=2 tokens=4"]).expect_code(0);
    assert_eq!(answer.out, "word0 word1\nword0 word1\nword0 word1 word2 word3\n");
    assert_eq!(server.violations(), [""; 0]);
}

#[test]
pub(crate) fn r10_the_same_key_is_the_same_message() {
    let home = a_folder();
    let send = |text: &str| home.run(&["agent", "--key", "k1", "--yes", "-m", text]);
    let first = send("run `echo x >> ledger`").expect_code(0);
    let again = send("run `echo x >> ledger`").expect_code(0);
    assert_eq!(home.text("ledger"), "x\n");
    assert_eq!(again.out, first.out, "the same answer");
    let json =
        home.run(&["agent", "--json", "--key", "k1", "--yes", "-m", "run `echo x >> ledger`"]).expect_code(0).lines();
    assert_eq!(json.last().and_then(|end| end["text"].as_str()).map(str::trim), Some(first.out.trim()));
    send("run `echo y >> ledger`").expect_code(3);
    assert_eq!(home.text("ledger"), "x\n");
}
