//! All operations on the files of a home that bypass SQLite, each in one function, so that a test can make each fail as
//! the system would.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use rustix::io::Errno;

/// An operation on a file or folder that is about to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub enum FileStep<'a> {
    /// Make a folder if it does not exist.
    MakeFolder,
    /// Open a file, or create it.
    Open,
    SetMode,
    /// Take the lock of the file; fails if another process has it.
    Lock,
    Read,
    Write,
    /// Set the length of the file.
    Resize,
    /// Allocate blocks for it.
    Reserve,
    /// Sync it; for a folder, the names in it.
    Sync,
    /// Rename it to this.
    Rename(&'a Path),
    Remove,
}

/// Called before each operation; an error is returned as if it came from the system.
pub type FileWatch = fn(FileStep<'_>, &Path) -> io::Result<()>;

static WATCH: OnceLock<FileWatch> = OnceLock::new();

/// Installs a test's watch over all operations of this process, permanently. Without a test there is none.
#[doc(hidden)]
pub fn watch_files(watch: FileWatch) {
    WATCH.get_or_init(|| watch);
}

fn begin(step: FileStep<'_>, path: &Path) -> io::Result<()> {
    WATCH.get().map_or(Ok(()), |watch| watch(step, path))
}

/// An open file that knows its path.
#[derive(Debug)]
pub(super) struct Open {
    file: File,
    path: PathBuf,
}

impl Open {
    /// Opens a file with these options.
    pub(super) fn new(options: &OpenOptions, path: &Path) -> io::Result<Self> {
        begin(FileStep::Open, path)?;
        Ok(Self { file: options.open(path)?, path: path.to_owned() })
    }

    /// Opens an existing file or folder, in order to sync it.
    fn there(path: &Path) -> io::Result<Self> {
        Self::new(OpenOptions::new().read(true), path)
    }

    pub(super) fn len(&self) -> io::Result<u64> {
        begin(FileStep::Read, &self.path)?;
        Ok(self.file.metadata()?.len())
    }

    pub(super) fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        begin(FileStep::Read, &self.path)?;
        self.file.read_exact_at(bytes, offset)
    }

    pub(super) fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        begin(FileStep::Write, &self.path)?;
        self.file.write_all_at(bytes, offset)
    }

    pub(super) fn resize(&self, bytes: u64) -> io::Result<()> {
        begin(FileStep::Resize, &self.path)?;
        self.file.set_len(bytes)
    }

    /// Syncs data and length; of a folder, the names in it.
    pub(super) fn sync(&self) -> io::Result<()> {
        begin(FileStep::Sync, &self.path)?;
        self.file.sync_all()
    }

    /// Takes the lock if nobody has it.
    pub(super) fn lock(&self) -> io::Result<()> {
        begin(FileStep::Lock, &self.path)?;
        Ok(flock(&self.file, FlockOperation::NonBlockingLockExclusive)?)
    }

    pub(super) fn unlock(&self) {
        let _ = flock(&self.file, FlockOperation::Unlock);
    }

    /// Allocates the first `bytes` bytes of the file.
    pub(super) fn reserve(&self, bytes: u64) -> io::Result<()> {
        begin(FileStep::Reserve, &self.path)?;
        match fallocate(&self.file, FallocateFlags::empty(), 0, bytes) {
            // On a file system that cannot allocate blocks, written bytes take them.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => (&self.file).write_all(&vec![0x55; bytes as usize]),
            allocated => Ok(allocated?),
        }
    }
}

/// Options for a file that is written, and created with this private mode if it does not exist.
pub(super) fn private(mode: u32) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(mode);
    options
}

pub(super) fn make_folder(path: &Path, mode: u32) -> io::Result<()> {
    begin(FileStep::MakeFolder, path)?;
    DirBuilder::new().recursive(true).mode(mode).create(path)
}

pub(super) fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    begin(FileStep::SetMode, path)?;
    fs::set_permissions(path, Permissions::from_mode(mode))
}

pub(super) fn remove(path: &Path) -> io::Result<()> {
    begin(FileStep::Remove, path)?;
    fs::remove_file(path)
}

pub(super) fn rename(path: &Path, to: &Path) -> io::Result<()> {
    begin(FileStep::Rename(to), path)?;
    fs::rename(path, to)
}

/// Makes another name for the same file.
pub(super) fn link(path: &Path, to: &Path) -> io::Result<()> {
    begin(FileStep::Open, to)?;
    fs::hard_link(path, to)
}

pub(super) fn copy(path: &Path, to: &Path) -> io::Result<()> {
    begin(FileStep::Write, to)?;
    fs::copy(path, to).map(|_| ())
}

pub(super) fn sync(path: &Path) -> io::Result<()> {
    Open::there(path)?.sync()
}

/// Makes a change to the name of a file durable.
pub(super) fn sync_name(path: &Path) -> io::Result<()> {
    sync(path.parent().unwrap_or(Path::new(".")))
}
