//! Who has the terminal: nothing is drawn over what another process writes, and a dumb terminal gets lines only.

use model_server::ModelServer;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Home, Terminal, until};

/// A command that writes without end until the file `go` is there, and says how often in the file `beats`.
const WRITES: &str = "run `echo $$ >> pids; until test -e go; do echo live-output; echo x >> beats; sleep 0.02; done`";

fn beats(home: &Home) -> usize {
    home.text("beats").len()
}

fn is_spinner(line: &str) -> bool {
    line.starts_with(|c| ('\u{2800}'..='\u{28ff}').contains(&c))
}

fn has_footer(screen: &str) -> bool {
    screen.contains("live-output\n") && screen.lines().any(is_spinner)
}

/// R15: after `bg` nothing is drawn over the prompt of the shell; after `fg` it is drawn again.
#[test]
pub(crate) fn r15_nothing_is_drawn_over_the_prompt_of_a_shell_while_in_the_background() {
    if !Terminal::is_there() {
        return;
    }
    let home = Home::new();
    let script = "LIMULUS; echo is=stopped; read go; bg; printf '\\nprompt: '; read go; fg; echo exit=$?; cat";
    let terminal = Terminal::script(&home, script, &["agent", "--yes", "-m", WRITES]);
    until("its rows", || has_footer(&terminal.screen()));
    terminal.type_keys(&["C-z"]);
    terminal.until("is=stopped");
    terminal.type_keys(&["Enter"]);
    terminal.until("prompt: ");
    let before = beats(&home);
    until("a second of output", || beats(&home) > before + 100);
    terminal.type_keys(&["for the shell"]);
    let screen = terminal.until("prompt: for the shell");
    assert!(screen.trim_end().ends_with("\nprompt: for the shell") && !screen.lines().any(is_spinner), "{screen}");
    assert_eq!(screen.matches("live-output\n").count(), 0, "{screen}");
    terminal.type_keys(&["Enter"]);
    until("its rows", || has_footer(&terminal.screen()));
    home.put("go", "");
    let screen = terminal.until("exit=0");
    assert!(screen.contains("prompt: for the shell\n") && !screen.lines().any(is_spinner), "{screen}");
}

/// R15: nor is an answer that is shown as it is written, until its line is whole.
#[test]
pub(crate) fn r15_no_part_of_a_line_is_written_behind_the_prompt_of_a_shell() {
    if !Terminal::is_there() {
        return;
    }
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let script = "LIMULUS; echo is=stopped; read go; bg; printf '\\nprompt: '; read go; fg; echo exit=$?; cat";
    let words = ["agent", "--markdown", "raw", "-m", "tokens=300 delay_ms=20"];
    let terminal = Terminal::script(&home, script, &words);
    terminal.until("word5 ");
    terminal.type_keys(&["C-z"]);
    terminal.until("is=stopped");
    terminal.type_keys(&["Enter"]);
    terminal.until("prompt: ");
    for key in "for the shell".split(' ') {
        terminal.type_keys(&[key]);
        terminal.until(key);
    }
    let screen = terminal.until("prompt: fortheshell");
    assert!(screen.trim_end().ends_with("prompt: fortheshell"), "{screen}");
    terminal.type_keys(&["Enter"]);
    let screen = terminal.until("exit=0");
    assert!(screen.contains("word299"), "{screen}");
}

/// R12: an answer that is retracted while another process has the terminal stays, with a note: nothing above it is erased.
#[test]
pub(crate) fn r12_an_answer_above_the_prompt_of_a_shell_is_not_erased() {
    if !Terminal::is_there() {
        return;
    }
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let script = "LIMULUS; echo is=stopped; read go; bg; printf '\\nprompt: '; read go; fg; echo exit=$?; cat";
    let words = ["agent", "--markdown", "raw", "-m", "cut=40x1 tokens=44 delay_ms=50"];
    let terminal = Terminal::script(&home, script, &words);
    terminal.until("word5 ");
    terminal.type_keys(&["C-z"]);
    terminal.until("is=stopped");
    terminal.type_keys(&["Enter"]);
    let screen = terminal.until("… the last answer was taken back; what follows replaces it");
    assert!(screen.contains("word5 ") && screen.contains("is=stopped") && screen.contains("prompt: "), "{screen}");
    terminal.type_keys(&["Enter"]);
    let screen = terminal.until("exit=0");
    assert_eq!((screen.matches("word43").count(), screen.matches("is=stopped").count()), (1, 1), "{screen}");
}

/// R15: after a stop from outside nothing is erased of what the shell wrote meanwhile.
#[test]
fn r15_what_a_shell_wrote_during_a_stop_stays() {
    if !Terminal::is_there() {
        return;
    }
    let home = Home::new();
    let script = "LIMULUS; echo is=stopped; read go; fg; echo exit=$?; cat";
    let terminal = Terminal::script(&home, script, &["agent", "--yes", "-m", WRITES]);
    until("its rows", || has_footer(&terminal.screen()));
    let pid = home.json(&["status"])["owner"]["pid"].as_i64().expect("an owner");
    let pid = Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("a pid is not 0");
    kill_process(pid, Signal::STOP).expect("it runs");
    terminal.until("is=stopped");
    terminal.type_keys(&["Enter"]);
    let shown = |screen: &str| screen.rsplit_once("is=stopped").is_some_and(|(_, after)| has_footer(after));
    until("its rows below", || shown(&terminal.screen()));
    home.put("go", "");
    let screen = terminal.until("exit=0");
    // The shell writes the command.
    let after = screen.rsplit_once("is=stopped").unwrap_or_else(|| panic!("{screen}")).1;
    assert!(after.contains("LIMULUS_SESSION__DEFAULT") && after.contains("sleep 0.02; done"), "{screen}");
}

/// R09: a dumb terminal gets lines as a pipe does, and a question can be answered there.
#[test]
pub(crate) fn r09_a_dumb_terminal_gets_lines_only_and_asks() {
    if !Terminal::is_there() {
        return;
    }
    let server = ModelServer::start().unwrap();
    for term in ["dumb", ""] {
        let home = Home::new().served_by(&server).with("TERM", term);
        let script = "exec:echo \\\\033[2Jasked > ledger; sleep 0.5; exit 3\ntokens=30 delay_ms=10";
        let terminal = Terminal::record(&home, &[&["agent", "-m", script]]);
        terminal.until("[y/N/a/?]");
        terminal.type_keys(&["y", "Enter"]);
        let screen = terminal.until("all=done");
        assert!(screen.contains("exit=0") && screen.contains("✗ exec failed · exit 3"), "{screen}");
        assert!(screen.contains("word0 word1") && !screen.lines().any(is_spinner), "{screen}");
        assert!(home.text("ledger").contains("asked"));
        let recorded = std::fs::read_to_string(home.user().join("recorded")).unwrap().replace("\r\n", "\n");
        assert!(!recorded.contains(|c: char| c.is_control() && c != '\n'), "{recorded:?}");
    }
}

/// R09: what of an answer comes after the terminal has changed its size is wrapped for the new one.
#[test]
pub(crate) fn r09_an_answer_goes_on_in_the_new_width_of_the_terminal() {
    if !Terminal::is_there() {
        return;
    }
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let terminal = Terminal::run(&home, &["agent", "-m", "tokens=150 delay_ms=20"]);
    terminal.until("word10 ");
    terminal.resize(40, 30);
    let screen = terminal.until("exit=0");
    let rows: Vec<&str> = screen.lines().filter(|line| line.contains("word")).collect();
    assert!(rows.len() > 20 && rows.iter().all(|row| row.len() < 40), "{screen}");
}

/// R15: rows that a narrower terminal has wrapped are erased whole, also those of a running command and of its line.
#[test]
pub(crate) fn r15_a_terminal_that_becomes_narrower_keeps_no_row_of_a_running_command() {
    if !Terminal::is_there() {
        return;
    }
    for (columns, rows) in [(40, 30), (60, 16)] {
        let home = Home::new();
        let line = "x".repeat(120);
        let beat = format!("echo {line}; echo x >> beats");
        let write = format!(
            "for i in 1 2 3 4 5 6; do {beat}; done; until test -e on; do sleep 0.02; done; \
             until test -e go; do {beat}; sleep 0.02; done"
        );
        home.put("write.sh", write);
        // Where rows are free below the cursor, tmux keeps them, and what is above scrolls away instead.
        let script = "seq 1 40; LIMULUS; echo exit=$?; cat";
        let message = "run `sh write.sh and some words more so that its line is longer than the new width`";
        let terminal = Terminal::script(&home, script, &["agent", "--yes", "-m", message]);
        until("its rows", || terminal.screen().matches("xxx…\n").count() == 5);
        // A frame that is on its way to the terminal when it becomes narrower is wrapped by it, and nobody can erase that.
        // So the command is silent, and the next frame of the spinner is as far away as it can be.
        let spinner = || terminal.screen().lines().find(|line| is_spinner(line)).and_then(|line| line.chars().next());
        let first = spinner();
        until("the next frame", || spinner() != first);
        terminal.resize(columns, rows);
        home.put("on", "");
        let before = beats(&home);
        until("more output", || beats(&home) > before + 50);
        let history = terminal.history();
        assert_eq!(history.lines().filter(|line| is_spinner(line)).count(), 1, "{columns} {rows}: {history}");
        assert_eq!(history.matches("xxx…\n").count(), 5, "{columns} {rows}: {history}");
        home.put("go", "");
        terminal.until("exit=0");
        let history = terminal.history();
        assert!(!history.lines().any(is_spinner) && !history.contains("xxx…\n"), "{columns} {rows}: {history}");
        assert_eq!(history.matches("$ sh write.sh").count(), 1, "{columns} {rows}: {history}");
    }
}
