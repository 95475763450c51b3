//! Continuing with the next owner: after the owner has gone, or after this process handed the home over.

use std::convert::Infallible;

use protocol::method::{EventsSubscribe, OwnerKind, SubscribeParams};
use protocol::{Client, ClientError};

use crate::error::Error;
use crate::subscriber::{HOME, Subscriber};

/// Who owns the home now, after a connection to an owner ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reopened {
    /// This process, as before: only the connection was lost.
    Kept,
    /// This process, since the service that asked it for the home is gone.
    Returned,
    /// This process, since the owner is gone.
    Became {
        /// The process id of the owner before.
        before: u32,
    },
    /// The service that asked this process for the home.
    HandedOver {
        /// Its process id.
        pid: u32,
    },
    /// The same other process as before: only the connection was lost.
    Same,
    /// Another process.
    Other {
        /// The process id of the owner before.
        before: u32,
        /// The process id of the owner.
        pid: u32,
    },
}

impl Subscriber<'_> {
    /// Finds or becomes the next owner, and continues each followed session after its last line. `note` receives the notes
    /// of a service in this process that is gone. Cancel-safe: what is cancelled may be closed.
    pub async fn reopen(&mut self, note: &mut dyn FnMut(String)) -> Result<Reopened, Error> {
        let (before, executed) = (self.owner_client.pid, self.owner_client.kind != Some(OwnerKind::Change));
        self.closed().await?;
        let mut handed_over = false;
        while let Some(here) = &self.owner_client.here {
            if here.is_handing_over() {
                self.release(note).await?;
                handed_over = true;
                break;
            }
            match self.attach_again().await {
                Ok(()) => return Ok(Reopened::Kept),
                Err(error) if self.may_retry(&error) => self.closed().await?,
                Err(error) => return Err(error.into()),
            }
        }
        loop {
            let opening = self.opening.as_ref().ok_or_else(|| Error::bug("a watcher looked for the next owner"))?;
            self.owner_client = opening.open().await?;
            let client = self.owner_client.client.clone();
            match self.follow_again(&client).await {
                Ok(()) => break,
                Err(error) if self.may_retry(&error) => self.closed().await?,
                Err(error) => return Err(error.into()),
            }
        }
        let is_own = self.is_own();
        // What an owner that only changes something leaves, nobody has executed.
        self.took_over |= is_own && (executed || self.owner_client.is_successor);
        let pid = self.owner_client.pid;
        Ok(match (is_own, handed_over) {
            (true, true) => Reopened::Returned,
            (true, false) => Reopened::Became { before },
            (false, true) => Reopened::HandedOver { pid },
            (false, false) if pid == before => Reopened::Same,
            (false, false) => Reopened::Other { before, pid },
        })
    }

    /// The connection has ended.
    async fn closed(&mut self) -> Result<(), Error> {
        self.progress.closed(self.followed.values().cloned().collect()).await
    }

    /// Waits until the home is released, which a service has asked for.
    async fn release(&mut self, note: &mut dyn FnMut(String)) -> Result<(), Error> {
        let (here, events) = (&mut self.owner_client.here, &mut self.owner_client.events);
        let Some(own) = here else { return Ok(()) };
        // The next owner sends these lines again: they are not seen, so the cursors stay.
        let unread = async {
            while events.recv().await.is_some() {}
            std::future::pending::<Infallible>().await
        };
        let released = tokio::select! {
            released = own.released() => released,
            never = unread => match never {},
        };
        while let Ok(text) = own.notes.try_recv() {
            note(text);
        }
        *here = None;
        released
    }

    /// Connects to this process' own owner again.
    async fn attach_again(&mut self) -> Result<(), ClientError> {
        let Some(here) = &self.owner_client.here else { return Err(ClientError::Gone) };
        let can_approve = self.opening.as_ref().is_some_and(|opening| opening.can_approve);
        let attached = here.attach(can_approve).await?;
        let here = self.owner_client.here.take();
        self.owner_client = attached;
        self.owner_client.here = here;
        let client = self.owner_client.client.clone();
        self.follow_again(&client).await
    }

    async fn follow_again(&mut self, client: &Client) -> Result<(), ClientError> {
        for (key, cursor) in &self.followed {
            let session = (key != HOME).then(|| key.clone());
            let params = SubscribeParams { session, from: Some(cursor.clone()), ..SubscribeParams::default() };
            client.call::<EventsSubscribe>(params).await?;
        }
        Ok(())
    }
}
