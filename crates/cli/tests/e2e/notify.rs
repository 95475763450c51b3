//! A run calls for the user of its terminal, and a program of the user is notified by data alone.

use std::fs;

use serde_json::Value;

use crate::support::{Home, Terminal, until};

/// A home that calls after a second, also by a program that writes what it receives into the user's folder.
fn calling(more: &str) -> Home {
    let home = Home::new();
    fs::create_dir_all(home.path()).expect("a home");
    let program = home.user().join("program");
    let script = "cd \"$(dirname \"$0\")\"; cat > said.new; printf '%s|%s|%s' \"$1\" \"$NOTIFY_EVENT\" \"$NOTIFY_TEXT\" > told; mv said.new said\n";
    fs::write(&program, script).expect("a program");
    let command = format!("command = [\"sh\", \"{}\"]\n{more}", program.display());
    fs::write(home.path().join("config.toml"), format!("[notify]\nafter_s = 1\nby = [\"bell\", \"osc9\"]\n{command}"))
        .expect("a configuration");
    home
}

fn said(home: &Home) -> Value {
    until("the program was started", || home.user().join("said").exists());
    serde_json::from_str(&fs::read_to_string(home.user().join("said")).expect("what was said")).expect("JSON")
}

#[test]
pub(crate) fn r60_a_question_that_nobody_answers_calls_for_the_user() {
    if !Terminal::is_there() {
        return;
    }
    let home = calling("");
    let terminal = Terminal::record(&home, &[&["agent", "-m", "run `touch 'a;b$(touch evil)'`"]]);
    terminal.until("[y/n/a/?]");
    let said = said(&home);
    assert_eq!((&said["event"], &said["session"]), (&"asks".into(), &"agent:main:main".into()), "{said}");
    let text = said["text"].as_str().unwrap();
    assert!(text.starts_with("main asks: ") && text.contains("touch 'a;b$(touch evil)'"), "{text}");
    assert_eq!(fs::read_to_string(home.user().join("told")).unwrap(), format!("{text}|asks|{text}"));
    assert!(!home.file("evil").exists() && !home.user().join("evil").exists());
    let recorded = || String::from_utf8_lossy(&fs::read(home.user().join("recorded")).unwrap()).into_owned();
    until("the bell", || recorded().contains("\x07\x1b]9;main asks: "));
    assert!(recorded().contains("touch 'a,b$(touch evil)'"), "a sequence has no further part");
    terminal.type_keys(&["n", "Enter"]);
    terminal.until("all=done");
}

#[test]
pub(crate) fn r60_the_end_of_a_long_run_calls_for_the_user_and_a_short_one_or_a_pipe_does_not() {
    if !Terminal::is_there() {
        return;
    }
    let home = calling("");
    let long = home.paced(300);
    let _ = long.run(&["agent", "-m", "tokens=8 Who are you?"]).expect_code(0);
    let terminal = Terminal::run(&long, &["agent", "--session", "other", "-m", "tokens=8 Who are you?"]);
    terminal.until("exit=0");
    let said = said(&long);
    assert_eq!((&said["event"], &said["text"]), (&"done".into(), &"other is done".into()), "not the run in the pipe");
    drop(terminal);
    fs::remove_file(long.user().join("said")).unwrap();
    let short = long.without("LIMULUS_OFFLINE__PACE_MS");
    let terminal = Terminal::record(&short, &[&["agent", "-m", "hi"]]);
    terminal.until("all=done");
    let recorded = fs::read(short.user().join("recorded")).unwrap();
    assert!(!recorded.contains(&7) && !short.user().join("said").exists());
}
