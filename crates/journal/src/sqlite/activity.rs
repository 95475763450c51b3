//! The list of sessions by their last activity, from the rows of the views alone.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use engine::{ReceiptRow, SessionId, Timestamp, Visibility};
use rusqlite::Connection;
use uuid::Uuid;

use super::dictionaries::Dictionaries;
use super::rows;
use crate::ByActivity;

/// The last sessions in order, and how many more there are. All rows are looked at, and only these are read: their time
/// changes with every entry, and an index on it would be written as often.
pub(super) fn sessions(
    connection: &Connection,
    shown: Visibility,
    after: Option<(Timestamp, SessionId)>,
    limit: usize,
) -> rusqlite::Result<ByActivity> {
    let sql = "SELECT session, row ->> '$.last_activity' FROM view_sessions \
               WHERE coalesce(row ->> '$.visibility', 'listed') = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let name = match shown {
        Visibility::Listed => "listed",
        Visibility::Archived => "archived",
        Visibility::Deleted => "deleted",
    };
    let mut found = statement.query([name])?;
    let (mut last, mut count) = (BinaryHeap::new(), 0_usize);
    while let Some(row) = found.next()? {
        let of = (Timestamp(row.get(1)?), SessionId(Uuid::from_bytes(row.get(0)?)));
        if after.is_some_and(|after| of >= after) {
            continue;
        }
        count += 1;
        last.push(Reverse(of));
        if last.len() > limit {
            last.pop();
        }
    }
    let mut sessions = vec![];
    for Reverse((_, session)) in last.into_sorted_vec() {
        sessions.extend(rows::one(connection, "view_sessions WHERE session = ?1", [session.0.as_bytes()])?);
    }
    Ok(ByActivity { more: count - sessions.len(), rows: sessions })
}

/// The first message of a session after a time, and how many there are. Of a session none of whose conversations was
/// deleted only the index and one row are read.
pub(super) fn first_message(
    connection: &Connection,
    dictionaries: &Dictionaries,
    session: SessionId,
    after: Option<Timestamp>,
) -> rusqlite::Result<(Option<ReceiptRow>, u64)> {
    let id = session.0.as_bytes();
    if let Some(after) = after {
        let mut receipts = rows::receipts(connection, dictionaries, "session = ?1", [id])?;
        receipts.retain(|receipt| receipt.accepted_at > after);
        let count = receipts.len() as u64;
        return Ok((receipts.into_iter().next(), count));
    }
    let sql = "SELECT count(*), min(rowid) FROM view_receipts WHERE session = ?1";
    let columns = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?));
    let (count, first) = connection.prepare_cached(sql)?.query_row([id], columns)?;
    let first = first.map(|first| rows::receipts(connection, dictionaries, "rowid = ?1", [first])).transpose()?;
    Ok((first.and_then(|rows| rows.into_iter().next()), count as u64))
}
