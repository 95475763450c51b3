//! Removes the contents that only a deleted conversation named.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::sync::PoisonError;
use std::time::SystemTime;
use std::{fs, io};

use engine::Hash;
use rustix::fs::{AtFlags, fsync, unlinkat};
use rustix::io::Errno;

use super::store::{FileStore, name};
use super::trim;

/// When each content of a store was kept last, at some moment. No clock is compared with another.
#[derive(Debug, Default)]
pub struct KeptTimes(HashMap<OsString, SystemTime>);

impl FileStore {
    /// When each content was kept last. May block.
    pub fn kept_times(&self) -> io::Result<KeptTimes> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(KeptTimes::default()),
            entries => entries?,
        };
        let time = |entry: io::Result<fs::DirEntry>| {
            let entry = entry.ok()?;
            Some((entry.file_name(), entry.metadata().ok()?.modified().ok()?))
        };
        Ok(KeptTimes(entries.filter_map(time).collect()))
    }

    /// Removes these contents, durably; returns how many there were. What the listing of a workspace names stays: it is
    /// what the files of that workspace hold now. So does what was kept again since `before`: another call may be about to
    /// record it. May block.
    pub fn forget(&self, hashes: &[Hash], before: &KeptTimes) -> io::Result<u64> {
        if hashes.is_empty() || !self.folder.exists() {
            return Ok(0);
        }
        let _alone = trim::IN_USE.write().unwrap_or_else(PoisonError::into_inner);
        let folder = self.open()?;
        let (_, listed) = self.listings(&|_| false)?;
        let is_listed = |hash: &Hash| listed.contains_key(OsStr::new(&name(hash)));
        let is_kept_again = |hash: &Hash| {
            let file = name(hash);
            let kept_at = fs::symlink_metadata(self.folder.join(&file)).and_then(|found| found.modified());
            kept_at.is_ok_and(|kept_at| before.0.get(OsStr::new(&file)) != Some(&kept_at))
        };
        let mut gone = 0;
        for hash in hashes.iter().filter(|hash| !is_listed(hash) && !is_kept_again(hash)) {
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
    use std::time::Duration;

    use super::*;
    use crate::changes::store::StoreLimits;

    #[test]
    fn r17_r21_what_another_call_keeps_meanwhile_is_not_forgotten_and_no_clock_decides() {
        let home = tempfile::tempdir().unwrap();
        let store = FileStore::new(home.path().join("files"), StoreLimits::NONE);
        let unlimited = store.unlimited();
        let hours = [-1_i32, -1, 2];
        let [old, again, ahead] = [0, 1, 2].map(|at| {
            let content = [b'a' + at; 3];
            let hash = Hash::of(&content);
            unlimited.keep(&content[..], 3, &hash).unwrap().sync().unwrap();
            let file = fs::File::options().write(true).open(home.path().join("files").join(name(&hash))).unwrap();
            let by = Duration::from_hours(1) * hours[usize::from(at)].unsigned_abs();
            let now = SystemTime::now();
            file.set_modified(if hours[usize::from(at)] < 0 { now - by } else { now + by }).unwrap();
            hash
        });
        let before = store.kept_times().unwrap();
        let new = Hash::of(b"new");
        unlimited.keep(&b"bbb"[..], 3, &again).unwrap().sync().unwrap();
        unlimited.keep(&b"new"[..], 3, &new).unwrap().sync().unwrap();
        assert_eq!(store.forget(&[old, again, ahead, new], &before).unwrap(), 2);
        let is_there = [old, again, ahead, new].map(|hash| store.content(&hash).is_some());
        assert_eq!(is_there, [false, true, false, true]);
    }
}
