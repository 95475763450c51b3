//! Removes kept contents that are too old, and the oldest ones if all take too much. The contents of a workspace that is
//! listed are one item: they are as old as the last use of the listing, and they go with it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, unlinkat};

use super::listing::Known;
use super::snapshot;
use super::store::{FileStore, name};

/// A temporary file of this age is left over from a process that was killed.
const STALE: Duration = Duration::from_hours(24);

/// Held while a listing is used, so that what it names is not removed meanwhile.
pub(super) static IN_USE: RwLock<()> = RwLock::new(());

/// Keeps contents from being removed until it is dropped.
pub(super) fn in_use() -> RwLockReadGuard<'static, ()> {
    IN_USE.read().unwrap_or_else(PoisonError::into_inner)
}

/// Something that can be removed.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Removable {
    used_at: SystemTime,
    bytes: u64,
    /// The names of contents.
    contents: Vec<OsString>,
    /// The listing that names them; none for a content that no listing names.
    listing: Option<OsString>,
}

/// The contents that listings name: how many listings name each, and its bytes.
pub(super) type Listed = BTreeMap<OsString, (usize, u64)>;

impl FileStore {
    /// Removes what is too old, and the oldest of what is too much. May block.
    pub fn trim(&self) -> io::Result<()> {
        let _alone = IN_USE.write().unwrap_or_else(PoisonError::into_inner);
        let folder = self.open()?;
        let now = SystemTime::now();
        let is_old = |at: SystemTime, most: Duration| now.duration_since(at).unwrap_or_default() > most;
        let most = Duration::from_millis(self.limits.keep_ms);
        let (mut items, mut listed) = self.listings(&|at| is_old(at, most))?;
        let mut bytes = 0;
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let Some(found) = entry.metadata().ok().filter(Metadata::is_file) else { continue };
            let (used_at, name) = (found.modified()?, entry.file_name());
            let is_fresh = name.as_encoded_bytes().first() == Some(&b'.');
            if let Some((_, size)) = listed.get_mut(&name) {
                *size = found.len();
                bytes += found.len();
            } else if is_old(used_at, if is_fresh { STALE } else { most }) {
                let _ = unlinkat(&folder, &name, AtFlags::empty());
            } else if !is_fresh {
                bytes += found.len();
                items.push(Removable { used_at, bytes: found.len(), contents: vec![name], listing: None });
            }
        }
        items.sort();
        for item in items {
            if bytes <= self.limits.most_bytes {
                break;
            }
            bytes -= self.remove(&folder, item, &mut listed)?;
        }
        Ok(())
    }

    /// The listings that are not too old, and all contents that they name. Those that are too old are removed.
    pub(super) fn listings(&self, is_old: &dyn Fn(SystemTime) -> bool) -> io::Result<(Vec<Removable>, Listed)> {
        let (mut items, mut listed) = (vec![], Listed::new());
        for entry in fs::read_dir(self.folder.join(snapshot::FOLDER)).into_iter().flatten() {
            let entry = entry?;
            let Ok(used_at) = entry.metadata().and_then(|found| found.modified()) else { continue };
            let Some(listing) = snapshot::read(&entry.path()).filter(|_| !is_old(used_at)) else {
                let _ = fs::remove_file(entry.path());
                continue;
            };
            let kept = listing.entries.iter().filter_map(|entry| match &entry.known {
                Known::Kept(hash) => Some(OsString::from(name(hash))),
                Known::Nothing | Known::Not(_) => None,
            });
            let contents: BTreeSet<OsString> = kept.collect();
            for content in &contents {
                listed.entry(content.clone()).or_default().0 += 1;
            }
            let (contents, listing) = (contents.into_iter().collect(), Some(entry.file_name()));
            items.push(Removable { used_at, bytes: 0, contents, listing });
        }
        Ok((items, listed))
    }

    /// Removes an item; returns the bytes of the contents that are gone.
    fn remove(&self, folder: &OwnedFd, item: Removable, listed: &mut Listed) -> io::Result<u64> {
        let Some(listing) = item.listing else {
            let _ = unlinkat(folder, &item.contents[0], AtFlags::empty());
            return Ok(item.bytes);
        };
        // First the listing: it names nothing that is gone.
        fs::remove_file(self.folder.join(snapshot::FOLDER).join(listing))?;
        let mut bytes = 0;
        for content in item.contents {
            let Some((names, size)) = listed.get_mut(&content) else { continue };
            *names -= 1;
            if *names == 0 {
                bytes += *size;
                let _ = unlinkat(folder, &content, AtFlags::empty());
            }
        }
        Ok(bytes)
    }
}
