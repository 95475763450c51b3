//! Compares what is stored of a session with its script, step by step: events, their chain, bodies, progress, its row.

use engine::{Epoch, Hash, Record};
use journal::{Entry, Read as _, Reader};

use super::script::{self, Script};

/// How far a session was verified.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) done: u64,
    pub(super) chain: Hash,
    /// Which owner appended from which step on.
    pub(super) epochs: Vec<(u64, Epoch)>,
}

/// The stored data that is compared with the script, step by step.
pub(super) struct Expected<'a> {
    pub(super) script: &'a Script,
    pub(super) known: &'a mut Known,
    pub(super) entries: std::slice::Iter<'a, Entry>,
    pub(super) progress: std::slice::Iter<'a, Record>,
}

impl Expected<'_> {
    /// Compares the session up to this step; an error is the first difference.
    pub(super) fn all(&mut self, steps: u64, reader: &Reader) -> Result<(), String> {
        for step in self.known.done..steps {
            let batch = self.script.batch(step);
            for record in &batch.records {
                if record.seq.is_some() {
                    self.entry(step, record)?;
                }
            }
            for body in &batch.bodies {
                let kept = reader.body(&body.body.hash).map_err(|error| error.to_string())?;
                if kept.as_deref() != Some(&*body.bytes) {
                    return Err(format!("step {step}: the body {} is not kept", body.body.hash));
                }
            }
        }
        self.open_progress(steps)?;
        self.snapshots(steps, reader)?;
        self.known.done = steps;
        let row = reader.session(&self.script.key()).map_err(|error| error.to_string())?;
        if row == self.script.row_after(steps) {
            Ok(())
        } else {
            Err(format!("after {steps} steps its row is {row:?}"))
        }
    }

    fn entry(&mut self, step: u64, attempted: &Record) -> Result<(), String> {
        let Some(found) = self.entries.next() else { return Err(format!("step {step} is incomplete")) };
        let epoch = self.known.epochs.iter().rev().find(|(from, _)| *from <= step).map(|(_, epoch)| *epoch);
        let epoch = epoch.ok_or_else(|| format!("step {step} exists before the home had an owner"))?;
        let event = &attempted.event;
        let payload_hash = Hash::of(&event.payload());
        let chain = Hash::of(
            &[
                &self.known.chain.0[..],
                self.script.branch.0.as_bytes(),
                &found.seq.0.to_le_bytes(),
                &epoch.0.to_le_bytes(),
                &attempted.at.0.to_le_bytes(),
                event.kind().as_bytes(),
                &[0],
                &engine::VERSION.to_le_bytes(),
                &payload_hash.0,
            ]
            .concat(),
        );
        self.known.chain = chain;
        let is_as_attempted = (Some(found.seq), found.at, &found.event, found.epoch, found.payload_hash)
            == (attempted.seq, attempted.at, event, epoch, payload_hash);
        if is_as_attempted && found.chain == chain {
            return Ok(());
        }
        Err(format!("step {step} was attempted as {attempted:?} by owner {epoch}, and is {found:?}"))
    }

    /// The pieces after the last entry must be stored as they were appended, from the first on.
    fn open_progress(&mut self, steps: u64) -> Result<(), String> {
        let from = (0..steps).rev().find(|step| script::has_entries(*step)).map_or(0, |step| step + 1);
        for step in from..steps {
            let batch = self.script.batch(step);
            for attempted in &batch.records {
                let found = self.progress.next();
                if found != Some(attempted) {
                    return Err(format!("step {step}: {attempted:?} was appended, {found:?} is stored"));
                }
            }
        }
        self.progress.next().map_or(Ok(()), |more| Err(format!("nothing appended {more:?}")))
    }

    /// At most one snapshot is stored, of an existing turn, and it is the one that was attempted.
    fn snapshots(&self, steps: u64, reader: &Reader) -> Result<(), String> {
        let (script, branch) = (self.script, self.script.branch);
        let kept = reader.snapshots(branch).map_err(|error| error.to_string())?;
        if kept.len() > 1 {
            return Err(format!("snapshots at {kept:?}: only the newest is to be kept"));
        }
        for seq in kept {
            let step = script.steps_done(seq.0, 0).filter(|done| *done <= steps).and_then(|done| done.checked_sub(1));
            let attempted = step.and_then(|step| script.snapshot_after(step));
            let found = reader.snapshot(branch, seq).map_err(|error| error.to_string())?;
            if attempted.is_none() || found != attempted {
                return Err(format!("after {steps} steps the snapshot at {seq} is not one that was attempted"));
            }
        }
        Ok(())
    }
}
