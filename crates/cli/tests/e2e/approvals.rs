//! Calls that need approval: they wait whoever is connected, outlive kill -9, and are answered once.

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Home, Process, Terminal, until};

const TOUCH: &str = "run `echo ran >> ledger`";

/// A service of this home.
fn serve(home: &Home) -> Process {
    let service = home.start(&["serve"]);
    service.until_err("serving");
    service
}

/// The open requests, once there are so many.
fn requests(home: &Home, many: usize) -> Vec<Value> {
    let mut listed = vec![];
    until("the requests are open", || {
        listed.clone_from(home.json(&["approvals", "list"]).as_array().expect("an array"));
        listed.len() == many
    });
    listed
}

fn id(request: &Value) -> &str {
    request["id"].as_str().expect("an id")
}

/// R60: asked, killed, restarted, answered: the tool runs exactly once, and a second answer is refused by name.
#[test]
fn r60_a_question_outlives_kill_9_and_its_call_runs_once() {
    let home = Home::new();
    let mut service = serve(&home);
    let waiting = home.start(&["agent", "-m", TOUCH]);
    waiting.until_err("limulus approvals approve");
    let asked = requests(&home, 1);
    for key in ["id", "call", "session", "run", "tool", "arguments", "what", "fingerprint", "asked_at", "expires_at"] {
        assert!(asked[0].get(key).is_some(), "{key}: {asked:?}");
    }
    for _ in 0..2 {
        service.signal(Signal::KILL);
        service.finish();
        assert_eq!(requests(&home, 1), asked, "it is open without an owner");
        service = serve(&home);
    }
    assert_eq!(requests(&home, 1), asked);
    assert_eq!(home.text("ledger"), "");
    let beginning = &id(&asked[0])[..5];
    let answer = home.run(&["approvals", "approve", beginning]).expect_code(0);
    assert!(answer.out.contains("approved: run the command `echo ran >> ledger`"), "{answer:?}");
    waiting.finish().expect_code(0);
    for again in [&["approvals", "approve", beginning][..], &["approvals", "deny", beginning]] {
        home.run(again).expect_code(3).expect_err("already approved by the user");
    }
    assert_eq!(home.text("ledger"), "ran\n");
    assert_eq!(home.json(&["approvals", "list", "--closed"])[0]["allowed"], true);
    service.signal(Signal::TERM);
    service.finish().expect_code(0);
}

/// R60: a command that runs its message by itself, and is to wait, is answered from elsewhere; without an owner an answer is
/// recorded, and whoever resumes the run obeys it.
#[test]
fn r60_an_answer_needs_no_process_that_runs() {
    let home = Home::new().with("LIMULUS_APPROVALS__UNATTENDED", "wait");
    let waiting = home.start(&["agent", "-m", TOUCH]);
    waiting.until_err("limulus approvals approve");
    let asked = requests(&home, 1);
    waiting.signal(Signal::KILL);
    waiting.finish();
    let answer = home.run(&["approvals", "approve", id(&asked[0])]).expect_code(0);
    assert!(answer.out.contains("limulus resume agent:main:"), "{answer:?}");
    assert_eq!(home.text("ledger"), "", "nothing runs it yet");
    home.run(&["approvals", "deny", id(&asked[0])]).expect_code(3).expect_err("already approved");
    home.run(&["resume"]).expect_code(0);
    assert_eq!(home.text("ledger"), "ran\n");
}

/// R60: several questions of one message wait at once, each bound to its call; the reason of a denial reaches the model.
#[test]
fn r60_several_questions_wait_at_once() {
    let home = Home::new();
    let _service = serve(&home);
    let waiting = home.start(&["agent", "-m", "run `echo one >> ledger` and run `echo two >> ledger`"]);
    waiting.until_err("limulus approvals approve");
    let first = requests(&home, 1);
    home.run(&["approvals", "deny", id(&first[0]), "--reason", "the first is not wanted"]).expect_code(0);
    let second = requests(&home, 1);
    assert_ne!(id(&first[0]), id(&second[0]));
    home.run(&["approvals", "approve", id(&second[0])]).expect_code(0);
    let answer = waiting.finish().expect_code(0);
    assert!(answer.out.contains("the first is not wanted"), "{answer:?}");
    assert_eq!(home.text("ledger"), "two\n");
}

/// R60: nobody answers in time: the call is denied, or stays open and is shown as overdue.
#[test]
fn r60_a_question_expires_as_configured() {
    let home = Home::new().with("LIMULUS_APPROVALS__EXPIRES_S", "1");
    let service = serve(&home);
    let answer = home.run(&["agent", "-m", TOUCH]).expect_code(0);
    assert!(answer.out.contains("nobody answered within 1 s"), "{answer:?}");
    service.signal(Signal::TERM);
    service.finish().expect_code(0);

    let home = home.with("LIMULUS_APPROVALS__ON_EXPIRY", "keep");
    let _service = serve(&home);
    let waiting = home.start(&["agent", "-m", TOUCH]);
    let asked = requests(&home, 1);
    assert!(asked[0]["expires_at"].as_i64() > asked[0]["asked_at"].as_i64(), "{asked:?}");
    waiting.until_err("nobody has answered in time");
    until("it is overdue", || home.run(&["approvals", "list"]).out.contains("overdue"));
    home.run(&["approvals", "approve", id(&asked[0])]).expect_code(0);
    waiting.finish().expect_code(0);
    assert_eq!(home.text("ledger"), "ran\n");
}

/// R60: what was approved for good is not asked again, says how much it has allowed, and can be revoked; a pattern that does
/// not allow the call grants nothing.
#[test]
fn r60_all_such_calls_are_allowed_until_that_is_revoked() {
    let home = Home::new().with("LIMULUS_APPROVALS__UNATTENDED", "wait");
    let service = serve(&home);
    let waiting = home.start(&["agent", "-m", "run `git log --oneline`"]);
    let asked = requests(&home, 1);
    let request = id(&asked[0]);
    let shown = home.run(&["approvals", "show", request]).expect_code(0);
    assert!(shown.out.contains("--always would allow exec `git log *`"), "{shown:?}");
    let other = ["approvals", "approve", request, "--always", "home", "--pattern", "git status *"];
    home.run(&other).expect_code(2).expect_err("do not allow the call");
    assert_eq!(home.json(&["approvals", "grants"]), serde_json::json!([]));
    let answer = home.run(&["approvals", "approve", request, "--always", "home"]).expect_code(0);
    assert!(answer.out.contains("from now on: exec `git log *`"), "{answer:?}");
    waiting.finish().expect_code(0);
    service.signal(Signal::KILL);
    service.finish();
    let _service = serve(&home);
    home.run(&["agent", "--session", "other", "-m", "run `git log -1`"]).expect_code(0);
    let grants = home.json(&["approvals", "grants"]);
    assert_eq!((grants[0]["allowed"].as_u64(), grants[0]["scope"].as_str()), (Some(1), Some("home")));
    let trace = home.run(&["runs", "trace", "--session", "other"]).expect_code(0);
    assert!(trace.out.contains(&format!("allowed by the grant {request}")), "{}", trace.out);
    home.run(&["approvals", "revoke", request]).expect_code(0);
    home.run(&["approvals", "revoke", request]).expect_code(4);
    let _waiting = home.start(&["agent", "--session", "other", "-m", "run `git log -1`"]);
    requests(&home, 1);
}

/// R60: a deny of the configuration holds in spite of a grant.
#[test]
fn r60_a_grant_allows_nothing_that_a_rule_denies() {
    let home = Home::new();
    let service = serve(&home);
    let waiting = home.start(&["agent", "-m", "run `echo ran >> ledger`"]);
    let asked = requests(&home, 1);
    home.run(&["approvals", "approve", id(&asked[0]), "--always", "home"]).expect_code(0);
    waiting.finish().expect_code(0);
    service.signal(Signal::TERM);
    service.finish().expect_code(0);
    std::fs::write(home.path().join("config.toml"), "[[policy]]\ndecision = \"deny\"\ncommand = \"echo *\"\n").unwrap();
    home.run(&["agent", "-m", TOUCH]).expect_code(0);
    assert_eq!(home.text("ledger"), "ran\n");
}

/// R60: a call runs with the arguments of whoever approves it, from the command line or an editor.
#[test]
fn r60_the_arguments_of_a_call_can_be_changed() {
    let home = Home::new();
    let _service = serve(&home);
    let waiting = home.start(&["agent", "-m", TOUCH]);
    let asked = requests(&home, 1);
    let request = id(&asked[0]);
    let with = |arguments: &str| home.run(&["approvals", "approve", request, "--arguments", arguments]);
    with("{").expect_code(2).expect_err("no JSON");
    with("[]").expect_code(2).expect_err("no JSON object");
    with(r#"{"comand":"ls"}"#).expect_code(2).expect_err("comand");
    with(r#"{"command":"echo changed >> ledger"}"#).expect_code(0);
    let answer = waiting.finish().expect_code(0);
    assert!(answer.out.contains("changed the arguments"), "{answer:?}");
    assert_eq!(home.text("ledger"), "changed\n");
    let shown = home.json(&["runs", "show"]);
    assert!(shown["steps"][0]["calls"][0].to_string().contains("echo ran >> ledger"), "both are kept: {shown}");

    let waiting = home.start(&["agent", "-m", "run `echo again >> ledger`"]);
    let asked = requests(&home, 1);
    home.run(&["approvals", "approve", id(&asked[0]), "--edit"]).expect_code(3).expect_err("EDITOR");
    let home = home.with("EDITOR", "sed -i s/again/edited/");
    home.run(&["approvals", "approve", id(&asked[0]), "--edit"]).expect_code(0);
    waiting.finish().expect_code(0);
    assert_eq!(home.text("ledger"), "changed\nedited\n");
}

/// R60: what names no request, or several, answers none.
#[test]
fn r60_an_id_that_names_no_request_answers_none() {
    let home = Home::new();
    assert_eq!(home.json(&["approvals", "list"]), serde_json::json!([]));
    let _service = serve(&home);
    let waiting = home.start(&["agent", "-m", TOUCH]);
    let asked = requests(&home, 1);
    for words in [&["approve", "zzz"][..], &["deny", "zzz"], &["show", "zzz"], &["approve", id(&asked[0]), "zzz"]] {
        home.run(&[&["approvals"], words].concat()).expect_code(4).expect_err("no approval request `zzz`");
    }
    home.run(&["approvals", "approve", ""]).expect_code(4);
    assert_eq!(requests(&home, 1), asked);
    home.run(&["runs", "abort"]).expect_code(0);
    waiting.finish().expect_code(130);
    home.run(&["approvals", "approve", id(&asked[0])]).expect_code(3).expect_err("already");
    assert_eq!(home.text("ledger"), "");
}

/// R60: on the terminal of a run, a reason and an approval for good, whose pattern is shown first.
#[test]
fn r60_a_terminal_denies_with_a_reason_and_allows_for_good() {
    if !Terminal::is_there() {
        return;
    }
    let home = Home::new();
    let terminal = Terminal::run(&home, &["agent", "-m", TOUCH]);
    terminal.until("[y/n/a/?]");
    terminal.type_keys(&["?"]);
    terminal.until("r says why not to the model");
    terminal.type_keys(&["r"]);
    terminal.until("? why not? the model receives it >");
    terminal.type_keys(&["keep", "Space", "it", "Enter"]);
    terminal.until("exit=0");
    drop(terminal);
    let call = &home.json(&["runs", "show"])["steps"][0]["calls"][0];
    assert!(call["outcome"] == "denied" && call.to_string().contains("keep it"), "{call}");
    let terminal = Terminal::run(&home, &["agent", "-m", TOUCH]);
    terminal.until("[y/n/a/?]");
    terminal.type_keys(&["a"]);
    terminal.until("all calls like it: exec `echo ran`, `> ledger` [s/a/h/e/n]");
    terminal.type_keys(&["Enter"]);
    terminal.until("those of this home");
    assert_eq!(home.text("ledger"), "", "Enter grants nothing");
    terminal.type_keys(&["s"]);
    terminal.until("exit=0");
    drop(terminal);
    assert_eq!(home.text("ledger"), "ran\n");
    assert_eq!(home.json(&["approvals", "grants"])[0]["scope"], "session");
    home.run(&["agent", "-m", TOUCH]).expect_code(0);
    assert_eq!(home.text("ledger"), "ran\nran\n", "nobody was asked");
}

/// R60: one key answers; Enter alone, a word that is typed at once, and other keys answer nothing.
#[test]
fn r60_one_key_answers_and_enter_does_not() {
    if !Terminal::is_there() {
        return;
    }
    for (key, ledger) in [("y", "ran\n"), ("n", "")] {
        let home = Home::new();
        let terminal = Terminal::run(&home, &["agent", "-m", TOUCH]);
        terminal.until("[y/n/a/?]");
        for (keys, hints) in [("Enter", 1), ("yes", 2), ("x", 3), ("Up", 4)] {
            terminal.type_keys(&[keys]);
            until("the hint", || terminal.screen().matches("y lets it run, n does not").count() == hints);
            assert_eq!(requests(&home, 1).len(), 1, "{keys} answers nothing");
        }
        terminal.type_keys(&[key]);
        terminal.until("exit=0");
        assert_eq!(home.text("ledger"), ledger, "{key}");
    }
}

/// R60: the pattern of an approval for good is edited before it is given, and one key says for whose calls it is.
#[test]
fn r60_a_terminal_edits_a_pattern_and_names_its_scope() {
    if !Terminal::is_there() {
        return;
    }
    let home = Home::new();
    let terminal = Terminal::run(&home, &["agent", "-m", TOUCH]);
    terminal.until("[y/n/a/?]");
    terminal.type_keys(&["a"]);
    terminal.until("[s/a/h/e/n]");
    terminal.type_keys(&["n"]);
    terminal.until("then it is asked about alone");
    terminal.type_keys(&["a"]);
    until("the patterns again", || terminal.screen().matches("[s/a/h/e/n]").count() == 2);
    terminal.type_keys(&["e"]);
    terminal.until("? the pattern instead of `echo ran` (Enter keeps it) >");
    terminal.type_keys(&["echo", "Space", "*", "Enter"]);
    terminal.until("? the pattern instead of `> ledger` (Enter keeps it) >");
    terminal.type_keys(&["Enter"]);
    terminal.until("all calls like it: exec `echo *`, `> ledger`");
    terminal.type_keys(&["h"]);
    terminal.until("exit=0");
    drop(terminal);
    let grant = &home.json(&["approvals", "grants"])[0];
    assert_eq!((&grant["scope"], &grant["commands"][0]), (&"home".into(), &"echo *".into()), "{grant}");
    home.run(&["agent", "--session", "other", "-m", "run `echo two >> ledger`"]).expect_code(0);
    assert_eq!(home.text("ledger"), "ran\ntwo\n");
}

/// R60: the arguments are changed in the editor of the user, which has the terminal as it was.
#[test]
fn r60_a_terminal_opens_the_arguments_in_an_editor() {
    if !Terminal::is_there() {
        return;
    }
    let home = Home::new();
    home.put("editor.sh", "stty -a > mode; test -e same || sed -i s/ran/edited/ \"$1\"\n");
    let home = home.with("EDITOR", "sh editor.sh");
    home.put("same", "");
    let terminal = Terminal::run(&home, &["agent", "-m", TOUCH]);
    terminal.until("[y/n/a/?]");
    terminal.type_keys(&["e"]);
    terminal.until("the arguments are as they were");
    let mode = home.text("mode");
    assert!(mode.contains(" icanon") && mode.contains(" echo "), "{mode}");
    assert_eq!(requests(&home, 1).len(), 1, "it still waits");
    home.shell("rm same").expect_code(0);
    terminal.type_keys(&["e"]);
    terminal.until("exit=0");
    assert_eq!(home.text("ledger"), "edited\n");
}

/// The refused answers of a session, in the words of its audit log.
fn refused(home: &Home, session: &str) -> Vec<String> {
    let lines = home.run(&["audit", "--session", session, "--json"]).expect_code(0).lines();
    let refused = lines.into_iter().filter(|line| line["event"] == "answer_refused");
    refused.map(|line| line["detail"].as_str().expect("a sentence").to_owned()).collect()
}

/// R60: an answer to what is closed, and one that is given with a scope or arguments, is refused and recorded with who gave it.
#[test]
fn r60_a_refused_answer_is_in_the_audit_log() {
    let home = Home::new();
    let _service = serve(&home);
    let waiting = home.start(&["agent", "-m", TOUCH]);
    let asked = requests(&home, 1);
    home.run(&["approvals", "deny", id(&asked[0])]).expect_code(0);
    waiting.finish().expect_code(0);
    assert_eq!(refused(&home, "main"), [""; 0]);
    for more in [&["approve"][..], &["approve", "--always", "home"], &["approve", "--arguments", "{}"], &["deny"]] {
        let refusing = home.run(&[&["approvals"], &more[..1], &[id(&asked[0])], &more[1..]].concat());
        refusing.expect_code(3).expect_err("already denied by");
    }
    let refused = refused(&home, "main");
    let is_whole =
        |detail: &String| detail.contains("asks nothing any more") && detail.contains("the user, on the terminal");
    assert!(refused.len() == 4 && refused.iter().all(is_whole), "{refused:?}");
    let trace = home.run(&["runs", "trace", "--session", "main"]).expect_code(0).out;
    assert!(trace.contains("an answer was refused") || trace.contains("ask_answered"), "{trace}");
    assert_eq!(home.json(&["approvals", "grants"]).as_array().map(Vec::len), Some(0));
}

/// R60: a command of a call is not the user: it answers nothing.
#[test]
fn r60_a_command_of_a_call_approves_nothing() {
    let home = Home::new();
    let _service = serve(&home);
    let _waiting = home.start(&["agent", "--session", "asks", "-m", TOUCH]);
    let asked = requests(&home, 1);
    let program = env!("CARGO_BIN_EXE_limulus");
    let home_of = home.path().display().to_string();
    let command = format!("run `LIMULUS_HOME={home_of} {program} approvals approve {} 2>&1`", id(&asked[0]));
    let answer = home.run(&["agent", "--session", "other", "--yes", "-m", &command]).expect_code(0);
    assert!(answer.out.contains("inside a tool call"), "{answer:?}");
    assert_eq!(requests(&home, 1), asked);
    let detail = refused(&home, "asks").pop().expect("it is recorded");
    assert!(detail.contains("a command of a call is not the user") && detail.contains("(limulus)"), "{detail}");
    assert_eq!(home.text("ledger"), "");
}

/// R60: nor does one that has become the owner of the home, because nobody owned it.
#[test]
fn r60_a_command_of_a_call_approves_nothing_without_an_owner_either() {
    let home = Home::new().with("LIMULUS_APPROVALS__UNATTENDED", "wait");
    let asking = home.start(&["agent", "--session", "asks", "-m", TOUCH]);
    asking.until_err("limulus approvals approve");
    let asked = requests(&home, 1);
    asking.signal(Signal::KILL);
    asking.finish();
    let (program, folder) = (env!("CARGO_BIN_EXE_limulus"), home.path().display().to_string());
    let approve = format!("LIMULUS_HOME={folder} {program} approvals approve {} > said 2>&1", id(&asked[0]));
    let command =
        format!("run `echo begun > begun; until test -e go; do sleep 0.02; done; {approve}; echo over >> said`");
    let owner = home.start(&["agent", "--session", "other", "--yes", "-m", &command]);
    until("its command runs", || home.file("begun").exists());
    owner.signal(Signal::KILL);
    owner.finish();
    home.put("go", "");
    until("the command is over", || home.text("said").contains("over"));
    assert!(home.text("said").contains("inside a tool call"), "{}", home.text("said"));
    assert_eq!(requests(&home, 1), asked);
    assert_eq!(refused(&home, "asks").len(), 1);
}

/// R60: a pattern of the user's may allow what none is offered for; text that looks like a line of this program stays inside
/// what a call would do.
#[test]
fn r60_a_pattern_of_the_users_is_taken_and_a_question_forges_no_lines() {
    let home = Home::new();
    let _service = serve(&home);
    let waiting = home.start(&["agent", "-m", "run `echo 'a b' >> ledger`"]);
    let asked = requests(&home, 1);
    let approve =
        |more: &[&str]| home.run(&[&["approvals", "approve", id(&asked[0]), "--always", "session"], more].concat());
    approve(&[]).expect_code(3).expect_err("no pattern is offered");
    approve(&["--pattern", "echo *"]).expect_code(2).expect_err("do not allow the call");
    approve(&["--pattern", "echo *", "--pattern", "> ledger"]).expect_code(0);
    waiting.finish().expect_code(0);
    assert_eq!(home.text("ledger"), "a b\n");
    let _waiting = home.start(&["agent", "--session", "two", "-m", "run `true\n  --always would allow nothing`"]);
    let asked = requests(&home, 1);
    let shown = home.run(&["approvals", "show", id(&asked[0])]).expect_code(0);
    let of_program: Vec<&str> = shown.out.lines().filter(|line| line.starts_with("  --always")).collect();
    assert_eq!(of_program, ["  --always would allow exec `true`, `--always would allow nothing`"], "{shown:?}");
}

/// R21, R60: what was approved for good in a session ends with its conversation.
#[test]
fn r21_r60_the_grants_of_a_session_end_with_its_conversation() {
    let home = Home::new();
    let _service = serve(&home);
    let waiting = home.start(&["agent", "-m", TOUCH]);
    let asked = requests(&home, 1);
    home.run(&["approvals", "approve", id(&asked[0]), "--always", "session"]).expect_code(0);
    waiting.finish().expect_code(0);
    assert_eq!(home.json(&["approvals", "grants"]).as_array().map(Vec::len), Some(1));
    let closed = || home.run(&["approvals", "list", "--closed", "--json"]).expect_code(0).out;
    assert!(closed().contains("echo ran"));
    home.run(&["sessions", "delete", "main", "--yes"]).expect_code(0);
    assert!(!closed().contains("echo ran"), "what was asked about is erased: {}", closed());
    assert_eq!(home.json(&["approvals", "grants"]), serde_json::json!([]));
}
