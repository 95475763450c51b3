//! Who has the terminal: nothing is drawn over what another process writes, and a dumb terminal gets lines only.

use model_server::ModelServer;

use crate::support::{Home, Terminal};

fn is_spinner(line: &str) -> bool {
    line.starts_with(|c| ('\u{2800}'..='\u{28ff}').contains(&c))
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
        terminal.until("[y/N]");
        terminal.type_keys(&["y", "Enter"]);
        let screen = terminal.until("all=done");
        assert!(screen.contains("exit=0") && screen.contains("✗ exec failed · exit 3"), "{screen}");
        assert!(screen.contains("word0 word1") && !screen.lines().any(is_spinner), "{screen}");
        assert!(home.text("ledger").contains("asked"));
        let recorded = std::fs::read_to_string(home.user().join("recorded")).unwrap().replace("\r\n", "\n");
        assert!(!recorded.contains(|c: char| c.is_control() && c != '\n'), "{recorded:?}");
    }
}
