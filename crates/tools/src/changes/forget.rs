//! Removes the contents that only a deleted conversation named.

use std::sync::PoisonError;

use engine::Hash;
use rustix::fs::{AtFlags, unlinkat};

use super::store::{FileStore, name};
use super::trim;

impl FileStore {
    /// Removes these contents; returns how many there were. What the listing of a workspace names stays: it is what the
    /// files of that workspace hold now. May block.
    pub fn forget(&self, hashes: &[Hash]) -> u64 {
        let _alone = trim::IN_USE.write().unwrap_or_else(PoisonError::into_inner);
        // There may be none.
        let Ok(folder) = self.open() else { return 0 };
        let Ok((_, listed)) = self.listings(&|_| false) else { return 0 };
        let is_listed = |hash: &Hash| listed.contains_key(std::ffi::OsStr::new(&name(hash)));
        let gone = hashes.iter().filter(|hash| !is_listed(hash));
        gone.filter(|hash| unlinkat(&folder, name(hash), AtFlags::empty()).is_ok()).count() as u64
    }
}
