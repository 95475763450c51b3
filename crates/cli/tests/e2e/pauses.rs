//! Runs that are paused: whoever follows one is notified where it stands and how it goes on, with the same exit code everywhere.

use model_server::ModelServer;
use serde_json::Value;

use crate::support::{Home, is_alive, pids, until};

/// A command that holds until the file `go` is there, and a file that is written after it.
const HOLD_AND_WRITE: &str = "exec: echo $$ >> pids; until test -e go; do sleep 0.02; done\n\
    call:write {\"path\":\"a\",\"content\":\"b\"}\ntokens=2";

fn served() -> (ModelServer, Home) {
    let server = ModelServer::start().expect("a port");
    let home = Home::new().served_by(&server);
    (server, home)
}

fn run_of(home: &Home) -> String {
    home.json(&["runs", "show"])["run"].as_str().expect("an id").to_owned()
}

/// A run that stops before it writes, whose owner is killed before that.
fn killed_before_its_breakpoint(home: &Home) {
    let agent = home.start(&["agent", "--yes", "--stop-before", "edit", "-m", HOLD_AND_WRITE]);
    until("a command that holds", || pids(&home.file("pids")).len() == 1);
    agent.kill();
    home.put("go", "");
}

/// A run that has stopped before it writes. Returns its id.
fn stopped(home: &Home) -> String {
    home.put("go", "");
    home.run(&["agent", "--yes", "--stop-before", "edit", "-m", HOLD_AND_WRITE]).expect_code(6);
    run_of(home)
}

/// R16, R61: whoever follows a run that stops at a breakpoint says where it stands, and ends with exit code 6.
#[test]
fn r16_a_stop_at_a_breakpoint_has_the_same_exit_code_whoever_follows() {
    for words in [&["resume"][..], &["resume", "main"]] {
        let (_server, home) = served();
        killed_before_its_breakpoint(&home);
        let resumed = home.run(words).expect_code(6);
        let run = run_of(&home);
        for part in ["stopped before `write`, at a breakpoint; the agent wants: Write a", &goes_on(&run)] {
            assert!(resumed.err.contains(part), "{words:?}: {part}: {}", resumed.err);
        }
        assert!(!home.file("a").exists());
        // It stops at a breakpoint of a command as well.
        home.run(&["runs", "break", "--before-tool", "write"]).expect_code(0);
        let stopped = home.run(&["runs", "resume"]);
        // That call was passed: the breakpoint is for the next one.
        stopped.expect_code(0);
        assert!(home.file("a").exists());
    }
}

/// R60: whoever sends `/new` may be the next owner of a run whose owner was killed: its command ends before the answer.
#[test]
fn r60_a_new_conversation_ends_what_a_killed_owner_left() {
    let (_server, home) = served();
    let agent = home.start(&["agent", "--yes", "-m", HOLD_AND_WRITE]);
    until("a command that holds", || pids(&home.file("pids")).len() == 1);
    let run = run_of(&home);
    agent.kill();
    let new = home.run(&["/new"]).expect_code(0);
    assert!(new.out.contains("a new conversation begins"), "{new:?}");
    assert!(!is_alive(pids(&home.file("pids"))[0]), "its command goes on");
    assert_eq!(home.json(&["runs", "show", &run])["outcome"], "aborted");
    assert!(!home.run(&["status"]).out.contains("interrupted"));
}

/// R61: what is asked of a run is refused beside a command, which has none.
#[test]
fn r61_a_command_takes_no_option_of_a_run() {
    let home = Home::new();
    home.put("s.json", "{}");
    let schema = home.file("s.json").display().to_string();
    for words in [&["--plan"][..], &["--stop-before", "edit"], &["--output-schema", &schema]] {
        for command in ["/undo", "/status", "/new"] {
            let refused = home.run(&[&["agent"], words, &["-m", command]].concat()).expect_code(2);
            let expected = format!("{} is for messages, and {command} is a command", words[0]);
            assert!(refused.err.contains(&expected) && refused.out.is_empty(), "{refused:?}");
        }
    }
}

/// R22: a session may be called like the beginning of a run.
#[test]
fn r22_a_session_with_a_name_of_hexadecimal_digits_is_found_by_it() {
    let home = Home::new();
    home.run(&["agent", "--session", "face", "-m", "Hi"]).expect_code(0);
    let run = home.json(&["runs", "show", "--session", "face"])["run"].as_str().expect("an id").to_owned();
    assert_eq!(home.json(&["runs", "show", "face"])["run"], run.as_str());
    assert_eq!(home.json(&["runs", "show", &run[..8]])["run"], run.as_str());
    let unknown = home.run(&["runs", "show", "0bad"]).expect_code(4);
    assert!(unknown.err.contains("there is no run"), "{unknown:?}");
}

fn goes_on(run: &str) -> String {
    format!("`limulus runs resume {run}` goes on with it, `limulus runs abort {run}` ends the run")
}

/// R16: a breakpoint that a command has set stops a run that a command resumes, with the same exit code.
#[test]
fn r16_a_breakpoint_of_a_command_has_the_exit_code_of_one_of_a_message() {
    let (_server, home) = served();
    let agent = home.start(&["agent", "--yes", "-m", HOLD_AND_WRITE]);
    until("a command that holds", || pids(&home.file("pids")).len() == 1);
    agent.kill();
    home.run(&["runs", "pause"]).expect_code(0);
    home.run(&["runs", "break", "--before-tool", " write "]).expect_code(0);
    home.put("go", "");
    let resumed = home.run(&["runs", "resume"]).expect_code(6);
    assert!(resumed.err.contains("stopped before `write`, at a breakpoint"), "{}", resumed.err);
    home.run(&["runs", "resume"]).expect_code(0);
    assert!(home.file("a").exists());
}

/// R16: a message that resumes the run of its session, which then stops at its breakpoint, has that exit code; it is not lost.
#[test]
fn r16_a_conversation_that_is_continued_says_that_its_run_has_stopped() {
    let (_server, home) = served();
    killed_before_its_breakpoint(&home);
    let continued = home.run(&["-c", "--mode", "followup", "tokens=2 And then?"]).expect_code(6);
    let run = run_of(&home);
    for part in ["limulus: stopped before `write`, at a breakpoint; the agent wants: Write a", &goes_on(&run)] {
        assert!(continued.err.contains(part), "{part}: {}", continued.err);
    }
    assert!(continued.err.contains("the message is recorded and follows"), "{}", continued.err);
    home.run(&["runs", "resume"]).expect_code(0);
    let runs = home.json(&["runs", "list"]);
    let outcomes: Vec<&Value> = runs.as_array().expect("a list").iter().map(|run| &run["outcome"]).collect();
    assert_eq!(outcomes, ["completed", "completed"], "{runs}");
}

/// R16: `resume` says of a paused run that it is paused, where, and what goes on with it; it is not finished.
#[test]
pub(crate) fn r16_a_paused_run_is_no_unfinished_work_that_resume_hides() {
    let (_server, home) = served();
    let run = stopped(&home);
    for words in [&["resume"][..], &["resume", "main"]] {
        let resumed = home.run(words).expect_code(6);
        let says = format!("run {run} of agent:main:main is paused (stopped before `write`, at a breakpoint");
        assert!(resumed.err.contains(&says) && resumed.err.contains(&goes_on(&run)), "{}", resumed.err);
        assert!(!resumed.err.contains("nothing is unfinished"), "{}", resumed.err);
    }
    home.run(&["runs", "abort"]).expect_code(0);
    home.run(&["resume"]).expect_code(0).expect_err("nothing is unfinished");
}

/// R22: who watches a paused run, or waits for it, sees what it waits for, and the command that goes on with it.
#[test]
pub(crate) fn r22_who_waits_for_a_paused_run_is_told_how_it_goes_on() {
    let (_server, home) = served();
    let run = stopped(&home);
    let watch = home.start(&["runs", "watch"]);
    let wait = home.start(&["runs", "wait", "--json"]);
    for waits in [&watch, &wait] {
        waits.until_err(&format!("limulus runs resume {run}"));
    }
    home.run(&["runs", "resume"]).expect_code(0);
    let watched = watch.finish().expect_code(0);
    assert!(!watched.err.contains("`limulus resume"), "{}", watched.err);
    let waited = wait.finish().expect_code(0);
    assert_eq!(line(&waited.err)["run"], run.as_str(), "{}", waited.err);
}

/// The line of JSON that says what a command waits for.
fn line(err: &str) -> Value {
    let lines = err.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.into_iter().find(|line| line["kind"] == "waits").expect("a line of JSON")
}

/// R22: a message behind a paused run says on stderr what it waits for and how that goes on.
#[test]
pub(crate) fn r22_a_message_behind_a_paused_run_says_what_it_waits_for() {
    let (_server, home) = served();
    let run = stopped(&home);
    let text = home.start(&["agent", "-m", "tokens=2 First"]);
    text.until_err(&format!("run {run} of agent:main:main is paused (stopped before `write`, at a breakpoint"));
    text.until_err(&goes_on(&run));
    let json = home.start(&["--json", "tokens=2 Second"]);
    json.until_err(&run);
    let sent = home.json(&["send", "tokens=2 Third"]);
    assert_eq!(sent["paused"], run.as_str(), "{sent}");
    home.run(&["runs", "abort", &run]).expect_code(0);
    text.finish().expect_code(0);
    let json = json.finish().expect_code(0);
    let waits = line(&json.err);
    assert_eq!((&waits["run"], &waits["session"]), (&Value::from(run.as_str()), &"agent:main:main".into()), "{waits}");
    assert!(waits["message"].as_str().is_some_and(|text| text.contains("is paused")), "{waits}");
    assert_eq!(waits["hint"], goes_on(&run), "{waits}");
}

/// R61: the exit code of a run whose answer does not fit its schema is the same, whoever follows it to its end.
#[test]
fn r61_an_answer_that_does_not_fit_has_the_same_exit_code_whoever_follows() {
    let (_server, home) = served();
    home.put("schema.json", r#"{"type":"object"}"#);
    let schema = home.file("schema.json").display().to_string();
    let text = "exec: echo $$ >> pids; until test -e go; do sleep 0.02; done\nsay:nothing";
    let agent = home.start(&["agent", "--yes", "--output-schema", &schema, "-m", text]);
    until("a command that holds", || pids(&home.file("pids")).len() == 1);
    agent.kill();
    let watch = home.start(&["runs", "watch"]);
    watch.until_err("waiting for an owner");
    home.put("go", "");
    for ended in [home.run(&["resume"]), watch.finish(), home.run(&["runs", "wait"]), home.run(&["runs", "watch"])] {
        ended.expect_code(7).expect_err("the answer does not fit the schema of --output-schema");
    }
}
