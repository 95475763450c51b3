//! Coverage: pairs of phase and operation with their counts, and the number of cases.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use crate::invariant::Invariant;

/// The pairs that the workload reaches, checked in: a pair that is no longer reached is a failure.
const PAIRS: &str = include_str!("../pairs.txt");

/// A phase of the session, and the operation after which it crashed.
pub type Pair = (&'static str, &'static str);

/// Counts of what was run.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Crashes at each pair.
    pub pairs: BTreeMap<Pair, u64>,
    /// Cases with one crash.
    pub single: u64,
    /// Cases with two crashes.
    pub double: u64,
    /// Double crashes that the sampling left out.
    pub left_out: u64,
    /// Cases that were run a second time and compared.
    pub repeated: u64,
    /// Crash points of each seed's first process.
    pub points: Vec<(u64, u32)>,
}

impl Tally {
    /// Counts a crash at this pair.
    pub fn hit(&mut self, pair: Pair) {
        *self.pairs.entry(pair).or_default() += 1;
    }

    /// Adds the counts of another tally.
    pub fn add(&mut self, other: Self) {
        for (pair, hits) in other.pairs {
            *self.pairs.entry(pair).or_default() += hits;
        }
        self.single += other.single;
        self.double += other.double;
        self.left_out += other.left_out;
        self.repeated += other.repeated;
        self.points.extend(other.points);
    }

    /// The number of all cases.
    pub fn cases(&self) -> u64 {
        self.single + self.double
    }

    /// Pairs that are checked in and were not reached.
    pub fn missing(&self) -> Vec<String> {
        let reached: BTreeSet<String> =
            self.pairs.keys().map(|(phase, operation)| format!("{phase} {operation}")).collect();
        let known = PAIRS.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        known.filter(|pair| !reached.contains(*pair)).map(str::to_owned).collect()
    }
}

/// A tally with the time that it took.
#[derive(Debug)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Report<'a> {
    pub tally: &'a Tally,
    pub took: Duration,
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { pairs, single, double, left_out, repeated, points, .. } = self.tally;
        let mut phase = "";
        writeln!(f, "crashes by phase and operation")?;
        for ((of, operation), count) in pairs {
            let head = if *of == phase { "" } else { of };
            phase = of;
            writeln!(f, "  {head:<10} {operation:<16} {count:>8}")?;
        }
        for (seed, points) in points {
            writeln!(f, "seed {seed}: {points} crash points, each with every form of crash")?;
        }
        let rate = self.tally.cases() as f64 / self.took.as_secs_f64().max(0.001);
        writeln!(f, "{} pairs, none zero; {} invariants", pairs.len(), Invariant::ALL.len())?;
        writeln!(f, "{single} cases with one crash: every point in every form")?;
        writeln!(
            f,
            "{double} cases with a second one at each of the next 40 points ({left_out} more pairs of forms not drawn)"
        )?;
        writeln!(f, "{repeated} cases run twice, with equal traces and equal journals")?;
        write!(f, "{} cases in {:.1} s: {rate:.0} cases/s, no violation", self.tally.cases(), self.took.as_secs_f64())
    }
}
