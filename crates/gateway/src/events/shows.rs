//! What messages show from entry to entry (R36), for whoever is told live and for whoever reads back alike: from wherever one
//! begins, it is the fold of all that stands before. What may not live here: what a message shows, which the engine says.

use engine::{Event, QueueWatch, Record, Seq, Session};
use protocol::event::MessageShows;

use super::telling::Source;
use crate::show::fold::fold;

/// How far the messages of a session were followed.
#[derive(Debug, Default)]
pub(super) enum Shows {
    /// They were not: the journal has what is before the next entry.
    #[default]
    Unknown,
    /// Nothing waits, and nothing is under way.
    Nothing,
    /// Up to this entry.
    Upto(Seq, Box<QueueWatch>),
}

impl Shows {
    /// What shows something else from this record on.
    pub(super) fn see(&mut self, source: Source<'_>, record: &Record) -> Vec<MessageShows> {
        let Some(seq) = record.seq else { return vec![] };
        if let Event::Forked(_) = record.event {
            // It goes on where its parent stood.
            *self = Self::Unknown;
            return vec![];
        }
        let before = Seq(seq.0.saturating_sub(1));
        let mut watch = match std::mem::take(self) {
            Self::Upto(last, watch) if last == before => watch,
            Self::Nothing => Box::new(QueueWatch::at_rest()),
            // What cannot be read back shows nothing: whoever reads the journal is told why.
            Self::Unknown | Self::Upto(..) => {
                Box::new(session_at(source, before).map_or_else(QueueWatch::at_rest, QueueWatch::of))
            }
        };
        let changes = watch.see(&record.event, record.at);
        *self = if watch.is_at_rest() { Self::Nothing } else { Self::Upto(seq, watch) };
        changes.into_iter().map(Into::into).collect()
    }
}

/// The session after an entry.
fn session_at(source: Source<'_>, seq: Seq) -> Option<Session> {
    if seq == Seq(0) {
        return None;
    }
    let line = source.store.line_until(source.batch.branch, seq).ok()?;
    fold(&line, |_| {}).ok()
}
