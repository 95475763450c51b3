//! `limulus models list` and `limulus models check`.

mod check;
mod list;

use clap::{Args, Subcommand};
use config::Globals;

use crate::error::CliError;

/// List models, and check what works with one of them.
#[derive(Debug, Args)]
pub(crate) struct ModelsArgs {
    #[command(subcommand)]
    command: ModelsCommand,
}

#[derive(Debug, Subcommand)]
enum ModelsCommand {
    /// List every known or configured model: window, prices, thinking, images, and whether its key is set
    List {
        /// Print only models whose name contains each word of this text
        #[arg(long, value_name = "TEXT")]
        search: Option<String>,
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Send a model a few small requests and print what works: key, stream, tools, images, cache, usage, thinking
    #[command(after_help = "It sends up to six requests, about 13,000 tokens in all. Exit code 1 if something fails \
                            that an agent needs.")]
    Check {
        /// The model, PROVIDER/MODEL or its name alone [default: the model of the agent main]
        #[arg(value_name = "P/M")]
        model: Option<String>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

pub(crate) async fn run(args: ModelsArgs, globals: &Globals) -> Result<(), CliError> {
    match args.command {
        ModelsCommand::List { search, json } => list::run(search.as_deref(), json, globals),
        ModelsCommand::Check { model, json } => check::run(model, json, globals).await,
    }
}
