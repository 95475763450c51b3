//! What lies in the folder of calls and belongs to no call that is open. What may not live here: which runs are under way.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use engine::EffectId;

use crate::folder::{CallFolder, CallState};

/// What is left in the folder of calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Orphans {
    /// Folders of calls that nobody waits for, and that no supervisor works in.
    pub calls: Vec<PathBuf>,
    /// Names of what no tool has put there.
    pub foreign: Vec<String>,
}

/// Looks for them; `is_open` says which calls belong to a run that is under way, or are held in the background: these are no
/// strays. An empty file is a void, which stays:
/// a supervisor that is still on its way must find the place taken.
///
/// Whoever calls this beside an owner asks after the listing which runs are under way: a run is recorded before its folders.
pub fn orphans(calls: &Path, is_open: &dyn Fn(EffectId) -> bool) -> io::Result<Orphans> {
    let listed = match fs::read_dir(calls) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Orphans::default()),
        listed => listed?.collect::<io::Result<Vec<_>>>()?,
    };
    let mut orphans = Orphans::default();
    for entry in listed {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        match effect(&name) {
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

impl Orphans {
    /// Removes the folders of calls.
    pub fn remove(&self) -> io::Result<()> {
        self.calls.iter().try_for_each(fs::remove_dir_all)
    }
}

/// The call whose folder this is, or is to be: `RUN.KIND.ORDINAL.TRY`, or that between a dot and `.PID.new`.
fn effect(name: &str) -> Option<EffectId> {
    let fresh = name.strip_prefix('.').and_then(|name| name.strip_suffix(".new"));
    let name = fresh.and_then(|name| name.rsplit_once('.')).map_or(name, |(name, _)| name);
    name.replace('.', "/").parse().ok()
}

/// Whether nobody works in it: no supervisor holds its FIFO open.
fn is_idle(path: &Path, name: &str) -> io::Result<bool> {
    match CallFolder::at(path).state()? {
        CallState::Ended(_) => Ok(true),
        // One that prepares its folder holds both ends of its FIFO only a moment later.
        CallState::Dead => Ok(pid(name).is_none_or(|pid| !Path::new("/proc").join(pid).exists())),
        CallState::Absent | CallState::Void | CallState::Running => Ok(false),
    }
}

/// The process that prepares the folder.
fn pid(name: &str) -> Option<&str> {
    name.strip_prefix('.')?.strip_suffix(".new")?.rsplit_once('.').map(|(_, pid)| pid)
}
