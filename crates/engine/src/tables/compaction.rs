//! How room is made in a model's window: when, and by which way. The ways are tried from the first to the last; a whole
//! answer begins with the first again.

use serde::{Deserialize, Serialize};

use crate::failure::{Failure, FailureClass};
use crate::ids::Moment;
use crate::settings::{Candidate, Compaction};
use crate::tables::limits::{BACKOFF_MOST_MS, OVERFLOW_SUMMARIES};
use crate::tables::recovery::{First, Strategy, backoff_ms, rule_of};

/// A way to make room.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionStep {
    /// A model's summary stands for all but the newest part of the history.
    #[default]
    Summarise,
    /// Long results of calls keep their beginning and their end.
    Truncate,
    /// An extract, which needs no model, stands for more of the history than a summary did.
    Tail,
    /// None is left.
    Nothing,
}

impl CompactionStep {
    /// All of them, in order.
    pub const ALL: [Self; 4] = [Self::Summarise, Self::Truncate, Self::Tail, Self::Nothing];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Summarise => "summary",
            Self::Truncate => "long results cut",
            Self::Tail => "smaller tail",
            Self::Nothing => "",
        }
    }

    /// The one after it.
    pub fn next(self) -> Self {
        Self::ALL[(self as usize + 1).min(Self::ALL.len() - 1)]
    }

    /// The first that is tried when the provider has said for the n-th time in a run that it is too long: a few summaries,
    /// then each of the others once, then none.
    pub fn after_overflows(overflows: u32) -> Self {
        Self::ALL[(overflows.saturating_sub(OVERFLOW_SUMMARIES) as usize).min(Self::ALL.len() - 1)]
    }
}

/// What fits into a model's window, tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// A request that is estimated to hold more is not sent before room is made.
    pub threshold: u64,
    /// The most that leaves the answer its place.
    pub most: u64,
    /// Of the newest part of the history, that stays as it is.
    pub keep: u64,
    /// Above it the model is asked to write down what must not be lost; none = it is not.
    pub flush: Option<u64>,
}

impl Window {
    /// That of this model. What is asked to stay free or as it is gives way where the window is small.
    pub fn of(candidate: &Candidate, compaction: &Compaction) -> Self {
        let window = candidate.context_window;
        let most = window - candidate.max_output.min(window / 2);
        let threshold = most - compaction.reserve.min(most / 4);
        let flush = compaction.flush_soft.map(|soft| threshold - soft.min(threshold / 8));
        Self { threshold, most, keep: compaction.keep.min(threshold / 2), flush }
    }
}

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

/// What follows when a way has failed: it is tried once more where the reason may pass, then the request goes out with
/// the old history if that may fit, else the next way follows.
pub(crate) fn after(failure: &Failure, room: &CompactionProgress, window: Option<Window>, moment: Moment) -> Strategy {
    let again = matches!(rule_of(failure.class).first, First::Retry | First::RetryOnce);
    // One that used up all its time is not given it again.
    if again && failure.class != FailureClass::Timeout && room.failed <= 1 {
        let delay_ms = failure.retry_after_ms.unwrap_or_else(|| backoff_ms(room.failed, moment.random));
        if delay_ms <= BACKOFF_MOST_MS {
            return Strategy::MakeRoom { delay_ms, compaction_step: room.compaction_step, as_it_is: false };
        }
    }
    if room.alone {
        return Strategy::Fail;
    }
    let compaction_step = room.compaction_step.next();
    let fits = window.is_some_and(|window| room.tokens <= window.most);
    match (compaction_step, room.history == History::TooLong) {
        (CompactionStep::Nothing, true) => Strategy::Fail,
        (_, too_long) => Strategy::MakeRoom {
            delay_ms: 0,
            compaction_step,
            as_it_is: !too_long && (fits || compaction_step == CompactionStep::Nothing),
        },
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
            token_rate: 1_000,
            can_refresh: false,
            levels: vec![],
            price: None,
        }
    }

    #[test]
    fn r42_what_is_asked_to_stay_free_gives_way_in_a_small_window() {
        let compaction = Compaction { flush_soft: Some(4_000), ..Compaction::default() };
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

    #[test]
    fn r14_what_follows_a_failed_summary() {
        let moment = Moment { now: crate::ids::Timestamp(1), random: 0 };
        let window = Some(Window { threshold: 70, most: 100, keep: 10, flush: None });
        let with = |class, room| after(&Failure::new(class, "no"), &room, window, moment);
        let room = |compaction_step, failed, too_long, tokens| {
            let history = if too_long { History::TooLong } else { History::Estimated };
            CompactionProgress { compaction_step, failed, history, tokens, ..CompactionProgress::default() }
        };
        let next = |delay_ms, compaction_step, as_it_is| Strategy::MakeRoom { delay_ms, compaction_step, as_it_is };
        // Once more where the reason may pass.
        assert_eq!(
            with(FailureClass::Server, room(CompactionStep::Summarise, 1, false, 90)),
            next(0, CompactionStep::Summarise, false)
        );
        // Then with the old history, if that may fit.
        assert_eq!(
            with(FailureClass::Server, room(CompactionStep::Summarise, 2, false, 90)),
            next(0, CompactionStep::Truncate, true)
        );
        assert_eq!(
            with(FailureClass::Timeout, room(CompactionStep::Summarise, 1, false, 90)),
            next(0, CompactionStep::Truncate, true)
        );
        // Else the next way.
        assert_eq!(
            with(FailureClass::Timeout, room(CompactionStep::Summarise, 1, false, 101)),
            next(0, CompactionStep::Truncate, false)
        );
        assert_eq!(
            with(FailureClass::Auth, room(CompactionStep::Truncate, 1, true, 90)),
            next(0, CompactionStep::Tail, false)
        );
        // An estimate alone never ends a run, the provider's word does.
        assert_eq!(
            with(FailureClass::Refused, room(CompactionStep::Tail, 1, false, 101)),
            next(0, CompactionStep::Nothing, true)
        );
        assert_eq!(with(FailureClass::Refused, room(CompactionStep::Tail, 1, true, 101)), Strategy::Fail);
        let alone = CompactionProgress { alone: true, ..room(CompactionStep::Summarise, 2, false, 90) };
        assert_eq!(with(FailureClass::Server, alone), Strategy::Fail);
    }
}
