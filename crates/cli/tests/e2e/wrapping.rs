//! How lines beside an answer fit the terminal: words are wrapped, nothing is cut off, and a command's colours are left out.

use model_server::ModelServer;

use crate::support::{Home, Terminal};

/// The cells that a row may have at most: these texts have no characters that take two.
fn longest(screen: &str) -> usize {
    screen.lines().map(|line| line.chars().count()).max().unwrap_or_default()
}

/// R09: the limit that ended a command is shown whole, with the key that sets it, in any terminal.
#[test]
pub(crate) fn r09_the_limit_that_ended_a_command_is_shown_whole_with_its_key() {
    if !Terminal::is_there() {
        return;
    }
    let server = ModelServer::start().unwrap();
    for (columns, rows) in [
        (
            80,
            "  │ [its limit was reached: 1 s for one call (tools.timeout_s); a command may\n  │ ask for up to 3600 s with timeout_s]\n",
        ),
        (
            40,
            "  │ [its limit was reached: 1 s for one\n  │ call (tools.timeout_s); a command\n  │ may ask for up to 3600 s with\n  │ timeout_s]\n",
        ),
    ] {
        let home = Home::new().served_by(&server).with("LIMULUS_TOOLS__TIMEOUT_S", "1");
        let words = ["agent", "--yes", "-m", "exec:sleep 30\ntokens=2"];
        let screen = Terminal::run_at(&home, columns, &words).until("exit=0");
        assert!(screen.contains("$ sleep 30   ✗ timed out · 1.") && screen.contains(rows), "{screen}");
    }
}

/// R09: calls, messages, steers and errors are wrapped between words by their cells.
#[test]
pub(crate) fn r09_all_lines_beside_an_answer_are_wrapped_between_words() {
    if !Terminal::is_there() {
        return;
    }
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    home.put("wait.sh", "until test -e go; do sleep 0.05; done");
    let script = "exec:sh wait.sh with some more words that take a second row\nexec:true\ntokens=2";
    let words = ["agent", "--session", "main", "--yes", "-m", script];
    let terminal = Terminal::run_at(&home, 40, &words);
    terminal.until("$ sh wait.sh with some more words that\n  │ take a second row\n");
    home.run(&["send", "--session", "main", "--mode", "steer", "看看 the other file 看看看看 too"]).expect_code(0);
    terminal.type_keys(&["and look into the third file for me", "Enter"]);
    terminal.until("› steer: and look into the third file\n  for me\n");
    home.put("go", "");
    let screen = terminal.until("exit=0");
    let message = "› you, from another terminal: 看看 the\n  other file 看看看看 too\n";
    assert!(screen.contains(message) && longest(&screen) < 40, "{screen}");
    assert!(screen.contains("$ sh wait.sh with some more words that\n  │ take a second row   ✓ · "), "{screen}");
    let screen = Terminal::run_at(&home, 40, &["agent", "--workspace", "/nowhere/at/all", "-m", "x"]).until("exit=");
    let error = "limulus: the workspace /nowhere/at/all\n  is not a folder that exists\n  hint: create it (mkdir -p\n    \
                 '/nowhere/at/all'), or name another\n    folder\n";
    assert!(screen.starts_with(error), "{screen}");
}

/// R09: the colours of a command are left out of what is shown of it; nothing else that a terminal obeys is.
#[test]
pub(crate) fn r09_the_colours_of_a_command_are_left_out_and_other_controls_are_escaped() {
    if !Terminal::is_there() {
        return;
    }
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let coloured = r"printf '\033[1;31merror\033[0m: \033[38;5;9mno\033[m\033[2J such thing\n'";
    home.put("fail.sh", format!("{coloured}; until test -e go; do sleep 0.05; done; exit 3"));
    let terminal = Terminal::run(&home, &["agent", "--yes", "-m", "exec:sh fail.sh\ntokens=2"]);
    let row = "  │ error: no\\u001b[2J such thing\n";
    terminal.until(&format!("$ sh fail.sh\n{row}"));
    home.put("go", "");
    let screen = terminal.until("exit=0");
    assert!(screen.contains(" ✗ exit 3 · ") && screen.contains(row), "{screen}");
}
