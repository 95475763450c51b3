//! Continuing with the next owner: after the owner has gone, or after this process handed the home over.

use std::convert::Infallible;

use protocol::method::{EventsSubscribe, SubscribeParams};
use protocol::{Client, ClientError};

use super::{Follower, HOME, can_approve};
use crate::error::CliError;
use crate::here::Here;
use crate::owner_client::failed;

impl Follower<'_> {
    /// Finds or becomes the next owner, and continues each followed session after its last line.
    pub(crate) async fn reopen(&mut self) -> Result<(), CliError> {
        let before = self.owner_client.pid;
        self.screen.hide_status();
        self.progress.closed(self.followed.values().cloned().collect()).await?;
        let mut handed_over = false;
        while let Some(here) = self.owner_client.here.take() {
            if here.is_handing_over() {
                self.release(here).await?;
                handed_over = true;
                break;
            }
            match self.attach_again(here).await {
                Ok(()) => return Ok(()),
                Err(error) if self.may_retry(&error) => {
                    self.progress.closed(self.followed.values().cloned().collect()).await?;
                }
                Err(error) => return Err(failed(error)),
            }
        }
        loop {
            let opening = self.opening.as_ref().ok_or_else(|| CliError::bug("a watcher looked for the next owner"))?;
            self.owner_client = tokio::select! {
                opened = opening.open() => opened?,
                _ = self.signals.terminate.recv() => return Err(self.stopped()),
            };
            let client = self.owner_client.client.clone();
            match self.follow_again(&client).await {
                Ok(()) => break,
                Err(error) if self.may_retry(&error) => {
                    self.progress.closed(self.followed.values().cloned().collect()).await?;
                }
                Err(error) => return Err(failed(error)),
            }
        }
        self.took_over |= self.owner_client.here.is_some();
        let pid = self.owner_client.pid;
        self.screen.say(&match &self.owner_client.here {
            Some(_) if handed_over => {
                "… the service that asked for the home is gone; this process continues".to_owned()
            }
            Some(_) => format!("… pid {before}, which owned the home, is gone; this process continues"),
            None if handed_over => format!("… this process handed the home over; pid {pid} continues"),
            None if pid == before => "… more happened than was read here; this continues where it stopped".to_owned(),
            None => format!("… pid {before} no longer owns the home; pid {pid} continues"),
        });
        Ok(())
    }

    /// Waits until the home is released, which a service has asked for.
    async fn release(&mut self, mut here: Here) -> Result<(), CliError> {
        let events = &mut self.owner_client.events;
        // The next owner sends these lines again: they are not drawn, so the cursors stay.
        let unread = async {
            while events.recv().await.is_some() {}
            std::future::pending::<Infallible>().await
        };
        let released = tokio::select! {
            released = here.released() => Some(released),
            never = unread => match never {},
            _ = self.signals.terminate.recv() => None,
        };
        while let Ok(note) = here.notes.try_recv() {
            self.screen.say(&note);
        }
        released.unwrap_or_else(|| {
            // It still shuts down in order when the command closes.
            self.owner_client.here = Some(here);
            Err(self.stopped())
        })
    }

    /// Connects to this process' own owner again.
    async fn attach_again(&mut self, here: Here) -> Result<(), ClientError> {
        let attached = here.attach(can_approve()).await;
        let kept = Some(here);
        match attached {
            Ok(owner_client) => {
                self.owner_client = owner_client;
                self.owner_client.here = kept;
            }
            Err(error) => {
                self.owner_client.here = kept;
                return Err(error);
            }
        }
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
