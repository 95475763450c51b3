//! How far a run and its history are with a compaction.

use serde::{Deserialize, Serialize};

use crate::tables::compaction::{CompactionStep, Window};
use crate::tables::limits::OVERFLOW_SUMMARIES;

/// How far a history is with the writing down of what its summary may lose. That is an ordinary step of a run, once for each
/// time that the history is made shorter, so that neither can bring the other about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flush {
    /// It was not asked for.
    #[default]
    Not,
    /// It is asked for in the request that is next, or out.
    Asked,
    /// The model has answered.
    Answered,
}

/// What is held of a history as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum History {
    /// It is as long as it is estimated to be.
    #[default]
    Estimated,
    /// The provider said that it is too long.
    TooLong,
    /// It goes out with the next request, however long it is estimated to be.
    GoesOut,
}

/// How far a run is with making room.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionProgress {
    /// The way that is tried next.
    #[serde(rename = "rung")]
    pub compaction_step: CompactionStep,
    /// How often it has failed.
    pub failed: u32,
    /// How often the provider said that a request is too long, in the whole run.
    pub overflows: u32,
    /// What is held of the history as it is.
    pub history: History,
    /// Whether what failed last was the making of room.
    pub broke: bool,
    /// Whether the run has nothing else to do.
    pub alone: bool,
    /// What a request was estimated to hold when room was to be made.
    pub tokens: u64,
}

impl CompactionProgress {
    /// Of the newest part of the history, that stays as it is: half as much each time that it was still too long.
    pub(crate) fn keep(&self, window: Window) -> u64 {
        window.keep >> self.overflows.saturating_sub(1).min(OVERFLOW_SUMMARIES)
    }

    /// The provider said that a request is too long.
    pub(crate) fn overflow(&mut self) {
        self.overflows += 1;
        (self.compaction_step, self.failed) = (CompactionStep::after_overflows(self.overflows), 0);
        self.history = History::TooLong;
    }

    /// This way has made room.
    pub(crate) fn made(&mut self, compaction_step: CompactionStep) {
        (self.compaction_step, self.failed, self.history) = (compaction_step.next(), 0, History::Estimated);
    }

    /// This way has not.
    pub(crate) fn fail(&mut self, compaction_step: CompactionStep) {
        self.failed = if compaction_step == self.compaction_step { self.failed + 1 } else { 1 };
        (self.compaction_step, self.broke) = (compaction_step, true);
    }

    /// It goes on so after that.
    pub(crate) fn go_on(&mut self, compaction_step: CompactionStep, as_it_is: bool) {
        if compaction_step != self.compaction_step {
            self.failed = 0;
        }
        (self.compaction_step, self.broke) = (compaction_step, false);
        if as_it_is {
            self.history = History::GoesOut;
        }
    }

    /// A whole answer came.
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
        let mut room = CompactionProgress::default();
        let window = Window { threshold: 100, most: 120, keep: 40, flush: None };
        let mut next = || {
            room.overflow();
            (room.compaction_step, room.keep(window))
        };
        let ways: Vec<_> = (0..7).map(|_| next()).collect();
        let summaries = [(Summarise, 40), (Summarise, 20), (Summarise, 10)];
        assert_eq!(ways[..3], summaries);
        assert_eq!(ways[3..], [(Truncate, 5), (Tail, 5), (Nothing, 5), (Nothing, 5)]);
        // An answer begins with the first way again, but not with the count of the run.
        room.made(Tail);
        assert_eq!(room.answered(), CompactionProgress { overflows: 7, ..CompactionProgress::default() });
    }
}
