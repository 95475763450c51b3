//! Every harm at every operation of the disk, from the creation of the journal to its last close, in one workload.

use super::run::{Counts, run};
use super::trial::{Failed, Mode, Trial};
use crate::explore::Describe;
use crate::fault::{Fault, PlannedFault};
use crate::hit::{Harm, Hit};
use crate::world::File;

/// The seed of a small workload: one run, a call in the process, a supervised one, an answer.
pub const SMALL: u64 = 24;

/// The cases of a seed's workload: each harm at the first operation to which it applies, at the second, and so on to
/// the last one of the undisturbed workload.
pub fn every_operation(seed: u64) -> Result<Vec<Trial>, Failed> {
    let whole = Trial { faults: Some(vec![]), ..Trial::new(Mode::Disk, seed) };
    let world = run(&whole, Describe::Nothing, &mut Counts::default()).1;
    let world = world.map_err(|violation| Failed { trial: whole.clone(), violation })?;
    let operations = world.outside().disk.file().map_or_else(Vec::new, File::log);
    let mut trials = vec![];
    for harm in Harm::all() {
        let what = Hit { harm, nth: 1 }.fault().what;
        let reached = operations.iter().filter(|operation| what.applies_to(operation.kind)).count() as u64;
        trials.extend((1..=reached).map(|nth| {
            let inject = PlannedFault { at: 0, fault: Fault::Disk(Hit { harm, nth }) };
            Trial { faults: Some(vec![inject]), ..whole.clone() }
        }));
    }
    Ok(trials)
}

#[cfg(test)]
mod tests {
    use engine::Event;

    use super::*;
    use crate::case::Form;

    const FORMS: [Form; 6] = [
        Form::Process,
        Form::Ended,
        Form::Power { keep: 0 },
        Form::Power { keep: 1 },
        Form::Power { keep: 2 },
        Form::Power { keep: 3 },
    ];
    /// Workloads in which a history is compacted, after some other way failed.
    const WORKLOADS: usize = 6;

    fn events(trial: &Trial) -> (Vec<Event>, u64) {
        let mut counts = Counts::default();
        let world =
            run(trial, Describe::Nothing, &mut counts).1.unwrap_or_else(|violation| panic!("{trial} {violation}"));
        let entries = world.outside().disk.entries().expect("they can be read");
        (entries.into_iter().map(|entry| entry.event).collect(), counts.operations)
    }

    fn is_made_shorter(events: &[Event]) -> bool {
        let any = |of: fn(&Event) -> bool| events.iter().any(of);
        any(|event| matches!(event, Event::Compacted(_))) && any(|event| matches!(event, Event::CompactionFailed(_)))
    }

    /// How many owners came during a compaction, while the old history was in force.
    fn came_in_between(events: &[Event]) -> usize {
        let (mut is_begun, mut came) = (false, 0);
        for event in events {
            match event {
                Event::CompactionBegun(_) => is_begun = true,
                Event::Compacted(_) | Event::ResultsTruncated(_) | Event::CompactionFailed(_) | Event::RunEnded(_) => {
                    is_begun = false;
                }
                Event::Opened(_) => came += usize::from(is_begun),
                _ => {}
            }
        }
        came
    }

    /// R14, R25: the old history or the new one is in force, never a mixture, whenever the crash comes: all invariants
    /// are checked after each.
    #[test]
    fn r14_r25_a_crash_before_every_operation_of_a_compaction_leaves_one_history_whole() {
        let whole = |seed| Trial { faults: Some(vec![]), ..Trial::new(Mode::Random, seed) };
        let seeds = (1..).filter(|seed| is_made_shorter(&events(&whole(*seed)).0)).take(WORKLOADS);
        let mut between = [0; FORMS.len()];
        for seed in seeds {
            let operations = events(&whole(seed)).1 as u32;
            for (form, between) in FORMS.iter().zip(&mut between) {
                for at in 1..=operations {
                    let faults = Some(vec![PlannedFault { at, fault: Fault::Crash(*form) }]);
                    *between += came_in_between(&events(&Trial { faults, ..whole(seed) }).0);
                }
            }
        }
        assert!(between.iter().all(|times| *times > WORKLOADS), "{between:?}");
    }
}
