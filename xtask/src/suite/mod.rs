//! Runs the whole proof: its stages run in parallel as far as there are cores, each prints its output when it has
//! ended, and a table at the end shows the times. What may not live here: what a stage checks; that is its own program.

mod perform;
mod progress;
mod stages;

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::Scope;
use std::time::{Duration, Instant};

use self::perform::perform;
use self::progress::Progress;
use self::stages::{Cores, Stage};
pub(crate) use self::stages::{SOAK_LIMIT, SOAKS, STAGE_LIMIT, STAGES, help};
use crate::Tally;
use crate::log_tail::LogTail;

/// Interval of lines about the stages that run.
const REPORT: Duration = Duration::from_mins(1);

/// A stage that has ended.
struct Ended {
    stage: &'static Stage,
    tally: Tally,
    took: Duration,
    /// Its whole output.
    printed: Vec<u8>,
    /// The part of the output about failures.
    failures: Vec<String>,
}

/// Runs the named stages, or all, each for no longer than `limit`. Failures are repeated at the end, since the start of a long log may be lost; the last
/// line has the number of checks that held and of those that did not.
pub(crate) fn run(
    root: &Path,
    stages: &'static [Stage],
    limit: Duration,
    only: &[String],
    out: &mut dyn Write,
) -> io::Result<bool> {
    let began = Instant::now();
    let mut waiting: Vec<&'static Stage> =
        stages.iter().filter(|stage| only.is_empty() || only.iter().any(|name| name == stage.name)).collect();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut ended: Vec<Ended> = vec![];
    std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        let mut running: Vec<(&'static Stage, Progress)> = vec![];
        loop {
            while waiting.first().is_some_and(|next| may_start(next, running.iter().map(|(stage, _)| *stage), cores)) {
                let stage = waiting.remove(0);
                writeln!(out, "== {}: {} (starts at {:.0} s)", stage.name, stage.about, began.elapsed().as_secs_f64())?;
                let progress = Progress::default();
                start(stage, root, limit, progress.clone(), scope, sender.clone());
                running.push((stage, progress));
            }
            if running.is_empty() {
                return Ok::<(), io::Error>(());
            }
            match receiver.recv_timeout(REPORT) {
                Ok(stage) => {
                    let stage = stage?;
                    running.retain(|(other, _)| other.name != stage.stage.name);
                    print(&stage, out)?;
                    ended.push(stage);
                }
                // Whoever ends the proof from outside sees what it waited for.
                Err(RecvTimeoutError::Timeout) => {
                    for (stage, progress) in &running {
                        writeln!(out, ".. {}: {progress}", stage.name)?;
                    }
                    out.flush()?;
                }
                Err(RecvTimeoutError::Disconnected) => unreachable!("this function holds a sender"),
            }
        }
    })?;
    summary(&ended, began.elapsed(), out)
}

/// Whether a stage may start: one more than there are cores, since many stages wait half of their time. A stage that
/// needs all cores waits until nothing else runs, and later ones wait for it.
fn may_start<'a>(next: &Stage, running: impl Iterator<Item = &'a Stage>, cores: usize) -> bool {
    let running: Vec<Cores> = running.map(|stage| stage.cores).collect();
    let is_full = running.len() > cores || running.contains(&Cores::All);
    running.is_empty() || (next.cores == Cores::One && !is_full)
}

/// Runs a stage on its own thread.
fn start<'scope>(
    stage: &'static Stage,
    root: &'scope Path,
    limit: Duration,
    progress: Progress,
    scope: &'scope Scope<'scope, '_>,
    ended: Sender<io::Result<Ended>>,
) {
    scope.spawn(move || {
        let began = Instant::now();
        let mut printed = vec![];
        let mut observed = progress.observe(&mut printed);
        let mut tail = LogTail::new(&mut observed);
        let tally = perform(&stage.action, root, limit, &mut tail).or_else(|error| {
            writeln!(tail, "{} cannot be run: {error}", stage.name)?;
            Ok(Tally::of(false))
        });
        let failures = tail.failures().to_vec();
        // Nobody receives it if writing the output has failed.
        let _ = ended.send(tally.map(|tally| Ended { stage, tally, took: began.elapsed(), printed, failures }));
    });
}

fn print(ended: &Ended, out: &mut dyn Write) -> io::Result<()> {
    let Ended { stage, tally: Tally { passed, failed }, took, printed, .. } = ended;
    writeln!(out, "== {}:", stage.name)?;
    out.write_all(printed)?;
    writeln!(out, "-- {}: {passed} held, {failed} did not, {:.1} s", stage.name, took.as_secs_f64())?;
    out.flush()
}

/// The variable with the stages that ran before this program, as `NAME=SECONDS`, separated by spaces; `.ci/run` sets
/// it.
const EARLIER: &str = "EARLIER_STAGES";

/// Prints the failures, the times and the totals. Returns whether nothing failed.
fn summary(ended: &[Ended], took: Duration, out: &mut dyn Write) -> io::Result<bool> {
    let mut total = Tally::default();
    let mut table = String::new();
    let earlier = std::env::var(EARLIER).unwrap_or_default();
    for (name, seconds) in earlier.split_whitespace().filter_map(|stage| stage.split_once('=')) {
        writeln!(table, "  {name:<14} {seconds:>5}   s").expect("a String takes all");
    }
    for Ended { stage, tally, took, failures, .. } in ended {
        total += *tally;
        if tally.failed > 0 {
            writeln!(out, "what did not hold in {}:", stage.name)?;
            for line in failures {
                writeln!(out, "  {line}")?;
            }
        }
        writeln!(table, "  {:<14} {:>7.1} s", stage.name, took.as_secs_f64()).expect("a String takes all");
    }
    writeln!(out, "{table}  {:<14} {:>7.1} s", "the proof", took.as_secs_f64())?;
    writeln!(out, "{} passed, {} failed", total.passed, total.failed)?;
    Ok(total.failed == 0)
}

#[cfg(test)]
mod tests {
    use super::{STAGE_LIMIT, STAGES, may_start, run};
    use crate::suite::stages::{Action, Cores, Stage};
    use crate::tree::made_up::Folder;

    const ONE: Stage = Stage { name: "one", about: "", cores: Cores::One, action: Action::Tidy };
    const ALL: Stage = Stage { name: "all", about: "", cores: Cores::All, action: Action::Tidy };

    #[test]
    fn stages_run_in_parallel_while_there_are_cores() {
        for (next, running, starts) in [
            (&ONE, vec![], true),
            (&ONE, vec![&ONE], true),
            (&ONE, vec![&ONE, &ONE], true),
            (&ONE, vec![&ONE, &ONE, &ONE], false),
            (&ONE, vec![&ALL], false),
            (&ALL, vec![], true),
            (&ALL, vec![&ONE], false),
        ] {
            let names: Vec<_> = running.iter().map(|stage| stage.name).collect();
            assert_eq!(may_start(next, running.into_iter(), 2), starts, "{} beside {names:?}", next.name);
        }
        assert!(!may_start(&ONE, [&ONE, &ONE].into_iter(), 1));
    }

    #[test]
    fn the_last_line_is_the_sum_and_the_table_is_before_it() {
        let folder = Folder::new(&[("a.rs", "fn a() {}\n")]);
        let mut out = vec![];
        let only = ["tidy".to_owned(), "requirements".to_owned()];
        let is_good = run(&folder.0, STAGES, STAGE_LIMIT, &only, &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(!is_good && out.ends_with("\n15 passed, 4 failed\n"), "{out}");
        let table: Vec<&str> = out.lines().rev().skip(1).take(3).collect();
        assert!(table[0].starts_with("  the proof "), "{out}");
        assert!(table.iter().any(|line| line.starts_with("  tidy ")), "{out}");
    }
}
