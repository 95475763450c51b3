//! Lines that start at an anchor, or that lost payloads: checks, folds and salvage use the snapshot that covers what
//! was removed.

use std::path::{Path, PathBuf};

use engine::{BranchId, Event, Forked, Seq, Session};
use rusqlite::{Connection, params};

use super::check::{look, three};
use super::{add, own, redact};
use crate::check::{Checkpoint, Defect, Repair, Verified, What};
use crate::suite::samples::retracted;
use crate::suite::{Script, id};
use crate::{Journal as _, Read as _, Reader, Snapshot};

/// The entry at which snapshots are made.
const AT: Seq = Seq(4);

fn database(home: &Path) -> Connection {
    Connection::open(home.join("journal.db")).unwrap()
}

/// The state of a branch after this entry.
fn state(home: &Path, branch: BranchId, until: Seq) -> Session {
    let line = Reader::open(home).unwrap().history_until(branch, until).unwrap();
    let mut session = line.start.as_ref().map(|start| start.session.clone());
    for (branch, entry) in line.entries() {
        match (&mut session, &entry.event) {
            (None, Event::Created(created)) => session = Some(Session::created(created, entry.at)),
            (None, event) => panic!("{event:?}"),
            (Some(session), event) => {
                if session.account.branch != branch {
                    session.enter(branch);
                }
                session.apply(event, entry.at);
            }
        }
    }
    session.unwrap()
}

/// Three sessions; the first one has eight entries and a snapshot of its state at the fourth.
pub(super) fn kept() -> (tempfile::TempDir, PathBuf, Script) {
    let (folder, home, mut scripts) = three();
    let mut script = scripts.remove(0);
    let sqlite = own(&home);
    sqlite.keep_snapshot(Snapshot::new(script.branch, AT, state(&home, script.branch, AT).to_snapshot()));
    add(&sqlite, script.batch(vec![retracted(3), retracted(4), retracted(5), retracted(6)], vec![])).unwrap();
    drop(sqlite);
    (folder, home, script)
}

/// The same, with everything before the snapshot removed.
fn anchored() -> (tempfile::TempDir, PathBuf, Script) {
    let (folder, home, script) = kept();
    assert_eq!(own(&home).anchor(script.branch, AT), Ok(3));
    (folder, home, script)
}

/// The same, with these payloads removed.
fn redacted(seqs: &[u64]) -> (tempfile::TempDir, PathBuf, Script) {
    let (folder, home, script) = kept();
    redact(&home, 1, seqs);
    (folder, home, script)
}

fn verify(home: &Path, branch: BranchId) -> Verified {
    let reader = Reader::open(home).unwrap();
    reader.verify(&reader.lineage(branch).unwrap())
}

fn good(verified: &Verified) -> Option<Checkpoint> {
    verified.last_good.as_ref().map(|place| place.checkpoint)
}

/// A branch that forks off here, with one more entry.
pub(super) fn fork(home: &Path, script: &Script, at: Seq) -> Script {
    let sqlite = own(home);
    let hash = sqlite.range(script.branch, at, at).unwrap()[0].chain;
    let mut child = Script { branch: BranchId(id(9)), seq: 0, ..script.clone() };
    let forked = Forked { parent: script.branch, at, hash };
    add(&sqlite, child.batch(vec![forked.into(), retracted(7)], vec![])).unwrap();
    child
}

#[test]
fn r10_r17_r18_removed_entries_are_verified_and_folded_from_their_snapshot() {
    for (name, make) in [("anchored", anchored as fn() -> _), ("redacted", || redacted(&[2, 3]))] {
        let (_folder, home, script): (_, PathBuf, Script) = make();
        let before = state(&home, script.branch, Seq(8));
        assert_eq!(look(&home).findings, vec![], "{name}");
        let verified = verify(&home, script.branch);
        assert_eq!(verified.session().map(Session::to_snapshot), Some(before.to_snapshot()), "{name}");
        assert_eq!(good(&verified), Some(Checkpoint { branch: script.branch, seq: Seq(8) }), "{name}");
        // A fork of it continues from there.
        let child = fork(&home, &script, Seq(6));
        assert_eq!(look(&home).findings, vec![], "{name}");
        let forked = verify(&home, child.branch);
        assert_eq!(forked.session().map(|session| session.account.head), Some(Seq(2)), "{name}");
        assert_eq!(forked.session(), Some(&state(&home, child.branch, Seq(2))), "{name}");
    }
}

#[test]
fn r18_the_chain_is_verified_across_removed_entries() {
    let (_folder, home, script) = redacted(&[2, 3]);
    database(&home).execute("UPDATE entries SET at = at + 1 WHERE branch = 1 AND seq = 2", []).unwrap();
    let verified = verify(&home, script.branch);
    assert_eq!((verified.faults[0].place.checkpoint.seq, &verified.faults[0].defect), (Seq(2), &Defect::Chain));
    // The first entry of a fork continues its parent's chain, though its payload no longer says so.
    let (_folder, home, script) = kept();
    let child = fork(&home, &script, Seq(6));
    let content = state(&home, child.branch, Seq(2)).to_snapshot();
    own(&home).keep_snapshot(Snapshot::new(child.branch, Seq(2), content));
    assert_eq!(own(&home).anchor(child.branch, Seq(2)), Ok(1));
    assert_eq!(look(&home).findings, vec![]);
    let (_folder, home, script) = kept();
    let child = fork(&home, &script, Seq(6));
    let content = state(&home, child.branch, Seq(2)).to_snapshot();
    own(&home).keep_snapshot(Snapshot::new(child.branch, Seq(2), content));
    redact(&home, 4, &[1]);
    assert_eq!(verify(&home, child.branch).faults, vec![]);
    database(&home).execute("UPDATE entries SET chain = zeroblob(32) WHERE branch = 4 AND seq = 1", []).unwrap();
    assert_eq!(verify(&home, child.branch).faults[0].defect, Defect::Chain);
}

#[test]
fn r10_no_salvage_is_offered_into_removed_entries() {
    let salvage = |script: &Script| Some(Repair::Session(script.key.clone()));
    let flip = |home: &Path, seq: u64| {
        super::as_text(home);
        let sql = "UPDATE entries SET payload = replace(payload, 'request', 'requesT') WHERE branch = 1 AND seq = ?1";
        assert_eq!(database(home).execute(sql, [seq as i64]).unwrap(), 1);
    };
    // After the snapshot the state is known.
    let (_folder, home, script) = anchored();
    flip(&home, 7);
    let finding = look(&home).findings.remove(0);
    assert!(finding.detail.contains(&format!("good up to {}@6", script.branch)), "{}", finding.detail);
    assert_eq!(finding.repair, salvage(&script));
    // Between a removed entry and its snapshot the state is unknown: the last good entry is the one before.
    let (_folder, home, script) = redacted(&[2]);
    flip(&home, 3);
    let finding = look(&home).findings.remove(0);
    assert!(finding.detail.contains(&format!("good up to {}@1", script.branch)), "{}", finding.detail);
}

#[test]
fn r10_entries_removed_without_a_snapshot_are_reported() {
    let (_folder, home, script) = redacted(&[6]);
    let findings = look(&home).findings;
    assert_eq!((findings.len(), findings[0].what), (1, What::Entry), "{findings:#?}");
    assert!(findings[0].detail.contains("no snapshot covers it"), "{}", findings[0].detail);
    assert_eq!(findings[0].place.checkpoint, Some(format!("{}@6", script.branch)));
    assert_eq!(good(&verify(&home, script.branch)).map(|at| at.seq), Some(Seq(5)));

    let (_folder, home, script) = anchored();
    database(&home).execute("DELETE FROM snapshots", params![]).unwrap();
    let verified = verify(&home, script.branch);
    assert_eq!(verified.faults.iter().map(|fault| &fault.defect).collect::<Vec<_>>(), [&Defect::Unfounded]);
    assert_eq!((good(&verified), verified.session()), (None, None));
}

#[test]
fn r17_a_line_is_read_from_the_snapshots_of_its_own_where_its_parents_are_gone() {
    let (_folder, home, script) = kept();
    let child = fork(&home, &script, Seq(6));
    let state = state(&home, child.branch, Seq(2));
    own(&home).keep_snapshot(Snapshot::new(child.branch, Seq(2), state.to_snapshot()));
    redact(&home, 1, &[5]);
    let line = Reader::open(&home).unwrap().history(child.branch).unwrap();
    assert_eq!((line.start.map(|start| start.session), line.segments[0].entries.len()), (Some(state.clone()), 0));
    assert_eq!(verify(&home, child.branch).session(), Some(&state));
}
