//! One conversation for each project: which folder has which, and how to choose another.

use std::fs;

use crate::support::{Finished, Home, Terminal, examples, is_as_shown, with_names};

/// A home in which commands that name no session mean that of their folder, as without a test.
fn home() -> Home {
    Home::new().without("LIMULUS_SESSION__DEFAULT")
}

/// Runs limulus in a folder below that of the user.
fn run_in(home: &Home, folder: &str, words: &[&str]) -> Finished {
    home.limulus(words).current_dir(home.user().join(folder)).output().expect("limulus can be started").into()
}

fn keys(home: &Home) -> Vec<String> {
    let sessions = home.json(&["sessions", "list"]);
    let keys = sessions.as_array().expect("a list").iter().map(|session| session["key"].as_str().expect("a key"));
    let mut keys: Vec<String> = keys.map(|key| key.strip_prefix("agent:main:").expect("of main").to_owned()).collect();
    keys.sort();
    keys
}

/// The name without its digits.
fn name(key: &str) -> &str {
    key.rsplit_once('-').map_or(key, |(name, _)| name)
}

fn make(home: &Home, folders: &[&str]) {
    for folder in folders {
        fs::create_dir_all(home.user().join(folder)).expect("a folder");
    }
}

/// R21, R31: each project has a conversation, wherever in it a command is given; a folder without one has its own.
#[test]
pub(crate) fn r21_each_project_has_a_conversation_of_its_own() {
    let home = home();
    make(&home, &["one/.git", "one/src", "two/.hg", "plain"]);
    for (folder, message) in [("one", "the first"), ("one/src", "the second"), ("two", "other"), ("plain", "none")] {
        run_in(&home, folder, &["agent", "-m", message]).expect_code(0);
    }
    let all = keys(&home);
    assert_eq!(all.iter().map(|key| name(key)).collect::<Vec<_>>(), ["one", "plain", "two"]);
    let shown = run_in(&home, "one/src", &["sessions", "show"]).expect_code(0);
    assert!(shown.out.contains("the first") && shown.out.contains("the second") && !shown.out.contains("other"));
    // Every command that means one session means that of its folder.
    let session = format!("agent:main:{}", all[2]);
    for words in [&["runs", "show", "--json"][..], &["budget", "show", "--json"], &["audit"], &["sessions", "context"]]
    {
        let shown = run_in(&home, "two", words).expect_code(0);
        assert!(shown.out.contains(&session) || words[0] == "sessions", "{words:?}: {shown:?}");
    }
    // A named folder and a named session count more than the current one.
    let there = home.user().join("two");
    run_in(&home, "one", &["agent", "--workspace", there.to_str().expect("UTF-8"), "-m", "from afar"]).expect_code(0);
    run_in(&home, "one", &["agent", "--session", "own", "-m", "named"]).expect_code(0);
    assert!(run_in(&home, "two", &["sessions", "show"]).expect_code(0).out.contains("from afar"));
    assert_eq!(keys(&home).len(), 4);
    run_in(&home, "one", &["send", "--mode", "followup", "later"]).expect_code(0);
    let waits = run_in(&home, "one", &["queue", "list"]).expect_code(0);
    assert!(waits.out.is_empty() || waits.out.contains(&all[0]) || waits.out.contains("nothing"), "{waits:?}");
}

/// R21: where the folder has no session yet, nobody has typed the name of which the error speaks.
#[test]
pub(crate) fn r21_a_folder_without_a_session_says_whose_name_it_is() {
    let home = home();
    make(&home, &["empty", "other"]);
    run_in(&home, "other", &["agent", "-m", "elsewhere"]).expect_code(0);
    let show = || run_in(&home, "empty", &["sessions", "show"]).expect_code(4);
    let hint = show().expect_err("so the session of this folder is called, and `limulus agent -m TEXT` begins it");
    assert!(!hint.err.contains("`main`"), "{hint:?}");
    run_in(&home, "empty", &["agent", "--session", "main", "-m", "of no folder"]).expect_code(0);
    show().expect_err("`main` is the one of no folder, and is there");
    run_in(&home, "empty", &["sessions", "show", "none"]).expect_code(4).expect_err("shows the sessions");
}

/// R21: another conversation of the same folder, and the one that was used last.
#[test]
pub(crate) fn r21_a_folder_may_have_further_conversations() {
    let home = home();
    make(&home, &["one/.git"]);
    let says = |words: &[&str]| {
        run_in(&home, "one", &[&["agent", "--json"], words, &["-m", "hello"]].concat()).expect_code(0).lines()[0]["session"]
            .as_str()
            .expect("a session")
            .to_owned()
    };
    let first = says(&["--new"]);
    assert_eq!(name(&first), "agent:main:one", "the first is its own");
    assert_eq!(says(&["--new"]), format!("{first}-2"));
    assert_eq!(says(&["--new"]), format!("{first}-3"));
    assert_eq!(says(&["-c"]), format!("{first}-3"));
    assert_eq!(says(&[]), first);
    assert_eq!(says(&["--continue"]), first);
    run_in(&home, "one", &["agent", "--new", "--session", "x", "-m", "hello"]).expect_code(2);
}

/// R21: with a fixed workspace, or by the setting, all folders share the conversation main.
#[test]
pub(crate) fn r21_a_fixed_workspace_has_one_conversation_for_all_folders() {
    let home = home();
    make(&home, &["one/.git", "two/.git"]);
    let fixed = home.user().join("two").display().to_string();
    let home = home.with("LIMULUS_AGENTS__MAIN__WORKSPACE", &fixed);
    run_in(&home, "one", &["agent", "-m", "hello"]).expect_code(0);
    let home = home.without("LIMULUS_AGENTS__MAIN__WORKSPACE").with("LIMULUS_SESSION__DEFAULT", "main");
    run_in(&home, "one", &["agent", "-m", "hello"]).expect_code(0);
    assert_eq!(keys(&home), ["main"]);
}

/// R09, R21: the first line on a terminal says where one is; the first time in a folder, that the other conversation is there.
#[test]
pub(crate) fn r21_a_terminal_says_which_conversation_it_is() {
    if !Terminal::is_there() {
        return;
    }
    let home = home();
    make(&home, &["workspace/.git"]);
    home.run(&["agent", "--session", "main", "-m", "hello"]).expect_code(0);
    let first = Terminal::run(&home, &["agent", "-m", "hello"]).until("exit=0");
    let line = first.lines().next().expect("a line");
    assert!(
        line.starts_with("offline/offline · ~/workspace · session workspace-") && line.ends_with(" (new)"),
        "{first}"
    );
    assert!(first.contains("the one of all folders is still there: --session main"), "{first}");
    let second = Terminal::run(&home, &["agent", "-m", "hello"]).until("exit=0");
    assert!(second.lines().next().expect("a line").ends_with(" (1 message)"), "{second}");
    assert!(!second.contains("still there"), "{second}");
}

/// R21: the same where nobody watches.
#[test]
pub(crate) fn r21_a_pipe_is_told_once_that_the_other_conversation_is_there() {
    let home = home();
    make(&home, &["workspace/.git"]);
    home.run(&["agent", "--session", "main", "-m", "hello"]).expect_code(0);
    let said = "the one of all folders is still there: --session main";
    let first = home.run(&["agent", "-m", "hello"]).expect_code(0);
    assert!(first.err.contains(said) && !first.err.contains("~/workspace"), "{first:?}");
    assert!(!home.run(&["agent", "-m", "hello"]).expect_code(0).err.contains(said));
}

/// A message that is repeated with its key is the same message, also if each call asks for a new conversation.
#[test]
pub(crate) fn a3_r61_the_same_key_begins_one_new_session_of_the_folder() {
    let home = home();
    make(&home, &["one", "two"]);
    let says = |folder: &str, words: &[&str]| {
        let lines =
            run_in(&home, folder, &[&["agent", "--json", "-m", "hello"], words].concat()).expect_code(0).lines();
        let end = lines.last().expect("an end");
        let of_end = |name: &str| end[name].as_str().expect("a name").to_owned();
        (of_end("session"), of_end("run"))
    };
    let first = says("one", &["--new", "--key", "a"]);
    assert_eq!(says("one", &["--new", "--key", "a"]), first, "in a folder without a session");
    let second = says("one", &["--new", "--key", "b"]);
    assert_ne!(second.0, first.0);
    says("one", &["--new"]);
    assert_eq!(says("one", &["--new", "--key", "b"]), second);
    assert_eq!(says("one", &["--continue", "--key", "b"]), second);
    assert_ne!(says("two", &["--new", "--key", "b"]), second, "a key belongs to its folder");
    assert_eq!(home.json(&["sessions", "list"]).as_array().map(Vec::len), Some(4));
    let other = run_in(&home, "one", &["agent", "--new", "--key", "b", "-m", "other"]).expect_code(3).verdict();
    assert!(other.contains("key `b` was used for another message"), "{other}");
}

/// Every example of docs/sessions.md is executed, in order in one folder. Of `agent`, the answer is compared.
#[test]
pub(crate) fn the_examples_of_the_page_about_sessions_are_true() {
    let home = home();
    make(&home, &["proj/.git", "proj/src"]);
    let examples = examples("sessions.md");
    assert!(examples.len() > 15, "the page has examples");
    let user = home.user().display().to_string();
    let mut own = None;
    for (line, shown) in examples {
        let ended = home.shell(&format!("cd ../proj; {}", line.replace("limulus", "\"$LIMULUS\"")));
        assert_eq!(ended.code, Some(0), "{line}: {ended:?}");
        let err = if line.starts_with("limulus agent") { "" } else { &ended.err };
        let printed = with_names(&(ended.out.clone() + err)).replace(&user, "~");
        let own = own.get_or_insert_with(|| keys(&home).into_iter().next().expect("the first command begins it"));
        let printed = printed.replace(own.as_str(), "proj-1f6ab2");
        assert!(is_as_shown(&printed, &shown), "$ {line}\nprints\n{printed}\nand not\n{shown}");
    }
}
