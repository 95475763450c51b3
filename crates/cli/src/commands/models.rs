//! `limulus models list` and `limulus models check`.

mod check;
mod list;

use clap::{Args, Subcommand};

use crate::config::Globals;
use crate::error::CliError;

/// Models: what is known of them, and what works.
#[derive(Debug, Args)]
pub(crate) struct ModelsArgs {
    #[command(subcommand)]
    command: ModelsCommand,
}

/// What can be asked of models.
#[derive(Debug, Subcommand)]
enum ModelsCommand {
    /// Every model that is known or configured: window, prices, thinking, images, and whether its key is there
    List {
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Ask a model a few small questions and say what works: key, stream, tools, images, cache, usage, thinking
    #[command(after_help = "It sends up to six requests, about 13,000 tokens in all. Exit code 1 if something fails \
                            that an agent cannot do without.")]
    Check {
        /// The model, as PROVIDER/MODEL [default: the one of the agent main]
        #[arg(value_name = "P/M")]
        model: Option<String>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

pub(crate) async fn run(args: ModelsArgs, globals: &Globals) -> Result<(), CliError> {
    match args.command {
        ModelsCommand::List { json } => list::run(json, globals),
        ModelsCommand::Check { model, json } => check::run(model, json, globals).await,
    }
}
