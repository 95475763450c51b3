//! Rows of `entries` and `progress` as they are stored, and their verification.

use std::borrow::Cow;
use std::path::Path;

use engine::{BranchId, Epoch, Event, Hash, InvalidId, Position, Record, Seq, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, Params, Row};

use uuid::Uuid;

use super::dictionaries::{Dictionaries, Unpackable, unreadable};
use super::encode;
use super::reader::Reader;
use crate::chain::{Head, Link};
use crate::{Entry, Error};

/// A row of `entries`.
pub(super) struct StoredEntry {
    pub(super) seq: Seq,
    pub(super) position: Position,
    pub(super) epoch: Epoch,
    pub(super) at: Timestamp,
    pub(super) kind: String,
    pub(super) version: u16,
    payload: Option<Vec<u8>>,
    packed: Option<Vec<u8>>,
    /// Not stored as long as the payload is there, except in older rows.
    pub(super) payload_hash: Option<Hash>,
    pub(super) chain: StoredChain,
}

/// The chain value of an entry as its row holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoredChain {
    Whole(Hash),
    /// The beginning, in an entry behind which the same append goes on, and whose payload is there.
    Short([u8; StoredChain::SHORT]),
}

impl StoredChain {
    /// Enough to tell which entry of an append was changed. The whole value at the end of the append covers it.
    pub(super) const SHORT: usize = 4;

    fn of(row: &Row<'_>, column: usize) -> rusqlite::Result<Self> {
        match row.get_ref(column)?.as_blob()?.len() {
            Self::SHORT => row.get(column).map(Self::Short),
            _ => row.get(column).map(|chain| Self::Whole(Hash(chain))),
        }
    }

    /// Whether this chain value is the one that is stored, as far as it is.
    pub(super) fn fits(&self, chain: Hash) -> bool {
        match self {
            Self::Whole(stored) => *stored == chain,
            Self::Short(stored) => chain.0.starts_with(stored),
        }
    }

    pub(super) fn whole(&self) -> Option<Hash> {
        match self {
            Self::Whole(chain) => Some(*chain),
            Self::Short(_) => None,
        }
    }
}

impl StoredEntry {
    /// The columns of such a row.
    pub(super) const COLUMNS: &str =
        "e.seq, e.position, e.epoch, e.at, e.kind, e.version, e.payload, e.packed, e.payload_hash, e.chain";

    pub(super) fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            seq: Seq(row.get::<_, i64>(0)? as u64),
            position: Position(row.get::<_, i64>(1)? as u64),
            epoch: Epoch(row.get::<_, i64>(2)? as u64),
            at: Timestamp(row.get(3)?),
            kind: row.get(4)?,
            version: row.get(5)?,
            payload: row.get_ref(6)?.as_bytes_or_null()?.map(<[u8]>::to_vec),
            packed: row.get(7)?,
            payload_hash: stored_hash(row, 8)?,
            chain: StoredChain::of(row, 9)?,
        })
    }

    /// Whether its payload was removed.
    pub(super) fn is_erased(&self) -> bool {
        self.payload.is_none() && self.packed.is_none()
    }

    /// Its payload; `None` if it was removed.
    pub(super) fn payload(&self, dictionaries: &Dictionaries) -> Result<Option<Cow<'_, [u8]>>, Unpackable> {
        dictionaries.json(self.payload.as_deref(), self.packed.as_deref())
    }

    /// The hash of its payload: the stored one, or else that of this payload; `None` if there is neither.
    pub(super) fn hash_of(&self, payload: Option<&[u8]>) -> Option<Hash> {
        self.payload_hash.or_else(|| payload.map(Hash::of))
    }

    /// What its chain value is computed from.
    pub(super) fn link(&self, payload_hash: Hash) -> Link<'_> {
        Link { epoch: self.epoch, at: self.at, kind: &self.kind, version: self.version, payload_hash }
    }

    /// The head of its branch after it, if it may come behind this head and its payload can be read.
    fn head_after(&self, branch: BranchId, head: Head, dictionaries: &Dictionaries) -> Option<Head> {
        let payload = self.payload(dictionaries).ok()??;
        let head = match Event::decode(&self.kind, self.version, &payload) {
            Ok(Event::Forked(forked)) if self.seq == Seq(1) => Head::forked(forked.hash),
            _ => head,
        };
        let next = head.next(branch, &self.link(Hash::of(&payload)));
        (next.seq == self.seq).then_some(next)
    }

    /// The entry, if it continues the chain of its branch.
    pub(super) fn entry(&self, branch: BranchId, head: Head, reader: &Reader) -> Result<Entry, Error> {
        let Self { seq, position, epoch, at, .. } = *self;
        let damaged = |detail| reader.damaged(detail);
        let payload = self.payload(reader.dictionaries());
        let payload = payload.map_err(|error| damaged(format!("the payload of entry {branch}@{seq}: {error}")))?;
        let Some(payload) = payload else { return Err(Error::Erased { branch, seq }) };
        let payload_hash = Hash::of(&payload);
        let event = Event::decode(&self.kind, self.version, &payload);
        let head = match &event {
            Ok(Event::Forked(forked)) if seq == Seq(1) => Head::forked(forked.hash),
            _ => head,
        };
        let Head { seq: expected, chain } = head.next(branch, &self.link(payload_hash));
        // Even an unknown event is accepted only if it is the one that was appended.
        let is_changed = self.payload_hash.is_some_and(|stored| stored != payload_hash);
        if is_changed || seq != expected || !self.chain.fits(chain) {
            return Err(damaged(format!("entry {branch}@{expected} does not match its chain")));
        }
        let event = event.map_err(|error| Error::Unreadable { branch, seq, error })?;
        Ok(Entry { seq, position, epoch, at, event, payload_hash, chain })
    }
}

/// A hash that may not be stored.
fn stored_hash(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Hash>> {
    if row.get_ref(column)?.as_blob()?.is_empty() {
        return Ok(None);
    }
    row.get(column).map(|hash| Some(Hash(hash)))
}

/// The head of a branch after this entry; `None` if the entry, or what its chain value is computed from, is not there.
pub(super) fn head_at(connection: &Connection, branch: i64, seq: Seq) -> rusqlite::Result<Option<Head>> {
    let sql = "SELECT chain FROM entries WHERE branch = ?1 AND seq = ?2";
    let chain = |row: &Row<'_>| StoredChain::of(row, 0);
    let stored = connection.prepare_cached(sql)?.query_row((branch, seq.0 as i64), chain).optional()?;
    match stored {
        Some(StoredChain::Whole(chain)) => Ok(Some(Head { seq, chain })),
        Some(StoredChain::Short(_)) => computed_head(connection, branch, seq),
        None => Ok(None),
    }
}

/// The same, from the last whole chain value before it.
fn computed_head(connection: &Connection, branch: i64, seq: Seq) -> rusqlite::Result<Option<Head>> {
    let columns = StoredEntry::COLUMNS;
    let sql = format!("SELECT {columns} FROM entries e WHERE e.branch = ?1 AND e.seq <= ?2 ORDER BY e.seq DESC");
    let mut statement = connection.prepare_cached(&sql)?;
    let (mut short, mut head) = (vec![], Some(Head::EMPTY));
    for stored in statement.query_map((branch, seq.0 as i64), StoredEntry::of)? {
        let stored = stored?;
        if let Some(chain) = stored.chain.whole() {
            head = Some(Head { seq: stored.seq, chain });
            break;
        }
        short.push(stored);
    }
    let uuid = "SELECT uuid FROM branches WHERE id = ?1";
    let uuid = connection.prepare_cached(uuid)?.query_row([branch], |row| row.get(0)).optional()?;
    let Some(branch) = uuid.map(|uuid| BranchId(Uuid::from_bytes(uuid))) else { return Ok(None) };
    let dictionaries = Dictionaries::read(connection)?;
    for stored in short.iter().rev() {
        head = head.and_then(|head| stored.head_after(branch, head, &dictionaries));
    }
    Ok(head)
}

/// The position and the chain value of the first entry that matches: `tail` is what follows `FROM entries`.
pub(super) fn place(
    connection: &Connection,
    tail: &str,
    parameters: impl Params,
) -> rusqlite::Result<Option<(Position, Hash)>> {
    let sql = format!("SELECT position, branch, seq, chain FROM entries {tail}");
    let columns = |row: &Row<'_>| {
        let (position, seq) = (Position(row.get::<_, i64>(0)? as u64), Seq(row.get::<_, i64>(2)? as u64));
        Ok((position, row.get(1)?, seq, StoredChain::of(row, 3)?))
    };
    let Some((position, branch, seq, stored)) = connection.query_row(&sql, parameters, columns).optional()? else {
        return Ok(None);
    };
    let chain = match stored {
        StoredChain::Whole(chain) => Some(chain),
        // The end of its append is lost.
        StoredChain::Short(_) => computed_head(connection, branch, seq)?.map(|head| head.chain),
    };
    // A value that cannot be known matches nothing.
    Ok(Some((position, chain.unwrap_or(Hash([0; 32])))))
}

/// Removes the payload of an entry. Its hash and its whole chain value are stored instead, so that the chain can still be
/// verified.
pub(super) fn erase(connection: &Connection, branch: i64, seq: Seq) -> rusqlite::Result<()> {
    let columns = StoredEntry::COLUMNS;
    let sql = format!("SELECT {columns} FROM entries e WHERE e.branch = ?1 AND e.seq = ?2");
    let stored = connection.query_row(&sql, (branch, seq.0 as i64), StoredEntry::of)?;
    let payload = stored.payload(&Dictionaries::read(connection)?).map_err(|error| unreadable(7, error))?;
    let hash = stored.hash_of(payload.as_deref()).map(|hash| hash.0);
    let chain = head_at(connection, branch, seq)?.map(|head| head.chain.0);
    // What is not known stays as it is.
    let sql = "UPDATE entries SET payload = NULL, packed = NULL, payload_hash = coalesce(?3, payload_hash), \
               chain = coalesce(?4, chain) WHERE branch = ?1 AND seq = ?2";
    connection.execute(sql, (branch, seq.0 as i64, hash, chain)).map(|_| ())
}

/// A row of `progress`.
pub(super) struct StoredProgress {
    effect: String,
    offset: u64,
    at: Timestamp,
    kind: String,
    bytes: Vec<u8>,
}

impl StoredProgress {
    pub(super) fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            effect: row.get(0)?,
            offset: row.get::<_, i64>(1)? as u64,
            at: Timestamp(row.get(2)?),
            kind: row.get(3)?,
            bytes: row.get(4)?,
        })
    }
    pub(super) fn record(&self, path: &Path) -> Result<Record, Error> {
        let damaged = |error: String| Error::Damaged {
            path: path.to_owned(),
            detail: format!("progress {} at {}: {error}", self.effect, self.offset),
        };
        let effect = self.effect.parse().map_err(|error: InvalidId| damaged(error.to_string()))?;
        let event = encode::progress_event(&self.kind, effect, self.offset, &self.bytes);
        Ok(Record { seq: None, at: self.at, event: event.map_err(|error| damaged(error.to_string()))? })
    }
}
