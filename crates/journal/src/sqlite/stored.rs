//! Rows of `entries` and `progress` as they are stored, and their verification.

use std::borrow::Cow;
use std::path::Path;

use engine::{BranchId, Epoch, Event, Hash, InvalidId, Position, Record, Seq, Timestamp};
use rusqlite::Row;

use super::dictionaries::{Dictionaries, Unpackable};
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
    pub(super) payload_hash: Hash,
    pub(super) chain: Hash,
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
            payload_hash: Hash(row.get(8)?),
            chain: Hash(row.get(9)?),
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
        let link = Link { epoch, at, kind: &self.kind, version: self.version, payload_hash };
        let Head { seq: expected, chain } = head.next(branch, &link);
        // Even an unknown event is accepted only if it is the one that was appended.
        if (seq, payload_hash, chain) != (expected, self.payload_hash, self.chain) {
            return Err(damaged(format!("entry {branch}@{expected} does not match its chain")));
        }
        let event = event.map_err(|error| Error::Unreadable { branch, seq, error })?;
        Ok(Entry { seq, position, epoch, at, event, payload_hash, chain })
    }
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
