//! The supervisors that this process has started. What it knows of them is only in its memory, where no command can
//! change it; of every other supervisor it knows what the folder of the call says.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::process::{Child, Command};

/// A supervisor that this process has started.
#[derive(Debug, Clone)]
pub(crate) struct Supervisor {
    /// The hash of the nonce that its record must contain.
    pub(crate) claim: String,
    /// Whether it has said that it claimed its folder.
    pub(crate) began: bool,
    /// Whether it has exited. What it wrote is complete then.
    pub(crate) over: bool,
}

static STARTED: Mutex<BTreeMap<PathBuf, Supervisor>> = Mutex::new(BTreeMap::new());

fn started() -> MutexGuard<'static, BTreeMap<PathBuf, Supervisor>> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A new nonce: 64 hexadecimal digits that nobody else knows.
pub(crate) fn nonce() -> io::Result<String> {
    let mut bytes = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(blake3::hash(&bytes).to_hex().to_string())
}

/// The hash of a nonce. It may be known: nobody can find the nonce by it.
pub(crate) fn claim(nonce: &str) -> String {
    blake3::hash(nonce.as_bytes()).to_hex().to_string()
}

/// Starts the supervisor of this folder. Inside a tokio runtime, which reaps it.
pub(crate) fn spawn(mut command: Command, folder: &Path, nonce: &str) -> io::Result<Child> {
    let child = command.spawn()?;
    let supervisor = Supervisor { claim: claim(nonce), began: false, over: false };
    started().insert(folder.to_owned(), supervisor);
    Ok(child)
}

/// Reaps the supervisor of this folder when it exits.
pub(crate) fn watch(mut child: Child, folder: PathBuf) {
    tokio::spawn(async move {
        // It fails only if somebody else has reaped the child, which is over then too.
        let _ = child.wait().await;
        if let Some(supervisor) = started().get_mut(&folder) {
            supervisor.over = true;
        }
    });
}

/// Notes that the supervisor of this folder has claimed it.
pub(crate) fn began(folder: &Path) {
    if let Some(supervisor) = started().get_mut(folder) {
        supervisor.began = true;
    }
}

/// The supervisor of this folder, if this process has started it.
pub(crate) fn of(folder: &Path) -> Option<Supervisor> {
    started().get(folder).cloned()
}

/// Forgets the supervisor of a folder that is removed.
pub(crate) fn forget(folder: &Path) {
    started().remove(folder);
}
