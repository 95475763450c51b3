//! What can be wrong with a home, in words: what, where, what it means, and which mend there is. What may not live here:
//! how it is found.

use std::fmt;
use std::str::FromStr;

use engine::{Hash, InvariantViolation, Position, Timestamp};
use serde::{Serialize, Serializer};

use super::session::{EntryAnchor, Fault};
use super::walk::{Checkpoint, Defect};
use crate::Error;

/// What is wrong, the most severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// There was a journal here and it is gone.
    Gone,
    /// The file is another program's, or no database.
    Foreign,
    /// A newer limulus wrote it.
    Newer,
    /// The file is shorter than it says.
    Truncated,
    /// Pages of the file are malformed.
    Pages,
    /// Tables, or the one row of the owner, are not there.
    Tables,
    /// The WAL belongs to another journal.
    StaleWal,
    /// Entries that were acknowledged are gone.
    Lost,
    /// The entry at the mark is not the one that was acknowledged.
    Replaced,
    /// The mark is not a mark.
    Mark,
    /// An entry cannot be believed.
    Entry,
    /// A body that an entry names is gone or changed.
    Body,
    /// A session has no branch.
    Branch,
    /// The row of a session is not what its entries say.
    Rows,
    /// The state of a session breaks an invariant.
    State,
    /// A snapshot cannot be believed.
    Snapshot,
    /// An entry of the ledger cannot be believed.
    Ledger,
    /// Rows of the views are not what the entries give.
    Views,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gone => "the journal is gone",
            Self::Foreign => "journal.db is not a journal of limulus",
            Self::Newer => "journal.db was written by a newer limulus",
            Self::Truncated => "journal.db was cut short",
            Self::Pages => "pages of journal.db are malformed",
            Self::Tables => "tables of journal.db are not as they should be",
            Self::StaleWal => "journal.db-wal does not belong to this journal.db",
            Self::Lost => "acknowledged entries are gone",
            Self::Replaced => "the journal is not the one that was acknowledged",
            Self::Mark => "journal.mark is damaged",
            Self::Entry => "an entry cannot be believed",
            Self::Body => "a body is damaged",
            Self::Branch => "a session has no beginning",
            Self::Rows => "the table of sessions is not what the entries say",
            Self::State => "the state of a session breaks an invariant",
            Self::Snapshot => "a snapshot cannot be believed",
            Self::Ledger => "the ledger of the profiles cannot be believed",
            Self::Views => "the lists are not what the entries give",
        })
    }
}

/// What follows from a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Consequence {
    /// No command that writes takes the home.
    ReadOnly,
    /// Nothing of it can be read.
    Closed,
    /// That session is refused.
    Refused(String),
    /// That session goes on from a snapshot that stands behind it.
    Hole(String),
    /// That session may decide wrongly.
    Suspect(String),
    /// That session cannot be gone on with under its key.
    Unlisted(String),
    /// Which profiles are left alone is not known.
    Unknown,
    /// Lists may be wrong.
    Lists,
    /// What nothing needs stays.
    Kept,
}

impl fmt::Display for Consequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadOnly => f.write_str("the home is read-only: no command that writes takes it"),
            Self::Closed => f.write_str("the home is closed: nothing of it can be read"),
            Self::Refused(key) => write!(f, "session {key} is refused; the others go on"),
            Self::Hole(key) => write!(
                f,
                "session {key} goes on from a snapshot that stands behind it; its audit log has a hole there. The repair goes back to before \
                 it: leave it be, unless what came after is not to be believed"
            ),
            Self::Suspect(key) => {
                write!(f, "session {key} may decide wrongly; this is a bug in limulus, please report it")
            }
            Self::Unlisted(key) => {
                write!(f, "nobody finds session {key} under its key; no entry is harmed by it, and the others go on")
            }
            Self::Unknown => f.write_str(
                "every session goes on with what comes before that: a profile that was refused since may be asked again, and what \
                 is found out now is not kept",
            ),
            Self::Lists => {
                f.write_str("lists may be wrong, and what is unfinished may be missed; no entry is harmed by it")
            }
            Self::Kept => f.write_str("what nothing names cannot be collected; no session is harmed by it"),
        }
    }
}

/// What can be done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repair {
    /// Snapshots that cannot be believed are dropped: of one session, or all.
    Snapshots(Option<String>),
    /// A session goes on in a new branch from its last good entry; one that has none is put aside.
    Session(String),
    /// The ledger goes on in a new branch from its last good entry.
    Ledger,
    /// The loss is accepted: the mark is set to what is there.
    Loss,
    /// The WAL is put aside.
    Wal,
    /// What can be read goes into a new file.
    Export,
    /// The views are made anew from the entries.
    Views,
    /// What nothing needs is removed.
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

/// A mend that there is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no repair `{name}`; there are snapshots, snapshot:KEY, session:KEY, ledger, loss, wal, export, views, collect"
)]
pub struct UnknownRepair {
    /// What was asked for.
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
                "collect" => Ok(Self::Collect),
                _ => Err(unknown()),
            },
        }
    }
}

/// Where it was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Where {
    /// The file of the home.
    pub file: Option<&'static str>,
    /// The session's key.
    pub session: Option<String>,
    /// `BRANCH@SEQ`.
    pub checkpoint: Option<String>,
    /// The place in the home.
    pub position: Option<Position>,
    /// When it was decided, in milliseconds.
    pub at: Option<Timestamp>,
    /// The kind of the entry.
    pub kind: Option<String>,
    /// The body.
    pub body: Option<Hash>,
    /// The snapshot.
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

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What.
    pub what: What,
    /// Where.
    pub place: Where,
    /// What exactly.
    pub detail: String,
    /// What follows from it.
    pub effect: Consequence,
    /// What can be done about it here; nothing else helps than a backup where there is none.
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

    /// A journal that could not be opened.
    pub(super) fn closed(error: &Error) -> Self {
        let (what, repair) = match error {
            Error::Newer { .. } => (What::Newer, None),
            Error::Foreign { .. } => (What::Foreign, None),
            _ => (What::Pages, Some(Repair::Export)),
        };
        Self { what, place: Where::file("journal.db"), detail: error.said(), effect: Consequence::Closed, repair }
    }

    /// A session that cannot be read to its end.
    pub(super) fn unread(key: &str, detail: &str, last_good: Option<Checkpoint>) -> Self {
        Self {
            what: What::Entry,
            place: Where::session(key),
            detail: format!("it cannot be read to its end ({detail}); {}", good_up_to(last_good)),
            effect: Consequence::Refused(key.to_owned()),
            repair: Some(Repair::Export),
        }
    }

    /// A snapshot of this session that cannot be believed. One that is needed for what was removed is not dropped.
    pub(super) fn of_snapshot(key: &str, snapshot: Checkpoint, detail: &str, is_needed: bool) -> Self {
        let (harm, repair) = if is_needed {
            ("what was removed before it is in it alone", Repair::Session(key.to_owned()))
        } else {
            ("no entry is harmed by it", Repair::Snapshots(Some(key.to_owned())))
        };
        Self {
            what: What::Snapshot,
            place: Where { checkpoint: Some(snapshot.to_string()), snapshot: Some(snapshot), ..Where::session(key) },
            detail: format!("{detail}; {harm}"),
            effect: Consequence::Refused(key.to_owned()),
            repair: Some(repair),
        }
    }

    /// The same in a branch that its session has left.
    pub(super) fn of_left_snapshot(key: &str, snapshot: Checkpoint, detail: &str) -> Self {
        Self { effect: Consequence::Kept, ..Self::of_snapshot(key, snapshot, detail, false) }
    }

    /// A session that has no entry.
    pub(super) fn of_branch(key: &str, detail: &str) -> Self {
        Self {
            what: What::Branch,
            place: Where::session(key),
            detail: detail.to_owned(),
            effect: Consequence::Refused(key.to_owned()),
            repair: Some(Repair::Session(key.to_owned())),
        }
    }

    /// Something that every journal has is not there.
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

    /// The row of the session that its entries call so is another, or is not there.
    pub(super) fn of_row(key: &str, detail: String, repair: Option<Repair>) -> Self {
        let effect = Consequence::Unlisted(key.to_owned());
        Self { what: What::Rows, place: Where::session(key), detail, effect, repair }
    }

    /// Rows of the views that are not what the entries give.
    pub(super) fn of_views(key: Option<&str>, detail: String) -> Self {
        Self {
            what: What::Views,
            place: key.map_or_else(|| Where::file("journal.db"), Where::session),
            detail,
            effect: Consequence::Lists,
            repair: Some(Repair::Views),
        }
    }

    /// The first fault of the ledger, or why it cannot be read to its end.
    pub(super) fn of_ledger(fault: Result<&Fault, &str>, last_good: Option<Checkpoint>) -> Self {
        let (place, detail, repair) = match fault {
            Ok(Fault { place, defect }) => (Where::entry(place), defect.to_string(), Repair::Ledger),
            Err(detail) => (Where::default(), format!("it cannot be read to its end ({detail})"), Repair::Export),
        };
        let detail = format!("{detail}; {}", good_up_to(last_good));
        Self { what: What::Ledger, place, detail, effect: Consequence::Unknown, repair: Some(repair) }
    }

    /// A fault of an entry of this session.
    pub(super) fn of_entry(key: &str, fault: &Fault, last_good: Option<Checkpoint>) -> Self {
        let Fault { place, defect } = fault;
        let body = match defect {
            Defect::BodyMissing { hash } | Defect::Body { hash } => Some(*hash),
            Defect::Missing { .. }
            | Defect::Payload
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
