//! Removes the contents that only a deleted conversation named.

use std::io;
use std::sync::PoisonError;
use std::time::{Duration, SystemTime};

use engine::Hash;
use rustix::fs::{AtFlags, fsync, unlinkat};
use rustix::io::Errno;

use super::store::{FileStore, name};
use super::trim;

/// The clock of a file system is behind by at most so much: it moves with the ticks of the kernel.
const TICK: Duration = Duration::from_millis(10);

impl FileStore {
    /// Removes these contents, durably; returns how many there were. What the listing of a workspace names stays: it is
    /// what the files of that workspace hold now. So does what was kept since `since`: another call may be about to record
    /// it. May block.
    pub fn forget(&self, hashes: &[Hash], since: SystemTime) -> io::Result<u64> {
        if hashes.is_empty() || !self.folder.exists() {
            return Ok(0);
        }
        let _alone = trim::IN_USE.write().unwrap_or_else(PoisonError::into_inner);
        let folder = self.open()?;
        let (_, listed) = self.listings(&|_| false)?;
        let is_listed = |hash: &Hash| listed.contains_key(std::ffi::OsStr::new(&name(hash)));
        let is_kept = |hash: &Hash| {
            let found = std::fs::symlink_metadata(self.folder.join(name(hash)));
            found.and_then(|found| found.modified()).is_ok_and(|kept_at| kept_at + TICK >= since)
        };
        let mut gone = 0;
        for hash in hashes.iter().filter(|hash| !is_listed(hash) && !is_kept(hash)) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::store::StoreLimits;

    #[test]
    fn r17_r21_what_another_call_keeps_meanwhile_is_not_forgotten() {
        let home = tempfile::tempdir().unwrap();
        let store = FileStore::new(home.path().join("files"), StoreLimits::NONE);
        let unlimited = store.unlimited();
        let [old, again] = [b"old", b"one"].map(|content| {
            let hash = Hash::of(content);
            unlimited.keep(&content[..], 3, &hash).unwrap().sync().unwrap();
            let file = std::fs::File::options().write(true).open(home.path().join("files").join(name(&hash))).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_hours(1)).unwrap();
            hash
        });
        let began = SystemTime::now();
        unlimited.keep(&b"one"[..], 3, &again).unwrap().sync().unwrap();
        assert_eq!(store.forget(&[old, again], began).unwrap(), 1);
        assert_eq!((store.content(&old).is_none(), store.content(&again).is_some()), (true, true));
    }
}
