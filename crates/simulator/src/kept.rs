//! Cases that failed in the past. They are kept as printed and replayed before anything else.

use std::fmt;
use std::str::FromStr;

use crate::case::{Case, InvalidCase};
use crate::queue::Interleaving;
use crate::random::Trial;

const FAILED_SEEDS: &str = include_str!("../failed-seeds.txt");

/// A case of any mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// A case of the exhaustive mode.
    Point(Case),
    /// A random case.
    Drawn(Trial),
    /// A case of the queue alone.
    Queue(Interleaving),
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Point(case) => case.fmt(f),
            Self::Drawn(trial) => trial.fmt(f),
            Self::Queue(case) => case.fmt(f),
        }
    }
}

impl FromStr for Kept {
    type Err = InvalidCase;

    fn from_str(text: &str) -> Result<Self, InvalidCase> {
        match text {
            _ if text.starts_with("MODE=queue ") => text.parse().map(Self::Queue),
            _ if text.starts_with("MODE=") => text.parse().map(Self::Drawn),
            _ => text.parse().map(Self::Point),
        }
    }
}

/// The cases of `failed-seeds.txt`.
pub fn kept_cases() -> Vec<Kept> {
    let lines = FAILED_SEEDS.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.parse().expect("each line of failed-seeds.txt is a case: a test reads it")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;

    #[test]
    fn cases_that_once_failed_are_of_known_seeds() {
        let known = |kept: &Kept| match kept {
            Kept::Point(case) => Plan::new(case.seed).is_some(),
            Kept::Drawn(_) | Kept::Queue(_) => true,
        };
        assert!(kept_cases().iter().all(known));
        for text in ["SEED=1 CRASH=2:process SECOND=none", "MODE=random SEED=4 FAULTS=9:eio", "MODE=queue SEED=4"] {
            assert_eq!(text.parse::<Kept>().unwrap().to_string(), text);
        }
    }
}
