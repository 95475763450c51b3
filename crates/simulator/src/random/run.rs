//! Runs random cases, each twice, until a number of cases or a time is reached.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use engine::Event;
use engine::tables::limits::{BACKOFF_MOST_MS, BLOCK_IDLE_MS, DELIVERY_RETRIES_MS, END_GRACE_MS};

use super::draw::{faults_of, plan_of};
use super::trial::{Failed, Mode, Trial};
use crate::checkers;
use crate::explore::{Describe, same};
use crate::fault::{Fault, PlannedFault};
use crate::invariant::{Invariant, Violation};
use crate::world::{Disk, Watch, World};

/// How much to run.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Sweep {
    /// The mode of the cases.
    pub mode: Mode,
    pub seed: u64,
    pub cases: u64,
    pub time: Duration,
}

/// Counts of what was run.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Cases; each was run twice.
    pub cases: u64,
    /// Operations, without those of the second runs.
    pub operations: u64,
    /// Faults that happened, by name.
    pub faults: BTreeMap<&'static str, u64>,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.cases += other.cases;
        self.operations += other.operations;
        for (name, count) in &other.faults {
            *self.faults.entry(name).or_default() += count;
        }
    }
}

/// Draws cases and runs them on every core. Returns the failure with the lowest seed among those found.
pub fn sweep(sweep: Sweep) -> (Counts, Option<Failed>) {
    let drawn = |at| (at < sweep.cases).then(|| Trial::new(sweep.mode, sweep.seed.wrapping_add(at)));
    sweep_over(drawn, twice, Instant::now() + sweep.time)
}

/// Runs each of these cases once, on every core. Returns the first failure that was found.
pub fn sweep_all(trials: &[Trial]) -> (Counts, Option<Failed>) {
    let end = Instant::now() + Duration::from_hours(24);
    sweep_over(|at| trials.get(at as usize).cloned(), once, end)
}

/// Runs cases by their numbers from 0, until there are no more or the time is over.
fn sweep_over(
    trial: impl Fn(u64) -> Option<Trial> + Sync,
    run: fn(&Trial, &mut Counts) -> Result<(), Violation>,
    end: Instant,
) -> (Counts, Option<Failed>) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, found) = (AtomicU64::new(0), AtomicBool::new(false));
    let work = || {
        let mut counts = Counts::default();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            // The other threads stop at their next case.
            let is_over = found.load(Ordering::Relaxed) || Instant::now() >= end;
            let Some(trial) = trial(at).filter(|_| !is_over) else { return (counts, None) };
            if let Err(violation) = run(&trial, &mut counts) {
                found.store(true, Ordering::Relaxed);
                return (counts, Some((at, Failed { trial, violation })));
            }
        }
    };
    let done = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let joined =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        joined.collect::<Vec<_>>()
    });
    let mut counts = Counts::default();
    let mut failed = vec![];
    for (each, failure) in done {
        counts.add(&each);
        failed.extend(failure);
    }
    (counts, failed.into_iter().min_by_key(|(at, _)| *at).map(|(_, failed)| failed))
}

/// Runs a case once.
fn once(trial: &Trial, counts: &mut Counts) -> Result<(), Violation> {
    counts.cases += 1;
    run(trial, Describe::Nothing, counts).1.map(drop)
}

/// Runs a case twice: it must do the same both times.
pub fn twice(trial: &Trial, counts: &mut Counts) -> Result<(), Violation> {
    counts.cases += 1;
    let first = run(trial, Describe::Nothing, counts).1?;
    let again = run(trial, Describe::Nothing, &mut Counts::default()).1?;
    same(&first, &again)
}

/// Runs a case once, and describes it if requested. A panic anywhere counts as a step outside of the tables.
pub fn run(trial: &Trial, describe: Describe, counts: &mut Counts) -> (Vec<String>, Result<World, Violation>) {
    let plan = Arc::new(plan_of(trial));
    let mut faults = faults_of(trial);
    let mut disk = Disk::new(trial.mode.medium(), trial.seed);
    faults.retain(|inject| !is_set_before(*inject, &mut disk, counts));
    let mut world = match World::begin_on(disk, &plan, Watch::Ends) {
        Ok(world) => world,
        Err(violation) => return (vec![], Err(violation)),
    };
    if describe == Describe::Story {
        world.describe();
    }
    let done = catch_unwind(AssertUnwindSafe(|| inject_and_settle(&mut world, &faults, counts)));
    let done = done.unwrap_or_else(|_| Err(Invariant::Edge.violated("the machine panicked")));
    counts.operations += u64::from(world.operations());
    let mut story = world.story().to_vec();
    if describe == Describe::Story {
        story.push("the journal ends with".into());
        story.extend(checkers::last_entries(world.outside(), 60));
    }
    (story, done.map(|()| world))
}

/// Sets a fault before the first operation of the world: if the journal is a file, it happens while the journal is
/// created.
fn is_set_before(inject: PlannedFault, disk: &mut Disk, counts: &mut Counts) -> bool {
    let PlannedFault { at: 0, fault: Fault::Disk(hit) } = inject else { return false };
    *counts.faults.entry(inject.fault.name()).or_default() += 1;
    disk.set(hit);
    true
}

fn inject_and_settle(world: &mut World, faults: &[PlannedFault], counts: &mut Counts) -> Result<(), Violation> {
    for inject in faults {
        while world.operations() < inject.at && world.step()?.is_some() {}
        if world.operations() < inject.at {
            break;
        }
        *counts.faults.entry(inject.fault.name()).or_default() += 1;
        world.inject(inject.fault)?;
    }
    world.settle()?;
    settles_in_time(world)?;
    checkers::check(world.outside())
}

/// Checks that the world became quiet in time: after the last fault every run had its hanging calls, its own deadline or
/// one time without progress, the waits of its tries, and an end. Deliveries follow one another, each with all of its tries.
pub(crate) fn settles_in_time(world: &World) -> Result<(), Violation> {
    let plan = &world.outside().plan;
    let limits = plan.limits();
    let tries: u64 = plan.workload.runs.iter().map(|run| run.turns.len() as u64 * u64::from(limits.retries + 1)).sum();
    let runs = plan.workload.runs.len() as u64 + 1;
    let of_a_run = limits.deadline_ms.or(limits.stall_ms).unwrap_or_default();
    // Also those of a paused run, whose own clock stands still.
    let hanging = plan.hanging_calls() * limits.tool_timeout_ms;
    let most = runs * (of_a_run + END_GRACE_MS) + hanging + tries * (BACKOFF_MOST_MS + limits.first_byte_timeout_ms);
    let entries = world.outside().disk.entries()?;
    let deliveries = entries.iter().filter(|entry| matches!(entry.event, Event::DeliveryWanted(_))).count() as u64;
    let of_a_delivery = DELIVERY_RETRIES_MS.iter().sum::<u64>() / 10 * 11 + BLOCK_IDLE_MS;
    let most = most + plan.background_ms() + plan.waits_ms() + deliveries * of_a_delivery;
    let took = world.outside().now.since(world.outside().past.until);
    Invariant::Liveness
        .holds(took <= most, || format!("it took {took} ms after the last fault, at most {most} are allowed"))
}
