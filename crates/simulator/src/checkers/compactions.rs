//! Compacted histories: first the old history is in use, then the new one, and nothing between.

use engine::{EffectId, Event, Note};

use super::Evidence;
use crate::invariant::{Invariant, Violation};
use crate::world::text_of;

/// A compaction replaces the history by a shorter one with a non-empty summary.
pub(super) fn are_whole(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let journal = evidence.outside.disk.journal();
    let mut begun = None;
    for event in evidence.events() {
        let (made, before, after) = match event {
            Event::CompactionBegun(e) => {
                begun = Some(e.compaction);
                continue;
            }
            Event::CompactionFailed(_) | Event::RunEnded(_) => {
                begun = None;
                continue;
            }
            Event::Compacted(e) => {
                let summary = text_of(journal, &e.summary)?;
                Invariant::Compaction
                    .holds(!summary.trim().is_empty(), || format!("{} is an empty summary", e.compaction))?;
                (e.compaction, e.before, e.after)
            }
            Event::ResultsTruncated(e) => (e.compaction, e.before, e.after),
            _ => continue,
        };
        Invariant::Compaction.holds(begun.take() == Some(made), || format!("{made} was not in progress"))?;
        Invariant::Compaction.holds(after < before, || format!("{made} made {after} tokens of {before}"))?;
    }
    Ok(())
}

/// The model is asked exactly once per history to save what a summary may lose.
pub(super) fn are_announced_once(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let mut is_asked = false;
    for event in evidence.events() {
        match event {
            Event::Noted(e) if e.note == Note::MemoryFlush => {
                let again = std::mem::replace(&mut is_asked, true);
                Invariant::Compaction.holds(!again, || "the model is asked twice to save the same".into())?;
            }
            Event::Compacted(_) | Event::ResultsTruncated(_) | Event::Uncompacted(_) | Event::Reset(_) => {
                is_asked = false;
            }
            _ => {}
        }
    }
    Ok(())
}

/// No run ends during a compaction, except by a decision that interrupts everything.
pub(super) fn run_does_not_end_in_one(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let mut open: Option<EffectId> = None;
    let mut decided = false;
    for event in evidence.events() {
        match event {
            Event::CompactionBegun(e) => open = Some(e.compaction),
            Event::Compacted(_) | Event::ResultsTruncated(_) | Event::CompactionFailed(_) => open = None,
            Event::RunStarted(_) => (open, decided) = (None, false),
            Event::EndingSet(_) => decided = true,
            Event::RunEnded(e) => {
                let decided = std::mem::take(&mut decided);
                let pending = open.take().filter(|_| !decided);
                Invariant::Compaction
                    .holds(pending.is_none(), || format!("run {} ended while {pending:?} was in progress", e.run))?;
            }
            _ => {}
        }
    }
    Ok(())
}
