//! The command-line program: it parses arguments, prints and exits; the library does the rest.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use simulator::explore::{Describe, Explorer, Extent, Failure, replay};
use simulator::invariant::Invariant;
use simulator::kept::{Kept, kept_cases};
use simulator::plan::Plan;
use simulator::queue::{self, Interleaving, Played};
use simulator::random::{self, Counts, Failed, Mode, Sweep};
use simulator::report::{Report, Tally};
use simulator::shared::{self, Sharing};
use simulator::world::Medium;

const USAGE: &str = "\
usage: simulator check [--pairs N]          crash everywhere, and again at each of the next 40 operations, in N pairs of forms [default: all]
       simulator random [OPTIONS]           draw workloads and several faults for each
       simulator liveness [OPTIONS]         draw storms of faults and absent users; then everything must settle
       simulator disk [OPTIONS]             the same over the real journal, on a disk that can fail, die or lose its power at any
                                            operation: first at each one of a small workload, then at random
       simulator queue [OPTIONS]            draw interleavings of messages of every mode with other requests, judged by an oracle
       simulator shared [OPTIONS]           sessions that share one ledger, with a crash after every operation in every form
         --seed N [default: 1]  --cases N [default: no end]  --seconds S [default: 30]
         --record FILE                      append failing cases, shrunk (failed-seeds.txt is replayed by `check`)
       simulator replay CASE                run one case again, as a failure prints it
       simulator invariants                 what must hold, by name and letter, and where it is checked
       simulator mutants [--mutant NAME]    plant bugs and find them (needs a build with the feature `faults`)";

/// Every pair of forms for each pair of crash points.
const ALL: u32 = u32::MAX;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["check"] => check(ALL),
        ["check", "--pairs", pairs] => pairs.parse().map_or_else(|_| usage(), check),
        ["random", ref options @ ..] => drawn(Mode::Random, options),
        ["liveness", ref options @ ..] => drawn(Mode::Liveness, options),
        ["disk", ref options @ ..] => drawn(Mode::Disk, options),
        ["queue", ref options @ ..] => queue(options),
        ["shared", ref options @ ..] => shared(options),
        ["replay", "MODE=shared", ref rest @ ..] => {
            format!("MODE=shared {}", rest.join(" ")).parse().map_or_else(|_| usage(), shared_again)
        }
        ["replay", ref case @ ..] => case.join(" ").parse().map_or_else(|_| usage(), |case| again(&case)),
        ["invariants"] => invariants(),
        ["mutants"] => mutants(None),
        ["mutants", "--mutant", name] | ["--mutant", name] => mutants(Some(name)),
        _ => usage(),
    }
}

/// Prints a line. A closed pipe does not stop the program: the exit code still counts.
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
    for kept in kept_cases() {
        if again(&kept) == ExitCode::FAILURE {
            return ExitCode::FAILURE;
        }
    }
    if let Err(failure) = explore_all(pairs, &mut tally) {
        return report_failure(&failure);
    }
    say(Report { tally: &tally, took: began.elapsed() });
    let missing = if pairs > 0 { tally.missing() } else { vec![] };
    for pair in &missing {
        say(format!("the pair `{pair}` of pairs.txt was not reached: fix the workload, or remove the pair"));
    }
    if missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Explores all seeds in parallel, with a crash at every point of each. Reports the first failure by seed.
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

/// Reports a failure with the operations that led to it.
fn report_failure(failure: &Failure) -> ExitCode {
    say(failure);
    if let Some(plan) = Plan::new(failure.case.seed).map(Arc::new) {
        print_story(&replay(&plan, failure.case, Describe::Story).0);
    }
    ExitCode::FAILURE
}

/// Prints the end of a story.
fn print_story(story: &[String]) {
    let skip = story.len().saturating_sub(120);
    for line in &story[skip..] {
        say(format!("  {line}"));
    }
}

/// Runs one case again and describes it.
fn again(case: &Kept) -> ExitCode {
    let (story, result) = match case {
        Kept::Point(case) => {
            let Some(plan) = Plan::new(case.seed).map(Arc::new) else {
                say(format!("seed {} is not in the workload", case.seed));
                return ExitCode::from(2);
            };
            replay(&plan, *case, Describe::Story)
        }
        Kept::Drawn(trial) => random::run(trial, Describe::Story, &mut Counts::default()),
        Kept::Queue(case) => return queue_again(*case),
    };
    match result {
        Ok(_) => {
            say(format!("{case} holds"));
            ExitCode::SUCCESS
        }
        Err(violation) => {
            print_story(&story);
            say(format!("{case} {violation}"));
            ExitCode::FAILURE
        }
    }
}

/// Runs one interleaving of the queue again, and describes it if it breaks a rule.
fn queue_again(case: Interleaving) -> ExitCode {
    let (story, result) = queue::describe(case);
    match result {
        Ok(()) => {
            say(format!("{case} holds"));
            ExitCode::SUCCESS
        }
        Err(broken) => {
            print_story(&story);
            say(broken);
            ExitCode::FAILURE
        }
    }
}

/// Runs interleavings of the queue with these options.
fn queue(options: &[&str]) -> ExitCode {
    let (mut seed, mut cases, mut time, mut record) = (1, u64::MAX, Duration::from_secs(30), None);
    for pair in options.chunks(2) {
        let number = pair.get(1).and_then(|value| value.parse::<u64>().ok());
        match (pair[0], number) {
            ("--seed", Some(number)) => seed = number,
            ("--cases", Some(number)) => (cases, time) = (number, Duration::MAX),
            ("--seconds", Some(seconds)) => time = Duration::from_secs(seconds),
            ("--record", _) if pair.len() == 2 => record = Some(pair[1]),
            _ => return usage(),
        }
    }
    let began = Instant::now();
    let (played, broken) = queue::sweep(seed, cases, time);
    let Played { cases, messages, inputs, .. } = played;
    let took = began.elapsed().as_secs_f64();
    let kinds: Vec<String> = played.kinds().map(|(name, times)| format!("{name} {times}")).collect();
    say(format!("queue: {}", kinds.join(", ")));
    say(format!("queue: {cases} interleavings of {messages} messages, {inputs} inputs in {took:.1} s"));
    let Some(broken) = broken else { return ExitCode::SUCCESS };
    say(&broken);
    say(format!("again: simulator replay {}", broken.case));
    if let Some(file) = record {
        append(file, broken.case);
    }
    ExitCode::FAILURE
}

/// Runs sessions that share a ledger with these options.
fn shared(options: &[&str]) -> ExitCode {
    let (mut seed, mut seeds, mut time) = (1, u64::MAX, Duration::from_secs(30));
    for pair in options.chunks(2) {
        match (pair[0], pair.get(1).and_then(|value| value.parse::<u64>().ok())) {
            ("--seed", Some(number)) => seed = number,
            ("--cases", Some(number)) => (seeds, time) = (number, Duration::MAX),
            ("--seconds", Some(seconds)) => time = Duration::from_secs(seconds),
            _ => return usage(),
        }
    }
    let began = Instant::now();
    let (counts, broken) = shared::sweep(seed, seeds, time);
    let shared::Counts { cases, crashes, requests, cooled, expired, learned, cleared } = counts;
    say(format!(
        "shared: {cases} cases, {crashes} with a crash, {requests} requests; {cooled} cooldowns, {expired} of them again, \
         {learned} learned from another run, {cleared} cleared by a user in {:.1} s",
        began.elapsed().as_secs_f64()
    ));
    let Some(broken) = broken else { return ExitCode::SUCCESS };
    say(&broken);
    say(format!("again: simulator replay {}", broken.case));
    ExitCode::FAILURE
}

fn shared_again(case: Sharing) -> ExitCode {
    match shared::play(case, &mut shared::Counts::default()) {
        Ok(_) => {
            say(format!("{case} holds"));
            ExitCode::SUCCESS
        }
        Err(broken) => {
            say(broken);
            ExitCode::FAILURE
        }
    }
}

fn invariants() -> ExitCode {
    for invariant in Invariant::ALL {
        let (name, letters) = (invariant.name(), invariant.letters());
        say(format!("{name:<17} {letters:<6} {}; checked {}", invariant.says(), invariant.checked()));
    }
    say(format!("{} invariants", Invariant::ALL.len()));
    ExitCode::SUCCESS
}

/// Runs random cases with these options.
fn drawn(mode: Mode, options: &[&str]) -> ExitCode {
    let mut sweep = Sweep { mode, seed: 1, cases: u64::MAX, time: Duration::from_secs(30) };
    let mut record = None;
    for pair in options.chunks(2) {
        let number = pair.get(1).and_then(|value| value.parse::<u64>().ok());
        match (pair[0], number) {
            ("--seed", Some(seed)) => sweep.seed = seed,
            ("--cases", Some(cases)) => sweep.cases = cases,
            ("--seconds", Some(seconds)) => sweep.time = Duration::from_secs(seconds),
            ("--record", _) if pair.len() == 2 => record = Some(pair[1]),
            _ => return usage(),
        }
    }
    let failed = every_operation_of(mode).or_else(|| {
        let began = Instant::now();
        let (counts, failed) = random::sweep(sweep);
        say_counts(mode, "drawn, each twice", &counts, began.elapsed());
        failed
    });
    let Some(failed) = failed else { return ExitCode::SUCCESS };
    say(format!("{failed}"));
    let smallest = random::smallest(failed);
    say("the smallest case found:");
    if let Some(file) = record {
        append(file, &smallest.trial);
    }
    again(&Kept::Drawn(smallest.trial))
}

/// Over a file: first runs every harm at every operation of the small workload; returns a failure.
fn every_operation_of(mode: Mode) -> Option<Failed> {
    if mode.medium() == Medium::Memory {
        return None;
    }
    let began = Instant::now();
    let trials = match random::every_operation(random::SMALL) {
        Ok(trials) => trials,
        Err(failed) => return Some(failed),
    };
    let (counts, failed) = random::sweep_all(&trials);
    say_counts(mode, "each harm at each operation", &counts, began.elapsed());
    failed
}

fn say_counts(mode: Mode, of: &str, counts: &Counts, took: Duration) {
    let Counts { cases, operations, faults } = counts;
    let faults: Vec<String> = faults.iter().map(|(name, count)| format!("{name} {count}")).collect();
    say(format!("{}: {}", mode.name(), faults.join(", ")));
    let seconds = took.as_secs_f64().max(0.001);
    say(format!(
        "{}: {cases} cases, {of}, of {operations} operations in {seconds:.1} s: {:.0} cases/s",
        mode.name(),
        *cases as f64 / seconds
    ));
}

fn append(file: &str, case: impl std::fmt::Display) {
    let written =
        std::fs::OpenOptions::new().append(true).create(true).open(file).and_then(|mut file| writeln!(file, "{case}"));
    if let Err(error) = written {
        say(format!("{file} cannot be written: {error}"));
    }
}

/// The random case of these modes that finds the active mutant, with its mode.
#[cfg(feature = "faults")]
fn found_drawn(modes: &[Mode]) -> Option<(Mode, Counts, Failed)> {
    modes.iter().find_map(|&mode| {
        let sweep = Sweep { mode, seed: 1, cases: 3_000, time: Duration::from_mins(1) };
        let (counts, failed) = random::sweep(sweep);
        failed.map(|failed| (mode, counts, failed))
    })
}

/// Whether the active mutant in the journal on disk is found: by every harm at every operation, else by random cases.
#[cfg(feature = "faults")]
fn found_on_disk(name: &str) -> bool {
    let failed = match random::every_operation(random::SMALL) {
        Ok(trials) => random::sweep_all(&trials).1,
        Err(failed) => Some(failed),
    };
    let failed = failed.or_else(|| {
        let sweep = Sweep { mode: Mode::Disk, seed: 1, cases: 3_000, time: Duration::from_mins(1) };
        random::sweep(sweep).1
    });
    match &failed {
        Some(failed) => say(format!("{name}: found over a file: {failed}")),
        None => say(format!("{name}: SURVIVED every operation of a disk")),
    }
    failed.is_some()
}

/// Whether the active mutant in the routing is found by the oracle of the queue.
#[cfg(feature = "faults")]
fn found_in_routing(name: &str) -> bool {
    let (played, broken) = queue::sweep(1, 3_000, Duration::from_mins(1));
    match &broken {
        Some(broken) => say(format!("{name}: found by queue after {} cases: {broken}", played.cases)),
        None => say(format!("{name}: SURVIVED {} interleavings of the queue", played.cases)),
    }
    broken.is_some()
}

/// Whether crashes find the active mutant. Random cases come first: most mutants are found by a few hundred of them, in less
/// time than a crash at every operation takes.
#[cfg(feature = "faults")]
fn found_by_crashes(name: &str) -> bool {
    let drawn = |modes| {
        let found = found_drawn(modes);
        if let Some((mode, counts, failed)) = &found {
            say(format!("{name}: found by {} after {} cases: {failed}", mode.name(), counts.cases));
        }
        found.is_some()
    };
    if drawn(&[Mode::Random]) {
        return true;
    }
    let mut tally = Tally::default();
    // One seed after the other: most mutants are found by the first ones.
    let found = Plan::seeds().into_iter().map(|seed| {
        let (done, result) = explore(seed.seed, 0);
        tally.add(done);
        result
    });
    if let Some(failure) = found.map(Result::err).find(Option::is_some).flatten() {
        say(format!("{name}: found by check after {} cases: {failure}", tally.cases()));
        return true;
    }
    let others: Vec<Mode> = Mode::ALL.into_iter().filter(|mode| *mode != Mode::Random).collect();
    let is_found = drawn(&others);
    if !is_found {
        say(format!("{name}: SURVIVED {} cases and those of every other mode", tally.cases()));
    }
    is_found
}

#[cfg(feature = "faults")]
fn mutants(chosen: Option<&str>) -> ExitCode {
    use engine::mutants::{Mutant, plant};
    // A mutant may panic in the machine; that counts as found, and needs no trace.
    std::panic::set_hook(Box::new(|_| {}));
    let wanted: Vec<_> = Mutant::ALL.iter().filter(|(_, name)| chosen.is_none_or(|chosen| chosen == *name)).collect();
    if wanted.is_empty() {
        return usage();
    }
    let mut survivors = 0;
    for (mutant, name) in wanted {
        plant(Some(*mutant));
        if mutant.is_in_routing() {
            survivors += u32::from(!found_in_routing(name));
            continue;
        }
        if mutant.is_on_disk() {
            survivors += u32::from(!found_on_disk(name));
            continue;
        }
        survivors += u32::from(!found_by_crashes(name));
    }
    plant(None);
    if survivors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(not(feature = "faults"))]
fn mutants(_: Option<&str>) -> ExitCode {
    say("this build has no mutants: build it with `--features faults`");
    ExitCode::from(2)
}
