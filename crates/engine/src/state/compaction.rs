//! The compaction state of a run and its history.

use serde::{Deserialize, Serialize};

use crate::tables::compaction::{CompactionStep, Window};
use crate::tables::limits::OVERFLOW_SUMMARIES;

/// The state of the memory flush, in which the model writes down what the summary may lose. It is an ordinary step of a
/// run, once for each compaction, so neither can cause the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flush {
    /// It was not asked for.
    #[default]
    Not,
    /// The next request asks for it, or the request in flight does.
    Asked,
    /// The model has answered.
    Answered,
}

/// What is known of the length of a history.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum History {
    /// The estimate is used.
    #[default]
    Estimated,
    /// The provider reported that it is too long.
    TooLong,
    /// It is sent with the next request, whatever the estimate.
    GoesOut,
}

/// The compaction state of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionProgress {
    /// The step that is tried next.
    #[serde(rename = "rung")]
    pub compaction_step: CompactionStep,
    /// How often it has failed.
    pub failed: u32,
    /// How often the provider reported a request as too long, in the whole run.
    pub overflows: u32,
    /// What is known of the length of the history.
    pub history: History,
    /// Whether the last failure was a failed compaction.
    pub broke: bool,
    /// Whether the run only has to compact.
    pub alone: bool,
    /// The estimated tokens of the request when the compaction was due.
    pub tokens: u64,
}

impl CompactionProgress {
    /// The share of the newest part that stays unchanged: half as much each time the history was still too long.
    pub(crate) fn keep(&self, window: Window) -> u64 {
        window.keep >> self.overflows.saturating_sub(1).min(OVERFLOW_SUMMARIES)
    }

    /// The provider reported that a request is too long.
    pub(crate) fn overflow(&mut self) {
        self.overflows += 1;
        (self.compaction_step, self.failed) = (CompactionStep::after_overflows(self.overflows), 0);
        self.history = History::TooLong;
    }

    /// This step has freed space.
    pub(crate) fn made(&mut self, compaction_step: CompactionStep) {
        (self.compaction_step, self.failed, self.history) = (compaction_step.next(), 0, History::Estimated);
    }

    /// This step has not.
    pub(crate) fn fail(&mut self, compaction_step: CompactionStep) {
        self.failed = if compaction_step == self.compaction_step { self.failed + 1 } else { 1 };
        (self.compaction_step, self.broke) = (compaction_step, true);
    }

    /// The state after a failed step.
    pub(crate) fn go_on(&mut self, compaction_step: CompactionStep, as_it_is: bool) {
        if compaction_step != self.compaction_step {
            self.failed = 0;
        }
        (self.compaction_step, self.broke) = (compaction_step, false);
        if as_it_is {
            self.history = History::GoesOut;
        }
    }

    /// A complete answer came.
    pub(crate) fn answered(self) -> Self {
        Self { overflows: self.overflows, alone: self.alone, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r52_three_summaries_then_each_other_way_once_then_none() {
        use CompactionStep::{Nothing, Summarise, Tail, Truncate};
        let mut compaction = CompactionProgress::default();
        let window = Window { threshold: 100, most: 120, keep: 40, flush: None };
        let mut next = || {
            compaction.overflow();
            (compaction.compaction_step, compaction.keep(window))
        };
        let ways: Vec<_> = (0..7).map(|_| next()).collect();
        let summaries = [(Summarise, 40), (Summarise, 20), (Summarise, 10)];
        assert_eq!(ways[..3], summaries);
        assert_eq!(ways[3..], [(Truncate, 5), (Tail, 5), (Nothing, 5), (Nothing, 5)]);
        // An answer starts with the first step again, but keeps the count of the run.
        compaction.made(Tail);
        assert_eq!(compaction.answered(), CompactionProgress { overflows: 7, ..CompactionProgress::default() });
    }
}
