//! The supervisors that this process has started. What it knows of them is only in its memory, where no command can
//! change it; of every other supervisor it knows what the folder of the call says.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::process::{Child, Command};

use crate::cgroup;
use crate::folder::CallFolder;
use crate::limits::{ENDING_TICK_MS, KILL_MS};
use crate::supervise::processes;
use crate::supervise::trace::Trace;

/// A supervisor that this process has started.
#[derive(Debug, Clone)]
pub(crate) struct Supervisor {
    pub(crate) pid: i32,
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
    // The lock is held until the new process is known: it must not be taken for one that a command left.
    let mut started = started();
    let child = command.spawn()?;
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).unwrap_or_default();
    let supervisor = Supervisor { pid, claim: claim(nonce), began: false, over: false };
    started.insert(folder.to_owned(), supervisor);
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
        // If it was killed, this process inherits what it guarded.
        let _ = tokio::task::spawn_blocking(end_left).await;
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

/// Runs `look` with the ids of the supervisors that have not been reaped. None starts meanwhile.
pub(crate) fn with_living<T>(look: impl FnOnce(&BTreeSet<i32>) -> T) -> T {
    let started = started();
    let living = started.values().filter(|supervisor| !supervisor.over).map(|supervisor| supervisor.pid).collect();
    look(&living)
}

/// Ends every process that this process inherited. May block for up to [`KILL_MS`].
pub(crate) fn end_left() {
    repeat(|| ADOPTS.load(Ordering::Relaxed) && processes::kill_adopted());
}

/// Ends what the command of this call left after its supervisor was killed, by all that shows it: its cgroup, its mark, its
/// trace, and that this process has inherited it. May block for up to [`KILL_MS`].
pub(crate) fn end_left_of(call: &CallFolder) {
    let trace = call.trace();
    repeat(|| {
        let in_cgroup = cgroup::end_of(call, trace.as_ref().and_then(|trace| trace.cgroup.as_deref()));
        let marked = processes::kill_marked(call);
        let traced = trace.as_ref().is_some_and(Trace::kill);
        let adopted = ADOPTS.load(Ordering::Relaxed) && processes::kill_adopted();
        in_cgroup || marked || traced || adopted
    });
}

/// Repeats it until it finds nothing more: a process that is killed may have forked just before.
pub(crate) fn repeat(finds: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_millis(KILL_MS);
    while finds() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(ENDING_TICK_MS));
    }
}

/// Urges the supervisors of a folder that have not ended their command: continues one that is stopped. With `force`, kills
/// everything below it as well, and a supervisor below which nothing is left: it must have recorded the end by then.
pub(crate) fn urge(folder: &CallFolder, force: bool) {
    let known = of(folder.path()).filter(|known| !known.over).map(|known| vec![known.pid]);
    for pid in known.unwrap_or_else(|| processes::supervisors_of(folder)) {
        let is_alone = force && !processes::kill_below(pid);
        processes::resume_stopped(pid);
        if is_alone {
            processes::kill(pid);
        }
    }
}

/// Forgets the supervisor of a folder that is removed.
pub(crate) fn forget(folder: &Path) {
    started().remove(folder);
}

/// Whether this process inherits what commands leave.
static ADOPTS: AtomicBool = AtomicBool::new(false);

/// Notes that this process inherits what commands leave.
pub(crate) fn adopt() {
    ADOPTS.store(true, Ordering::Relaxed);
}
