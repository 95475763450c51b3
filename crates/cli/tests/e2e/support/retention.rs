//! Removing from a home what no command removes yet.

use std::path::Path;
use std::sync::Arc;

use engine::{BranchId, Machine, Seq, Session, Settings};
use journal::{Journal as _, Read as _, Snapshot, Sqlite};

/// What the entries of a session's current branch add up to at this one.
fn state_at(home: &Path, key: &str, at: Seq) -> Session {
    let journal = journal::Reader::open(home).expect("a journal");
    let line = journal.history_until(branch_of(&journal, key), at).expect("its line");
    let settings = |hash| Settings::from_bytes(&journal.body(&hash).ok().flatten()?).ok().map(Arc::new);
    let machine = Machine::recover(line.into(), &settings).expect("a line that folds");
    machine.session().expect("a session").clone()
}

fn branch_of(journal: &dyn journal::Read, key: &str) -> BranchId {
    journal.session(key).expect("a journal").expect("the session").branch
}

/// Keeps a snapshot of a session at this entry.
pub(crate) fn keep_snapshot(home: &Path, key: &str, at: Seq) {
    let state = state_at(home, key, at);
    let journal = Sqlite::own(home).expect("nobody owns it");
    journal.keep_snapshot(Snapshot::new(state.account.branch, at, state.to_snapshot()));
}

/// Removes the entries of a session before this one; gives its branch.
pub(crate) fn anchor(home: &Path, key: &str, at: Seq) -> BranchId {
    keep_snapshot(home, key, at);
    let journal = Sqlite::own(home).expect("nobody owns it");
    let branch = branch_of(&journal, key);
    assert_eq!(journal.anchor(branch, at), Ok(at.0 - 1));
    branch
}
