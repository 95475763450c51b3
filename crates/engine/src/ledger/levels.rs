//! Thinking levels that a model has refused, and what it accepted instead: a later run begins there.

use super::Ledger;
use crate::event::ThinkingLowered;
use crate::ids::{Hash, Timestamp};
use crate::settings::{Candidate, Thinking};
use crate::tables::limits::REFUSED_LEVEL_MS;

/// A level that was asked for: the provider, the model, the level.
pub(super) type AskedLevel = (String, String, Thinking);

/// What a model accepted instead of a level that it refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoweredLevel {
    /// The accepted level.
    pub accepted: Thinking,
    /// Until when the refused one is not asked for.
    pub until: Timestamp,
    /// The hash of the configuration of the model under which it was refused.
    pub config: Hash,
}

impl Ledger {
    /// The refused levels in order, each with its provider, its model and what was accepted, including expired ones.
    pub fn lowered(&self) -> impl Iterator<Item = (&str, &str, Thinking, &LoweredLevel)> {
        self.lowered.iter().map(|((provider, model, asked), of)| (provider.as_str(), model.as_str(), *asked, of))
    }

    /// Whether a lowered level is not known yet.
    pub fn is_lowered_anew(&self, e: &ThinkingLowered, now: Timestamp) -> bool {
        let known = self.lowered.get(&(e.provider.clone(), e.model.clone(), e.asked));
        let is_known = |of: &LoweredLevel| (of.accepted, of.config) == (e.accepted, e.config) && of.until > now;
        e.accepted < e.asked && !known.is_some_and(is_known)
    }

    /// The level at which a run begins with this candidate, under this configuration of its model.
    pub fn accepted_level(&self, candidate: &Candidate, config: Hash, now: Timestamp) -> Option<Thinking> {
        let mut level = candidate.thinking?;
        // The accepted level may have been refused later; each is lower than the one before.
        while let Some(of) = self.lowered.get(&(candidate.provider.clone(), candidate.model.clone(), level))
            && of.config == config
            && of.until > now
            && of.accepted < level
        {
            level = of.accepted;
        }
        Some(level)
    }

    pub(super) fn lower(&mut self, lowered: ThinkingLowered, now: Timestamp) {
        if self.is_lowered_anew(&lowered, now) {
            self.emit(lowered, now);
        }
    }

    pub(super) fn level_lowered(&mut self, e: &ThinkingLowered, at: Timestamp) {
        let of = LoweredLevel { accepted: e.accepted, until: at.plus(REFUSED_LEVEL_MS), config: e.config };
        self.lowered.insert((e.provider.clone(), e.model.clone(), e.asked), of);
    }
}
