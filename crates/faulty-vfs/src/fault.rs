//! The faults and when they happen, as values.

use std::ffi::c_int;
use std::fmt;
use std::time::Duration;

use rusqlite::ffi;

/// An operation of SQLite on the disk, or one that bypasses SQLite, if it is counted and can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the variants say it themselves")]
pub enum OperationKind {
    /// Open a file, or create it.
    Open,
    Delete,
    Read,
    Write,
    /// Set the length of a file.
    Truncate,
    Sync,
    /// Map a part of the WAL's index, or create it.
    ShmMap,
    /// Lock the WAL's index.
    ShmLock,
    /// An operation on a file that SQLite does not know.
    Past(Past),
}

/// Operations on files that bypass SQLite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the variants say it themselves")]
pub enum Past {
    /// Make a folder if it does not exist.
    MakeFolder,
    /// Open a file, or create it.
    Open,
    SetMode,
    Lock,
    Read,
    Write,
    /// Set its length.
    Resize,
    /// Allocate blocks for it.
    Reserve,
    /// Sync it; for a folder, the names in it.
    Sync,
    Rename,
    Remove,
}

impl Past {
    /// All operations, in the order of the enum.
    pub const ALL: [Self; 11] = [
        Self::MakeFolder,
        Self::Open,
        Self::SetMode,
        Self::Lock,
        Self::Read,
        Self::Write,
        Self::Resize,
        Self::Reserve,
        Self::Sync,
        Self::Rename,
        Self::Remove,
    ];
}

impl OperationKind {
    /// All operations of SQLite.
    pub const ALL: [Self; 8] =
        [Self::Open, Self::Delete, Self::Read, Self::Write, Self::Truncate, Self::Sync, Self::ShmMap, Self::ShmLock];

    /// The code that the system's VFS returns for EIO.
    pub(crate) fn io_error(self) -> c_int {
        match self {
            Self::Open => ffi::SQLITE_CANTOPEN,
            Self::Delete => ffi::SQLITE_IOERR_DELETE,
            Self::Read => ffi::SQLITE_IOERR_READ,
            Self::Write => ffi::SQLITE_IOERR_WRITE,
            Self::Truncate => ffi::SQLITE_IOERR_TRUNCATE,
            Self::Sync => ffi::SQLITE_IOERR_FSYNC,
            Self::ShmMap => ffi::SQLITE_IOERR_SHMMAP,
            Self::ShmLock => ffi::SQLITE_IOERR_SHMLOCK,
            Self::Past(_) => ffi::SQLITE_IOERR,
        }
    }

    /// The code that the system's VFS returns when there is no space.
    fn full(self) -> c_int {
        match self {
            Self::Write | Self::Past(_) => ffi::SQLITE_FULL,
            Self::ShmMap => ffi::SQLITE_IOERR_SHMSIZE,
            Self::Open | Self::Delete | Self::Read | Self::Truncate | Self::Sync | Self::ShmLock => self.io_error(),
        }
    }
}

impl fmt::Display for OperationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Open => "open",
            Self::Delete => "delete",
            Self::Read => "read",
            Self::Write => "write",
            Self::Truncate => "truncate",
            Self::Sync => "sync",
            Self::ShmMap => "shm map",
            Self::ShmLock => "shm lock",
            Self::Past(past) => return past.fmt(f),
        })
    }
}

impl fmt::Display for Past {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::MakeFolder => "past SQLite: make a folder",
            Self::Open => "past SQLite: open",
            Self::SetMode => "past SQLite: set the mode",
            Self::Lock => "past SQLite: lock",
            Self::Read => "past SQLite: read",
            Self::Write => "past SQLite: write",
            Self::Resize => "past SQLite: set the length",
            Self::Reserve => "past SQLite: reserve blocks",
            Self::Sync => "past SQLite: sync",
            Self::Rename => "past SQLite: rename",
            Self::Remove => "past SQLite: remove",
        })
    }
}

/// The role of a file of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub enum FileKind {
    Database,
    Wal,
    /// The index of the WAL.
    Shm,
    /// A rollback journal, or anything else.
    Other,
}

/// An operation that the disk counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Operation {
    /// Its number, from 1.
    pub number: u64,
    pub kind: OperationKind,
    /// The role of the file.
    pub file: FileKind,
}

/// The kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The operation fails without any effect.
    Eio,
    /// There is no space: a write, a sync, or the creation of a file or of the WAL's index fails without any effect.
    Enospc,
    /// Half of a write is done, then there is no space.
    ShortWrite,
    /// The system returns half of the requested bytes of a read; SQLite has to read the rest itself.
    ShortRead,
    /// A sync takes this long, and succeeds.
    SlowSync(Duration),
    /// The process is dead: this and every later operation fails, and nothing changes any more.
    Crash,
}

impl What {
    /// Whether this fault can happen in such an operation.
    pub fn applies_to(self, kind: OperationKind) -> bool {
        use OperationKind as Kind;
        use Past as P;
        match self {
            Self::Eio | Self::Crash => true,
            Self::Enospc => match kind {
                Kind::Write | Kind::Open | Kind::ShmMap | Kind::Sync => true,
                Kind::Past(past) => {
                    matches!(past, P::MakeFolder | P::Open | P::Write | P::Resize | P::Reserve | P::Sync | P::Rename)
                }
                Kind::Delete | Kind::Read | Kind::Truncate | Kind::ShmLock => false,
            },
            Self::ShortWrite => kind == Kind::Write,
            Self::ShortRead => kind == Kind::Read,
            Self::SlowSync(_) => kind == Kind::Sync,
        }
    }

    pub(crate) fn verdict(self, kind: OperationKind) -> Verdict {
        match self {
            Self::Eio | Self::Crash => Verdict::Fail(kind.io_error()),
            Self::Enospc => Verdict::Fail(kind.full()),
            Self::ShortWrite | Self::ShortRead => Verdict::Short,
            Self::SlowSync(time) => Verdict::Slow(time),
        }
    }
}

/// The result of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The operation succeeds.
    Go,
    /// The operation succeeds after this time.
    Slow(Duration),
    /// Half of the operation succeeds.
    Short,
    /// The operation fails with this code of SQLite.
    Fail(c_int),
}

/// How long a fault lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lasting {
    /// It affects one operation.
    Once,
    /// It affects that operation, and every later one to which it applies.
    ForEver,
}

/// A fault at the n-th operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The kind of fault.
    pub what: What,
    /// The number of the operation, from 1, among those after [`crate::Disk::plan`] that match `only` and to which the
    /// fault applies.
    pub at: u64,
    /// The only kind of operation that counts; `None` counts all.
    pub only: Option<OperationKind>,
    /// How long it lasts.
    pub lasting: Lasting,
}

impl Fault {
    /// A fault that happens once, at the n-th operation (from 1) to which it applies.
    pub fn at(at: u64, what: What) -> Self {
        Self { what, at, only: None, lasting: Lasting::Once }
    }

    /// Restricts it to operations of this kind.
    pub fn on(self, kind: OperationKind) -> Self {
        Self { only: Some(kind), ..self }
    }

    /// Makes it last for every later operation.
    pub fn for_ever(self) -> Self {
        Self { lasting: Lasting::ForEver, ..self }
    }

    fn counts(&self, kind: OperationKind) -> bool {
        self.what.applies_to(kind) && self.only.is_none_or(|only| only == kind)
    }
}

/// A planned fault and how many operations it has counted.
#[derive(Debug)]
pub(crate) struct Planned {
    fault: Fault,
    seen: u64,
}

impl Planned {
    pub(crate) fn new(fault: Fault) -> Self {
        Self { fault, seen: 0 }
    }

    pub(crate) fn has_happened(&self) -> bool {
        self.seen >= self.fault.at
    }

    /// Counts an operation; returns the fault if it applies now.
    pub(crate) fn count(&mut self, kind: OperationKind) -> Option<What> {
        if !self.fault.counts(kind) {
            return None;
        }
        self.seen += 1;
        let hits = match self.fault.lasting {
            Lasting::Once => self.seen == self.fault.at,
            Lasting::ForEver => self.seen >= self.fault.at,
        };
        hits.then_some(self.fault.what)
    }
}
