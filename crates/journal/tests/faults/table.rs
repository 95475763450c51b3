//! The rows of operation × fault × result, how each is run, and the page that they are written to.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::Path;

use faulty_vfs::{Cut, Disk, Fault, Lasting, OperationKind, Past, What, past_sqlite};
use journal::{FileStep, watch_files};
use tempfile::TempDir;

use crate::expected::{Found, Lost, check};
use crate::workload::{Replies, work};

/// What happens at the n-th operation of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The operation fails, and the process continues as it can.
    Fault(What, Lasting),
    /// As before; after the process has ended the power fails, before anything more is synced.
    FaultThenCut(What),
    /// The process dies.
    Crash,
    /// The power fails.
    Cut(Mode),
}

/// Which of the unsynced changes survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Nothing,
    Everything,
    Prefix,
    Torn,
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// Which operations are counted; `None` counts all.
    pub(crate) kind: Option<OperationKind>,
    pub(crate) event: Event,
}

/// The result of a row.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    cases: u32,
    replies: BTreeSet<String>,
    found: BTreeSet<Found>,
    /// Unexpected results, each with how to reproduce it.
    pub(crate) failures: Vec<String>,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |what: &What| match what {
            What::Eio => "EIO",
            What::Enospc => "ENOSPC",
            What::ShortWrite => "half of it is written",
            What::ShortRead => "half of it is returned",
            What::SlowSync(_) => "is slow",
            What::Crash => "crash",
        };
        match self {
            Self::Fault(what, Lasting::Once) => write!(f, "{}, once", name(what)),
            Self::Fault(what, Lasting::ForEver) => write!(f, "{}, for ever", name(what)),
            Self::FaultThenCut(what) => write!(f, "{}, then the power fails", name(what)),
            Self::Crash => f.write_str("the process dies"),
            Self::Cut(Mode::Nothing) => f.write_str("the power fails: nothing unsynced survives"),
            Self::Cut(Mode::Everything) => f.write_str("the power fails: everything survives"),
            Self::Cut(Mode::Prefix) => f.write_str("the power fails: a prefix survives"),
            Self::Cut(Mode::Torn) => f.write_str("the power fails: any sectors survive"),
        }
    }
}

/// Every row.
pub(crate) fn rows() -> Vec<Row> {
    let mut rows = vec![];
    let kinds: Vec<OperationKind> = OperationKind::ALL.into_iter().chain(Past::ALL.map(OperationKind::Past)).collect();
    for what in [What::Eio, What::Enospc, What::ShortWrite, What::ShortRead] {
        for kind in kinds.iter().copied().filter(|kind| what.applies_to(*kind)) {
            let events = [Event::Fault(what, Lasting::Once), Event::Fault(what, Lasting::ForEver)];
            rows.extend(events.map(|event| Row { kind: Some(kind), event }));
        }
    }
    for what in [What::Eio, What::Enospc] {
        for kind in [OperationKind::Sync, OperationKind::Past(Past::Sync), OperationKind::Past(Past::Rename)] {
            rows.push(Row { kind: Some(kind), event: Event::FaultThenCut(what) });
        }
    }
    rows.extend(kinds.iter().map(|kind| Row { kind: Some(*kind), event: Event::Crash }));
    let modes = [Mode::Nothing, Mode::Everything, Mode::Prefix, Mode::Torn];
    rows.extend(modes.map(|mode| Row { kind: None, event: Event::Cut(mode) }));
    rows
}

impl Row {
    fn fault(&self, at: u64) -> Fault {
        let fault = match self.event {
            Event::Fault(what, Lasting::ForEver) => Fault::at(at, what).for_ever(),
            Event::Fault(what, Lasting::Once) | Event::FaultThenCut(what) => Fault::at(at, what),
            Event::Crash | Event::Cut(_) => Fault::at(at, What::Crash),
        };
        Fault { only: self.kind, ..fault }
    }

    /// The power losses of a case, each with its own seed.
    fn cuts(&self, at: u64) -> Vec<Cut> {
        match self.event {
            Event::Fault(..) | Event::Crash => vec![],
            Event::FaultThenCut(_) => vec![Cut::Nothing, Cut::Torn { seed: at }],
            Event::Cut(Mode::Nothing) => vec![Cut::Nothing],
            Event::Cut(Mode::Everything) => vec![Cut::Everything],
            Event::Cut(Mode::Prefix) => vec![Cut::Prefix { seed: at }],
            Event::Cut(Mode::Torn) => (0..3).map(|n| Cut::Torn { seed: at * 3 + n }).collect(),
        }
    }

    /// Runs the row with the fault at the first operation, at the second, and so on until the workload ends before the
    /// fault.
    pub(crate) fn run(&self) -> Outcome {
        let mut outcome = Outcome::default();
        for at in 1.. {
            let (home, disk) = home();
            disk.plan(self.fault(at));
            let replies = work(home.path(), &disk);
            if disk.first_failure().is_none() {
                return outcome;
            }
            let cuts = self.cuts(at);
            for cut in &cuts {
                let after = folder();
                disk.power_cut(*cut, after.path()).unwrap();
                let line = format!("SEED={cut:?} OP={at} OF={:?} FAULT={}", self.kind, self.event);
                outcome.note(&replies, check(after.path(), &replies, Lost::Power), &line);
            }
            if cuts.is_empty() {
                disk.heal();
                let line = format!("SEED=none OP={at} OF={:?} FAULT={}", self.kind, self.event);
                outcome.note(&replies, check(home.path(), &replies, Lost::Process), &line);
            }
        }
        outcome
    }

    /// The row as it stands on the page.
    pub(crate) fn line(&self, outcome: &Outcome) -> String {
        let operation = self.kind.map_or("any".to_owned(), |kind| kind.to_string());
        let replies = match self.event {
            Event::Fault(..) | Event::FaultThenCut(_) => outcome.replies.iter().cloned().collect::<Vec<_>>().join("; "),
            Event::Crash | Event::Cut(_) => "nothing more".to_owned(),
        };
        let found = outcome.found.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        format!("| {operation} | {} | {} | {replies} | {found} |", self.event, outcome.cases)
    }
}

impl Outcome {
    fn note(&mut self, replies: &Replies, found: Result<Found, String>, line: &str) {
        self.cases += 1;
        self.replies.insert(replies.in_words());
        match found {
            Ok(found) => drop(self.found.insert(found)),
            Err(error) => self.failures.push(format!("{line}: {error}")),
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Acknowledged => "what was acknowledged",
            Self::Doubtful => "that and the batch in doubt",
            Self::Truncated => "that except written batches at the end",
        })
    }
}

/// A folder in memory if possible: these tests are not about what the system makes durable.
pub(crate) fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// A home on a faulty disk.
pub(crate) fn home() -> (TempDir, Disk) {
    watch_files(ask);
    let home = folder();
    let disk = Disk::install(home.path()).unwrap();
    disk.watch("journal.mark");
    (home, disk)
}

/// Asks the disk before an operation that bypasses SQLite.
fn ask(step: FileStep<'_>, path: &Path) -> io::Result<()> {
    let (past, renamed_to) = match step {
        FileStep::MakeFolder => (Past::MakeFolder, None),
        FileStep::Open => (Past::Open, None),
        FileStep::SetMode => (Past::SetMode, None),
        FileStep::Lock => (Past::Lock, None),
        FileStep::Read => (Past::Read, None),
        FileStep::Write => (Past::Write, None),
        FileStep::Resize => (Past::Resize, None),
        FileStep::Reserve => (Past::Reserve, None),
        FileStep::Sync => (Past::Sync, None),
        FileStep::Rename(to) => (Past::Rename, Some(to)),
        FileStep::Remove => (Past::Remove, None),
    };
    past_sqlite(past, path, renamed_to)
}

const HEADER: &str =
    "| operation | fault | cases | replies to callers | found after reopening |\n|---|---|---|---|---|\n";
const BEGIN: &str = "<!-- written by the test: UPDATE=1 cargo test --profile ci -p journal --test faults -->\n";

/// Compares the page's table with these lines, or writes it if `UPDATE` is set. The number of cases may differ.
pub(crate) fn compare(page: &Path, lines: &[String]) {
    let text = std::fs::read_to_string(page).unwrap();
    let (intro, table) = text.split_once(BEGIN).unwrap();
    let new = format!("{HEADER}{}\n", lines.join("\n"));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(page, format!("{intro}{BEGIN}{new}")).unwrap();
        return;
    }
    for (old, new) in table.lines().zip(new.lines()) {
        assert_eq!(
            without_cases(old),
            without_cases(new),
            "{} is not what came out: write it with UPDATE=1",
            page.display()
        );
    }
    assert_eq!(table.lines().count(), new.lines().count());
}

fn without_cases(line: &str) -> String {
    line.split('|').enumerate().filter(|(at, _)| *at != 3).map(|(_, text)| text).collect()
}
