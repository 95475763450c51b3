//! The limits of a run and of a call.

use std::fs;

use model_server::ModelServer;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Home, is_alive, pids, until};

/// Limits in seconds, from one that usually lets the ended work start to one that does on any machine.
const LIMITS: [&str; 3] = ["1", "8", "40"];

/// Tries one limit after the other until the work has started before its end.
fn at_a_limit(what: &str, begins_within: impl FnMut(&str) -> bool) {
    assert!(LIMITS.into_iter().any(begins_within), "{what} never began within {LIMITS:?} s");
}

#[test]
pub(crate) fn r49_a_run_past_its_limit_ends_with_its_text_kept() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    at_a_limit("the answer", |limit| {
        let ended = home.run(&["agent", "--timeout", limit, "-m", "stall=2x9 tokens=12"]).expect_code(124);
        assert!(ended.verdict().contains("limit"), "{ended:?}");
        let run = home.json(&["runs", "show"]);
        assert_eq!(run["outcome"], "timed_out");
        assert_eq!(ended.out.trim(), run["text"].as_str().unwrap_or_default().trim());
        run["text"].as_str().is_some_and(|text| text.starts_with("word0"))
    });
    home.assert_usable("main");
}

#[test]
pub(crate) fn r15_the_limit_of_a_run_ends_its_command() {
    let home = Home::new();
    at_a_limit("the command", |limit| {
        home.run(&["agent", "--timeout", limit, "--yes", "-m", "run `echo $$ >> pids; sleep 300`"]).expect_code(124);
        let pids = pids(&home.file("pids"));
        assert!(!pids.iter().any(|pid| is_alive(*pid)), "{pids:?}");
        !pids.is_empty()
    });
    home.assert_usable("main");
}

/// A command hangs, ignores SIGTERM, or forks away and hangs: each is ended at the limit of a call, the model receives
/// that, and the run completes.
#[test]
pub(crate) fn r15_r49_a_call_past_its_limit_is_ended_whatever_it_does() {
    let hanging = [
        "echo $$ >> pids; sleep 300",
        "trap '' TERM; echo $$ >> pids; while :; do sleep 0.05; done",
        "setsid sh -c 'echo $$ >> pids; exec sleep 300' & echo $$ >> pids; sleep 300",
    ];
    for command in hanging {
        at_a_limit(command, |limit| {
            let home = Home::new().with("LIMULUS_TOOLS__TIMEOUT_S", limit);
            let answer = home.run(&["agent", "--yes", "-m", &format!("run `{command}`")]).expect_code(0);
            assert!(answer.err.contains("timed_out"), "{command}: {answer:?}");
            assert!(answer.out.contains(&format!("{limit} s")), "the model receives the limit: {answer:?}");
            for receives in [&answer.out, &answer.err] {
                assert!(receives.contains("tools.timeout_s"), "it is said which key sets it: {answer:?}");
            }
            let ran = pids(&home.file("pids"));
            let left: Vec<&u32> = ran.iter().filter(|pid| is_alive(**pid)).collect();
            assert!(left.is_empty(), "{command}: {left:?}");
            home.assert_usable("main");
            !ran.is_empty()
        });
    }
}

/// A command asks for a limit of its own, which is shorter than the configured one: it is ended at it, its output so far is
/// kept, and the model and the screen receive which limit that was.
#[test]
pub(crate) fn r15_r49_a_command_is_ended_at_the_limit_that_it_asked_for() {
    let server = ModelServer::start().unwrap();
    at_a_limit("the command", |limit| {
        let home = Home::new().served_by(&server);
        let arguments = format!(r#"{{"command":"echo begun; echo $$ >> pids; sleep 300","timeout_s":{limit}}}"#);
        let ended = home.run(&["agent", "--yes", "-m", &format!("call:exec {arguments}")]).expect_code(0);
        assert!(ended.err.contains("timed_out") && ended.err.contains("its own timeout_s"), "{ended:?}");
        assert!(ended.err.contains("600 s, tools.timeout_s"), "{ended:?}");
        let shown = home.json(&["sessions", "show"])["transcript"].to_string();
        assert!(shown.contains(&format!("its limit was reached: {limit} s, its own timeout_s")), "{shown}");
        let ran = pids(&home.file("pids"));
        assert!(!ran.iter().any(|pid| is_alive(*pid)), "{ran:?}");
        assert!(ran.is_empty() || shown.contains("begun"), "its output so far is kept: {shown}");
        home.assert_usable("main");
        !ran.is_empty()
    });
    // More than the most is refused before anything runs, and the model receives what it may ask for.
    let home = Home::new().served_by(&server);
    let message = r#"call:exec {"command":"echo ran > ran","timeout_s":3601}"#;
    home.run(&["agent", "--yes", "-m", message]).expect_code(0);
    let shown = home.json(&["sessions", "show"])["transcript"].to_string();
    assert!(shown.contains("timeout_s") && shown.contains("3600") && !home.file("ran").exists(), "{shown}");
}

/// Without a deadline, a run ends if nothing happens for the stall limit, and its command with it.
#[test]
pub(crate) fn r49_a_run_without_progress_ends_as_stalled() {
    at_a_limit("the command", |limit| {
        let home = Home::new().with("LIMULUS_RUNS__STALL_S", limit);
        let ended = home.run(&["agent", "--yes", "-m", "run `echo $$ >> pids; sleep 300`"]).expect_code(124);
        assert!(ended.verdict().contains(&format!("no progress for {limit} s (`runs.stall_s`)")), "{ended:?}");
        let run = home.json(&["runs", "show"]);
        assert_eq!((&run["outcome"], &run["meta"]["stop_reason"]), (&"stalled".into(), &"stalled".into()), "{run}");
        let waited = home.run(&["runs", "wait"]).expect_code(124);
        assert!(waited.verdict().contains("runs.stall_s"), "{waited:?}");
        let ran = pids(&home.file("pids"));
        assert!(!ran.iter().any(|pid| is_alive(*pid)), "{ran:?}");
        home.assert_usable("main");
        !ran.is_empty()
    });
}

/// The supervisor of a command is killed while the owner lives: the command ends with all that it started, the model
/// receives "interrupted" with the output so far, and the run goes on.
#[test]
pub(crate) fn r13_r15_a_killed_supervisor_ends_its_command_and_the_result_has_the_output_so_far() {
    let home = Home::new();
    let command = "echo begun; (setsid sh -c 'echo $$ >> pids; exec sleep 300' &); echo $$ >> pids; sleep 300";
    let agent = home.start(&["agent", "--yes", "--json", "-m", &format!("run `{command}`")]);
    until("both processes", || pids(&home.file("pids")).len() == 2);
    agent.until_line("its output", |line| line["type"] == "update" && line["text"].to_string().contains("begun"));
    let parent_of = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse::<u32>().ok())
    };
    let is_supervisor = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).starts_with("call-supervisor\0supervise\0")
    };
    let ran = pids(&home.file("pids"));
    let supervisor = ran.iter().filter_map(|pid| parent_of(*pid)).find(is_supervisor).expect("one supervises them");
    kill_process(Pid::from_raw(supervisor as i32).expect("a pid is not 0"), Signal::KILL).expect("it is there");
    agent.finish().expect_code(0);
    until("its processes have ended", || !pids(&home.file("pids")).into_iter().any(is_alive));
    let shown = home.json(&["sessions", "show"])["transcript"].to_string();
    assert!(shown.contains("begun\\n[interrupted: "), "{shown}");
    assert_eq!(home.json(&["runs", "show"])["steps"][0]["calls"][0]["outcome"], "interrupted");
    home.assert_usable("main");
}

#[test]
pub(crate) fn r52_a_run_in_a_loop_is_warned_and_then_stopped() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let stopped = home.run(&["agent", "-m", "rounds=9 tool=ls tokens=1"]).expect_code(1);
    let notice = "! the model receives: Note from limulus: your call of `ls` has had the same arguments and the same result 3 times";
    assert_eq!(stopped.err.matches(notice).count(), 1, "{stopped:?}");
    let verdict = stopped.verdict();
    assert!(verdict.contains("the same call of `ls` came with the same result 6 times"), "{verdict}");
    assert!(verdict.contains("runs.loop_stop_after"), "it says what can be done: {verdict}");
    let messages: Vec<usize> = server.seen().iter().map(|seen| seen.messages).collect();
    assert_eq!(messages, [3, 5, 7, 10, 12, 14], "the note is one message more from the fourth request on");
    let context = home.json(&["sessions", "context"]);
    let notes = context["parts"].as_array().expect("parts").iter().filter(|part| part["what"] == "note").count();
    assert_eq!(notes, 2, "this one, and the date: {context}");
    home.assert_usable("main");

    let home = home.with("LIMULUS_RUNS__LOOP_WARN_AFTER", "off").with("LIMULUS_RUNS__LOOP_STOP_AFTER", "off");
    let quiet = home.run(&["agent", "--session", "free", "-m", "rounds=9 tool=ls tokens=1"]).expect_code(0);
    assert!(quiet.out.contains("word0") && !quiet.err.contains("Note from limulus"), "{quiet:?}");
}

#[test]
pub(crate) fn r15_a_command_leaves_nothing_behind() {
    let home = Home::new();
    let daemon = "run `setsid sh -c 'echo $$ >> pids; exec sleep 300' & until test -s pids; do sleep 0.01; done`";
    home.run(&["agent", "--yes", "-m", daemon]).expect_code(0);
    let pids = pids(&home.file("pids"));
    assert!(pids.len() == 1 && !is_alive(pids[0]), "{pids:?}");
    home.assert_usable("main");
}

/// The supervisor and limulus hold a bounded part of what a command prints, in memory and on disk.
#[test]
pub(crate) fn r45_a_command_may_print_a_gigabyte() {
    let home = Home::new();
    let flood = "run `yes limulus | head -c 1000000000`";
    let script = format!("ulimit -v 600000; exec \"$LIMULUS\" agent --yes -m '{flood}'");
    let answer = home.shell(&script).expect_code(0);
    assert!(answer.out.contains("limulus") && answer.out.len() < 10_000, "{}", answer.out.len());
    let size = crate::support::size_of(&home.path());
    assert!(size < 20 << 20, "{size} bytes in the home");
    home.assert_usable("main");
}
