//! Private copies of package caches: where they are, and which of them a command has while it runs.
//!
//! ```text
//! COPIES/own/NAME              an empty folder instead of a cache that does not exist, or of which the kernel allows no copy
//! COPIES/NUMBER/lock           who has these copies
//! COPIES/NUMBER/NAME/upper     what differs from the user's cache
//! COPIES/NUMBER/NAME/work      for the kernel
//! ```
//!
//! The kernel does not define what two overlays with one upper folder do. So each of several commands that run at once has copies
//! of its own, the first free ones.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use crate::paths::resolved;
use crate::profile::{CacheCopies, CachePlace, PackageCache, Tier};
use crate::report::UnavailableCache;

/// How many commands of a workspace have copies at once.
const COPIES: u32 = 4;
/// Bytes of a lock: two numbers, and blanks. It always has as many: some file systems write a file that was emptied to their disk at
/// once.
const LOCK_BYTES: usize = 64;

/// A variable that names a cache to its package manager.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CacheVariable {
    pub(crate) name: String,
    pub(crate) value: PathBuf,
}

/// The copy of a cache, as an overlay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CacheMount {
    /// The user's, and where the command finds the copy.
    pub(crate) folder: PathBuf,
    pub(crate) upper: PathBuf,
    pub(crate) work: PathBuf,
    /// The variable of the command if there is a copy.
    pub(crate) of_copy: Option<CacheVariable>,
    /// The variable of the command if the kernel allows none.
    pub(crate) instead: Option<CacheVariable>,
}

/// The caches of one command.
#[derive(Debug, Default)]
pub(crate) struct Caches {
    pub(crate) mounts: Vec<CacheMount>,
    /// A writable folder with those that begin empty.
    pub(crate) own: Option<PathBuf>,
    /// Names these.
    pub(crate) variables: Vec<CacheVariable>,
    pub(crate) unavailable: Vec<UnavailableCache>,
    lock: Option<CopyLock>,
}

impl Caches {
    /// Finds out what each cache needs. `is_for_copy` says whether a folder, without symbolic links, is to be copied into the folder
    /// of the copies. Whatever fails, the command runs without the copy.
    pub(crate) fn of(copies: &CacheCopies, tier: Tier, is_for_copy: impl Fn(&Path, &Path) -> bool) -> Self {
        let mut caches = Self::default();
        let mut wanted = vec![];
        let folder = copies.folder.canonicalize();
        for cache in &copies.caches {
            let found = resolved(&cache.folder).ok().flatten().filter(|found| found.is_dir());
            match (&folder, found) {
                (Err(error), _) => caches.give_up(cache, &format!("{}: {error}", copies.folder.display())),
                (Ok(copies), Some(found)) => {
                    let is_apart = |(_, other): &(_, PathBuf)| !found.starts_with(other) && !other.starts_with(&found);
                    if is_for_copy(&found, copies) && wanted.iter().all(is_apart) {
                        wanted.push((cache, found));
                    }
                }
                (Ok(copies), None) if cache.place == CachePlace::Default => {
                    let variable = caches.begun(copies, cache);
                    caches.variables.extend(variable);
                }
                (Ok(_), None) => {}
            }
        }
        if let Ok(copies) = &folder {
            caches.add_copies(copies, tier, wanted);
        }
        caches
    }

    /// The copies are in use until the first process inside has ended, and with it all others.
    pub(crate) fn belong_to(&mut self, init: Pid) {
        if let Some(lock) = &mut self.lock {
            lock.belong_to(init);
        }
    }

    fn add_copies(&mut self, copies: &Path, tier: Tier, wanted: Vec<(&PackageCache, PathBuf)>) {
        let held = match tier {
            _ if wanted.is_empty() => return,
            Tier::A => match held(copies) {
                Ok(Some(held)) => Ok(held),
                Ok(None) => Err(format!("{COPIES} other commands of the workspace have its copies")),
                Err(error) => Err(format!("{}: {error}", copies.display())),
            },
            Tier::B | Tier::C => Err("only a mount namespace can have a copy of a cache".to_owned()),
        };
        for (cache, folder) in wanted {
            let instead = self.begun(copies, cache);
            let mount = held.as_ref().map_err(Clone::clone).and_then(|(number, _)| {
                let place = place(number, cache).map_err(|error| format!("{}: {error}", number.display()))?;
                let variable = cache.variable.clone().filter(|_| cache.place == CachePlace::Moved);
                let of_copy = variable.map(|name| CacheVariable { name, value: folder.clone() });
                let (upper, work) = (place.join("upper"), place.join("work"));
                Ok(CacheMount { folder: folder.clone(), upper, work, of_copy, instead: instead.clone() })
            });
            match mount {
                Ok(mount) => self.mounts.push(mount),
                Err(reason) => {
                    self.give_up(cache, &reason);
                    self.variables.extend(instead);
                }
            }
        }
        self.lock = held.ok().map(|(_, lock)| lock);
    }

    fn give_up(&mut self, cache: &PackageCache, reason: &str) {
        self.unavailable.push(UnavailableCache { path: cache.folder.clone(), reason: reason.to_owned() });
    }

    /// The variable of a cache that begins empty, with its folder; none if its package manager has none.
    fn begun(&mut self, copies: &Path, cache: &PackageCache) -> Option<CacheVariable> {
        let name = cache.variable.clone()?;
        let own = copies.join("own");
        let begun = private(&own).and_then(|()| {
            let value = own.join(plain(&cache.name)?);
            private(&value)?;
            Ok(value)
        });
        match begun {
            Ok(value) => {
                self.own = Some(own);
                Some(CacheVariable { name, value })
            }
            Err(error) => {
                self.give_up(cache, &format!("{}: {error}", own.display()));
                None
            }
        }
    }
}

/// The folders of a copy.
fn place(number: &Path, cache: &PackageCache) -> io::Result<PathBuf> {
    let place = number.join(plain(&cache.name)?);
    for folder in [&place, &place.join("upper"), &place.join("work")] {
        private(folder)?;
    }
    Ok(place)
}

fn plain(name: &str) -> io::Result<&str> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(_)), None) => Ok(name),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "the name of a cache is one plain name")),
    }
}

/// Creates a folder in one that is private already.
fn private(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        created => created,
    }
}

/// The first copies that no other command has; none if all are taken.
fn held(copies: &Path) -> io::Result<Option<(PathBuf, CopyLock)>> {
    for number in 0..COPIES {
        let folder = copies.join(number.to_string());
        private(&folder)?;
        if let Some(lock) = CopyLock::take(&folder.join("lock"))? {
            return Ok(Some((folder, lock)));
        }
    }
    Ok(None)
}

/// A lock on copies. If the process that has it is killed, what it ran may outlive it for a moment, so the file names that process.
#[derive(Debug)]
struct CopyLock(File);

impl CopyLock {
    /// None if it is taken.
    fn take(path: &Path) -> io::Result<Option<Self>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Ok(None),
            locked => locked?,
        }
        let mut text = String::new();
        (&mut file).take(LOCK_BYTES as u64).read_to_string(&mut text)?;
        Ok((!is_running(&text)).then_some(Self(file)))
    }

    /// Whoever takes the lock while this process lives must not.
    fn belong_to(&mut self, process: Pid) {
        let id = process.as_raw_nonzero().to_string();
        let Some(start) = start(&id) else { return };
        // If it cannot be written, only the lock itself protects the copies.
        let _ = self.write(&format!("{id} {start}"));
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.0.rewind()?;
        self.0.write_all(format!("{text:LOCK_BYTES$}").as_bytes())
    }
}

impl Drop for CopyLock {
    /// Everything inside has ended, or nothing was started.
    fn drop(&mut self) {
        let _ = self.write("");
    }
}

/// Whether the process that a lock names still runs.
fn is_running(lock: &str) -> bool {
    lock.trim_end().split_once(' ').is_some_and(|(id, began)| start(id).is_some_and(|start| start == began))
}

/// When a process started, as the kernel writes it; none if it has ended, and all that was inside with it.
fn start(id: &str) -> Option<String> {
    let id: u32 = id.parse().ok()?;
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // Its name may have anything in it.
    let fields: Vec<_> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let has_ended = matches!(*fields.first()?, "Z" | "X");
    fields.get(19).filter(|_| !has_ended).map(|start| (*start).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_taken_once_and_outlives_its_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut first = CopyLock::take(&path).unwrap().unwrap();
        assert!(CopyLock::take(&path).unwrap().is_none());
        first.belong_to(Pid::from_child(&child));
        let text = fs::read_to_string(&path).unwrap();
        drop(first);
        assert_eq!(fs::read_to_string(&path).unwrap().trim(), "");
        // As if its holder had been killed.
        fs::write(&path, &text).unwrap();
        assert!(CopyLock::take(&path).unwrap().is_none(), "{text}");
        child.kill().unwrap();
        // A process that has ended but was not waited for has nothing left.
        rustix::process::waitid(
            rustix::process::WaitId::Pid(Pid::from_child(&child)),
            rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT,
        )
        .unwrap();
        assert!(CopyLock::take(&path).unwrap().is_some(), "{text}");
        child.wait().unwrap();
        for text in ["", "x", "1 1", "999999999 1", "../self 1"] {
            assert!(!is_running(text), "{text}");
        }
    }

    #[test]
    fn names_are_plain() {
        for name in ["", ".", "..", "/", "a/b", "/a", "../a"] {
            assert!(plain(name).is_err(), "{name}");
        }
        assert_eq!(plain("cargo-registry").unwrap(), "cargo-registry");
    }
}
