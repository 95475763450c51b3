//! Shrinks a failing case: removes whatever can go while the same invariant is still violated.

use super::draw::{faults_of, plan_of};
use super::run::{Counts, run};
use super::trial::{Failed, Part, Trial};
use crate::explore::Describe;
use crate::fault::PlannedFault;
use crate::invariant::Invariant;

/// The most cases that are tried.
const MOST_TRIES: u32 = 3_000;

/// The smallest case found that violates the same invariant.
pub fn smallest(failed: Failed) -> Failed {
    // A case that does not repeat cannot be compared with itself.
    if failed.violation.invariant == Invariant::Repeat {
        return failed;
    }
    let mut search = Search { best: failed, tries: 0 };
    while search.tries < MOST_TRIES && search.round() {}
    search.best
}

struct Search {
    best: Failed,
    tries: u32,
}

impl Search {
    /// Tries all cases that are one step smaller; returns whether one of them fails.
    fn round(&mut self) -> bool {
        let mut found = false;
        while let Some(better) = smaller(&self.best.trial).into_iter().find_map(|trial| self.still_fails(trial)) {
            self.best = better;
            found = true;
        }
        found
    }

    fn still_fails(&mut self, trial: Trial) -> Option<Failed> {
        if self.tries >= MOST_TRIES {
            return None;
        }
        self.tries += 1;
        let violation = run(&trial, Describe::Nothing, &mut Counts::default()).1.err()?;
        (violation.invariant == self.best.violation.invariant).then_some(Failed { trial, violation })
    }
}

/// All cases that are one step smaller, the largest steps first.
fn smaller(trial: &Trial) -> Vec<Trial> {
    let faults = faults_of(trial);
    let with = |faults: Vec<PlannedFault>| Trial { faults: Some(faults), ..trial.clone() };
    let mut found = vec![];
    if faults.len() > 1 {
        let half = faults.len() / 2;
        found.push(with(faults[..half].to_vec()));
        found.push(with(faults[half..].to_vec()));
    }
    for at in 0..faults.len() {
        let mut less = faults.clone();
        less.remove(at);
        found.push(with(less));
    }
    found.extend(parts(trial).into_iter().filter(|part| !trial.dropped.contains(part)).map(|part| {
        let dropped = trial.dropped.iter().copied().chain([part]).collect();
        Trial { dropped, faults: Some(faults.clone()), ..trial.clone() }
    }));
    for (at, inject) in faults.iter().enumerate() {
        let mut changed = |inject: PlannedFault| {
            let mut less = faults.clone();
            less[at] = inject;
            less.sort_by_key(|inject| inject.at);
            found.push(with(less));
        };
        inject.fault.smaller().into_iter().for_each(|fault| changed(PlannedFault { fault, ..*inject }));
        let sooner = [inject.at / 2, inject.at - inject.at / 8, inject.at.saturating_sub(1)];
        sooner.into_iter().filter(|at| *at < inject.at).for_each(|at| changed(PlannedFault { at, ..*inject }));
    }
    found
}

/// The parts of the drawn workload that can be left out.
fn parts(trial: &Trial) -> Vec<Part> {
    let whole = plan_of(&Trial { dropped: vec![], ..trial.clone() });
    let runs = &whole.workload.runs;
    let mut parts: Vec<Part> = (0..runs.len()).rev().map(Part::Message).collect();
    parts.extend((0..whole.workload.candidates.len()).rev().map(Part::Candidate));
    for (run, script) in runs.iter().enumerate() {
        // The last turn is the answer; it asks for nothing.
        parts.extend((0..script.turns.len() - 1).map(|turn| Part::Turn(run, turn)));
        let failing = script.turns.iter().enumerate().filter(|(_, turn)| turn.failure.is_some());
        parts.extend(failing.map(|(turn, _)| Part::Failure(run, turn)));
        let odd = script.turns.iter().enumerate().filter(|(_, turn)| turn.odd.is_some());
        parts.extend(odd.map(|(turn, _)| Part::Odd(run, turn)));
        let is_used = script.again.is_some() || script.cancel || script.pause.is_some() || script.abort.is_some();
        parts.extend(is_used.then_some(Part::User(run)));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Mode;

    #[test]
    fn each_smaller_case_differs_and_reads_as_it_is_printed() {
        let trial = Trial::new(Mode::Liveness, 5);
        let found = smaller(&trial);
        assert!(found.len() > 10);
        for smaller in found {
            assert_ne!(smaller, Trial { faults: Some(faults_of(&trial)), ..trial.clone() });
            assert_eq!(smaller.to_string().parse(), Ok(smaller));
        }
    }
}
