//! Histories that were shortened: the old one, then the new one, and nothing between.

use engine::{EffectId, Event, Note};

use super::Evidence;
use crate::invariant::{Invariant, Violation};
use crate::world::text_of;

/// A history is replaced by what its compaction made, and that is shorter and says something.
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
            Event::ResultsCut(e) => (e.compaction, e.before, e.after),
            _ => continue,
        };
        Invariant::Compaction.holds(begun.take() == Some(made), || format!("{made} was not under way"))?;
        Invariant::Compaction.holds(after < before, || format!("{made} made {after} tokens of {before}"))?;
    }
    Ok(())
}

/// The model is asked once to write down what a summary may lose, for each time that the history is another.
pub(super) fn are_announced_once(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let mut is_asked = false;
    for event in evidence.events() {
        match event {
            Event::Noted(e) if e.note == Note::MemoryFlush => {
                let again = std::mem::replace(&mut is_asked, true);
                Invariant::Compaction.holds(!again, || "the same writing down is asked for twice".into())?;
            }
            Event::Compacted(_) | Event::ResultsCut(_) | Event::Uncompacted(_) | Event::Reset(_) => is_asked = false,
            _ => {}
        }
    }
    Ok(())
}

/// No run ends while its history is being shortened, but by a decision that cuts everything short.
pub(super) fn run_does_not_end_in_one(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let mut open: Option<EffectId> = None;
    let mut decided = false;
    for event in evidence.events() {
        match event {
            Event::CompactionBegun(e) => open = Some(e.compaction),
            Event::Compacted(_) | Event::ResultsCut(_) | Event::CompactionFailed(_) => open = None,
            Event::RunStarted(_) => (open, decided) = (None, false),
            Event::EndingSet(_) => decided = true,
            Event::RunEnded(e) => {
                let decided = std::mem::take(&mut decided);
                let pending = open.take().filter(|_| !decided);
                Invariant::Compaction
                    .holds(pending.is_none(), || format!("run {} ended while {pending:?} was under way", e.run))?;
            }
            _ => {}
        }
    }
    Ok(())
}
