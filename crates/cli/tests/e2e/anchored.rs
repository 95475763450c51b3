//! Sessions whose first entries were removed, or one of whose entries was: every command reads them from the snapshot
//! that replaces the removed entries, and reports what is missing.

use engine::Seq;
use journal::store_uncompressed;
use serde_json::Value;

use crate::support::{Home, anchor, keep_snapshot};

const KEY: &str = "agent:main:main";

/// A session with two runs, and the entry that ends the first: a snapshot is possible there.
fn two_runs() -> (Home, u64) {
    let home = Home::new();
    home.run(&["agent", "--yes", "-m", "run `echo hi > a`"]).expect_code(0);
    let end = audit(&home).len() as u64;
    home.assert_usable("main");
    (home, end)
}

fn audit(home: &Home) -> Vec<Value> {
    home.run(&["audit", "--json"]).expect_code(0).lines()
}

fn state(home: &Home, at: u64) -> String {
    home.run(&["audit", "--state", &at.to_string()]).expect_code(0).out
}

fn texts(home: &Home) -> Vec<String> {
    let shown = home.json(&["sessions", "show"]);
    let items = shown["transcript"].as_array().expect("a transcript").clone();
    items.iter().map(|item| item["text"].as_str().expect("a text").to_owned()).collect()
}

/// Checks that verification finds no fault and this state.
fn assert_verified(home: &Home, state: &str) {
    home.run(&["doctor"]).expect_code(0);
    let lines = home.run(&["audit", "--verify", "--json"]).expect_code(0).lines();
    let verified = &lines[lines.len() - 1]["verified"];
    let state: Value = serde_json::from_str(state).expect("a state is JSON");
    assert_eq!((&verified["state_hash"], &verified["faults"]), (&state["state_hash"], &serde_json::json!([])));
}

#[test]
fn r10_r17_r18_a_session_that_begins_at_an_anchor_is_read_by_every_command() {
    let (home, end) = two_runs();
    let last = audit(&home).len() as u64;
    let (before, states) = (texts(&home), [state(&home, end), state(&home, end + 3), state(&home, last)]);
    let runs = home.json(&["runs", "list"]);
    let [first, second] = [0, 1].map(|at| runs[at]["run"].as_str().expect("a run").to_owned());
    let shown = home.json(&["runs", "show", &second]);
    let branch = anchor(&home.path(), KEY, Seq(end));

    assert_eq!([state(&home, end), state(&home, end + 3), state(&home, last)], states);
    assert_verified(&home, &states[2]);
    let lines = audit(&home);
    assert_eq!((&lines[0]["seq"], lines.len() as u64), (&end.into(), last - end + 1));
    assert_eq!((&lines[0]["to"], &lines[1]["from"]), (&"idle".into(), &"idle".into()));
    let page = home.run(&["audit", "--verify"]).expect_code(0).out;
    assert!(page.contains("a snapshot replaces it and all earlier entries"), "{page}");
    for at in ["1", &(end - 1).to_string()] {
        let gone = home.run(&["audit", "--state", at]).expect_code(4);
        assert!(gone.verdict().contains(&format!("the entries before {branch}@{end} were removed")), "{gone:?}");
    }

    assert_eq!(texts(&home), before);
    let session = home.json(&["sessions", "show"]);
    assert_eq!(session["removed_to"], format!("{branch}@{end}"));
    let seqs: Vec<&Value> = session["transcript"].as_array().expect("items").iter().map(|item| &item["seq"]).collect();
    assert!(seqs[0].as_u64() <= Some(end) && seqs[seqs.len() - 1].as_u64() > Some(end), "{seqs:?}");
    let page = home.run(&["sessions", "show"]).expect_code(0).out;
    assert!(page.contains(&format!("the entries up to {branch}@{end} were removed")), "{page}");

    assert_eq!(home.json(&["runs", "list"]), runs);
    assert_eq!(home.json(&["runs", "show", &second]), shown);
    assert_eq!(home.json(&["runs", "show", &first])["removed_to"], format!("{branch}@{end}"));
    let page = home.run(&["runs", "show", &first]).expect_code(0).out;
    assert!(page.contains("were removed and are not shown"), "{page}");
    home.run(&["runs", "trace", &second]).expect_code(0);
    let gone = home.run(&["runs", "trace", &first]).expect_code(4);
    assert!(gone.verdict().contains("were removed"), "{gone:?}");

    // Rebuilt lists still contain what came only from removed entries.
    home.run(&["doctor", "--repair", "views", "--yes"]).expect_code(0);
    assert_eq!((home.json(&["runs", "list"]), &home.json(&["sessions", "show"])), (runs, &session));
    home.assert_usable("main");
    home.run(&["doctor"]).expect_code(0);
}

#[test]
fn r10_lists_of_an_anchored_session_are_made_from_its_snapshot() {
    let (home, _) = two_runs();
    let last = audit(&home).len() as u64;
    let before = home.json(&["sessions", "list"]);
    anchor(&home.path(), KEY, Seq(last));
    let journal = rusqlite::Connection::open(home.path().join("journal.db")).expect("a journal");
    journal.execute("DELETE FROM view_sessions", []).expect("they can be lost");
    let receipts = journal.execute("DELETE FROM view_receipts", []).expect("they can be lost");
    drop(journal);
    home.run(&["doctor"]).expect_code(65);
    home.run(&["doctor", "--repair", "views", "--yes"]).expect_code(0);
    assert_eq!(home.json(&["sessions", "list"]), before);
    let journal = rusqlite::Connection::open(home.path().join("journal.db")).expect("a journal");
    let made: i64 = journal.query_row("SELECT count(*) FROM view_receipts", [], |row| row.get(0)).expect("a number");
    assert_eq!(usize::try_from(made), Ok(receipts));
}

#[test]
fn r13_a_key_that_was_answered_before_what_was_removed_is_still_the_same_message() {
    let home = Home::new();
    let ask = ["agent", "--key", "k", "-m", "tokens=3 Who are you?"];
    let answer = home.run(&ask).expect_code(0).out;
    let end = audit(&home).len() as u64;
    home.assert_usable("main");
    assert_eq!(home.run(&ask).expect_code(0).out, answer);
    anchor(&home.path(), KEY, Seq(end));
    let again = home.run(&ask).expect_code(3);
    assert!(again.verdict().contains("answered the message with this key, and its answer was removed"), "{again:?}");
    assert_eq!(home.json(&["runs", "list"]).as_array().map(Vec::len), Some(2), "nothing is run again");
}

#[test]
fn r10_r17_r18_an_anchor_in_the_middle_of_a_run_is_read_too() {
    let (home, end) = two_runs();
    let last = state(&home, audit(&home).len() as u64);
    let seq = audit(&home).iter().find(|line| line["event"] == "message_sealed").expect("one")["seq"].clone();
    anchor(&home.path(), KEY, Seq(seq.as_u64().expect("a number")));
    assert_verified(&home, &last);
    let run = home.json(&["runs", "list"])[0]["run"].as_str().expect("a run").to_owned();
    let shown = home.json(&["runs", "show", &run]);
    assert!(shown["removed_to"].is_string() && shown["text"] != "", "{shown}");
    let trace = home.run(&["runs", "trace", &run]).expect_code(0).out;
    assert!(trace.contains("exec 1/0") && trace.contains("run_ended"), "{trace}");
    assert!(audit(&home)[..end as usize / 2].iter().any(|line| line["run"] == run), "its entries are distinguished");
}

#[test]
fn r10_r17_r18_an_entry_that_was_removed_is_known_by_the_snapshot_behind_it() {
    let (home, end) = two_runs();
    let last = audit(&home).len() as u64;
    let (before, end_state, last_state) = (texts(&home), state(&home, end), state(&home, last));
    keep_snapshot(&home.path(), KEY, Seq(end));
    // With the hashes of the payloads, which stay.
    store_uncompressed(&home.path().join("journal.db")).expect("nobody owns it");
    let journal = rusqlite::Connection::open(home.path().join("journal.db")).expect("a journal");
    let accepted = "UPDATE entries SET payload = NULL, packed = NULL \
                    WHERE seq = (SELECT min(seq) FROM entries WHERE kind = 'message_accepted')";
    assert_eq!(journal.execute(accepted, []).expect("it can be removed"), 1);
    drop(journal);

    assert_verified(&home, &last_state);
    assert_eq!((texts(&home), state(&home, end)), (before, end_state));
    let lines = audit(&home);
    assert_eq!(lines.len() as u64, last, "every entry is printed");
    let removed = lines.iter().position(|line| line["event"] == "message_accepted").expect("it has its kind");
    assert!(lines[removed]["detail"].as_str().is_some_and(|detail| detail.contains("was removed")), "{lines:?}");
    let gone = home.run(&["audit", "--state", &(removed + 2).to_string()]).expect_code(4);
    assert!(gone.verdict().contains(&format!("@{} was removed", removed + 1)), "{gone:?}");
    home.run(&["audit", "--state", &removed.to_string()]).expect_code(0);
    home.assert_usable("main");
}

#[test]
fn r10_r17_an_anchored_session_is_salvaged_from_behind_its_anchor() {
    let (home, end) = two_runs();
    let branch = anchor(&home.path(), KEY, Seq(end));
    let before = texts(&home);
    let journal = rusqlite::Connection::open(home.path().join("journal.db")).expect("a journal");
    store_uncompressed(&home.path().join("journal.db")).expect("nobody owns it");
    let damage = "UPDATE entries SET payload = replace(payload, 'completed', 'complete') WHERE kind = 'run_ended'";
    assert_eq!(journal.execute(damage, []).expect("it can be damaged"), 1);
    drop(journal);
    home.run(&["doctor"]).expect_code(65);
    home.run(&["doctor", "--repair", "session:agent:main:main", "--yes"]).expect_code(0);
    home.run(&["resume", "main", "--force"]).expect_code(0);
    let lines = home.run(&["audit", "--json", "--verify"]).expect_code(0).lines();
    assert_eq!((&lines[0]["branch"], &lines[0]["seq"]), (&branch.to_string().into(), &end.into()));
    assert!(lines.iter().any(|line| line["event"] == "forked"));
    assert_eq!(texts(&home)[..before.len() - 1], before[..before.len() - 1]);
    home.assert_usable("main");
    home.run(&["doctor"]).expect_code(0);
}

#[test]
fn r10_a_session_without_its_first_entries_is_quarantined_with_its_texts() {
    let (home, end) = two_runs();
    let branch = anchor(&home.path(), KEY, Seq(end)).to_string();
    let answer = texts(&home).pop().expect("an answer");
    let journal = rusqlite::Connection::open(home.path().join("journal.db")).expect("a journal");
    journal.execute("DELETE FROM snapshots", []).expect("it can be lost");
    drop(journal);
    let found = home.run(&["doctor"]).expect_code(65).out;
    assert!(found.contains("no snapshot covers it") && found.contains("no entry before it is good"), "{found}");
    let did = home.run(&["doctor", "--repair", "session:agent:main:main", "--yes"]).expect_code(0).out;
    let name = format!("agent-main-main.{branch}.txt");
    assert!(did.contains(&format!("its readable text is saved as {name}")), "{did}");
    let kept = std::fs::read_to_string(home.path().join(name)).expect("a text");
    assert!(kept.contains("Who are you?") && kept.contains(&answer), "{kept}");
    home.run(&["audit", "--branch", &branch]).expect_code(0);
    home.run(&["sessions", "show"]).expect_code(4);
    home.assert_usable("main");
    home.run(&["doctor"]).expect_code(0);
}
