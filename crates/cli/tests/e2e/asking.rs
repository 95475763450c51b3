//! Approval requests, and what a terminal shows.

use model_server::ModelServer;

use crate::support::{Home, Terminal};

const TOUCH: &str = "run `echo ran >> ledger`";
const QUESTION: &str = "? allow: run the command `echo ran >> ledger` [y/N]";

#[test]
pub(crate) fn r02_without_a_terminal_the_answer_is_no_and_the_model_receives_the_reason() {
    let home = Home::new();
    let answer = home.run(&["agent", "-m", TOUCH]).expect_code(0);
    assert!(answer.out.contains("no terminal") && answer.out.contains("--yes"), "{answer:?}");
    assert_eq!(home.text("ledger"), "");
    let call = &home.json(&["runs", "show"])["steps"][0]["calls"][0];
    assert_eq!(call["outcome"], "denied");
}

#[test]
pub(crate) fn r02_yes_allows_what_would_be_asked_for_that_run_alone() {
    let home = Home::new();
    home.run(&["agent", "--yes", "-m", TOUCH]).expect_code(0);
    assert_eq!(home.text("ledger"), "ran\n");
    home.run(&["agent", "-m", TOUCH]).expect_code(0);
    assert_eq!(home.text("ledger"), "ran\n");
}

#[test]
pub(crate) fn r02_yes_does_not_allow_what_is_denied() {
    let home = Home::new().with("LIMULUS_TOOLS__EXEC__POLICY", "deny");
    home.run(&["agent", "--yes", "-m", TOUCH]).expect_code(0);
    assert_eq!(home.text("ledger"), "");
}

#[test]
pub(crate) fn r02_a_terminal_is_asked_and_its_answer_holds() {
    if !Terminal::is_there() {
        return;
    }
    for (key, ledger) in [("y", "ran\n"), ("n", "")] {
        let home = Home::new();
        let terminal = Terminal::run(&home, &["agent", "-m", TOUCH]);
        terminal.until(QUESTION);
        assert_eq!(home.json(&["status"])["unfinished"][0]["run_state"], "awaiting");
        terminal.type_keys(&[key, "Enter"]);
        terminal.until("exit=0");
        assert_eq!(home.text("ledger"), ledger, "answered {key}");
    }
}

#[test]
fn r11_after_a_kill_the_next_terminal_is_asked_again() {
    if !Terminal::is_there() {
        return;
    }
    let home = Home::new();
    let terminal = Terminal::run(&home, &["agent", "-m", TOUCH]);
    terminal.until(QUESTION);
    terminal.kill();
    drop(terminal);
    let terminal = Terminal::run(&home, &["resume"]);
    terminal.until(QUESTION);
    terminal.type_keys(&["y", "Enter"]);
    terminal.until("exit=0");
    assert_eq!(home.text("ledger"), "ran\n");
}

#[test]
pub(crate) fn r12_retracted_text_is_erased_from_a_terminal() {
    if !Terminal::is_there() {
        return;
    }
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let terminal = Terminal::run(&home, &["agent", "-m", "cut=40x1 tokens=44 delay_ms=30"]);
    terminal.until("word20");
    let screen = terminal.until("exit=0");
    for word in ["word0 ", "word20 ", "word39 ", "word43"] {
        assert_eq!(screen.matches(word).count(), 1, "{word}: {screen}");
    }
    for note in ["✗", "↻"] {
        assert_eq!(screen.matches(note).count(), 1, "what was said stays: {screen}");
    }
    assert!(server.seen().len() == 2, "{:?}", server.seen());
}
