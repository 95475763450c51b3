//! A message in one line: without a command, from a pipe, and with what is piped as its context.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Finished, Home, Process, examples, is_as_shown, with_names};

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
        (&["fix", "the", "bug"], "limulus \"fix the bug\""),
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

#[test]
pub(crate) fn r22_the_last_line_of_json_is_the_result() {
    let home = Home::new();
    let ended = home.run(&["--json", "write \"crabs\" to pond.txt"]).expect_code(0);
    let (end, result) = (ended.lines().pop().unwrap(), ended.result());
    assert_eq!((&end["stream"], &end["type"]), (&json!("lifecycle"), &json!("end")), "no line has changed");
    for same in ["session", "run", "outcome", "text", "usage"] {
        assert_eq!(result[same], end[same], "{same}");
    }
    let run = home.json(&["runs", "show"]);
    assert_eq!(result["session"], "agent:main:main");
    assert_eq!(result["session_id"], run["session"]);
    assert_eq!((&result["exit"], &result["cost"]), (&json!(0), &json!(0)));
    assert!(result["duration_ms"].is_u64());
    assert_eq!(result["files"], json!([{ "path": "pond.txt", "act": "created", "added": 1, "removed": 0 }]));
    // A command of the chat has no run, and keeps its line.
    let queue = home.run(&["agent", "--json", "/status"]).expect_code(0);
    let (line, result) = (queue.lines().pop().unwrap(), queue.result());
    assert_eq!(line["text"], result["text"]);
    assert_eq!((&result["session"], &result["exit"]), (&json!("agent:main:main"), &json!(0)));
    assert!(result.get("run").is_none(), "{result}");
    let denied = home.run(&["--json", "run `echo 1`"]).expect_code(3);
    assert_eq!(denied.result()["exit"], 3);
    assert!(!home.run(&["What is in this folder?"]).expect_code(0).out.contains("session_id"));
}

#[test]
pub(crate) fn r61_the_text_of_an_answer_is_written_into_a_file() {
    let home = Home::new();
    let answer = home.run(&[ASKED, "--output-last", "answer.txt"]).expect_code(0);
    assert_eq!(home.text("answer.txt").trim(), answer.out.trim());
    assert!(!answer.out.trim().is_empty());
    // A link stays one, the permissions stay, and nothing is left beside the file.
    home.put("kept.txt", "old");
    let folder = home.file("");
    home.program("chmod", &["640", "kept.txt"]).status().unwrap();
    std::os::unix::fs::symlink("kept.txt", home.file("link")).unwrap();
    let status = home.run(&["agent", "/status", "--output-last", "link"]).expect_code(0);
    assert_eq!(home.text("kept.txt").trim(), status.out.trim());
    assert!(fs::symlink_metadata(home.file("link")).unwrap().is_symlink());
    let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(home.file("kept.txt")).unwrap());
    assert_eq!(mode & 0o777, 0o640);
    assert!(
        fs::read_dir(&folder).unwrap().flatten().all(|entry| !entry.file_name().to_string_lossy().starts_with('.'))
    );
    // A device is written to.
    home.run(&[ASKED, "--output-last", "/dev/null"]).expect_code(0);
    // What cannot be written is refused before a run starts.
    let runs = || home.json(&["runs", "list"]).as_array().unwrap().len();
    let before = runs();
    for (file, says) in [("nowhere/answer.txt", "nowhere"), (".", "folder"), ("answer.txt/x", "answer.txt")] {
        home.run(&[ASKED, "--output-last", file]).expect_code(2).expect_err(says);
    }
    assert_eq!(runs(), before);
    home.run(&["run `echo 1`", "--output-last", "answer.txt"]).expect_code(3);
    assert!(home.text("answer.txt").contains("no terminal"), "{}", home.text("answer.txt"));
}

#[test]
pub(crate) fn r24_a_failure_under_json_is_one_line_of_json() {
    let home = Home::new();
    home.assert_usable("main");
    for (words, kind, code, says) in [
        (&["agent", "--json", " "][..], "usage", 2, "empty"),
        (&["--json", "--model", "nobody/nothing", "a b"], "config", 78, "nobody"),
        (&["agent", "--json", "--only-if", "active", "a b"], "refused", 3, "idle"),
        (&["agent", "--json", "run `echo 1`"], "refused", 3, "no terminal"),
    ] {
        let failed = home.run(words).expect_code(code);
        let error: Value = serde_json::from_str(failed.err.lines().last().unwrap()).expect("a line of JSON");
        assert_eq!((&error["kind"], &error["code"]), (&json!(kind), &json!(code)), "{error}");
        let said = |field: &str| error[field].as_str().unwrap_or_default().to_owned();
        assert!((said("message") + &said("hint")).contains(says) && !said("hint").is_empty(), "{error}");
        assert!(!failed.err.contains("limulus: "), "{failed:?}");
    }
    home.run(&["agent", " "]).expect_code(2).expect_err("limulus: the message is empty\n  hint: ");
}

/// Every example of docs/scripting.md is executed, in order in one folder. Of what is printed, stdout is compared.
#[test]
pub(crate) fn the_examples_of_the_page_about_scripts_are_true() {
    let home = Home::new();
    let examples = examples("scripting.md");
    assert!(examples.len() > 6, "the page has examples");
    for (line, shown) in examples {
        let ended = home.shell(&line.replace("limulus", "\"$LIMULUS\"")).expect_code(0);
        let printed = with_names(&ended.out);
        assert!(is_as_shown(&printed, &shown), "$ {line}\nprints\n{printed}\nand not\n{shown}\n{}", ended.err);
    }
}
