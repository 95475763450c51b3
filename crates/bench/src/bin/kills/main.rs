//! Kills the real binary with SIGKILL at chosen points and at any time, and checks the invariants afterwards.
//!
//! `kills --binary FAULTS [--plain SHIPPED]` runs every case and exits with 1 if anything is wrong. Each case has a fresh
//! home; the model is a server in this process; the client is a third process with its own record; the children of the
//! tools write the ledger.

#![allow(clippy::print_stdout, reason = "a program whose output is its report")]

mod case;
mod checks;
mod client;
mod faults;
mod guard;
mod kill_home;
mod odd_calls;
mod plan;
mod record;
mod report;
mod truth;

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Instant;

use clap::{Parser, Subcommand};
use model_server::ModelServer;

use case::{Bench, Verdict};
use faults::{FAULTS, NONE, ProviderFault};
use plan::{Attack, Build, Case, Random, Setup, Work};
use report::Report;

/// How many more passes are made for faults during which no kill happened.
const PASSES: usize = 24;
/// Cases without a provider fault, in the first pass and after all faults are met.
const PLAIN: usize = 8;

/// Send SIGKILL to the real binary and check what is left
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Args {
    /// Use this binary, built with the feature `faults`
    #[arg(long, required = true)]
    binary: Option<PathBuf>,
    /// Use this binary where no point is chosen, for example the shipped one; by default that of `--binary`
    #[arg(long)]
    plain: Option<PathBuf>,
    /// Require at least this many kills; random kills make up the number
    #[arg(long, default_value_t = 100)]
    kills: usize,
    /// Require at least this many kills during a resume
    #[arg(long, default_value_t = 10)]
    on_resume: usize,
    /// Require at least this many random kills of the shipped build
    #[arg(long, default_value_t = 20)]
    random: usize,
    /// Use this seed for random times
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run this many cases at once
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Run only cases whose name or fault contains this, and require no numbers
    #[arg(long)]
    only: Option<String>,
    /// Enable this mutant in the build with the feature `faults`; the harness must find it
    #[arg(long)]
    mutant: Option<String>,
    #[command(subcommand)]
    program: Option<Program>,
}

#[derive(Debug, Subcommand)]
enum Program {
    /// Start a program and record its output
    Client(client::Args),
}

fn main() -> ExitCode {
    let args = Args::parse();
    let result = match &args.program {
        Some(Program::Client(client)) => client::run(client).map(|()| ExitCode::SUCCESS).map_err(|e| e.to_string()),
        None => harness(&args),
    };
    result.unwrap_or_else(|error| {
        println!("kills: {error}");
        ExitCode::FAILURE
    })
}

fn harness(args: &Args) -> Result<ExitCode, String> {
    let started = Instant::now();
    let server = ModelServer::start().map_err(|e| format!("no model server: {e}"))?;
    let path = |path: &Option<PathBuf>| {
        let path = path.as_ref().ok_or("--binary is required")?;
        path.canonicalize().map_err(|e| format!("{}: {e}; build it first", path.display()))
    };
    let bench = Bench {
        points: path(&args.binary)?,
        plain: path(if args.plain.is_some() { &args.plain } else { &args.binary })?,
        server,
        mute: TcpListener::bind(("127.0.0.1", 0)).map_err(|e| format!("no silent port: {e}"))?,
        mutant: args.mutant.clone(),
    };
    let mut report = Report::default();
    attack(args, &bench, &mut report)?;
    report
        .violations
        .extend(bench.server.violations().into_iter().map(|violation| format!("model server: {violation}")));
    println!("{}", report.text());
    println!(
        "{} requests reached the model server; seed {}; {:.1?}",
        bench.server.seen().len(),
        args.seed,
        started.elapsed()
    );
    let violations = report.all_violations();
    for violation in &violations {
        println!("violation: {violation}");
    }
    println!("{}", if violations.is_empty() { "kills: no violation" } else { "kills: violations found" });
    Ok(if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the cases with points, random ones until the numbers are reached, and the guard.
fn attack(args: &Args, bench: &Bench, report: &mut Report) -> Result<(), String> {
    let whole_us = unharmed(bench, report)?;
    if let Some(only) = &args.only {
        let mut random = Random::new(args.seed, whole_us);
        let faults = FAULTS.iter().filter(|fault| fault.name.contains(only.as_str()));
        let random_cases = faults.flat_map(|fault| (0..3).map(move |pass| (fault, pass)));
        let random_cases: Vec<Case> = random_cases.map(|(fault, pass)| random.case(fault, pass)).collect();
        let pointed = plan::pointed().into_iter().filter(|case| case.name.contains(only.as_str()));
        let wanted: Vec<Case> = pointed.chain(random_cases).collect();
        play(&wanted, bench, args.jobs, report);
        return Ok(());
    }
    play(&plan::pointed(), bench, args.jobs, report);
    let mut random = Random::new(args.seed, whole_us);
    let mut due: Vec<&ProviderFault> = FAULTS.iter().collect();
    // Not every random time hits; this many passes must be enough.
    for pass in 0..PASSES {
        if pass == 0 || due.is_empty() {
            due.extend([&NONE; PLAIN]);
        }
        let some: Vec<Case> = due.iter().map(|fault| random.case(fault, pass)).collect();
        play(&some, bench, args.jobs, report);
        due = report.faults_not_met();
        if due.is_empty() && report.kills() >= args.kills && report.random_kills() >= args.random {
            break;
        }
    }
    if let Err(violation) = guard::check(bench) {
        report.violations.push(format!("guard: {violation}"));
    }
    report.violations.extend(report.shortfalls(args.kills, args.on_resume, args.random));
    Ok(())
}

/// Runs one case without a kill: the harness must find nothing wrong with it. Returns its duration in microseconds.
fn unharmed(bench: &Bench, report: &mut Report) -> Result<u64, String> {
    let attacks = vec![Attack::None];
    let case =
        Case { name: "unharmed".into(), build: Build::Plain, work: Work::Rounds, setup: Setup::default(), attacks };
    let started = Instant::now();
    let verdict = case::run(&case, bench);
    if let Some(violation) = verdict.violations.first() {
        return Err(format!("a run without a kill has a violation: {violation} {:?}", verdict.kept));
    }
    report.verdicts.push((case, verdict));
    u64::try_from(started.elapsed().as_micros()).map_err(|e| e.to_string())
}

/// Runs cases side by side, and keeps their order in the report.
fn play(cases: &[Case], bench: &Bench, jobs: usize, report: &mut Report) {
    let next = Mutex::new(0..cases.len());
    let done: Mutex<Vec<(usize, Verdict)>> = Mutex::new(vec![]);
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let at = next.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(at) = at else { return };
                    let verdict = case::run(&cases[at], bench);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((at, verdict));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    report.verdicts.extend(done.into_iter().map(|(at, verdict)| (cases[at].clone(), verdict)));
}
