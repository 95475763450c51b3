//! Changes files atomically, for every tool that writes. Two hashes make a change idempotent: the hash of the file
//! before, which the check saw, and the hash of the file after. If the file has neither, somebody else changed it, and
//! the tool does not touch it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::{EffectId, Found};
use rustix::fs::{Access, AtFlags, Mode, OFlags, accessat, fchmod, fsync, openat, renameat, unlinkat};

use crate::cancel::Cancel;
use crate::changes::{FileStore, Unsynced};
use crate::error::ToolError;
use crate::evidence::FileChange;
use crate::files::FileState;
use crate::guard::Seen;
use crate::openat;
use crate::paths::ResolvedPath;

/// Locked while files are renamed into place. Whoever holds it knows that no change is half done and that no cancelled
/// change can still happen.
static COMMIT: Mutex<()> = Mutex::new(());

pub(crate) fn commit() -> MutexGuard<'static, ()> {
    COMMIT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One file that is to change.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) path: ResolvedPath,
    /// The state when the call was checked, and the state after the change.
    pub(crate) states: FileChange,
    /// The whole new content; none if the file is to be removed.
    pub(crate) content: Option<Vec<u8>>,
}

/// Makes these changes and skips those that are already made. It checks all of them before it makes the first.
/// The contents that are replaced or removed are durable in the store before the first change is made.
pub(crate) fn apply(
    act: &'static str,
    id: EffectId,
    changes: &[Change],
    store: Option<&FileStore>,
    cancel: &Cancel,
) -> Result<(), ToolError> {
    let (mut ready, mut unsynced) = (Vec::new(), None);
    for (number, change) in changes.iter().enumerate() {
        cancel.check()?;
        if is_pending(act, change, cancel)? {
            unsynced = keep(change, store)?.or(unsynced);
            ready.push((change, Prepared::new(act, change, &temporary(id, number))?));
        }
    }
    unsynced.map_or(Ok(()), Unsynced::sync).map_err(ToolError::file(KEEP, "the files"))?;
    let _commit = commit();
    cancel.check()?;
    for (change, _) in &ready {
        is_pending(act, change, cancel)?;
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

/// The act that keeps the content before a change.
const KEEP: &str = "keep the content of";

/// Keeps the content that a change replaces or removes; none if there is none.
fn keep(change: &Change, store: Option<&FileStore>) -> Result<Option<Unsynced>, ToolError> {
    let (Some(hash), Some(store)) = (change.states.before, store) else { return Ok(None) };
    let (file, bytes) = change.path.open_file(KEEP)?;
    store.keep(file, bytes, &hash).map(Some).map_err(ToolError::file(KEEP, change.path.shown.clone()))
}

/// Returns whether a change is still to be made. If the file has neither state, it returns an error.
fn is_pending(act: &'static str, change: &Change, cancel: &Cancel) -> Result<bool, ToolError> {
    let now = change.path.state(act, cancel)?;
    match change.states {
        FileChange { after, .. } if now == after => Ok(false),
        FileChange { before, .. } if now == before => Ok(true),
        FileChange { before, .. } => Err(conflict(&change.path, before, now)),
    }
}

/// The error for a file that has neither the state before nor the state after.
pub(crate) fn conflict(path: &ResolvedPath, before: FileState, now: FileState) -> ToolError {
    let state = |state: FileState| state.map_or("absent".to_owned(), |hash| hash.to_string()[..8].to_owned());
    ToolError::Conflict { path: path.shown.clone(), before: state(before), now: state(now) }
}

/// Finds out how far a change came that a crash or a cancellation interrupted. Removes its temporary files.
pub(crate) fn find(act: &'static str, id: EffectId, files: &[(ResolvedPath, FileChange)]) -> Result<Found, ToolError> {
    let _commit = commit();
    let (mut made, mut known) = (0, 0);
    for (number, (path, states)) in files.iter().enumerate() {
        if let Ok((folder, _)) = path.folder() {
            // The file exists only if the call was interrupted while it wrote.
            let _ = unlinkat(&folder, temporary(id, number), AtFlags::empty());
        }
        let now = path.state(act, &Cancel::default())?;
        made += usize::from(now == states.after);
        known += usize::from(now == states.after || now == states.before);
    }
    // If only some files are changed, the call counts as never started: the same call then makes the missing changes.
    Ok(match files.len() {
        0 => Found::Unknown,
        all if made == all => Found::Ended,
        all if known == all => Found::NeverStarted,
        _ => Found::Unknown,
    })
}

/// The name of a temporary file. It contains the id of the call, so that the file can be attributed after a crash.
fn temporary(id: EffectId, number: usize) -> String {
    let id = id.to_string().replace('/', ".");
    if number == 0 { format!(".limulus-{id}.tmp") } else { format!(".limulus-{id}.{number}.tmp") }
}

/// A change that is complete except for the last step, the rename or the removal.
struct Prepared {
    /// The open folder of the file.
    folder: OwnedFd,
    name: OsString,
    /// The name of the temporary file with the new content; none if the file is to be removed.
    beside: Option<String>,
}

impl Prepared {
    fn new(act: &'static str, change: &Change, beside: &str) -> Result<Self, ToolError> {
        let path = &change.path;
        let failed = |source| ToolError::File { act, path: path.shown.clone(), source };
        if path.relative.as_os_str().is_empty() {
            return Err(ToolError::IsFolder { path: path.shown.clone() });
        }
        let existing = change.states.before.map(|_| path.look()).transpose().map_err(failed)?;
        let (folder, name) = path.make_folder().map_err(failed)?;
        let mut prepared = Self { folder, name: name.to_owned(), beside: None };
        if existing.is_some() {
            // A rename would replace even a file that is not writable.
            accessat(&prepared.folder, name, Access::WRITE_OK, AtFlags::empty()).map_err(|e| failed(e.into()))?;
        }
        if let Some(content) = &change.content {
            // Set before the file is written, so that `drop` removes it if anything fails.
            prepared.beside = Some(beside.to_owned());
            fill(&prepared.folder, beside, existing.as_ref(), content).map_err(failed)?;
        }
        Ok(prepared)
    }

    /// Makes the last step and syncs the folder.
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
            // The file may not exist.
            let _ = unlinkat(&self.folder, beside, AtFlags::empty());
        }
    }
}

fn fill(folder: &OwnedFd, beside: &str, existing: Option<&Seen>, content: &[u8]) -> io::Result<()> {
    let _ = unlinkat(folder, beside, AtFlags::empty());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(folder, beside, flags, Mode::from_raw_mode(0o666))?);
    if let Some(existing) = existing {
        fchmod(&file, Mode::from_raw_mode(existing.mode))?;
    }
    file.write_all(content)?;
    file.sync_all()
}
