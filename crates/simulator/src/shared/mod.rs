//! Several sessions that share one ledger: the real machines and the ledger, each with its pump, over one in-memory
//! journal, with a crash after each operation in every form. What may not live here: calls, streams and the queue,
//! which the other worlds test.

mod ledger_oracle;
mod play;

use std::fmt;
use std::ops::AddAssign;
use std::str::FromStr;
use std::time::Duration;

use crate::case::InvalidCase;
use crate::invariant::Violation;

#[cfg(test)]
pub(crate) use ledger_oracle::LedgerOracle;
pub use play::play;

/// One case: a seed, and after how many operations the process crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Sharing {
    pub seed: u64,
    /// The crash; none = the process never crashes.
    pub crash: Option<Dies>,
}

/// A crash of the process or the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dies {
    /// The number of operations before it.
    pub after: u32,
    /// How many unsynced batches survive a loss of power; none = only the process crashes, and all survive.
    pub keep: Option<usize>,
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MODE=shared SEED={}", self.seed)?;
        match self.crash {
            None => Ok(()),
            Some(Dies { after, keep: None }) => write!(f, " CRASH={after}:process"),
            Some(Dies { after, keep: Some(keep) }) => write!(f, " CRASH={after}:power/{keep}"),
        }
    }
}

impl FromStr for Sharing {
    type Err = InvalidCase;

    fn from_str(text: &str) -> Result<Self, InvalidCase> {
        let parse = || {
            let rest = text.strip_prefix("MODE=shared SEED=")?;
            let Some((seed, crash)) = rest.split_once(" CRASH=") else {
                return Some(Self { seed: rest.parse().ok()?, crash: None });
            };
            let (after, form) = crash.split_once(':')?;
            let keep = match form.strip_prefix("power/") {
                Some(keep) => Some(keep.parse().ok()?),
                None if form == "process" => None,
                None => return None,
            };
            Some(Self { seed: seed.parse().ok()?, crash: Some(Dies { after: after.parse().ok()?, keep }) })
        };
        parse().ok_or_else(|| InvalidCase { text: text.to_owned() })
    }
}

/// Counts of what was played.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Counts {
    pub cases: u64,
    pub crashes: u64,
    /// Requests that were sent.
    pub requests: u64,
    /// Cooldowns that the ledger recorded.
    pub cooled: u64,
    /// Those of them that began after an earlier cooldown of the same profile was over.
    pub expired: u64,
    /// Cooldowns that an unfinished run learned from another run.
    pub learned: u64,
    /// Cooldowns of a run that a user cleared.
    pub cleared: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.cases += other.cases;
        self.crashes += other.crashes;
        self.requests += other.requests;
        self.cooled += other.cooled;
        self.expired += other.expired;
        self.learned += other.learned;
        self.cleared += other.cleared;
    }
}

/// A case that violated an invariant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{case} {violation}")]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Broken {
    pub case: Sharing,
    pub violation: Violation,
}

/// Plays this many seeds starting with this one, each with a crash after every operation in every form, on every core,
/// until one violates an invariant or the time is over.
pub fn sweep(seed: u64, seeds: u64, time: Duration) -> (Counts, Option<Broken>) {
    crate::sweep::sweep(seed, (seeds, time), everywhere)
}

/// Plays one seed without a crash, then with a crash after each of its operations in every form.
fn everywhere(seed: u64, counts: &mut Counts, is_over: &dyn Fn() -> bool) -> Result<(), Broken> {
    let forms = play(Sharing { seed, crash: None }, counts)?;
    for (after, unsynced) in (0..).zip(forms) {
        for keep in std::iter::once(None).chain((0..=unsynced).map(Some)) {
            if is_over() {
                return Ok(());
            }
            play(Sharing { seed, crash: Some(Dies { after, keep }) }, counts)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r50_r54_what_sessions_share_survives_a_crash_after_every_operation() {
        let (counts, broken) = sweep(1, 8, Duration::MAX);
        assert_eq!(broken, None);
        assert!(counts.crashes > 200 && counts.cooled > counts.cases, "{counts:?}");
        assert!(counts.expired > 0 && counts.learned > 0 && counts.cleared > 0, "{counts:?}");
    }

    #[test]
    fn a_case_reads_as_it_is_written() {
        for crash in [None, Some(Dies { after: 7, keep: None }), Some(Dies { after: 7, keep: Some(2) })] {
            let case = Sharing { seed: 3, crash };
            assert_eq!(case.to_string().parse(), Ok(case));
        }
        for text in ["MODE=shared SEED=x", "MODE=shared SEED=1 CRASH=2", "MODE=shared SEED=1 CRASH=2:fire"] {
            assert!(text.parse::<Sharing>().is_err(), "{text}");
        }
    }
}
