//! Files that are changed at once or not at all, by any tool that writes. A change is idempotent by two hashes: of the file
//! before it, which its check saw, and of the file after it. A file that is neither is somebody else's: it is left alone.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::{EffectId, Found};
use rustix::fs::{Access, AtFlags, Mode, OFlags, Stat, accessat, fchmod, fsync, openat, renameat, unlinkat};

use crate::cancel::Cancel;
use crate::error::ToolError;
use crate::evidence::FileChange;
use crate::files::FileState;
use crate::openat;
use crate::paths::ResolvedPath;

/// Held while files are put in their places: whoever holds it knows that no change is half way, and that one which was cut
/// will not happen any more.
static COMMIT: Mutex<()> = Mutex::new(());

fn commit() -> MutexGuard<'static, ()> {
    COMMIT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One file that is to change.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) path: ResolvedPath,
    /// What it was when the call was checked, and what it is to be.
    pub(crate) states: FileChange,
    /// All that it is to hold; nothing if it is to be removed.
    pub(crate) content: Option<Vec<u8>>,
}

/// Makes these changes; those that are made already are left as they are. All are checked before the first is made.
pub(crate) fn apply(act: &'static str, id: EffectId, changes: &[Change], cancel: &Cancel) -> Result<(), ToolError> {
    let mut ready = Vec::new();
    for (number, change) in changes.iter().enumerate() {
        cancel.check()?;
        if is_pending(act, change)? {
            ready.push((change, Prepared::new(act, change, &temporary(id, number))?));
        }
    }
    let _commit = commit();
    cancel.check()?;
    for (change, _) in &ready {
        is_pending(act, change)?;
    }
    let mut done: Vec<String> = Vec::new();
    for (change, prepared) in ready {
        let path = change.path.shown.clone();
        match prepared.place() {
            Ok(()) => done.push(path),
            Err(source) if done.is_empty() => return Err(ToolError::File { act, path, source }),
            Err(source) => return Err(ToolError::Partly { path, source, done: done.join(", ") }),
        }
    }
    Ok(())
}

/// Whether a change is still to be made; an error if its file is neither what it was nor what it is to be.
fn is_pending(act: &'static str, change: &Change) -> Result<bool, ToolError> {
    let now = change.path.state(act)?;
    match change.states {
        FileChange { after, .. } if now == after => Ok(false),
        FileChange { before, .. } if now == before => Ok(true),
        FileChange { before, .. } => Err(conflict(&change.path, before, now)),
    }
}

/// The error for a file that is neither what it was nor what it is to be.
pub(crate) fn conflict(path: &ResolvedPath, before: FileState, now: FileState) -> ToolError {
    let state = |state: FileState| state.map_or("absent".to_owned(), |hash| hash.to_string()[..8].to_owned());
    ToolError::Conflict { path: path.shown.clone(), before: state(before), now: state(now) }
}

/// What was found of a change that a crash or an end cut off. Removes what it left half done.
pub(crate) fn find(act: &'static str, id: EffectId, files: &[(ResolvedPath, FileChange)]) -> Result<Found, ToolError> {
    let _commit = commit();
    let (mut made, mut known) = (0, 0);
    for (number, (path, states)) in files.iter().enumerate() {
        let (above, _) = openat::split(&path.relative);
        if let Ok(folder) = openat::open(&*path.base, above, OFlags::PATH | OFlags::DIRECTORY) {
            // It is there only if the call was cut while it wrote.
            let _ = unlinkat(&folder, temporary(id, number), AtFlags::empty());
        }
        let now = path.state(act)?;
        made += usize::from(now == states.after);
        known += usize::from(now == states.after || now == states.before);
    }
    // Half of it is as good as none: the same call makes what is missing.
    Ok(match files.len() {
        0 => Found::Unknown,
        all if made == all => Found::Ended,
        all if known == all => Found::NeverStarted,
        _ => Found::Unknown,
    })
}

/// Named by the call, so that a crash leaves nothing that nobody knows.
fn temporary(id: EffectId, number: usize) -> String {
    let id = id.to_string().replace('/', ".");
    if number == 0 { format!(".limulus-{id}.tmp") } else { format!(".limulus-{id}.{number}.tmp") }
}

/// A change of which only the last step is missing.
struct Prepared {
    /// The folder of the file, held open.
    folder: OwnedFd,
    name: OsString,
    /// The new content beside it; nothing if the file is to be removed.
    beside: Option<String>,
}

impl Prepared {
    fn new(act: &'static str, change: &Change, beside: &str) -> Result<Self, ToolError> {
        let path = &change.path;
        let failed = |source| ToolError::File { act, path: path.shown.clone(), source };
        let (above, name) = openat::split(&path.relative);
        if name == "." {
            return Err(ToolError::IsFolder { path: path.shown.clone() });
        }
        let existing = change.states.before.map(|_| path.stat()).transpose().map_err(failed)?;
        let folder = openat::make(&*path.base, above).map_err(failed)?;
        let mut prepared = Self { folder, name: name.to_owned(), beside: None };
        if existing.is_some() {
            // A rename would replace a file that says it must not be written.
            accessat(&prepared.folder, name, Access::WRITE_OK, AtFlags::empty()).map_err(|e| failed(e.into()))?;
        }
        if let Some(content) = &change.content {
            // Known from here on, so that it goes whatever happens.
            prepared.beside = Some(beside.to_owned());
            fill(&prepared.folder, beside, existing.as_ref(), content).map_err(failed)?;
        }
        Ok(prepared)
    }

    /// The last step, and its way to the disk.
    fn place(mut self) -> io::Result<()> {
        match self.beside.take() {
            Some(beside) => renameat(&self.folder, &beside, &self.folder, &self.name).inspect_err(|_| {
                self.beside = Some(beside.clone());
            })?,
            None => unlinkat(&self.folder, &self.name, AtFlags::empty())?,
        }
        let folder = openat::open(&self.folder, Path::new(""), OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(fsync(folder)?)
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if let Some(beside) = &self.beside {
            // It may be that there is nothing to remove.
            let _ = unlinkat(&self.folder, beside, AtFlags::empty());
        }
    }
}

fn fill(folder: &OwnedFd, beside: &str, existing: Option<&Stat>, content: &[u8]) -> io::Result<()> {
    let _ = unlinkat(folder, beside, AtFlags::empty());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(folder, beside, flags, Mode::from_raw_mode(0o666))?);
    if let Some(existing) = existing {
        fchmod(&file, Mode::from_raw_mode(existing.st_mode & 0o7777))?;
    }
    file.write_all(content)?;
    file.sync_all()
}
