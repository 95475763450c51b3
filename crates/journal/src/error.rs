//! The errors of a journal; each says what to do.

use std::path::{Path, PathBuf};

use engine::{BranchId, Epoch, Hash, Position, Seq, UnreadableEvent};

/// An error of the journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub enum Error {
    /// Another process holds the home.
    #[error("{} is owned by {}: wait for it with --wait, or end it first", home.display(), owner(*pid, since.as_deref()))]
    Owned {
        home: PathBuf,
        /// The owner's process id; `None` until the owner has written its name into the lock file.
        pid: Option<u32>,
        /// The time at which it took the home: RFC 3339, UTC; `None` until it is written.
        since: Option<String>,
    },
    /// The home has no journal.
    #[error("no journal at {}: run `limulus agent -m TEXT` first, or set LIMULUS_HOME", home.display())]
    NotFound { home: PathBuf },
    /// The home cannot be created or written.
    #[error("cannot write to {} ({detail}): make it writable, or set LIMULUS_HOME to another folder", path.display())]
    Unwritable {
        /// The folder or file.
        path: PathBuf,
        /// The error of the operating system.
        detail: String,
    },
    /// The file is a database of another program.
    #[error("{} is not a journal of limulus: move it away, or set LIMULUS_HOME to another folder", path.display())]
    Foreign { path: PathBuf },
    /// A newer version of Limulus wrote the journal.
    #[error("{} has format {version}, this limulus knows {known}: use the newer limulus that wrote it", path.display())]
    Newer {
        path: PathBuf,
        /// The format version of the file.
        version: i64,
        /// The newest format version that this program supports.
        known: i64,
    },
    /// A restore into the home was cut off, so a part of it may be missing.
    #[error("a restore into {} was cut off: `limulus restore` with the same backup completes it", home.display())]
    Unrestored { home: PathBuf },
    /// An older version of Limulus wrote the journal; only an owner migrates it.
    #[error(
        "{} has format {version}, this limulus reads {known}: run `limulus resume` once; it keeps a copy and migrates the \
         journal", path.display()
    )]
    Older {
        path: PathBuf,
        /// The format version of the file.
        version: i64,
        /// The format version that this program reads.
        known: i64,
    },
    /// The journal is corrupt.
    #[error(
        "the journal{} is damaged ({detail}): nothing was changed; `limulus doctor` shows what can be repaired",
        named(path)
    )]
    Damaged {
        /// The file; empty for a journal in memory, and where the path is not known.
        path: PathBuf,
        detail: String,
    },
    /// Acknowledged entries are missing.
    #[error(
        "the journal {} ends at position {head}, but {mark} was acknowledged: entries were lost, so nothing is written; \
         restore the folder from a backup, or run `limulus doctor`", path.display()
    )]
    Regression {
        path: PathBuf,
        /// The last position in the journal.
        head: Position,
        /// The position that was acknowledged last.
        mark: Position,
    },
    /// This version cannot read an entry. Only the session of that entry is affected.
    #[error("entry {branch}@{seq}: {error}")]
    Unreadable { branch: BranchId, seq: Seq, error: UnreadableEvent },
    /// The content of a snapshot does not match its hash. The entries are not affected.
    #[error("the snapshot {branch}@{seq} is damaged ({detail}): `limulus doctor` shows it and can remove it")]
    DamagedSnapshot {
        branch: BranchId,
        /// The last entry that the snapshot covers.
        seq: Seq,
        detail: String,
    },
    /// The payload of an entry was erased, so the state must be folded from a snapshot behind it.
    #[error("entry {branch}@{seq} was erased, and there is no later snapshot to continue from: see `limulus doctor`")]
    Erased { branch: BranchId, seq: Seq },
    /// The disk is full.
    #[error("no space left for {}: free some, then `limulus resume`; nothing acknowledged is lost", path.display())]
    Full { path: PathBuf },
    /// A read, write or sync failed.
    #[error("the journal {} cannot be used ({detail}): check the disk, then `limulus resume`", path.display())]
    Failed {
        path: PathBuf,
        /// The error of SQLite or of the operating system.
        detail: String,
    },
    /// An earlier write failed, so this process acknowledges nothing more.
    #[error("an earlier write to the journal failed ({cause}): fix that and start limulus again")]
    Poisoned { cause: String },
    /// The writer thread has ended.
    #[error("the journal's writer has ended: start limulus again (if it did not end by itself, this is a bug)")]
    Gone,
    /// The home has a newer owner.
    #[error("this process was owner {epoch} of the home, which now has owner {owner}: it must end")]
    Fenced {
        /// The epoch of the append.
        epoch: Epoch,
        /// The current epoch of the home.
        owner: Epoch,
    },
    /// The seq of a record is not the next one of its branch.
    #[error("branch {branch} expects seq {expected}, not {}", found.map_or("none".to_owned(), |seq| seq.to_string()))]
    Gap {
        branch: BranchId,
        expected: Seq,
        /// The seq that the record has.
        found: Option<Seq>,
    },
    /// An append to a branch that does not exist.
    #[error("branch {branch} does not exist")]
    UnknownBranch { branch: BranchId },
    /// The branch exists already, or belongs to another session.
    #[error("branch {branch} exists already, or its first entry does not fit it")]
    BranchTaken { branch: BranchId },
    /// Another session has this key.
    #[error("the session key `{key}` is taken")]
    KeyTaken { key: String },
    /// A fork from an entry that does not exist or has another chain value.
    #[error("there is no entry {parent}@{at} with that hash to fork from")]
    UnknownParent {
        /// The branch to fork from.
        parent: BranchId,
        at: Seq,
    },
    /// The entries before this one cannot be removed.
    #[error(
        "nothing before {branch}@{seq} can be removed: there is no intact snapshot, or another branch forks off before it"
    )]
    NoAnchor { branch: BranchId, seq: Seq },
    /// An entry names a body that is not stored.
    #[error("an entry of {branch} names the body {hash}, which is not stored")]
    MissingBody { branch: BranchId, hash: Hash },
    /// The index of what was said cannot be used. The journal is not affected.
    #[error("nothing can be searched: {} cannot be written ({detail})", path.display())]
    Search {
        path: PathBuf,
        /// The error of SQLite or of the operating system.
        detail: String,
    },
    /// A constraint of the tables failed that no other check covers.
    #[error("the append breaks a rule of the store: {detail}")]
    Constraint {
        /// The error of SQLite.
        detail: String,
    },
}

/// The file after a space; empty where the path is not known.
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

/// The class of an error, which decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Exit 65: the journal is corrupt.
    Damaged,
    /// Exit 74: the journal could not be read or written.
    Store,
    /// Exit 75: another process owns it.
    Owned,
    /// Exit 4: there is no journal.
    NotFound,
    /// A newer version of Limulus wrote it.
    Newer,
    /// Exit 3: an older version of Limulus wrote it.
    Older,
    /// Exit 70: the append broke a rule, which is a bug of the caller.
    Refused,
}

impl Error {
    /// The class of this error, for the exit code and the hint.
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
            Self::Unrestored { .. }
            | Self::Unwritable { .. }
            | Self::Full { .. }
            | Self::Failed { .. }
            | Self::Search { .. }
            | Self::Poisoned { .. }
            | Self::Gone => Kind::Store,
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

    /// The error of SQLite or of the operating system; the whole message where there is none.
    #[cfg(feature = "sqlite")]
    pub(crate) fn cause(&self) -> String {
        match self {
            Self::Damaged { detail, .. } | Self::DamagedSnapshot { detail, .. } | Self::Failed { detail, .. } => {
                detail.clone()
            }
            error => error.to_string(),
        }
    }

    /// Whether the append itself was wrong: only it failed, and the journal stays usable.
    pub fn is_refusal(&self) -> bool {
        self.kind() == Kind::Refused || matches!(self, Self::Fenced { .. })
    }
}
