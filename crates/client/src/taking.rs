//! How a service takes its home: it becomes the owner, or asks an owner that is only a command for the home and waits until
//! that releases it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use journal::Sqlite;
use protocol::ClientError;
use protocol::method::{Method as _, NoParams, OwnerHandover};
use tokio::time::timeout;

use crate::claim::Claim;
use crate::error::Error;
use crate::owner_client::{CHANGE, GREETING, LOOK, RELEASE, look_for};

/// A home that this process owns. The claim keeps commands from becoming the owner until the service listens.
pub struct Taken {
    /// Its journal.
    pub journal: Arc<Sqlite>,
    /// To be dropped when the service listens.
    pub claim: Option<Claim>,
}

/// What happens while a service takes its home.
#[derive(Debug, Clone, Copy)]
pub enum TakingNotice<'a> {
    /// The owner hands the home over, and is waited for.
    HandedOver {
        /// Its process id.
        pid: u32,
        /// The longest time that this takes.
        most: Duration,
    },
    /// The owner keeps the home, and is waited for.
    Waiting {
        /// What a service that does not wait ends with.
        owned: &'a journal::Error,
    },
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

/// Takes the home for a service. Fails if the owner keeps it, unless `wait` is set. `notify` is called meanwhile. An owner that
/// leaves may complete answers for `drain`.
pub async fn take(home: &Path, drain: Duration, wait: bool, notify: &dyn Fn(TakingNotice<'_>)) -> Result<Taken, Error> {
    let mut taking =
        Taking { home, drain, wait, notify, claim: None, handover: None, away_since: None, has_reported: false };
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
    /// How long an owner that leaves may complete answers.
    drain: Duration,
    wait: bool,
    notify: &'a dyn Fn(TakingNotice<'_>),
    claim: Option<Claim>,
    handover: Option<Handover>,
    /// Since when nobody listens.
    away_since: Option<Instant>,
    has_reported: bool,
}

impl Taking<'_> {
    /// Asks the owner of the home for it, unless it was asked. An error if there is nothing to wait for.
    async fn look(&mut self, owner: Option<u32>, refused: journal::Error) -> Result<(), Error> {
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
                (self.notify)(TakingNotice::HandedOver { pid, most });
                let until = Instant::now().checked_add(most).unwrap_or_else(|| Instant::now() + RELEASE);
                self.handover = Some(Handover { pid, until });
                self.away_since = None;
                Ok(())
            }
            Reply::Kept => self.give_up(refused),
            Reply::Away => {
                if self.away_since.get_or_insert_with(Instant::now).elapsed() < self.drain.saturating_add(CHANGE) {
                    return Ok(());
                }
                self.give_up(refused)
            }
        }
    }

    /// The owner keeps the home.
    fn give_up(&mut self, owned: journal::Error) -> Result<(), Error> {
        if !self.wait {
            return Err(owned.into());
        }
        if !std::mem::replace(&mut self.has_reported, true) {
            (self.notify)(TakingNotice::Waiting { owned: &owned });
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
