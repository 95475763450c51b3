//! Retention: the entries of a branch up to an anchor are removed, where a snapshot stands for them.
//!
//! The anchor is the last of them. Its row stays without its payload: its hash and its chain are what the chain goes on
//! from, and the snapshot at it is what the fold goes on from, and is never dropped. What may not live here: what is to be
//! kept for how long.

use std::path::Path;

use engine::{BranchId, Epoch, Hash, Seq};
use rusqlite::{Connection, OptionalExtension as _};

use super::collect::transaction;
use super::{failed, home, schema};
use crate::Error;

/// Makes an entry of a branch its anchor; says how many entries were removed before it.
pub(super) fn anchor(home: &Path, epoch: Epoch, branch: BranchId, seq: Seq) -> Result<u64, Error> {
    let path = home.join(home::DATABASE);
    let connection = schema::connect(&path)?;
    let sqlite = failed(&path);
    connection.pragma_update(None, "synchronous", "FULL").map_err(&sqlite)?;
    // A mark that lags may name an entry that is about to go. This syncs whatever was written so far, so that the mark can
    // be brought up to where the journal ends.
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
        connection.execute("UPDATE entries SET payload = NULL WHERE branch = ?1 AND seq = ?2", before)?;
        connection.execute("DELETE FROM snapshots WHERE branch = ?1 AND seq < ?2", before)?;
        connection.execute("DELETE FROM entries WHERE branch = ?1 AND seq < ?2", before).map(|rows| Some(rows as u64))
    })?;
    removed.ok_or(Error::NoAnchor { branch, seq })
}

/// The row of the branch, if a whole snapshot stands at this entry and nothing else needs what lies before it.
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
