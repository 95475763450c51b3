//! Background commands: they outlive their call, their run and `kill -9`, and belong to their session.

use model_server::ModelServer;
use serde_json::Value;

use crate::support::{Home, Terminal, is_alive, pids, until};

/// Prints that it is ready, and echoes its input.
const SERVER: &str = "echo ready; echo $$ >> pids; while read line; do echo \\\"got $line\\\"; done; echo over";

fn call(tool: &str, arguments: &str) -> String {
    format!("call:{tool} {arguments}\ntokens=2")
}

fn serve() -> String {
    call("exec", &format!("{{\"command\": \"{SERVER}\", \"background\": true}}"))
}

fn processes(home: &Home) -> Vec<Value> {
    home.json(&["sessions", "show"])["processes"].as_array().cloned().unwrap_or_default()
}

/// Lets the model call `process`. Returns the result that it received.
fn process(home: &Home, arguments: &str) -> String {
    home.run(&["agent", "--yes", "-m", &call("process", arguments)]).expect_code(0);
    let shown = home.json(&["sessions", "show"]);
    let items = shown["transcript"].as_array().expect("a list");
    let result = items.iter().rev().find(|item| item["role"] == "tool").expect("a result");
    result["text"].as_str().expect("a text").to_owned()
}

#[test]
pub(crate) fn r11_r13_a_command_in_the_background_outlives_a_kill_and_is_polled_written_to_and_ended() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    // Kill the owner while the next command of the same run executes.
    let message = format!("{}\ncall:exec {{\"command\": \"sleep 1000\"}}", serve());
    let agent = home.start(&["agent", "--yes", "-m", &message]);
    until("the command runs", || !home.text("pids").is_empty());
    until("the session owns the process", || !processes(&home).is_empty());
    let pid = pids(&home.file("pids"))[0];
    agent.kill();
    assert!(is_alive(pid), "it continues without limulus");
    let held = processes(&home);
    assert_eq!((held.len(), &held[0]["state"]), (1, &"running".into()));
    assert!(held[0]["command"].as_str().is_some_and(|command| command.starts_with("echo ready")), "{held:?}");
    let day = held[0]["until"].as_i64().zip(held[0]["started_at"].as_i64()).map(|(until, from)| until - from);
    assert_eq!(day, Some(24 * 3_600_000));

    home.run(&["runs", "abort"]).expect_code(0);
    assert!(is_alive(pid), "an abort ends the calls of its run, not what the session holds");
    let id = held[0]["id"].as_str().expect("an id").to_owned();
    assert!(process(&home, "{\"action\": \"list\"}").starts_with(&format!("{id} [running for ")));
    let polled =
        process(&home, &format!("{{\"action\": \"poll\", \"id\": \"{id}\", \"offset\": 0, \"wait_ms\": 60000}}"));
    assert_eq!(polled, "ready\n[running; continue with offset=6]\n");
    process(&home, &format!("{{\"action\": \"write\", \"id\": \"{id}\", \"text\": \"hello\\n\"}}"));
    let poll = format!("{{\"action\": \"poll\", \"id\": \"{id}\", \"offset\": 6, \"wait_ms\": 60000}}");
    assert!(process(&home, &poll).starts_with("got hello\n"));
    let text = home.run(&["sessions", "show"]).expect_code(0).out;
    assert!(text.contains("in the background") && text.contains(&format!("{id} running, since ")), "{text}");

    let ended = process(&home, &format!("{{\"action\": \"end\", \"id\": \"{id}\"}}"));
    assert!(ended.contains("has ended"), "{ended}");
    assert!(!is_alive(pid));
    let held = &processes(&home)[0];
    assert_eq!((&held["state"], &held["outcome"]), (&"ended".into(), &"failed".into()));
    assert_eq!(server.violations(), [""; 0]);
}

/// R13: readers see at once that a process ended without an owner; the next owner records it, and it is no orphan.
#[test]
fn r13_a_process_that_ends_without_an_owner_is_shown_as_ended() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let message = "{\"command\": \"until [ -e go ]; do sleep 0.02; done; exit 3\", \"background\": true}";
    home.run(&["agent", "--yes", "-m", &call("exec", message)]).expect_code(0);
    assert_eq!(processes(&home)[0]["state"], "running");
    home.put("go", "");
    until("it has ended", || processes(&home)[0]["state"] == "ended");
    assert_eq!(processes(&home)[0]["how"], "exit status 3");
    let doctor = home.run(&["doctor"]).expect_code(0);
    assert!(!doctor.out.contains("no run waits for"), "{doctor:?}");
    home.run(&["doctor", "--repair", "collect", "--yes"]).expect_code(0);
    let listed = process(&home, "{\"action\": \"list\"}");
    assert!(listed.contains("[ended: exit status 3]"), "{listed}");
    let audit = home.run(&["audit", "main"]).expect_code(0).out;
    assert!(audit.contains("continues in the background") && audit.contains("failed: exit status 3"), "{audit}");
}

/// R11: a command that a run leaves in the background is named when `agent` ends, in `status`, and where its folder is
/// looked at or restored; what it changes is recorded when it ends.
#[test]
pub(crate) fn r11_r17_a_command_that_still_works_is_named() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    home.put("notes", "before\n");
    let command = "until [ -e go ]; do sleep 0.02; done; echo later > later";
    let background = format!("call:exec {{\"command\": \"{command}\", \"background\": true}}");
    let message = format!("{}\n{background}", call("exec", "{\"command\": \"echo changed > notes\"}"));
    let ended = home.run(&["agent", "--yes", "--json", "-m", &message]).expect_code(0);
    let still = ended.lines().pop().expect("a last line");
    assert_eq!((&still["type"], &still["session"]), (&"still_running".into(), &"agent:main:main".into()), "{still}");
    assert_eq!(still["commands"][0]["command"], command);
    let (said, recorded) = ("until [ -e go ]", "what it changes is recorded when it ends");

    let status = home.json(&["status"]);
    assert_eq!(status["background"][0]["command"], command, "{status}");
    let status = home.run(&["status"]).expect_code(0).out;
    assert!(status.contains("  still running in main: ") && status.contains(said), "{status}");
    for words in [["diff"].as_slice(), &["undo", "--dry-run"]] {
        let shown = home.run(words);
        let text = shown.out.clone() + &shown.err;
        assert!(text.contains("still running in this folder: ") && text.contains(recorded), "{shown:?}");
    }
    if Terminal::is_there() {
        let terminal = Terminal::run(&home, &["agent", "-m", "Who are you?"]);
        let screen = terminal.until("exit=0");
        let line = screen.lines().find(|line| line.contains("still running: ")).expect("a line of it");
        assert!(line.contains(said) && line.contains("ago) · limulus sessions show main"), "{screen}");
    }

    home.put("go", "");
    until("it has ended", || home.json(&["status"])["background"].is_null());
    // It ended while nobody owned the home: `diff` has it recorded first.
    let diff = home.run(&["diff"]).expect_code(0).out;
    assert!(diff.contains("+++ b/later") && !diff.contains("still running"), "{diff}");
    assert_eq!(home.run(&["agent", "--json", "-m", "Who are you?"]).lines().pop().expect("a line")["type"], "end");
}

/// A home with a background command that has written a file after its owner left.
fn left_behind(server: &ModelServer) -> Home {
    let home = Home::new().served_by(server);
    let command = "until [ -e ../go ]; do sleep 0.02; done; echo later > later; rm notes";
    home.run(&["agent", "-m", &call("write", "{\"path\": \"notes\", \"content\": \"before\"}")]).expect_code(0);
    let background = call("exec", &format!("{{\"command\": \"{command}\", \"background\": true}}"));
    home.run(&["agent", "--yes", "-m", &background]).expect_code(0);
    home.put("../go", "");
    until("it has ended", || home.json(&["status"])["background"].is_null());
    home
}

/// R17: what a command changed after the last owner had left is recorded before it is taken back, and by `resume`.
#[test]
fn r11_r17_what_a_command_changed_while_nobody_owned_the_home_is_recorded() {
    let server = ModelServer::start().unwrap();
    let home = left_behind(&server);
    let undone = home.run(&["undo"]).expect_code(0).out;
    assert!(undone.contains("remove  later") && undone.contains("create  notes"), "{undone}");
    assert!(home.file("notes").exists() && !home.file("later").exists());

    let home = left_behind(&server);
    let recorded = "a background command of main has ended and is recorded; `limulus diff --session main` shows";
    let resumed = home.run(&["resume"]).expect_code(0);
    assert!(resumed.err.contains(recorded), "{resumed:?}");
    let resumed = home.run(&["resume"]).expect_code(0);
    assert!(!resumed.err.contains("is recorded") && resumed.err.contains("nothing is unfinished"), "{resumed:?}");
    let listed = std::fs::read_dir(home.path().join("calls")).expect("a folder").flatten();
    let listings: Vec<_> =
        listed.filter(|entry| entry.path().extension().is_some_and(|kind| kind == "before")).collect();
    assert!(listings.is_empty(), "a listing is kept for nobody: {listings:?}");
    let changes = home.json(&["diff"]);
    let paths: Vec<_> = changes["files"].as_array().expect("a list").iter().map(|file| &file["path"]).collect();
    assert_eq!(paths, ["later", "notes"], "{changes}");
}

/// R11: a service waits for the ends of commands that an earlier owner left behind.
#[test]
fn r11_r17_a_service_records_what_an_earlier_owner_left_behind() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let command = "until [ -e ../go ]; do sleep 0.02; done; echo later > later";
    let background = call("exec", &format!("{{\"command\": \"{command}\", \"background\": true}}"));
    home.run(&["agent", "--yes", "-m", &background]).expect_code(0);
    let service = home.start(&["serve"]);
    service.until_err("serving");
    home.put("../go", "");
    until("the record", || home.run(&["audit", "main"]).expect_code(0).out.contains("done: exit status 0"));
    service.kill();
}

#[test]
pub(crate) fn r20_r34_a_session_that_is_ended_takes_its_run_and_its_processes_with_it() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let message = format!("{}\ncall:exec {{\"command\": \"echo $$ >> pids; sleep 1000\"}}", serve());
    let agent = home.start(&["agent", "--yes", "-m", &message]);
    until("both commands run", || pids(&home.file("pids")).len() == 2);
    agent.kill();
    let both = pids(&home.file("pids"));
    assert!(both.iter().all(|pid| is_alive(*pid)), "they continue without limulus");

    let ended = home.run(&["sessions", "end", "main", "--json"]).expect_code(0).expect_err("ended permanently");
    let last = ended.lines().into_iter().rfind(|line| line["type"] == "lifecycle").expect("it has ended");
    assert_eq!((&last["to"], &last["cause"]), (&"terminated".into(), &"terminate".into()));
    assert!(!both.iter().any(|pid| is_alive(*pid)), "{ended:?}");
    let shown = home.json(&["sessions", "show"]);
    let process = &shown["processes"][0];
    assert_eq!((&shown["lifecycle"], &process["state"]), (&"terminated".into(), &"ended".into()), "{shown}");
    assert_eq!(home.json(&["runs", "show"])["outcome"], "aborted");

    let refused = home.run(&["agent", "-m", "Who are you?"]).expect_code(3);
    let verdict = refused.verdict();
    assert!(verdict.contains("it was terminated") && verdict.contains("another session key"), "{verdict}");
    home.run(&["sessions", "end", "main"]).expect_code(0);
    home.run(&["resume"]).expect_code(0).expect_err("nothing is unfinished");
    home.run(&["sessions", "end", "none"]).expect_code(4).expect_err("limulus sessions list");
    assert_eq!(home.json(&["sessions", "list"]).as_array().map(Vec::len), Some(1), "none was made to be ended");
    home.run(&["audit", "main", "--verify"]).expect_code(0);
}

/// A command that kills the process that ends its session, and continues until it is killed itself.
const AVENGER: &str = "trap 'read owner < owner; kill -9 $owner' TERM; echo $$ >> pids; while :; do sleep 0.02; done";

/// Kills `sessions end` while it ends a process. On a slow machine the process dies before it kills; then the next
/// session is tried.
fn killed_while_it_ends(home: &Home) -> String {
    for number in 0..20 {
        let session = format!("s{number}");
        let background = call("exec", &format!("{{\"command\": \"{AVENGER}\", \"background\": true}}"));
        home.run(&["agent", "--session", &session, "--yes", "-m", &background]).expect_code(0);
        until("the process runs", || pids(&home.file("pids")).len() == number + 1);
        let end = home.shell(&format!("echo $$ > owner; exec \"$LIMULUS\" sessions end {session}"));
        if end.code.is_none() {
            return session;
        }
        end.expect_code(0);
    }
    panic!("each process was killed before it could kill");
}

/// R20, R11: the next owner carries out a recorded request.
#[test]
fn r11_r20_a_killed_end_of_a_session_is_resumed() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let session = killed_while_it_ends(&home);
    let unfinished = &home.json(&["status"])["unfinished"];
    let key = format!("agent:main:{session}");
    assert_eq!((&unfinished[0]["key"], &unfinished[0]["lifecycle"]), (&key.into(), &"terminated".into()));
    let waits = unfinished[0]["waits_for"].as_str().expect("a text");
    assert!(waits.contains("limulus resume") && waits.contains("background processes"), "{waits}");

    home.run(&["resume"]).expect_code(0);
    assert!(!pids(&home.file("pids")).into_iter().any(is_alive));
    assert_eq!(home.json(&["sessions", "show", &session])["processes"][0]["state"], "ended");
    assert_eq!(home.json(&["status"])["unfinished"], serde_json::json!([]));
    home.run(&["resume"]).expect_code(0).expect_err("nothing is unfinished");
}
