//! The enumeration: every crash of every seed, and second crashes after each.

use std::sync::Arc;

use engine::Hash;

use crate::case::{Case, Crash};
use crate::checkers;
use crate::invariant::{Invariant, Violation};
use crate::plan::Plan;
use crate::report::Tally;
use crate::world::{Trace, Watch, World};

/// The number of operations after a first crash at which a second may come.
pub const SECOND_CRASHES: u32 = 40;

/// One in this many points has its cases run again from the start and compared.
const REPEATED_EVERY: u32 = 16;

/// A case that violated an invariant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{case} {violation}")]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Failure {
    pub case: Case,
    pub violation: Violation,
}

/// Which of the cases are run.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// One in this many points gets first crashes; 1 = all.
    pub first_every: u32,
    /// How many pairs of forms are run: for each first crash, a second one comes at each of the next points, and this
    /// many forms of the first are combined with one form of the second, in turn. 0 = no second crashes.
    pub pairs: u32,
}

impl Extent {
    /// Whether a pair of forms is run: the form of the first crash at its index, and that of the second at its index.
    /// The choice rotates from point to point; with as many pairs as there are, all are run.
    fn draws(self, (first, firsts): CaseShare, (second, seconds): CaseShare, at: (u32, u32)) -> bool {
        let (place, places) = (first * seconds + second, firsts * seconds);
        let turn = (at.0 as usize * (seconds + 1) + at.1 as usize) % places;
        (place + places - turn) % places < self.pairs as usize
    }
}

/// An index, and the number of choices.
type CaseShare = (usize, usize);

/// Explores the crash points of one seed.
#[derive(Debug)]
pub struct Explorer<'a> {
    plan: Arc<Plan>,
    extent: Extent,
    tally: &'a mut Tally,
}

impl<'a> Explorer<'a> {
    /// Creates an explorer of this seed.
    pub fn new(plan: Arc<Plan>, extent: Extent, tally: &'a mut Tally) -> Self {
        Self { plan, extent, tally }
    }

    /// Runs the seed with a crash at every point, and without one.
    pub fn explore(&mut self) -> Result<(), Failure> {
        let case = Case { seed: self.plan.seed.seed, first: None, second: None };
        let failed = |violation| Failure { case, violation };
        let mut world = World::begin(&self.plan, Watch::Appends).map_err(failed)?;
        let (mut at, mut operation) = (0, Some("opened"));
        while let Some(name) = operation {
            if at % self.extent.first_every == 0 {
                self.crash_here(&world, at, name)?;
            }
            operation = world.step().map_err(failed)?;
            at += 1;
        }
        self.tally.points.push((case.seed, at));
        finish(&mut world).map_err(failed)?;
        self.repeat(case, &world)
    }

    fn crash_here(&mut self, world: &World, at: u32, operation: &'static str) -> Result<(), Failure> {
        let forms = world.outside().forms();
        for (place, form) in forms.iter().enumerate() {
            self.tally.hit((world.phase(), operation));
            let first = Crash { at, form: *form };
            let done = self.crash_once(world, first, (place, forms.len()))?;
            if at.is_multiple_of(REPEATED_EVERY) {
                self.repeat(Case { seed: self.plan.seed.seed, first: Some(first), second: None }, &done)?;
            }
        }
        Ok(())
    }

    /// A first crash: the world continues to its end, and crashes again on the way.
    fn crash_once(&mut self, world: &World, first: Crash, place: CaseShare) -> Result<World, Failure> {
        let case = Case { seed: self.plan.seed.seed, first: Some(first), second: None };
        let failed = |violation| Failure { case, violation };
        self.tally.single += 1;
        let mut next = world.crashed(first.form).map_err(failed)?;
        let mut operation = Some("opened");
        for at in 0..SECOND_CRASHES {
            let Some(name) = operation.filter(|_| self.extent.pairs > 0) else { break };
            let forms = next.outside().forms();
            for (second, form) in forms.iter().enumerate() {
                if self.extent.draws(place, (second, forms.len()), (first.at, at)) {
                    let case = Case { second: Some(Crash { at, form: *form }), ..case };
                    self.tally.hit((next.phase(), name));
                    self.tally.double += 1;
                    let done = next.crashed(*form).and_then(|mut last| finish(&mut last));
                    done.map_err(|violation| Failure { case, violation })?;
                } else {
                    self.tally.left_out += 1;
                }
            }
            operation = next.step().map_err(failed)?;
        }
        finish(&mut next).map_err(failed)?;
        Ok(next)
    }

    /// Runs a case again from the start: it must do the same as before.
    fn repeat(&mut self, case: Case, done: &World) -> Result<(), Failure> {
        self.tally.repeated += 1;
        let again = replay(&self.plan, case, Describe::Nothing).1;
        again.and_then(|again| same(done, &again)).map_err(|violation| Failure { case, violation })
    }
}

/// Checks that two runs of a case did the same.
pub(crate) fn same(first: &World, again: &World) -> Result<(), Violation> {
    let ends = (fingerprint(first)?, fingerprint(again)?);
    Invariant::Repeat.holds(ends.0 == ends.1, || format!("it ends with {:?}, then with {:?}", ends.0, ends.1))
}

/// Hashes of all operations and all entries of a world.
fn fingerprint(world: &World) -> Result<(Trace, Option<Hash>), Violation> {
    let entries = world.outside().disk.entries()?;
    Ok((world.outside().trace(), entries.last().map(|entry| entry.chain)))
}

fn finish(world: &mut World) -> Result<(), Violation> {
    world.settle()?;
    checkers::check(world.outside())
}

/// How much of a case is described.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Describe {
    /// Only its result is reported.
    Nothing,
    /// Its operations, and the last entries of the journal; also for a case that fails.
    Story,
}

/// Runs one case from the start.
pub fn replay(plan: &Arc<Plan>, case: Case, describe: Describe) -> (Vec<String>, Result<World, Violation>) {
    let mut world = match World::begin(plan, Watch::Ends) {
        Ok(world) => world,
        Err(violation) => return (vec![], Err(violation)),
    };
    if describe == Describe::Story {
        world.describe();
    }
    let result = crash_and_finish(&mut world, case);
    let mut story = world.story().to_vec();
    if describe == Describe::Story {
        story.push("the journal ends with".into());
        story.extend(checkers::last_entries(world.outside(), 20));
    }
    (story, result.map(|()| world))
}

fn crash_and_finish(world: &mut World, case: Case) -> Result<(), Violation> {
    for crash in [case.first, case.second].into_iter().flatten() {
        for _ in 0..crash.at {
            if world.step()?.is_none() {
                break;
            }
        }
        *world = world.crashed(crash.form)?;
    }
    finish(world)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_of_points_is_drawn_in_as_many_pairs_of_forms_as_asked() {
        for pairs in [0, 1, 2, 3, u32::MAX] {
            let extent = Extent { first_every: 1, pairs };
            for (at, firsts, seconds) in [((0, 0), 3, 4), ((17, 39), 5, 2), ((400, 8), 4, 9)] {
                let places = (0..firsts).flat_map(|first| (0..seconds).map(move |second| (first, second)));
                let drawn = places.filter(|(first, second)| extent.draws((*first, firsts), (*second, seconds), at));
                assert_eq!(drawn.count(), (pairs as usize).min(firsts * seconds), "{pairs} at {at:?}");
            }
        }
    }
}
