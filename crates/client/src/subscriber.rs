//! Follows sessions of a home through one connection to the owner. [`Subscriber::reopen`] continues with the next owner.

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::pin;

use engine::RunId;
use protocol::event::AGENT_EVENT;
use protocol::method::{EventsSubscribe, OwnerKind, SubscribeParams};
use protocol::notice::{Answered, Asked, DiskFull, Notice};
use protocol::{Client, ClientError, Event, EventFrame};
use serde::Deserialize;
use tokio::sync::watch;

use crate::error::Error;
use crate::here::Here;
use crate::owner_client::{Opening, OwnerClient, SILENT, is_gone};
use crate::progress::Progress;

/// The subscription key of the whole home.
pub const HOME: &str = "";

/// Follows sessions, each after its last line, through one owner after the other.
pub struct Subscriber<'a> {
    /// How to find or become the next owner; None for a watcher, which waits for one instead.
    pub(crate) opening: Option<Opening<'a>>,
    pub(crate) owner_client: OwnerClient,
    /// The followed sessions, each with the cursor of the last line that arrived.
    pub(crate) followed: BTreeMap<String, String>,
    /// Whether this process became the owner because another owner was gone.
    pub(crate) took_over: bool,
    pub(crate) progress: Progress,
}

/// What arrives from the owner.
#[derive(Debug)]
pub enum Arrival {
    /// A line of a session.
    Line(Box<Event>),
    /// A call of a followed session needs approval.
    Asked(Asked),
    /// An approval request is resolved.
    Answered(Answered),
    /// The disk of the home is full, or no longer.
    DiskFull(DiskFull),
    /// The service of this process has a note for its user.
    Note(String),
    /// The journal of this process cannot be written any more.
    Broken(Error),
    /// The owner went away.
    Gone,
}

impl<'a> Subscriber<'a> {
    /// Connects to the owner of the home, or becomes it.
    pub async fn open(opening: Opening<'a>) -> Result<Self, Error> {
        let owner_client = opening.open().await?;
        let took_over = owner_client.is_successor;
        Ok(Self { opening: Some(opening), took_over, ..Self::watch(owner_client) })
    }

    /// Follows through this owner alone, until it goes away.
    pub fn watch(owner_client: OwnerClient) -> Self {
        let (followed, progress) = (BTreeMap::new(), Progress::default());
        Self { opening: None, owner_client, followed, took_over: false, progress }
    }

    /// Whether the owner knows this method: it may have another version.
    pub fn can(&self, method: &str) -> bool {
        self.owner_client.can(method)
    }

    /// The connection to the owner.
    pub fn client(&self) -> &Client {
        &self.owner_client.client
    }

    /// The cursor of the last line of a session that arrived.
    pub fn cursor(&self, key: &str) -> String {
        self.followed.get(key).cloned().unwrap_or_default()
    }

    /// Whether the owner is a service in this process, which may be handing the home over.
    pub fn is_own(&self) -> bool {
        self.owner_client.here.is_some()
    }

    /// Whether this process owns the home and keeps it.
    pub fn is_owner(&self) -> bool {
        self.owner_client.here.as_ref().is_some_and(|here| !here.is_handing_over())
    }

    /// From now on runs start and continue where this process owns the home.
    pub fn start_runs(&mut self) {
        if let Some(opening) = &mut self.opening {
            opening.holds_runs = false;
        }
        if let Some(here) = &self.owner_client.here {
            here.start_runs();
        }
    }

    /// The home; none for a watcher.
    pub fn home(&self) -> Option<&'a Path> {
        self.opening.as_ref().map(|opening| opening.globals.home.as_path())
    }

    /// The home, if this process owns it and keeps it.
    pub fn owned(&self) -> Option<&'a Path> {
        let opening = self.opening.as_ref().filter(|_| self.is_owner())?;
        Some(&opening.globals.home)
    }

    /// What the owner is.
    pub fn owner_kind(&self) -> Option<OwnerKind> {
        self.owner_client.kind
    }

    /// Where this process owns the home, no run starts any more as soon as this one has ended.
    pub fn hold_runs_after(&self, run: RunId) {
        if let Some(here) = &self.owner_client.here {
            here.hold_runs_after(run);
        }
    }

    /// Whether this process owns the home because another owner was gone that has executed runs.
    pub fn has_taken_over(&self) -> bool {
        self.took_over && self.is_owner()
    }

    /// Whether a request that failed with this error may succeed on a new connection: to the next owner, or to this process'
    /// own owner if that has dropped a connection that was not read in time.
    pub fn may_retry(&self, error: &ClientError) -> bool {
        matches!(error, ClientError::Gone) || (is_gone(error) && !self.is_owner())
    }

    /// Whether the whole home is followed.
    pub fn follows_home(&self) -> bool {
        self.followed.contains_key(HOME)
    }

    /// Follows with these parameters; `key` is the session.
    pub async fn follow(&mut self, key: &str, params: SubscribeParams) -> Result<(), ClientError> {
        let cursor = self.owner_client.client.call::<EventsSubscribe>(params).await?.cursor;
        self.followed.insert(key.to_owned(), cursor);
        Ok(())
    }

    /// Waits for what arrives next. Cancel-safe.
    pub async fn next(&mut self) -> Arrival {
        loop {
            tokio::select! {
                biased;
                frame = self.owner_client.events.recv() => match frame {
                    Some(frame) => {
                        if let Some(arrival) = self.receive(&frame) {
                            return arrival;
                        }
                    }
                    None => return Arrival::Gone,
                },
                arrival = here(&mut self.owner_client.here) => return arrival,
            }
        }
    }

    /// What the owner has already sent. When a response is here, so are all lines before it.
    pub fn next_arrived(&mut self) -> Option<Arrival> {
        loop {
            let frame = self.owner_client.events.try_recv().ok()?;
            if let Some(arrival) = self.receive(&frame) {
                return Some(arrival);
            }
        }
    }

    fn receive(&mut self, frame: &EventFrame) -> Option<Arrival> {
        match frame.event.as_str() {
            AGENT_EVENT => {
                let event = line(frame)?;
                let followed = if self.follows_home() { HOME } else { &event.session };
                if let Some(cursor) = self.followed.get_mut(followed) {
                    cursor.clone_from(&event.cursor);
                }
                Some(Arrival::Line(event))
            }
            Asked::NAME => {
                // A question of another session is not this client's, whatever the owner sends.
                let own = |asked: &Asked| self.follows_home() || self.followed.contains_key(&asked.session);
                notice::<Asked>(frame).filter(own).map(Arrival::Asked)
            }
            Answered::NAME => notice(frame).map(Arrival::Answered),
            DiskFull::NAME => notice(frame).map(Arrival::DiskFull),
            // The other events end the connection; unknown ones are ignored.
            _ => None,
        }
    }

    /// Disconnects. If this process is the owner, it shuts down in order, so that others can continue; unless `at_once` is or
    /// becomes true, answers in progress are completed within the time for that. `see` receives the lines and notes until then.
    pub async fn close(self, at_once: watch::Receiver<bool>, mut see: impl FnMut(Arrival)) -> Result<(), Error> {
        let mut owner_client = self.owner_client;
        let Some(mut here) = owner_client.here.take() else { return Ok(()) };
        let most = here.drain.as_secs();
        let mut completes = !*at_once.borrow();
        let leaving = here.leave(at_once);
        let reading = async {
            let mut silent = pin!(tokio::time::sleep(SILENT));
            loop {
                tokio::select! {
                    frame = owner_client.events.recv() => match frame {
                        Some(frame) => line(&frame).into_iter().for_each(|event| see(Arrival::Line(event))),
                        None => break,
                    },
                    () = &mut silent, if completes => {
                        completes = false;
                        let text = format!("… an answer in progress is completed first ({most} s at most); Ctrl-C leaves at once");
                        see(Arrival::Note(text));
                    }
                }
            }
        };
        let (left, ()) = tokio::join!(leaving, reading);
        while let Ok(note) = here.notes.try_recv() {
            see(Arrival::Note(note));
        }
        left
    }
}

/// A line of a session; None if this version does not know it.
fn line(frame: &EventFrame) -> Option<Box<Event>> {
    if frame.event != AGENT_EVENT {
        return None;
    }
    Event::of_payload(&frame.payload).map(Box::new)
}

/// An event of the connection; None if this version does not know it.
fn notice<'a, N: Notice + Deserialize<'a>>(frame: &'a EventFrame) -> Option<N> {
    N::deserialize(&frame.payload).ok()
}

/// What happens in an owning process: a note, or its store fails.
async fn here(here: &mut Option<Here>) -> Arrival {
    let Some(Here { notes, broken, .. }) = here else { return std::future::pending().await };
    loop {
        tokio::select! {
            Some(note) = notes.recv() => return Arrival::Note(note),
            Ok(()) = broken.changed() => {
                if let Some(error) = broken.borrow_and_update().clone() {
                    return Arrival::Broken(error.into());
                }
            }
            else => return std::future::pending().await,
        }
    }
}
