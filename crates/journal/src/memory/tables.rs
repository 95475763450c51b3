//! The tables of the format in memory, and how a batch is stored in them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::mutant;
use engine::{
    ApprovalRow, Batch, BranchId, CallId, Content, EffectId, Event, Hash, Ledger, MessageId, Position, ReceiptRow,
    Record, RunId, RunRow, Seq, SessionId, SessionRow, Timestamp,
};

use crate::chain::{self, Head};
use crate::{Append, Entry, Error, HomeEntry, Open, Page, Snapshot};

/// An append as it was stored.
#[derive(Debug)]
pub(super) struct Kept {
    append: Append,
    entries: Vec<Arc<Entry>>,
}

/// An item of the log.
#[derive(Debug, Clone)]
pub(super) enum Logged {
    Batch(Arc<Kept>),
    Snapshot(Arc<Snapshot>),
}

/// The tables of the format: the result of applying the log.
#[derive(Debug, Clone, Default)]
pub(super) struct Tables {
    pub(super) position: Position,
    pub(super) branches: BTreeMap<BranchId, Branch>,
    keys: BTreeMap<String, SessionId>,
    pub(super) begun: Vec<(BranchId, SessionId)>,
    /// The branches of the ledger, in the order in which they were begun.
    pub(super) ledgers: Vec<BranchId>,
    pub(super) bodies: BTreeMap<Hash, Arc<[u8]>>,
    pub(super) sessions: Rows<SessionId, SessionRow>,
    pub(super) runs: Rows<RunId, RunRow>,
    pub(super) receipts: Rows<MessageId, ReceiptRow>,
    pub(super) approvals: Rows<CallId, ApprovalRow>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Branch {
    head: Head,
    pub(super) entries: Vec<Arc<Entry>>,
    pub(super) progress: BTreeMap<(EffectId, u64), Record>,
    pub(super) snapshot: Option<Arc<Snapshot>>,
}

/// Rows by key, in the order in which they were first recorded.
#[derive(Debug, Clone)]
pub(super) struct Rows<K, V> {
    pub(super) order: Vec<V>,
    index: BTreeMap<K, usize>,
}

impl<K, V> Default for Rows<K, V> {
    fn default() -> Self {
        Self { order: Vec::new(), index: BTreeMap::new() }
    }
}

impl<K: Ord, V: Clone> Rows<K, V> {
    fn put(&mut self, key: K, value: &V) {
        if let Some(&at) = self.index.get(&key) {
            self.order[at] = value.clone();
        } else {
            self.index.insert(key, self.order.len());
            self.order.push(value.clone());
        }
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.index.get(key).map(|&at| &self.order[at])
    }

    /// The last `limit` rows that were recorded before the row of this key; an unknown key counts as the end.
    pub(super) fn before(&self, key: Option<&K>, limit: usize, keep: impl Fn(&V) -> bool) -> Vec<V> {
        let until = key.and_then(|key| self.index.get(key)).copied().unwrap_or(self.order.len());
        let mut rows: Vec<V> = self.order[..until].iter().rev().filter(|row| keep(row)).take(limit).cloned().collect();
        rows.reverse();
        rows
    }

    pub(super) fn filter(&self, keep: impl Fn(&V) -> bool) -> Vec<V> {
        self.order.iter().filter(|row| keep(row)).cloned().collect()
    }
}

impl Tables {
    /// What this append would add, if it satisfies the rules; changes nothing.
    pub(super) fn plan(&self, append: Append) -> Result<Kept, Error> {
        let batch = &append.batch;
        let branch = self.branches.get(&batch.branch);
        let mut head = branch.map(|branch| branch.head);
        let mut position = self.position;
        let mut entries = Vec::new();
        let mut places = BTreeSet::new();
        for record in &batch.records {
            chain::admit(batch, head, record)?;
            self.check_bodies(batch, &record.event)?;
            if let Some((effect, offset)) = record.event.progress() {
                let taken = branch.is_some_and(|branch| branch.progress.contains_key(&(effect, offset)));
                if taken || !places.insert((effect, offset)) {
                    return Err(Error::Constraint { detail: format!("progress {effect} at {offset} twice") });
                }
                continue;
            }
            let open = match head {
                Some(head) => head,
                None => self.beginning(&record.event)?,
            };
            position = Position(position.0 + 1);
            let entry = open.entry(batch.branch, append.epoch, position, record);
            head = Some(Head { seq: entry.seq, chain: entry.chain });
            entries.push(Arc::new(entry));
        }
        Ok(Kept { append, entries })
    }

    /// The time of the last entry, or of progress if that is later.
    pub(super) fn latest(&self) -> Timestamp {
        let last = |branch: &Branch| branch.entries.last().map(|entry| (entry.position, entry.at));
        let entry = self.branches.values().filter_map(last).max().map(|(_, at)| at);
        let progress = self.branches.values().flat_map(|branch| branch.progress.values()).map(|record| record.at);
        entry.into_iter().chain(progress).max().unwrap_or_default()
    }

    /// The entries of a branch from `from` to `until`.
    pub(super) fn range(&self, branch: BranchId, from: Seq, until: Seq) -> Vec<Entry> {
        let entries = self.branches.get(&branch).map_or(&[][..], |branch| &branch.entries);
        let wanted = |entry: &&Arc<Entry>| (from..=until).contains(&entry.seq);
        entries.iter().filter(wanted).map(|entry| Entry::clone(entry)).collect()
    }

    /// Unsealed progress of a branch, in order.
    pub(super) fn progress(&self, branch: BranchId) -> Vec<Record> {
        let progress = self.branches.get(&branch).into_iter().flat_map(|branch| branch.progress.values());
        progress.map(|record| Record { seq: None, ..record.clone() }).collect()
    }

    /// The first entries after a position, and open progress if these are the last entries.
    pub(super) fn page(&self, behind: Position, limit: usize) -> Page {
        let sessions = self.branches.iter().filter(|(id, _)| !self.ledgers.contains(id));
        let entries = sessions.flat_map(|(id, branch)| branch.entries.iter().map(|entry| (*id, entry)));
        let mut entries: Vec<_> = entries.filter(|(_, entry)| entry.position > behind).collect();
        entries.sort_by_key(|(_, entry)| entry.position);
        let is_last = entries.len() < limit;
        entries.truncate(limit);
        let placed = |(branch, entry): (BranchId, &Arc<Entry>)| {
            let Entry { position, epoch, .. } = **entry;
            HomeEntry { position, epoch, branch, entry: Ok(Entry::clone(entry)) }
        };
        Page { entries: entries.into_iter().map(placed).collect(), open: is_last.then(|| self.open()) }
    }

    fn open(&self) -> Vec<Open> {
        let open = |(id, branch): (&BranchId, &Branch)| {
            let head = branch.entries.last().filter(|_| !branch.progress.is_empty())?;
            let progress = branch.progress.values().map(|record| Record { seq: None, ..record.clone() }).collect();
            Some(Open { branch: *id, head: (head.seq, head.epoch), progress })
        };
        self.branches.iter().filter_map(open).collect()
    }

    /// The head that a new branch starts with.
    fn beginning(&self, event: &Event) -> Result<Head, Error> {
        match event {
            Event::Created(e) if self.keys.contains_key(&e.key) => Err(Error::KeyTaken { key: e.key.clone() }),
            Event::Created(e) if self.keys.values().any(|session| *session == e.session) => {
                Err(Error::Constraint { detail: format!("session {} is created already", e.session) })
            }
            Event::Forked(e) => {
                let entries = self.branches.get(&e.parent).map_or(&[][..], |parent| &parent.entries);
                let known = entries.iter().any(|entry| entry.seq == e.at && entry.chain == e.hash);
                let unknown = Error::UnknownParent { parent: e.parent, at: e.at };
                if known { Ok(Head::forked(e.hash)) } else { Err(unknown) }
            }
            _ => Ok(Head::EMPTY),
        }
    }

    fn check_bodies(&self, batch: &Batch, event: &Event) -> Result<(), Error> {
        let kept = |hash: &Hash| self.bodies.contains_key(hash) || batch.bodies.iter().any(|c| c.body.hash == *hash);
        match event.references().into_iter().find(|hash| !kept(hash)) {
            Some(hash) => Err(Error::MissingBody { branch: batch.branch, hash }),
            None => Ok(()),
        }
    }

    /// Applies an item of the log.
    pub(super) fn keep_logged(&mut self, logged: &Logged) {
        match logged {
            Logged::Batch(kept) => self.keep(kept),
            Logged::Snapshot(snapshot) => self.keep_snapshot(snapshot),
        }
    }

    fn keep_snapshot(&mut self, snapshot: &Arc<Snapshot>) {
        let branch = self.branches.get_mut(&snapshot.branch).filter(|branch| branch.head.seq >= snapshot.seq);
        if let Some(branch) = branch {
            branch.snapshot = Some(Arc::clone(snapshot));
        }
    }

    /// The current row of a run.
    pub(super) fn stands(&self, row: RunRow) -> RunRow {
        let session = self.sessions.get(&row.session);
        row.within(session)
    }

    /// Applies a planned append.
    fn keep(&mut self, kept: &Kept) {
        let batch = &kept.append.batch;
        let mut entries = kept.entries.iter();
        match self.branches.contains_key(&batch.branch) {
            true => {}
            false if batch.session == Ledger::SESSION => self.ledgers.push(batch.branch),
            false => self.begun.push((batch.branch, batch.session)),
        }
        for record in &batch.records {
            let branch = self.branches.entry(batch.branch).or_default();
            if let Some(place) = record.event.progress() {
                branch.progress.insert(place, record.clone());
            } else if let Some(entry) = entries.next() {
                branch.keep(entry.clone());
                self.position = entry.position;
            }
            if let Event::Created(e) = &record.event {
                self.keys.insert(e.key.clone(), e.session);
            }
        }
        for Content { body, bytes } in &batch.bodies {
            self.bodies.entry(body.hash).or_insert_with(|| bytes.clone());
        }
        let views = &batch.views;
        views.session.iter().for_each(|row| self.sessions.put(row.session, row));
        views.runs.iter().for_each(|row| self.runs.put(row.run, row));
        views.receipts.iter().for_each(|row| self.receipts.put(row.message, row));
        views.approvals.iter().for_each(|row| self.approvals.put(row.call, row));
    }
}

impl Branch {
    fn keep(&mut self, entry: Arc<Entry>) {
        self.head = Head { seq: entry.seq, chain: entry.chain };
        if let Some(sealed) = entry.event.seals().filter(|_| !mutant!(ProgressKept)) {
            self.progress.retain(|(effect, _), _| !sealed.covers(*effect));
        }
        self.entries.push(entry);
    }
}
