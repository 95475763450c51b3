//! Sessions as things: their list, their titles, and how they are archived, exported and deleted.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::Home;

/// Short, and of random characters: it is stored as it is.
pub(crate) const MARKER: &str = "qZx7Kv9w";

pub(crate) fn list(home: &Home, words: &[&str]) -> String {
    home.run(&[&["sessions", "list"], words].concat()).expect_code(0).out
}

/// The row of a session of the agent main in the list.
pub(crate) fn row(list: &str, name: &str) -> Option<String> {
    list.lines().find(|line| line.split_whitespace().next() == Some(name)).map(str::to_owned)
}

pub(crate) fn say(home: &Home, session: &str, text: &str) {
    home.run(&["agent", "--yes", "--session", session, "-m", text]).expect_code(0);
}

/// R09, R21: one line for each session, the last used first, never wider than 80 columns, titled by its first words.
#[test]
pub(crate) fn r21_the_list_has_a_line_for_each_session_by_last_activity() {
    let home = Home::new();
    say(&home, "one", "Fix the test of the parser, please: it fails since yesterday and nobody knows why it does");
    say(&home, "two", "余额不足，请充值后再试。这是一个很长的标题，它比一行能容纳的还要长得多，所以它必须被截断");
    say(&home, "one", "and then?");
    let shown = list(&home, &[]);
    let lines: Vec<_> = shown.lines().collect();
    assert!(lines[0].starts_with("SESSION") && lines[1].starts_with("one ") && lines[2].starts_with("two "), "{shown}");
    assert!(lines[1].contains("Fix the test of") && lines[1].contains("  2 ") && lines[1].contains("idle"), "{shown}");
    assert!(lines[2].contains("余额不足") && lines[2].contains('…'), "{shown}");
    // A Chinese character takes two columns.
    let columns = |line: &str| line.chars().map(|c| if c as u32 > 0x2E80 { 2 } else { 1 }).sum::<usize>();
    assert!(shown.lines().all(|line| columns(line) <= 80), "{shown}");
    let limited = list(&home, &["--limit", "1"]);
    assert!(limited.lines().last().expect("a line").starts_with("1 more: limulus sessions list --limit 1 --after "));
    let cursor = limited.trim_end().rsplit(' ').next().expect("a cursor");
    assert!(row(&list(&home, &["--limit", "1", "--after", cursor]), "two").is_some());
    let json = home.json(&["sessions", "list"]);
    assert_eq!((&json[0]["key"], &json[0]["messages"]), (&"agent:main:one".into(), &2.into()));
    assert!(json[1]["title"].as_str().expect("a title").starts_with("余额不足，请充值后再试"), "{json}");
}

/// R21: a title is recorded, and is not the name; without one the first words are the title again.
#[test]
pub(crate) fn r21_a_session_can_be_renamed() {
    let home = Home::new();
    say(&home, "one", "Fix the parser");
    home.run(&["sessions", "rename", "one", "The", "parser\u{1b}[2J"]).expect_code(0);
    let shown = list(&home, &[]);
    assert!(row(&shown, "one").expect("it").contains(r"The parser\u001b[2J"), "{shown}");
    say(&home, "one", "go on");
    assert_eq!(home.json(&["sessions", "list"])[0]["title"], "The parser\u{1b}[2J");
    home.run(&["sessions", "rename", "one", ""]).expect_code(0);
    assert_eq!(home.json(&["sessions", "list"])[0]["title"], "Fix the parser");
    home.run(&["sessions", "rename", "nobody", "x"]).expect_code(4).expect_err("there is no session");
    home.run(&["sessions", "rename", "one", &"x".repeat(201)]).expect_code(2).expect_err("200 characters");
    home.run(&["audit", "one", "--verify"]).expect_code(0);
}

/// R21: a title of several words stands for the name, if only one session has it.
#[test]
pub(crate) fn r21_a_title_may_stand_for_the_name_of_its_session() {
    let home = Home::new();
    say(&home, "one", "hello");
    say(&home, "two", "hello");
    home.run(&["sessions", "rename", "one", "The parser"]).expect_code(0);
    say(&home, "The  parser", "and then?");
    assert_eq!(home.json(&["sessions", "show", "The parser"])["messages"], 2);
    home.run(&["sessions", "archive", "The parser"]).expect_code(0);
    assert!(row(&list(&home, &["--archived"]), "one").is_some());
    home.run(&["sessions", "rename", "two", "The parser"]).expect_code(0);
    home.run(&["sessions", "show", "The parser"]).expect_code(2);
    home.run(&["sessions", "delete", "The parser", "--yes"]).expect_code(2);
}

/// R21: an archived session is in a list of its own until its next message.
#[test]
pub(crate) fn r21_an_archived_session_is_hidden_until_its_next_message() {
    let home = Home::new();
    say(&home, "one", "hello");
    say(&home, "two", "hello");
    home.run(&["sessions", "archive", "one"]).expect_code(0);
    let (shown, archived) = (list(&home, &[]), list(&home, &["--archived"]));
    assert!(row(&shown, "one").is_none() && row(&shown, "two").is_some(), "{shown}");
    assert!(row(&archived, "one").is_some() && row(&archived, "two").is_none(), "{archived}");
    home.run(&["sessions", "archive", "one", "--undo"]).expect_code(0);
    assert!(row(&list(&home, &[]), "one").is_some());
    home.run(&["sessions", "archive", "one"]).expect_code(0);
    say(&home, "one", "once more");
    assert!(row(&list(&home, &[]), "one").is_some());
    assert_eq!(list(&home, &["--archived"]).lines().count(), 1);
}

/// The files of a home that hold this text.
pub(crate) fn holding(folder: &Path, text: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let found = entries.flat_map(|path| {
        if path.is_dir() {
            return holding(&path, text);
        }
        // A pipe has no end.
        let read = || if path.is_file() { fs::read(&path).ok() } else { None };
        let is_there = read().is_some_and(|bytes| bytes.windows(text.len()).any(|part| part == text.as_bytes()));
        if is_there { vec![path.display().to_string()] } else { vec![] }
    });
    found.collect()
}

/// R21: after a deletion nothing that was said is in any file of the home, and the name begins a new conversation.
#[test]
pub(crate) fn r21_nothing_of_a_deleted_session_is_left_readable() {
    let home = Home::new();
    home.put("notes.txt", format!("{MARKER} in a file\n"));
    say(&home, "one", MARKER);
    say(&home, "one", "read notes.txt");
    say(&home, "one", &format!("run `echo {MARKER} >> notes.txt`"));
    // What streams in is removed when it has ended, and leaves free pages.
    say(&home, "one", &format!("run `for i in $(seq 2000); do echo {MARKER}-$i; done`"));
    say(&home, "other", "hello");
    home.run(&["sessions", "rename", "one", MARKER]).expect_code(0);
    assert!(list(&home, &["--search", MARKER]).contains(MARKER));
    let holds = holding(&home.path(), MARKER);
    assert!(holds.iter().any(|file| file.contains("/journal.db")) && holds.iter().any(|file| file.contains("/files/")));
    home.run(&["sessions", "delete", "one"]).expect_code(2).expect_err("nobody can be asked");
    let deleted = home.json(&["sessions", "delete", "one", "--yes"]);
    assert!(deleted["bodies"].as_u64() > Some(3) && deleted["files"] == 1, "{deleted}");
    // What the file holds now is kept for the next command in that folder.
    let left = holding(&home.path(), MARKER);
    assert!(left.len() == 1 && left[0].contains("/files/"), "{left:?}");
    let shown = list(&home, &[]);
    assert!(row(&shown, "one").is_none() && row(&shown, "other").is_some(), "{shown}");
    assert_eq!(list(&home, &["--archived"]).lines().count(), 1);
    home.run(&["doctor"]).expect_code(0);
    home.run(&["audit", "one", "--verify"]).expect_code(0);
    // There is nothing left to erase.
    assert_eq!(home.json(&["sessions", "delete", "one", "--yes"])["bodies"], 0);
    say(&home, "one", "a new beginning");
    let json = home.json(&["sessions", "list"]);
    let one = json.as_array().expect("a list").iter().find(|session| session["key"] == "agent:main:one");
    let one = one.expect("it is listed again");
    assert_eq!((&one["title"], &one["messages"]), (&Value::from("a new beginning"), &1.into()));
    // With the date, which the new conversation has as well.
    assert_eq!(home.json(&["sessions", "show", "one"])["transcript"].as_array().expect("it").len(), 3);
    home.run(&["doctor"]).expect_code(0);
}

/// R21: what another session said as well stays there, and a session with an unfinished run is not deleted.
#[test]
pub(crate) fn r21_a_deletion_leaves_what_others_need_and_is_refused_while_a_run_is_unfinished() {
    let home = Home::new().paced(200);
    say(&home, "one", MARKER);
    say(&home, "two", MARKER);
    home.run(&["sessions", "delete", "one", "--yes"]).expect_code(0);
    assert!(home.json(&["sessions", "show", "two"]).to_string().contains(MARKER));
    let run = home.start(&["agent", "--session", "two", "--json", "-m", "tell me more"]);
    run.until_text(1);
    home.run(&["sessions", "delete", "two", "--yes"]).expect_code(3).expect_err("a run of it is unfinished");
    run.finish().expect_code(0);
    assert!(home.json(&["sessions", "show", "two"]).to_string().contains(MARKER));
}

/// R09: the conversation as a document.
#[test]
pub(crate) fn r09_a_session_is_exported_as_markdown_or_json() {
    let home = Home::new();
    home.put("tide.txt", "```\nhigh at noon\n```\n");
    say(&home, "one", "Read tide.txt");
    let text = home.run(&["sessions", "export", "one"]).expect_code(0).out;
    assert!(text.starts_with("# Read tide.txt\n\nagent:main:one · "), "{text}");
    assert!(text.contains("## User\n\nRead tide.txt\n") && text.contains("<details><summary>read</summary>"), "{text}");
    assert!(text.contains("````\n") && text.contains("high at noon"), "{text}");
    let transcript = |command: &str| home.json(&["sessions", command, "one"])["transcript"].clone();
    assert_eq!(transcript("export"), transcript("show"), "there is no summary yet");
    // A summary is for the model: the document has what was said.
    home.run(&["sessions", "compact", "one"]).expect_code(0);
    assert_eq!(transcript("show")[0]["role"], "summary");
    let after = home.run(&["sessions", "export", "one"]).expect_code(0).out;
    let said = |text: &str| text.split_once("## User").map(|(_, said)| said.to_owned());
    assert_eq!(said(&after), said(&text));
    let file = home.file("one.md");
    let words = ["sessions", "export", "one", "--md", "-o", file.to_str().expect("UTF-8")];
    assert!(home.run(&words).expect_code(0).out.is_empty());
    assert_eq!(fs::read_to_string(&file).expect("the file"), after);
    home.run(&words).expect_code(2).expect_err("was not written");
}

/// R09, R21: what was said is found, also in Chinese and by two characters, until it is erased; the index is made anew.
#[test]
pub(crate) fn r21_what_was_said_is_found_until_it_is_erased() {
    let home = Home::new();
    say(&home, "one", "The Tide is high at noon");
    say(&home, "two", "系统提示余额不足，请充值后再试");
    say(&home, "three", "nothing of it");
    let found = |words: &str| list(&home, &["--search", words]);
    for words in ["tide", "HIGH tide", "on", "at noon"] {
        assert!(row(&found(words), "one").is_some_and(|row| row.contains("The Tide is high")), "{words}");
    }
    for words in ["不足", "余额不足", "充值后再试 余额"] {
        let shown = found(words);
        assert!(row(&shown, "two").is_some_and(|row| row.contains("余额不足")), "{words}: {shown}");
        assert_eq!(shown.lines().count(), 1, "{words}: {shown}");
    }
    assert_eq!(found("tide moon"), "no session holds “tide moon”\n");
    let json = home.json(&["sessions", "list", "--search", "noon"]);
    assert!(json[0]["snippet"].as_str().is_some_and(|snippet| snippet.contains("noon")), "{json}");
    // A title is found too, and the latest text is shown.
    home.run(&["sessions", "rename", "three", "about the tide"]).expect_code(0);
    let shown = found("tide");
    assert!(shown.starts_with("three ") && shown.contains("about the tide") && row(&shown, "one").is_some(), "{shown}");
    // Without an index, or with one that is corrupt, it is made anew.
    let index = home.path().join("search.db");
    fs::write(&index, "no database at all".repeat(1000)).expect("it can be overwritten");
    assert!(row(&found("tide"), "one").is_some());
    fs::remove_file(&index).expect("it is there");
    assert!(row(&found("不足"), "two").is_some());
    home.run(&["sessions", "delete", "two", "--yes"]).expect_code(0);
    assert_eq!(found("不足"), "no session holds “不足”\n");
    assert_eq!(found("余额不足"), "no session holds “余额不足”\n");
    home.run(&["doctor"]).expect_code(0);
}

/// R24: a home that cannot be written is not searched, and everything else of it is read.
#[test]
pub(crate) fn r24_an_index_that_cannot_be_written_disables_only_the_search() {
    let home = Home::new();
    say(&home, "one", "The tide is high");
    fs::create_dir_all(home.path().join("search.db/in the way")).expect("a folder");
    home.run(&["sessions", "list", "--search", "tide"]).expect_code(74).expect_err("nothing can be searched");
    assert!(row(&list(&home, &[]), "one").is_some());
}
