//! The lines of a stream for whoever owns nothing: from the owner of the home while one responds, else from its journal.
//! Each continues at the cursor of the other.

use engine::RunId;
use journal::{Read as _, Reader};
use protocol::Event;
use protocol::method::SubscribeParams;
use views::events::{CatchUp, StreamPosition, StreamScope};
use views::lookup;

use crate::error::Error;
use crate::progress::Progress;
use crate::subscriber::HOME;

/// Selects the lines.
pub enum StreamTarget {
    /// All lines of the home.
    Home,
    /// The lines of the session with this key.
    Session(String),
    /// The lines of a run; the key is that of its session.
    Run(String, RunId),
}

/// Reads the lines of a home, and knows which was the last.
pub struct StreamReader {
    /// Which lines.
    pub target: StreamTarget,
    /// The journal of the home.
    pub reader: Reader,
    /// Whether the first read starts at the beginning, instead of now.
    whole: bool,
    /// The cursor of the last line; none before the first.
    seen: Option<String>,
    progress: Progress,
}

impl StreamTarget {
    fn scope(&self) -> StreamScope {
        match self {
            Self::Home => StreamScope::Home,
            Self::Session(_) | Self::Run(..) => StreamScope::Session,
        }
    }

    /// The key of the session; [`HOME`] for the home.
    pub fn key(&self) -> &str {
        match self {
            Self::Home => HOME,
            Self::Session(key) | Self::Run(key, _) => key,
        }
    }
}

impl StreamReader {
    /// Begins after the cursor `seen`, else at the beginning if `whole`, else now. A run begins at its beginning.
    pub fn new(target: StreamTarget, reader: Reader, whole: bool, seen: Option<String>) -> Self {
        Self { target, reader, whole, seen, progress: Progress::default() }
    }

    /// The position after the last line. Refuses an invalid cursor, before any owner is asked.
    pub fn position(&self) -> Result<Option<StreamPosition>, Error> {
        let Some(seen) = &self.seen else { return Ok(None) };
        // The part after `#` has the numbers of a subscription.
        let cursor = seen.split('#').next().unwrap_or_default();
        let position = StreamPosition::parse(self.target.scope(), cursor);
        position.map(Some).map_err(|_| Error::Cursor { cursor: seen.clone() })
    }

    /// What to subscribe to for the lines after the last one.
    pub fn params(&self) -> SubscribeParams {
        let (session, run) = match &self.target {
            StreamTarget::Home => (None, None),
            StreamTarget::Session(key) => (Some(key.clone()), None),
            StreamTarget::Run(_, run) => (None, Some(run.to_string())),
        };
        let whole = self.whole && self.seen.is_none();
        SubscribeParams { session, run, whole, from: self.seen.clone(), chat: false }
    }

    /// An owner has sent the line with this cursor, or begins after it.
    pub fn saw(&mut self, cursor: String) {
        self.seen = Some(cursor);
    }

    /// An owner that was followed is gone. Waits before the next one if it brought nothing; an error if none of several
    /// did.
    pub async fn closed(&mut self) -> Result<(), Error> {
        self.progress.closed(self.seen.iter().cloned().collect()).await
    }

    /// Passes the lines of the journal after the last one that `wants` selects to `see`, until that returns a value.
    pub fn read<T>(
        &mut self,
        wants: impl Fn(&Event) -> bool,
        mut see: impl FnMut(&Event) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(mut reading) = self.missed()? else { return Ok(None) };
        loop {
            let more = reading.more(&self.reader)?;
            if !more {
                reading.finish(&self.reader)?;
            }
            for line in reading.take_lines() {
                let event = line.event;
                if wants(&event) {
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
    fn missed(&mut self) -> Result<Option<CatchUp>, Error> {
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
