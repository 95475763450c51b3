//! Every harm at every operation of the disk, from the making of the journal to its last close, in one workload.

use super::run::{Counts, run};
use super::trial::{Failed, Mode, Trial};
use crate::explore::Tell;
use crate::fault::{Fault, Strike};
use crate::hit::{Harm, Hit};
use crate::world::File;

/// The seed of a small workload: one run, a call in the process, a supervised one, an answer.
pub const SMALL: u64 = 24;

/// The cases of a seed's workload: each harm at the first operation that it can happen to, at the second, and so on to
/// the last one that there is without it.
pub fn every_operation(seed: u64) -> Result<Vec<Trial>, Failed> {
    let whole = Trial { strikes: Some(vec![]), ..Trial::new(Mode::Disk, seed) };
    let world = run(&whole, Tell::Nothing, &mut Counts::default()).1;
    let world = world.map_err(|violation| Failed { trial: whole.clone(), violation })?;
    let operations = world.outside().disk.file().map_or_else(Vec::new, File::log);
    let mut trials = vec![];
    for harm in Harm::all() {
        let what = Hit { harm, nth: 1 }.fault().what;
        let reached = operations.iter().filter(|operation| what.applies_to(operation.kind)).count() as u64;
        trials.extend((1..=reached).map(|nth| {
            let strike = Strike { at: 0, fault: Fault::Disk(Hit { harm, nth }) };
            Trial { strikes: Some(vec![strike]), ..whole.clone() }
        }));
    }
    Ok(trials)
}
