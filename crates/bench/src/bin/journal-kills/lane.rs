//! One home after the other: a child appends and is killed, the harness checks what is left, and the next child
//! continues there.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::checks::{Findings, Truth, Violation};
use super::report::Report;
use super::report_line::{self, ReportLine};
use super::script;
use super::{Bug, wal};
use model_server::rng::Rng;

/// Kills of one home: enough that its WAL is checkpointed meanwhile, few enough that reading all of it again is fast.
const KILLS_A_HOME: u64 = 40;
/// Sessions of a home; each has two appends in flight.
const SESSIONS: [u64; 4] = [1, 3, 8, 24];
/// The longest life of a child that is to be killed while it opens the home, microseconds; opening takes about as long.
const OPENING_US: u64 = 6_000;
/// The longest life of other children after their first report, microseconds: it covers any phase of their work.
const WORKING_US: u64 = 12_000;
/// Or they live until this many reports, and a little longer: the next commit follows a report.
const WORDS: u64 = 150;
const LITTLE_US: u64 = 400;

/// The limits of a run of the harness.
#[derive(Debug, Clone, Copy)]
pub(super) struct Until {
    pub(super) deadline: Instant,
    pub(super) kills: u64,
}

/// A sequence of homes in this folder.
pub(super) struct Lane {
    pub(super) folder: PathBuf,
    pub(super) rng: Rng,
    pub(super) bug: Option<Bug>,
}

/// The home in use, and what is known about it.
struct Home {
    path: PathBuf,
    seed: u64,
    truth: Truth,
}

impl Lane {
    /// Kills and checks until the time is over, or something does not hold: then the home is kept.
    pub(super) fn run(mut self, until: Until) -> io::Result<Report> {
        let mut report = Report::default();
        while report.is_good() && until.is_ahead(&report) {
            let seed = self.rng.next();
            let sessions = SESSIONS[self.rng.below(SESSIONS.len() as u64) as usize];
            let truth = Truth::new(script::sessions(seed, sessions));
            let mut home = Home { path: self.folder.join(format!("{seed:016x}")), seed, truth };
            for _ in 0..KILLS_A_HOME {
                self.kill(&mut home, &mut report)?;
                if !(report.is_good() && until.is_ahead(&report)) {
                    break;
                }
            }
            if report.is_good() {
                home.finish(&mut report);
            }
            if report.is_good() {
                std::fs::remove_dir_all(&home.path)?;
            }
        }
        Ok(report)
    }

    /// How many reports of a child to wait for, and how many microseconds it lives after them.
    fn life(&mut self) -> (u64, u64) {
        match self.rng.below(6) {
            0 => (0, self.rng.below(OPENING_US)),
            1..=3 => (1, self.rng.below(WORKING_US)),
            _ => (1 + self.rng.below(WORDS), self.rng.below(LITTLE_US)),
        }
    }

    /// One child, its end, and the check.
    fn kill(&mut self, home: &mut Home, report: &mut Report) -> io::Result<()> {
        let mut child = home.command(self.bug)?.spawn()?;
        let mut pipe = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut observed = vec![];
        let (words, then_us) = self.life();
        // A child that ends before its last report is noticed below.
        pipe.by_ref().take(words * report_line::BYTES as u64).read_to_end(&mut observed)?;
        // waits: for nothing; the kill comes at a random time
        std::thread::sleep(Duration::from_micros(then_us));
        child.kill()?;
        pipe.read_to_end(&mut observed)?;
        let output = child.wait_with_output()?;
        report.kills += 1;
        if let Some(code) = output.status.code() {
            let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            report.violate(home.locate(Violation::Wrong(format!("the owner ended by itself with {code}: {stderr}"))));
        }
        report.mid_commit += u64::from(wal::pages_without_commit(&home.path.join("journal.db-wal"))? > 0);
        let findings = home.truth.check(&home.path, ReportLine::all(&observed));
        report.opening += u64::from(observed.is_empty());
        report.unacknowledged_kills += u64::from(findings.unacknowledged > 0);
        home.count(findings, report);
        Ok(())
    }
}

impl Until {
    fn is_ahead(self, report: &Report) -> bool {
        report.kills < self.kills && Instant::now() < self.deadline
    }
}

impl Home {
    fn command(&self, bug: Option<Bug>) -> io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        let done: Vec<String> = self.truth.done().iter().map(u64::to_string).collect();
        command.args(["writer", "--seed", &self.seed.to_string(), "--done", &done.join(",")]);
        command.arg("--home").arg(&self.path);
        if bug.is_some() {
            command.args(["--bug", "early"]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    /// Checks everything again from the first entry: as the last kill left it, and after an owner has closed it
    /// properly.
    fn finish(&self, report: &mut Report) {
        report.homes += 1;
        let before = self.truth.check_all(&self.path);
        report.read_again += before.entries;
        self.all_hold(before.violations, report);
        match journal::Sqlite::own(&self.path) {
            Ok(journal) => drop(journal),
            Err(error) => report.violate(self.locate(Violation::Wrong(format!("it cannot be owned: {error}")))),
        }
        let left = std::fs::metadata(self.path.join("journal.db-wal")).map_or(0, |meta| meta.len());
        if left > 0 {
            report.violate(self.locate(Violation::Wrong(format!("closed properly, and its WAL has {left} bytes"))));
        }
        self.all_hold(self.truth.check_all(&self.path).violations, report);
    }

    fn count(&self, findings: Findings, report: &mut Report) {
        report.acknowledged += findings.acknowledged;
        report.unacknowledged += findings.unacknowledged;
        report.entries += findings.entries;
        self.all_hold(findings.violations, report);
    }

    fn all_hold(&self, violations: Vec<Violation>, report: &mut Report) {
        for violation in violations {
            report.violate(self.locate(violation));
        }
    }

    fn locate(&self, violation: Violation) -> Violation {
        let at = |what: String| format!("{}: {what}", file_name(&self.path));
        match violation {
            Violation::Lost(what) => Violation::Lost(at(what)),
            Violation::Gap(what) => Violation::Gap(at(what)),
            Violation::Wrong(what) => Violation::Wrong(at(what)),
        }
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Runs lanes side by side; merges their reports.
pub(super) fn run_all(lanes: Vec<Lane>, until: Until) -> io::Result<Report> {
    let share = Until { kills: until.kills.div_ceil(lanes.len().max(1) as u64), ..until };
    let total = Arc::new(std::sync::Mutex::new(Report::default()));
    std::thread::scope(|scope| {
        let running: Vec<_> = lanes.into_iter().map(|lane| scope.spawn(move || lane.run(share))).collect();
        for lane in running {
            let report = lane.join().map_err(|_| io::Error::other("a lane panicked"))??;
            total.lock().unwrap_or_else(std::sync::PoisonError::into_inner).add(report);
        }
        Ok::<(), io::Error>(())
    })?;
    let total = std::mem::take(&mut *total.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    Ok(total)
}
