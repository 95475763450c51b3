//! Reads the lines of a stream for commands that own nothing: from the owner of the home while one responds, else from
//! its journal. Each continues at the cursor of the other.

use engine::RunId;
use gateway::events::{CatchUp, StreamPosition, StreamScope};
use gateway::show::lookup;
use journal::{Read as _, Reader};
use protocol::method::SubscribeParams;
use protocol::{ClientError, Event};

use super::follower::{Follower, HOME, Happening, Progress};
use crate::error::CliError;
use crate::owner_client::{OwnerClient, is_gone};
use crate::render::Screen;

/// Selects the lines.
pub(super) enum StreamTarget {
    /// All lines of the home.
    Home,
    /// The lines of the session with this key.
    Session(String),
    /// The lines of a run; the key is that of its session.
    Run(String, RunId),
}

/// Reads the lines of a home and draws them as they come.
pub(super) struct StreamReader {
    pub(super) target: StreamTarget,
    pub(super) reader: Reader,
    /// Whether the first read starts at the beginning, instead of now.
    whole: bool,
    /// The cursor of the last line; none before the first.
    seen: Option<String>,
    /// None while an owner is followed: the follower has it.
    screen: Option<Screen>,
    progress: Progress,
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

impl StreamTarget {
    fn scope(&self) -> StreamScope {
        match self {
            Self::Home => StreamScope::Home,
            Self::Session(_) | Self::Run(..) => StreamScope::Session,
        }
    }

    /// The key of the session; [`HOME`] for the home.
    pub(super) fn key(&self) -> &str {
        match self {
            Self::Home => HOME,
            Self::Session(key) | Self::Run(key, _) => key,
        }
    }
}

impl StreamReader {
    pub(super) fn new(target: StreamTarget, reader: Reader, whole: bool, seen: Option<String>, screen: Screen) -> Self {
        Self { target, reader, whole, seen, screen: Some(screen), progress: Progress::default() }
    }

    pub(super) fn screen(&mut self) -> &mut Screen {
        self.screen.as_mut().expect("it is here while no owner is followed")
    }

    /// The position after the last line. Refuses an invalid cursor, before any owner is asked.
    pub(super) fn position(&self) -> Result<Option<StreamPosition>, CliError> {
        let Some(seen) = &self.seen else { return Ok(None) };
        // The part after `#` has the numbers of a subscription.
        let cursor = seen.split('#').next().unwrap_or_default();
        StreamPosition::parse(self.target.scope(), cursor).map(Some).map_err(|_| CliError::Usage {
            what: format!("`{seen}` is not a cursor of this session or home"),
            hint:
                "copy one from a line of the same session or of the whole home, or give none to start at the beginning"
                    .into(),
        })
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
            self.progress.closed(self.seen.iter().cloned().collect()).await?;
        }
        outcome
    }

    async fn report<T>(
        &mut self,
        follower: &mut Follower<'_>,
        mut see: impl FnMut(&Event) -> Option<T>,
    ) -> Result<Followed<T>, CliError> {
        let (session, run) = match &self.target {
            StreamTarget::Home => (None, None),
            StreamTarget::Session(key) => (Some(key.clone()), None),
            StreamTarget::Run(_, run) => (None, Some(run.to_string())),
        };
        let whole = self.whole && self.seen.is_none();
        let params = SubscribeParams { session, run, whole, from: self.seen.clone(), chat: false };
        match follower.follow_from(self.target.key(), params).await {
            Ok(()) => self.seen = Some(follower.cursor(self.target.key())),
            Err(error) if is_gone(&error) => return Ok(Followed::Gone),
            Err(error) => return Ok(Followed::Refused(error)),
        }
        loop {
            match follower.next().await? {
                Happening::Recorded(event) => {
                    self.seen = Some(event.cursor.clone());
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
        let Some(mut reading) = self.missed()? else { return Ok(None) };
        loop {
            let more = reading.more(&self.reader)?;
            if !more {
                reading.finish(&self.reader)?;
            }
            for line in reading.take_lines() {
                let event = line.event;
                if wants(&event) {
                    self.screen().draw(&event);
                    let enough = see(&event);
                    self.seen = Some(event.cursor);
                    if enough.is_some() {
                        return Ok(enough);
                    }
                }
            }
            if !more {
                break;
            }
        }
        if let StreamTarget::Home = self.target {
            // The cursor of the home also counts entries that have no line.
            self.seen = Some(reading.position().to_string());
        }
        Ok(None)
    }

    /// A reader of the journal after the last line; none if there is nothing to read yet.
    fn missed(&mut self) -> Result<Option<CatchUp>, CliError> {
        let seen = self.position()?;
        let from = |beginning: StreamPosition| seen.clone().unwrap_or(beginning);
        let beginning = StreamPosition::beginning(self.target.scope());
        Ok(match &self.target {
            StreamTarget::Home if seen.is_none() && !self.whole => {
                self.seen = Some(StreamPosition::now_in_home(&self.reader)?.to_string());
                None
            }
            StreamTarget::Home => Some(CatchUp::of_home(&self.reader, &from(beginning))?),
            StreamTarget::Session(key) => {
                let row = lookup::session(&self.reader, Some(key))?;
                Some(CatchUp::of_session(&self.reader, &row, &from(beginning))?)
            }
            StreamTarget::Run(key, run) => {
                let Some(row) = self.reader.session(key)? else { return Ok(None) };
                let from = match &seen {
                    Some(seen) => seen.clone(),
                    None => StreamPosition::before_run(&self.reader, &row, *run)?,
                };
                Some(CatchUp::of_session(&self.reader, &row, &from)?)
            }
        })
    }
}
