//! `limulus serve` is killed with SIGKILL again and again while clients are attached; what they received must match the
//! journal.
//!
//! Each home has one owner at a time, a child of this process. Watchers read the events of all sessions, one of them as
//! the whole home, and resume from their cursors; senders send messages and repeat them, with the same key, until they
//! are answered. After the last kill the last owner finishes everything and shuts down properly; then the journal is
//! read entry by entry. Exits with 1 if a message is lost or ran twice, if a watcher has read a byte that is not in the
//! journal or missed one that is, or if anything was published twice.

#![allow(clippy::print_stdout, reason = "a program whose output is its report")]

mod case;
mod checks;
mod connector;
mod owner;
mod seen;
mod sender;
mod truth;
mod watcher;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use model_server::ModelServer;
use model_server::rng::Rng;

use case::{Case, Verdict};

/// Kills before a home is settled and checked.
const KILLS_A_HOME: u64 = 25;

/// Kill `limulus serve` with clients attached, and check what they received
#[derive(Debug, Parser)]
struct Args {
    /// Stop after this many seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Stop after this many kills
    #[arg(long, default_value_t = u64::MAX)]
    kills: u64,
    /// Use this seed for the times of the kills and for the messages
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Use this program; default: `limulus` beside this one
    #[arg(long)]
    binary: Option<PathBuf>,
}

fn main() -> ExitCode {
    match harness(&Args::parse()) {
        Ok(code) => code,
        Err(problem) => {
            println!("serve-kills: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn harness(args: &Args) -> Result<ExitCode, String> {
    let binary = args.binary.clone().map_or_else(beside, Ok)?;
    let server = ModelServer::start().map_err(|error| format!("no model server: {error}"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let (started, mut rng, mut all) = (Instant::now(), Rng::new(args.seed), Verdict::default());
    while all.kills < args.kills && started.elapsed() < Duration::from_secs(args.seconds) && all.violations.is_empty() {
        let kills = KILLS_A_HOME.min(args.kills - all.kills);
        let case = Case { binary: &binary, base_url: &server.base_url(), kills, rng: Rng::new(rng.next()) };
        all.add(runtime.block_on(case.play())?);
    }
    all.violations.extend(server.violations().into_iter().map(|violation| format!("model server: {violation}")));
    println!("{}\nseed {}", all.text(started.elapsed().as_secs_f64()), args.seed);
    let is_good = all.violations.is_empty() && all.messages > 0 && all.kills > 0;
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn beside() -> Result<PathBuf, String> {
    let path = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("limulus");
    if path.exists() { Ok(path) } else { Err(format!("{} does not exist: build it, or pass --binary", path.display())) }
}
