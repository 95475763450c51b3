//! The recordings of docs/: one task by a scripted model, and a run that is killed, in a real terminal, as pictures. They show what a program does, not
//! how fast: two runs give the same files, but for times, and a file is left as it is if only times differ.

#![allow(clippy::print_stdout, reason = "a program whose output is its report")]

mod kill;
mod picture;
mod scene;
mod screen;
mod server;
mod theme;
mod tmux;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use scene::{Colours, Moment, Scene};
use screen::Screen;
use theme::Theme;

/// An error that prevents a recording: nothing depends on its type, so its text is enough.
type Problem = Box<dyn std::error::Error>;

/// Columns of the terminals.
const NARROW: u16 = 80;
const WIDE: u16 = 200;

/// Record the task of a failing test, and a run that is killed, as pictures; needs tmux and Python
#[derive(Debug, Parser)]
struct Args {
    /// Record this `limulus`; default: the one beside this program
    #[arg(long)]
    binary: Option<PathBuf>,
    /// The beginning of the names of the pictures
    #[arg(long = "as", value_enum, default_value_t = Version::Now)]
    version: Version,
    /// Write them into this folder [default: docs/recordings]
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
}

/// Which program is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Version {
    /// The one of this tree; also recorded in the middle of the task
    Now,
    /// An older one, for comparison
    Before,
}

fn main() -> ExitCode {
    match record(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("recordings: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn record(args: &Args) -> Result<(), Problem> {
    let program = std::env::current_exe()?;
    let beside = || program.parent().map(|folder| folder.join("limulus")).ok_or("this program has no folder");
    let binary = std::path::absolute(args.binary.clone().map_or_else(beside, Ok)?)?;
    if !binary.is_file() {
        return Err(format!("no program at {}; build it: cargo build --release -p limulus", binary.display()).into());
    }
    let into = args.into.clone().unwrap_or_else(|| {
        let own = Path::new(env!("CARGO_MANIFEST_DIR"));
        own.join("../../docs/recordings")
    });
    std::fs::create_dir_all(&into)?;
    for columns in [NARROW, WIDE] {
        for colours in [Colours::Some, Colours::None] {
            let screen = Scene { binary: &binary, columns, colours, moment: Moment::End }.record()?;
            let name = format!("{}-{columns}", if args.version == Version::Now { "now" } else { "before" });
            write(&into, &name, &screen, colours)?;
        }
    }
    if args.version == Version::Now {
        let screen =
            Scene { binary: &binary, columns: NARROW, colours: Colours::Some, moment: Moment::During }.record()?;
        write(&into, &format!("during-{NARROW}"), &screen, Colours::Some)?;
        write(&into, &format!("killed-{NARROW}"), &kill::record(&binary, NARROW)?, Colours::Some)?;
    }
    Ok(())
}

/// Writes the pictures of a screen: dark and light, or one without colours.
fn write(into: &Path, name: &str, screen: &Screen, colours: Colours) -> Result<(), Problem> {
    let themes: &[Theme] = match colours {
        Colours::Some => &[Theme::Dark, Theme::Light],
        Colours::None => &[Theme::None],
    };
    for theme in themes {
        let path = into.join(format!("{name}-{}.svg", theme.name()));
        let known = std::fs::read_to_string(&path).unwrap_or_default();
        if picture::is_same_but_for_times(&known, screen) {
            println!("{}: unchanged", path.display());
            continue;
        }
        std::fs::write(&path, picture::svg(screen, *theme)?)?;
        println!("{}: written", path.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_arguments_are_in_order() {
        super::Args::command().debug_assert();
    }
}
