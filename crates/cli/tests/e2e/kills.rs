//! `kill -9`, and how the next process resumes.

use model_server::ModelServer;

use crate::support::{Does, Home, Planned, is_alive, pids, said, until, whole};

/// A command that writes its pid, then lines; between the second and the third it waits for a file.
const COUNT: &str =
    "echo $$ >> pids; for i in 1 2 3 4 5; do echo $i >> ledger; until [ $i != 2 -o -e go ]; do sleep 0.02; done; done";
const COUNTED: &str = "1\n2\n3\n4\n5\n";

/// Twelve words, of which the first three come in the first answer to a message, and then nothing.
const STALLED: &str = "stall=3x1 tokens=12";
const WHOLE: &str = "word0 word1 word2 word3 word4 word5 word6 word7 word8 word9 word10 word11";

/// Starts the count in this session and kills limulus after the second line.
fn kill_in_the_count(home: &Home, session: &str) {
    kill_in_the_count_of(home, session, &format!("run `{COUNT}`"));
}

fn kill_in_the_count_of(home: &Home, session: &str, message: &str) {
    let agent = home.start(&["agent", "--session", session, "--yes", "-m", message]);
    until("two lines of the count", || home.text("ledger").lines().count() >= 2);
    agent.kill();
}

/// Starts an answer in this session and kills limulus after a few words. Returns the received text.
fn kill_in_an_answer(home: &Home, session: &str) -> String {
    let agent = home.start(&["agent", "--session", session, "--json", "-m", &format!("{STALLED} {session}")]);
    let seen = agent.until_said("word2");
    agent.kill();
    seen
}

fn run_of(home: &Home, session: &str) -> serde_json::Value {
    home.json(&["runs", "show", "--session", session])
}

#[test]
fn r11_r13_a_command_that_was_running_is_attached_to_and_not_run_again() {
    let home = Home::new();
    kill_in_the_count(&home, "main");
    assert!(is_alive(pids(&home.file("pids"))[0]), "the command continues without limulus");
    let resuming = home.start(&["resume"]);
    resuming.until_err("found: running");
    home.put("go", "");
    let resumed = resuming.finish().expect_code(0);
    assert!(resumed.out.contains("exit status 0"), "{resumed:?}");
    assert_eq!(home.text("ledger"), COUNTED);
    let calls = &run_of(&home, "main")["steps"][0]["calls"];
    assert_eq!((calls.as_array().map(Vec::len), &calls[0]["outcome"]), (Some(1), &"done".into()));
}

#[test]
fn r13_a_command_that_ended_meanwhile_is_not_run_again() {
    let home = Home::new();
    kill_in_the_count(&home, "main");
    home.put("go", "");
    // The end of its process alone is not enough: its supervisor notices and records it later.
    until("the record of its end", || home.exit_records() == 1);
    let resumed = home.run(&["resume"]).expect_code(0);
    assert!(resumed.err.contains("found: ended"), "{resumed:?}");
    assert_eq!(home.text("ledger"), COUNTED);
}

#[test]
fn r12_an_interrupted_answer_is_kept_and_the_complete_one_is_printed_once() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let seen = kill_in_an_answer(&home, "main");
    let kept = run_of(&home, "main");
    assert!(kept["open_text"].as_str().is_some_and(|text| text.starts_with(&seen)), "{kept}");
    let resumed = home.run(&["resume"]).expect_code(0);
    assert_eq!(resumed.out.trim(), WHOLE);
    assert_eq!(run_of(&home, "main")["text"], WHOLE);
}

#[test]
fn r12_continue_resumes_from_the_kept_text() {
    // The offline model continues where it was interrupted. Its next piece comes much later.
    let home = Home::new().paced(2000).with("LIMULUS_RUNS__RESUME", "continue");
    let agent = home.start(&["agent", "--json", "-m", "Who are you?"]);
    let seen = agent.until_text(1);
    agent.kill();
    let home = home.paced(0);
    home.run(&["resume"]).expect_code(0);
    let text = run_of(&home, "main")["text"].as_str().map(str::to_owned).expect("a text");
    assert!(text.starts_with(&seen) && text.matches("offline model").count() == 1, "{text}");
}

#[test]
fn r10_r11_a_run_that_is_killed_twice_in_a_row_is_resumed_twice() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    // The request for the call says no word and cannot stall; the one after it does.
    kill_in_the_count_of(&home, "main", &format!("exec:{COUNT}\nstall=1x2 tokens=4"));
    let resuming = home.start(&["resume", "--json"]);
    resuming.until_line("the look-up of the call", |line| line["type"] == "found");
    resuming.kill();
    home.put("go", "");
    let resuming = home.start(&["resume", "--json"]);
    resuming.until_said("word0");
    resuming.kill();
    home.run(&["resume"]).expect_code(0);
    assert_eq!(home.text("ledger"), COUNTED);
    let run = run_of(&home, "main");
    assert_eq!(run["outcome"], "completed");
    let trace = home.run(&["runs", "trace"]).expect_code(0).out;
    assert_eq!(trace.matches(" opened ").count(), 3, "{trace}");
}

#[test]
fn r11_agent_resumes_its_own_unfinished_run_first() {
    let home = Home::new();
    kill_in_the_count(&home, "main");
    home.put("go", "");
    let answer = home.run(&["agent", "--yes", "--mode", "followup", "-m", "run `echo next >> ledger`"]).expect_code(0);
    assert_eq!(home.text("ledger"), format!("{COUNTED}next\n"));
    let first = answer.out.find("exit status 0").expect("the answer of the interrupted run");
    assert!(answer.out[first..].contains("echo next"), "then that of the message: {answer:?}");
    assert_eq!(home.json(&["runs", "list"]).as_array().map(Vec::len), Some(2));
}

#[test]
fn r11_other_sessions_runs_stay_for_resume_and_are_counted() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    for session in ["a", "b"] {
        kill_in_an_answer(&home, session);
    }
    let answer = home.run(&["agent", "--session", "c", "-m", "Who are you?"]).expect_code(0);
    let notes: Vec<&str> = answer.err.lines().filter(|line| line.contains("unfinished")).collect();
    assert!(matches!(&notes[..], [line] if line.contains('2') && line.contains("limulus resume")), "{notes:?}");
    assert_eq!(run_of(&home, "a")["outcome"], serde_json::Value::Null);

    home.run(&["resume", "b"]).expect_code(0);
    assert_eq!(run_of(&home, "b")["outcome"], "completed");
    assert_eq!(run_of(&home, "a")["outcome"], serde_json::Value::Null);
    home.run(&["resume"]).expect_code(0);
    assert_eq!(run_of(&home, "a")["outcome"], "completed");
}

#[test]
fn r11_resume_reports_that_no_run_is_unfinished() {
    let home = Home::new();
    home.run(&["resume"]).expect_code(4).expect_err("limulus agent -m");
    home.assert_usable("main");
    let resumed = home.run(&["resume"]).expect_code(0).expect_err("nothing is unfinished");
    assert_eq!(resumed.out, "");
    home.run(&["resume", "main"]).expect_code(0).expect_err("nothing is unfinished");
    home.run(&["resume", "other"]).expect_code(4).expect_err("limulus sessions list");
}

/// A run without progress is not retried forever, and does not affect anything else.
#[test]
fn r11_a_poison_run_waits_until_a_human_resumes_it() {
    // The first byte is far away.
    let slow = Home::new().paced(60_000);
    let agent = slow.start(&["agent", "--session", "bad", "--json", "-m", "Who are you?"]);
    agent.until_line("the request", |line| line["state"] == "preparing" && line["flags"]["isWaiting"] == true);
    agent.kill();
    for _ in 0..2 {
        let resuming = slow.start(&["resume", "bad", "--json"]);
        // Its state is reported before it is resumed.
        resuming.until_line("the opening", |line| line["stream"] == "lifecycle" && line["type"] == "opened");
        resuming.kill();
    }
    let home = slow.paced(0);
    let held = home.run(&["resume"]).expect_code(3);
    let remedy = "limulus resume agent:main:bad --force";
    assert!(held.verdict().contains(remedy) && held.err.contains("3 times"), "{held:?}");

    let again = home.run(&["resume"]).expect_code(3);
    assert!(again.verdict().contains("3 times"), "it says why each time: {again:?}");
    // The session reports it and refuses messages; other sessions are not affected.
    let refused = home.run(&["agent", "--session", "bad", "-m", "Who are you?"]).expect_code(3);
    assert!(refused.verdict().contains("--force"), "{refused:?}");
    home.assert_usable("good");
    home.run(&["resume", "bad", "--force"]).expect_code(0);
    assert_eq!(run_of(&home, "bad")["outcome"], "completed");
    home.assert_usable("bad");
}

/// The same in a service beside other sessions: only the session that causes the kills needs a human, and every
/// interface reports that.
#[test]
fn r11_a_poison_run_waits_and_the_other_sessions_of_its_home_continue() {
    let server = Planned::start(|number, asked| {
        let body = asked.body.to_string();
        match () {
            // Each owner that sends this is killed, until a human resumes the session with --force.
            () if body.contains("Bring it down.") && number < 4 => Does::Hold(String::new()),
            () if body.contains("Be cut once.") && number < 4 => Does::Hold(said(&["So "])),
            () => Does::Answer(whole(&["So it is."])),
        }
    });
    let home = Home::new().served_at(&server.base_url);
    let serve = |requests: usize| {
        let owner = home.start(&["serve"]);
        owner.until_err("serving");
        server.until_asked(requests);
        owner
    };
    let first = home.start(&["serve"]);
    first.until_err("serving");
    home.run(&["send", "--session", "bad", "Bring it down."]).expect_code(0);
    server.until_asked(1);
    first.kill();
    serve(2).kill();
    let third = serve(3);
    home.run(&["send", "--session", "good", "Be cut once."]).expect_code(0);
    server.until_asked(4);
    third.kill();

    // At the third opening the first session needs a human, the other continues, and a new one is answered.
    let owner = serve(5);
    home.run(&["runs", "wait", "--session", "good"]).expect_code(0);
    assert_eq!(run_of(&home, "good")["text"], "So it is.");
    home.assert_usable("new");
    let shown = home.json(&["sessions", "show", "bad"]);
    assert_eq!(shown["lifecycle"], "error", "{shown}");
    let refused = home.run(&["agent", "--session", "bad", "-m", "And now?"]).expect_code(3);
    assert!(refused.verdict().contains("--force"), "{refused:?}");
    let held = home.run(&["resume", "bad"]).expect_code(3);
    let remedy = "limulus resume agent:main:bad --force";
    assert!(held.verdict().contains(remedy) && held.err.contains("3 times"), "{held:?}");
    let bad = |server: &Planned| server.seen().iter().filter(|asked| asked.body.to_string().contains("Bring")).count();
    assert_eq!(bad(&server), 3, "it needs a human: it is not sent a fourth time");

    home.run(&["resume", "bad", "--force"]).expect_code(0);
    assert_eq!(run_of(&home, "bad")["text"], "So it is.");
    assert_eq!(bad(&server), 4);
    home.assert_usable("bad");
    drop(owner);
}
