//! Snapshots on disk: always compressed, only the newest of each branch.

use engine::mutant;
use engine::{BranchId, Hash, Seq};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::dictionaries;
use super::statements::Statements;
use crate::{Error, Snapshot};

/// Removes the snapshots of a branch up to an entry, but for the one that stands for removed entries. The first entry of a
/// branch has no payload only if those before it were removed.
pub(super) const REMOVE_UP_TO: &str = "DELETE FROM snapshots WHERE branch = (SELECT id FROM branches WHERE uuid = ?1) AND seq <= ?2 \
     AND NOT EXISTS (SELECT 1 FROM entries e WHERE e.branch = snapshots.branch AND e.seq = snapshots.seq \
     AND e.payload IS NULL AND e.packed IS NULL AND e.seq = (SELECT min(seq) FROM entries WHERE branch = e.branch))";

/// A snapshot, ready to be bound.
#[derive(Debug)]
pub(super) struct Packed {
    branch: BranchId,
    seq: Seq,
    state_hash: Hash,
    content: Vec<u8>,
}

impl Packed {
    /// Its size as it is stored.
    pub(super) fn bytes(&self) -> usize {
        self.content.len()
    }

    /// Compresses a snapshot; `None` if there is not enough memory, since a snapshot only saves time.
    pub(super) fn of(snapshot: &Snapshot) -> Option<Self> {
        let Snapshot { branch, seq, state_hash, .. } = *snapshot;
        let content = dictionaries::compress(&snapshot.content)?;
        let seq = if mutant!(DiskSnapshotEarly) { Seq(seq.0 - 1) } else { seq };
        Some(Self { branch, seq, state_hash, content })
    }

    /// Writes it over the older ones, if its branch has come as far as it.
    pub(super) fn write(&self, statements: &Statements<'_>) -> rusqlite::Result<()> {
        let Self { branch, seq, state_hash, content } = self;
        let (branch, seq) = (branch.0.as_bytes(), seq.0 as i64);
        let is_there = "SELECT 1 FROM branches b JOIN entries e ON e.branch = b.id WHERE b.uuid = ?1 AND e.seq = ?2";
        if !statements.with(is_there, |statement| statement.exists(params![branch, seq]))? {
            return Ok(());
        }
        // The older ones go first: it takes their pages.
        statements.execute(REMOVE_UP_TO, params![branch, seq])?;
        let sql = "INSERT OR REPLACE INTO snapshots(branch, seq, state_hash, content) \
                   SELECT id, ?2, ?3, ?4 FROM branches WHERE uuid = ?1";
        statements.execute(sql, params![branch, seq, state_hash.0, content]).map(|_| ())
    }
}

pub(super) fn list(connection: &Connection, branch: BranchId) -> rusqlite::Result<Vec<Seq>> {
    let sql = "SELECT s.seq FROM snapshots s JOIN branches b ON b.id = s.branch WHERE b.uuid = ?1 ORDER BY s.seq";
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_map([branch.0.as_bytes()], |row| Ok(Seq(row.get::<_, i64>(0)? as u64)))?.collect()
}

/// A row of `snapshots`.
pub(super) struct Stored {
    state_hash: Hash,
    content: Vec<u8>,
}

pub(super) fn one(connection: &Connection, branch: BranchId, seq: Seq) -> rusqlite::Result<Option<Stored>> {
    let sql = "SELECT s.state_hash, s.content FROM snapshots s JOIN branches b ON b.id = s.branch \
               WHERE b.uuid = ?1 AND s.seq = ?2";
    let stored = |row: &Row<'_>| Ok(Stored { state_hash: Hash(row.get(0)?), content: row.get(1)? });
    connection.prepare_cached(sql)?.query_row(params![branch.0.as_bytes(), seq.0 as i64], stored).optional()
}

impl Stored {
    /// Verifies and returns the snapshot.
    pub(super) fn snapshot(&self, branch: BranchId, seq: Seq) -> Result<Snapshot, Error> {
        let damaged = |detail: &str| Error::DamagedSnapshot { branch, seq, detail: detail.to_owned() };
        let content = zstd::decode_all(&self.content[..]).map_err(|_| damaged("it cannot be unpacked"))?;
        let snapshot = Snapshot::new(branch, seq, content);
        if snapshot.state_hash == self.state_hash { Ok(snapshot) } else { Err(damaged("it does not match its hash")) }
    }
}
