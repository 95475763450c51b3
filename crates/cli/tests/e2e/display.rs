//! What a person sees of a run beside its answer: its last line, the output of its calls, colours.

use model_server::ModelServer;
use serde_json::json;

use crate::support::{Home, Terminal};

fn write(path: &str) -> String {
    format!("call:write {}\ntokens=2", json!({ "path": path, "content": "x\n" }))
}

/// R09: on a terminal a run ends with what it took, what it changed, and the command that takes that back; a pipe gets no such line.
#[test]
pub(crate) fn r09_the_last_line_on_a_terminal_says_what_a_run_took_and_changed() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let piped = home.run(&["agent", "--session", "pipe", "-m", &write("p.txt")]).expect_code(0);
    assert!(!piped.err.lines().any(|line| line.starts_with("done · ")), "{piped:?}");
    if !Terminal::is_there() {
        return;
    }
    let terminal = Terminal::run(&home, &["agent", "-m", &write("a.txt")]);
    let screen = terminal.until("exit=0");
    let last = screen.lines().find(|line| line.starts_with("done · ")).unwrap_or_else(|| panic!("{screen}"));
    assert!(last.ends_with("out · changed a.txt · undo: limulus undo") && last.contains(" in"), "{last}");
    let terminal = Terminal::run(&home, &["agent", "--session", "work", "-m", &write("b.txt")]);
    terminal.until("changed b.txt · undo: limulus undo --session work");
    home.run(&["undo", "--session", "work"]).expect_code(0);
    assert!(home.file("a.txt").exists() && !home.file("b.txt").exists());
}

/// R09: with `-v`, or by the configuration, the output of every call is shown; without, that of failures on a terminal.
#[test]
pub(crate) fn r09_the_output_of_every_call_is_shown_if_a_person_wants_it() {
    let command = ["agent", "--yes", "-m", "run `seq 41 43`"];
    let row = "  │ 42";
    let shows = |home: &Home, words: &[&str]| home.run(words).expect_code(0).err.lines().any(|line| line == row);
    let home = Home::new();
    assert!(!shows(&home, &command));
    assert!(shows(&home, &[&command[..], &["-v"]].concat()));
    assert!(!shows(&home, &command), "it was for one command");
    let home = home.with("LIMULUS_DISPLAY__VERBOSE", "true");
    assert!(shows(&home, &command));
    let run = home.json(&["runs", "list"])[0]["run"].as_str().unwrap().to_owned();
    assert!(shows(&home, &["runs", "watch", &run, "--verbose"]) && !shows(&home, &["runs", "watch", &run]));
}

/// R09: all of it, however long: a model receives its two ends, and a line of the stream has less.
#[test]
pub(crate) fn r09_all_of_a_long_output_is_shown_if_a_person_wants_it() {
    let home = Home::new();
    for end in ["true", "exit 3"] {
        let shown = home.run(&["agent", "--yes", "-v", "-m", &format!("run `seq 1 30000; {end}`")]).expect_code(0).err;
        let numbers: Vec<&str> = shown.lines().filter_map(|line| line.strip_prefix("  │ ")).collect();
        assert!((1..=30_000).map(|number| number.to_string()).eq(numbers[..30_000].iter().copied()), "{end}");
        assert!(numbers.len() == 30_001 && numbers[30_000].starts_with("[exit status "), "{:?}", &numbers[29_999..]);
    }
    let run = home.json(&["runs", "list"])[0]["run"].as_str().unwrap().to_owned();
    let watched = home.run(&["runs", "watch", &run, "--verbose"]).expect_code(0).err;
    assert_eq!(watched.lines().filter(|line| *line == "  │ 15000").count(), 1);
    let shown = home.run(&["agent", "--yes", "-m", "run `seq 1 30000; exit 3`"]).expect_code(0).err;
    assert!(!shown.contains("  │ 15000\n"), "it is for who wants it");
    if !Terminal::is_there() {
        return;
    }
    let terminal = Terminal::run(&home, &["agent", "--yes", "-v", "-m", "run `seq 1 900`"]);
    terminal.until("exit=0");
    let history = terminal.history();
    assert!([1, 450, 900].iter().all(|row| history.contains(&format!("\n  │ {row}\n"))), "{history}");
}

/// R09: an edit is shown as a diff below its line, in colours where they are wanted; a pipe gets its counts.
#[test]
pub(crate) fn r09_an_edit_is_shown_as_a_diff_below_its_line() {
    let server = ModelServer::start().unwrap();
    let arguments = json!({ "path": "calc.py", "old_text": "a - b", "new_text": "a + b  # 好" });
    let script = format!("call:edit {arguments}\ntokens=2");
    let home = || {
        let home = Home::new().served_by(&server);
        home.put("calc.py", "def add(a, b):\n\treturn a - b\n");
        home
    };
    let piped = home().run(&["agent", "-m", &script]).expect_code(0);
    assert!(piped.err.lines().any(|line| line.starts_with("✓ edit done") && line.ends_with(" · +1 −1")), "{piped:?}");
    if !Terminal::is_there() {
        return;
    }
    let below =
        "Edit calc.py  +1 −1\n  @@ -1,2 +1,2 @@\n   def add(a, b):\n  -    return a - b\n  +    return a + b  # 好\n";
    for columns in [80, 200] {
        let home = home();
        let terminal = Terminal::run_at(&home, columns, &["agent", "-m", &script]);
        let screen = terminal.until("exit=0");
        assert!(screen.contains(below), "{columns}: {screen}");
        assert_eq!(screen.matches("Edit calc.py").count(), 1, "{screen}");
        let coloured = terminal.coloured_screen();
        assert!(coloured.contains("\u{1b}[32m  +    return a + b"), "{coloured:?}");
        assert!(coloured.contains("\u{1b}[31m  -    return a - b"), "{coloured:?}");
    }
    let home = home().with("NO_COLOR", "1");
    let terminal = Terminal::run(&home, &["agent", "-m", &script]);
    let screen = terminal.until("exit=0");
    let coloured = terminal.coloured_screen();
    assert!(screen.contains(below) && !coloured.contains('\u{1b}'), "{coloured:?}");
}

/// R09: a diff is bounded, and a watcher of a run that has ended is shown the same, also without an owner.
#[test]
pub(crate) fn r09_a_long_diff_is_bounded_and_is_shown_again_by_a_watcher() {
    if !Terminal::is_there() {
        return;
    }
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let arguments = json!({ "path": "long.txt", "content": "x\n".repeat(400) });
    home.run(&["agent", "-m", &format!("call:write {arguments}\ntokens=2")]).expect_code(0);
    std::fs::remove_file(home.file("long.txt")).unwrap();
    let run = home.json(&["runs", "list"])[0]["run"].as_str().unwrap().to_owned();
    let terminal = Terminal::run_at(&home, 80, &["runs", "watch", &run]);
    let screen = terminal.until("exit=0");
    assert!(!screen.contains("{\"content"), "{screen}");
    assert!(screen.contains("\n  +x\n  … 361 changed lines more: limulus diff\n"), "{screen}");
}

/// R09: while a command runs, its last lines are below it, one row each; they are gone when it has ended.
#[test]
pub(crate) fn r09_the_last_lines_of_a_running_command_are_below_it_and_go_with_its_end() {
    if !Terminal::is_there() {
        return;
    }
    let server = ModelServer::start().unwrap();
    let command = "seq 1 7; printf '%0300d\\n' 0; printf '好\\r\\033[2J'; until test -e go; do sleep 0.05; done";
    for (columns, colours) in [(80, ""), (200, ""), (80, "1")] {
        let home = Home::new().served_by(&server).with("NO_COLOR", colours);
        home.put("wait.sh", command);
        let words = ["agent", "--yes", "-m", "exec:sh wait.sh\ntokens=2"];
        let terminal = Terminal::run_at(&home, columns, &words);
        let row = format!("  │ {}…\n", "0".repeat(usize::from(columns) - 6));
        let screen = terminal.until(r"│ \u001b[2J");
        assert!(screen.contains(&format!("$ sh wait.sh\n  │ 5\n  │ 6\n  │ 7\n{row}")), "{screen}");
        assert!(!screen.contains("│ 4\n"), "{screen}");
        home.put("go", "");
        let screen = terminal.until("exit=0");
        assert!(screen.contains("$ sh wait.sh   ✓ · ") && !screen.contains('│'), "{screen}");
        assert_eq!(screen.matches("sh wait.sh").count(), 1, "{screen}");
    }
}

/// R09: a command that floods its output does not make its terminal flood.
#[test]
pub(crate) fn r09_a_flood_of_output_is_drawn_at_the_rate_of_frames() {
    if !Terminal::is_there() {
        return;
    }
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    home.put("flood.sh", "timeout 2 yes flood; exit 3");
    let terminal = Terminal::record(&home, &[&["agent", "--yes", "-m", "exec:sh flood.sh\ntokens=2"]]);
    let screen = terminal.until("all=done");
    assert!(screen.contains("✗ exit 3 · ") && screen.contains("  │ flood\n"), "{screen}");
    let recorded = std::fs::read_to_string(home.user().join("recorded")).unwrap();
    let frames = recorded.matches("sh flood.sh").count() + recorded.matches("tokens").count();
    assert!(recorded.len() < 64 << 10, "{} bytes, {frames} frames", recorded.len());
}

/// An answer with most of what Markdown has.
const MARKDOWN: &str = "# Sum\n\nIt is **one** `x` and [here](http://a.b) 好。\n\n```rust\nfn a() -> u8 {\n\t1 // one\n}\n```\n\n\
                        | n | sum |\n|---|----:|\n| a | 1 |\n| b | 20 |\n\n- item\n- other\n";

/// A model that gives this answer once, character by character.
fn answering(text: &str) -> String {
    let event =
        |delta: serde_json::Value| format!("data: {}\n\n", json!({ "choices": [{ "index": 0, "delta": delta }] }));
    let text: String = text.chars().map(|c| event(json!({ "content": c.to_string() }))).collect();
    let end = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    crate::support::serve_whole([crate::support::answered(&format!("{text}{end}"))]).0
}

/// R09: an answer is rendered on a terminal; without colours its marks stay, and a pipe or `raw` gets it as it is.
#[test]
pub(crate) fn r09_an_answer_is_rendered_on_a_terminal_and_is_raw_elsewhere() {
    let piped = Home::new().served_at(&answering(MARKDOWN)).run(&["agent", "-m", "x"]).expect_code(0);
    assert_eq!(piped.out, MARKDOWN);
    if !Terminal::is_there() {
        return;
    }
    let code = "```rust\nfn a() -> u8 {\n        1 // one\n}\n```\n\n";
    for columns in [80, 200] {
        let home = Home::new().served_at(&answering(MARKDOWN));
        let terminal = Terminal::run_at(&home, columns, &["agent", "-m", "x"]);
        let screen = terminal.until("exit=0");
        let expected = format!("# Sum\n\nIt is one x and here (http://a.b) 好。\n\n{code}");
        assert!(screen.contains(&expected), "{screen}");
        assert!(screen.contains("n    │  sum\n─────┼─────\na    │    1\nb    │   20\n\n- item\n- other\n"), "{screen}");
        let coloured = terminal.coloured_screen();
        for part in ["\u{1b}[1m# Sum", "\u{1b}[1mone", "\u{1b}[36mx", "fn\u{1b}[39m a() -> u8", "\u{1b}[2m// one"] {
            assert!(coloured.contains(part), "{part:?}: {coloured:?}");
        }
    }
    let home = Home::new().served_at(&answering(MARKDOWN)).with("NO_COLOR", "1");
    let screen = Terminal::run(&home, &["agent", "-m", "x"]).until("exit=0");
    assert!(
        screen.contains("It is **one** `x` and [here](http://a.b) 好。\n") && screen.contains("a    │    1"),
        "{screen}"
    );
    for raw in [&["--markdown", "raw"][..], &[]] {
        let home = Home::new().served_at(&answering(MARKDOWN)).with("LIMULUS_DISPLAY__MARKDOWN", "raw");
        let screen = Terminal::run(&home, &[&["agent", "-m", "x"], raw].concat()).until("exit=0");
        assert!(screen.contains("**one** `x`") && screen.contains("| n | sum |"), "{screen}");
    }
}

/// R09: what is open of an answer is on the screen while it streams, and nothing of it is there twice.
#[test]
pub(crate) fn r09_what_is_open_of_an_answer_is_shown_while_it_streams() {
    if !Terminal::is_there() {
        return;
    }
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let terminal = Terminal::run(&home, &["agent", "-m", "tokens=300 delay_ms=20"]);
    let screen = terminal.until("word10 ");
    assert!(!screen.contains("word200"), "it is there before its paragraph is whole: {screen}");
    let screen = terminal.until("exit=0");
    assert_eq!((screen.matches("word10 ").count(), screen.matches("word299").count()), (1, 1), "{screen}");
}

/// R09: a run that waits for long says what for, in the words of `runs explain`.
#[test]
pub(crate) fn r09_a_run_that_waits_for_long_says_what_for() {
    if !Terminal::is_there() {
        return;
    }
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let terminal = Terminal::run(&home, &["agent", "-m", "hang=1"]);
    terminal.until("request sent, waits for the first byte · ");
    let words = home.json(&["runs", "explain"])["waits_for"].as_str().unwrap().to_owned();
    let screen = terminal.until(&format!("waits for {words} · "));
    assert!(!screen.contains("request sent"), "{screen}");
    terminal.type_keys(&["C-c"]);
    terminal.until("exit=130");
}

/// R09: so do a command that runs for long and an answer that stalls, and neither while something of it comes.
#[test]
pub(crate) fn r09_a_long_command_and_a_stalled_answer_say_what_is_waited_for() {
    if !Terminal::is_there() {
        return;
    }
    let server = ModelServer::start().unwrap();
    let command = Home::new().served_by(&server);
    command.put("wait.sh", "until test -e go; do sleep 0.05; done");
    let runs = Terminal::run(&command, &["agent", "--yes", "-m", "exec:sh wait.sh\ntokens=2"]);
    let answer = Home::new().served_by(&server);
    let stalls = Terminal::run(&answer, &["agent", "-m", "tokens=20 stall=5x1"]);
    runs.until("running tools · ");
    stalls.until("streaming · ");
    for (home, terminal, words) in
        [(&command, &runs, "calls: exec (started)"), (&answer, &stalls, "the rest of an answer")]
    {
        let screen = terminal.until(&format!("waits for {words} · "));
        assert_eq!(home.json(&["runs", "explain"])["waits_for"], words);
        assert!(!screen.contains("running tools") && !screen.contains("streaming"), "{screen}");
    }
    command.put("go", "");
    runs.until("exit=0");
    stalls.type_keys(&["C-c"]);
    stalls.until("exit=130");
}

/// R09: a message that another terminal sends is shown where the run takes it, and one of this terminal is not shown again.
#[test]
pub(crate) fn r09_a_message_from_another_terminal_is_shown_where_it_takes_effect() {
    if !Terminal::is_there() {
        return;
    }
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    home.put("wait.sh", "until test -e go; do sleep 0.05; done");
    let script = "exec:sh wait.sh\nexec:true\ntokens=2";
    let terminal = Terminal::run_at(&home, 80, &["agent", "--session", "main", "--yes", "-m", script]);
    terminal.until("sh wait.sh");
    home.run(&["send", "--session", "main", "--mode", "steer", "look \u{1b}[2J here"]).expect_code(0);
    assert!(!terminal.screen().contains("from another"), "it waits");
    home.put("go", "");
    let screen = terminal.until("exit=0");
    let line = r"› you, from another terminal: look \u001b[2J here";
    assert_eq!((screen.matches("from another").count(), screen.matches(line).count()), (1, 1), "{screen}");
}

/// R09: colours follow `--color`, then the usual variables.
#[test]
pub(crate) fn r09_colours_are_written_where_they_are_wanted() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    home.run(&["agent", "-m", &write("a.txt")]).expect_code(0);
    let is_coloured = |home: &Home, words: &[&str]| home.run(words).expect_code(0).out.contains("\u{1b}[32m+x");
    assert!(!is_coloured(&home, &["diff"]), "a pipe gets none");
    assert!(is_coloured(&home, &["diff", "--color", "always"]) && is_coloured(&home, &["--color=always", "diff"]));
    let home = home.with("CLICOLOR_FORCE", "1");
    assert!(is_coloured(&home, &["diff"]) && !is_coloured(&home, &["diff", "--color", "never"]));
    let home = home.with("NO_COLOR", "1");
    assert!(!is_coloured(&home, &["diff"]));
    home.run(&["diff", "--color", "sometimes"]).expect_code(2);
}
