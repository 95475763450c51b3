//! The kill rate: SIGKILL to the owner of a journal, again and again, and what it acknowledged must be there.
//!
//! A child (this program once more) owns a home and appends entries, progress and bodies over several sessions as fast as
//! it can; it tells each acknowledgement on a pipe in the moment in which it is given. The parent kills it at a random
//! time, compares what is new with what was attempted, and starts the next child on the same home. Exits with 1 if
//! anything that was acknowledged is lost, if there is a gap, or if anything is not as it was attempted.

#![allow(clippy::print_stdout, reason = "a program whose output is its report")]

mod checks;
mod expected;
mod lane;
mod report;
mod script;
mod told;
mod wal;
mod writer;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand, ValueEnum};

use lane::{Lane, Until};
use model_server::draw::Draw;

/// What keeps the harness from going on; its words are enough.
type Problem = Box<dyn std::error::Error>;

/// Kills the owner of a journal again and again and checks what is left
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Args {
    /// Go on for so long
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// At most so many kills
    #[arg(long, default_value_t = u64::MAX)]
    kills: u64,
    /// What homes and times are drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Homes that are worked on at once
    #[arg(long, default_value_t = 2)]
    lanes: u64,
    /// Where the homes are made; default: beside this program, which is on a disk
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Plant this bug in the child: a harness that then finds nothing is of no use
    #[arg(long, value_enum)]
    bug: Option<Bug>,
    #[command(subcommand)]
    program: Option<Program>,
}

/// Bugs of the child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Bug {
    /// It acknowledges before the journal has answered
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
        // Not the system's folder for temporary files: that one may be in memory.
        None => std::env::current_exe()?.parent().ok_or("this program has no folder")?.to_owned(),
    };
    let folder = tempfile::Builder::new().prefix("journal-kills-").tempdir_in(folder)?;
    let mut draw = Draw::new(args.seed);
    let lanes = (0..args.lanes.max(1)).map(|_| {
        let (folder, draw) = (folder.path().to_owned(), Draw::new(draw.next()));
        Lane { folder, draw, bug: args.bug }
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
    // What is left of it is for a look.
    eprintln!(
        "journal-kills: does not hold, or nothing was checked; the homes are kept in {}",
        folder.keep().display()
    );
    Ok(ExitCode::FAILURE)
}
