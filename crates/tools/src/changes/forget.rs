//! Removes the contents that only a deleted conversation named.

use std::io;
use std::sync::PoisonError;

use engine::Hash;
use rustix::fs::{AtFlags, fsync, unlinkat};
use rustix::io::Errno;

use super::store::{FileStore, name};
use super::trim;

impl FileStore {
    /// Removes these contents, durably; returns how many there were. What the listing of a workspace names stays: it is
    /// what the files of that workspace hold now. May block.
    pub fn forget(&self, hashes: &[Hash]) -> io::Result<u64> {
        if hashes.is_empty() || !self.folder.exists() {
            return Ok(0);
        }
        let _alone = trim::IN_USE.write().unwrap_or_else(PoisonError::into_inner);
        let folder = self.open()?;
        let (_, listed) = self.listings(&|_| false)?;
        let is_listed = |hash: &Hash| listed.contains_key(std::ffi::OsStr::new(&name(hash)));
        let mut gone = 0;
        for hash in hashes.iter().filter(|hash| !is_listed(hash)) {
            match unlinkat(&folder, name(hash), AtFlags::empty()) {
                Ok(()) => gone += 1,
                Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        fsync(&folder)?;
        Ok(gone)
    }
}
