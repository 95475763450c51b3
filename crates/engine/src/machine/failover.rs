//! Decides what follows a failure, by the failover table and the counters of the run.

use crate::failure::{Failure, FailureClass};
use crate::ids::{Moment, Timestamp};
use crate::mutant;
use crate::settings::{Candidate, Limits, Thinking};
use crate::state::{CompactionProgress, Cooling, Counters, History};
use crate::tables::compaction::{CompactionStep, Window};
use crate::tables::failover::AtEnd::{End, Fail, Hold, Wait};
use crate::tables::failover::{Cools, First, Rule, Then, rule_of};
use crate::tables::limits::{BACKOFF_BASE_MS, BACKOFF_MOST_MS, WINDOW_LEAST};

/// What follows a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// The same request again after this many milliseconds.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Retry { delay_ms: u64 },
    /// The same candidate at a lower thinking level, at once.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    LowerThinking { level: Thinking },
    /// Another candidate, at once.
    Rotate {
        /// The index of the candidate in the settings.
        candidate: u32,
        /// Until when the failed candidate is not to be tried.
        cooling: Option<Timestamp>,
    },
    /// The history is compacted, or the request is sent with it as it is.
    Compact {
        /// Milliseconds from now.
        delay_ms: u64,
        /// The compaction step that is tried next.
        compaction_step: CompactionStep,
        /// The next request is sent with the history as it is.
        as_it_is: bool,
    },
    /// No candidate can be tried before this time.
    Wait {
        /// When the first candidate can be tried.
        until: Timestamp,
        /// Until when the failed candidate is not to be tried.
        cooling: Option<Timestamp>,
    },
    /// The run ends with this failure.
    Fail,
    /// The run waits until a human resumes it.
    Hold,
}

/// Decides what follows a failure of the candidate in use (`counters.failed` counts this one), or of a compaction;
/// `window` is the candidate's.
pub fn recover(
    failure: &Failure,
    counters: &Counters,
    (chain, window): (&[Candidate], Option<Window>),
    limits: &Limits,
    moment: Moment,
) -> Strategy {
    if counters.compaction.broke {
        return after_compaction(failure, &counters.compaction, window, moment);
    }
    let rule = rule_of(failure.class);
    if let Some(strategy) = first(rule.first, failure, counters, chain, limits, moment) {
        return strategy;
    }
    let cooling = cooling_until(failure, counters, moment);
    let gone = given_up(failure, counters, chain);
    if rule.then != Then::Nothing
        && let Some(candidate) = next(&gone, counters, chain, moment.now)
    {
        return Strategy::Rotate { candidate, cooling };
    }
    match rule.at_end {
        Hold => Strategy::Hold,
        End => Strategy::Fail,
        Wait | Fail => {
            let others = counters.cooling.iter().filter(|cooling| !gone.contains(&cooling.candidate));
            let others = others.filter_map(Cooling::reset);
            let own = cooling.filter(|_| rule.at_end == Wait);
            let Some(until) = others.chain(own).min() else { return Strategy::Fail };
            let waited = until.since(moment.now).saturating_add(counters.waited_ms);
            if waited > limits.max_wait_ms { Strategy::Fail } else { Strategy::Wait { until, cooling } }
        }
    }
}

fn first(
    first: First,
    failure: &Failure,
    counters: &Counters,
    chain: &[Candidate],
    limits: &Limits,
    moment: Moment,
) -> Option<Strategy> {
    let most = match first {
        First::RetryOnce => limits.retries.min(1),
        First::Retry => limits.retries,
        First::LowerThinking => {
            let candidate = chain.get(counters.candidate as usize)?;
            let level = lower(counters.lowered.or(candidate.thinking)?, &candidate.levels)?;
            return Some(Strategy::LowerThinking { level });
        }
        // Independent of its earlier failures and of the number of retries: this costs no time, and no other candidate
        // is better.
        First::RefreshOnce => {
            let can_refresh = chain.get(counters.candidate as usize).is_some_and(|candidate| candidate.can_refresh);
            return (can_refresh && counters.refused <= 1).then_some(Strategy::Retry { delay_ms: 0 });
        }
        // A request that is too long is compacted before anything is decided here.
        First::Compact | First::Nothing => return None,
    };
    if counters.failed > most {
        return None;
    }
    let delay_ms = failure.retry_after_ms.unwrap_or_else(|| backoff_ms(counters.failed, moment.random));
    // A longer wait is not taken here if another candidate can answer meanwhile or sooner, or if it is a wait for a
    // quota: that one ends with the first free candidate.
    let free = next(&[counters.candidate], counters, chain, moment.now).is_some();
    let sooner = || {
        let others = counters.cooling.iter().filter(|cooling| cooling.candidate != counters.candidate);
        others.filter_map(Cooling::reset).any(|until| until < moment.now.plus(delay_ms))
    };
    let is_passing = rule_of(failure.class).at_end == Wait || free || sooner();
    let patience = if is_passing { BACKOFF_MOST_MS } else { limits.max_wait_ms };
    (delay_ms <= patience.min(limits.max_wait_ms)).then_some(Strategy::Retry { delay_ms })
}

/// The first candidate that may be tried, if these may not.
fn next(gone: &[u32], counters: &Counters, chain: &[Candidate], now: Timestamp) -> Option<u32> {
    let stays = |at: &u32| same_model(&chain[*at as usize], &chain[counters.candidate as usize]);
    let fits =
        |at: &u32| chain[*at as usize].context_window >= WINDOW_LEAST && (!mutant!(NextModelForgotten) || stays(at));
    (0..chain.len() as u32).find(|at| !gone.contains(at) && !counters.cools(*at, now) && fits(at))
}

fn same_profile(a: &Candidate, b: &Candidate) -> bool {
    (&a.provider, &a.profile) == (&b.provider, &b.profile)
}

fn same_model(a: &Candidate, b: &Candidate) -> bool {
    (&a.provider, &a.model) == (&b.provider, &b.model)
}

/// The candidates that are in cooldown when the candidate in use has failed like this: it alone, all keys of its model,
/// or all models of its key.
pub fn given_up(failure: &Failure, counters: &Counters, chain: &[Candidate]) -> Vec<u32> {
    let Some(failed) = chain.get(counters.candidate as usize) else { return vec![] };
    let Rule { then, cools, .. } = rule_of(failure.class);
    let goes = |at: &u32| {
        let candidate = &chain[*at as usize];
        *at == counters.candidate
            || then == Then::NextModel && same_model(candidate, failed)
            || cools >= Cools::Profile && same_profile(candidate, failed) && !mutant!(KeyAskedAgain)
    };
    (0..chain.len() as u32).filter(goes).collect()
}

/// The candidate that is asked next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// Ask this candidate, by its index.
    Ask(u32),
    /// Ask no candidate before this time.
    Wait(Timestamp),
}

/// The candidate that is asked when the run continues: the one in use, unless it is in cooldown; then the first that
/// may be tried, or the one whose cooldown ends first. If there is none, the first is tried all the same, so that a
/// user who has repaired a key or paid a bill need not report it here.
pub fn pick(counters: &Counters, chain: &[Candidate], limits: &Limits, now: Timestamp) -> Pick {
    if !counters.cools(counters.candidate, now) {
        return Pick::Ask(counters.candidate);
    }
    if let Some(candidate) = next(&[], counters, chain, now) {
        return Pick::Ask(candidate);
    }
    let waits = |until: &Timestamp| until.since(now).saturating_add(counters.waited_ms) <= limits.max_wait_ms;
    match counters.cooling.iter().filter_map(Cooling::reset).filter(|until| *until > now).min().filter(waits) {
        Some(until) => Pick::Wait(until),
        None => Pick::Ask(counters.candidate),
    }
}

/// Until when the candidate in use is not to be tried; none = until another has answered.
pub(crate) fn cooling_until(failure: &Failure, counters: &Counters, moment: Moment) -> Option<Timestamp> {
    let cools = rule_of(failure.class).cools;
    if cools == Cools::Nothing {
        return None;
    }
    let by_itself = cools.cooldown_ms(counters.failures(counters.candidate, Some(failure.class)) + 1);
    // The hint of the provider was used before this: if it is too short, the cooldown is as long as without it.
    Some(moment.now.plus(by_itself.max(failure.retry_after_ms.unwrap_or(0))))
}

/// The next lower level of these; of every level if there are none.
fn lower(level: Thinking, levels: &[Thinking]) -> Option<Thinking> {
    use Thinking::{High, Low, Medium, Minimal, Off, Xhigh};
    let levels = if levels.is_empty() { &[Xhigh, High, Medium, Low, Minimal, Off] } else { levels };
    levels.iter().copied().filter(|lower| *lower < level).max()
}

/// What follows a failed compaction step: it is tried once more if the cause may pass; then the request is sent with
/// the old history if that may fit; else the next step follows.
fn after_compaction(
    failure: &Failure,
    compaction: &CompactionProgress,
    window: Option<Window>,
    moment: Moment,
) -> Strategy {
    let again = matches!(rule_of(failure.class).first, First::Retry | First::RetryOnce);
    // A step that used up all its time gets no second try.
    if again && failure.class != FailureClass::Timeout && compaction.failed <= 1 {
        let delay_ms = failure.retry_after_ms.unwrap_or_else(|| backoff_ms(compaction.failed, moment.random));
        if delay_ms <= BACKOFF_MOST_MS {
            return Strategy::Compact { delay_ms, compaction_step: compaction.compaction_step, as_it_is: false };
        }
    }
    if compaction.alone {
        return Strategy::Fail;
    }
    let compaction_step = compaction.compaction_step.next();
    let fits = window.is_some_and(|window| compaction.tokens <= window.most);
    match (compaction_step, compaction.history == History::TooLong) {
        (CompactionStep::Nothing, true) => Strategy::Fail,
        (_, too_long) => Strategy::Compact {
            delay_ms: 0,
            compaction_step,
            as_it_is: !too_long && (fits || compaction_step == CompactionStep::Nothing),
        },
    }
}

/// Full jitter: between 0 and 1 s · 2^(n−1), at most 60 s.
fn backoff_ms(failed: u32, random: u64) -> u64 {
    let doublings = failed.saturating_sub(1).min(16);
    let most = (BACKOFF_BASE_MS << doublings).min(BACKOFF_MOST_MS);
    random % (most + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r14_what_follows_a_failed_summary() {
        let moment = Moment { now: Timestamp(1), random: 0 };
        let window = Some(Window { threshold: 70, most: 100, keep: 10, flush: None });
        let with = |class, compaction| after_compaction(&Failure::new(class, "no"), &compaction, window, moment);
        let compaction = |compaction_step, failed, too_long, tokens| {
            let history = if too_long { History::TooLong } else { History::Estimated };
            CompactionProgress { compaction_step, failed, history, tokens, ..CompactionProgress::default() }
        };
        let next = |delay_ms, compaction_step, as_it_is| Strategy::Compact { delay_ms, compaction_step, as_it_is };
        // Once more if the cause may pass.
        assert_eq!(
            with(FailureClass::Server, compaction(CompactionStep::Summarise, 1, false, 90)),
            next(0, CompactionStep::Summarise, false)
        );
        // Then with the old history, if that may fit.
        assert_eq!(
            with(FailureClass::Server, compaction(CompactionStep::Summarise, 2, false, 90)),
            next(0, CompactionStep::Truncate, true)
        );
        assert_eq!(
            with(FailureClass::Timeout, compaction(CompactionStep::Summarise, 1, false, 90)),
            next(0, CompactionStep::Truncate, true)
        );
        // Else the next way.
        assert_eq!(
            with(FailureClass::Timeout, compaction(CompactionStep::Summarise, 1, false, 101)),
            next(0, CompactionStep::Truncate, false)
        );
        assert_eq!(
            with(FailureClass::Auth, compaction(CompactionStep::Truncate, 1, true, 90)),
            next(0, CompactionStep::Tail, false)
        );
        // An estimate alone never ends a run; the provider's report does.
        assert_eq!(
            with(FailureClass::Refused, compaction(CompactionStep::Tail, 1, false, 101)),
            next(0, CompactionStep::Nothing, true)
        );
        assert_eq!(with(FailureClass::Refused, compaction(CompactionStep::Tail, 1, true, 101)), Strategy::Fail);
        let alone = CompactionProgress { alone: true, ..compaction(CompactionStep::Summarise, 2, false, 90) };
        assert_eq!(with(FailureClass::Server, alone), Strategy::Fail);
    }
}
