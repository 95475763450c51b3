//! A journal in memory: the same rules as the one in SQLite, one thread, and the crashes that the simulator needs.
//!
//! An append is applied at once, and `done` is called before `append` returns. [`Memory::crash_power`] can lose what is
//! not synced yet: whole batches from the end. This module has no rules of its own; they are in `chain`.

mod tables;

use std::sync::{Arc, Mutex, MutexGuard};

use engine::mutant;
use engine::tables::lifecycle::LifecycleKind;
use engine::{
    ApprovalRow, BranchId, CallId, Durability, Epoch, Hash, MessageId, Position, ReceiptRow, Record, RunId, RunRow,
    Seq, SessionId, SessionRow, Timestamp,
};

use crate::ends::only_ends;
use crate::lineage::drop_sealed;
use crate::{Append, Done, Entry, Error, Journal, LAST, Page, Read, Segment, Snapshot, Tail};
use tables::{Logged, Tables};

/// A journal in memory. A clone is independent and cheap: it shares the stored data.
#[derive(Debug, Default)]
pub struct Memory {
    state: Mutex<State>,
}

#[derive(Debug, Clone, Default)]
struct State {
    epoch: Epoch,
    /// Everything that was stored, so that a crash can remove the last part of it.
    log: Vec<Logged>,
    /// How many of these survive a loss of power.
    synced: usize,
    tables: Arc<Tables>,
    failing: Option<Error>,
    full: bool,
    poisoned: Option<String>,
}

impl Clone for Memory {
    fn clone(&self) -> Self {
        Self { state: Mutex::new(self.lock().clone()) }
    }
}

impl Memory {
    /// Creates an empty journal without an owner.
    pub fn new() -> Self {
        Self::default()
    }

    /// Becomes the owner: from now on the journal accepts only appends of this epoch.
    pub fn open(&self) -> Epoch {
        let mut state = self.lock();
        state.epoch = Epoch(state.epoch.0 + 1);
        state.poisoned = None;
        state.epoch
    }

    /// The number of batches that were written and are not synced yet.
    pub fn unsynced(&self) -> usize {
        let state = self.lock();
        state.log[state.synced..].iter().filter(|logged| matches!(logged, Logged::Batch(_))).count()
    }

    /// Simulates a loss of power: of the unsynced batches the first `keep` survive, with the snapshots up to the first
    /// lost batch. The old owner is fenced from now on.
    pub fn crash_power(&self, keep: usize) {
        let mut state = self.lock();
        let written = state.log.iter().enumerate().skip(state.synced);
        let lost = written.filter(|(_, logged)| matches!(logged, Logged::Batch(_))).nth(keep).map(|(at, _)| at);
        if let Some(lost) = lost {
            state.log.truncate(lost);
            let mut tables = Tables::default();
            state.log.iter().for_each(|logged| tables.keep_logged(logged));
            state.tables = Arc::new(tables);
        }
        state.crash();
    }

    /// Simulates a kill of the process: everything that was written survives. The old owner is fenced from now on.
    pub fn crash_process(&self) {
        self.lock().crash();
    }

    /// Makes the next append fail with this error, and every later one until the journal is opened again. A full disk
    /// ([`Error::Full`]) fails only the next append.
    pub fn fail_next(&self, error: Error) {
        self.lock().failing = Some(error);
    }

    /// Fills the disk: from now on only batches that end runs are stored.
    pub fn fill(&self) {
        self.lock().full = true;
    }

    /// Frees the disk again.
    pub fn free(&self) {
        self.lock().full = false;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics: every rule is checked before a table changes")
    }
}

impl State {
    /// Whatever survived the crash is on disk now, and there is no owner.
    fn crash(&mut self) {
        self.synced = self.log.len();
        self.poisoned = Some("the process that owned it has ended".to_owned());
        self.failing = None;
    }

    fn append(&mut self, append: Append) -> Result<Position, Error> {
        if let Some(cause) = self.poisoned.as_ref().filter(|_| !mutant!(PoisonIgnored)) {
            return Err(Error::Poisoned { cause: cause.clone() });
        }
        if let Some(error) = self.failing.take() {
            if !matches!(error, Error::Full { .. }) {
                self.poisoned = Some(error.to_string());
            }
            return Err(error);
        }
        if append.epoch != self.epoch && !mutant!(EpochNotChecked) {
            return Err(Error::Fenced { epoch: append.epoch, owner: self.epoch });
        }
        if self.full && !only_ends(&append.batch) {
            return Err(Error::Full { path: "journal.db".into() });
        }
        let synced = append.batch.durability() == Durability::Synced;
        let kept = Logged::Batch(Arc::new(self.tables.plan(append)?));
        self.keep(kept);
        if synced {
            self.synced = self.log.len();
        }
        Ok(self.tables.position)
    }

    fn keep(&mut self, logged: Logged) {
        Arc::make_mut(&mut self.tables).keep_logged(&logged);
        self.log.push(logged);
    }
}

impl Journal for Memory {
    fn append(&self, append: Append, done: Done) {
        let answer = self.lock().append(append);
        done(answer);
    }

    fn keep_snapshot(&self, snapshot: Snapshot) {
        let mut state = self.lock();
        if state.poisoned.is_none() {
            state.keep(Logged::Snapshot(Arc::new(snapshot)));
        }
    }

    fn epoch(&self) -> Epoch {
        self.lock().epoch
    }

    fn has_space(&self) -> bool {
        !self.lock().full
    }
}

impl Read for Memory {
    fn head(&self) -> Result<Position, Error> {
        Ok(self.lock().tables.position)
    }

    fn last(&self, branch: BranchId) -> Result<Seq, Error> {
        let tables = self.lock().tables.clone();
        Ok(tables.branches.get(&branch).and_then(|branch| branch.entries.last()).map_or(Seq(0), |entry| entry.seq))
    }

    fn latest(&self) -> Result<Timestamp, Error> {
        Ok(self.lock().tables.latest())
    }

    fn range(&self, branch: BranchId, from: Seq, until: Seq) -> Result<Vec<Entry>, Error> {
        let tables = self.lock().tables.clone();
        Ok(tables.range(branch, from, until))
    }

    fn tail(&self, branch: BranchId, from: Seq) -> Result<Tail, Error> {
        let tables = self.lock().tables.clone();
        let mut progress = tables.progress(branch);
        let segments = [Segment { branch, entries: tables.range(branch, from, LAST) }];
        drop_sealed(&mut progress, &segments);
        let [Segment { entries, .. }] = segments;
        Ok(Tail { entries, progress })
    }

    fn snapshots(&self, branch: BranchId) -> Result<Vec<Seq>, Error> {
        let tables = self.lock().tables.clone();
        Ok(tables
            .branches
            .get(&branch)
            .and_then(|branch| branch.snapshot.as_ref())
            .map(|s| s.seq)
            .into_iter()
            .collect())
    }

    fn snapshot(&self, branch: BranchId, seq: Seq) -> Result<Option<Snapshot>, Error> {
        let tables = self.lock().tables.clone();
        let snapshot = tables.branches.get(&branch).and_then(|branch| branch.snapshot.as_deref());
        Ok(snapshot.filter(|snapshot| snapshot.seq == seq).cloned())
    }

    fn progress(&self, branch: BranchId) -> Result<Vec<Record>, Error> {
        Ok(self.lock().tables.clone().progress(branch))
    }

    fn page(&self, behind: Position, limit: usize) -> Result<Page, Error> {
        let tables = self.lock().tables.clone();
        Ok(tables.page(behind, limit))
    }

    fn body(&self, hash: &Hash) -> Result<Option<Arc<[u8]>>, Error> {
        Ok(self.lock().tables.bodies.get(hash).cloned())
    }

    fn sessions(&self) -> Result<Vec<SessionRow>, Error> {
        Ok(self.lock().tables.sessions.order.clone())
    }

    fn sessions_before(&self, before: Option<SessionId>, limit: usize) -> Result<Vec<SessionRow>, Error> {
        Ok(self.lock().tables.sessions.before(before.as_ref(), limit, |_| true))
    }

    fn unfinished(&self) -> Result<Vec<SessionRow>, Error> {
        Ok(self.lock().tables.sessions.filter(|row| row.unfinished))
    }

    fn held(&self) -> Result<Vec<SessionRow>, Error> {
        Ok(self.lock().tables.sessions.filter(|row| !row.unfinished && row.lifecycle == LifecycleKind::Error))
    }

    fn ledger(&self) -> Result<Option<BranchId>, Error> {
        Ok(self.lock().tables.ledgers.last().copied())
    }

    fn branches(&self) -> Result<Vec<(BranchId, SessionId)>, Error> {
        Ok(self.lock().tables.begun.clone())
    }

    fn session(&self, key: &str) -> Result<Option<SessionRow>, Error> {
        Ok(self.lock().tables.sessions.filter(|row| row.key == key).pop())
    }

    fn session_of_run(&self, run: RunId) -> Result<Option<SessionRow>, Error> {
        let state = self.lock();
        let session = state.tables.runs.filter(|row| row.run == run).pop().map(|row| row.session);
        Ok(state.tables.sessions.filter(|row| Some(row.session) == session).pop())
    }

    fn runs(&self, session: Option<SessionId>) -> Result<Vec<RunRow>, Error> {
        let state = self.lock();
        let rows = state.tables.runs.filter(|row| session.is_none_or(|session| row.session == session));
        Ok(rows.into_iter().map(|row| state.tables.stands(row)).collect())
    }

    fn runs_before(
        &self,
        session: Option<SessionId>,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<RunRow>, Error> {
        let state = self.lock();
        let of_session = |row: &RunRow| session.is_none_or(|session| row.session == session);
        let rows = state.tables.runs.before(before.as_ref(), limit, of_session);
        Ok(rows.into_iter().map(|row| state.tables.stands(row)).collect())
    }

    fn run(&self, run: RunId) -> Result<Option<RunRow>, Error> {
        let state = self.lock();
        Ok(state.tables.runs.get(&run).map(|row| state.tables.stands(row.clone())))
    }

    fn receipts(&self, session: SessionId) -> Result<Vec<ReceiptRow>, Error> {
        Ok(self.lock().tables.receipts.filter(|row| row.session == session))
    }

    fn receipt(&self, message: MessageId) -> Result<Option<ReceiptRow>, Error> {
        Ok(self.lock().tables.receipts.get(&message).cloned())
    }

    fn receipt_by_key(&self, session: SessionId, key: &str) -> Result<Option<ReceiptRow>, Error> {
        let of_key = |row: &ReceiptRow| row.session == session && row.key.as_deref() == Some(key);
        Ok(self.lock().tables.receipts.filter(of_key).into_iter().next())
    }

    fn approvals(&self, session: Option<SessionId>) -> Result<Vec<ApprovalRow>, Error> {
        let open = |row: &ApprovalRow| row.allowed.is_none() && session.is_none_or(|session| row.session == session);
        Ok(self.lock().tables.approvals.filter(open))
    }

    fn closed_approvals(&self) -> Result<Vec<ApprovalRow>, Error> {
        Ok(self.lock().tables.approvals.filter(|row: &ApprovalRow| row.allowed.is_some()))
    }

    fn closed_approvals_before(
        &self,
        session: Option<SessionId>,
        before: Option<CallId>,
        limit: usize,
    ) -> Result<Vec<ApprovalRow>, Error> {
        let closed = |row: &ApprovalRow| row.allowed.is_some() && session.is_none_or(|session| row.session == session);
        Ok(self.lock().tables.approvals.before(before.as_ref(), limit, closed))
    }

    fn closed_approval_calls(&self) -> Result<Vec<CallId>, Error> {
        Ok(self.closed_approvals()?.into_iter().map(|row| row.call).collect())
    }

    fn approval(&self, call: CallId) -> Result<Option<ApprovalRow>, Error> {
        Ok(self.lock().tables.approvals.get(&call).cloned())
    }
}
