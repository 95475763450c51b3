//! Compaction: when it is due, and its steps. The steps are tried from the first to the last; a complete answer starts
//! with the first again.

use serde::{Deserialize, Serialize};

use crate::settings::{Candidate, Compaction};
use crate::tables::limits::OVERFLOW_SUMMARIES;

/// A step of a compaction; each is tried if the one before it was not enough.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionStep {
    /// A model's summary stands for all but the newest part of the history.
    #[default]
    Summarise,
    /// Long results of calls are truncated to their beginning and their end.
    Truncate,
    /// An extract, which needs no model, stands for more of the history than a summary did.
    Tail,
    /// No step is left.
    Nothing,
}

impl CompactionStep {
    /// All of them, in order.
    pub const ALL: [Self; 4] = [Self::Summarise, Self::Truncate, Self::Tail, Self::Nothing];

    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Summarise => "summary",
            Self::Truncate => "truncated results",
            Self::Tail => "smaller tail",
            Self::Nothing => "",
        }
    }

    /// The one after it.
    pub fn next(self) -> Self {
        Self::ALL[(self as usize + 1).min(Self::ALL.len() - 1)]
    }

    /// The first step that is tried when the provider has reported for the n-th time in a run that a request is too
    /// long: a few summaries, then each of the others once, then none.
    pub fn after_overflows(overflows: u32) -> Self {
        Self::ALL[(overflows.saturating_sub(OVERFLOW_SUMMARIES) as usize).min(Self::ALL.len() - 1)]
    }
}

/// What fits into a model's window, tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// A request that is estimated to hold more is not sent before a compaction.
    pub threshold: u64,
    /// The maximum that leaves space for the answer.
    pub most: u64,
    /// The size of the newest part that stays unchanged.
    pub keep: u64,
    /// Above it the model is asked to write down what must not be lost; none = it is not.
    pub flush: Option<u64>,
}

impl Window {
    /// The window of this model. If it is small, the reserve and the newest part shrink.
    pub fn of(candidate: &Candidate, compaction: &Compaction) -> Self {
        let window = candidate.context_window;
        let most = window - candidate.max_output.min(window / 2);
        let threshold = most - compaction.reserve.min(most / 4);
        let flush = compaction.flush_lead.map(|soft| threshold - soft.min(threshold / 8));
        Self { threshold, most, keep: compaction.keep.min(threshold / 2), flush }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(context_window: u64, max_output: u64) -> Candidate {
        Candidate {
            provider: "acme".into(),
            model: "m".into(),
            profile: None,
            context_window,
            max_output,
            thinking: None,
            images: true,
            structured_output: false,
            sampling: crate::Sampling::default(),
            token_rate: 1_000,
            can_refresh: false,
            levels: vec![],
            price: None,
        }
    }

    #[test]
    fn r42_what_is_asked_to_stay_free_gives_way_in_a_small_window() {
        let compaction = Compaction { flush_lead: Some(4_000), ..Compaction::default() };
        let of = |window, output| Window::of(&candidate(window, output), &compaction);
        let window = |threshold, most, keep, flush| Window { threshold, most, keep, flush: Some(flush) };
        assert_eq!(of(200_000, 8_192), window(171_808, 191_808, 20_000, 167_808));
        assert_eq!(of(64_000, 8_000), window(42_000, 56_000, 20_000, 38_000));
        assert_eq!(of(16_000, 8_000), window(6_000, 8_000, 3_000, 5_250));
        assert_eq!(of(32_000, 32_000), window(12_000, 16_000, 6_000, 10_500));
        for window in (16_000..1_000_000).step_by(7_919) {
            let Window { threshold, most, keep, flush } = of(window, window / 3);
            assert!(keep <= threshold / 2 && threshold < most && most < window, "{window}");
            assert!(flush.is_some_and(|flush| keep < flush && flush < threshold), "{window}");
        }
        assert_eq!(Window::of(&candidate(64_000, 8_000), &Compaction::default()).flush, None);
    }
}
