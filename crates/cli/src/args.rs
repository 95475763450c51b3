//! The command line: what can be typed, with its help. What each command does is in `commands/`.

use clap::{Args, Parser, Subcommand};

use crate::commands;
use crate::config::Flags;

/// A durable AI-agent runtime: the agent loop outlives kill -9.
#[derive(Debug, Parser)]
#[command(name = "limulus", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Try it without a key: limulus agent -m \"What is in this folder?\"")]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Send a message to an agent and follow its run to the end
    Agent(commands::agent::AgentArgs),
    /// Hand a message to a session and come back at once
    Send(commands::send::SendArgs),
    /// What waits, what becomes of a message in every state, how a session's messages are queued
    Queue(commands::queue::QueueArgs),
    /// Take up what was not finished: one session, or all
    Resume(commands::resume::ResumeArgs),
    /// Own the home without a terminal: take up all that is unfinished, answer on its socket
    Serve(commands::serve::ServeArgs),
    /// What this home is doing
    Status(commands::status::StatusArgs),
    /// Conversations
    Sessions(commands::sessions::SessionsArgs),
    /// Runs: what they did, what they are doing, how to end them
    Runs(commands::runs::RunsArgs),
    /// What became of one message: by its id or its key
    Receipt(commands::receipt::ReceiptArgs),
    /// What happened and happens, one JSON object a line: of a session, or of the whole home
    Events(commands::events::EventsArgs),
    /// The audit log of a session: every transition with its time and cause; chain and state verified
    Audit(commands::audit::AuditArgs),
    /// Look at a home for damage: every file, page, entry, chain and body; mend it where that is safe
    Doctor(commands::doctor::DoctorArgs),
    /// Find a model that can be used, try it, write it into the configuration
    Setup(commands::setup::SetupArgs),
    /// What is known of models, and what works of one
    Models(commands::models::ModelsArgs),
    /// Auth profiles: which are left alone and until when, which comes first
    Profiles(commands::profiles::ProfilesArgs),
    /// What a session and its run have spent, and what they may spend
    Budget(commands::budget::BudgetArgs),
    /// What the runs of this home have taken, by model, session or day
    Usage(commands::usage::UsageArgs),
    /// What is in force, what is wrong with it, where it is; a file to begin with
    Config(commands::config::ConfigArgs),
    /// Print what follows each class of failure: the failover table that the runtime obeys
    Failover(commands::failover::FailoverArgs),
    /// The state machine, drawn from the table that it obeys
    Graph(commands::graph::GraphArgs),
    /// Completions for your shell: limulus se<Tab>
    Completions(commands::completions::CompletionsArgs),
    /// The manual pages
    Man(commands::man::ManArgs),
    /// Kill a real run twice with SIGKILL and prove from the journal that nothing was lost or done twice
    Demo(commands::demo::DemoArgs),
}

/// What every command that writes to the home takes.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct WriterArgs {
    /// The folder that the agent works in [default: agents.NAME.workspace, else the current folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<String>,
    /// Wait while another process owns the home, instead of exit 75
    #[arg(long)]
    pub(crate) wait: bool,
    /// One JSON object a line on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

impl WriterArgs {
    /// What these say against the configuration.
    pub(crate) fn flags(&self) -> Flags {
        Flags { workspace: self.workspace.clone() }
    }
}

/// Which part of a long list is wanted.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PageArgs {
    /// At most so many, the newest; the last line says how to see the ones before them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Those before the page that named this
    #[arg(long, value_name = "CURSOR")]
    pub(crate) after: Option<String>,
}

impl PageArgs {
    /// How many are wanted.
    pub(crate) fn limit(&self) -> Option<usize> {
        self.limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX))
    }

    /// A list with the command that shows what stands before it. JSON stays an array: there it is said on stderr.
    pub(crate) fn with_next(&self, list: String, command: &str, next: Option<String>, as_json: bool) -> String {
        let Some(next) = next else { return list };
        let limit = self.limit.map(|limit| format!(" --limit {limit}")).unwrap_or_default();
        let more = format!("older ones: limulus {command}{limit} --after {next}\n");
        if as_json {
            eprint!("{more}");
            return list;
        }
        list + &more
    }
}
