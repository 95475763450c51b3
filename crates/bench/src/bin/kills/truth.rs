//! What happened according to the journal of a home, read entry by entry and not through any view.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use engine::{Body, Event, FailureClass, Seq};
use journal::{Read as _, Reader};

/// The facts that the client's records and the ledger are compared with.
#[derive(Debug, Default)]
pub(super) struct Truth {
    /// Runs of accepted messages.
    pub(super) accepted: BTreeSet<String>,
    /// How often each run ended.
    pub(super) endings: BTreeMap<String, u32>,
    /// Everything that was kept of each request's text: sealed, interrupted or failed.
    pub(super) texts: BTreeMap<String, String>,
    /// Requests whose text was retracted.
    pub(super) retracted: BTreeSet<String>,
    /// How often each call was settled.
    pub(super) settled: BTreeMap<String, u32>,
    /// The class of each failure.
    pub(super) failures: Vec<FailureClass>,
    /// How often the history was compacted.
    pub(super) compactions: u32,
    /// How many requests were sent.
    pub(super) requests: u32,
    /// How many were answered completely.
    pub(super) answered: usize,
    /// How many owners the home has had.
    pub(super) epochs: u64,
}

impl Truth {
    /// Reads all sessions of a home; this verifies hashes and chains.
    pub(super) fn read(home: &Path) -> Result<Self, journal::Error> {
        let reader = Reader::open(home)?;
        let mut truth = Self::default();
        for session in reader.sessions()? {
            for entry in reader.read(session.branch, Seq(1))? {
                truth.take(&reader, &entry.event)?;
                truth.epochs = truth.epochs.max(entry.epoch.0);
            }
        }
        Ok(truth)
    }

    fn take(&mut self, reader: &Reader, event: &Event) -> Result<(), journal::Error> {
        match event {
            Event::MessageAccepted(e) => {
                self.accepted.insert(e.message.to_string());
            }
            Event::RunEnded(e) => *self.endings.entry(e.run.to_string()).or_default() += 1,
            Event::CallSettled(e) => *self.settled.entry(e.call.to_string()).or_default() += 1,
            Event::TextRetracted(e) => {
                self.retracted.insert(e.request.to_string());
            }
            Event::StreamInterrupted(e) => self.keep(reader, e.request.to_string(), e.text)?,
            Event::MessageSealed(e) => {
                self.answered += 1;
                self.keep(reader, e.request.to_string(), e.text)?;
            }
            Event::Compacted(_) | Event::ResultsTruncated(_) => self.compactions += 1,
            Event::RequestSent(_) => self.requests += 1,
            Event::Failed(e) => {
                self.failures.push(e.failure.class);
                if let Some(request) = e.request {
                    self.keep(reader, request.to_string(), e.text)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn keep(&mut self, reader: &Reader, request: String, body: Option<Body>) -> Result<(), journal::Error> {
        let bytes = body.map(|body| reader.body(&body.hash)).transpose()?.flatten();
        let text = bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        self.texts.insert(request, text);
        Ok(())
    }
}
