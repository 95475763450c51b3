//! The claim of a service that waits for a home: while one has it, a command does not become the owner. So the home that one
//! owner releases goes to the service, whoever else looks for an owner at that moment. The claim is a lock on the folder
//! of the home, so it ends with its process. It decides only who comes first; the lock of the journal decides who owns.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;

/// How long a claim is retried: a command that looks at it holds the lock for some microseconds.
const RETRIED: Duration = Duration::from_secs(1);
/// The delay between two attempts.
const BETWEEN: Duration = Duration::from_millis(10);

/// A claim; dropping it ends it.
#[derive(Debug)]
pub struct Claim(OwnedFd);

impl Claim {
    /// Claims the home. None if another service has claimed it, or the file system has no locks.
    pub(crate) async fn take(home: &Path) -> Option<Self> {
        let began = Instant::now();
        let folder = folder(home).ok()?;
        loop {
            match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Some(Self(folder)),
                Err(Errno::WOULDBLOCK) if began.elapsed() < RETRIED => tokio::time::sleep(BETWEEN).await,
                Err(_) => return None,
            }
        }
    }

    /// Whether a service has claimed the home.
    pub(crate) fn is_held(home: &Path) -> bool {
        let Ok(folder) = folder(home) else { return false };
        match flock(&folder, FlockOperation::NonBlockingLockShared) {
            Ok(()) => {
                let _ = flock(&folder, FlockOperation::Unlock);
                false
            }
            Err(errno) => errno == Errno::WOULDBLOCK,
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Closing is not enough: a child that is being forked at this moment has the folder open until its exec.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

fn folder(home: &Path) -> io::Result<OwnedFd> {
    Ok(open(home, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn r61_one_service_at_a_time_claims_a_home_and_a_look_claims_nothing() {
        let home = tempfile::tempdir().unwrap();
        assert!(!Claim::is_held(home.path()));
        let claim = Claim::take(home.path()).await.expect("nobody has it");
        assert!(Claim::is_held(home.path()) && Claim::is_held(home.path()));
        drop(claim);
        assert!(!Claim::is_held(home.path()));
        let again = Claim::take(home.path()).await;
        assert!(again.is_some(), "a look has left nothing");
        assert!(
            !Claim::is_held(&home.path().join("nowhere")) && Claim::take(&home.path().join("nowhere")).await.is_none()
        );
    }
}
