//! What goes wrong and when, as values. What may not live here: how it is done.

use std::ffi::c_int;
use std::fmt;
use std::time::Duration;

use rusqlite::ffi;

/// What SQLite asks of the disk, and what is done past it, as far as it is counted and can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OperationKind {
    /// A file is opened, perhaps made.
    Open,
    /// A file is removed.
    Delete,
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// A file gets another length.
    Truncate,
    /// What was written is to reach the disk.
    Sync,
    /// A part of the WAL's index is mapped, perhaps made.
    ShmMap,
    /// A lock on the WAL's index is taken.
    ShmLock,
    /// A file that SQLite does not know, or a name of one.
    Past(Past),
}

/// What is done to files past SQLite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Past {
    /// A folder is made, perhaps.
    MakeFolder,
    /// A file is opened, perhaps made.
    Open,
    /// Its mode is set.
    SetMode,
    /// Its lock is taken.
    Lock,
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// It gets another length.
    Resize,
    /// It gets blocks for it alone.
    Reserve,
    /// It, or the names in a folder, are to reach the disk.
    Sync,
    /// It gets another name.
    Rename,
    /// It is removed.
    Remove,
}

impl Past {
    /// Every one.
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
    /// Every kind of SQLite's.
    pub const ALL: [Self; 8] =
        [Self::Open, Self::Delete, Self::Read, Self::Write, Self::Truncate, Self::Sync, Self::ShmMap, Self::ShmLock];

    /// What the system's VFS answers when the system says EIO.
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

    /// What the system's VFS answers when there is no space.
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

/// Which file of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// The database.
    Database,
    /// Its WAL.
    Wal,
    /// The index of the WAL.
    Shm,
    /// A rollback journal, or anything else.
    Other,
}

/// One counted operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Its number, from 1.
    pub number: u64,
    /// What was asked.
    pub kind: OperationKind,
    /// Of which file.
    pub file: FileKind,
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The operation fails; nothing of it is done.
    Eio,
    /// There is no space: a write, the making of a file or of the WAL's index, or a sync fails; nothing of it is done.
    Enospc,
    /// Half of a write is done, then there is no space.
    ShortWrite,
    /// The system gives half of what a read asks for; SQLite has to ask for the rest.
    ShortRead,
    /// A sync takes this long, and is done.
    SlowSync(Duration),
    /// The process is dead from here on: this and every later operation fails, and nothing is changed any more.
    Crash,
}

impl What {
    /// Whether this can happen to such an operation.
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

/// What becomes of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is done.
    Go,
    /// It is done after this time.
    Slow(Duration),
    /// Half of it is done.
    Short,
    /// It fails with this code of SQLite.
    Fail(c_int),
}

/// How long a fault lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lasting {
    /// One operation.
    Once,
    /// That operation, and every later one to which it applies.
    ForEver,
}

/// A fault at the n-th operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// What happens.
    pub what: What,
    /// At which operation, from 1, of those from the planning on that are of the kind and to which it applies.
    pub at: u64,
    /// Only operations of this kind are counted and struck.
    pub only: Option<OperationKind>,
    /// For how long.
    pub lasting: Lasting,
}

impl Fault {
    /// A fault that strikes once, at the n-th operation (from 1) to which it applies.
    pub fn at(at: u64, what: What) -> Self {
        Self { what, at, only: None, lasting: Lasting::Once }
    }

    /// Counts and strikes operations of this kind alone.
    pub fn on(self, kind: OperationKind) -> Self {
        Self { only: Some(kind), ..self }
    }

    /// Strikes every later one as well.
    pub fn for_ever(self) -> Self {
        Self { lasting: Lasting::ForEver, ..self }
    }

    fn counts(&self, kind: OperationKind) -> bool {
        self.what.applies_to(kind) && self.only.is_none_or(|only| only == kind)
    }
}

/// A fault and how far it has counted.
#[derive(Debug)]
pub(crate) struct Planned {
    fault: Fault,
    seen: u64,
}

impl Planned {
    pub(crate) fn new(fault: Fault) -> Self {
        Self { fault, seen: 0 }
    }

    pub(crate) fn has_struck(&self) -> bool {
        self.seen >= self.fault.at
    }

    /// Counts an operation, and says what strikes it.
    pub(crate) fn count(&mut self, kind: OperationKind) -> Option<What> {
        if !self.fault.counts(kind) {
            return None;
        }
        self.seen += 1;
        let strikes = match self.fault.lasting {
            Lasting::Once => self.seen == self.fault.at,
            Lasting::ForEver => self.seen >= self.fault.at,
        };
        strikes.then_some(self.fault.what)
    }
}
