//! The store under test, and the world's own list of what was appended to it.

use std::sync::{Arc, mpsc};

use engine::{
    ApprovalRow, Batch, CallId, Durability, EffectId, Epoch, Event, Position, ReceiptRow, Record, RunId, RunRow, Seq,
    SessionRow, Timestamp,
};
use journal::{Append, Entry, Journal, Memory, Read, Snapshot, StoredLineage};

use super::disk_file::{File, Kept};
use crate::case::Form;
use crate::fault::Lost;
use crate::hit::Hit;
use crate::invariant::{Invariant, Violation};
use crate::plan::{branch_id, session_id};

/// How far an event was recorded when something else happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recorded {
    /// It was not recorded.
    No,
    /// It would survive a kill.
    Written,
    /// It would survive a loss of power.
    Synced,
}

/// Where the journal is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// The journal in memory.
    Memory,
    /// The real journal, over a file.
    File,
}

/// The journal, and every batch that it stored and did not lose, in order.
///
/// Over a file the journal in memory stores the same, and determines what must be found again.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    memory: Memory,
    file: Option<File>,
    log: Vec<Arc<Batch>>,
    /// How the next append fails.
    failing: Option<Lost>,
    /// When there is space again.
    pub space_at: Option<Timestamp>,
    /// When the append in progress is finished.
    pub ready_at: Option<Timestamp>,
}

impl Disk {
    /// An empty journal; over a file its random numbers come from the seed.
    pub fn new(medium: Medium, seed: u64) -> Self {
        let file = (medium == Medium::File).then(|| File::new(seed));
        Self { file, ..Self::default() }
    }

    /// The journal, for reading.
    pub fn journal(&self) -> &dyn Read {
        match &self.file {
            Some(file) => file.owner(),
            None => &self.memory,
        }
    }

    /// Becomes the owner. Over a file that already happened when the previous crash was over.
    pub fn open(&mut self) -> Result<Epoch, Violation> {
        match &self.file {
            None => Ok(self.memory.open()),
            Some(_) if self.memory.epoch() > Epoch(0) => Ok(self.memory.epoch()),
            Some(_) => self.crash(Form::Process).map(|_| self.memory.epoch()),
        }
    }

    /// The epoch of the owner.
    pub fn epoch(&self) -> Epoch {
        self.memory.epoch()
    }

    /// Makes the next append fail permanently.
    pub fn fail_next(&mut self, lost: Lost) {
        match &self.file {
            Some(file) => file.fail_next(lost),
            None => self.failing = Some(lost),
        }
    }

    /// Sets a fault at one of the next operations of the file.
    pub fn set(&mut self, hit: Hit) {
        if let Some(file) = &mut self.file {
            file.set(hit);
        }
    }

    /// The file, if the journal is one.
    pub fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Batches that a loss of power can take.
    pub fn unsynced(&self) -> usize {
        self.memory.unsynced()
    }

    /// Appends at a time, unless it must fail. A process that died meanwhile gets no reply ([`journal::Error::Gone`]).
    pub fn append(&mut self, batch: &Arc<Batch>, epoch: Epoch, now: Timestamp) -> Result<Position, journal::Error> {
        self.ready_at = None;
        let full = self.space_at.is_some_and(|at| now < at);
        self.space_at = self.space_at.filter(|_| full);
        if let Some(file) = &mut self.file {
            if full {
                file.fill();
            } else {
                file.free();
            }
            return match file.append(batch, epoch) {
                Kept::Acknowledged(position) => self.keep(batch, epoch).map(|_| position),
                Kept::Unreported => self.keep(batch, epoch).and(Err(journal::Error::Gone)),
                Kept::Died => Err(journal::Error::Gone),
                Kept::Refused(error) => Err(error),
            };
        }
        if full {
            return Err(journal::Error::Full { path: "the simulated disk".into() });
        }
        if self.failing.take_if(|lost| *lost == Lost::Word).is_some() {
            self.keep(batch, epoch)?;
            self.failing = Some(Lost::All);
        }
        if self.failing.take().is_some() {
            let (path, detail) = ("the simulated disk".into(), "the test wants it so".into());
            self.memory.fail_next(journal::Error::Failed { path, detail });
        }
        self.keep(batch, epoch)
    }

    /// Appends to the journal in memory, which replies at once.
    fn keep(&mut self, batch: &Arc<Batch>, epoch: Epoch) -> Result<Position, journal::Error> {
        let (sender, answer) = mpsc::channel();
        let done = Box::new(move |result| drop(sender.send(result)));
        self.memory.append(Append { batch: Arc::clone(batch), epoch }, done);
        let position = answer.try_recv().unwrap_or(Err(journal::Error::Gone))?;
        self.log.push(Arc::clone(batch));
        Ok(position)
    }

    /// The process ends by itself, because its journal failed or was closed; a real one may crash on the way.
    pub fn end(&mut self) -> Form {
        self.file.as_mut().map_or(Form::Process, File::end)
    }

    /// Applies a crash, and returns which one it was in the end: a file can lose its power while the next owner opens
    /// it. What is left is durable from then on.
    pub fn crash(&mut self, form: Form) -> Result<Form, Violation> {
        (self.failing, self.ready_at) = (None, None);
        let Some(file) = &mut self.file else {
            self.lose(form);
            return Ok(form);
        };
        let (epoch, form) = file.crash(form)?;
        let doubtful = file.doubtful.take();
        let form = self.survivors(form, doubtful)?;
        let before = self.memory.epoch();
        Invariant::Fence.holds(epoch > before, || format!("the owner after {before} is {epoch}"))?;
        while self.memory.open() < epoch {}
        self.same_as_memory()?;
        Ok(form)
    }

    fn lose(&mut self, form: Form) {
        match form {
            Form::Process | Form::Ended => self.memory.crash_process(),
            Form::Power { keep } => {
                let synced = self.log.len() - self.memory.unsynced();
                self.log.truncate(synced + keep);
                self.memory.crash_power(keep);
            }
        }
    }

    /// Makes the journal in memory match the file: it has everything that was acknowledged, and perhaps the batch whose
    /// writing failed; after a loss of power perhaps less, but never less than was synced.
    fn survivors(&mut self, form: Form, doubtful: Option<(Arc<Batch>, Epoch)>) -> Result<Form, Violation> {
        let least = if matches!(form, Form::Power { .. }) { 0 } else { self.memory.unsynced() };
        let mut candidates = vec![];
        if let Some((batch, epoch)) = doubtful {
            let mut with = Self { file: None, ..self.clone() };
            with.keep(&batch, epoch).map_err(|error| unreadable(&error))?;
            let keep = with.unsynced();
            candidates.push((with, kept(form, keep)));
        }
        let shorter = (least..=self.unsynced()).rev();
        candidates.extend(shorter.map(|keep| (Self { file: None, ..self.clone() }, kept(form, keep))));
        for (mut candidate, form) in candidates {
            candidate.lose(form);
            if Found::of(&candidate.memory)? == Found::of(self.journal())? {
                (self.memory, self.log) = (candidate.memory, candidate.log);
                return Ok(form);
            }
        }
        let (count, found) = (self.log.len(), self.entries()?.len());
        Err(Invariant::Journal.violated(format!(
            "after {form} {found} entries are there, which are not those of {count} batches less at most {} at the end",
            self.memory.unsynced() - least
        )))
    }

    /// Checks that a file holds the same as the journal in memory.
    fn same_as_memory(&self) -> Result<(), Violation> {
        let (found, expected) = (Found::of(self.journal())?, Found::of(&self.memory)?);
        Invariant::Journal
            .holds(found == expected, || format!("the file holds {found:#?}, the journal in memory {expected:#?}"))
    }

    /// Keeps a snapshot behind what was appended. A process that dies of it gets no reply ([`journal::Error::Gone`]).
    pub fn keep_snapshot(&self, snapshot: Snapshot) -> Result<(), journal::Error> {
        if let Some(file) = &self.file {
            return file.keep_snapshot(snapshot);
        }
        self.memory.keep_snapshot(snapshot);
        Ok(())
    }

    /// The line of the session, from its newest snapshot on.
    pub fn line(&self) -> Result<StoredLineage, Violation> {
        self.journal().line(branch_id()).map_err(|error| unreadable(&error))
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

    /// Whether a recorded message asks for this call.
    pub fn asks_for(&self, call: CallId) -> bool {
        let asks = |record: &Record| matches!(&record.event, Event::MessageSealed(e) if e.calls.iter().any(|sealed| sealed.id == call));
        self.log.iter().any(|batch| batch.records.iter().any(asks))
    }

    /// The latest time in the journal.
    pub fn latest(&self) -> Result<Timestamp, Violation> {
        self.journal().latest().map_err(|error| unreadable(&error))
    }

    /// The entries of the session's branch.
    pub fn entries(&self) -> Result<Vec<Entry>, Violation> {
        self.journal().read(branch_id(), Seq(1)).map_err(|error| unreadable(&error))
    }

    /// The open progress of the session's branch.
    pub fn progress(&self) -> Result<Vec<Record>, Violation> {
        self.journal().progress(branch_id()).map_err(|error| unreadable(&error))
    }

    /// Checks that the journal holds exactly what was appended and survived.
    pub fn check(&self, entries: &[Entry]) -> Result<(), Violation> {
        self.file.as_ref().map_or(Ok(()), File::is_sound)?;
        self.same_as_memory()?;
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

/// A crash with what it left, if that is known.
fn kept(form: Form, keep: usize) -> Form {
    match form {
        Form::Process | Form::Ended => form,
        Form::Power { .. } => Form::Power { keep },
    }
}

/// What a journal holds of the session.
#[derive(Debug, PartialEq)]
struct Found {
    entries: Vec<Entry>,
    progress: Vec<Record>,
    sessions: Vec<SessionRow>,
    runs: Vec<RunRow>,
    receipts: Vec<ReceiptRow>,
    approvals: Vec<ApprovalRow>,
}

impl Found {
    fn of(journal: &dyn Read) -> Result<Self, Violation> {
        let read = || {
            Ok(Self {
                entries: journal.read(branch_id(), Seq(1))?,
                progress: journal.progress(branch_id())?,
                sessions: journal.sessions()?,
                runs: journal.runs(None)?,
                receipts: journal.receipts(session_id())?,
                approvals: journal.approvals(None)?,
            })
        };
        read().map_err(|error| unreadable(&error))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hit::Harm;
    use crate::plan::Plan;
    use crate::world::{Watch, World};

    /// A quiet world over a file.
    fn quiet() -> Disk {
        let plan = Arc::new(Plan::new(1).unwrap());
        let mut world = World::begin_on(Disk::new(Medium::File, 1), &plan, Watch::Ends).unwrap();
        world.settle().unwrap();
        world.outside().disk.clone()
    }

    fn last(disk: &Disk) -> Arc<Batch> {
        Arc::clone(disk.log.last().unwrap())
    }

    /// The last batch again, as what would follow it.
    fn more(disk: &Disk) -> Arc<Batch> {
        let mut batch = Batch::clone(&last(disk));
        let first = disk.entries().unwrap().len() as u64 + 1;
        batch.records.retain(|record| record.seq.is_some());
        for (record, seq) in batch.records.iter_mut().zip(first..) {
            record.seq = Some(Seq(seq));
        }
        // A run that ends again is counted again; a row without totals is as an older version writes it.
        if let Some(row) = &mut batch.views.session {
            row.totals = None;
        }
        Arc::new(batch)
    }

    #[track_caller]
    fn assert_found(found: Result<(), Violation>, invariant: Invariant, says: &str) {
        let violation = found.unwrap_err();
        assert!(violation.invariant == invariant && violation.detail.contains(says), "{violation}");
    }

    #[test]
    fn r10_what_the_memory_journal_holds_and_the_file_does_not_is_found() {
        let mut disk = quiet();
        disk.check(&disk.entries().unwrap()).unwrap();
        let (batch, epoch) = (more(&disk), disk.epoch());
        disk.keep(&batch, epoch).unwrap();
        assert_found(disk.same_as_memory(), Invariant::Journal, "the journal in memory");
        let lost = disk.crash(Form::Process).map(drop);
        assert_found(lost, Invariant::Journal, "which are not those of");
    }

    #[test]
    fn r10_what_the_file_holds_and_was_never_acknowledged_is_found() {
        let mut disk = quiet();
        let (batch, epoch) = (more(&disk), disk.epoch());
        let kept = disk.file.as_mut().unwrap().append(&batch, epoch);
        assert!(matches!(kept, Kept::Acknowledged(_)), "{kept:?}");
        assert_found(disk.crash(Form::Process).map(drop), Invariant::Journal, "which are not those of");
    }

    #[test]
    fn r10_a_batch_whose_process_died_may_be_there_or_not() {
        for (nth, kept) in [(1, false), (60, true)] {
            let mut disk = quiet();
            let (batch, epoch, before) = (more(&disk), disk.epoch(), disk.log.len());
            disk.set(Hit { harm: Harm::Process, nth });
            let mut answer = disk.append(&batch, epoch, Timestamp(0));
            while answer.is_ok() {
                answer = disk.append(&more(&disk), epoch, Timestamp(0));
            }
            assert!(matches!(answer, Err(journal::Error::Gone)), "{answer:?}");
            let form = disk.end();
            assert_eq!(disk.crash(form), Ok(Form::Process));
            assert_eq!(disk.log.len() > before, kept, "operation {nth}");
        }
    }

    #[test]
    fn r11_an_owner_with_the_number_of_an_earlier_one_is_found() {
        let mut disk = quiet();
        disk.memory.open();
        assert_found(disk.crash(Form::Process).map(drop), Invariant::Fence, "the owner after");
    }

    #[test]
    fn r10_what_doctor_would_say_of_the_files_is_found() {
        let mut disk = quiet();
        let form = disk.end();
        disk.file.as_ref().unwrap().damage();
        assert_found(disk.crash(form).map(drop), Invariant::Journal, "doctor finds");
    }
}
