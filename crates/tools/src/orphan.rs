//! What is in the folder of calls: entries that belong to no open call, and calls that still run. The caller knows which
//! calls are open.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use engine::EffectId;

use crate::background::forget_process;
use crate::folder::{CallFolder, CallState, open_calls};

/// Entries in the folder of calls that belong to no open call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Orphans {
    /// Folders of calls that nobody waits for and that have no supervisor, and listings made before such calls.
    pub calls: Vec<PathBuf>,
    /// Names of entries that no tool created.
    pub foreign: Vec<String>,
}

/// A call whose command may have changed more than is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnrecordedCall {
    /// The effect that started it.
    pub call: EffectId,
    /// Whether its command has ended.
    pub has_ended: bool,
}

/// Finds orphans. `is_open` says which calls belong to an unfinished run or are held in the background; these are not
/// orphans. A void, which is an empty file, stays: a supervisor that is still starting must not be able to create the
/// folder.
///
/// A caller that is not the owner of the home must read the unfinished runs after the listing: a run is recorded before
/// its folders are created.
pub fn orphans(calls: &Path, is_open: &dyn Fn(EffectId) -> bool) -> io::Result<Orphans> {
    match open_calls(calls) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Orphans::default()),
        opened => drop(opened?),
    }
    let listed = fs::read_dir(calls)?.collect::<io::Result<Vec<_>>>()?;
    let mut orphans = Orphans::default();
    for entry in listed {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let listing = CallFolder::call_before(&name);
        match listing.or_else(|| effect(&name)) {
            Some(call) if listing.is_some() && !is_open(call) => orphans.calls.push(path),
            None => orphans.foreign.push(name),
            Some(call) if is_open(call) => {}
            Some(_) if is_idle(&path, &name)? => orphans.calls.push(path),
            Some(_) => {}
        }
    }
    orphans.calls.sort();
    orphans.foreign.sort();
    Ok(orphans)
}

/// The calls whose supervisor runs, by their folders. Reads nothing but the folder of calls.
pub fn running_calls(calls: &Path) -> io::Result<Vec<EffectId>> {
    match open_calls(calls) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        opened => drop(opened?),
    }
    let mut running = vec![];
    for entry in fs::read_dir(calls)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let call = effect(&name).filter(|_| !name.starts_with('.') && CallFolder::call_before(&name).is_none());
        // A folder that is removed meanwhile has no supervisor.
        if let Some(call) = call
            && matches!(CallFolder::at(entry.path()).state(), Ok(CallState::Running))
        {
            running.push(call);
        }
    }
    Ok(running)
}

/// The name of the folder of a call in the folder of calls.
pub fn call_folder_name(call: EffectId) -> String {
    CallFolder::of(Path::new(""), call).name()
}

/// The calls with a listing from before their command, which is there until what the command changed is recorded. Reads nothing
/// but the folder of calls.
pub fn unrecorded_calls(calls: &Path) -> io::Result<Vec<UnrecordedCall>> {
    match open_calls(calls) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        opened => drop(opened?),
    }
    let mut unrecorded = vec![];
    for entry in fs::read_dir(calls)? {
        let Some(call) = CallFolder::call_before(&entry?.file_name().to_string_lossy()) else { continue };
        let has_ended = !matches!(CallFolder::of(calls, call).state(), Ok(CallState::Running) | Err(_));
        unrecorded.push(UnrecordedCall { call, has_ended });
    }
    Ok(unrecorded)
}

/// Removes the records of these calls, but of one that runs. May block.
pub fn forget_calls(calls: &Path, of: &BTreeSet<EffectId>) -> io::Result<()> {
    if of.is_empty() {
        return Ok(());
    }
    match open_calls(calls) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => drop(opened?),
    }
    for entry in fs::read_dir(calls)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let call = CallFolder::call_before(&name).map_or_else(|| effect(&name), Some);
        if let Some(call) = call.filter(|call| of.contains(call)) {
            forget_process(calls, call)?;
        }
    }
    Ok(())
}

impl Orphans {
    /// Removes the orphaned folders of calls.
    pub fn remove(&self) -> io::Result<()> {
        let is_listing = |path: &PathBuf| CallFolder::call_before(&CallFolder::at(path).name()).is_some();
        let remove =
            |path: &PathBuf| if is_listing(path) { fs::remove_file(path) } else { CallFolder::at(path).remove() };
        self.calls.iter().try_for_each(remove)
    }
}

/// The call of a folder by its name: `RUN.KIND.ORDINAL.TRY`, or `.RUN.KIND.ORDINAL.TRY.PID.new` while it is prepared.
fn effect(name: &str) -> Option<EffectId> {
    let fresh = name.strip_prefix('.').and_then(|name| name.strip_suffix(".new"));
    let name = fresh.and_then(|name| name.rsplit_once('.')).map_or(name, |(name, _)| name);
    name.replace('.', "/").parse().ok()
}

/// Whether no supervisor uses the folder, that is, none holds its FIFO open.
fn is_idle(path: &Path, name: &str) -> io::Result<bool> {
    match CallFolder::at(path).state()? {
        CallState::Ended(_) => Ok(true),
        // A supervisor that prepares its folder opens its FIFO only a moment later.
        CallState::Dead => Ok(pid(name).is_none_or(|pid| !Path::new("/proc").join(pid).exists())),
        CallState::Absent | CallState::Void | CallState::Running => Ok(false),
    }
}

/// The process that prepares the folder.
fn pid(name: &str) -> Option<&str> {
    name.strip_prefix('.')?.strip_suffix(".new")?.rsplit_once('.').map(|(_, pid)| pid)
}
