//! The queue alone, many times over: messages of every mode in any interleaving with runs, pauses, aborts, restarts and
//! what is asked of the queue, judged by a second model of the routing that shares nothing with the engine's.

mod legs;
mod naive;
mod play;

use std::time::{Duration, Instant};

pub use play::{Interleaving, play};

/// What was played.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Played {
    /// Interleavings.
    pub cases: u64,
    /// Messages that were taken.
    pub messages: u64,
    /// Inputs that were decided on.
    pub inputs: u64,
}

/// An interleaving that broke a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{case}: {what}")]
pub struct Broken {
    /// Which.
    pub case: Interleaving,
    /// The rule, and where.
    pub what: String,
}

/// Plays interleavings from this seed on, on every core, until one breaks a rule or there were enough.
pub fn sweep(seed: u64, cases: u64, time: Duration) -> (Played, Option<Broken>) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let began = Instant::now();
    let one = |core: u64| {
        let mut played = Played::default();
        let mine = (seed..seed.saturating_add(cases)).skip(core as usize).step_by(cores as usize);
        for seed in mine.take_while(|_| began.elapsed() < time) {
            if let Err(broken) = play(Interleaving { seed }, &mut played) {
                return (played, Some(broken));
            }
        }
        (played, None)
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|core| scope.spawn(move || one(core))).collect();
        let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined.map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    let mut all = Played::default();
    let mut first: Option<Broken> = None;
    for (played, broken) in results {
        all.cases += played.cases;
        all.messages += played.messages;
        all.inputs += played.inputs;
        first = first.into_iter().chain(broken).min_by_key(|broken| broken.case.seed);
    }
    (all, first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r30_r31_r33_r34_the_second_model_of_the_queue_agrees_with_the_engine() {
        let (played, broken) = sweep(1, 2_000, Duration::MAX);
        assert_eq!(broken, None);
        assert!(played.messages > 10 * played.cases, "{played:?}");
    }

    #[test]
    fn an_interleaving_reads_as_it_is_written() {
        let case = Interleaving { seed: 7 };
        assert_eq!(case.to_string().parse(), Ok(case));
        assert!("MODE=queue SEED=x".parse::<Interleaving>().is_err());
    }
}
