//! What is said to somebody who comes back: what was interrupted, and which conversation can be continued.

use std::path::Path;

use crate::support::{HOLD, Home, Terminal, is_alive, pids, until};

/// R11, R21: after a kill, `status` and the next message say in which command the run was interrupted and what became of it; the
/// message resumes it by itself.
#[test]
fn r11_the_next_message_says_what_was_interrupted_and_resumes_it() {
    let home = Home::new();
    let agent = home.start(&["agent", "--yes", "-m", HOLD]);
    until("a command that holds", || pids(&home.file("pids")).len() == 1);
    agent.kill();
    let status = home.run(&["status"]).expect_code(0).out;
    assert!(
        status.contains("was interrupted in \"echo $$ >> pids; until test") && status.contains("it still runs"),
        "{status}"
    );
    assert_eq!(home.json(&["status"])["unfinished"][0]["interrupted"]["command"], "running");
    let command = pids(&home.file("pids"))[0];
    home.put("go", "");
    until("the end of the command", || !is_alive(command));
    until("the record of its end", || home.json(&["status"])["unfinished"][0]["interrupted"]["command"] == "finished");
    let entries = |home: &Home| home.json(&["status"])["head"].clone();
    let head = entries(&home);
    assert_eq!(entries(&home), head, "status writes nothing");
    let answered = home.run(&["agent", "-m", "Who are you?"]).expect_code(0);
    let said: Vec<_> = answered.err.lines().filter(|line| line.contains("your run from")).collect();
    assert!(said.len() == 1 && said[0].ends_with("it has finished meanwhile"), "{answered:?}");
    assert!(answered.out.contains("I am Limulus"), "{answered:?}");
    assert_eq!(home.json(&["runs", "list"]).as_array().unwrap().len(), 1, "the message joined the run");
    let again = home.run(&["agent", "-m", "Who are you?"]).expect_code(0);
    assert!(!again.err.contains("interrupted"), "{again:?}");
}

/// R21: if nothing is unfinished, `resume` offers the last conversation of the folder: a terminal is asked, a pipe gets the command.
#[test]
pub(crate) fn r21_resume_offers_the_last_conversation_if_nothing_is_unfinished() {
    let home = Home::new().without("LIMULUS_SESSION__DEFAULT");
    home.run(&["agent", "-m", "Who are you?"]).expect_code(0);
    home.run(&["agent", "--new", "-m", "What can you do?"]).expect_code(0);
    let piped = home.run(&["resume"]).expect_code(0);
    let name =
        piped.err.lines().find_map(|line| line.split_once("of this folder is ")?.1.split_once(',')).expect("a name").0;
    assert!(name.ends_with("-2") && piped.err.contains("`limulus agent -c -m TEXT` continues it"), "{piped:?}");
    let elsewhere = home.limulus(&["resume"]).current_dir(Path::new("/")).output().expect("limulus can be started");
    assert!(!String::from_utf8_lossy(&elsewhere.stderr).contains("of this folder"), "{elsewhere:?}");
    if !Terminal::is_there() {
        return;
    }
    for (typed, runs) in [(&["Enter"][..], 2), (&["Who are you?", "Enter"], 3)] {
        let terminal = Terminal::run(&home, &["resume"]);
        terminal.until("a message continues it");
        terminal.type_keys(typed);
        terminal.until("exit=0");
        assert_eq!(home.json(&["runs", "list"]).as_array().unwrap().len(), runs);
    }
    let shown = home.json(&["sessions", "show", name]);
    assert_eq!(shown["transcript"].as_array().unwrap().iter().filter(|item| item["role"] == "user").count(), 2);
}
