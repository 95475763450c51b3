//! `key = "cmd:…"`: a key that a command prints reaches the provider and nothing else.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;

use crate::support::{Does, Home, Planned, is_alive, until, whole};

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
