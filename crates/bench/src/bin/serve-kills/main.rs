//! `limulus serve` killed with SIGKILL again and again while clients are attached, and what they were told must be what the
//! journal says.
//!
//! Each home has one owner at a time, a child of this process. Watchers read the events of all sessions, one of them as the
//! whole home, and come back from their cursors; senders send messages and send them again, under the same key, until they
//! are answered. After so many kills the last owner settles everything and leaves in order; then the journal is read entry by
//! entry. Exits with 1 if a message is lost or ran twice, if a watcher has read a byte that is not in the journal or missed one
//! that is, or if anything was told twice.

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
use model_server::draw::Draw;

use case::{Case, Verdict};

/// Kills before a home is settled and looked at.
const KILLS_A_HOME: u64 = 25;

/// Kills `limulus serve` with clients attached, and checks what they were told
#[derive(Debug, Parser)]
struct Args {
    /// Go on for so long
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// At most so many kills
    #[arg(long, default_value_t = u64::MAX)]
    kills: u64,
    /// What the times of the kills and the messages are drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The program; default: `limulus` beside this one
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
    let (started, mut draw, mut all) = (Instant::now(), Draw::new(args.seed), Verdict::default());
    while all.kills < args.kills && started.elapsed() < Duration::from_secs(args.seconds) && all.violations.is_empty() {
        let kills = KILLS_A_HOME.min(args.kills - all.kills);
        let case = Case { binary: &binary, base_url: &server.base_url(), kills, draw: Draw::new(draw.next()) };
        all.add(runtime.block_on(case.play())?);
    }
    all.violations.extend(server.violations().into_iter().map(|violation| format!("model server: {violation}")));
    println!("{}\nseed {}", all.text(started.elapsed().as_secs_f64()), args.seed);
    let is_good = all.violations.is_empty() && all.messages > 0 && all.kills > 0;
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn beside() -> Result<PathBuf, String> {
    let path = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("limulus");
    if path.exists() { Ok(path) } else { Err(format!("{} is not there: build it, or say --binary", path.display())) }
}
