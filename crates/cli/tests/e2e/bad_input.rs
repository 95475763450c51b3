//! Mistakes in input, configuration and workspace. Each ends with one or two lines that say what to do.

use std::fs;

use crate::support::{Busy, Home, until};

#[test]
pub(crate) fn r24_a_message_of_fifty_megabytes_is_refused_with_what_to_do() {
    let home = Home::new();
    let refused = home.feed(&["agent", "-m", "-"], &vec![b'x'; 50 << 20]).expect_code(3);
    let verdict = refused.verdict();
    assert!(verdict.contains("50 MiB") && verdict.contains("file"), "{verdict}");
    // The journal and its reserve of a mebibyte.
    assert!(crate::support::size_of(&home.path()) < 2 << 20, "nothing of it was kept");
    home.assert_usable("main");
}

#[test]
pub(crate) fn r24_messages_that_are_none_are_refused() {
    let home = Home::new();
    for (stdin, says) in [(&b" \n"[..], "empty"), (b"\xff\xfe", "UTF-8")] {
        let verdict = home.feed(&["agent", "-m", "-"], stdin).expect_code(2).verdict();
        assert!(verdict.contains(says), "{verdict}");
    }
    home.feed(&["agent", "-m", "-"], "你是谁？".as_bytes()).expect_code(0);
}

#[test]
pub(crate) fn r46_a_file_that_is_not_text_is_reported_to_the_model() {
    let home = Home::new();
    home.put("picture.png", b"\x89PNG\r\n\x1a\n\0\0\0\xff\xfe\0");
    home.put("latin1.txt", b"caf\xe9\n");
    let answer = home.run(&["agent", "-m", "read picture.png and read latin1.txt"]).expect_code(0);
    assert!(answer.out.contains("picture.png") && !answer.out.contains('\u{0}'), "{answer:?}");
    assert!(home.run(&["runs", "trace"]).expect_code(0).out.contains("call_settled"));
    home.assert_usable("main");
}

#[test]
pub(crate) fn r24_r41_a_mistyped_workspace_is_refused_and_not_made() {
    let home = Home::new();
    home.assert_usable("main");
    home.put("file", "");
    for (named, place) in
        [("worskpace", "worskpace"), ("file", "file"), ("file/below", "below"), ("~/nowhere", "nowhere")]
    {
        for command in [&["agent", "-m", "ls"][..], &["send", "ls"], &["resume"]] {
            let words: Vec<&str> = command.iter().copied().chain(["--workspace", named]).collect();
            let verdict = home.run(&words).expect_code(78).verdict();
            assert!(
                verdict.contains(place)
                    && (verdict.contains("mkdir") || named == "file" && verdict.contains("name a folder")),
                "{words:?}: {verdict}"
            );
        }
    }
    assert!(!home.file("worskpace").exists() && !home.user().join("nowhere").exists());
    assert_eq!(home.json(&["runs", "list"]).as_array().unwrap().len(), 1, "nothing was recorded");
}

/// The folder was there when the message was accepted.
#[test]
fn r24_r41_a_workspace_that_has_gone_fails_the_run_alone() {
    let busy = Busy::new();
    let gone = busy.home.file("gone");
    fs::create_dir(&gone).unwrap();
    let named = ["--workspace", gone.to_str().unwrap()];
    busy.home.run(&[&["send", "--mode", "followup"], &named[..], &["ls"]].concat()).expect_code(0);
    fs::remove_dir(&gone).unwrap();
    busy.let_go();
    busy.home.run(&["runs", "wait", "--session", "main"]);
    let traced = || busy.home.run(&["runs", "trace", "--session", "main"]).out;
    until("the end of the run", || traced().contains("mkdir -p"));
    assert!(!gone.exists());
    busy.home.run(&["agent", "-m", "Who are you?"]).expect_code(0);
}

#[test]
pub(crate) fn r24_a_home_that_cannot_be_written_is_named() {
    let home = Home::new();
    home.put("file", "");
    let below = home.file("file/home");
    for place in ["/proc/limulus", below.to_str().unwrap()] {
        let elsewhere =
            home.program(env!("CARGO_BIN_EXE_limulus"), &["agent", "-m", "hi"]).env("LIMULUS_HOME", place).output();
        let verdict = crate::support::Finished::from(elsewhere.unwrap()).expect_code(74).verdict();
        assert!(verdict.contains(place) && verdict.contains("LIMULUS_HOME"), "{verdict}");
    }
    home.assert_usable("main");
}

#[test]
fn r24_an_unknown_key_of_the_configuration_is_reported_with_the_nearest() {
    let home = Home::new();
    fs::create_dir(home.path()).unwrap();
    let file = home.path().join("config.toml");
    for (config, says) in [
        ("[agents.main]\nmodle = \"a/b\"\n", "agents.main.model"),
        ("[runs]\ndeadline = 3\n", "runs.deadline_s"),
        ("[runs]\ndeadline_s = \"soon\"\n", "whole number"),
        ("[runs\n", "config.toml"),
    ] {
        fs::write(&file, config).unwrap();
        let verdict = home.run(&["agent", "-m", "hi"]).expect_code(78).verdict();
        assert!(verdict.contains(says), "{config}: {verdict}");
    }
    fs::remove_file(file).unwrap();
    let home = home.with("LIMULUS_TOOLS__EXEC__POLCY", "allow");
    let verdict = home.run(&["agent", "-m", "hi"]).expect_code(78).verdict();
    assert!(verdict.contains("LIMULUS_TOOLS__EXEC__POLICY") || verdict.contains("tools.exec.policy"), "{verdict}");
    home.without("LIMULUS_TOOLS__EXEC__POLCY").assert_usable("main");
}

#[test]
pub(crate) fn r24_what_is_not_there_is_not_found() {
    let home = Home::new();
    home.assert_usable("main");
    let run = "01a00000-0000-7000-8000-000000000000";
    for words in [
        &["runs", "show", run][..],
        &["runs", "trace", run],
        &["runs", "abort", run],
        &["graph", "--run", run],
        &["sessions", "show", "nobody"],
        &["runs", "show", "--session", "nobody"],
    ] {
        let missing = home.run(words).expect_code(4);
        assert_eq!(missing.out, "", "{words:?}");
        missing.verdict();
    }
}

#[test]
fn r24_an_unknown_model_is_reported_before_anything_is_recorded() {
    let home = Home::new();
    let verdict = home.run(&["agent", "--model", "nobody/nothing", "-m", "hi"]).expect_code(78).verdict();
    assert!(verdict.contains("nobody"), "{verdict}");
    assert!(!home.path().exists(), "no home was made for it");
    home.run(&["agent", "-m", "hi", "--timeout", "0"]).expect_code(2);
}
