//! Retention: removes the entries of a branch before an anchor at which there is a snapshot.
//!
//! The anchor's row stays without its payload: its hash and chain value are where the chain continues, and the snapshot
//! at it is where the fold starts, so this snapshot is never dropped.

use std::path::Path;

use engine::{BranchId, Epoch, Hash, Seq};
use rusqlite::{Connection, OptionalExtension as _};

use super::collect::transaction;
use super::{failed, home, schema, stored};
use crate::Error;

/// Makes an entry of a branch its anchor; returns how many entries before it were removed.
pub(super) fn anchor(home: &Path, epoch: Epoch, branch: BranchId, seq: Seq) -> Result<u64, Error> {
    let path = home.join(home::DATABASE);
    let connection = schema::connect(&path)?;
    let sqlite = failed(&path);
    connection.pragma_update(None, "synchronous", "FULL").map_err(&sqlite)?;
    // A mark that lags may name an entry that is about to be removed. This syncs everything that was written so far, so
    // that the mark can be set to the end of the journal.
    let last = transaction(&connection, epoch, &path, || {
        connection.execute("UPDATE owner SET epoch = epoch", [])?;
        schema::last(&connection)
    })?;
    if let Some((position, chain)) = last {
        home::sync_mark(home, position, chain)?;
    }
    let removed = transaction(&connection, epoch, &path, || {
        let Some(id) = removable(&connection, branch, seq)? else { return Ok(None) };
        let before = (id, seq.0 as i64);
        stored::erase(&connection, id, seq)?;
        connection.execute("DELETE FROM snapshots WHERE branch = ?1 AND seq < ?2", before)?;
        connection.execute("DELETE FROM entries WHERE branch = ?1 AND seq < ?2", before).map(|rows| Some(rows as u64))
    })?;
    removed.ok_or(Error::NoAnchor { branch, seq })
}

/// The row of the branch, if there is an intact snapshot at this entry and nothing else needs the entries before it.
fn removable(connection: &Connection, branch: BranchId, seq: Seq) -> rusqlite::Result<Option<i64>> {
    let sql = "SELECT b.id, s.state_hash, s.content FROM branches b \
               JOIN entries e ON e.branch = b.id AND e.seq = ?2 JOIN snapshots s ON s.branch = b.id AND s.seq = e.seq \
               WHERE b.uuid = ?1 \
               AND NOT EXISTS (SELECT 1 FROM branches child WHERE child.parent = b.id AND child.parent_seq < ?2)";
    let columns = |row: &rusqlite::Row<'_>| {
        let (id, state_hash, content) = (row.get::<_, i64>(0)?, Hash(row.get(1)?), row.get::<_, Vec<u8>>(2)?);
        let whole = zstd::decode_all(&content[..]).is_ok_and(|content| Hash::of(&content) == state_hash);
        Ok(whole.then_some(id))
    };
    let found = connection.query_row(sql, (branch.0.as_bytes(), seq.0 as i64), columns).optional()?;
    Ok(found.flatten())
}
