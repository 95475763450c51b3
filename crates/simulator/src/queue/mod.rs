//! Many interleavings of the queue alone: messages of every mode, mixed with runs, pauses, breakpoints, aborts, resets,
//! restarts and requests about the queue, judged by a second implementation of the routing that shares no code with the
//! engine's.

mod legs;
mod oracle;
mod play;

use std::ops::AddAssign;
use std::time::Duration;

use play::KINDS;
pub use play::{Interleaving, describe, play};

/// Counts of what was played.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Played {
    pub cases: u64,
    /// Messages that were sent.
    pub messages: u64,
    /// Inputs that the machine decided on.
    pub inputs: u64,
    /// Other actions, in the order of [`Played::kinds`].
    moves: [u64; KINDS.len()],
}

impl Played {
    /// Other actions by name, with their counts.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, u64)> {
        KINDS.into_iter().zip(self.moves)
    }
}

impl AddAssign for Played {
    fn add_assign(&mut self, other: Self) {
        self.cases += other.cases;
        self.messages += other.messages;
        self.inputs += other.inputs;
        self.moves.iter_mut().zip(other.moves).for_each(|(all, more)| *all += more);
    }
}

/// An interleaving that broke a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{case}: {what}")]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Broken {
    pub case: Interleaving,
    /// The rule, and where it was broken.
    pub what: String,
}

/// Plays interleavings starting with this seed, on every core, until one breaks a rule or the limit is reached.
pub fn sweep(seed: u64, cases: u64, time: Duration) -> (Played, Option<Broken>) {
    crate::sweep::sweep(seed, (cases, time), |seed, played, _| play(Interleaving { seed }, played))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r16_r30_r31_r32_r33_r34_r62_the_oracle_of_the_queue_agrees_with_the_engine() {
        let (played, broken) = sweep(1, 2_000, Duration::MAX);
        assert_eq!(broken, None);
        assert!(played.messages > 10 * played.cases, "{played:?}");
        assert!(played.kinds().all(|(_, times)| times > played.cases / 4), "{played:?}");
    }

    #[test]
    fn an_interleaving_reads_as_it_is_written() {
        let case = Interleaving { seed: 7 };
        assert_eq!(case.to_string().parse(), Ok(case));
        assert!("MODE=queue SEED=x".parse::<Interleaving>().is_err());
    }
}
