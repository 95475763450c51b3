//! Keeps the contents of many files at once: each is written under a temporary name, all are synced together, and then each
//! gets its name. So a content that has its name is whole, also after a power loss, and 50,000 of them need few syncs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};

use engine::Hash;
use rustix::fs::{AtFlags, Mode, OFlags, fdatasync, fsync, openat, renameat, statat, syncfs, unlinkat};

use super::store::{FileStore, fresh_name, name, touch};
use crate::limits::{HASHED_AT_ONCE_BYTES, KEPT_IN_MEMORY_BYTES, SYNCED_ONE_BY_ONE, SYNCED_TOGETHER};

/// Contents that are being kept. They are kept once [`Keeping::finish`] has returned.
#[derive(Debug)]
pub(super) struct Keeping<'a> {
    store: &'a FileStore,
    folder: OwnedFd,
    /// Written, neither synced nor named: the temporary name, and the hash.
    pending: BTreeMap<Hash, String>,
    /// Bytes that were written since the store was trimmed.
    bytes: u64,
}

impl<'a> Keeping<'a> {
    pub(super) fn begin(store: &'a FileStore) -> io::Result<Self> {
        Ok(Self { store, folder: store.make()?, pending: BTreeMap::new(), bytes: 0 })
    }

    /// Keeps the first `bytes` bytes of an open file; returns their hash.
    pub(super) fn file(&mut self, file: &File, bytes: u64) -> io::Result<Hash> {
        if bytes <= KEPT_IN_MEMORY_BYTES {
            let mut content = Vec::with_capacity(bytes as usize);
            file.take(bytes).read_to_end(&mut content).map_err(of_source)?;
            return self.content(&content);
        }
        let fresh = fresh_name();
        let mut to = create(&self.folder, &fresh)?;
        let copied = copy(file, &mut to, bytes);
        if let Some(hash) = copied.as_ref().ok().filter(|hash| !self.has(hash, bytes)).copied() {
            self.push(fresh, hash, bytes)?;
        } else {
            let _ = unlinkat(&self.folder, &fresh, AtFlags::empty());
        }
        copied
    }

    /// Keeps a content that is in memory; returns its hash.
    pub(super) fn content(&mut self, content: &[u8]) -> io::Result<Hash> {
        let hash = Hash::of(content);
        if self.has(&hash, content.len() as u64) {
            return Ok(hash);
        }
        let fresh = fresh_name();
        let mut to = create(&self.folder, &fresh)?;
        if let Err(error) = to.write_all(content) {
            let _ = unlinkat(&self.folder, &fresh, AtFlags::empty());
            return Err(error);
        }
        self.push(fresh, hash, content.len() as u64)?;
        Ok(hash)
    }

    /// Makes everything durable.
    pub(super) fn finish(mut self) -> io::Result<()> {
        // An empty content has no bytes, and is one too.
        if self.bytes > 0 || !self.pending.is_empty() {
            self.place()?;
            fsync(&self.folder)?;
            self.store.trim_at_times(self.bytes);
        }
        Ok(())
    }

    /// Whether a content is kept, or about to be. It is kept for longer then.
    fn has(&self, hash: &Hash, bytes: u64) -> bool {
        let found = statat(&self.folder, name(hash), AtFlags::SYMLINK_NOFOLLOW);
        let is_kept = found.is_ok_and(|found| found.st_size as u64 == bytes) && touch(&self.folder, hash);
        is_kept || self.pending.contains_key(hash)
    }

    fn push(&mut self, fresh: String, hash: Hash, bytes: u64) -> io::Result<()> {
        self.bytes += bytes;
        self.pending.insert(hash, fresh);
        if self.pending.len() >= SYNCED_TOGETHER { self.place() } else { Ok(()) }
    }

    /// Syncs what is pending, and gives it its names.
    fn place(&mut self) -> io::Result<()> {
        if self.pending.len() > SYNCED_ONE_BY_ONE {
            syncfs(self.folder.as_fd())?;
        } else {
            for fresh in self.pending.values() {
                fdatasync(openat(
                    &self.folder,
                    fresh,
                    OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                    Mode::empty(),
                )?)?;
            }
        }
        while let Some((hash, fresh)) = self.pending.pop_first() {
            renameat(&self.folder, &fresh, &self.folder, name(&hash))?;
        }
        Ok(())
    }
}

impl Drop for Keeping<'_> {
    fn drop(&mut self) {
        for fresh in self.pending.values() {
            let _ = unlinkat(&self.folder, fresh, AtFlags::empty());
        }
    }
}

fn create(folder: &OwnedFd, fresh: &str) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(openat(folder, fresh, flags, Mode::RUSR | Mode::WUSR)?))
}

fn copy(from: &File, to: &mut File, bytes: u64) -> io::Result<Hash> {
    let (mut from, mut hasher) = (from.take(bytes), blake3::Hasher::new());
    let mut piece = vec![0; HASHED_AT_ONCE_BYTES as usize];
    loop {
        let read = from.read(&mut piece).map_err(of_source)?;
        if read == 0 {
            return Ok(Hash(*hasher.finalize().as_bytes()));
        }
        hasher.update(&piece[..read]);
        to.write_all(&piece[..read])?;
    }
}

/// The error of a file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the file cannot be read: {0}")]
struct Unreadable(io::Error);

fn of_source(error: io::Error) -> io::Error {
    io::Error::other(Unreadable(error))
}

/// Whether an error is one of the file that was read, and not of the store.
pub(super) fn is_of_source(error: &io::Error) -> bool {
    matches!(error.get_ref(), Some(inner) if inner.is::<Unreadable>())
}
