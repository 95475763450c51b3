//! Homes of older versions: they show what they showed then, and continue.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::Home;

fn homes() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/homes");
    let entries = fs::read_dir(folder).expect("the homes").map(|entry| entry.expect("a home").path());
    entries.filter(|path| path.is_dir()).collect()
}

fn copy(of: &Path) -> Home {
    let home = Home::new();
    fs::create_dir(home.path()).expect("a folder for the copy");
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700)).expect("it is ours");
    for name in ["journal.db", "journal.mark"] {
        fs::copy(of.join(name), home.path().join(name)).expect("a copy");
    }
    home
}

fn format(home: &Home) -> i64 {
    let journal = rusqlite::Connection::open(home.path().join("journal.db")).expect("a journal");
    journal.query_row("PRAGMA user_version", [], |row| row.get(0)).expect("its format")
}

/// Checks that everything shown then is shown now; more may be shown.
fn assert_says(actual: &Value, expected: &Value, at: &str) {
    match (actual, expected) {
        (Value::Object(actual), Value::Object(expected)) => {
            for (name, expected) in expected {
                let actual = actual.get(name).unwrap_or(&Value::Null);
                assert_says(actual, expected, &format!("{at}.{name}"));
            }
        }
        (Value::Array(actual), Value::Array(expected)) => {
            assert_eq!(actual.len(), expected.len(), "{at}");
            for (n, (actual, expected)) in actual.iter().zip(expected).enumerate() {
                assert_says(actual, expected, &format!("{at}[{n}]"));
            }
        }
        (actual, expected) => assert_eq!(actual, expected, "{at}"),
    }
}

/// R10, R17: entries of every version give the state that they gave.
#[test]
fn r10_r17_a_home_of_an_older_version_shows_the_same_and_continues() {
    let homes = homes();
    assert!(!homes.is_empty(), "there is one");
    for folder in homes {
        let home = copy(&folder);
        let expected = fs::read_to_string(folder.join("expected.json")).expect("what it said");
        let expected: Value = serde_json::from_str(&expected).expect("JSON");
        let sessions = expected["sessions"].as_object().expect("its sessions");
        if format(&home) == 1 {
            // A command that only reads does not migrate.
            let refused = home.run(&["sessions", "list"]).expect_code(3);
            assert!(refused.verdict().contains("format 1"), "{refused:?}");
            home.run(&["resume"]).expect_code(0);
            assert_eq!(format(&home), 2);
            let files = fs::read_dir(home.path()).expect("the home").map(|entry| entry.expect("a file").file_name());
            assert_eq!(files.filter(|name| name.to_string_lossy().starts_with("journal.db.v1-")).count(), 1);
        }
        home.run(&["doctor"]).expect_code(0);
        assert_says(&home.json(&["runs", "list"]), &expected["runs"], "runs");
        for (key, said) in sessions {
            assert_says(&home.json(&["sessions", "show", key]), said, key);
            home.run(&["audit", key, "--verify"]).expect_code(0);
        }
        for key in sessions.keys() {
            home.assert_usable(key);
            home.run(&["audit", key, "--verify"]).expect_code(0);
        }
        home.run(&["doctor"]).expect_code(0);
    }
}

/// R17: a branch whose beginning was removed starts from a state of the version before, and shows what it showed.
#[test]
fn r17_a_home_without_its_beginning_starts_from_a_state_of_an_older_version() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/homes/0.3-format-2");
    let home = copy(&folder);
    let expected = fs::read_to_string(folder.join("expected.json")).expect("what it said");
    let expected: Value = serde_json::from_str(&expected).expect("JSON");
    let database = rusqlite::Connection::open(home.path().join("journal.db")).expect("a journal");
    let sql = "SELECT s.seq, b.uuid FROM snapshots s JOIN branches b ON b.id = s.branch";
    let (seq, branch): (i64, Vec<u8>) =
        database.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).expect("its snapshot");
    drop(database);
    let branch = engine::BranchId(uuid::Uuid::from_slice(&branch).expect("an id"));
    let seq = engine::Seq(seq as u64);
    let state = journal::Read::snapshot(&journal::Reader::open(&home.path()).expect("a home"), branch, seq);
    let content = state.expect("it is readable").expect("it is there").content;
    assert!(content.starts_with(b"{\"version\":12,"), "it is of the version before");
    let owner = journal::Sqlite::own(&home.path()).expect("no owner");
    assert!(owner.anchor(branch, seq).expect("a snapshot is there") > 0);
    drop(owner);
    let (key, said) = expected["sessions"].as_object().expect("its sessions").iter().next().expect("one");
    let shown = home.json(&["sessions", "show", key]);
    for field in ["lifecycle", "queue", "processes"] {
        assert_eq!(shown[field], said[field], "{field}");
    }
    let texts = |of: &Value| {
        let items = of["transcript"].as_array().expect("items").clone();
        items.iter().map(|item| item["text"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(texts(&shown), texts(said));
    home.run(&["doctor"]).expect_code(0);
    home.assert_usable(key);
    home.run(&["doctor"]).expect_code(0);
}
