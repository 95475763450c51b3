//! How often each candidate of a run failed, and which are in cooldown.

use serde::{Deserialize, Serialize};

use super::compaction::CompactionProgress;
use crate::failure::FailureClass;
use crate::ids::Timestamp;
use crate::ledger::{CooldownLifted, CooldownSet};
use crate::settings::Thinking;
use crate::tables::failover::{AtEnd, First, rule_of};

/// The run's record of its candidates since the last complete answer, which resets all but `candidate` and `lowered`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// The index of the candidate in use.
    pub candidate: u32,
    /// Its thinking level, if it refused the configured one.
    pub lowered: Option<Thinking>,
    /// Its failed requests in a row, at this level.
    pub failed: u32,
    /// How many of them failed with the current key. Old records have none.
    #[serde(default)]
    pub refused: u32,
    /// Candidates that were given up.
    pub cooling: Vec<Cooling>,
    /// Milliseconds spent waiting for cooldowns.
    pub waited_ms: u64,
    /// The compaction steps so far, and what is known of the length of the history.
    #[serde(rename = "room")]
    pub compaction: CompactionProgress,
}

impl Counters {
    /// The same again, or another candidate, or a lower level.
    pub(crate) fn retry(&mut self, candidate: Option<u32>, lowered: Option<Thinking>) {
        if candidate.is_some() || lowered.is_some() {
            (self.failed, self.refused) = (0, 0);
            self.lowered = lowered;
        }
        self.candidate = candidate.unwrap_or(self.candidate);
    }

    /// The candidate in use has failed like this.
    pub(crate) fn fail(&mut self, class: FailureClass) {
        self.failed += 1;
        self.refused += u32::from(rule_of(class).first == First::RefreshOnce);
    }

    /// A candidate goes into cooldown. `asked`: a request to it is in flight, whose answer does not end this cooldown.
    pub(crate) fn cool(&mut self, cooling: Cooling, asked: bool) {
        let failures = if asked { 0 } else { self.failures(cooling.candidate, cooling.class) + 1 };
        self.cooling.retain(|of| of.candidate != cooling.candidate);
        self.cooling.push(Cooling { failures, ..cooling });
        debug_assert!(self.has_one_cooldown_each());
    }

    /// A candidate's cooldown is cleared: it counts as not failed.
    pub(crate) fn clear(&mut self, candidate: u32) {
        self.cooling.retain(|cooling| cooling.candidate != candidate);
        if candidate == self.candidate {
            (self.failed, self.refused) = (0, 0);
        }
    }

    /// A candidate has one cooldown at most: readers take the first that they find.
    fn has_one_cooldown_each(&self) -> bool {
        let is_again = |(at, of): (usize, &Cooling)| self.cooling[..at].iter().any(|by| by.candidate == of.candidate);
        !self.cooling.iter().enumerate().any(is_again)
    }

    /// How often a candidate was in cooldown for this kind of failure: missing credit says nothing about a limit.
    pub(crate) fn failures(&self, candidate: u32, class: Option<FailureClass>) -> u32 {
        let cools = |of: Option<FailureClass>| of.map(|class| rule_of(class).cools);
        let mut of_it = self.cooling.iter().filter(|cooling| cooling.candidate == candidate);
        of_it.find(|cooling| cools(cooling.class) == cools(class)).map_or(0, |cooling| cooling.failures)
    }

    /// A candidate is asked, without a failure of the one before.
    pub(crate) fn ask(&mut self, candidate: u32) {
        for cooling in self.cooling.iter_mut().filter(|cooling| cooling.candidate == candidate) {
            cooling.failures = cooling.failures.max(1);
        }
        if candidate != self.candidate {
            (self.candidate, self.lowered, self.failed, self.refused) = (candidate, None, 0, 0);
        }
    }

    /// Whether the candidate has failed and not answered since.
    pub(crate) fn is_probe(&self, candidate: u32) -> bool {
        self.cooling.iter().any(|cooling| cooling.candidate == candidate)
    }

    /// Whether the request in flight to a candidate is a probe, and was not sent before the failure was known.
    pub(crate) fn was_probe(&self, candidate: u32) -> bool {
        self.cooling.iter().any(|cooling| cooling.candidate == candidate && cooling.failures > 0)
    }

    /// Whether a candidate is not to be tried now.
    pub(crate) fn cools(&self, candidate: u32, now: Timestamp) -> bool {
        let mut of_it = self.cooling.iter().filter(|cooling| cooling.candidate == candidate);
        of_it.any(|cooling| cooling.until.is_none_or(|until| until > now))
    }

    /// Until when a candidate's cooldown lasts if it is set until then: an earlier one is never shortened. A time
    /// outlasts `until another has answered`, which the next answer ends.
    pub(crate) fn cooldown_until(&self, candidate: u32, until: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
        let known = self.cooling.iter().filter(|of| of.candidate == candidate && candidate != self.candidate);
        known.filter_map(|cooling| cooling.until).filter(|until| *until > now).max().max(until)
    }

    /// Whether a candidate is already in cooldown for as long.
    pub(crate) fn knows(&self, cooled: &CooldownSet) -> bool {
        let mut of_it = self.cooling.iter().filter(|cooling| cooling.candidate == cooled.candidate);
        of_it.any(|cooling| cooling.until.is_none_or(|until| until >= cooled.until))
    }

    /// Whether a candidate's cooldown comes from before it was cleared.
    pub(crate) fn is_older_than(&self, cleared: &CooldownLifted) -> bool {
        let mut of_it = self.cooling.iter().filter(|cooling| cooling.candidate == cleared.candidate);
        of_it.any(|cooling| cooling.since <= cleared.at)
    }

    /// A wait is over: candidates whose cooldown has ended may be tried again, the first of them is.
    pub(crate) fn cooled(&mut self, now: Timestamp) {
        let is_over = |cooling: &Cooling| cooling.until.is_some_and(|until| until <= now);
        if let Some(first) = self.cooling.iter().filter(|cooling| is_over(cooling)).map(|c| c.candidate).min() {
            (self.candidate, self.lowered, self.failed, self.refused) = (first, None, 0, 0);
        }
    }

    /// A complete answer came: earlier failures no longer count, except for cooldowns of others that have not ended.
    pub(crate) fn answered(&mut self, now: Timestamp) {
        let Self { candidate, lowered, compaction, .. } = *self;
        let stays = |of: &Cooling| of.candidate != candidate || of.failures == 0;
        let cools = |of: &Cooling| stays(of) && of.until.is_some_and(|until| until > now);
        let cooling = std::mem::take(&mut self.cooling).into_iter().filter(cools).collect();
        *self = Self { candidate, lowered, cooling, compaction: compaction.answered(), ..Self::default() };
        debug_assert!(self.has_one_cooldown_each());
    }
}

/// A candidate in cooldown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Cooling {
    /// Its place in the settings.
    pub candidate: u32,
    /// Until when it is not to be tried; none = until another has answered.
    pub until: Option<Timestamp>,
    /// How many times in a row: each cooldown is longer. 0 if it was reported while a request to it was in flight.
    #[serde(rename = "strikes")]
    pub failures: u32,
    pub class: Option<FailureClass>,
    /// Since when that is known.
    pub since: Timestamp,
}

impl Cooling {
    /// When it is worth waiting for; none for a key that is refused or has no credit, which time alone does not repair.
    pub(crate) fn reset(&self) -> Option<Timestamp> {
        self.until.filter(|_| self.class.is_none_or(|class| rule_of(class).at_end == AtEnd::Wait))
    }
}
