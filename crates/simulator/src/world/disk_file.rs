//! A real home: the product's journal in SQLite, on a disk that can fail, die and lose its power at any operation.

use std::fs;
use std::path::Path;
use std::sync::{Arc, mpsc};

use engine::{Batch, Epoch, Position};
use faulty_vfs::{Cut, Disk, Fault, Operation, OperationKind, What};
use journal::{Append, Error, Journal as _, Snapshot, Sqlite, check};
use tempfile::TempDir;

use super::Rng;
use crate::case::Form;
use crate::fault::Lost;
use crate::hit::{Harm, Hit};
use crate::invariant::{Invariant, Violation};

/// A file in the home that marks the disk as full.
const FULL: &str = "full";

/// The file whose space becomes free when the journal releases its reserve.
const RESERVE: &str = "journal.reserve";

/// The file that the journal writes without SQLite.
const MARK: &str = "journal.mark";

/// After this many failed attempts to open it, the faults cannot be the reason.
const MOST_TRIES: u32 = 1_000;

/// One in this many appends is followed by background work.
const QUIET_ONE_IN: usize = 12;

/// A home, its disk, and its owner. Clones share the home: only worlds in memory are cloned.
#[derive(Debug, Clone)]
pub struct File {
    // The order matters: a journal closes while its disk exists, and the disk is removed before its folder.
    owner: Option<Arc<Sqlite>>,
    disk: Arc<Disk>,
    home: Arc<TempDir>,
    /// Crashes that were set, each with the number of its operation among all operations of this world.
    crashes: Vec<(u64, Harm)>,
    /// Operations on homes that lost their power.
    before: u64,
    /// A batch without a reply, which may be stored.
    pub doubtful: Option<(Arc<Batch>, Epoch)>,
    rng: Rng,
}

/// The result of an append.
#[derive(Debug)]
pub enum Kept {
    /// It was acknowledged.
    Acknowledged(Position),
    /// It was acknowledged, and then the process died, before anybody else was notified.
    Unreported,
    /// The process has died; the batch may be stored.
    Died,
    /// It was refused.
    Refused(Error),
}

impl File {
    /// Creates a disk with an empty folder.
    pub fn new(seed: u64) -> Self {
        let (home, disk) = installed(Disk::install);
        disk.limit(|home| !home.join(FULL).exists() || !home.join(RESERVE).exists());
        let rng = Rng::new(seed, "disk");
        Self { owner: None, disk: Arc::new(disk), home, crashes: vec![], before: 0, doubtful: None, rng }
    }

    /// Sets a harm for the next operations.
    pub fn set(&mut self, hit: Hit) {
        if hit.harm.crash().is_some() {
            self.crashes.push((self.operations() + hit.nth.max(1), hit.harm));
        }
        self.disk.plan(hit.fault());
    }

    /// Makes the next append fail: before it is written, or with its sync.
    pub fn fail_next(&self, lost: Lost) {
        let kind = match lost {
            Lost::All => OperationKind::Write,
            Lost::Word => OperationKind::Sync,
        };
        self.disk.plan(Fault::at(1, What::Eio).on(kind));
    }

    /// Whether a harm is set that has not happened yet.
    pub fn waits(&self) -> bool {
        self.disk.waiting() > 0
    }

    /// Operations of the disk that were counted so far.
    pub fn operations(&self) -> u64 {
        self.before + self.disk.counted()
    }

    /// Every operation of the disk since the last loss of power.
    pub fn log(&self) -> Vec<Operation> {
        self.disk.operations()
    }

    /// The journal; it exists from the first opening on.
    pub fn owner(&self) -> &Sqlite {
        self.owner.as_deref().expect("it is opened before it is asked, and at once after each crash")
    }

    /// Fills the disk: from now on there is no space, except for the reserve.
    pub fn fill(&self) {
        fs::write(self.home.path().join(FULL), "").expect("the folder is ours");
    }

    /// Ends a full disk.
    pub fn free(&self) {
        let full = self.home.path().join(FULL);
        if full.exists() {
            fs::remove_file(full).expect("the folder is ours");
        }
    }

    /// Appends, and sometimes does background work afterwards.
    pub fn append(&mut self, batch: &Arc<Batch>, epoch: Epoch) -> Kept {
        if epoch != self.owner().epoch() {
            return self.append_now(batch, epoch).map_or_else(Kept::Refused, Kept::Acknowledged);
        }
        self.disk.resume();
        let answer = self.append_now(batch, epoch);
        if answer.is_ok() && self.rng.one_in(QUIET_ONE_IN) {
            (0..=self.rng.pick(8)).for_each(|_| self.owner().background_work());
        }
        self.disk.suspend();
        match (answer, self.disk.is_crashed()) {
            (Ok(position), false) => Kept::Acknowledged(position),
            (Ok(_), true) => Kept::Unreported,
            (Err(_), true) => {
                self.doubtful = Some((Arc::clone(batch), epoch));
                Kept::Died
            }
            (Err(error), false) => Kept::Refused(self.refused(error, batch, epoch)),
        }
    }

    /// Keeps a snapshot, unless the process dies of it.
    pub fn keep_snapshot(&self, snapshot: Snapshot) -> Result<(), Error> {
        self.disk.resume();
        self.owner().keep_snapshot(snapshot);
        self.disk.suspend();
        if self.disk.is_crashed() { Err(Error::Gone) } else { Ok(()) }
    }

    /// After a fault of the disk any error counts as a failed write; an error without a fault is returned as it is.
    fn refused(&mut self, error: Error, batch: &Arc<Batch>, epoch: Epoch) -> Error {
        let is_expected = matches!(error, Error::Full { .. }) || error.is_refusal();
        if is_expected || self.disk.first_failure().is_none() {
            return error;
        }
        self.doubtful = Some((Arc::clone(batch), epoch));
        Error::Failed { path: self.home.path().into(), detail: error.to_string() }
    }

    fn append_now(&self, batch: &Arc<Batch>, epoch: Epoch) -> Result<Position, Error> {
        let (sender, answer) = mpsc::channel();
        let done = Box::new(move |result| drop(sender.send(result)));
        self.owner().append(Append { batch: Arc::clone(batch), epoch }, done);
        answer.try_recv().unwrap_or(Err(Error::Gone))
    }

    /// The owner's process ends by itself; returns how.
    pub fn end(&mut self) -> Form {
        self.disk.resume();
        drop(self.owner.take());
        self.disk.suspend();
        if self.disk.is_crashed() { self.crash_of() } else { Form::Process }
    }

    /// The crash that has just happened.
    fn crash_of(&mut self) -> Form {
        let now = self.operations();
        let harm = self.crashes.iter().find(|(at, _)| *at == now).map(|(_, harm)| *harm);
        harm.and_then(Harm::crash).unwrap_or(Form::Process)
    }

    /// Crashes, if the process has not ended already; then opens the journal as the next owner, as often as that fails.
    /// Returns what ended the process: a loss of power, if any of the crashes was one.
    pub fn crash(&mut self, form: Form) -> Result<(Epoch, Form), Violation> {
        let mut worst = form;
        if self.owner.is_some() && !self.disk.is_crashed() {
            self.disk.kill();
            self.lose(form);
        } else {
            worst = self.lose_as_set(worst);
        }
        self.is_sound()?;
        for _ in 0..MOST_TRIES {
            self.disk.next_process();
            self.disk.resume();
            let owner = Sqlite::own_stepped(self.home.path(), |home| !home.join(FULL).exists());
            self.disk.suspend();
            match owner {
                _ if self.disk.is_crashed() => {
                    drop(owner);
                    worst = self.lose_as_set(worst);
                }
                Ok(owner) => {
                    let epoch = owner.epoch();
                    self.owner = Some(Arc::new(owner));
                    return Ok((epoch, worst));
                }
                Err(_) if self.disk.first_failure().is_some() => {}
                Err(error) => return Err(Invariant::Journal.violated(format!("the next owner is refused: {error}"))),
            }
        }
        Err(Invariant::Journal.violated(format!("no owner after {MOST_TRIES} tries")))
    }

    /// Applies the crash that was set, if it happened; returns the worse one.
    fn lose_as_set(&mut self, before: Form) -> Form {
        let now = self.operations();
        let happened = self.disk.is_crashed().then(|| self.crashes.iter().find(|(at, _)| *at == now)).flatten();
        drop(self.owner.take());
        let Some((_, harm)) = happened.copied() else { return before };
        if let Some(cut) = harm.cut(self.rng.draw()) {
            self.cut(cut);
        }
        match (before, harm.crash()) {
            (_, Some(power @ Form::Power { .. })) => power,
            (Form::Process, Some(form)) => form,
            _ => before,
        }
    }

    /// Applies a crash between two operations.
    fn lose(&mut self, form: Form) {
        drop(self.owner.take());
        match form {
            Form::Process | Form::Ended => {}
            Form::Power { keep: 0 } => self.cut(Cut::Nothing),
            Form::Power { keep: 1 } => self.cut(Cut::Everything),
            Form::Power { keep } => self.cut(Cut::Torn { seed: keep as u64 }),
        }
    }

    /// Checks that `limulus doctor` finds nothing wrong, whatever happened before. It checks a copy, because closing
    /// one of the files here would release the locks of the owner.
    pub fn is_sound(&self) -> Result<(), Violation> {
        let copy = folder();
        self.disk.power_cut(Cut::Everything, copy.path()).expect("the folder is ours alone");
        // Before the journal is created there is nothing to check.
        let Ok(report) = check::check(copy.path(), &mut |_| {}) else { return Ok(()) };
        Invariant::Journal.holds(report.findings.is_empty(), || format!("doctor finds {:#?}", report.findings))
    }

    /// Damages the mark: it names an entry that never existed.
    #[cfg(test)]
    pub(super) fn damage(&self) {
        fs::write(self.home.path().join(MARK), [1; 40]).expect("the folder is ours");
    }

    /// Replaces the folder by what a loss of power leaves.
    fn cut(&mut self, cut: Cut) {
        let (home, disk) = installed(|home| {
            self.disk.power_cut(cut, home)?;
            self.disk.move_to(home)
        });
        self.before += self.disk.counted();
        (self.disk, self.home) = (Arc::new(disk), home);
    }
}

/// A folder in memory if possible: the durability of the system is not the subject here.
fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("there is a place for files")
}

/// A folder with a disk.
fn installed(install: impl FnOnce(&Path) -> std::io::Result<Disk>) -> (Arc<TempDir>, Disk) {
    let home = folder();
    let disk = install(home.path()).expect("the folder is ours alone");
    disk.suspend();
    disk.watch(MARK);
    (Arc::new(home), disk)
}
