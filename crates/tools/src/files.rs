//! Opens files and folders for the tools. It refuses pipes and devices, which could block or never end.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;

use engine::Hash;
use rustix::fs::{AtFlags, FileType, OFlags, Stat, fstat, statat};

use crate::cancel::Cancel;
use crate::error::ToolError;
use crate::limits::HASHED_AT_ONCE_BYTES;
use crate::paths::ResolvedPath;
use crate::{guard, openat};

/// The state of a file: its hash, or none if it does not exist.
pub(crate) type FileState = Option<Hash>;

impl ResolvedPath {
    /// The metadata of the file or folder at this path.
    pub(crate) fn stat(&self) -> io::Result<Stat> {
        let (folder, name) = self.folder()?;
        Ok(statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Opens the folder of the entry, and returns it with the name of the entry in it. An error if limulus itself owns
    /// the entry.
    pub(crate) fn folder(&self) -> io::Result<(OwnedFd, &OsStr)> {
        let (above, name) = openat::split(&self.relative);
        let folder = openat::open(&*self.base, above, OFlags::PATH | OFlags::DIRECTORY)?;
        self.guard.entry(&folder, name)?;
        Ok((folder, name))
    }

    /// The same; creates the folder if it does not exist.
    pub(crate) fn make_folder(&self) -> io::Result<(OwnedFd, &OsStr)> {
        let (above, name) = openat::split(&self.relative);
        let folder = openat::make(&*self.base, above, |at| self.guard.folder(at))?;
        self.guard.entry(&folder, name)?;
        Ok((folder, name))
    }

    /// An error if limulus itself owns this path, whether it exists or not. Any other error is left to whatever opens
    /// the path.
    pub(crate) fn must_not_be_own(&self) -> io::Result<()> {
        self.guard.path(&self.real)?;
        match self.folder() {
            Err(error) if guard::is_own(&error) => return Err(error),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            _ => return Ok(()),
        }
        // The nearest folder that exists is the one in which the others would be created.
        let mut above = self.relative.ancestors().skip(2);
        let nearest = above.find_map(|above| openat::open(&*self.base, above, OFlags::PATH | OFlags::DIRECTORY).ok());
        nearest.map_or(Ok(()), |folder| self.guard.folder(&folder))
    }

    /// Opens the file for reading; returns it and its size in bytes.
    pub(crate) fn open_file(&self, act: &'static str) -> Result<(File, u64), ToolError> {
        let failed = |source| ToolError::File { act, path: self.shown.clone(), source };
        let (folder, name) = self.folder().map_err(failed)?;
        let stat = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|errno| failed(errno.into()))?;
        self.must_be_file(&stat)?;
        // If it has become a pipe meanwhile, do not wait for a writer.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = openat::open(&folder, openat::below(name), flags).map_err(failed)?;
        let stat = fstat(&file).map_err(|errno| failed(errno.into()))?;
        self.must_be_file(&stat)?;
        self.guard.opened(&file).map_err(failed)?;
        Ok((file.into(), stat.st_size as u64))
    }

    /// Opens the folder, to list it and to open its entries.
    pub(crate) fn open_folder(&self, act: &'static str) -> Result<OwnedFd, ToolError> {
        let failed = |source| ToolError::File { act, path: self.shown.clone(), source };
        if kind(&self.stat().map_err(failed)?) == FileType::RegularFile {
            return Err(ToolError::IsFile { path: self.shown.clone() });
        }
        let folder = openat::open(&*self.base, &self.relative, OFlags::RDONLY | OFlags::DIRECTORY).map_err(failed)?;
        self.guard.folder(&folder).map_err(failed)?;
        Ok(folder)
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

    fn must_be_file(&self, stat: &Stat) -> Result<(), ToolError> {
        let path = self.shown.clone();
        match kind(stat) {
            FileType::RegularFile => Ok(()),
            FileType::Directory => Err(ToolError::IsFolder { path }),
            _ => Err(ToolError::Special { path }),
        }
    }
}

/// The type of the entry.
pub(crate) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}
