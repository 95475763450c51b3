//! What reaches a real terminal, byte for byte: nothing that it obeys, whoever wrote it.

use std::fs;

use model_server::ModelServer;
use serde_json::json;

use crate::support::{Home, Terminal, answered, refused, serve_whole};

/// All that a text can try: sequences that write the clipboard, the title and the screen, in both forms, and every single
/// character that is obeyed, reorders text or is invisible.
fn hostile() -> String {
    let sequences =
        "\u{1b}]52;c;aGFjaw==\u{7}\u{1b}]0;title\u{1b}\\\u{1b}[2J\u{1b}[H\u{1b}c\u{9b}2J\u{9d}0;t\u{9c}\u{90}q\u{9c}";
    let controls = (1..=0x1f_u32).chain(0x7f..=0x9f).filter(|c| *c != 0x0a && *c != 0x09);
    let invisible = [0xad, 0x61c, 0x180e, 0xfeff, 0x2028, 0x2029, 0xe0001, 0xe0041, 0xe0100]
        .into_iter()
        .chain(0x200b..=0x200f)
        .chain(0x202a..=0x202e)
        .chain(0x2060..=0x2069);
    let single: String = controls.chain(invisible).filter_map(char::from_u32).collect();
    format!("{sequences}{single}")
}

/// What this program sends to a terminal, beside going left some cells. The last two mark what is pasted.
const OWN: [&str; 15] = [
    "\x1b[1A\x1b[2K",
    "\r\x1b[2K",
    "\r\x1b[J",
    "\x1b[0m",
    "\x1b[1m",
    "\x1b[2m",
    "\x1b[3m",
    "\x1b[4m",
    "\x1b[31m",
    "\x1b[32m",
    "\x1b[33m",
    "\x1b[35m",
    "\x1b[36m",
    "\x1b[?2004h",
    "\x1b[?2004l",
];

/// Checks that a terminal received no control character but those of this program.
#[track_caller]
fn assert_harmless(recorded: &[u8]) {
    let mut text = String::from_utf8(recorded.to_vec()).expect("UTF-8").replace("\r\n", "\n");
    for left in (1..100).map(|cells| format!("\x1b[{cells}D")) {
        text = text.replace(&left, "");
    }
    for own in OWN {
        text = text.replace(own, "");
    }
    let is_bad = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c as u32, 0xad | 0x61c | 0x180e | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x2069 | 0xfeff | 0xe0000..=0xe0fff)
    };
    if let Some((at, c)) = text.char_indices().find(|(_, c)| is_bad(*c)) {
        panic!(
            "{:?} in: {:?}",
            c,
            text[..at].chars().rev().take(200).collect::<Vec<_>>().iter().rev().collect::<String>()
        );
    }
}

fn event(delta: &serde_json::Value) -> String {
    format!("data: {}\n\n", json!({ "choices": [{ "index": 0, "delta": delta }] }))
}

/// An answer of a model whose text and calls are hostile: an unknown tool, a command, and a path outside the workspace.
fn calls(hostile: &str) -> String {
    let call = |index: usize, name: &str, arguments: &serde_json::Value| {
        let function = json!({ "name": name, "arguments": arguments.to_string() });
        let call = json!({ "index": index, "id": format!("call_{index}"), "type": "function", "function": function });
        event(&json!({ "tool_calls": [call] }))
    };
    // The text comes character by character: every sequence is cut everywhere.
    let text: String = hostile.chars().map(|c| event(&json!({ "content": c.to_string() }))).collect();
    let path = format!("/nowhere/h\r\u{1b}[2K? allow: read README.md {hostile}");
    let calls = [
        call(0, &format!("made up {hostile}"), &json!({ "x": hostile })),
        call(1, "ls", &json!({ "path": "." })),
        call(2, "exec", &json!({ "command": format!("true '{hostile}'\n? allow: read README.md [y/N] y") })),
        call(3, "read", &json!({ "path": path })),
    ];
    let end = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";
    format!("{text}{}{end}", calls.concat())
}

#[test]
fn r44_no_byte_from_outside_is_obeyed_by_a_terminal() {
    if !Terminal::is_there() {
        return;
    }
    let bad = hostile();
    let error = json!({ "error": { "message": format!("no such thing {bad}\n✓ all is well"), "type": "invalid_request_error" } });
    let (address, _bodies) = serve_whole([answered(&calls(&bad)), refused(400, &error)]);
    let home = Home::new().served_at(&address);
    // A machine that is slow would have the bell ring.
    let home = home.with("LIMULUS_NOTIFY__AFTER_S", "off");
    let name: String = bad.chars().filter(|c| *c != '/').take(60).collect();
    fs::write(home.file(&name), "x").unwrap();
    home.run(&["agent", "-m", "/verbose on"]).expect_code(0);

    let key = format!("a{bad}");
    let key: Vec<&str> = vec!["agent", "--session", &key, "-m", "x"];
    let value = format!("--{bad}");
    let workspace = format!("/nowhere/{bad}");
    let terminal = Terminal::record(
        &home,
        &[
            &["agent", "-m", &format!("what is here? {bad}")],
            &["sessions", "show"],
            &["sessions", "show", "--json"],
            &["sessions", "list"],
            &["runs", "show"],
            &["runs", "show", "--json"],
            &["runs", "trace"],
            &["runs", "list"],
            &["audit"],
            &["events"],
            &["status"],
            &key,
            &["runs", "show", &bad],
            &["receipt", &bad],
            &["agent", &value],
            &[&bad],
            &["agent", "--mode", &bad, "-m", "x"],
            &["agent", "--model", &bad, "-m", "x"],
            &["agent", "--workspace", &workspace, "-m", "x"],
            &["events", "--from", &bad],
        ],
    );
    // The command and the path outside are asked, one after the other.
    for asked in ["run the command", "read /nowhere"] {
        terminal.until(asked);
        terminal.until("lines? [y/n/a/?]");
        terminal.type_keys(&["n", "Enter"]);
    }
    terminal.until("all=done");
    let recorded = fs::read(home.user().join("recorded")).unwrap();
    let shown = String::from_utf8_lossy(&recorded);
    for part in ["made up", "no such thing", r"\u001b]52", r"\u009b2J", r"\u202e", "is not a session key", "mkdir"] {
        assert!(shown.contains(part), "{part} was not shown: {shown}");
    }
    assert_harmless(&recorded);
    let marks = |mark: &str| shown.matches(mark).count();
    assert!(
        marks("\x1b[?2004h") > 0 && marks("\x1b[?2004h") == marks("\x1b[?2004l"),
        "pastes are marked at the end too"
    );
}

/// R24: a tip that repeats an argument is one line, also in a pipe.
#[test]
fn r24_a_tip_shows_an_argument_as_one_line() {
    let home = Home::new();
    let err = |option: &str| home.run(&["agent", option]).expect_code(2).err;
    let (plain, hostile) = (err("--bogus-option"), err("--bogus\u{202e}\noption"));
    assert!(plain.contains("to pass '--bogus-option' as a value"), "{plain}");
    assert!(hostile.contains(r"to pass '--bogus\u202e\noption' as a value"), "{hostile}");
    assert_eq!(hostile.lines().count(), plain.lines().count(), "{hostile}");
}

/// R09: on a terminal a call is one line as in a shell, or a sentence, and a failed command shows the end of its output.
#[test]
fn r09_a_terminal_shows_a_failed_command_with_its_last_lines_and_a_read_as_a_sentence() {
    if !Terminal::is_there() {
        return;
    }
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    home.put("calc.py", "1\n".repeat(40));
    let command = "for i in 1 2 3 4 5 6 7 8 9 10 11; do echo line $i; done; exit 7";
    let script = format!("exec:{command}\ncall:read {{\"path\":\"calc.py\"}}\ntokens=2");
    let screen = Terminal::run(&home, &["agent", "--yes", "-m", &script]).until("exit=0");
    assert!(screen.contains(&format!("$ {}", &command[..20])), "{screen}");
    for part in ["✗ exit 7 · ", "│ …", "│ line 4", "│ line 11", "Read calc.py (40 lines)"] {
        assert_eq!(screen.matches(part).count(), 1, "{part}: {screen}");
    }
    assert!(
        !screen.contains("│ line 3\n")
            && !screen.contains("[exit status")
            && !screen.contains("exec {")
            && !screen.contains("read {"),
        "{screen}"
    );
}

#[test]
fn r44_a_pipe_gets_an_answer_as_it_is() {
    let bad = hostile();
    let text = format!(
        "data: {}\n\n",
        json!({ "choices": [{ "index": 0, "delta": { "content": bad }, "finish_reason": "stop" }] })
    );
    let (address, _bodies) = serve_whole([answered(&format!("{text}data: [DONE]\n\n"))]);
    let home = Home::new().served_at(&address);
    let answer = home.run(&["agent", "-m", "hi"]).expect_code(0);
    assert!(answer.out.contains(&bad), "{:?}", answer.out);
}

#[test]
fn r50_a_tool_name_of_megabytes_is_kept_and_shown_bounded() {
    let name = "x".repeat(5 << 20);
    let function = json!({ "name": name, "arguments": "{}" });
    let call = json!({ "tool_calls": [{ "index": 0, "id": "call_1", "type": "function", "function": function }] });
    let end = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";
    let done = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"so\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let (address, bodies) = serve_whole([answered(&format!("{}{end}", event(&call))), answered(done)]);
    let home = Home::new().served_at(&address);
    let answer = home.run(&["agent", "-m", "hi"]).expect_code(0);
    assert!(answer.err.len() < 4_000 && answer.err.contains("xxx"), "{} bytes", answer.err.len());
    assert!(home.run(&["runs", "show"]).expect_code(0).out.len() < 8_000);
    let sent: usize = bodies.iter().map(|body| body.to_string().len()).sum();
    assert!(sent < 200_000, "{sent} bytes went back");
    assert!(crate::support::size_of(&home.path()) < 3 << 20, "it is not kept");
}
