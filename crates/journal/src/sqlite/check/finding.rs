//! The possible findings about a home: what is wrong, where, what it means, and which repair there is.

use std::fmt;
use std::str::FromStr;

use engine::{Hash, InvariantViolation, Position, Timestamp};
use serde::{Serialize, Serializer};

use super::session::{EntryAnchor, Fault};
use super::walk::{Checkpoint, Defect};
use crate::Error;

/// The kinds of defects, the most severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A journal existed here and is missing.
    Gone,
    /// The file is another program's, or no database.
    Foreign,
    /// A newer version of Limulus wrote it.
    Newer,
    /// The file is shorter than its header says.
    Truncated,
    /// Pages of the file are malformed.
    Pages,
    /// Tables are missing, or the row of the owner is.
    Tables,
    /// The WAL belongs to another journal.
    StaleWal,
    /// Acknowledged entries are missing.
    Lost,
    /// The entry at the mark is not the one that was acknowledged.
    Replaced,
    /// The mark is not a valid mark.
    Mark,
    /// An entry is corrupt.
    Entry,
    /// A body that an entry names is missing or changed.
    Body,
    /// A session has no branch.
    Branch,
    /// The row of a session does not match its entries.
    Rows,
    /// The state of a session breaks an invariant.
    State,
    /// A snapshot is corrupt.
    Snapshot,
    /// An entry of the ledger is corrupt.
    Ledger,
    /// Rows of the views do not match the entries.
    Views,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gone => "the journal is missing",
            Self::Foreign => "journal.db is not a journal of limulus",
            Self::Newer => "journal.db was written by a newer limulus",
            Self::Truncated => "journal.db is truncated",
            Self::Pages => "pages of journal.db are malformed",
            Self::Tables => "tables of journal.db are missing or wrong",
            Self::StaleWal => "journal.db-wal does not belong to this journal.db",
            Self::Lost => "acknowledged entries are missing",
            Self::Replaced => "the journal is not the one that was acknowledged",
            Self::Mark => "journal.mark is damaged",
            Self::Entry => "an entry is corrupt",
            Self::Body => "a body is damaged",
            Self::Branch => "a session has no first entry",
            Self::Rows => "the table of sessions does not match the entries",
            Self::State => "the state of a session breaks an invariant",
            Self::Snapshot => "a snapshot is corrupt",
            Self::Ledger => "the ledger of the profiles is corrupt",
            Self::Views => "the lists do not match the entries",
        })
    }
}

/// The consequence of a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Consequence {
    /// Commands that write refuse the home.
    ReadOnly,
    /// Nothing in the home can be read.
    Closed,
    /// Limulus refuses to open this session.
    Refused(String),
    /// This session continues from a later snapshot.
    Hole(String),
    /// This session may decide wrongly.
    Suspect(String),
    /// This session cannot be opened by its key.
    Unlisted(String),
    /// The cooldowns of profiles are not known.
    Unknown,
    /// Lists may be wrong.
    Lists,
    /// Unused data is not collected.
    Kept,
    /// Only programs other than this one are harmed.
    Others,
}

impl fmt::Display for Consequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadOnly => f.write_str("the home is read-only: commands that write refuse it"),
            Self::Closed => f.write_str("the home is closed: nothing in it can be read"),
            Self::Refused(key) => write!(f, "session {key} is refused; the others still work"),
            Self::Hole(key) => write!(
                f,
                "session {key} continues from a later snapshot; its audit log has a gap there. The repair goes back to before \
                 the gap: do not run it unless the later entries are wrong"
            ),
            Self::Suspect(key) => {
                write!(f, "session {key} may decide wrongly; this is a bug in limulus, please report it")
            }
            Self::Unlisted(key) => {
                write!(f, "session {key} cannot be opened by its key; its entries are intact, and the others still work")
            }
            Self::Unknown => f.write_str(
                "every session uses the ledger up to that entry: a profile that was refused later may be tried again, and new \
                 cooldowns are not stored",
            ),
            Self::Lists => {
                f.write_str("lists may be wrong, and unfinished sessions may be missed; the entries are intact")
            }
            Self::Others => f.write_str("limulus still reads everything; other readers do not"),
            Self::Kept => f.write_str("unused bodies cannot be collected; the sessions are intact"),
        }
    }
}

/// The repairs that exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repair {
    /// Drops corrupt snapshots of one session, or of all.
    Snapshots(Option<String>),
    /// Continues a session in a new branch from its last good entry; a session without one is quarantined.
    Session(String),
    /// Continues the ledger in a new branch from its last good entry.
    Ledger,
    /// Accepts the loss: sets the mark to the last entry that exists.
    Loss,
    /// Renames the WAL, so that the journal continues from `journal.db` alone.
    Wal,
    /// Copies every readable row into a new file.
    Export,
    /// Rebuilds the views from the entries.
    Views,
    /// Writes the dictionaries of this program into the journal again.
    Dictionaries,
    /// Removes what nothing needs.
    Collect,
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Snapshots(None) => f.write_str("snapshots"),
            Self::Snapshots(Some(key)) => write!(f, "snapshot:{key}"),
            Self::Session(key) => write!(f, "session:{key}"),
            Self::Ledger => f.write_str("ledger"),
            Self::Loss => f.write_str("loss"),
            Self::Wal => f.write_str("wal"),
            Self::Export => f.write_str("export"),
            Self::Views => f.write_str("views"),
            Self::Dictionaries => f.write_str("dictionaries"),
            Self::Collect => f.write_str("collect"),
        }
    }
}

impl Serialize for Repair {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            // Names in output stay as they are; `doctor --repair` takes this one too.
            Self::Export => serializer.serialize_str("rescue"),
            other => serializer.collect_str(other),
        }
    }
}

/// The name of a repair is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no repair `{name}`; there are snapshots, snapshot:KEY, session:KEY, ledger, loss, wal, export, views, dictionaries, \
     collect"
)]
pub struct UnknownRepair {
    /// The name that was asked for.
    pub name: String,
}

impl FromStr for Repair {
    type Err = UnknownRepair;

    fn from_str(name: &str) -> Result<Self, UnknownRepair> {
        let unknown = || UnknownRepair { name: name.to_owned() };
        match name.split_once(':') {
            Some(("session", key)) if !key.is_empty() => Ok(Self::Session(key.to_owned())),
            Some(("snapshot", key)) if !key.is_empty() => Ok(Self::Snapshots(Some(key.to_owned()))),
            Some(_) => Err(unknown()),
            None => match name {
                "snapshots" => Ok(Self::Snapshots(None)),
                "ledger" => Ok(Self::Ledger),
                "loss" => Ok(Self::Loss),
                "wal" => Ok(Self::Wal),
                "export" => Ok(Self::Export),
                "views" => Ok(Self::Views),
                "dictionaries" => Ok(Self::Dictionaries),
                "collect" => Ok(Self::Collect),
                _ => Err(unknown()),
            },
        }
    }
}

/// Where a defect was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Where {
    /// The file in the home.
    pub file: Option<&'static str>,
    pub session: Option<String>,
    /// The entry, as `BRANCH@SEQ`.
    pub checkpoint: Option<String>,
    /// The position in the home.
    pub position: Option<Position>,
    /// The time at which the entry was decided, in milliseconds since 1970 UTC.
    pub at: Option<Timestamp>,
    /// The kind of the entry.
    pub kind: Option<String>,
    /// The hash of the body.
    pub body: Option<Hash>,
    #[serde(skip)]
    pub snapshot: Option<Checkpoint>,
}

impl Where {
    pub(super) fn file(file: &'static str) -> Self {
        Self { file: Some(file), ..Self::default() }
    }

    fn entry(place: &EntryAnchor) -> Self {
        Self {
            checkpoint: Some(place.checkpoint.to_string()),
            position: Some(place.position),
            at: Some(place.at),
            kind: Some(place.kind.clone()),
            ..Self::default()
        }
    }

    pub(super) fn session(key: &str) -> Self {
        Self { session: Some(key.to_owned()), ..Self::default() }
    }
}

/// One defect of a home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Finding {
    pub what: What,
    pub place: Where,
    pub detail: String,
    pub effect: Consequence,
    /// The repair for it; `None` if only a backup helps.
    #[serde(rename = "mend")]
    pub repair: Option<Repair>,
}

impl Finding {
    pub(super) fn stale_wal(why: &str) -> Self {
        Self {
            what: What::StaleWal,
            place: Where::file("journal.db-wal"),
            detail: format!("it was left by another or an older journal: {why}"),
            effect: Consequence::ReadOnly,
            repair: Some(Repair::Wal),
        }
    }

    /// The journal could not be opened.
    pub(super) fn closed(error: &Error) -> Self {
        let (what, repair) = match error {
            Error::Newer { .. } => (What::Newer, None),
            Error::Foreign { .. } => (What::Foreign, None),
            _ => (What::Pages, Some(Repair::Export)),
        };
        Self { what, place: Where::file("journal.db"), detail: error.cause(), effect: Consequence::Closed, repair }
    }

    /// A session cannot be read to its end.
    pub(super) fn unread(key: &str, detail: &str, last_good: Option<Checkpoint>) -> Self {
        Self {
            what: What::Entry,
            place: Where::session(key),
            detail: format!("it cannot be read to its end ({detail}); {}", good_up_to(last_good)),
            effect: Consequence::Refused(key.to_owned()),
            repair: Some(Repair::Export),
        }
    }

    /// A snapshot of this session is corrupt. It is not dropped if it is needed for removed entries.
    pub(super) fn of_snapshot(key: &str, snapshot: Checkpoint, detail: &str, is_needed: bool) -> Self {
        let (harm, repair) = if is_needed {
            ("it is the only copy of the entries that were removed before it", Repair::Session(key.to_owned()))
        } else {
            ("the entries are intact", Repair::Snapshots(Some(key.to_owned())))
        };
        Self {
            what: What::Snapshot,
            place: Where { checkpoint: Some(snapshot.to_string()), snapshot: Some(snapshot), ..Where::session(key) },
            detail: format!("{detail}; {harm}"),
            effect: Consequence::Refused(key.to_owned()),
            repair: Some(repair),
        }
    }

    /// Like [`Finding::of_snapshot`], but in a branch that its session no longer uses.
    pub(super) fn of_left_snapshot(key: &str, snapshot: Checkpoint, detail: &str) -> Self {
        Self { effect: Consequence::Kept, ..Self::of_snapshot(key, snapshot, detail, false) }
    }

    /// A session has no entry.
    pub(super) fn of_branch(key: &str, detail: &str) -> Self {
        Self {
            what: What::Branch,
            place: Where::session(key),
            detail: detail.to_owned(),
            effect: Consequence::Refused(key.to_owned()),
            repair: Some(Repair::Session(key.to_owned())),
        }
    }

    /// A table, index or row that every journal has is missing.
    pub(super) fn of_tables(detail: String, effect: Consequence, repair: Option<Repair>) -> Self {
        Self { what: What::Tables, place: Where::file("journal.db"), detail, effect, repair }
    }

    /// A session whose entries are intact and add up to a state that no machine reaches.
    pub(super) fn of_state(key: &str, violation: &InvariantViolation) -> Self {
        Self {
            what: What::State,
            place: Where::session(key),
            detail: violation.to_string(),
            effect: Consequence::Suspect(key.to_owned()),
            repair: None,
        }
    }

    /// The row of the session does not match its entries, or is missing.
    pub(super) fn of_row(key: &str, detail: String, repair: Option<Repair>) -> Self {
        let effect = Consequence::Unlisted(key.to_owned());
        Self { what: What::Rows, place: Where::session(key), detail, effect, repair }
    }

    /// Rows of the views do not match the entries.
    pub(super) fn of_views(key: Option<&str>, detail: String) -> Self {
        Self {
            what: What::Views,
            place: key.map_or_else(|| Where::file("journal.db"), Where::session),
            detail,
            effect: Consequence::Lists,
            repair: Some(Repair::Views),
        }
    }

    /// The first fault of the ledger, or the reason why it cannot be read to its end.
    pub(super) fn of_ledger(fault: Result<&Fault, &str>, last_good: Option<Checkpoint>) -> Self {
        let (place, detail, repair) = match fault {
            Ok(Fault { place, defect }) => (Where::entry(place), defect.to_string(), Repair::Ledger),
            Err(detail) => (Where::default(), format!("it cannot be read to its end ({detail})"), Repair::Export),
        };
        let detail = format!("{detail}; {}", good_up_to(last_good));
        Self { what: What::Ledger, place, detail, effect: Consequence::Unknown, repair: Some(repair) }
    }

    /// An entry of this session is faulty.
    pub(super) fn of_entry(key: &str, fault: &Fault, last_good: Option<Checkpoint>) -> Self {
        let Fault { place, defect } = fault;
        let body = match defect {
            Defect::BodyMissing { hash } | Defect::Body { hash } | Defect::BodyDictionary { hash, .. } => Some(*hash),
            Defect::Missing { .. }
            | Defect::Payload
            | Defect::Unhashed
            | Defect::Dictionary { .. }
            | Defect::Chain
            | Defect::Unreadable { .. }
            | Defect::Row { .. }
            | Defect::Unfounded
            | Defect::Order { .. } => None,
        };
        Self {
            what: if body.is_some() { What::Body } else { What::Entry },
            place: Where { session: Some(key.to_owned()), body, ..Where::entry(place) },
            detail: format!("{defect}; {}", good_up_to(last_good)),
            effect: Consequence::Refused(key.to_owned()),
            repair: Some(Repair::Session(key.to_owned())),
        }
    }
}

fn good_up_to(last_good: Option<Checkpoint>) -> String {
    last_good.map_or_else(|| "no entry before it is good".to_owned(), |at| format!("good up to {at}"))
}
