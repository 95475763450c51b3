//! Overwrites free pages: what was removed is still readable in them until they are used again.
//!
//! It takes all free pages for bodies that nothing names, and removes these over a connection that overwrites what it
//! frees. Each step is a small transaction, so other work goes on between two of them. If it does not come to its end, a
//! later collection removes those bodies.

use std::path::Path;

use engine::{Epoch, Hash};
use rusqlite::{Connection, params};
use uuid::Uuid;

use super::collect::transaction;
use super::failed;
use crate::Error;

/// Bytes of the largest body, so that a step is short.
const MOST_BYTES: usize = 1 << 20;
/// Bytes of a body that takes one page: a little less than a page holds.
const PAGE_BYTES: usize = 3_900;
/// Of so many free pages a body takes half, of fewer it takes one: it never makes the file longer by more than a page.
const SEVERAL: usize = 16;

/// Overwrites the pages that are free now. `connection` overwrites what it frees.
pub(super) fn scrub(connection: &Connection, epoch: Epoch, path: &Path) -> Result<(), Error> {
    // Pages that become free meanwhile hold nothing of what was removed before: those are taken first or later, and so
    // many steps take all.
    let mut left = free_pages(connection).map_err(failed(path))?;
    let mut bodies = vec![];
    while left >= 0 {
        let Some(body) = transaction(connection, epoch, path, || take(connection))? else { break };
        bodies.push(body);
        left -= 1;
    }
    for body in bodies {
        let remove = || connection.prepare_cached("DELETE FROM bodies WHERE hash = ?1")?.execute([body.0]);
        transaction(connection, epoch, path, remove)?;
    }
    Ok(())
}

/// Stores a body in free pages; none if there are none.
fn take(connection: &Connection) -> rusqlite::Result<Option<Hash>> {
    let free = free_pages(connection)?;
    if free == 0 {
        return Ok(None);
    }
    let pages = usize::try_from(free).unwrap_or_default();
    let mut content = vec![0; if pages >= SEVERAL { (pages / 2 * PAGE_BYTES).min(MOST_BYTES) } else { PAGE_BYTES }];
    // Nobody else has this content, so nobody names the body.
    content[..16].copy_from_slice(Uuid::now_v7().as_bytes());
    let hash = Hash::of(&content);
    let sql = "INSERT INTO bodies(hash, kind, size, encoding, content) VALUES (?1, 'file', ?2, 'raw', ?3)";
    connection.prepare_cached(sql)?.execute(params![hash.0, content.len() as i64, content])?;
    Ok(Some(hash))
}

fn free_pages(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA freelist_count", [], |row| row.get(0))
}
