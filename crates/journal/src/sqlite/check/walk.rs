//! Reads a branch entry by entry and checks each by itself: it reports corrupt entries and continues after them.

use std::borrow::Cow;
use std::fmt;

use engine::{BranchId, Epoch, Event, Hash, Position, Seq, Timestamp, UnreadableEvent};
use rusqlite::{Connection, OptionalExtension as _, Row};

use crate::chain::Head;
use crate::sqlite::bodies;
use crate::sqlite::dictionaries::{Dictionaries, Unpackable};
use crate::sqlite::reader::Reader;
use crate::sqlite::stored::StoredEntry;
use crate::{Error, Read as _};

/// Entries per read: a walk holds no more of them in memory, and blocks checkpoints of the writer no longer than that.
const PAGE: usize = 256;
/// Most forks in one line: a line whose parents form a cycle is reported, not followed for ever.
const FORKS: usize = 10_000;

/// A point in a branch, written `BRANCH@SEQ`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Checkpoint {
    pub branch: BranchId,
    pub seq: Seq,
}

impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.branch, self.seq)
    }
}

/// A part of a session's line: one branch, up to where the next one forked off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct BranchSpan {
    pub branch: BranchId,
    /// Its last entry that belongs to the line; `None` for the current branch.
    pub to: Option<Seq>,
}

/// The content of an entry.
#[derive(Debug, Clone, PartialEq)]
pub enum EntryContent {
    /// It can be read and is what was appended.
    Event(Box<Event>),
    /// Its payload was removed on purpose; its hash and its chain stay.
    Removed,
    /// It is corrupt; its `defects` say why.
    Lost,
}

/// What is wrong with an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub enum Defect {
    /// The entries before it are missing.
    #[error("the entries before it are missing: {expected} should come here")]
    Missing {
        /// The seq that should come here.
        expected: Seq,
    },
    /// Its payload is not the one that was appended.
    #[error("its payload does not match its hash: it was changed after it was recorded")]
    Payload,
    /// Its payload was compressed with a dictionary that is missing.
    #[error("its payload cannot be read: {detail}")]
    Dictionary {
        /// Which one, and what to do.
        detail: String,
    },
    /// Its payload was removed, and no hash is there instead.
    #[error("its payload was removed without leaving its hash")]
    Unhashed,
    /// It does not continue the chain of its branch.
    #[error(
        "it does not continue the chain: its payload or a column beside it was changed after it was recorded; \
         entries behind it that were recorded together with it are not checked"
    )]
    Chain,
    /// This version does not know it, or its payload is no event.
    #[error("{error}")]
    Unreadable {
        /// Why it cannot be read.
        error: UnreadableEvent,
    },
    /// Its row cannot be read.
    #[error("its row cannot be read ({detail})")]
    Row {
        /// The error of SQLite.
        detail: String,
    },
    /// A body that it names is missing.
    #[error("the body {hash} that it names is missing")]
    BodyMissing { hash: Hash },
    /// A body that it names does not match its hash.
    #[error("the body {hash} that it names does not match its hash")]
    Body { hash: Hash },
    /// A body that it names was compressed with a dictionary that is missing.
    #[error("the body {hash} that it names cannot be read: {detail}")]
    BodyDictionary {
        hash: Hash,
        /// Which one, and what to do.
        detail: String,
    },
    /// It was removed, and no snapshot covers it.
    #[error("it was removed, and no snapshot covers it: later entries cannot be folded")]
    Unfounded,
    /// No engine can have written it after the entries before it.
    #[error("it does not follow from the entries before it: {detail}")]
    Order {
        /// What does not fit.
        detail: String,
    },
}

/// A stored entry, with the result of checking it.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Audited {
    pub branch: BranchId,
    /// The number of the entry in its branch, from 1.
    pub seq: Seq,
    /// The number of the entry in the home, from 1.
    pub position: Position,
    /// The epoch of the owner that appended it.
    pub epoch: Epoch,
    /// The time at which it was decided.
    pub at: Timestamp,
    /// Its kind as stored.
    pub kind: String,
    /// The hash of its payload; 32 zero bytes if it is not known.
    pub payload_hash: Hash,
    /// The chain value; 32 zero bytes if it is not known.
    pub chain: Hash,
    pub content: EntryContent,
    /// What is wrong with it; empty for a good entry.
    pub defects: Vec<Defect>,
}

impl Audited {
    /// Its branch and seq.
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint { branch: self.branch, seq: self.seq }
    }

    /// The event, unless the entry is corrupt or removed.
    pub fn event(&self) -> Option<&Event> {
        self.content.event()
    }
}

impl EntryContent {
    fn event(&self) -> Option<&Event> {
        match self {
            Self::Event(event) => Some(event),
            Self::Removed | Self::Lost => None,
        }
    }
}

impl Reader {
    /// The line of a branch: from the branch that was created, over every fork, to this branch.
    pub fn lineage(&self, branch: BranchId) -> Result<Vec<BranchSpan>, Error> {
        let mut line = vec![BranchSpan { branch, to: None }];
        while let Some((parent, at)) = self.parent(line[0].branch)? {
            if line.len() > FORKS || line.iter().any(|segment| segment.branch == parent) {
                return Err(self.damaged(format!("the forks of branch {branch} lead back to themselves")));
            }
            line.insert(0, BranchSpan { branch: parent, to: Some(at) });
        }
        Ok(line)
    }

    /// The current branch of a session, from the table of sessions: the views may be wrong in a corrupt home.
    pub fn current_branch(&self, key: &str) -> Result<Option<BranchId>, Error> {
        let sql = "SELECT b.uuid FROM sessions s JOIN branches b ON b.id = s.branch WHERE s.key = ?1";
        let uuid =
            self.query(|c| c.prepare_cached(sql)?.query_row([key], |row| row.get::<_, [u8; 16]>(0)).optional())?;
        Ok(uuid.map(|uuid| BranchId(uuid::Uuid::from_bytes(uuid))))
    }

    fn parent(&self, branch: BranchId) -> Result<Option<(BranchId, Seq)>, Error> {
        let sql = "SELECT p.uuid, b.parent_seq FROM branches b JOIN branches p ON p.id = b.parent WHERE b.uuid = ?1";
        self.query(|connection| {
            let columns = |row: &Row<'_>| {
                let uuid = uuid::Uuid::from_bytes(row.get(0)?);
                Ok((BranchId(uuid), Seq(row.get::<_, i64>(1)? as u64)))
            };
            connection.prepare_cached(sql)?.query_row([branch.0.as_bytes()], columns).optional()
        })
    }

    /// Calls `visit` for the entries of a segment, corrupt ones included; an error is one of the file itself.
    pub fn walk(&self, segment: &BranchSpan, mut visit: impl FnMut(&Audited)) -> Result<(), Error> {
        let id = self.branch_id(segment.branch)?;
        let Some(id) = id else { return Ok(()) };
        let mut walk = Walk {
            branch: segment.branch,
            expected: self.first(segment.branch)?,
            dictionaries: self.dictionaries().clone(),
        };
        let to = segment.to.map_or(i64::MAX, |seq| seq.0 as i64);
        let (mut after, mut most) = (i64::MIN, PAGE);
        loop {
            let rows = match self.query(|connection| page(connection, id, (after, to), most)) {
                // A page of the file is malformed: the entries before it are read one by one.
                Err(_) if most > 1 => {
                    most = 1;
                    continue;
                }
                rows => rows?,
            };
            for row in &rows {
                after = row.seq.0 as i64;
                visit(&walk.judge(row));
            }
            if rows.len() < most {
                return Ok(());
            }
        }
    }

    /// What the first entry of a branch must continue. The `forked` event of a branch names its parent's chain, but
    /// that event may have been removed.
    fn first(&self, branch: BranchId) -> Result<Expected, Error> {
        let Some((parent, at)) = self.parent(branch)? else { return Ok(Expected::FIRST) };
        // A value that cannot be computed is not known: the entries of the parent say why.
        let head = self.head_before(parent, Seq(at.0 + 1)).ok().flatten();
        Ok(Expected { chains: head.map(|head| [head.chain; 2]), ..Expected::FIRST })
    }

    fn branch_id(&self, branch: BranchId) -> Result<Option<i64>, Error> {
        let sql = "SELECT id FROM branches WHERE uuid = ?1";
        self.query(|c| c.prepare_cached(sql)?.query_row([branch.0.as_bytes()], |row| row.get(0)).optional())
    }

    /// The defects of the bodies that an event names.
    pub fn body_defects(&self, event: &Event) -> Result<Vec<Defect>, Error> {
        let mut defects = vec![];
        for hash in event.references() {
            match self.body(&hash) {
                Ok(Some(_)) => {}
                Ok(None) if self.is_erased(&hash)? => {}
                Ok(None) => defects.push(Defect::BodyMissing { hash }),
                Err(Error::Damaged { .. }) => defects.push(match bodies::missing_dictionary(self, &hash)? {
                    Some(missing) => Defect::BodyDictionary { hash, detail: missing.to_string() },
                    None => Defect::Body { hash },
                }),
                Err(error) => return Err(error),
            }
        }
        Ok(defects)
    }

    /// Whether a body was erased on purpose: its row exists without content.
    fn is_erased(&self, hash: &Hash) -> Result<bool, Error> {
        self.query(|c| c.prepare_cached("SELECT 1 FROM bodies WHERE hash = ?1 AND content IS NULL")?.exists([hash.0]))
    }
}

/// A row that may be unreadable.
struct Found {
    seq: Seq,
    stored: Result<StoredEntry, String>,
}

fn page(connection: &Connection, branch: i64, (after, to): (i64, i64), most: usize) -> rusqlite::Result<Vec<Found>> {
    let columns = StoredEntry::COLUMNS;
    let sql =
        format!("SELECT {columns} FROM entries e WHERE branch = ?1 AND seq > ?2 AND seq <= ?3 ORDER BY seq LIMIT ?4");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map((branch, after, to, most as i64), |row| {
        let seq = Seq(row.get::<_, i64>(0)? as u64);
        Ok(Found { seq, stored: StoredEntry::of(row).map_err(|error| error.to_string()) })
    })?;
    rows.collect()
}

/// What the next entry must match.
#[derive(Debug, Clone, Copy)]
struct Expected {
    seq: Seq,
    /// The chain values that it may continue. After a changed entry these are the stored and the computed one; `None`
    /// after an unreadable entry, and after a changed one that has not its whole value.
    chains: Option<[Hash; 2]>,
}

impl Expected {
    const FIRST: Self = Self { seq: Seq(1), chains: Some([Head::EMPTY.chain; 2]) };
}

struct Walk {
    branch: BranchId,
    expected: Expected,
    dictionaries: Dictionaries,
}

impl Walk {
    fn judge(&mut self, found: &Found) -> Audited {
        let seq = found.seq;
        let mut defects = vec![];
        // If retention removed the start of a branch, the branch starts with an anchor: a row without its payload.
        let is_first = self.expected.seq == Seq(1);
        let is_anchor = is_first && found.stored.as_ref().is_ok_and(StoredEntry::is_erased);
        let is_known_before = seq == self.expected.seq;
        if !is_known_before && !is_anchor {
            defects.push(Defect::Missing { expected: self.expected.seq });
        }
        match &found.stored {
            Ok(stored) => self.judge_row(seq, stored, defects, is_known_before),
            Err(detail) => self.unread(seq, detail, defects),
        }
    }

    fn judge_row(
        &mut self,
        seq: Seq,
        stored: &StoredEntry,
        mut defects: Vec<Defect>,
        is_known_before: bool,
    ) -> Audited {
        let StoredEntry { position, epoch, at, .. } = *stored;
        let payload = stored.payload(&self.dictionaries);
        let known = stored.hash_of(payload.as_ref().ok().and_then(Option::as_deref));
        let content = self.content(stored, payload, &mut defects);
        let payload_hash = known.unwrap_or(Hash([0; 32]));
        let starts = match content.event() {
            Some(Event::Forked(forked)) if seq == Seq(1) => Some([forked.hash; 2]),
            _ => self.expected.chains,
        };
        let link = stored.link(payload_hash);
        let before = Seq(seq.0.saturating_sub(1));
        let next = |chain| Head { seq: before, chain }.next(self.branch, &link).chain;
        let computed = known.and(starts).filter(|_| is_known_before).map(|chains| chains.map(next));
        let fitting = computed.and_then(|chains| chains.into_iter().find(|chain| stored.chain.fits(*chain)));
        if computed.is_some() && fitting.is_none() {
            // What a changed payload says is no defect of its own.
            if stored.payload_hash.is_none() {
                defects.clear();
            }
            defects.push(Defect::Chain);
        }
        let whole = stored.chain.whole();
        let chains = whole.map(|chain| [chain, computed.map_or(chain, |computed| computed[0])]);
        let chains = chains.or(fitting.map(|chain| [chain; 2]));
        self.expected = Expected { seq: Seq(seq.0 + 1), chains };
        let chain = whole.or(fitting).unwrap_or(Hash([0; 32]));
        let content = if defects.is_empty() { content } else { EntryContent::Lost };
        let kind = stored.kind.clone();
        Audited { branch: self.branch, seq, position, epoch, at, kind, payload_hash, chain, content, defects }
    }

    fn content(
        &self,
        stored: &StoredEntry,
        payload: Result<Option<Cow<'_, [u8]>>, Unpackable>,
        defects: &mut Vec<Defect>,
    ) -> EntryContent {
        let payload = match payload {
            Ok(None) => {
                defects.extend(stored.payload_hash.is_none().then_some(Defect::Unhashed));
                return EntryContent::Removed;
            }
            Ok(Some(payload)) if stored.payload_hash.is_none_or(|stored| stored == Hash::of(&payload)) => payload,
            Ok(Some(_)) | Err(Unpackable::Frame) => {
                defects.push(Defect::Payload);
                return EntryContent::Lost;
            }
            Err(error @ Unpackable::Dictionary(_)) => {
                defects.push(Defect::Dictionary { detail: error.to_string() });
                return EntryContent::Lost;
            }
        };
        match Event::decode(&stored.kind, stored.version, &payload) {
            Ok(event) => {
                if let Some(detail) = misplaced(&event, self.branch, self.expected.seq) {
                    defects.push(Defect::Order { detail });
                }
                EntryContent::Event(Box::new(event))
            }
            Err(error) => {
                defects.push(Defect::Unreadable { error });
                EntryContent::Lost
            }
        }
    }

    fn unread(&mut self, seq: Seq, detail: &str, mut defects: Vec<Defect>) -> Audited {
        defects.push(Defect::Row { detail: detail.to_owned() });
        self.expected = Expected { seq: Seq(seq.0 + 1), chains: None };
        let nothing = Hash([0; 32]);
        Audited {
            branch: self.branch,
            seq,
            position: Position(0),
            epoch: Epoch(0),
            at: Timestamp(0),
            kind: "?".to_owned(),
            payload_hash: nothing,
            chain: nothing,
            content: EntryContent::Lost,
            defects,
        }
    }
}

/// Why this event cannot have this seq in the branch; `None` if it can.
fn misplaced(event: &Event, branch: BranchId, expected: Seq) -> Option<String> {
    match event {
        Event::Created(created) if created.branch != branch => Some("it starts another branch".to_owned()),
        Event::LedgerBegun(begun) if begun.branch != branch => Some("it starts another branch".to_owned()),
        Event::Created(_) | Event::Forked(_) | Event::LedgerBegun(_) if expected != Seq(1) => {
            Some("a branch starts only once".to_owned())
        }
        Event::Created(_) | Event::Forked(_) | Event::LedgerBegun(_) => None,
        _ if expected == Seq(1) => Some("a branch starts with `created` or `forked`".to_owned()),
        _ => None,
    }
}
