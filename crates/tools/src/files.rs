//! Opens files and folders for the tools. It refuses pipes and devices, which could block or never end.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;

use engine::Hash;
use rustix::fs::{FileType, OFlags, Stat, fstat};

use crate::cancel::Cancel;
use crate::error::ToolError;
use crate::limits::HASHED_AT_ONCE_BYTES;
use crate::openat;
use crate::paths::ResolvedPath;

/// The state of a file: its hash, or none if it does not exist.
pub(crate) type FileState = Option<Hash>;

impl ResolvedPath {
    /// The metadata of the file or folder at this path.
    pub(crate) fn stat(&self) -> io::Result<Stat> {
        openat::stat(&*self.base, &self.relative)
    }

    /// Opens the file for reading; returns it and its size in bytes.
    pub(crate) fn open_file(&self, act: &'static str) -> Result<(File, u64), ToolError> {
        let failed = |source| ToolError::File { act, path: self.shown.clone(), source };
        self.must_be_file(&self.stat().map_err(failed)?)?;
        // If it has become a pipe meanwhile, do not wait for a writer.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = openat::open(&*self.base, &self.relative, flags).map_err(failed)?;
        let stat = fstat(&file).map_err(|errno| failed(errno.into()))?;
        self.must_be_file(&stat)?;
        Ok((file.into(), stat.st_size as u64))
    }

    /// Opens the folder, to list it and to open its entries.
    pub(crate) fn open_folder(&self, act: &'static str) -> Result<OwnedFd, ToolError> {
        let failed = |source| ToolError::File { act, path: self.shown.clone(), source };
        if kind(&self.stat().map_err(failed)?) == FileType::RegularFile {
            return Err(ToolError::IsFile { path: self.shown.clone() });
        }
        openat::open(&*self.base, &self.relative, OFlags::RDONLY | OFlags::DIRECTORY).map_err(failed)
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
