//! Opens files and folders for the tools. It refuses pipes and devices, which could block or never end.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use engine::Hash;
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use crate::cancel::Cancel;
use crate::error::ToolError;
use crate::guard::Seen;
use crate::limits::HASHED_AT_ONCE_BYTES;
use crate::paths::ResolvedPath;
use crate::{guard, openat};

/// How a file is opened: if it has become a pipe meanwhile, without waiting for a writer.
const READING: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// The state of a file: its hash, or none if it does not exist.
pub(crate) type FileState = Option<Hash>;

impl ResolvedPath {
    /// What is at this path. An error if nothing is, or if limulus itself owns it.
    pub(crate) fn look(&self) -> io::Result<Seen> {
        self.above()?.1.ok_or_else(|| Errno::NOENT.into())
    }

    /// The folder of the entry, which may be the one that everything is opened from, and what is there.
    fn above(&self) -> io::Result<(Folder, Option<Seen>)> {
        let (above, name) = openat::split(&self.relative);
        let folder = if above.as_os_str().is_empty() {
            Folder::Base(Arc::clone(&self.base))
        } else {
            Folder::Opened(openat::open(&*self.base, above, openat::FOLDER)?)
        };
        let seen = self.entry(folder.as_fd(), name)?;
        Ok((folder, seen))
    }

    /// Judges the entry in its open folder, and returns what is there.
    fn entry(&self, folder: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<Seen>> {
        // The workspace was judged when it was opened.
        let is_workspace = self.inside && openat::split(&self.relative).0.as_os_str().is_empty();
        if is_workspace { self.guard.entry_of_judged(folder, name) } else { self.guard.entry(folder, name) }
    }

    /// Opens the folder of the entry, and returns it with the name of the entry in it. An error if limulus itself owns
    /// the entry.
    pub(crate) fn folder(&self) -> io::Result<(OwnedFd, &OsStr)> {
        let (above, name) = openat::split(&self.relative);
        let folder = openat::open(&*self.base, above, openat::FOLDER)?;
        self.entry(folder.as_fd(), name)?;
        Ok((folder, name))
    }

    /// The same; creates the folder if it does not exist.
    pub(crate) fn make_folder(&self) -> io::Result<(OwnedFd, &OsStr)> {
        let (above, name) = openat::split(&self.relative);
        let folder = openat::make(&*self.base, above, |at| self.guard.folder(at))?;
        self.entry(folder.as_fd(), name)?;
        Ok((folder, name))
    }

    /// An error if limulus itself owns this path, whether it exists or not. Any other error is left to whatever opens
    /// the path.
    pub(crate) fn must_not_be_own(&self) -> io::Result<()> {
        if self.is_workspace() {
            return Ok(());
        }
        self.guard.path(&self.real)?;
        match self.above() {
            Err(error) if guard::is_own(&error) => return Err(error),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            _ => return Ok(()),
        }
        // The nearest folder that exists is the one in which the others would be created.
        let mut above = self.relative.ancestors().skip(2);
        let nearest = above.find_map(|above| openat::open(&*self.base, above, openat::FOLDER).ok());
        nearest.map_or(Ok(()), |folder| self.guard.folder(&folder))
    }

    /// Opens the file for reading; returns it and its size in bytes.
    pub(crate) fn open_file(&self, act: &'static str) -> Result<(File, u64), ToolError> {
        let failed = |source| ToolError::File { act, path: self.shown.clone(), source };
        let (folder, seen) = self.above().map_err(failed)?;
        self.must_be_file(&seen.ok_or_else(|| failed(Errno::NOENT.into()))?)?;
        let name = openat::split(&self.relative).1;
        let file = openat::open(&folder, openat::below(name), READING).map_err(failed)?;
        let seen = self.guard.opened(&file).map_err(failed)?;
        self.must_be_file(&seen)?;
        Ok((file.into(), seen.bytes))
    }

    /// Opens the file in its open folder, which was judged.
    fn open_in(&self, folder: &OwnedFd, name: &OsStr, act: &'static str) -> Result<File, ToolError> {
        let failed = |source| ToolError::File { act, path: self.shown.clone(), source };
        let seen = self.guard.entry_of_judged(folder, name).map_err(failed)?;
        self.must_be_file(&seen.ok_or_else(|| failed(Errno::NOENT.into()))?)?;
        let file = openat::open(folder, openat::below(name), READING).map_err(failed)?;
        let seen = self.guard.opened(&file).map_err(failed)?;
        self.must_be_file(&seen)?;
        Ok(file.into())
    }

    /// Opens the folder, to list it and to open its entries.
    pub(crate) fn open_folder(&self, act: &'static str) -> Result<OwnedFd, ToolError> {
        let failed = |source| ToolError::File { act, path: self.shown.clone(), source };
        if !self.is_workspace() && self.look().map_err(failed)?.kind == FileType::RegularFile {
            return Err(ToolError::IsFile { path: self.shown.clone() });
        }
        let folder = openat::open(&*self.base, &self.relative, OFlags::RDONLY | OFlags::DIRECTORY).map_err(failed)?;
        if !self.is_workspace() {
            self.guard.folder(&folder).map_err(failed)?;
        }
        Ok(folder)
    }

    /// Whether it is the workspace itself, which was judged when it was opened.
    fn is_workspace(&self) -> bool {
        self.inside && self.relative.as_os_str().is_empty()
    }

    /// The current state of the file.
    pub(crate) fn state(&self, act: &'static str, cancel: &Cancel) -> Result<FileState, ToolError> {
        let file = match self.open_file(act) {
            Ok((file, _)) => file,
            Err(ToolError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut hasher = blake3::Hasher::new();
        loop {
            cancel.check()?;
            let before = hasher.count();
            let mut piece = (&file).take(HASHED_AT_ONCE_BYTES);
            hasher.update_reader(&mut piece).map_err(ToolError::file(act, self.shown.clone()))?;
            if hasher.count() == before {
                break;
            }
        }
        Ok(Some(Hash(*hasher.finalize().as_bytes())))
    }

    fn must_be_file(&self, seen: &Seen) -> Result<(), ToolError> {
        let path = self.shown.clone();
        match seen.kind {
            FileType::RegularFile => Ok(()),
            FileType::Directory => Err(ToolError::IsFolder { path }),
            _ => Err(ToolError::Special { path }),
        }
    }
}

/// Opens files one after the other. The folder of several is opened and judged once.
#[derive(Debug, Default)]
pub(crate) struct FileOpener {
    last: Option<(PathBuf, OwnedFd)>,
}

impl FileOpener {
    /// As [`ResolvedPath::open_file`].
    pub(crate) fn open(&mut self, path: &ResolvedPath, act: &'static str) -> Result<File, ToolError> {
        let failed = |source| ToolError::File { act, path: path.shown.clone(), source };
        let (above, name) = openat::split(&path.relative);
        if above.as_os_str().is_empty() {
            return path.open_file(act).map(|(file, _)| file);
        }
        let folder = match self.last.take() {
            Some((known, folder)) if known == above => folder,
            _ => {
                let folder = openat::open(&*path.base, above, openat::FOLDER).map_err(failed)?;
                path.guard.folder(&folder).map_err(failed)?;
                folder
            }
        };
        let opened = path.open_in(&folder, name, act);
        self.last = Some((above.to_owned(), folder));
        opened
    }
}

/// The folder of an entry.
enum Folder {
    /// The one that everything is opened from.
    Base(Arc<OwnedFd>),
    Opened(OwnedFd),
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Base(folder) => folder.as_fd(),
            Self::Opened(folder) => folder.as_fd(),
        }
    }
}
