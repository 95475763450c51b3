//! The kill rate: SIGKILL to the owner of a journal, again and again; what it acknowledged must still exist.
//!
//! A child (this program again) owns a home and appends entries, progress and bodies over several sessions as fast as
//! it can; it reports each acknowledgement on a pipe as soon as it gets it. The parent kills it at a random time,
//! compares the new data with the attempts, and starts the next child on the same home. It exits with 1 if
//! anything acknowledged is lost, if there is a gap, or if anything is not as it was attempted.

#![allow(clippy::print_stdout, reason = "a program whose output is its report")]

mod checks;
mod expected;
mod lane;
mod report;
mod report_line;
mod script;
mod wal;
mod writer;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand, ValueEnum};

use lane::{Lane, Until};
use model_server::rng::Rng;

/// An error that stops the harness; its text is enough.
type Problem = Box<dyn std::error::Error>;

/// Kill the owner of a journal again and again, and check what is left
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Args {
    /// Stop after this many seconds
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Stop after this many kills
    #[arg(long, default_value_t = u64::MAX)]
    kills: u64,
    /// Use this seed for homes and times
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Use this many homes at once
    #[arg(long, default_value_t = 2)]
    lanes: u64,
    /// Create the homes in this folder; default: the folder of this program, which is on a disk
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Enable this bug in the child; the harness must find it
    #[arg(long, value_enum)]
    bug: Option<Bug>,
    #[command(subcommand)]
    program: Option<Program>,
}

/// Bugs of the child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Bug {
    /// Acknowledge before the journal has replied
    Early,
}

#[derive(Debug, Subcommand)]
enum Program {
    /// Own a home and append until killed
    Writer(writer::Args),
}

fn main() -> ExitCode {
    let args = Args::parse();
    let result = match &args.program {
        Some(Program::Writer(writer)) => writer::run(writer).map(|()| ExitCode::SUCCESS),
        None => harness(&args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("journal-kills: {error}");
        ExitCode::FAILURE
    })
}

fn harness(args: &Args) -> Result<ExitCode, Problem> {
    let folder = match &args.folder {
        Some(folder) => folder.clone(),
        // Not the system's temporary folder: it may be in memory.
        None => std::env::current_exe()?.parent().ok_or("this program has no folder")?.to_owned(),
    };
    let folder = tempfile::Builder::new().prefix("journal-kills-").tempdir_in(folder)?;
    let mut rng = Rng::new(args.seed);
    let lanes = (0..args.lanes.max(1)).map(|_| {
        let (folder, rng) = (folder.path().to_owned(), Rng::new(rng.next()));
        Lane { folder, rng, bug: args.bug }
    });
    let lanes = lanes.collect();
    let started = Instant::now();
    let until = Until { deadline: started + Duration::from_secs(args.seconds), kills: args.kills };
    let report = lane::run_all(lanes, until)?;
    let seconds = started.elapsed().as_secs_f64();
    if args.json {
        println!("{}", report.json(seconds, args.seed));
    } else {
        println!("{}\nseed {}", report.text(seconds), args.seed);
    }
    if report.is_good() && report.acknowledged > 0 {
        return Ok(ExitCode::SUCCESS);
    }
    // The homes are kept for inspection.
    eprintln!("journal-kills: violations, or nothing was checked; the homes are kept in {}", folder.keep().display());
    Ok(ExitCode::FAILURE)
}
