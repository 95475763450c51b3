//! `limulus man`: the manual pages, generated from the definition of the arguments.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory as _};
use clap_mangen::Man;
use serde_json::json;

use crate::args::Cli;
use crate::error::{CliError, Exit};
use crate::show::human::count;
use crate::show::{json, print, worded};

/// Print the manual pages.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Write the pages of all commands into this folder, instead of printing the first
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print one JSON object that names the files
    #[arg(long, requires = "dir")]
    json: bool,
}

/// Prints the page of the program, or writes all pages.
pub(crate) fn run(args: &ManArgs) -> Result<(), CliError> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut pages = vec![];
    render(&command, &mut pages);
    let Some(dir) = &args.dir else {
        let (_, page) = pages.swap_remove(0);
        return print(&String::from_utf8_lossy(&page));
    };
    write(dir, &pages).map_err(|error| CliError::Failed {
        exit: Exit::Store,
        what: format!("the pages cannot be written to {} ({error})", dir.display()),
        hint: "name a folder that can be written".to_owned(),
    })?;
    let files: Vec<String> = pages.iter().map(|(name, _)| dir.join(name).display().to_string()).collect();
    let message = format!("{} are in {}\n", count(files.len(), "page"), dir.display());
    print(&if args.json { json(&json!({"files": files})) } else { worded(message) })
}

/// The pages of a command and all its subcommands, by file name.
fn render(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) {
    let man = Man::new(command.clone());
    let mut page = vec![];
    man.render(&mut page).expect("a Vec takes all that is written to it");
    pages.push((man.get_filename(), page));
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        render(subcommand, pages);
    }
}

fn write(dir: &Path, pages: &[(String, Vec<u8>)]) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    pages.iter().try_for_each(|(name, page)| fs::write(dir.join(name), page))
}
