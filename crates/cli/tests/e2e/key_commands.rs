//! `key = "cmd:…"`: a key that a command prints reaches the provider and nothing else.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;

use crate::support::{Does, Home, Planned, is_alive, pids, until, whole};

const KEY: &str = "sk-printed-by-a-command-0123456789";

/// A home whose key is what this script prints. The script is a file of the user, not of the project.
fn home(server: &Planned, script: &str) -> Home {
    let home = Home::new().served_at(&server.base_url);
    let file = home.user().join("print key");
    fs::write(&file, format!("#!/bin/sh\necho ran >> {}/ran\n{script}\n", home.user().display())).expect("a script");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o700)).expect("its mode");
    let command = format!("cmd:'{}' acme", file.display());
    home.with("LIMULUS_PROVIDERS__ACME__PROFILES__0__KEY", &command)
}

fn runs(home: &Home) -> usize {
    fs::read_to_string(home.user().join("ran")).unwrap_or_default().lines().count()
}

#[test]
pub(crate) fn r50_a_command_prints_the_key_which_is_in_no_output_and_no_file() {
    let server = Planned::start(|_, _| Does::Answer(whole(&["The key is ", KEY, "."])));
    let home = home(&server, &format!("echo {KEY}; echo a note; echo {KEY} >&2"));
    for words in [&["models", "list"][..], &["config", "show"], &["status"], &["doctor"], &["config", "check"]] {
        let shown = home.run(words);
        assert!(!shown.out.contains(KEY) && !shown.err.contains(KEY), "{words:?}: {shown:?}");
    }
    assert_eq!(runs(&home), 0, "what only looks runs no command");
    let listed = home.run(&["models", "list"]).expect_code(0).out;
    assert!(listed.contains("? cmd:'") && listed.contains("print key' acme"), "{listed}");
    let answered = home.run(&["agent", "-m", "Hi"]).expect_code(0);
    assert_eq!(answered.out, "The key is [secret].\n");
    assert_eq!(server.asked(), [format!("scripted {KEY}")]);
    assert!(runs(&home) > 0);
    let trace = home.run(&["runs", "trace"]).expect_code(0);
    for shown in [&answered.err, &trace.out, &trace.err] {
        assert!(!shown.contains(KEY), "{shown}");
    }
    let holds = crate::secrets::holds(&home.path(), KEY);
    assert!(!holds, "the key is in a file of the home");
}

#[test]
pub(crate) fn r50_a_command_that_fails_fails_the_run_with_its_status_and_without_its_output() {
    let server = Planned::start(|_, _| Does::Answer(whole(&["Yes."])));
    let home = home(&server, &format!("echo {KEY}; echo 'wrong passphrase' >&2; exit 7"));
    let failed = home.run(&["agent", "-m", "Hi"]).expect_code(1);
    let verdict = failed.verdict();
    assert!(verdict.contains("exit status: 7") && verdict.contains("print key' acme"), "{verdict}");
    assert!(verdict.contains("the command prints") && !verdict.contains("the file"), "nothing was a file: {verdict}");
    assert!(!failed.err.contains(KEY) && !failed.err.contains("wrong passphrase"), "{failed:?}");
    assert_eq!(server.seen().len(), 0, "nothing was sent");
}

#[test]
fn r50_a_command_that_ignores_signals_ends_with_whoever_waits_for_its_key() {
    let server = Planned::start(|_, _| Does::Answer(whole(&["Yes."])));
    for signal in [Signal::KILL, Signal::INT] {
        let home = home(&server, "trap '' HUP INT TERM QUIT PIPE\necho $$ > ~/pid\nwhile :; do sleep 1; done");
        let run = home.start(&["agent", "-m", "Hi"]);
        let pid = || fs::read_to_string(home.user().join("pid")).ok().and_then(|pid| pid.trim().parse::<u32>().ok());
        until("the command runs", || pid().is_some());
        let pid = pid().expect("its number");
        assert!(is_alive(pid));
        run.signal(signal);
        until("the command has ended", || !is_alive(pid));
        run.finish();
    }
    assert_eq!(server.seen().len(), 0);
}

/// R50: nothing that a command starts outlives whoever waits for its key: not in a session of its own, and not stopped.
#[test]
fn r50_what_a_command_starts_ends_with_whoever_waits_for_its_key() {
    let server = Planned::start(|_, _| Does::Answer(whole(&["Yes."])));
    for stops in ["", "kill -STOP 0", "kill -STOP $$"] {
        for ends in ["INT", "KILL", "abort"] {
            let child = "(setsid sh -c 'echo $$ >> ~/pids; while :; do sleep 1; done' &)";
            let home = home(
                &server,
                &format!(
                    "{child}\nuntil test -e ~/pids; do sleep 0.01; done\necho $$ >> ~/pids\n{stops}\nwhile :; do sleep 1; done"
                ),
            );
            let run = home.start(if ends == "abort" { &["serve"][..] } else { &["agent", "-m", "Hi"] });
            if ends == "abort" {
                run.until_err("serving");
                home.run(&["send", "Hi"]).expect_code(0);
            }
            let started = || pids(&home.user().join("pids"));
            until("the command runs", || started().len() == 2);
            match ends {
                "INT" => run.signal(Signal::INT),
                "KILL" => run.signal(Signal::KILL),
                _ => drop(home.run(&["runs", "abort"]).expect_code(0)),
            }
            until("all of it has ended", || started().iter().all(|pid| !is_alive(*pid)));
            drop(run);
        }
    }
    assert_eq!(server.seen().len(), 0);
}
