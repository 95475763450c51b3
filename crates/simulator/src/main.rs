//! The program: `check`, `mutants`, `replay`. It prints and exits; what is done is in the library.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use simulator::case::Case;
use simulator::explore::{Explorer, Extent, Failure, Tell, failed_cases, replay};
use simulator::report::{Report, Tally};
use simulator::workload::Plan;

const USAGE: &str = "\
usage: simulator check [--pairs N]          crash everywhere, and again at each of the next 40 operations, in N pairs of forms [default: all]
       simulator replay SEED CRASH SECOND   run one case again, as a failure prints it
       simulator mutants [--mutant NAME]    plant bugs and find them (needs a build with --cfg mutants)";

/// Every pair of forms for each pair of crash points.
const ALL: u32 = u32::MAX;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["check"] => check(ALL),
        ["check", "--pairs", pairs] => pairs.parse().map_or_else(|_| usage(), check),
        ["replay", ref case @ ..] => case.join(" ").parse().map_or_else(|_| usage(), again),
        ["mutants"] => mutants(None),
        ["mutants", "--mutant", name] | ["--mutant", name] => mutants(Some(name)),
        _ => usage(),
    }
}

/// Prints a line. A reader that went away is no reason to stop: the exit code still counts.
fn say(line: impl std::fmt::Display) {
    drop(writeln!(std::io::stdout(), "{line}"));
}

fn usage() -> ExitCode {
    drop(writeln!(std::io::stderr(), "{USAGE}"));
    ExitCode::from(2)
}

fn check(pairs: u32) -> ExitCode {
    let began = Instant::now();
    let mut tally = Tally::default();
    let found = replay_failed().and_then(|()| explore_all(pairs, &mut tally));
    if let Err(failure) = found {
        return told(&failure);
    }
    say(Report { tally: &tally, took: began.elapsed() });
    let missing = if pairs > 0 { tally.missing() } else { vec![] };
    for pair in &missing {
        say(format!("the pair `{pair}` of pairs.txt was not reached: mend the workload, or strike it"));
    }
    if missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn replay_failed() -> Result<(), Failure> {
    for case in failed_cases() {
        if let Some(plan) = Plan::new(case.seed).map(Arc::new) {
            replay(&plan, case, Tell::Nothing).1.map_err(|violation| Failure { case, violation })?;
        }
    }
    Ok(())
}

/// All seeds beside each other, a crash at every point of each. What the first failing seed found is told.
fn explore_all(pairs: u32, tally: &mut Tally) -> Result<(), Failure> {
    let seeds: Vec<u64> = Plan::seeds().iter().map(|seed| seed.seed).collect();
    let explored = std::thread::scope(|scope| {
        let threads: Vec<_> = seeds.iter().map(|seed| scope.spawn(|| explore(*seed, pairs))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let explored: Vec<(Tally, Result<(), Failure>)> = explored;
    let mut found = Ok(());
    for (seed, result) in explored {
        tally.add(seed);
        found = found.and(result);
    }
    found
}

fn explore(seed: u64, pairs: u32) -> (Tally, Result<(), Failure>) {
    let mut tally = Tally::default();
    let plan = Plan::new(seed).map(Arc::new);
    let found = plan.map_or(Ok(()), |plan| Explorer::new(plan, Extent { first_every: 1, pairs }, &mut tally).explore());
    (tally, found)
}

/// Tells a failure with what led to it.
fn told(failure: &Failure) -> ExitCode {
    say(failure);
    if let Some(plan) = Plan::new(failure.case.seed).map(Arc::new) {
        let (story, _) = replay(&plan, failure.case, Tell::Story);
        let skip = story.len().saturating_sub(60);
        for line in &story[skip..] {
            say(format!("  {line}"));
        }
    }
    ExitCode::FAILURE
}

fn again(case: Case) -> ExitCode {
    let Some(plan) = Plan::new(case.seed).map(Arc::new) else {
        say(format!("seed {} is not in the workload", case.seed));
        return ExitCode::from(2);
    };
    let (story, result) = replay(&plan, case, Tell::Story);
    for line in story {
        say(format!("  {line}"));
    }
    match result {
        Ok(_) => {
            say(format!("{case} holds"));
            ExitCode::SUCCESS
        }
        Err(violation) => {
            say(Failure { case, violation });
            ExitCode::FAILURE
        }
    }
}

#[cfg(mutants)]
fn mutants(chosen: Option<&str>) -> ExitCode {
    use engine::mutants::{Mutant, plant};
    // A planted bug may panic in the machine; that counts as found, and needs no trace.
    std::panic::set_hook(Box::new(|_| {}));
    let wanted: Vec<_> = Mutant::ALL.iter().filter(|(_, name)| chosen.is_none_or(|chosen| chosen == *name)).collect();
    if wanted.is_empty() {
        return usage();
    }
    let mut survivors = 0;
    for (mutant, name) in wanted {
        plant(Some(*mutant));
        let mut tally = Tally::default();
        // One seed after the other: a bug is found soon, and then the rest is not asked.
        let found = [0, 2].iter().flat_map(|pairs| Plan::seeds().into_iter().map(move |seed| (seed.seed, *pairs)));
        let found = found.map(|(seed, pairs)| {
            let (done, result) = explore(seed, pairs);
            tally.add(done);
            result
        });
        if let Some(failure) = found.map(Result::err).find(Option::is_some).flatten() {
            say(format!("{name}: found after {} cases: {failure}", tally.cases()));
        } else {
            survivors += 1;
            say(format!("{name}: SURVIVED {} cases", tally.cases()));
        }
    }
    plant(None);
    if survivors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(not(mutants))]
fn mutants(_: Option<&str>) -> ExitCode {
    say("this build has no planted bugs: build it with RUSTFLAGS=\"--cfg mutants\"");
    ExitCode::from(2)
}
