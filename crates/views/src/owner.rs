//! Finds the owner of a home without touching the lock, because a look must never make an owner's opening fail.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use protocol::show::{Held, Owner};
use rustix::process::{Pid, test_kill_process};

/// The owner of this home: the process that `owner.lock` names, if it lives and has that file open.
pub fn owner(home: &Path) -> Option<Owner> {
    let path = home.join("owner.lock");
    let name = fs::read_to_string(&path).ok()?;
    let mut lines = name.lines();
    let pid: u32 = lines.next()?.parse().ok()?;
    let since = lines.next().map(str::to_owned);
    (is_alive(pid) && has_open(pid, &path).unwrap_or(true)).then(|| Owner {
        pid,
        since,
        resident_bytes: runtime::resident_bytes(pid),
        held: held(pid),
    })
}

/// The last time that the thread of all sessions was held; known only in the owner itself.
fn held(pid: u32) -> Option<Held> {
    let stall = runtime::watchdog::latest().filter(|_| pid == std::process::id())?;
    Some(Held { by: stall.what.to_string(), ms: stall.held.as_millis() as u64, at: stall.at, is_over: stall.is_over })
}

fn is_alive(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
    match test_kill_process(pid) {
        Ok(()) => true,
        // A process of another user counts as well.
        Err(errno) => errno == rustix::io::Errno::PERM,
    }
}

/// Whether the process has this file open; an error if the system does not say (then it is enough that the process
/// lives).
fn has_open(pid: u32, path: &Path) -> io::Result<bool> {
    let wanted = fs::metadata(path)?;
    let files = match fs::read_dir(format!("/proc/{pid}/fd")) {
        // An owner hides its files from all but root; the list of locks is open to all.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return has_locked(pid, wanted.ino()),
        files => files?,
    };
    for file in files {
        // A descriptor may be closed meanwhile.
        let Ok(meta) = fs::metadata(file?.path()) else { continue };
        if (meta.dev(), meta.ino()) == (wanted.dev(), wanted.ino()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the process has locked a file of this number, by the list of locks of the system: `N: FLOCK ADVISORY WRITE PID
/// DEVICE:NUMBER …`.
fn has_locked(pid: u32, inode: u64) -> io::Result<bool> {
    let locks = fs::read_to_string("/proc/locks")?;
    let is_it = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(4).is_some_and(|of| **of == *pid.to_string())
            && words.get(5).is_some_and(|file| file.rsplit(':').next() == Some(&inode.to_string()))
    };
    Ok(locks.lines().any(is_it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_living_process_that_holds_the_file_is_an_owner() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(owner(home.path()), None);
        let path = home.path().join("owner.lock");
        fs::write(&path, format!("{}\n2026-11-21T03:00:00Z\nhost\n", std::process::id())).unwrap();
        if cfg!(target_os = "linux") {
            assert_eq!(owner(home.path()), None, "it does not hold the file");
        }
        let held = fs::File::open(&path).unwrap();
        let found = owner(home.path()).unwrap();
        assert_eq!((found.pid, found.since.as_deref()), (std::process::id(), Some("2026-11-21T03:00:00Z")));
        assert_eq!(found.resident_bytes.is_some(), cfg!(target_os = "linux"));
        drop(held);
        fs::write(&path, "4194305\n").unwrap();
        assert_eq!(owner(home.path()), None, "no system has a process of that number");
    }
}
