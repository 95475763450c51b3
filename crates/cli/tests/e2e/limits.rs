//! The limits of a run and of a call.

use model_server::ModelServer;

use crate::support::{Home, is_alive, pids};

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
            let ran = pids(&home.file("pids"));
            let left: Vec<&u32> = ran.iter().filter(|pid| is_alive(**pid)).collect();
            assert!(left.is_empty(), "{command}: {left:?}");
            home.assert_usable("main");
            !ran.is_empty()
        });
    }
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
    assert_eq!(messages, [2, 4, 6, 9, 11, 13], "the note is one message more from the fourth request on");
    let context = home.json(&["sessions", "context"]);
    let notes = context["parts"].as_array().expect("parts").iter().filter(|part| part["what"] == "note").count();
    assert_eq!(notes, 1, "{context}");
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
