//! A reader that shares nothing with us but docs/internals/format.md (`docs/examples/read_journal`, in Python) over
//! homes of the real program: it must show the same, and find what is corrupt. It depends only on the page.
//!
//! It needs Python with two modules. `READER_PYTHON` names a Python that has them, as in `.ci/run`; else `python3` is
//! tried.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};

use engine::{Batch, BranchId, Event, Forked, Record, Seq, Session, Views};
use journal::{Append, Journal as _, Read as _, Reader, Sqlite, store_uncompressed};
use model_server::ModelServer;
use serde_json::Value;

use crate::doctor::damaged;
use crate::formats::put_image;
use crate::support::{Home, anchor, until};

/// The Python to use, if one with the modules exists. If `READER_PYTHON` names one without them, the test fails.
fn python() -> Option<&'static str> {
    static PYTHON: OnceLock<Option<String>> = OnceLock::new();
    let find = || {
        let named = std::env::var("READER_PYTHON").ok();
        let python = named.clone().unwrap_or_else(|| "python3".to_owned());
        let tried = Command::new(&python).args(["-c", "import blake3, sqlite3, zstandard"]).output();
        let said = match &tried {
            Ok(output) if output.status.success() => return Some(python),
            Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
            Err(error) => error.to_string(),
        };
        let is_ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
        assert!(!is_ci || named.is_none(), "{python} cannot run the independent reader: {said}");
        None
    };
    let python = PYTHON.get_or_init(find).as_deref();
    if python.is_none() {
        eprintln!("skipped: no Python with blake3 and zstandard (docs/examples/read_journal/requirements.txt)");
    }
    python
}

/// The report of the reader about a home, and its exit code.
#[track_caller]
fn read(python: &str, home: &Path) -> (Option<i32>, Value) {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/read_journal");
    let output = Command::new(python).arg(program).arg(home).arg("--json").output().expect("Python can be started");
    let report = serde_json::from_slice(&output.stdout);
    let report = report.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code(), report)
}

/// The report of the reader about an intact home.
#[track_caller]
fn read_whole(python: &str, home: &Path) -> Value {
    let (code, report) = read(python, home);
    assert_eq!((code, &report["findings"]), (Some(0), &Value::Array(vec![])));
    report
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

/// Checks that the fields that `report` and `shown` share are equal. Returns their number.
#[track_caller]
fn assert_agrees(report: &Value, shown: &Value) -> usize {
    let report = report.as_object().expect("an object");
    let common: Vec<&String> = report.keys().filter(|name| shown.get(name.as_str()).is_some()).collect();
    for name in &common {
        assert_eq!(report[name.as_str()], shown[name.as_str()], "{name}");
    }
    common.len()
}

/// Checks that the reader and the program show the same of every session and every run. Returns the report of the
/// reader.
#[track_caller]
fn compare(python: &str, home: &Home) -> Value {
    let report = read_whole(python, &home.path());
    let sessions = home.json(&["sessions", "list"]);
    assert_eq!(list(&report["sessions"]).len(), list(&sessions).len());
    let listed = home.json(&["runs", "list"]);
    let runs = list(&report["sessions"]).iter().flat_map(|session| list(&session["runs"])).count();
    assert_eq!(runs, list(&listed).len());
    agree(&report, home);
    report
}

/// Checks that the reader and the program show the same sessions and runs.
#[track_caller]
fn agree(report: &Value, home: &Home) {
    let listed = home.json(&["runs", "list"]);
    for run in list(&report["sessions"]).iter().flat_map(|session| list(&session["runs"])) {
        let shown = list(&listed).iter().find(|shown| shown["run"] == run["run"]).expect("it is listed");
        assert_eq!(assert_agrees(run, shown), 9, "{run}");
        let shown = home.json(&["runs", "show", run["run"].as_str().expect("an id")]);
        assert_eq!(assert_agrees(run, &shown), 12, "{run}");
    }
    for session in list(&report["sessions"]) {
        let shown = home.json(&["sessions", "show", session["key"].as_str().expect("a key")]);
        for name in ["session", "key", "branch", "lifecycle", "transcript"] {
            assert_eq!(session[name], shown[name], "{name} of {}", session["key"]);
        }
        assert_eq!(session["whole"], true);
    }
}

/// Six sessions: tools, a body that is packed, a call that was not allowed, one that is long enough for a snapshot, an
/// answer and a command that were cut by a kill.
fn eventful() -> Home {
    let home = Home::new();
    home.put("notes.txt", "word ".repeat(4000));
    home.run(&["agent", "--session", "tools", "-m", "read notes.txt"]).expect_code(0);
    home.run(&["agent", "--session", "tools", "--yes", "-m", "run `echo out; echo err >&2; exit 3`"]);
    home.run(&["agent", "--session", "asked", "-m", "run `touch never`"]);
    for _ in 0..6 {
        home.assert_usable("long");
    }
    let home = home.paced(1500);
    let agent = home.start(&["agent", "--session", "cut", "--json", "-m", "Who are you?"]);
    agent.until_text(1);
    agent.kill();
    let home = home.paced(0);
    let count = "run `echo $$ >> pids; for i in 1 2 3; do echo $i; echo $i >> ledger; done; until test -e go; do sleep 0.02; done`";
    let agent = home.start(&["agent", "--session", "running", "--yes", "-m", count]);
    until("two lines of the count", || home.text("ledger").lines().count() >= 2);
    agent.kill();
    home
}

#[test]
fn r10_r17_r18_a_reader_of_the_page_shows_what_limulus_shows() {
    let Some(python) = python() else { return };
    let home = eventful();
    let report = compare(python, &home);
    let run = |key: &str| {
        let session = list(&report["sessions"]).iter().find(|session| session["key"] == key).expect("the session");
        list(&session["runs"]).last().expect("a run").clone()
    };
    assert!(run("agent:main:cut")["open_text"].as_str().is_some_and(|text| !text.is_empty()), "{report}");
    assert_eq!(run("agent:main:running")["outcome"], Value::Null);
    assert!(report["checked"]["progress"].as_u64() > Some(0), "{report}");
    home.put("go", "");
    home.run(&["resume"]).expect_code(0);
    let report = compare(python, &home);
    assert!(list(&report["sessions"]).iter().flat_map(|s| list(&s["runs"])).all(|run| run["outcome"] != Value::Null));
    for what in ["branches", "entries", "bodies", "views"] {
        assert!(report["checked"][what].as_u64() >= Some(5), "{what}: {}", report["checked"]);
    }
    assert!(report["checked"]["snapshots"].as_u64() >= Some(1), "{}", report["checked"]);
}

/// R17, R18: summaries, one in place of another, and the history after their undo.
#[test]
fn r17_r18_a_reader_of_the_page_follows_summaries_and_their_undoing() {
    let Some(python) = python() else { return };
    let home = Home::new();
    home.put("tide.txt", "high at noon\n".repeat(200));
    let talk = || {
        for text in ["Read tide.txt", "Who are you?", "List the files here"] {
            home.run(&["agent", "-m", text]).expect_code(0);
        }
    };
    talk();
    home.run(&["sessions", "compact"]).expect_code(0);
    let report = compare(python, &home);
    assert_eq!(report["sessions"][0]["transcript"][0]["role"], "summary");
    talk();
    home.run(&["sessions", "compact", "--focus", "the tide"]).expect_code(0);
    compare(python, &home);
    for _ in 0..2 {
        home.run(&["agent", "-m", "Who are you?"]).expect_code(0);
        home.run(&["sessions", "compact", "--undo"]).expect_code(0);
        compare(python, &home);
    }
    let roles = |report: &Value| {
        let items = list(&report["sessions"][0]["transcript"]).iter();
        items.map(|item| item["role"].as_str().expect("a role").to_owned()).collect::<Vec<_>>()
    };
    let begins = roles(&compare(python, &home));
    assert_eq!(begins[..2], ["note", "user"], "the date and the first message are back");
    assert_eq!(begins.iter().filter(|role| *role == "note").count(), 3, "the date of each summary stays: {begins:?}");
}

/// R17, R18: images that came with a message and with a result, in a session that is long enough for a snapshot.
#[test]
fn r17_r18_a_reader_of_the_page_shows_attachments() {
    let Some(python) = python() else { return };
    let home = Home::new();
    put_image(&home, "dot.png", [200, 0, 0]);
    home.run(&["agent", "--attach", "dot.png", "-m", "Look at it"]).expect_code(0);
    home.run(&["agent", "-m", "read dot.png"]).expect_code(0);
    for _ in 0..6 {
        home.assert_usable("main");
    }
    let report = compare(python, &home);
    assert!(report["checked"]["snapshots"].as_u64() >= Some(1), "{}", report["checked"]);
    let files = list(&report["sessions"][0]["transcript"]).iter().filter(|item| !item["attachments"].is_null()).count();
    assert_eq!(files, 2, "{report}");
}

/// R17, R18: notes to the model, waits, reports to the ledger, and an end by the clock.
#[test]
fn r17_r18_a_reader_of_the_page_reads_notes_waits_and_ends() {
    let Some(python) = python() else { return };
    let server = ModelServer::start().unwrap();
    let waits = Home::new().served_by(&server).with("LIMULUS_BUDGET__RUN__CALLS", "1");
    waits.run(&["agent", "-m", "rounds=3 tool=ls tokens=2"]).expect_code(69).expect_err("waits for more");
    compare(python, &waits);
    waits.run(&["budget", "set", "main", "--run", "--calls", "none"]).expect_code(0);
    waits.run(&["resume"]).expect_code(0);
    let report = compare(python, &waits);
    let notes = |report: &Value| {
        list(&report["sessions"][0]["transcript"]).iter().filter(|item| item["role"] == "note").count()
    };
    // The date, that the limit is near, and that it was raised.
    assert_eq!(notes(&report), 3, "{report}");

    let circles = Home::new().served_by(&server).with("LIMULUS_REQUESTS__RETRIES", "0");
    circles.run(&["agent", "-m", "rounds=9 tool=ls tokens=1"]).expect_code(1);
    // The date, and that it repeats itself.
    assert_eq!(notes(&compare(python, &circles)), 2);
    let agent = circles.start(&["agent", "--session", "quota", "-m", "fail=429x1 tokens=1"]);
    agent.until_err("continues by itself");
    compare(python, &circles);
    circles.run(&["profiles", "clear"]).expect_code(0);
    agent.finish().expect_code(0);
    compare(python, &circles);

    let rests = Home::new().with("LIMULUS_SESSION__IDLE_TIMEOUT_S", "1");
    let owner = rests.start(&["serve"]);
    owner.until_err("serving");
    rests.run(&["agent", "-m", "Who are you?"]).expect_code(0);
    owner.until_err("agent:main:main ended: it was idle for");
    let report = compare(python, &rests);
    assert_eq!(report["sessions"][0]["lifecycle"], "terminated");
}

/// What is damaged, in which file, next to what; what the finding is called, and at which entry it is.
type Damage<'a> = (&'a str, &'a str, &'a [u8], &'a str, Option<&'a Value>);

/// A copy of the journal of a home that nobody owns.
fn copied(home: &Path) -> tempfile::TempDir {
    let copy = tempfile::Builder::new().prefix("limulus-e2e-").tempdir().expect("a temporary folder");
    for name in ["journal.db", "journal.mark"] {
        fs::copy(home.join(name), copy.path().join(name)).expect("a file of the home");
    }
    copy
}

/// Flips one bit in `needle`, a third of the way in, in a copy of this file, wherever it stands there: what SQLite has
/// moved is left behind in pages that nothing reads. Gives the folder of the copy.
fn flipped(home: &Path, file: &str, needle: &[u8]) -> tempfile::TempDir {
    let copy = copied(home);
    let path = copy.path().join(file);
    let mut bytes = fs::read(&path).expect("it was just copied");
    let places = bytes.windows(needle.len()).enumerate().filter(|(_, found)| *found == needle).map(|(at, _)| at);
    let places: Vec<usize> = places.collect();
    assert!(!places.is_empty(), "it is in the file");
    for at in places {
        bytes[at + needle.len() / 3] ^= 1;
    }
    fs::write(&path, bytes).expect("the copy can be written");
    copy
}

fn bytes_of(hex: &Value) -> Vec<u8> {
    let hex = hex.as_str().expect("hex");
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex")).collect()
}

#[test]
fn r18_a_reader_of_the_page_locates_a_flipped_bit() {
    let Some(python) = python() else { return };
    let home = Home::new();
    home.assert_usable("main");
    home.run(&["agent", "--session", "other", "-m", "list the files here"]).expect_code(0);
    let report = read_whole(python, &home.path());
    let other = list(&report["sessions"]).iter().find(|session| session["key"] == "agent:main:other").unwrap();
    let run = other["runs"][0]["run"].as_str().unwrap();
    let trace = home.run(&["runs", "trace", run, "--json"]).lines();
    let entry = |event: &str| trace.iter().find(|line| line["event"] == event).expect("an entry of that kind");
    let ended = entry("run_ended");
    let session = other["session"].as_str().unwrap();
    let chain = bytes_of(&other["head"]["chain"]);
    // A row's columns lie beside each other: its time in six bytes, big-endian, then its kind.
    let time = [&ended["at"].as_u64().unwrap().to_be_bytes()[2..], b"run_ended"].concat();
    let payload = format!("{{\"run\":\"{run}\",\"outcome\":\"completed\"");
    let packed = |sql: &str| -> Vec<u8> {
        let journal = rusqlite::Connection::open(home.path().join("journal.db")).expect("a journal");
        journal.query_row(sql, [], |row| row.get(0)).expect("it is packed")
    };
    let packed_payload =
        packed(&format!("SELECT packed FROM entries WHERE kind = 'run_ended' AND at = {}", ended["at"]));
    let packed_row = packed("SELECT packed FROM view_runs WHERE rowid = 2");
    let damages: [Damage<'_>; 2] = [
        ("packed payload", "journal.db", &packed_payload, "chain", Some(&ended["seq"])),
        ("packed view", "journal.db", &packed_row, "view", None),
    ];
    assert_located(python, &home, session, &damages);
    store_uncompressed(&home.path().join("journal.db")).expect("nobody owns it");
    let damages: [Damage<'_>; 6] = [
        ("payload", "journal.db", payload.as_bytes(), "payload", Some(&ended["seq"])),
        ("chain", "journal.db", &chain, "chain", Some(&other["head"]["seq"])),
        ("time", "journal.db", &time[..], "chain", Some(&ended["seq"])),
        ("body", "journal.db", b"list the files here", "body", None),
        ("mark", "journal.mark", &bytes_of(&report["mark"]["chain"]), "mark", None),
        ("view", "journal.db", b"\"outcome\":\"completed\",\"started_at\"", "view", None),
    ];
    assert_located(python, &home, session, &damages);
}

/// Checks that the reader finds each damage, and where it is.
#[track_caller]
fn assert_located(python: &str, home: &Home, session: &str, damages: &[Damage<'_>]) {
    for &(place, file, needle, what, seq) in damages {
        let copy = flipped(&home.path(), file, needle);
        let (code, report) = read(python, copy.path());
        assert_eq!(code, Some(1), "{place}: {report}");
        let finding = list(&report["findings"]).iter().find(|finding| finding["what"] == what);
        let finding = finding.unwrap_or_else(|| panic!("{place}: {}", report["findings"]));
        if what == "payload" || what == "chain" {
            assert_eq!(finding["session"], *session, "{place}: {finding}");
        }
        if let Some(seq) = seq {
            assert_eq!(&finding["seq"], seq, "{place}: {finding}");
        }
    }
}

/// R17, R18: the same page describes both formats, and a migrated home in which rows of both stand side by side.
#[test]
fn r17_r18_a_reader_of_the_page_reads_both_formats() {
    let Some(python) = python() else { return };
    let homes = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/homes");
    for (folder, sessions) in
        [("0.1-format-1", 3), ("0.3-format-2", 3), ("0.3-format-2-templates", 4), ("0.3-format-2-answers", 2)]
    {
        let copy = copied(&homes.join(folder));
        let before = read_whole(python, copy.path());
        assert_eq!(list(&before["sessions"]).len(), sessions, "{folder}");
        drop(Sqlite::own(copy.path()).expect("nobody owns it"));
        assert_eq!(read_whole(python, copy.path()), before, "{folder}");
        store_uncompressed(&copy.path().join("journal.db")).expect("nobody owns it");
        assert_eq!(read_whole(python, copy.path()), before, "{folder}");
    }
    let home = Home::new();
    fs::create_dir(home.path()).expect("a folder for the copy");
    for name in ["journal.db", "journal.mark"] {
        fs::copy(homes.join("0.1-format-1").join(name), home.path().join(name)).expect("a copy");
    }
    home.assert_usable("main");
    compare(python, &home);
}

/// R17: a branch that was forked by hand is read as its parent's entries up to the fork, and the chain continues from
/// there.
#[test]
fn r17_a_reader_of_the_page_follows_a_fork() {
    let Some(python) = python() else { return };
    let home = Home::new();
    home.assert_usable("main");
    home.assert_usable("main");
    let before = read_whole(python, &home.path());
    let at = list(&before["sessions"][0]["transcript"])[1]["seq"].as_u64().expect("a seq");
    let branch: BranchId = "019b7699-6800-7000-8000-000000000003".parse().unwrap();
    fork(&home.path(), branch, Seq(at));
    let (code, report) = read(python, &home.path());
    let session = &report["sessions"][0];
    assert_eq!(session["branch"].as_str(), Some(branch.to_string().as_str()));
    assert_eq!((&session["head"]["seq"], &session["whole"]), (&1.into(), &true.into()));
    let shared: Vec<&Value> = list(&session["transcript"]).iter().collect();
    assert_eq!(shared, list(&before["sessions"][0]["transcript"])[..2].iter().collect::<Vec<_>>());
    // Nobody has written views for it, and that is all that is wrong.
    let whats: Vec<&Value> = list(&report["findings"]).iter().map(|finding| &finding["what"]).collect();
    assert!(
        code == Some(1) && !whats.is_empty() && whats.iter().all(|what| **what == "view"),
        "{}",
        report["findings"]
    );
}

/// R17, R18: a session that continues from an anchor; its first run is only in the snapshot.
#[test]
fn r17_r18_a_reader_of_the_page_reads_a_home_that_was_anchored() {
    let Some(python) = python() else { return };
    let home = Home::new();
    home.run(&["agent", "--yes", "-m", "run `echo hi > a`"]).expect_code(0);
    let end = home.run(&["audit", "--json"]).lines().len() as u64;
    home.assert_usable("main");
    anchor(&home.path(), "agent:main:main", Seq(end));
    home.assert_usable("main");
    let report = read_whole(python, &home.path());
    agree(&report, &home);
    let session = &report["sessions"][0];
    assert_eq!(list(&session["runs"]).len(), 2, "{session}");
    let seqs: Vec<_> = list(&session["transcript"]).iter().map(|item| item["seq"].as_u64()).collect();
    assert!(seqs.is_sorted() && seqs[0].is_some_and(|first| first < end), "items keep their entries: {session}");
    assert_eq!(report["checked"]["snapshots"], 1);
}

/// R10, R18: a session that continues in a new branch. The damaged branch is unchanged, and no session uses it.
#[test]
fn r10_r18_a_reader_of_the_page_reads_a_home_that_was_salvaged() {
    let Some(python) = python() else { return };
    let home = damaged("payload");
    let old = home.json(&["sessions", "show", "other"]);
    let branch = home.run(&["audit", "--json"]).lines()[0]["branch"].clone();
    home.run(&["doctor", "--repair", "session:agent:main:main", "--yes"]).expect_code(0);
    home.run(&["resume", "main", "--force"]).expect_code(0);
    home.assert_usable("main");
    let (code, report) = read(python, &home.path());
    let seqs: Vec<_> = list(&report["findings"]).iter().map(|finding| (&finding["branch"], &finding["what"])).collect();
    assert_eq!((code, seqs), (Some(1), vec![(&branch, &"payload".into())]), "{}", report["findings"]);
    agree(&report, &home);
    let session = list(&report["sessions"]).iter().find(|session| session["key"] == "agent:main:main").expect("it");
    assert_ne!(session["branch"], branch);
    assert_eq!(home.json(&["sessions", "show", "other"]), old);
}

/// Makes this branch of the first session's, from this entry on.
fn fork(home: &Path, branch: BranchId, at: Seq) {
    let journal = Sqlite::own(home).expect("nobody owns it");
    let row = journal.sessions().expect("a journal").remove(0);
    let entries = journal.read(row.branch, at).expect("its entries");
    let event = Event::from(Forked { parent: row.branch, at, hash: entries[0].chain });
    let records = vec![Record { seq: Some(Seq(1)), at: entries[0].at, event }];
    let batch = Batch { session: row.session, branch, records, bodies: vec![], views: Views::default() };
    let (done, report) = channel();
    let append = Append { batch: Arc::new(batch), epoch: journal.epoch() };
    journal.append(append, Box::new(move |answer| done.send(answer).expect("it is waited for")));
    report.recv().expect("an answer").expect("it is kept");
}

/// What the engine makes of the first entries of the first session's branch, in the form of a snapshot.
fn state_at(home: &Path, seq: Seq) -> String {
    let journal = Reader::open(home).expect("a journal");
    let branch = journal.sessions().expect("a journal")[0].branch;
    let entries = journal.read(branch, Seq(1)).expect("its entries");
    let Event::Created(created) = &entries[0].event else { panic!("it begins with another entry") };
    let mut session = Session::created(created, entries[0].at);
    entries[1..].iter().take_while(|entry| entry.seq <= seq).for_each(|entry| session.apply(&entry.event, entry.at));
    serde_json::json!({"version": engine::STATE_VERSION, "session": session}).to_string()
}

/// A copy of a journal after this SQL; `packed()` and `state_hash()` in it are of the snapshot.
fn edited(python: &str, home: &Path, snapshot: &str, sql: &str) -> tempfile::TempDir {
    const EDIT: &str = "import sqlite3, sys, blake3, zstandard\n\
        state = sys.argv[3].encode()\n\
        db = sqlite3.connect(sys.argv[1] + '/journal.db')\n\
        db.create_function('packed', 0, lambda: zstandard.compress(state))\n\
        db.create_function('state_hash', 0, lambda: blake3.blake3(state).digest())\n\
        db.executescript(sys.argv[2])";
    let copy = copied(home);
    let edit = Command::new(python).args(["-c", EDIT]).arg(copy.path()).args([sql, snapshot]).output();
    let edit = edit.expect("Python can be started");
    assert!(edit.status.success(), "{}", String::from_utf8_lossy(&edit.stderr));
    copy
}

/// R17, R18: snapshots equal the fold of the entries, and replace removed entries.
#[test]
fn r17_r18_a_reader_of_the_page_reads_snapshots_redactions_and_anchors() {
    let Some(python) = python() else { return };
    let home = Home::new();
    home.assert_usable("main");
    home.assert_usable("main");
    let before = read_whole(python, &home.path());
    // With the hashes of the payloads, which stay.
    store_uncompressed(&home.path().join("journal.db")).expect("nobody owns it");
    let texts = |report: &Value| {
        let items = list(&report["sessions"][0]["transcript"]).iter();
        items.map(|item| item["text"].as_str().expect("a text").to_owned()).collect::<Vec<_>>()
    };
    // The end of the first run, before the entries with which the second one begins.
    let items = list(&before["sessions"][0]["transcript"]).iter();
    let second = items.filter(|item| item["role"] == "user").nth(1).expect("a second message");
    let seq = second["seq"].as_u64().expect("a seq") - 3;
    let state = state_at(&home.path(), Seq(seq));
    let other = state.replacen(r#""state":"ended""#, r#""state":"queued""#, 1);
    assert_ne!(state, other);
    let put = format!("INSERT OR REPLACE INTO snapshots VALUES (1, {seq}, state_hash(), packed());");
    let drop = "DELETE FROM snapshots;".to_owned();
    let redact =
        "UPDATE entries SET payload = NULL, packed = NULL WHERE kind = 'message_accepted' AND seq < 6;".to_owned();
    let anchor = format!(
        "UPDATE entries SET payload = NULL, packed = NULL WHERE seq = {seq}; DELETE FROM entries WHERE seq < {seq};"
    );
    let edits: [(&str, &str, String, Option<&str>); 7] = [
        ("a snapshot", &state, put.clone(), None),
        ("a redaction before it", &state, put.clone() + &redact, None),
        ("an anchor at it", &state, put.clone() + &anchor, None),
        ("an anchor without it", &state, drop.clone() + &anchor, Some("gap")),
        ("entries gone from the middle", &state, put.clone() + "DELETE FROM entries WHERE seq IN (2, 3);", Some("gap")),
        ("another state", &other, put.clone(), Some("snapshot")),
        ("another hash", &state, put + "UPDATE snapshots SET state_hash = zeroblob(32);", Some("snapshot")),
    ];
    for (what, state, sql, finding) in edits {
        let copy = edited(python, &home.path(), state, &sql);
        let (code, report) = read(python, copy.path());
        let found: Vec<_> = list(&report["findings"]).iter().filter_map(|finding| finding["what"].as_str()).collect();
        assert_eq!(code, Some(i32::from(finding.is_some())), "{what}: {}", report["findings"]);
        assert!(finding.is_none_or(|finding| found.contains(&finding)), "{what}: {found:?}");
        if finding.is_none() {
            assert_eq!(texts(&report), texts(&before), "{what}");
            assert_eq!(report["sessions"][0]["whole"], true, "{what}");
        }
    }
    let copy = edited(python, &home.path(), &state, &(drop + &redact));
    let (code, report) = read(python, copy.path());
    assert_eq!((code, &report["sessions"][0]["whole"]), (Some(0), &false.into()), "what was erased is not shown");
}
