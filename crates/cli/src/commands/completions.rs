//! `limulus completions`: scripts that ask this program what can be typed, and the answers. Names of sessions, ids of runs and models are
//! read from the home when Tab is pressed.

mod candidates;

use std::env;
use std::ffi::OsString;

use clap::{Args, CommandFactory as _, value_parser};
use clap_complete::Shell;
use clap_complete::env::{EnvCompleter, Shells};

use crate::args::Cli;
use crate::error::CliError;
use crate::show::print;

/// What stands in a script for the command that answers.
const ANSWERS: &str = "LIMULUS_ANSWERS";

/// Print completions for your shell.
#[derive(Debug, Clone, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
    /// The words of the command line that is typed: print what may follow
    #[arg(last = true, hide = true, value_parser = value_parser!(OsString))]
    words: Vec<OsString>,
}

pub(crate) fn run(args: CompletionsArgs) -> Result<(), CliError> {
    let name = args.shell.to_string();
    let shells = Shells::builtins();
    let shell = shells.completer(&name).ok_or_else(|| CliError::bug(&format!("no completions for {name}")))?;
    let mut text = vec![];
    let written = if args.words.is_empty() {
        shell.write_registration("COMPLETE", "limulus", "limulus", ANSWERS, &mut text)
    } else {
        answer(shell, args.words, &mut text)
    };
    written.map_err(|error| CliError::bug(&format!("completions of {name}: {error}")))?;
    let command = format!("limulus completions {name} -- ");
    let text = String::from_utf8_lossy(&text);
    print(&text.replace(&format!("\"{ANSWERS}\" -- "), &command).replace(&format!("{ANSWERS} -- "), &command))
}

fn answer(shell: &dyn EnvCompleter, words: Vec<OsString>, text: &mut Vec<u8>) -> std::io::Result<()> {
    let mut command = candidates::in_all(Cli::command(), "");
    command.build();
    shell.write_complete(&mut command, words, env::current_dir().ok().as_deref(), text)
}
