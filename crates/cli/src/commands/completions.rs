//! `limulus completions`: completion scripts, generated from the definition of the arguments.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::args::Cli;
use crate::error::CliError;
use crate::show::print;

/// Print completions for your shell.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: CompletionsArgs) -> Result<(), CliError> {
    let mut script = vec![];
    clap_complete::generate(args.shell, &mut Cli::command(), "limulus", &mut script);
    print(&String::from_utf8_lossy(&script))
}
