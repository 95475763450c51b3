//! What is done to the files of a home past SQLite, each step in one place, so that a test can make any of them fail as the
//! system would. What may not live here: which file is for what.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use rustix::io::Errno;

/// What is about to be done to a file or a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileStep<'a> {
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
    /// It gets blocks that nothing else may use.
    Reserve,
    /// It is to reach the disk; of a folder, the names in it.
    Sync,
    /// It gets this name.
    Rename(&'a Path),
    /// It is removed.
    Remove,
}

/// Asked before each step; an error is what the system is to have answered.
pub type FileWatch = fn(FileStep<'_>, &Path) -> io::Result<()>;

static WATCH: OnceLock<FileWatch> = OnceLock::new();

/// Has every step of this process asked of a test first, for ever. Outside of tests nobody watches.
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
    /// Opens a file by these options.
    pub(super) fn new(options: &OpenOptions, path: &Path) -> io::Result<Self> {
        begin(FileStep::Open, path)?;
        Ok(Self { file: options.open(path)?, path: path.to_owned() })
    }

    /// Opens a file or folder that is there, to sync it.
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

    /// Data and length; of a folder, the names in it.
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

    /// Gets the first blocks of a file for it alone.
    pub(super) fn reserve(&self, bytes: u64) -> io::Result<()> {
        begin(FileStep::Reserve, &self.path)?;
        match fallocate(&self.file, FallocateFlags::empty(), 0, bytes) {
            // A file system that cannot promise blocks gives them for bytes.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => (&self.file).write_all(&vec![0x55; bytes as usize]),
            allocated => Ok(allocated?),
        }
    }
}

/// A file that is written, made if it is not there, private then.
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

/// Another name for the same file.
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

/// Makes what was done to the name of a file last.
pub(super) fn sync_name(path: &Path) -> io::Result<()> {
    sync(path.parent().unwrap_or(Path::new(".")))
}
