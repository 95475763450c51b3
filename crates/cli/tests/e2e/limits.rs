//! The limits of a run and of a call.

use crate::support::{Home, is_alive, pids};

#[test]
fn r49_a_run_past_its_limit_ends_with_its_text_kept() {
    let home = Home::new().paced(150);
    let ended = home.run(&["agent", "--timeout", "1", "-m", "Who are you?"]).expect_code(124);
    assert!(ended.verdict().contains("limit"), "{ended:?}");
    let run = home.json(&["runs", "show"]);
    assert_eq!(run["outcome"], "timed_out");
    assert!(run["text"].as_str().is_some_and(|text| text.starts_with("I am")), "{run}");
    assert_eq!(ended.out.trim(), run["text"].as_str().unwrap_or_default().trim());
    home.paced(0).assert_usable("main");
}

#[test]
fn r15_the_limit_of_a_run_ends_its_command() {
    let home = Home::new();
    home.run(&["agent", "--timeout", "1", "--yes", "-m", "run `echo $$ >> pids; sleep 300`"]).expect_code(124);
    assert!(!is_alive(pids(&home.file("pids"))[0]));
    home.assert_usable("main");
}

/// A command that hangs, one that ignores SIGTERM, one that forks away and hangs: each is ended at the limit of a call,
/// the model is told, the run completes.
#[test]
fn r15_r49_a_call_past_its_limit_is_ended_whatever_it_does() {
    let home = Home::new().with("LIMULUS_TOOLS__CALL_S", "1");
    let hanging = [
        "echo $$ >> pids; sleep 300",
        "trap '' TERM; echo $$ >> pids; while :; do sleep 0.05; done",
        "setsid sh -c 'echo $$ >> pids; exec sleep 300' & echo $$ >> pids; sleep 300",
    ];
    for (index, command) in hanging.iter().enumerate() {
        let message = format!("run `{command}`");
        let answer = home.run(&["agent", "--yes", "-m", &message]).expect_code(0);
        assert!(answer.err.contains("timed_out"), "{command}: {answer:?}");
        assert!(answer.out.contains("1 s"), "the model is told which limit: {answer:?}");
        let left: Vec<u32> = pids(&home.file("pids")).into_iter().filter(|pid| is_alive(*pid)).collect();
        assert!(left.is_empty(), "{command}: {left:?}");
        assert!(pids(&home.file("pids")).len() > index, "{command} ran");
    }
    home.assert_usable("main");
}

/// What a command leaves in the background when it ends is ended with it.
#[test]
fn r15_a_command_leaves_nothing_behind() {
    let home = Home::new();
    let daemon = "run `setsid sh -c 'echo $$ >> pids; exec sleep 300' & until test -s pids; do sleep 0.01; done`";
    home.run(&["agent", "--yes", "-m", daemon]).expect_code(0);
    let pids = pids(&home.file("pids"));
    assert!(pids.len() == 1 && !is_alive(pids[0]), "{pids:?}");
    home.assert_usable("main");
}

/// The supervisor and limulus hold a bounded part of what a command prints, in memory and on disk.
#[test]
fn r45_a_command_may_print_a_gigabyte() {
    let home = Home::new();
    let flood = "run `yes limulus | head -c 1000000000`";
    let script = format!("ulimit -v 600000; exec \"$LIMULUS\" agent --yes -m '{flood}'");
    let answer = home.shell(&script).expect_code(0);
    assert!(answer.out.contains("limulus") && answer.out.len() < 10_000, "{}", answer.out.len());
    let size = crate::support::size_of(&home.path());
    assert!(size < 20 << 20, "{size} bytes in the home");
    home.assert_usable("main");
}
