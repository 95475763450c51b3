//! A real home: the product's journal in SQLite, on a disk that fails, dies and loses its power at any operation.
//!
//! What may not live here: what was appended to it, which the world knows; what must have survived follows from that.

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

/// A file in the home that says that the disk is full.
const FULL: &str = "full";

/// What is free on a full disk once it is given up.
const RESERVE: &str = "journal.reserve";

/// What the journal writes past SQLite.
const MARK: &str = "journal.mark";

/// Tries at opening after which it is not the faults that it fails of.
const MOST_TRIES: u32 = 1_000;

/// One in so many appends is followed by quiet moments.
const QUIET_ONE_IN: usize = 12;

/// A home, its disk, and its owner. What is shared by clones is the home: only worlds in memory are cloned.
#[derive(Debug, Clone)]
pub struct File {
    // In this order: a journal closes while its disk is there, and a disk leaves before its folder.
    owner: Option<Arc<Sqlite>>,
    disk: Arc<Disk>,
    home: Arc<TempDir>,
    /// Crashes that were set, each with the operation that it comes at, of all operations of this world.
    crashes: Vec<(u64, Harm)>,
    /// Operations on homes that the power was lost of.
    before: u64,
    /// A batch that nobody was told of, and that may be there.
    pub doubtful: Option<(Arc<Batch>, Epoch)>,
    rng: Rng,
}

/// What became of an append.
#[derive(Debug)]
pub enum Kept {
    /// It was acknowledged.
    Acknowledged(Position),
    /// It was acknowledged, and then the process died, before anybody else heard of it.
    Untold,
    /// The process has died; the batch may be there.
    Died,
    /// It was refused.
    Refused(Error),
}

impl File {
    /// An empty folder.
    pub fn new(seed: u64) -> Self {
        let (home, disk) = installed(Disk::install);
        disk.limit(|home| !home.join(FULL).exists() || !home.join(RESERVE).exists());
        let rng = Rng::new(seed, "disk");
        Self { owner: None, disk: Arc::new(disk), home, crashes: vec![], before: 0, doubtful: None, rng }
    }

    /// Sets a harm.
    pub fn set(&mut self, hit: Hit) {
        if hit.harm.crash().is_some() {
            self.crashes.push((self.operations() + hit.nth.max(1), hit.harm));
        }
        self.disk.plan(hit.fault());
    }

    /// The next append fails: before it is written, or with its sync.
    pub fn fail_next(&self, lost: Lost) {
        let kind = match lost {
            Lost::All => OperationKind::Write,
            Lost::Word => OperationKind::Sync,
        };
        self.disk.plan(Fault::at(1, What::Eio).on(kind));
    }

    /// Whether there is a harm that has not struck yet.
    pub fn waits(&self) -> bool {
        self.disk.waiting() > 0
    }

    /// Operations of the disk that were counted so far.
    pub fn operations(&self) -> u64 {
        self.before + self.disk.counted()
    }

    /// Every operation of the disk since the power was last lost.
    pub fn log(&self) -> Vec<Operation> {
        self.disk.operations()
    }

    /// The journal; there is one from the first opening on.
    pub fn owner(&self) -> &Sqlite {
        self.owner.as_deref().expect("it is opened before it is asked, and at once after each crash")
    }

    /// From now on there is no space, but for the reserve.
    pub fn fill(&self) {
        fs::write(self.home.path().join(FULL), "").expect("the folder is ours");
    }

    /// There is space.
    pub fn free(&self) {
        let full = self.home.path().join(FULL);
        if full.exists() {
            fs::remove_file(full).expect("the folder is ours");
        }
    }

    /// Appends, and now and then has a quiet moment afterwards.
    pub fn append(&mut self, batch: &Arc<Batch>, epoch: Epoch) -> Kept {
        if epoch != self.owner().epoch() {
            return self.append_now(batch, epoch).map_or_else(Kept::Refused, Kept::Acknowledged);
        }
        self.disk.resume();
        let answer = self.append_now(batch, epoch);
        if answer.is_ok() && self.rng.one_in(QUIET_ONE_IN) {
            (0..=self.rng.pick(8)).for_each(|_| self.owner().rest());
        }
        self.disk.suspend();
        match (answer, self.disk.is_crashed()) {
            (Ok(position), false) => Kept::Acknowledged(position),
            (Ok(_), true) => Kept::Untold,
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

    /// An error of a disk that was struck, of whatever kind, is a failed write; one without a fault is none.
    fn refused(&mut self, error: Error, batch: &Arc<Batch>, epoch: Epoch) -> Error {
        let told = matches!(error, Error::Full { .. }) || error.is_refusal();
        if told || self.disk.struck().is_none() {
            return error;
        }
        self.doubtful = Some((Arc::clone(batch), epoch));
        Error::Failed { path: self.home.path().into(), detail: error.to_string() }
    }

    fn append_now(&self, batch: &Arc<Batch>, epoch: Epoch) -> Result<Position, Error> {
        let (told, answer) = mpsc::channel();
        let done = Box::new(move |result| drop(told.send(result)));
        self.owner().append(Append { batch: Arc::clone(batch), epoch }, done);
        answer.try_recv().unwrap_or(Err(Error::Gone))
    }

    /// The owner's process ends by itself; what that was in the end.
    pub fn end(&mut self) -> Form {
        self.disk.resume();
        drop(self.owner.take());
        self.disk.suspend();
        if self.disk.is_crashed() { self.crash_of() } else { Form::Process }
    }

    /// The crash that struck just now.
    fn crash_of(&mut self) -> Form {
        let now = self.operations();
        let harm = self.crashes.iter().find(|(at, _)| *at == now).map(|(_, harm)| *harm);
        harm.and_then(Harm::crash).unwrap_or(Form::Process)
    }

    /// A crash, if the process has not ended already; then the next owner, however often its opening goes wrong. Says
    /// what took the process in the end: where any of the crashes was a loss of power, that.
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
                Err(_) if self.disk.struck().is_some() => {}
                Err(error) => return Err(Invariant::Journal.violated(format!("the next owner is refused: {error}"))),
            }
        }
        Err(Invariant::Journal.violated(format!("no owner after {MOST_TRIES} tries")))
    }

    /// The crash that struck, if one did, takes what it takes; which of the two was worse.
    fn lose_as_set(&mut self, before: Form) -> Form {
        let now = self.operations();
        let struck = self.disk.is_crashed().then(|| self.crashes.iter().find(|(at, _)| *at == now)).flatten();
        drop(self.owner.take());
        let Some((_, harm)) = struck.copied() else { return before };
        if let Some(cut) = harm.cut(self.rng.draw()) {
            self.cut(cut);
        }
        match (before, harm.crash()) {
            (_, Some(power @ Form::Power { .. })) => power,
            (Form::Process, Some(form)) => form,
            _ => before,
        }
    }

    /// A crash between two operations takes what it takes.
    fn lose(&mut self, form: Form) {
        drop(self.owner.take());
        match form {
            Form::Process | Form::Ended => {}
            Form::Power { keep: 0 } => self.cut(Cut::Nothing),
            Form::Power { keep: 1 } => self.cut(Cut::Everything),
            Form::Power { keep } => self.cut(Cut::Torn { seed: keep as u64 }),
        }
    }

    /// What `limulus doctor` looks at finds nothing wrong, whatever happened before. It looks at a copy, as somebody else does
    /// who opens the files: closing one of them here would give up the locks of the owner.
    pub fn is_sound(&self) -> Result<(), Violation> {
        let copy = folder();
        self.disk.power_cut(Cut::Everything, copy.path()).expect("the folder is ours alone");
        // Where the journal is not made yet there is nothing to look at.
        let Ok(report) = check::check(copy.path(), &mut |_| {}) else { return Ok(()) };
        Invariant::Journal.holds(report.findings.is_empty(), || format!("doctor finds {:#?}", report.findings))
    }

    /// The mark names an entry that never was.
    #[cfg(test)]
    pub(super) fn damage(&self) {
        fs::write(self.home.path().join(MARK), [1; 40]).expect("the folder is ours");
    }

    /// What a loss of power leaves is another folder.
    fn cut(&mut self, cut: Cut) {
        let (home, disk) = installed(|home| {
            self.disk.power_cut(cut, home)?;
            self.disk.move_to(home)
        });
        self.before += self.disk.counted();
        (self.disk, self.home) = (Arc::new(disk), home);
    }
}

/// A folder in memory where there is such a place: what the system makes durable is not in question.
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
