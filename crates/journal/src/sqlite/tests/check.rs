//! Checks of a home: each fault is found and located, the check continues after it, and changes nothing.

use std::fs;
use std::path::Path;

use engine::tables::lifecycle::{LifecycleCause, LifecycleKind};
use engine::{BranchId, Forked, LifecycleChanged, Position, Seq};
use rusqlite::Connection;

use super::{add, filled, home, own};
use crate::check::{CheckReport, Consequence, Defect, EntryContent, Finding, Repair, What, check};
use crate::suite::samples::{retracted, text};
use crate::suite::{Script, id};
use crate::{Error, Read as _, Reader};

fn database(home: &Path) -> Connection {
    Connection::open(home.join("journal.db")).unwrap()
}

/// Checks a home, and asserts that the check has changed neither journal nor mark.
pub(super) fn look(home: &Path) -> CheckReport {
    let files = || ["journal.db", "journal.mark"].map(|name| fs::read(home.join(name)).ok());
    let before = files();
    let mut report = check(home, &mut |_| ()).unwrap();
    assert_eq!(files(), before);
    // The scripts here record no rows of views; the tests of the command check those.
    report.findings.retain(|finding| finding.what != What::Views);
    report
}

fn only(home: &Path) -> Finding {
    let mut findings = look(home).findings;
    assert_eq!(findings.len(), 1, "{findings:#?}");
    findings.remove(0)
}

/// A home with three possible sessions: each has one message and the same body.
pub(super) fn three() -> (tempfile::TempDir, std::path::PathBuf, Vec<Script>) {
    let ((folder, home), mut scripts) = (home(), vec![Script::new(1), Script::new(2), Script::new(3)]);
    let sqlite = own(&home);
    for script in &mut scripts {
        add(&sqlite, script.begin()).unwrap();
        let body = text("the same for all");
        let accepted = crate::suite::samples::accepted(body.body);
        add(&sqlite, script.batch(vec![accepted, retracted(1), retracted(2)], vec![body])).unwrap();
    }
    drop(sqlite);
    (folder, home, scripts)
}

#[test]
fn an_intact_home_has_no_findings() {
    let (_folder, home, _) = three();
    let mut steps = vec![];
    check(&home, &mut |progress| steps.push(progress.step)).unwrap();
    let report = look(&home);
    assert_eq!((report.findings, report.notes), (vec![], vec![]));
    let counts = report.counts;
    assert_eq!((counts.sessions, counts.entries, counts.bodies, counts.head, counts.mark), (3, 12, 1, 12, 12));
    assert!(counts.database_bytes > 0 && counts.free_bytes > 0);
    steps.dedup();
    assert_eq!(steps, ["files", "pages", "sessions", "views"]);
    let (_folder, nowhere) = super::home();
    assert!(matches!(check(&nowhere, &mut |_| ()), Err(Error::NotFound { .. })));
}

/// Each entry follows from the one before it, and together they give a state that no machine reaches.
#[test]
fn r18_a_state_that_breaks_an_invariant_is_found() {
    let (_folder, home, mut scripts) = three();
    let (from, to) = (LifecycleKind::Ready, LifecycleKind::Terminated);
    let terminated = LifecycleChanged::by(LifecycleCause::Terminate, from, to);
    add(&own(&home), scripts[1].batch(vec![terminated.into()], vec![])).unwrap();
    let finding = only(&home);
    assert_eq!((finding.what, &finding.effect), (What::State, &Consequence::Suspect(scripts[1].key.clone())));
    assert_eq!((finding.place.session.as_ref(), finding.repair.as_ref()), (Some(&scripts[1].key), None));
    assert!(finding.detail.starts_with("INV-A6: "), "{}", finding.detail);
    assert_eq!(serde_json::to_value(&finding).unwrap()["what"], "state");
}

#[test]
fn r18_a_changed_entry_is_located_and_the_others_are_not_doubted() {
    type Case = (&'static str, fn(&Defect) -> bool);
    let cases: [Case; 6] = [
        (
            "UPDATE entries SET payload = replace(payload, 'request', 'requesT') WHERE branch = 2 AND seq = 3",
            |defect| *defect == Defect::Payload,
        ),
        ("UPDATE entries SET at = at + 1 WHERE branch = 2 AND seq = 3", |defect| *defect == Defect::Chain),
        ("UPDATE entries SET epoch = 9 WHERE branch = 2 AND seq = 3", |defect| *defect == Defect::Chain),
        ("UPDATE entries SET chain = zeroblob(32) WHERE branch = 2 AND seq = 3", |defect| *defect == Defect::Chain),
        ("UPDATE entries SET chain = zeroblob(3) WHERE branch = 2 AND seq = 3", |defect| {
            matches!(defect, Defect::Row { .. })
        }),
        ("DELETE FROM entries WHERE branch = 2 AND seq = 3", |defect| *defect == Defect::Missing { expected: Seq(3) }),
    ];
    for (sql, is_it) in cases {
        let (_folder, home, scripts) = three();
        super::as_text(&home);
        assert_eq!(database(&home).execute(sql, []).unwrap(), 1, "{sql}");
        let finding = only(&home);
        assert_eq!(finding.what, What::Entry, "{sql}");
        assert_eq!(finding.effect, Consequence::Refused(scripts[1].key.clone()), "{sql}");
        assert_eq!(finding.repair, Some(Repair::Session(scripts[1].key.clone())), "{sql}");
        assert!(finding.detail.contains(&format!("good up to {}@2", scripts[1].branch)), "{sql}: {}", finding.detail);
        let reader = Reader::open(&home).unwrap();
        let verified = reader.verify(&reader.lineage(scripts[1].branch).unwrap());
        assert!(is_it(&verified.faults[0].defect), "{sql}: {:?}", verified.faults);
        assert_eq!(
            (verified.faults.len(), verified.more),
            (1, 0),
            "{sql}: what follows is good: {:?}",
            verified.faults
        );
        assert_eq!(verified.last_good.map(|place| place.checkpoint.seq), Some(Seq(2)), "{sql}");
    }
}

/// R18: a row without the hash of its payload and without its whole chain value is found by four bytes of it. The rest of
/// its append is not judged, the next one is.
#[test]
fn r18_a_changed_row_whose_hashes_are_not_stored_is_located() {
    type Case = (&'static str, fn(&Defect) -> bool);
    let chain = |defect: &Defect| *defect == Defect::Chain;
    let cases: [Case; 9] = [
        ("payload = replace(payload, 'request', 'requesT')", chain),
        ("payload = '{}'", chain),
        ("payload = NULL", |defect| *defect == Defect::Unhashed),
        ("at = at + 1", chain),
        ("epoch = 9", chain),
        ("kind = 'paused'", chain),
        ("chain = x'00000000'", chain),
        ("chain = zeroblob(32)", chain),
        ("chain = x''", |defect| matches!(defect, Defect::Row { .. })),
    ];
    for (name, is_it) in cases {
        let (_folder, home, mut scripts) = three();
        add(&own(&home), scripts[1].batch(vec![retracted(3), retracted(4)], vec![])).unwrap();
        super::as_short_text(&home);
        let change = |change: &str, seq: i64| {
            let sql = format!("UPDATE entries SET {change} WHERE branch = 2 AND seq = ?1");
            assert_eq!(database(&home).execute(&sql, [seq]).unwrap(), 1, "{sql}");
        };
        let defects = || {
            let reader = Reader::open(&home).unwrap();
            let segment = reader.lineage(scripts[1].branch).unwrap()[0];
            let mut defects = vec![];
            reader
                .walk(&segment, |audited| defects.extend(audited.defects.iter().map(|it| (audited.seq, it.clone()))))
                .unwrap();
            defects
        };
        change(name, 3);
        assert_eq!(own(&home).read(scripts[1].branch, Seq(1)).unwrap_err().kind(), crate::Kind::Damaged, "{name}");
        assert!(only(&home).detail.contains(&format!("good up to {}@2", scripts[1].branch)), "{name}");
        let found = defects();
        assert!(found.len() == 1 && found[0].0 == Seq(3) && is_it(&found[0].1), "{name}: {found:?}");
        change("at = at + 1", 5);
        let found = defects();
        assert!(found.len() == 2 && found[1] == (Seq(5), Defect::Chain), "{name}: {found:?}");
    }
}

#[test]
fn a_damaged_body_is_reported_for_the_sessions_that_name_it() {
    for (sql, defect) in [("UPDATE bodies SET content = x'00'", "does not match"), ("DELETE FROM bodies", "is missing")]
    {
        let (_folder, home, _) = three();
        assert_eq!(database(&home).execute(sql, []).unwrap(), 1);
        let findings = look(&home).findings;
        assert_eq!(findings.len(), 3, "{findings:?}");
        assert!(findings.iter().all(|finding| finding.what == What::Body && finding.detail.contains(defect)));
        assert_eq!(findings[0].place.body, Some(text("the same for all").body.hash));
    }
    let (_folder, home, _) = three();
    database(&home).execute("UPDATE bodies SET content = NULL", []).unwrap();
    assert_eq!(look(&home).findings, vec![], "one that was erased on purpose is no damage");
}

#[test]
fn an_event_that_cannot_follow_is_found() {
    let (_folder, home, script) = filled();
    // The samples are one of every kind: no run has ever done all of that.
    let finding = only(&home);
    assert_eq!(finding.what, What::Entry);
    assert!(finding.detail.contains("which no run can do"), "{}", finding.detail);
    assert_eq!(finding.effect, Consequence::Refused(script.key));
}

#[test]
fn r18_a_forked_line_is_walked_through_its_parent() {
    let (_folder, home, scripts) = three();
    let (parent, sqlite) = (&scripts[0], own(&home));
    let at = sqlite.read(parent.branch, Seq(3)).unwrap().remove(0);
    let mut child = Script { branch: BranchId(id(9)), seq: 0, ..parent.clone() };
    let forked = Forked { parent: parent.branch, at: at.seq, hash: at.chain };
    add(&sqlite, child.batch(vec![forked.into(), retracted(7)], vec![])).unwrap();
    drop(sqlite);
    assert_eq!(look(&home).findings, vec![]);
    let reader = Reader::open(&home).unwrap();
    let line = reader.lineage(child.branch).unwrap();
    assert_eq!(
        line.iter().map(|segment| (segment.branch, segment.to)).collect::<Vec<_>>(),
        [(parent.branch, Some(Seq(3))), (child.branch, None)]
    );
    let mut walked = vec![];
    for segment in &line {
        reader.walk(segment, |audited| walked.push((audited.branch, audited.seq, audited.defects.len()))).unwrap();
    }
    let expected = [(parent.branch, 1), (parent.branch, 2), (parent.branch, 3), (child.branch, 1), (child.branch, 2)];
    assert_eq!(walked, expected.map(|(branch, seq)| (branch, Seq(seq), 0)));
    // Entries that the line has left behind are not its concern.
    database(&home).execute("UPDATE entries SET at = 1 WHERE branch = 1 AND seq = 4", []).unwrap();
    assert_eq!(look(&home).findings, vec![]);
    database(&home).execute("UPDATE entries SET at = 1 WHERE branch = 1 AND seq = 2", []).unwrap();
    assert!(only(&home).detail.contains(&format!("good up to {}@1", parent.branch)));
}

#[test]
fn a_removed_payload_leaves_the_chain_whole() {
    let (_folder, home, scripts) = three();
    super::redact(&home, 3, &[3]);
    let reader = Reader::open(&home).unwrap();
    let mut contents = vec![];
    let segment = reader.lineage(scripts[2].branch).unwrap()[0];
    reader.walk(&segment, |audited| contents.push((audited.content.clone(), audited.defects.len()))).unwrap();
    assert_eq!(contents[2], (EntryContent::Removed, 0));
    assert!(matches!(contents[3], (EntryContent::Event(_), 0)));
}

#[test]
fn r10_loss_and_a_damaged_mark_are_distinguished() {
    let (_folder, home, _) = three();
    let mark = fs::read(home.join("journal.mark")).unwrap();
    database(&home).execute("DELETE FROM entries WHERE position = 12", []).unwrap();
    let finding = only(&home);
    assert_eq!(
        (finding.what, finding.place.position, finding.repair),
        (What::Lost, Some(Position(12)), Some(Repair::Loss))
    );

    let (_folder, home, _) = three();
    fs::write(home.join("journal.mark"), [&mark[..8], &[7; 32]].concat()).unwrap();
    assert_eq!(only(&home).what, What::Replaced);
    fs::write(home.join("journal.mark"), &mark[..17]).unwrap();
    assert_eq!(only(&home).what, What::Mark);
    fs::write(home.join("journal.mark"), b"").unwrap();
    assert_eq!(look(&home).findings, vec![], "power may have been lost before it was written");

    fs::write(home.join("journal.mark"), &mark).unwrap();
    fs::remove_file(home.join("journal.db")).unwrap();
    let finding = only(&home);
    assert_eq!((finding.what, finding.effect, finding.repair), (What::Gone, Consequence::Closed, None));
}

#[test]
fn foreign_and_truncated_files_are_distinguished() {
    let (_folder, home, _) = three();
    let path = home.join("journal.db");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, vec![0xA5; 9000]).unwrap();
    assert_eq!(only(&home).what, What::Foreign);
    fs::remove_file(&path).unwrap();
    database(&home).execute_batch("CREATE TABLE bookmarks(url TEXT)").unwrap();
    assert_eq!(only(&home).what, What::Foreign);
    fs::write(&path, &whole).unwrap();
    database(&home).execute_batch("PRAGMA user_version = 3").unwrap();
    let finding = only(&home);
    assert_eq!((finding.what, finding.repair), (What::Newer, None));
    fs::write(&path, &whole[..whole.len() - 4096 * 3]).unwrap();
    let report = look(&home);
    assert_eq!(report.findings[0].what, What::Truncated, "{:#?}", report.findings);
    assert_eq!(report.findings[0].repair, Some(Repair::Export));
}

#[test]
fn a_malformed_page_is_found_with_its_table() {
    let (_folder, home, _) = three();
    let root: i64 = {
        let connection = database(&home);
        connection.query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'bodies'", [], |row| row.get(0)).unwrap()
    };
    let path = home.join("journal.db");
    let mut bytes = fs::read(&path).unwrap();
    let page = (root as usize - 1) * 4096;
    bytes[page] ^= 0x40;
    fs::write(&path, bytes).unwrap();
    let report = look(&home);
    let pages = report.findings.iter().find(|finding| finding.what == What::Pages).unwrap();
    assert!(pages.detail.contains("bodies"), "{}", pages.detail);
    assert_eq!(pages.repair, Some(Repair::Export));
}

/// A home whose process was killed: its last entries are only in the WAL.
pub(super) fn killed(script: &mut Script) -> (tempfile::TempDir, std::path::PathBuf) {
    let (folder, home) = home();
    let sqlite = own(&home);
    add(&sqlite, script.begin()).unwrap();
    drop(sqlite);
    let sqlite = own(&home);
    add(&sqlite, script.batch(vec![crate::suite::samples::accepted(text("x").body)], vec![text("x")])).unwrap();
    let dead = folder.path().join("dead");
    fs::create_dir(&dead).unwrap();
    for name in ["journal.db", "journal.db-wal", "journal.mark"] {
        fs::copy(home.join(name), dead.join(name)).unwrap();
    }
    (folder, dead)
}

#[test]
fn r10_a_lost_wal_is_loss_and_a_stale_one_is_quarantined() {
    let (_folder, home) = killed(&mut Script::new(1));
    assert_eq!(look(&home).findings, vec![], "the WAL of a process that was killed is as it should be");
    let wal = fs::read(home.join("journal.db-wal")).unwrap();
    fs::remove_file(home.join("journal.db-wal")).unwrap();
    let finding = only(&home);
    assert_eq!(finding.what, What::Lost);
    assert!(finding.detail.contains("There is no journal.db-wal"), "{}", finding.detail);

    // Another journal, closed properly, with the WAL of the first.
    let (_folder, other, _) = three();
    fs::write(other.join("journal.db-wal"), &wal).unwrap();
    let before = fs::read(other.join("journal.db")).unwrap();
    let finding = only(&other);
    assert_eq!((finding.what, finding.repair), (What::StaleWal, Some(Repair::Wal)));
    // A new owner is refused, and that does not checkpoint the WAL into the file.
    let error = crate::Sqlite::own(&other).unwrap_err();
    assert_eq!(error.kind(), crate::Kind::Damaged, "{error}");
    assert_eq!(fs::read(other.join("journal.db")).unwrap(), before);
    fs::remove_file(other.join("journal.db-wal")).unwrap();
    assert_eq!(own(&other).head(), Ok(Position(12)), "nothing of it is lost");
}
