//! What the journal of a home says, read entry by entry and not through any view.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use engine::{Body, CallOutcome, Event, RunId, Seq};
use journal::{Read as _, Reader};

/// The facts that everything received is compared with.
#[derive(Debug, Default)]
pub(super) struct Truth {
    /// The runs of the messages of each key.
    pub(super) keys: BTreeMap<String, Vec<RunId>>,
    /// How often each run ended, and with which text.
    pub(super) ends: BTreeMap<RunId, (u32, String)>,
    /// Everything that was kept of each request's text.
    pub(super) texts: BTreeMap<String, String>,
    pub(super) retracted: BTreeSet<String>,
    /// Runs with a command that is reported as done.
    pub(super) commands: BTreeSet<RunId>,
    /// How often each call was settled.
    pub(super) settled: BTreeMap<String, u32>,
}

impl Truth {
    pub(super) fn read(home: &Path) -> Result<Self, journal::Error> {
        let reader = Reader::open(home)?;
        let mut truth = Self::default();
        for session in reader.sessions()? {
            for entry in reader.read(session.branch, Seq(1))? {
                truth.take(&reader, &entry.event)?;
            }
        }
        Ok(truth)
    }

    fn take(&mut self, reader: &Reader, event: &Event) -> Result<(), journal::Error> {
        match event {
            Event::MessageAccepted(e) => {
                self.keys.entry(e.key.clone().unwrap_or_default()).or_default().push(RunId::from(e.message));
            }
            Event::RunEnded(e) => {
                let texts = e.text.iter().map(|body| text(reader, *body)).collect::<Result<Vec<_>, _>>()?;
                let end = self.ends.entry(e.run).or_default();
                *end = (end.0 + 1, texts.concat());
            }
            Event::CallSettled(e) => {
                *self.settled.entry(e.call.to_string()).or_default() += 1;
                if e.outcome == CallOutcome::Done {
                    self.commands.insert(e.call.run);
                }
            }
            Event::TextRetracted(e) => {
                self.retracted.insert(e.request.to_string());
            }
            Event::StreamInterrupted(e) => self.keep(reader, e.request.to_string(), e.text)?,
            Event::MessageSealed(e) => self.keep(reader, e.request.to_string(), e.text)?,
            _ => {}
        }
        Ok(())
    }

    fn keep(&mut self, reader: &Reader, request: String, body: Option<Body>) -> Result<(), journal::Error> {
        let kept = body.map(|body| text(reader, body)).transpose()?.unwrap_or_default();
        self.texts.insert(request, kept);
        Ok(())
    }
}

fn text(reader: &Reader, body: Body) -> Result<String, journal::Error> {
    let bytes = reader.body(&body.hash)?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
