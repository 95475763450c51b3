//! Draws the lines of a stream for commands that own nothing: from the owner of the home while one responds, else from its
//! journal.

use client::{OwnerClient, StreamReader, StreamTarget, is_gone};
use journal::Reader;
use protocol::{ClientError, Event};

use super::follower::{Follower, Happening};
use crate::error::CliError;
use crate::render::Screen;

/// Reads the lines of a home and draws them as they come.
pub(super) struct DrawnStream {
    pub(super) lines: StreamReader,
    /// None while an owner is followed: the follower has it.
    screen: Option<Screen>,
}

/// Why following an owner ended.
pub(super) enum Followed<T> {
    /// The command needs no further line.
    Enough(T),
    /// The owner is gone.
    Gone,
    /// The owner refused the subscription.
    Refused(ClientError),
}

impl DrawnStream {
    pub(super) fn new(
        target: StreamTarget,
        reader: Reader,
        whole: bool,
        seen: Option<String>,
        mut screen: Screen,
    ) -> Self {
        screen.end_with_stdout();
        Self { lines: StreamReader::new(target, reader, whole, seen), screen: Some(screen) }
    }

    pub(super) fn screen(&mut self) -> &mut Screen {
        self.screen.as_mut().expect("it is here while no owner is followed")
    }

    /// Draws the lines of an owner until it is gone or `see` returns a value.
    pub(super) async fn follow<T>(
        &mut self,
        owner_client: OwnerClient,
        see: impl FnMut(&Event) -> Option<T>,
    ) -> Result<Followed<T>, CliError> {
        let screen = self.screen.take().expect("it is here while no owner is followed");
        let mut follower = Follower::watch(owner_client, screen)?;
        let outcome = self.report(&mut follower, see).await;
        let screen = self.screen.insert(follower.into_screen());
        screen.hide_status();
        if matches!(outcome, Ok(Followed::Gone)) {
            self.lines.closed().await?;
        }
        outcome
    }

    async fn report<T>(
        &mut self,
        follower: &mut Follower<'_>,
        mut see: impl FnMut(&Event) -> Option<T>,
    ) -> Result<Followed<T>, CliError> {
        let key = self.lines.target.key();
        match follower.follow_from(key, self.lines.params()).await {
            Ok(()) => self.lines.saw(follower.cursor(key)),
            Err(error) if is_gone(&error) => return Ok(Followed::Gone),
            Err(error) => return Ok(Followed::Refused(error)),
        }
        loop {
            match follower.next().await? {
                Happening::Recorded(event) => {
                    self.lines.saw(event.cursor.clone());
                    if let Some(enough) = see(&event) {
                        return Ok(Followed::Enough(enough));
                    }
                }
                // The command ends; the run continues.
                Happening::Interrupt => super::agent::quit(),
                Happening::Gone => return Ok(Followed::Gone),
            }
        }
    }

    /// Draws the lines of the journal after the last one that `wants` selects, until `see` returns a value.
    pub(super) fn read<T>(
        &mut self,
        wants: impl Fn(&Event) -> bool,
        mut see: impl FnMut(&Event) -> Option<T>,
    ) -> Result<Option<T>, CliError> {
        let screen = self.screen.as_mut().expect("it is here while no owner is followed");
        let seen = self.lines.read(wants, |event| {
            screen.draw(event);
            see(event)
        });
        screen.write_rows();
        Ok(seen?)
    }
}
