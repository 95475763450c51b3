//! The store under test, and the world's own list of what was appended to it.

use std::sync::{Arc, mpsc};

use engine::{Batch, CallId, Durability, EffectId, Epoch, Event, Position, Record, RunId, Seq, Timestamp};
use journal::{Append, Entry, Journal, Memory, Read};

use crate::case::Form;
use crate::fault::Lost;
use crate::invariant::{Invariant, Violation};
use crate::plan::branch_id;

/// How far an event had come when something else happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recorded {
    /// It was nowhere.
    No,
    /// It would survive a kill.
    Written,
    /// It would survive power loss.
    Synced,
}

/// The journal, and every batch that it took and did not lose, in order.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    memory: Memory,
    log: Vec<Arc<Batch>>,
    /// How the next append fails.
    failing: Option<Lost>,
    /// When there is space again.
    pub space_at: Option<Timestamp>,
    /// When the append that is under way is through.
    pub ready_at: Option<Timestamp>,
}

impl Disk {
    /// The journal, for reading.
    pub fn journal(&self) -> &dyn Read {
        &self.memory
    }

    /// Takes the journal over.
    pub fn open(&self) -> Epoch {
        self.memory.open()
    }

    /// The number of the owner.
    pub fn epoch(&self) -> Epoch {
        self.memory.epoch()
    }

    /// The next append fails for good.
    pub fn fail_next(&mut self, lost: Lost) {
        self.failing = Some(lost);
    }

    /// Batches that power loss can take.
    pub fn unsynced(&self) -> usize {
        self.memory.unsynced()
    }

    /// Appends at a time, unless it is to fail.
    pub fn append(&mut self, batch: &Arc<Batch>, epoch: Epoch, now: Timestamp) -> Result<Position, journal::Error> {
        self.ready_at = None;
        if self.space_at.is_some_and(|at| now < at) {
            return Err(journal::Error::Full { path: "the simulated disk".into() });
        }
        self.space_at = None;
        if self.failing.take_if(|lost| *lost == Lost::Word).is_some() {
            self.keep(batch, epoch)?;
            self.failing = Some(Lost::All);
        }
        if self.failing.take().is_some() {
            let (path, detail) = ("the simulated disk".into(), "it wants it so".into());
            self.memory.fail_next(journal::Error::Failed { path, detail });
        }
        self.keep(batch, epoch)
    }

    /// The twin in memory answers at once.
    fn keep(&mut self, batch: &Arc<Batch>, epoch: Epoch) -> Result<Position, journal::Error> {
        let (told, answer) = mpsc::channel();
        let done = Box::new(move |result| drop(told.send(result)));
        self.memory.append(Append { batch: Arc::clone(batch), epoch }, done);
        let position = answer.try_recv().unwrap_or(Err(journal::Error::Gone))?;
        self.log.push(Arc::clone(batch));
        Ok(position)
    }

    /// Takes away what this crash takes. What is left is durable from then on.
    pub fn crash(&mut self, form: Form) {
        (self.failing, self.ready_at) = (None, None);
        match form {
            Form::Process | Form::Ended => self.memory.crash_process(),
            Form::Power { keep } => {
                let synced = self.log.len() - self.memory.unsynced();
                self.log.truncate(synced + keep);
                self.memory.crash_power(keep);
            }
        }
    }

    /// Whether this very batch is in the journal.
    pub fn holds(&self, batch: &Arc<Batch>) -> bool {
        self.log.iter().rev().any(|kept| Arc::ptr_eq(kept, batch))
    }

    /// Whether the end of this run is recorded.
    pub fn has_ended(&self, run: RunId) -> bool {
        let ends = |record: &Record| matches!(&record.event, Event::RunEnded(e) if e.run == run);
        self.log.iter().rev().any(|batch| batch.records.iter().any(ends))
    }

    /// How far the start of this call by this effect is recorded now.
    pub fn intent(&self, call: CallId, effect: EffectId) -> Recorded {
        let starts =
            |record: &Record| matches!(&record.event, Event::CallStarted(e) if e.call == call && e.effect == effect);
        let at = self.log.iter().rposition(|batch| batch.records.iter().any(starts));
        match at {
            None => Recorded::No,
            Some(at) if at < self.log.len() - self.memory.unsynced() => Recorded::Synced,
            Some(_) => Recorded::Written,
        }
    }

    /// The latest time that it holds.
    pub fn latest(&self) -> Result<Timestamp, Violation> {
        self.memory.latest().map_err(|error| unreadable(&error))
    }

    /// The entries of the session's branch.
    pub fn entries(&self) -> Result<Vec<Entry>, Violation> {
        self.memory.read(branch_id(), Seq(1)).map_err(|error| unreadable(&error))
    }

    /// The open progress of the session's branch.
    pub fn progress(&self) -> Result<Vec<Record>, Violation> {
        self.memory.progress(branch_id()).map_err(|error| unreadable(&error))
    }

    /// Whether the journal holds exactly what was appended and survived.
    pub fn check(&self, entries: &[Entry]) -> Result<(), Violation> {
        let appended: Vec<&Record> =
            self.log.iter().flat_map(|batch| &batch.records).filter(|record| record.seq.is_some()).collect();
        Invariant::Journal.holds(appended.len() == entries.len(), || {
            format!("{} entries were appended, {} are there", appended.len(), entries.len())
        })?;
        for (index, (record, entry)) in appended.iter().zip(entries).enumerate() {
            let seq = Seq(index as u64 + 1);
            let same = entry.seq == seq && record.seq == Some(seq) && entry.event == record.event;
            Invariant::Journal
                .holds(same, || format!("entry {seq} is {}, not what was appended", entry.event.kind()))?;
        }
        Ok(())
    }
}

/// The name of an append among the operations.
pub fn append_name(batch: &Batch) -> &'static str {
    match batch.durability() {
        Durability::Synced => "append_synced",
        Durability::Written => "append_written",
    }
}

fn unreadable(error: &journal::Error) -> Violation {
    Invariant::Journal.violated(error.to_string())
}
