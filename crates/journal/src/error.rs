//! What can go wrong with a journal, each with what to do. What may not live here: text about runs or models.

use std::path::{Path, PathBuf};

use engine::{BranchId, Epoch, Hash, Position, Seq, UnreadableEvent};

/// What can go wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Another process holds the home.
    #[error("{} is owned by {}: wait for it with --wait, or end it first", home.display(), owner(*pid, since.as_deref()))]
    Owned {
        /// The home.
        home: PathBuf,
        /// The process, once it has written its name.
        pid: Option<u32>,
        /// Since when: RFC 3339, UTC.
        since: Option<String>,
    },
    /// There is no journal here.
    #[error("no journal at {}: run `limulus agent -m TEXT` first, or set LIMULUS_HOME", home.display())]
    NotFound {
        /// The home.
        home: PathBuf,
    },
    /// The home cannot be made or written.
    #[error("cannot write to {} ({detail}): make it writable, or set LIMULUS_HOME to another folder", path.display())]
    Unwritable {
        /// The folder or file.
        path: PathBuf,
        /// What the system said.
        detail: String,
    },
    /// A database of another program.
    #[error("{} is not a journal of limulus: move it away, or set LIMULUS_HOME to another folder", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A journal of a newer limulus.
    #[error("{} has format {version}, this limulus knows {known}: use the newer limulus that wrote it", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        version: i64,
        /// The format of this program.
        known: i64,
    },
    /// A journal of an older limulus, which only its owner brings over.
    #[error(
        "{} has format {version}, this limulus reads {known}: run `limulus resume` once; it keeps a copy and brings the \
         journal over", path.display()
    )]
    Older {
        /// The file.
        path: PathBuf,
        /// Its format.
        version: i64,
        /// The format of this program.
        known: i64,
    },
    /// The journal does not hold what it should.
    #[error(
        "the journal{} is damaged ({detail}): nothing was changed; `limulus doctor` says what can be done",
        named(path)
    )]
    Damaged {
        /// The file (empty for a journal in memory, and where it is not known).
        path: PathBuf,
        /// What is wrong.
        detail: String,
    },
    /// Acknowledged entries are gone.
    #[error(
        "the journal {} ends at position {head}, but {mark} was acknowledged: entries were lost, so nothing is written; \
         restore the folder from a backup, or see what `limulus doctor` can do", path.display()
    )]
    Regression {
        /// The file.
        path: PathBuf,
        /// Where it ends.
        head: Position,
        /// What was acknowledged.
        mark: Position,
    },
    /// An entry that this version cannot read. Only its own session is closed by it.
    #[error("entry {branch}@{seq}: {error}")]
    Unreadable {
        /// The branch.
        branch: BranchId,
        /// The entry.
        seq: Seq,
        /// Why.
        error: UnreadableEvent,
    },
    /// A snapshot that is not what was kept. The entries are not harmed by it.
    #[error("the snapshot {branch}@{seq} is damaged ({detail}): `limulus doctor` tells more and can drop it")]
    DamagedSnapshot {
        /// The branch.
        branch: BranchId,
        /// The last entry that it stands for.
        seq: Seq,
        /// What is wrong.
        detail: String,
    },
    /// The payload of an entry was erased, so the fold must begin behind it.
    #[error(
        "entry {branch}@{seq} was erased, and no snapshot stands at or behind it to go on from: see `limulus doctor`"
    )]
    Erased {
        /// The branch.
        branch: BranchId,
        /// The entry.
        seq: Seq,
    },
    /// The disk is full.
    #[error("no space left for {}: free some, then `limulus resume`; nothing acknowledged is lost", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// A read, write or sync failed.
    #[error("the journal {} cannot be used ({detail}): check the disk, then `limulus resume`", path.display())]
    Failed {
        /// The file.
        path: PathBuf,
        /// What SQLite or the system said.
        detail: String,
    },
    /// An earlier write failed, so nothing more is acknowledged.
    #[error("an earlier write to the journal failed ({cause}): mend that and start limulus again")]
    Poisoned {
        /// The earlier failure.
        cause: String,
    },
    /// The writer is gone.
    #[error("the journal's writer has ended: start limulus again (if it did not end by itself, this is a bug)")]
    Gone,
    /// The home has another owner by now.
    #[error("this process was owner {epoch} of the home, which has owner {owner} now: it must end")]
    Fenced {
        /// The epoch of the append.
        epoch: Epoch,
        /// The epoch of the home.
        owner: Epoch,
    },
    /// A seq that is not the next of its branch.
    #[error("branch {branch} expects seq {expected}, not {}", found.map_or("none".to_owned(), |seq| seq.to_string()))]
    Gap {
        /// The branch.
        branch: BranchId,
        /// The next seq.
        expected: Seq,
        /// What was given.
        found: Option<Seq>,
    },
    /// An append to a branch that was never begun.
    #[error("branch {branch} does not exist")]
    UnknownBranch {
        /// The branch.
        branch: BranchId,
    },
    /// A branch that is begun twice, or for another session.
    #[error("branch {branch} is begun already, or by an entry that does not fit it")]
    BranchTaken {
        /// The branch.
        branch: BranchId,
    },
    /// A session whose key another one has.
    #[error("the session key `{key}` is taken")]
    KeyTaken {
        /// The key.
        key: String,
    },
    /// A fork of an entry that is not there, or has another chain.
    #[error("there is no entry {parent}@{at} with that hash to fork from")]
    UnknownParent {
        /// The branch that it leaves.
        parent: BranchId,
        /// The entry.
        at: Seq,
    },
    /// An entry that cannot be what the rest of its branch goes on from.
    #[error(
        "nothing before {branch}@{seq} can be removed: no whole snapshot stands there, or another branch leaves before it"
    )]
    NoAnchor {
        /// The branch.
        branch: BranchId,
        /// The entry.
        seq: Seq,
    },
    /// An entry names a body that was never kept.
    #[error("an entry of {branch} names the body {hash}, which is not kept")]
    MissingBody {
        /// The branch.
        branch: BranchId,
        /// The body.
        hash: Hash,
    },
    /// A rule of the tables that nothing else caught.
    #[error("the append breaks a rule of the store: {detail}")]
    Constraint {
        /// What SQLite said.
        detail: String,
    },
}

/// A file behind a space; nothing where it is not known.
fn named(path: &Path) -> String {
    if path.as_os_str().is_empty() { String::new() } else { format!(" {}", path.display()) }
}

fn owner(pid: Option<u32>, since: Option<&str>) -> String {
    match (pid, since) {
        (Some(pid), Some(since)) => format!("pid {pid}, since {since}"),
        (Some(pid), None) => format!("pid {pid}"),
        (None, _) => "another process".to_owned(),
    }
}

/// What an error means for a person, and for the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Exit 65: the journal is not what it should be.
    Damaged,
    /// Exit 74: it could not be written or read.
    Store,
    /// Exit 75: another process owns it.
    Owned,
    /// Exit 4: there is none.
    NotFound,
    /// A newer limulus wrote it.
    Newer,
    /// Exit 3: an older limulus wrote it.
    Older,
    /// Exit 70: the append broke a rule, which is a bug of the caller.
    Refused,
}

impl Error {
    /// What it means.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Owned { .. } | Self::Fenced { .. } => Kind::Owned,
            Self::NotFound { .. } => Kind::NotFound,
            Self::Older { .. } => Kind::Older,
            Self::Newer { .. }
            | Self::Unreadable { error: UnreadableEvent::Kind { .. } | UnreadableEvent::Version { .. }, .. } => {
                Kind::Newer
            }
            Self::Foreign { .. }
            | Self::Damaged { .. }
            | Self::DamagedSnapshot { .. }
            | Self::Erased { .. }
            | Self::Regression { .. }
            | Self::Unreadable { .. } => Kind::Damaged,
            Self::Unwritable { .. } | Self::Full { .. } | Self::Failed { .. } | Self::Poisoned { .. } | Self::Gone => {
                Kind::Store
            }
            Self::Gap { .. }
            | Self::UnknownBranch { .. }
            | Self::BranchTaken { .. }
            | Self::KeyTaken { .. }
            | Self::UnknownParent { .. }
            | Self::NoAnchor { .. }
            | Self::MissingBody { .. }
            | Self::Constraint { .. } => Kind::Refused,
        }
    }

    /// What SQLite or the system said; all of it where nothing is behind it.
    #[cfg(feature = "sqlite")]
    pub(crate) fn said(&self) -> String {
        match self {
            Self::Damaged { detail, .. } | Self::DamagedSnapshot { detail, .. } | Self::Failed { detail, .. } => {
                detail.clone()
            }
            error => error.to_string(),
        }
    }

    /// Whether the append itself was wrong: it alone failed, and the journal goes on.
    pub fn is_refusal(&self) -> bool {
        self.kind() == Kind::Refused || matches!(self, Self::Fenced { .. })
    }
}
