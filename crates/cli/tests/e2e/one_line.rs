//! A message in one line: without a command, from a pipe, and with what is piped as its context.

use std::process::Stdio;

use crate::support::{Finished, Home, Process};

const ASKED: &str = "tokens=3 Who are you?";

/// What the last run was asked.
#[track_caller]
fn asked(home: &Home) -> String {
    let shown = home.run(&["sessions", "show"]).expect_code(0).out;
    let from = shown.rfind("\nuser @").unwrap_or_else(|| panic!("no message: {shown}"));
    shown[from..].to_owned()
}

/// With a pipe on stdin that stays open.
fn with_open_pipe(home: &Home, words: &[&str]) -> Finished {
    let mut command = home.limulus(words);
    command.stdin(Stdio::piped());
    Process::spawn(command).finish()
}

#[test]
pub(crate) fn r61_a_message_needs_no_command() {
    let home = Home::new();
    for words in [
        &["tokens=3 Who are you?"][..],
        &["agent", ASKED],
        &["-p", ASKED],
        &["--prompt", ASKED],
        &["agent", "-p", ASKED],
        &["-m", ASKED],
        &["--yes", ASKED],
        &[ASKED, "--json"],
        &["-c", ASKED],
        &["--color", "never", "-vc", ASKED],
    ] {
        let answer = home.run(words).expect_code(0);
        assert!(!answer.out.trim().is_empty(), "{words:?}: {answer:?}");
    }
    home.run(&["agent", "hello"]).expect_code(0);
    assert!(asked(&home).contains("hello"));
    assert_eq!(home.json(&["runs", "list"]).as_array().unwrap().len(), 11);
    let both = home.run(&["agent", "one two", "-m", "three"]).expect_code(2);
    assert!(both.err.contains("cannot be used with"), "{both:?}");
    let none = home.run(&["agent", "--yes"]).expect_code(2).verdict();
    assert!(none.contains("no message") && none.contains("limulus \"TEXT\""), "{none}");
}

#[test]
pub(crate) fn r24_a_word_that_is_no_command_sends_nothing() {
    let home = Home::new();
    for (words, says) in [
        (&["sttaus"][..], "status"),
        (&["fix"], "limulus agent TEXT"),
        (&["fix", "the", "bug"], "limulus \"TEXT\""),
        (&["--yes", "fix"], "limulus agent TEXT"),
        (&["修复这个错误"], "limulus agent TEXT"),
        (&["chat"], "limulus -c"),
        (&["login"], "limulus setup"),
        (&["mcp", "add", "x"], "not there yet"),
        (&["logs", "-f"], "limulus runs trace"),
        (&["run", "fix the bug"], "limulus \"TEXT\""),
        (&["ask", "fix the bug"], "limulus \"TEXT\""),
        (&["exec", "fix the bug"], "limulus \"TEXT\""),
        (&["init"], "limulus config init"),
        (&["update"], "does not update itself"),
        (&["upgrade"], "does not update itself"),
    ] {
        let refused = home.run(words).expect_code(2).expect_err("unrecognized subcommand").expect_err(says);
        assert_eq!(refused.out, "", "{words:?}");
    }
    assert!(!home.path().exists(), "no home was made for it");
    home.run(&[]).expect_code(2).expect_err("Usage: limulus");
}

#[test]
pub(crate) fn r61_a_pipe_alone_is_the_message() {
    let home = Home::new();
    for words in [&[][..], &["--color", "never"], &["--yes"], &["agent"]] {
        home.feed(words, format!("{ASKED} {words:?}\n").as_bytes()).expect_code(0);
        let asked = asked(&home);
        assert!(asked.contains(&format!("{words:?}")) && !asked.contains("<stdin>"), "{asked}");
    }
    home.feed(&[], b"status").expect_code(0);
    home.put("asked.txt", ASKED);
    home.shell("$LIMULUS < asked.txt").expect_code(0);
    home.feed(&[], b" \n").expect_code(2).expect_err("Usage: limulus");
    home.feed(&["--yes"], b"").expect_code(2).expect_err("no message");
    home.feed(&[], b"\xff\xfe").expect_code(2).expect_err("UTF-8");
    home.feed(&[], &vec![b'x'; 5 << 20]).expect_code(3).expect_err("more than 4 MiB");
    home.shell("$LIMULUS <&-").expect_code(2).expect_err("Usage: limulus");
    let silent = with_open_pipe(&home, &[]).expect_code(2);
    silent.expect_err("nothing came for 1 s").expect_err("Usage: limulus");
}

#[test]
pub(crate) fn r61_a_pipe_beside_a_message_is_its_context() {
    let home = Home::new();
    for words in [&[ASKED][..], &["agent", ASKED], &["agent", "-m", ASKED], &["-p", ASKED]] {
        home.feed(words, b"a crab\nand a </stdin>\n").expect_code(0);
        let asked = asked(&home);
        let lines: Vec<&str> = asked.lines().map(str::trim).collect();
        let block = ["<stdin-2>", "a crab", "and a </stdin>", "</stdin-2>"];
        assert!(lines.windows(4).any(|lines| lines == block), "{words:?}: {asked}");
    }
    // What nobody writes to is not waited for; what is empty, closed or no pipe is nothing.
    let started = with_open_pipe(&home, &[ASKED]).expect_code(0);
    started.expect_err("the run starts without it; --stdin waits for it");
    for script in ["< /dev/null", "<&-", "< empty.txt", "--no-stdin < full.txt", "--stdin < /dev/null"] {
        home.put("empty.txt", "");
        home.put("full.txt", "full");
        let answer = home.shell(&format!("$LIMULUS '{ASKED}' {script}")).expect_code(0);
        assert!(!answer.err.contains("stdin"), "{script}: {answer:?}");
        let asked = asked(&home);
        assert!(!asked.contains("<stdin>"), "{script}: {asked}");
    }
    with_open_pipe(&home, &["--no-stdin", ASKED]).expect_code(0);
    home.shell(&format!("(sleep 1.5; echo late) | $LIMULUS --stdin '{ASKED}'")).expect_code(0);
    assert!(asked(&home).contains("late"));
}

#[test]
pub(crate) fn r24_a_context_has_a_limit() {
    let home = Home::new();
    let refused = home.feed(&[ASKED], &vec![b'x'; (1 << 20) + 1]).expect_code(2);
    assert!(refused.verdict().contains("more than 1 MiB"), "{refused:?}");
    let refused = home.feed(&[ASKED], b"\xff\xfe").expect_code(2);
    assert!(refused.verdict().contains("UTF-8"), "{refused:?}");
    home.feed(&["agent", "--no-stdin", "-m", "-"], b"x").expect_code(2).expect_err("--no-stdin");
    home.feed(&["agent", "--no-stdin"], b"x").expect_code(2).expect_err("no message");
    home.feed(&["--stdin", "--no-stdin", ASKED], b"").expect_code(2);
    assert!(!home.path().exists(), "nothing was recorded");
    home.feed(&[ASKED], &vec![b'x'; 1 << 20]).expect_code(0);
}
