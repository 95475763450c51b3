//! Titles by a model: beside a run, a few times for a conversation, and never in place of one that somebody gave.

use engine::tables::limits::TITLE_ASKS;
use engine::{Event, Visibility};

use super::Evidence;
use crate::invariant::{Invariant, Violation};

/// Each run asks for at most one title, which ends before the run does, and a conversation that has a title, or for which one
/// was asked often enough, is not named.
pub(super) fn are_asked_within_their_runs(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let (mut out, mut has_asked, mut asks) = (None, false, 0);
    let (mut is_given, mut is_named) = (false, false);
    for event in evidence.events() {
        match event {
            Event::RunStarted(_) => has_asked = false,
            Event::TitleAsked(e) => {
                let may = !has_asked && !is_given && !is_named && asks < TITLE_ASKS;
                Invariant::Request.holds(may, || format!("{} is asked for once too often", e.title))?;
                (out, has_asked, asks) = (Some(e.title), true, asks + 1);
            }
            Event::TitleEnded(e) => {
                Invariant::Request.holds(out.take() == Some(e.title), || format!("{} was not asked for", e.title))?;
                is_named |= e.text.is_some();
            }
            Event::RunEnded(e) => {
                Invariant::Request.holds(out.is_none(), || format!("run {} ended while {out:?} was out", e.run))?;
            }
            Event::SessionLabelled(e) if e.visibility == Some(Visibility::Deleted) => {
                (asks, is_given, is_named) = (0, false, false);
            }
            Event::SessionLabelled(e) => is_given |= e.title.is_some(),
            Event::Reset(_) => (asks, is_named) = (0, false),
            _ => {}
        }
    }
    Ok(())
}
