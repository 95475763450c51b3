//! The owner in this process while a command runs: its service, and the task that ends the service when the command is done
//! or another service asks for the home. The task alone holds the service, so the home is released even if the command
//! waits for an unread terminal.

use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Duration;

use engine::RunId;
use gateway::Service;
use protocol::ClientError;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::error::Error;
use crate::owner_client::{OwnerClient, greet, hang_up};

/// What an owning process keeps.
pub(crate) struct Here {
    /// Gone when the home is released.
    service: Weak<Service>,
    handing_over: watch::Receiver<bool>,
    /// How long answers may continue, once the command is done.
    stop: watch::Sender<Option<Duration>>,
    /// How long an answer for another client may continue in order.
    pub(crate) drain: Duration,
    keeper: JoinHandle<Result<(), gateway::Error>>,
    /// Notes about a changed configuration.
    pub(crate) notes: mpsc::Receiver<String>,
    pub(crate) broken: watch::Receiver<Option<journal::Error>>,
}

impl Here {
    /// Keeps the service until the command is done, or until it hands the home over: then answers may continue for `drain`.
    /// `listening` is the task that accepts other clients.
    pub(crate) fn keep(
        service: Arc<Service>,
        listening: Option<JoinHandle<()>>,
        notes: mpsc::Receiver<String>,
        drain: Duration,
    ) -> Self {
        let (stop, stopped) = watch::channel(None);
        Self {
            service: Arc::downgrade(&service),
            handing_over: service.handing_over(),
            broken: service.runtime().broken(),
            stop,
            drain,
            keeper: tokio::spawn(keep(service, listening, stopped, drain)),
            notes,
        }
    }

    /// Whether a service has asked for the home: the next owner is another process.
    pub(crate) fn is_handing_over(&self) -> bool {
        *self.handing_over.borrow()
    }

    /// Starts the runs that this owner holds, if it has not left.
    pub(crate) fn start_runs(&self) {
        if let Some(service) = self.service.upgrade() {
            service.runtime().start_runs();
        }
    }

    /// Starts no run any more as soon as this one has ended.
    pub(crate) fn hold_runs_after(&self, run: RunId) {
        if let Some(service) = self.service.upgrade() {
            service.runtime().hold_runs_after(run);
        }
    }

    /// A new connection to this owner, after it dropped the last one because this client read too slowly.
    pub(crate) async fn attach(&self, can_approve: bool) -> Result<OwnerClient, ClientError> {
        let stream = self.service.upgrade().ok_or(ClientError::Gone)?.attach();
        greet(stream, can_approve).await
    }

    /// Accepts no further clients and shuts the service down in order. Clients receive everything that is recorded
    /// until then. Answers in progress may be completed, unless `at_once` is or becomes true.
    pub(crate) async fn leave(&mut self, mut at_once: watch::Receiver<bool>) -> Result<(), Error> {
        let drain = if *at_once.borrow() { Duration::ZERO } else { self.drain };
        self.stop.send_replace(Some(drain));
        let stop = self.stop.clone();
        let stopping = async {
            if at_once.wait_for(|at_once| *at_once).await.is_ok() {
                stop.send_replace(Some(Duration::ZERO));
            }
            std::future::pending::<Infallible>().await
        };
        tokio::select! {
            left = self.released() => left,
            never = stopping => match never {},
        }
    }

    /// Waits until the service has shut down. Must not be called again after it returned.
    pub(crate) async fn released(&mut self) -> Result<(), Error> {
        let left = (&mut self.keeper).await;
        left.map_err(|error| Error::bug(format!("the owner panicked: {error}")))?.map_err(Error::from)
    }
}

async fn keep(
    service: Arc<Service>,
    listening: Option<JoinHandle<()>>,
    mut stop: watch::Receiver<Option<Duration>>,
    drain: Duration,
) -> Result<(), gateway::Error> {
    let mut handing_over = service.handing_over();
    let asked = tokio::select! {
        within = stopped(&mut stop) => Err(within),
        Ok(_) = handing_over.wait_for(|asked| *asked) => Ok(drain),
    };
    if let Some(listening) = listening {
        hang_up(listening).await;
    }
    // The command may be done, or stopped by a signal, before the answers are.
    let mut within = match asked {
        Ok(drain) => drain,
        Err(within) => within,
    };
    loop {
        tokio::select! {
            left = service.leave(within) => return left,
            sooner = stopped_after(&mut stop, within) => within = sooner,
        }
    }
}

/// Waits until less time is left than this.
async fn stopped_after(stop: &mut watch::Receiver<Option<Duration>>, within: Duration) -> Duration {
    loop {
        match stop.wait_for(|stopped| stopped.is_some_and(|stopped| stopped < within)).await.map(|stopped| *stopped) {
            Ok(Some(sooner)) => return sooner,
            _ => std::future::pending().await,
        }
    }
}

/// Waits until the command is done. Returns how long answers may continue.
async fn stopped(stop: &mut watch::Receiver<Option<Duration>>) -> Duration {
    let within = stop.wait_for(Option::is_some).await.ok().and_then(|within| *within);
    match within {
        Some(within) => within,
        // The process ends without an orderly shutdown.
        None => std::future::pending().await,
    }
}
