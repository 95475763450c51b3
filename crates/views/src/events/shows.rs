//! What messages show after each entry (R36), the same for live and for resuming readers: from any start it is the fold
//! of all earlier entries. The engine decides what a message shows.

use engine::{Event, QueueWatch, Record, Seq, Session};
use protocol::event::MessageShows;

use super::projection::Source;
use crate::fold::fold;

/// How far the messages of a session were followed.
#[derive(Debug, Default)]
pub(super) enum Shows {
    /// Not at all: the journal holds everything before the next entry.
    #[default]
    Unknown,
    /// No message waits, and no run is active.
    Nothing,
    /// Up to this entry.
    Upto(Seq, Box<QueueWatch>),
}

impl Shows {
    /// The messages that show something else from this record on.
    pub(super) fn see(&mut self, source: Source<'_>, record: &Record) -> Vec<MessageShows> {
        let Some(seq) = record.seq else { return vec![] };
        if let Event::Forked(_) = record.event {
            // The branch continues in the state of its parent.
            *self = Self::Unknown;
            return vec![];
        }
        let before = Seq(seq.0.saturating_sub(1));
        let mut watch = match std::mem::take(self) {
            Self::Upto(last, watch) if last == before => watch,
            Self::Nothing => Box::new(QueueWatch::at_rest()),
            // A session that cannot be read back shows nothing; readers of the journal receive the reason.
            Self::Unknown | Self::Upto(..) => {
                Box::new(session_at(source, before).map_or_else(QueueWatch::at_rest, QueueWatch::of))
            }
        };
        let changes = watch.see(&record.event, record.at);
        *self = if watch.is_idle() { Self::Nothing } else { Self::Upto(seq, watch) };
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
