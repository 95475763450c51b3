//! How a service takes its home: it becomes the owner, or asks an owner that is only a command for the home and waits until
//! that releases it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use journal::Sqlite;
use protocol::ClientError;
use protocol::method::{Method as _, NoParams, OwnerHandover};
use tokio::time::timeout;

use super::{Reporter, notify};
use crate::claim::Claim;
use crate::error::CliError;
use crate::output::say;
use crate::owner_client::{CHANGE, GREETING, LOOK, RELEASE, look_for};

/// A home that this process owns. The claim keeps commands from becoming the owner until the service listens.
pub(super) struct Taken {
    pub(super) journal: Arc<Sqlite>,
    pub(super) claim: Option<Claim>,
}

/// What an owner says to the request for its home.
enum Reply {
    /// It releases the home: answers in progress may finish within this time.
    Accepted { pid: u32, drain: Duration },
    /// It keeps the home, or does not answer.
    Kept,
    /// Nobody listens: it starts, shuts down, or has no socket.
    Away,
}

/// A handover that was accepted.
struct Handover {
    /// The owner that releases the home.
    pid: u32,
    until: Instant,
}

/// Takes the home. Fails if the owner keeps it, unless `wait` is set.
pub(super) async fn take(home: &Path, wait: bool, reporter: &Reporter) -> Result<Taken, CliError> {
    let mut taking =
        Taking { home, wait, reporter, claim: None, handover: None, away_since: None, has_reported: false };
    loop {
        match Sqlite::own(home) {
            Ok(journal) => return Ok(Taken { journal: Arc::new(journal), claim: taking.claim }),
            Err(journal::Error::Owned { home, pid, since }) => {
                taking.look(pid, journal::Error::Owned { home, pid, since }).await?;
                tokio::time::sleep(LOOK).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

struct Taking<'a> {
    home: &'a Path,
    wait: bool,
    reporter: &'a Reporter,
    claim: Option<Claim>,
    handover: Option<Handover>,
    /// Since when nobody listens.
    away_since: Option<Instant>,
    has_reported: bool,
}

impl Taking<'_> {
    /// Asks the owner of the home for it, unless it was asked. An error if there is nothing to wait for.
    async fn look(&mut self, owner: Option<u32>, refused: journal::Error) -> Result<(), CliError> {
        if self.claim.is_none() {
            self.claim = Claim::take(self.home).await;
        }
        // Another owner may have come after the one that accepted.
        if self.handover.as_ref().is_some_and(|handover| owner.is_some_and(|pid| pid != handover.pid)) {
            self.handover = None;
        }
        match &self.handover {
            Some(handover) if Instant::now() < handover.until => return Ok(()),
            Some(_) => {
                self.handover = None;
                return self.give_up(refused);
            }
            None => {}
        }
        // Two services do not ask at once.
        let reply = if self.claim.is_some() { ask(self.home).await } else { Reply::Kept };
        match reply {
            Reply::Accepted { pid, drain } => {
                let most = drain.saturating_add(RELEASE);
                self.reporter.waiting(pid, most);
                let until = Instant::now().checked_add(most).unwrap_or_else(|| Instant::now() + RELEASE);
                self.handover = Some(Handover { pid, until });
                self.away_since = None;
                Ok(())
            }
            Reply::Kept => self.give_up(refused),
            Reply::Away => {
                if self.away_since.get_or_insert_with(Instant::now).elapsed() < CHANGE {
                    return Ok(());
                }
                self.give_up(refused)
            }
        }
    }

    /// The owner keeps the home.
    fn give_up(&mut self, owned: journal::Error) -> Result<(), CliError> {
        if !self.wait {
            return Err(owned.into());
        }
        if !std::mem::replace(&mut self.has_reported, true) {
            say!("limulus: {owned}; waiting");
            notify::report("STATUS=waiting for the owner of the home");
        }
        Ok(())
    }
}

/// Asks the owner for the home.
async fn ask(home: &Path) -> Reply {
    let owner_client = match look_for(home, false, GREETING).await {
        Some(Ok(owner_client)) => owner_client,
        Some(Err(_)) => return Reply::Kept,
        None => return Reply::Away,
    };
    // An older version keeps the home until its command is done.
    if !owner_client.can(OwnerHandover::NAME) {
        return Reply::Kept;
    }
    match timeout(GREETING, owner_client.client.call::<OwnerHandover>(NoParams {})).await {
        Ok(Ok(accepted)) => Reply::Accepted { pid: owner_client.pid, drain: Duration::from_millis(accepted.drain_ms) },
        Ok(Err(ClientError::Gone)) => Reply::Away,
        Ok(Err(_)) | Err(_) => Reply::Kept,
    }
}
