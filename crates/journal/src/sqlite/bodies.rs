//! Reads bodies and verifies each against its hash.

use std::sync::Arc;

use engine::Hash;
use rusqlite::{Connection, OptionalExtension as _, Row};

use super::dictionaries::Unpackable;
use super::reader::Reader;
use crate::Error;

/// A row of `bodies`.
struct Stored {
    encoding: String,
    size: i64,
    content: Vec<u8>,
}

/// The bytes of these bodies, in the same order.
pub(super) fn read(reader: &Reader, hashes: &[Hash]) -> Result<Vec<Option<Arc<[u8]>>>, Error> {
    let stored = reader.query(|connection| {
        // One transaction, and so one lock, for all of them.
        let moment = (hashes.len() > 1).then(|| connection.unchecked_transaction()).transpose()?;
        let stored: rusqlite::Result<Vec<_>> = hashes.iter().map(|hash| one(connection, hash)).collect();
        drop(moment);
        stored
    })?;
    let bytes = |(stored, hash): (Option<Stored>, &Hash)| {
        let Some(Stored { encoding, size, content }) = stored else { return Ok(None) };
        match reader.dictionaries().body(&encoding, size as usize, content) {
            Ok(bytes) if Hash::of(&bytes) == *hash => Ok(Some(bytes.into())),
            Ok(_) | Err(Unpackable::Frame) => Err(reader.damaged(format!("the body {hash} does not match its hash"))),
            Err(error @ Unpackable::Dictionary(_)) => Err(reader.damaged(format!("the body {hash}: {error}"))),
        }
    };
    stored.into_iter().zip(hashes).map(bytes).collect()
}

/// Which dictionary a body needs that is missing.
pub(super) fn missing_dictionary(reader: &Reader, hash: &Hash) -> Result<Option<Unpackable>, Error> {
    let stored = reader.query(|connection| one(connection, hash))?;
    let unpacked = stored.map(|it| reader.dictionaries().body(&it.encoding, it.size as usize, it.content));
    Ok(unpacked.and_then(Result::err).filter(|error| matches!(error, Unpackable::Dictionary(_))))
}

fn one(connection: &Connection, hash: &Hash) -> rusqlite::Result<Option<Stored>> {
    let sql = "SELECT encoding, size, content FROM bodies WHERE hash = ?1 AND content IS NOT NULL";
    let columns = |row: &Row<'_>| Ok(Stored { encoding: row.get(0)?, size: row.get(1)?, content: row.get(2)? });
    connection.prepare_cached(sql)?.query_row([hash.0], columns).optional()
}
