//! Titles by a model: beside a run, a few times for a conversation, and never in place of one that somebody gave.

use engine::tables::limits::TITLE_ASKS;
use engine::{Event, Visibility};

use super::Evidence;
use crate::invariant::{Invariant, Violation};

/// Each request for a title ends before its run does, none is out beside another, and a conversation that has a title, or for
/// which one was asked often enough, is not named.
pub(super) fn are_asked_within_their_runs(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let (mut out, mut asks, mut is_named) = (None, 0, false);
    for event in evidence.events() {
        match event {
            Event::TitleAsked(e) => {
                let may = out.is_none() && !is_named && asks < TITLE_ASKS;
                Invariant::Request.holds(may, || format!("{} is asked for once too often", e.title))?;
                (out, asks) = (Some(e.title), asks + 1);
            }
            Event::TitleEnded(e) => {
                Invariant::Request.holds(out.take() == Some(e.title), || format!("{} was not asked for", e.title))?;
                is_named |= e.text.is_some();
            }
            Event::RunEnded(e) => {
                Invariant::Request.holds(out.is_none(), || format!("run {} ended while {out:?} was out", e.run))?;
            }
            Event::SessionLabelled(e) if e.visibility == Some(Visibility::Deleted) => (asks, is_named) = (0, false),
            Event::SessionLabelled(e) => is_named |= e.title.is_some(),
            _ => {}
        }
    }
    Ok(())
}
