//! What is typed on the terminal while a run works.

use std::fs;

use crate::support::{HOLD, Home, Terminal, pids, until};

/// A command that is asked for, then one that waits for the file `go`.
const ASKS: &str = "run `echo asked >> ledger` and run `echo $$ >> pids; until test -e go; do sleep 0.02; done`";

fn holds(home: &Home) {
    until("a command that holds", || !pids(&home.file("pids")).is_empty());
}

/// What the user has said, in order.
fn said(home: &Home) -> Vec<String> {
    let shown = home.json(&["sessions", "show"]);
    let items = shown["transcript"].as_array().expect("a list").iter().filter(|item| item["role"] == "user");
    items.map(|item| item["text"].as_str().expect("a text").to_owned()).collect()
}

/// R15: a line that is typed during a run steers it, and is shown once it is recorded; keys edit it, and a pasted newline is
/// a part of it.
#[test]
pub(crate) fn r15_what_is_typed_during_a_run_steers_it() {
    if !Terminal::is_there() {
        return;
    }
    let home = Home::new();
    let terminal = Terminal::run(&home, &["agent", "--yes", "-m", HOLD]);
    holds(&home);
    terminal.type_keys(&["Who are yu", "Left", "o", "End", "? 你好x", "BSpace"]);
    let screen = terminal.until("› Who are you? 你好");
    assert!(!screen.contains("› steer"), "{screen}");
    terminal.type_keys(&["Enter"]);
    let screen = terminal.until("› steer: Who are you? 你好");
    assert!(!screen.contains("› Who are you"), "the line is empty again: {screen}");
    terminal.type_keys(&["no", "C-u", "gone"]);
    terminal.until("› gone");
    terminal.type_keys(&["Escape"]);
    until("the line is empty", || !terminal.screen().contains("› gone"));
    home.put("go", "");
    let screen = terminal.until("exit=0");
    assert!(screen.contains("我是 Limulus") && !screen.contains("not sent"), "{screen}");
    assert_eq!(said(&home).last().map(String::as_str), Some("Who are you? 你好"));
    let queue = home.json(&["queue", "list"]);
    assert_eq!(queue.as_array().map(Vec::len), Some(0), "{queue}");
}

/// R60: while a question is open the line answers it, and what was half typed comes back afterwards.
#[test]
pub(crate) fn r60_what_was_half_typed_comes_back_after_a_question() {
    if !Terminal::is_there() {
        return;
    }
    let home = Home::new().paced(1_500);
    let terminal = Terminal::run(&home, &["agent", "-m", ASKS]);
    terminal.until("request sent");
    terminal.type_keys(&["half"]);
    terminal.until("› half");
    let screen = terminal.until("`echo asked >> ledger` [y/n/a/?]");
    assert!(!screen.contains("› half"), "{screen}");
    terminal.type_keys(&["y", "Enter"]);
    terminal.until("done` [y/n/a/?]");
    terminal.type_keys(&["y", "Enter"]);
    holds(&home);
    terminal.until("› half");
    terminal.type_keys(&[" done", "Enter"]);
    terminal.until("› steer: half done");
    home.put("go", "");
    terminal.until("exit=0");
    assert_eq!(said(&home).last().map(String::as_str), Some("half done"));
    assert_eq!(home.text("ledger"), "asked\n");
}

/// R60: a question waits until a paste is over, whatever is in it: no part of it is the answer.
#[test]
pub(crate) fn r60_no_part_of_a_paste_is_the_answer_to_a_question() {
    if !Terminal::is_there() {
        return;
    }
    let home = Home::new().paced(700);
    let terminal = Terminal::run(&home, &["agent", "-m", ASKS]);
    terminal.until("request sent");
    // As a terminal sends it over a slow line.
    terminal.type_raw("\u{1b}[200~half");
    until("the question", || {
        terminal.type_raw("y\r");
        home.json(&["status"])["unfinished"][0]["flags"]["isBlocked"] == true
    });
    terminal.type_raw("y\r");
    assert!(!terminal.screen().contains("[y/n/a/?]"), "a paste is under way: {}", terminal.screen());
    terminal.type_raw("\u{1b}[201~");
    terminal.until("`echo asked >> ledger` [y/n/a/?]");
    assert_eq!(home.text("ledger"), "");
    terminal.type_keys(&["n", "Enter"]);
    terminal.until("done` [y/n/a/?]");
    terminal.type_keys(&["n", "Enter"]);
    let screen = terminal.until("exit=0");
    assert!(screen.lines().any(|line| line == "  y"), "what was pasted is said: {screen}");
    assert_eq!((home.text("ledger").as_str(), home.text("pids").as_str()), ("", ""));
}

/// R15: what was typed and not entered is said at the end, and nothing of it is left for the shell; the terminal is what it
/// was, however the command ends.
#[test]
fn r15_nothing_that_was_typed_is_left_for_the_shell_and_the_terminal_is_as_it_was() {
    if !Terminal::is_there() {
        return;
    }
    let script = "stty -a > before; LIMULUS; echo exit=$?; stty -a > after; echo done=done; cat > left";
    for (case, exit) in [("end", 0), ("interrupt", 130), ("terminate", 143), ("quit", 131), ("error", 2)] {
        let home = Home::new();
        let message = if case == "error" { "" } else { HOLD };
        let terminal = Terminal::script(&home, script, &["agent", "--yes", "-m", message]);
        if case != "error" {
            holds(&home);
            terminal.type_keys(&["left over"]);
            terminal.until("› left over");
        }
        match case {
            "end" => home.put("go", ""),
            "interrupt" => terminal.type_keys(&["C-c"]),
            "quit" => terminal.type_keys(&["C-\\"]),
            "terminate" => {
                let owner = home.json(&["status"])["owner"]["pid"].as_i64().expect("an owner");
                let owner = rustix::process::Pid::from_raw(owner as i32).expect("a pid");
                rustix::process::kill_process(owner, rustix::process::Signal::TERM).expect("it runs");
            }
            _ => {}
        }
        let screen = terminal.until("done=done");
        assert!(screen.contains(&format!("exit={exit}")), "{case}: {screen}");
        assert_eq!(screen.contains("not sent: left over"), !["error", "quit"].contains(&case), "{case}: {screen}");
        assert_eq!(home.text("before"), home.text("after"), "{case}");
        assert!(home.text("before").contains("icanon"));
        terminal.type_keys(&["for the shell", "Enter", "C-d"]);
        until("the end of the shell", || home.text("left").ends_with('\n'));
        assert_eq!(home.text("left"), "for the shell\n", "{case}");
        home.put("go", "");
    }
}

/// R15: Ctrl-Z suspends it with the terminal as it was, and it reads keys again when it is continued.
#[test]
fn r15_a_command_that_is_suspended_leaves_the_terminal_and_reads_keys_when_it_is_continued() {
    if !Terminal::is_there() {
        return;
    }
    let home = Home::new();
    let script = "stty -a > before; LIMULUS; stty -a > stopped; echo is=stopped; read go; fg; echo exit=$?; stty -a > after; cat";
    let terminal = Terminal::script(&home, script, &["agent", "--yes", "-m", HOLD]);
    holds(&home);
    terminal.type_keys(&["half"]);
    terminal.until("› half");
    terminal.type_keys(&["C-z"]);
    terminal.until("is=stopped");
    assert_eq!(home.text("before"), home.text("stopped"));
    terminal.type_keys(&["Enter"]);
    terminal.until("› half");
    terminal.type_keys(&[" line", "Enter"]);
    terminal.until("› steer: half line");
    home.put("go", "");
    terminal.until("exit=0");
    until("the modes", || !home.text("after").is_empty());
    assert_eq!(home.text("before"), home.text("after"));
}

/// R15: in the background it reads nothing, changes nothing of the terminal, and is not stopped.
#[test]
fn r15_a_command_in_the_background_reads_no_keys_and_is_not_stopped() {
    if !Terminal::is_there() {
        return;
    }
    let home = Home::new();
    let script = "LIMULUS & read typed; stty -a > modes; echo typed=$typed; wait $!; echo exit=$?; cat";
    let terminal = Terminal::script(&home, script, &["agent", "--yes", "-m", HOLD]);
    holds(&home);
    terminal.type_keys(&["for the shell", "Enter"]);
    terminal.until("typed=for the shell");
    assert!(home.text("modes").contains(" icanon") && home.text("modes").contains(" echo "), "{}", home.text("modes"));
    home.put("go", "");
    let screen = terminal.until("exit=0");
    assert!(!screen.contains("steer: "), "{screen}");
    assert_eq!(said(&home), [HOLD]);
    assert!(fs::exists(home.file("modes")).unwrap());
}
