//! The figures that docs/figures.md quotes, in one table. Numbers are printed, never asserted.

#![allow(clippy::print_stdout, reason = "a program whose output is its report")]

mod bare;
mod cold;
mod durable;
mod end_to_end;
mod engine_rates;
mod estimate;
mod floor;
mod killed;
mod once;
mod opening;
mod real;
mod render;
mod rounds;
mod sandbox;
mod search;
mod serve;
mod steps;
mod store;
mod stream;
mod table;
mod terminal;
mod turns;
mod warm;
mod world;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

use table::Line;

/// An error that prevents a measurement: nothing depends on its type, so its text is enough.
type Problem = Box<dyn std::error::Error>;

/// Print the figures of this machine as a table
#[derive(Debug, Parser)]
struct Args {
    /// Measure this `limulus`; default: the one beside this program
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Measure only this figure
    #[arg(long, value_enum)]
    only: Option<Figure>,
    #[command(subcommand)]
    program: Option<Program>,
}

#[derive(Debug, Subcommand)]
enum Program {
    /// Run a model server until stdin ends, and print its address as the first line of stdout
    Server,
    /// Do work once, so that the caller can measure its cost
    #[command(hide = true)]
    Once {
        /// Send this message to each session
        #[arg(long)]
        message: String,
        #[command(flatten)]
        once: once::Once,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Figure {
    /// Measure the engine's inputs a second
    Engine,
    /// Measure the rendering of a request of 200,000 tokens
    Render,
    /// Measure the error of the token estimate
    Estimate,
    /// Measure the store's synced events a second
    Store,
    /// Measure whole runs with tool rounds, W1 and W2
    Durable,
    /// Measure a reply of 20,000 tokens and long arguments, W3
    Stream,
    /// Measure what it costs to draw an answer of 20,000 tokens a second on a terminal; needs tmux
    Terminal,
    /// Measure 500 turns of one session, W4
    Turns,
    /// Compare round 1,000 of a run with round 10
    Rounds,
    /// Measure a run of 1,000 steps in a window of 200,000 tokens
    Steps,
    /// Measure events a second, syncs and acknowledgements of 64 sessions
    EndToEnd,
    /// Measure the opening of a home with 10,000 live events and 100,000 idle sessions
    Opening,
    /// Compare the tools that search with `rg` and `fd`, on 100,000 files
    Search,
    /// Measure the cold start, W5
    Cold,
    /// Measure the recovery after a kill, W6
    Killed,
    /// Measure `limulus serve`: acknowledgements, subscribers, turns, and its cost when idle
    Serve,
    /// Measure the same over TCP: WebSockets and the API of OpenAI
    Web,
    /// Measure what a command costs more in its sandbox than without one
    Sandbox,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let result = match &args.program {
        Some(Program::Server) => warm::serve(),
        Some(Program::Once { message, once }) => once.run(message),
        None => print(&args),
    };
    if let Err(problem) = result {
        eprintln!("bench: {problem}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn print(args: &Args) -> Result<(), Problem> {
    if cfg!(debug_assertions) {
        eprintln!("bench: this is no release build; run `cargo run --release -p bench`");
    }
    let program = std::env::current_exe()?;
    let beside = program.parent().ok_or("this program has no folder")?;
    // Not the system's temporary folder: it may be in memory, where a sync costs nothing.
    let folder = tempfile::Builder::new().prefix("bench-").tempdir_in(beside)?;
    let binary = args.binary.clone().unwrap_or_else(|| beside.join("limulus"));
    // Programs are started in separate folders.
    let binary = std::path::absolute(binary)?;
    let (mut rows, mut missing) = (vec![], vec![]);
    for figure in Figure::value_variants().iter().filter(|figure| args.only.is_none_or(|only| only == **figure)) {
        let name = figure.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
        let folder = folder.path().join(name);
        std::fs::create_dir_all(&folder)?;
        match measure(*figure, &binary, &folder) {
            Ok(measured) => rows.extend(measured),
            Err(problem) => missing.push(format!("{figure:?} could not be measured: {problem}")),
        }
    }
    println!("{}", table::markdown(&rows));
    if missing.is_empty() { Ok(()) } else { Err(missing.join("\n").into()) }
}

fn measure(figure: Figure, binary: &Path, folder: &Path) -> Result<Vec<Line>, Problem> {
    match figure {
        Figure::Engine => Ok(engine_rates::measure()),
        Figure::Render => Ok(render::measure()),
        Figure::Estimate => estimate::measure(),
        Figure::Store => store::measure(folder),
        Figure::Durable => durable::measure(folder),
        Figure::Stream => stream::measure(folder),
        Figure::Turns => turns::measure(folder),
        Figure::Rounds => rounds::measure(folder),
        Figure::Steps => steps::measure(folder),
        Figure::Search => search::measure(folder),
        Figure::EndToEnd => end_to_end::measure(folder),
        Figure::Terminal
        | Figure::Opening
        | Figure::Cold
        | Figure::Killed
        | Figure::Serve
        | Figure::Web
        | Figure::Sandbox
            if !binary.is_file() =>
        {
            Err(format!("no program at {}; build it: cargo build --release -p limulus", binary.display()).into())
        }
        Figure::Terminal => terminal::measure(binary, folder),
        Figure::Opening => opening::measure(binary, folder),
        Figure::Cold => cold::measure(binary, folder),
        Figure::Killed => killed::measure(binary, folder),
        Figure::Serve => serve::measure(binary, folder),
        Figure::Web => serve::web::measure(binary, folder),
        Figure::Sandbox => sandbox::measure(binary, folder),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_arguments_are_in_order() {
        super::Args::command().debug_assert();
    }
}
