//! `limulus sessions delete`: the session owes the erasure until it is done, whoever owns the home then.

use std::fs;

use model_server::ModelServer;
use serde_json::Value;

use crate::sessions::{MARKER, holding, list, row, say};
use crate::support::{Home, until};

/// The points at which a deletion is interrupted.
const POINTS: [&str; 5] = ["recorded", "erase_started", "erase_texts", "erase_index", "erase_done"];

/// A home in which a session said and did something with a word, and another session is older.
fn talked() -> Home {
    let home = Home::new();
    home.put("notes.txt", format!("{MARKER} in a file\n"));
    say(&home, "other", "hello");
    say(&home, "one", MARKER);
    say(&home, "one", "read notes.txt");
    say(&home, "one", "run `rm notes.txt`");
    assert!(list(&home, &["--search", MARKER]).contains(MARKER));
    assert!(holding(&home.path(), MARKER).iter().any(|file| file.contains("/files/")));
    home
}

/// Interrupts the deletion of the session at this point.
fn killed(home: Home, point: &str) -> Home {
    let home = home.with("LIMULUS_CRASHPOINT", point);
    let killed = home.run(&["sessions", "delete", "one", "--yes"]);
    assert!(!matches!(killed.code, Some(0)), "{point}: {killed:?}");
    home.without("LIMULUS_CRASHPOINT")
}

fn unfinished(home: &Home) -> Vec<Value> {
    home.json(&["status"])["unfinished"].as_array().expect("a list").clone()
}

/// R11, R21: after a kill at any point the session is unfinished work that says what is owed, and the next owner does it.
#[test]
pub(crate) fn r11_r21_a_kill_in_a_deletion_is_completed_by_the_next_owner() {
    for point in POINTS {
        let home = killed(talked(), point);
        let owed = unfinished(&home);
        assert_eq!(owed.len(), 1, "{point}");
        let waits_for = owed[0]["waitsFor"].as_str().or(owed[0]["waits_for"].as_str()).expect("what it waits for");
        assert!(waits_for.contains("erases its deleted conversation"), "{point}: {waits_for}");
        let doctor = home.run(&["doctor"]).expect_code(0).out;
        assert!(doctor.contains("agent:main:one") && doctor.contains("is deleted and not erased"), "{point}: {doctor}");
        home.run(&["resume"]).expect_code(0);
        assert!(unfinished(&home).is_empty(), "{point}");
        assert_eq!(holding(&home.path(), MARKER), Vec::<String>::new(), "{point}");
        assert!(row(&list(&home, &[]), "one").is_none(), "{point}");
        assert!(!home.run(&["doctor"]).expect_code(0).out.contains("not erased"), "{point}");
        home.run(&["audit", "one", "--verify"]).expect_code(0);
    }
}

/// R11, R21: a message after the kill begins the new conversation. Nothing of it is erased with the old one.
#[test]
pub(crate) fn r11_r21_a_message_after_a_killed_deletion_loses_nothing() {
    for point in POINTS {
        let home = killed(talked(), point);
        say(&home, "one", "a new beginning");
        assert_eq!(holding(&home.path(), MARKER), Vec::<String>::new(), "{point}");
        assert_eq!(home.json(&["sessions", "show", "one"])["transcript"].as_array().expect("it").len(), 3, "{point}");
        assert!(list(&home, &["--search", "beginning"]).contains("a new beginning"), "{point}");
        assert!(unfinished(&home).is_empty(), "{point}");
        home.run(&["doctor"]).expect_code(0);
    }
}

/// R10, R21: an erasure that fails is reported, holds up no message, and the next owner tries again.
#[test]
pub(crate) fn r10_r21_a_deletion_that_cannot_erase_says_so_and_the_next_owner_tries_again() {
    let home = talked();
    let index = home.path().join("search.db");
    fs::remove_file(&index).expect("it is there");
    fs::create_dir_all(index.join("in the way")).expect("a folder");
    let failed = home.run(&["sessions", "delete", "one", "--yes"]).expect_code(74);
    failed.expect_err("is not erased");
    let owed = unfinished(&home);
    assert!(owed.len() == 1 && owed[0].to_string().contains("it failed"), "{owed:?}");
    say(&home, "one", "a new beginning");
    assert_eq!(unfinished(&home).len(), 1, "it failed once more, and the message was answered");
    fs::remove_dir_all(&index).expect("it is removed");
    home.run(&["resume"]).expect_code(0);
    assert!(unfinished(&home).is_empty());
    assert_eq!(holding(&home.path(), MARKER), Vec::<String>::new());
    assert_eq!(home.json(&["sessions", "show", "one"])["transcript"].as_array().expect("it").len(), 3);
    assert!(list(&home, &["--search", "beginning"]).contains("a new beginning"));
}

/// R21: a command in the background that has ended is a part of the conversation: nothing of what it was asked and printed is left,
/// and calls of the next conversation work.
#[test]
pub(crate) fn r21_a_deletion_takes_what_background_commands_printed() {
    let server = ModelServer::start().expect("a server");
    for point in [None, Some("erase_started"), Some("recorded")] {
        let home = Home::new().served_by(&server);
        let command = format!("echo {MARKER}; until test -e go; do sleep 0.02; done");
        let asked = format!("call:exec {{\"command\": \"{command}\", \"background\": true}}\ntokens=2");
        home.run(&["agent", "--session", "one", "--yes", "-m", &asked]).expect_code(0);
        let processes = || home.json(&["sessions", "show", "one"])["processes"].to_string();
        home.put("go", "");
        until("its end", || home.exit_records() == 1);
        home.run(&["agent", "--session", "one", "--yes", "-m", "call:process {\"action\": \"list\"}\ntokens=2"])
            .expect_code(0);
        until("the record of its end", || processes().contains("ended"));
        assert!(holding(&home.path(), MARKER).iter().any(|file| file.contains("/calls/")), "{point:?}");
        let home = match point {
            None => {
                home.run(&["sessions", "delete", "one", "--yes"]).expect_code(0);
                home
            }
            Some(point) => {
                let home = killed(home, point);
                home.run(&["resume"]).expect_code(0);
                home
            }
        };
        assert_eq!(holding(&home.path(), MARKER), Vec::<String>::new(), "{point:?}");
        let next = home.run(&["agent", "--session", "one", "--yes", "-m", "exec:echo anew\ntokens=2"]).expect_code(0);
        assert!(!next.err.contains("not there"), "{point:?}: {next:?}");
        let shown = home.json(&["sessions", "show", "one"]);
        assert!(
            shown["transcript"].to_string().contains("anew") && shown["processes"].as_array().is_none_or(Vec::is_empty)
        );
        assert!(!fs::exists(home.path().join("calls")).unwrap() || home.exit_records() == 0, "{point:?}");
    }
}

/// R21: what another session has said too is found there alone, also in an index that is made anew.
#[test]
pub(crate) fn r21_a_search_finds_nothing_of_a_deleted_conversation_though_another_one_said_the_same() {
    let home = Home::new();
    for session in ["one", "other"] {
        say(&home, session, MARKER);
    }
    home.run(&["sessions", "delete", "one", "--yes"]).expect_code(0);
    say(&home, "one", "a new beginning");
    let _ = fs::remove_file(home.path().join("search.db"));
    let found = list(&home, &["--search", MARKER]);
    assert!(row(&found, "other").is_some() && row(&found, "one").is_none(), "{found}");
    assert!(row(&list(&home, &["--search", "beginning"]), "one").is_some());
}
