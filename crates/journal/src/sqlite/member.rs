//! Writes one append within a group: its bodies, records and views.

use std::collections::HashMap;

use engine::{BranchId, EffectId, Event, Forked, Hash, Ledger, Position, Record, Seq, VERSION};
use rusqlite::{OptionalExtension as _, Params, Row, params};

use super::dictionaries::Json;
use super::encode::{Bytes, Encoded, Packed};
use super::rows;
use super::statements::Statements;
use super::stored::{StoredChain, head_at};
use crate::Error;
use crate::chain::{self, Head, Link};

/// Why a member could not be written.
#[derive(Debug)]
pub(super) enum Fault {
    /// It broke a rule of the journal.
    Rule(Error),
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Rule(error)
    }
}

/// A branch as the writer knows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Branch {
    id: i64,
    head: Head,
}

/// The ends of all branches and of the journal, held in memory so that an append reads nothing.
#[derive(Debug)]
pub(super) struct Ends {
    branches: HashMap<BranchId, Branch>,
    /// The last position, and the chain value of the entry there.
    pub(super) last: (Position, Hash),
    /// The previous values, newest last, for a rollback to the start of the transaction.
    undo: Vec<Undo>,
}

#[derive(Debug)]
struct Undo {
    branch: BranchId,
    before: Option<Branch>,
    last: (Position, Hash),
}

impl Ends {
    pub(super) fn new(last: (Position, Hash)) -> Self {
        Self { branches: HashMap::new(), last, undo: Vec::new() }
    }

    /// The current length of the undo log.
    pub(super) fn mark(&self) -> usize {
        self.undo.len()
    }

    /// Rolls back to such a length; 0 is the start of the transaction.
    pub(super) fn back_to(&mut self, mark: usize) {
        while self.undo.len() > mark {
            let Some(undo) = self.undo.pop() else { return };
            self.last = undo.last;
            match undo.before {
                Some(branch) => self.branches.insert(undo.branch, branch),
                None => self.branches.remove(&undo.branch),
            };
        }
    }

    /// Drops the undo log: the transaction is committed.
    pub(super) fn keep(&mut self) {
        self.undo.clear();
    }

    fn set(&mut self, id: BranchId, branch: Branch, position: Position) {
        let before = self.branches.insert(id, branch);
        self.undo.push(Undo { branch: id, before, last: self.last });
        self.last = (position, branch.head.chain);
    }

    /// The branch; it is read from the tables when it is used for the first time.
    fn branch(&mut self, statements: &Statements<'_>, id: BranchId) -> rusqlite::Result<Option<Branch>> {
        if let Some(branch) = self.branches.get(&id) {
            return Ok(Some(*branch));
        }
        let sql = "SELECT b.id, e.seq FROM branches b JOIN entries e ON e.branch = b.id \
                   WHERE b.uuid = ?1 ORDER BY e.seq DESC LIMIT 1";
        let columns = |row: &Row<'_>| Ok((row.get(0)?, Seq(row.get::<_, i64>(1)? as u64)));
        let last = statements.with(sql, |statement| statement.query_row([id.0.as_bytes()], columns).optional())?;
        let Some((row, seq)) = last else { return Ok(None) };
        // A branch whose end cannot be verified takes no entry.
        let Some(head) = head_at(statements.connection(), row, seq)? else { return Ok(None) };
        let branch = Branch { id: row, head };
        self.branches.insert(id, branch);
        Ok(Some(branch))
    }
}

/// Writes one append. If this fails, the caller rolls back `ends` and the transaction.
pub(super) fn write(statements: &Statements<'_>, ends: &mut Ends, encoded: &Encoded) -> Result<Position, Fault> {
    let batch = &encoded.append.batch;
    let member = Member { statements, encoded };
    for body in &encoded.bodies {
        member.body(body)?;
    }
    let mut branch = ends.branch(statements, batch.branch)?;
    let last = encoded.records.iter().rposition(|bytes| matches!(bytes, Bytes::Entry { .. }));
    for (at, (record, bytes)) in batch.records.iter().zip(&encoded.records).enumerate() {
        chain::admit(batch, branch.map(|branch| branch.head), record)?;
        member.check_bodies(&record.event)?;
        let open = match branch {
            Some(branch) => branch,
            None => member.begin(ends, record)?,
        };
        branch = Some(member.record(ends, open, record, (bytes, last == Some(at)))?);
    }
    rows::write(statements, &batch.views, &encoded.views)?;
    Ok(ends.last.0)
}

struct Member<'a, 'c> {
    statements: &'a Statements<'c>,
    encoded: &'a Encoded,
}

impl Member<'_, '_> {
    fn execute(&self, sql: &'static str, parameters: impl Params) -> rusqlite::Result<usize> {
        self.statements.execute(sql, parameters)
    }

    fn body(&self, body: &Packed) -> rusqlite::Result<usize> {
        let sql = "INSERT INTO bodies(hash, kind, size, encoding, content) VALUES (?1, ?2, ?3, ?4, ?5) \
                   ON CONFLICT(hash) DO UPDATE SET encoding = excluded.encoding, content = excluded.content \
                   WHERE bodies.content IS NULL";
        let content = &body.content;
        self.execute(sql, params![body.hash.0, body.kind.name(), body.size as i64, content.encoding(), content.bytes()])
    }

    fn check_bodies(&self, event: &Event) -> Result<(), Fault> {
        for hash in event.references() {
            let own = self.encoded.bodies.iter().any(|body| body.hash == hash);
            let sql = "SELECT 1 FROM bodies WHERE hash = ?1";
            if !own && !self.statements.with(sql, |statement| statement.exists([hash.0]))? {
                return Err(Error::MissingBody { branch: self.encoded.append.batch.branch, hash }.into());
            }
        }
        Ok(())
    }

    /// Inserts the rows of a branch that this record opens.
    fn begin(&self, ends: &mut Ends, record: &Record) -> Result<Branch, Fault> {
        let batch = &self.encoded.append.batch;
        let (parent, head) = match &record.event {
            Event::Forked(forked) => self.parent(ends, forked).map(|(id, head)| (Some((id, forked.at)), head))?,
            _ => (None, Head::EMPTY),
        };
        let sql = "INSERT INTO branches(uuid, kind, session, parent, parent_seq, created_at) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let is_ledger = batch.session == Ledger::SESSION;
        let session = batch.session.0.as_bytes();
        let (kind, of) = if is_ledger { ("ledger", None) } else { ("session", Some(session)) };
        let (parent, parent_seq) = (parent.map(|(id, _)| id), parent.map(|(_, seq)| seq.0 as i64));
        self.execute(sql, params![batch.branch.0.as_bytes(), kind, of, parent, parent_seq, record.at.0])?;
        let id = self.statements.connection().last_insert_rowid();
        if is_ledger {
            return Ok(Branch { id, head });
        }
        if let Event::Created(created) = &record.event {
            let sql = "INSERT INTO sessions(uuid, key, branch) VALUES (?1, ?2, ?3) ON CONFLICT(key) DO NOTHING";
            if self.execute(sql, params![session, created.key, id])? == 0 {
                return Err(Error::KeyTaken { key: created.key.clone() }.into());
            }
        } else {
            self.execute("UPDATE sessions SET branch = ?1 WHERE uuid = ?2", params![id, session])?;
        }
        Ok(Branch { id, head })
    }

    fn parent(&self, ends: &mut Ends, forked: &Forked) -> Result<(i64, Head), Fault> {
        let unknown = || Error::UnknownParent { parent: forked.parent, at: forked.at };
        let parent = ends.branch(self.statements, forked.parent)?.ok_or_else(unknown)?;
        match head_at(self.statements.connection(), parent.id, forked.at)? {
            Some(head) if head.chain == forked.hash => Ok((parent.id, Head::forked(forked.hash))),
            _ => Err(unknown().into()),
        }
    }

    /// Writes one record, which may be the last entry of the append, and returns the branch after it.
    fn record(
        &self,
        ends: &mut Ends,
        branch: Branch,
        record: &Record,
        (bytes, is_last): (&Bytes, bool),
    ) -> rusqlite::Result<Branch> {
        match bytes {
            Bytes::Sealed => Ok(branch),
            Bytes::Progress { effect, offset, bytes } => {
                let sql =
                    "INSERT INTO progress(branch, effect, offset, at, kind, bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
                let (effect, kind) = (effect.to_string(), record.event.kind());
                self.execute(sql, params![branch.id, effect, *offset as i64, record.at.0, kind, bytes])?;
                Ok(branch)
            }
            Bytes::Entry { payload, hash } => self.entry(ends, branch, record, (payload, *hash, is_last)),
        }
    }

    fn entry(
        &self,
        ends: &mut Ends,
        branch: Branch,
        record: &Record,
        (payload, payload_hash, is_last): (&Json, Hash, bool),
    ) -> rusqlite::Result<Branch> {
        let (id, epoch) = (self.encoded.append.batch.branch, self.encoded.append.epoch);
        let link = Link { epoch, at: record.at, kind: record.event.kind(), version: VERSION, payload_hash };
        let branch = Branch { head: branch.head.next(id, &link), ..branch };
        let position = Position(ends.last.0.0 + 1);
        let chain = &branch.head.chain.0;
        let sql = "INSERT INTO entries(position, branch, seq, epoch, at, kind, version, payload, packed, payload_hash, \
                   chain) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, x'', ?10)";
        self.execute(
            sql,
            params![
                position.0 as i64,
                branch.id,
                branch.head.seq.0 as i64,
                link.epoch.0 as i64,
                link.at.0,
                link.kind,
                link.version,
                payload.text(),
                payload.packed(),
                if is_last { &chain[..] } else { &chain[..StoredChain::SHORT] }
            ],
        )?;
        if let Some(sealed) = record.event.seals() {
            // Everything that begins with RUN/KIND/ORDINAL/: progress of earlier tries is sealed as well. `0` follows
            // `/` in ASCII.
            let tries = EffectId { try_no: 0, ..sealed }.to_string();
            let tries = &tries[..tries.len() - 1];
            let sql = "DELETE FROM progress WHERE branch = ?1 AND effect >= ?2 AND effect < ?3";
            self.execute(sql, params![branch.id, tries, format!("{}0", &tries[..tries.len() - 1])])?;
        }
        ends.set(id, branch, position);
        Ok(branch)
    }
}
