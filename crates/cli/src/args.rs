//! The definition of the command line with its help. `commands/` implements the commands.

mod help;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory as _, Parser, Subcommand};
use config::FlagValues;
use views::printable_line;

use crate::commands;
use crate::error::{CliError, ErrorStyle};
use crate::language;
use crate::other_tools;
use crate::output::{self, ColorWhen};
use crate::prompt;
use crate::render::MarkdownMode;
use crate::show::worded;

pub(crate) use self::help::LIST as GROUPED;

/// Run durable AI agents: a run survives kill -9.
#[derive(Debug, Parser)]
#[command(name = "limulus", version, max_term_width = 100, arg_required_else_help = true)]
#[command(override_usage = "limulus [OPTIONS] [MESSAGE]\n       limulus [OPTIONS] <COMMAND>")]
#[command(after_help = "Try it without a key: limulus \"What is in this folder?\"")]
pub(crate) struct Cli {
    /// Use colours: auto (on a terminal, unless NO_COLOR, CLICOLOR or TERM says otherwise), always or never
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    pub(crate) color: ColorWhen,
    /// The command to run.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// How answers are shown.
#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// Show answers on a terminal as rendered Markdown (auto) or as written (raw) [default: display.markdown]
    #[arg(long, value_name = "HOW", hide_possible_values = true)]
    pub(crate) markdown: Option<MarkdownMode>,
}

/// The commands of `limulus`; `help` has their groups and examples.
#[derive(Debug, Subcommand)]
#[command(help_template = help::template(), mut_subcommands = help::with_examples)]
pub(crate) enum Command {
    /// Send a message to an agent and follow its run to the end
    Agent(Box<commands::agent::AgentArgs>),
    /// Send a message to a session and return at once
    Send(commands::send::SendArgs),
    /// List and cancel waiting messages, show what becomes of a message, set the queue mode of a session
    Queue(commands::queue::QueueArgs),
    /// List what goes out of sessions and has not arrived; send it again, or give it up
    Deliveries(commands::deliveries::DeliveriesArgs),
    /// Resume unfinished runs: of one session, or of all
    Resume(commands::resume::ResumeArgs),
    /// Own the home without a terminal: resume unfinished runs, serve clients on its socket
    Serve(commands::serve::ServeArgs),
    /// Show what this home is doing
    Status(commands::status::StatusArgs),
    /// Show the rules on what calls may do, and what they decide
    Policy(commands::policy::PolicyArgs),
    /// Show the system prompt that the next run of this folder would receive, part by part, with tokens and origins
    Prompt(commands::prompt::PromptArgs),
    /// List, show, check and add skills: folders with a file SKILL.md, whose instructions the model reads when a task needs them
    Skills(commands::skills::SkillsArgs),
    /// Show where `limulus serve` is reached over HTTP and WebSocket, and the token for it
    Gateway(commands::gateway::GatewayArgs),
    /// Copy everything of a home into one file, beside its owner
    Backup(commands::backup::BackupArgs),
    /// Make a home of a backup
    Restore(commands::backup::RestoreArgs),
    /// Show what of the sandbox for commands holds here, and try it
    Sandbox(commands::sandbox::SandboxArgs),
    /// List and answer the calls that wait for approval; list and revoke what was allowed for good
    Approvals(commands::approvals::ApprovalsArgs),
    /// List the questions of models to you, and answer them
    Answer(commands::answer::AnswerArgs),
    /// List the agents, each with its state over its sessions
    Agents(commands::agents::AgentsArgs),
    /// List, show, compact, clean up and end conversations
    Sessions(commands::sessions::SessionsArgs),
    /// List, show, trace, pause, resume, steer and abort runs
    Runs(commands::runs::RunsArgs),
    /// Show what a run, or the last runs of a session, changed in files
    Diff(commands::diff::DiffArgs),
    /// Take back what a run changed in files
    Undo(commands::undo::UndoArgs),
    /// Make changes of files once more that were undone
    Redo(commands::undo::UndoArgs),
    /// Show what became of one message, by its id or its key
    Receipt(commands::receipt::ReceiptArgs),
    /// Print the events of a session or of the whole home, one JSON object a line
    Events(commands::events::EventsArgs),
    /// Print the audit log of a session: every transition with its time and cause; verify it with --verify
    Audit(commands::audit::AuditArgs),
    /// Check the installation, configuration, keys, terminal, disk and data of a home; repair data if asked
    Doctor(commands::doctor::DoctorArgs),
    /// Connect a model: one of 22 providers by name, or any address; its key typed unseen, by variable or by command
    Setup(commands::setup::SetupArgs),
    /// List models, and check what works with one of them
    Models(commands::models::ModelsArgs),
    /// Show which auth profiles are in cooldown, until when, and their order; change both
    Profiles(commands::profiles::ProfilesArgs),
    /// Show what a session and its run have spent and may spend; change the limits
    Budget(commands::budget::BudgetArgs),
    /// Show what the runs of this home have used, by model, session or day
    Usage(commands::usage::UsageArgs),
    /// Show, check, locate, create and change the configuration
    Config(commands::config::ConfigArgs),
    /// Print what follows each class of failure: the failover table that the runtime obeys
    Failover(commands::failover::FailoverArgs),
    /// Draw the state machine from the table that it obeys
    Graph(commands::graph::GraphArgs),
    /// Print completions for your shell: limulus se<Tab>
    Completions(commands::completions::CompletionsArgs),
    /// Print the manual pages
    Man(commands::man::ManArgs),
    /// Kill a real run twice with SIGKILL and prove from the journal that nothing was lost or done twice
    Demo(commands::demo::DemoArgs),
}

/// Prints the help, or the error of a command line. An error repeats arguments, so it has no colours: all of it is escaped.
pub(crate) fn refused(mut error: clap::Error, words: &[OsString], style: ErrorStyle) -> ExitCode {
    let exit = error.exit_code();
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // Nothing of the command line is in the help.
        output::say_text(&in_language(&error, words).unwrap_or(error).render().to_string());
    } else if error.use_stderr() {
        suggest(&mut error, words);
        let texts = error.context().filter_map(|(kind, value)| Some((kind, one_line(value)?))).collect::<Vec<_>>();
        for (kind, value) in texts {
            error.insert(kind, value);
        }
        let text = error.render().to_string();
        match style {
            ErrorStyle::Text => output::say_text(&language::lines(&text)),
            ErrorStyle::Json => of_parser(&text).print(style),
        }
    } else {
        // Nothing of the command line is in the help. A closed stdout is not an error.
        let _ = in_language(&error, words).unwrap_or(error).print();
    }
    ExitCode::from(u8::try_from(exit).unwrap_or(2))
}

/// The error in a text of the parser: a paragraph that says what is wrong, then tips and the usage.
fn of_parser(text: &str) -> CliError {
    let (what, advice) = text.split_once("\n\n").unwrap_or((text, ""));
    let joined = |text: &str, by| {
        let lines =
            text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("For more information"));
        lines.collect::<Vec<_>>().join(by)
    };
    CliError::Usage { what: joined(what.strip_prefix("error: ").unwrap_or(what), " "), hint: joined(advice, "; ") }
}

/// The same help in the language of this process, if that is not English.
fn in_language(error: &clap::Error, words: &[OsString]) -> Option<clap::Error> {
    if error.kind() == ErrorKind::DisplayVersion {
        return None;
    }
    language::help::translated(Cli::command())?.try_get_matches_from(words).err()
}

/// Adds what does here what a word or an option of a neighbouring tool does there, or how a message is written.
fn suggest(error: &mut clap::Error, words: &[OsString]) {
    let words: Vec<_> = words.iter().skip(1).map(|word| word.to_string_lossy()).collect();
    let instead = match (error.get(ContextKind::InvalidSubcommand), error.get(ContextKind::InvalidArg)) {
        (Some(ContextValue::String(word)), _) if words.first() == Some(&word.into()) => {
            let rest: Vec<&str> = words[1..].iter().map(AsRef::as_ref).collect();
            let (instead, is_known) = other_tools::instead_of(word, &rest);
            if is_known {
                error.remove(ContextKind::SuggestedSubcommand);
            }
            instead
        }
        (_, Some(ContextValue::String(option))) if error.kind() == ErrorKind::UnknownArgument => {
            let Some(instead) = other_tools::instead_of_option(option) else { return };
            error.remove(ContextKind::SuggestedArg);
            instead.to_owned()
        }
        _ => return,
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![instead.into()]));
}

/// A whole number from `LEAST` on. The error says what is taken.
pub(crate) fn whole_from<const LEAST: u64>(text: &str) -> Result<u64, String> {
    text.parse()
        .ok()
        .filter(|number| *number >= LEAST)
        .ok_or_else(|| format!("it takes a whole number from {LEAST} on"))
}

/// A text in an error, so that it does not look like another line of it.
fn one_line(value: &ContextValue) -> Option<ContextValue> {
    Some(match value {
        ContextValue::String(text) => ContextValue::String(printable_line(text).into_owned()),
        ContextValue::Strings(texts) => {
            ContextValue::Strings(texts.iter().map(|text| printable_line(text).into_owned()).collect())
        }
        ContextValue::StyledStrs(texts) => {
            let escaped = |text: &StyledStr| printable_line(&text.to_string()).into_owned().into();
            ContextValue::StyledStrs(texts.iter().map(escaped).collect())
        }
        _ => return None,
    })
}

/// Arguments of every command that writes to the home.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct WriterArgs {
    /// Let the agent work in this folder [default: agents.NAME.workspace, else the current folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<String>,
    /// Wait while another process owns the home, instead of ending with exit code 75
    #[arg(long)]
    pub(crate) wait: bool,
    /// Print one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

impl WriterArgs {
    /// The settings that these arguments override.
    pub(crate) fn flags(&self) -> FlagValues {
        let is_unattended = !prompt::is_possible();
        FlagValues { workspace: self.workspace.clone(), is_service: false, is_unattended }
    }
}

/// The requested page of a long list.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PageArgs {
    /// Print at most the N newest; the last line names the command for older ones
    #[arg(long, value_name = "N", value_parser = whole_from::<1>)]
    limit: Option<u64>,
    /// Print the page before the one that named this cursor
    #[arg(long, value_name = "CURSOR")]
    pub(crate) after: Option<String>,
}

impl PageArgs {
    /// The requested number of rows; all of them if absent.
    pub(crate) fn limit(&self) -> Option<usize> {
        self.limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX))
    }

    /// The list, followed by the command that prints older rows. With JSON, which stays an array, that line goes to
    /// stderr, where programs read it.
    pub(crate) fn with_next(&self, list: String, command: &str, next: Option<String>, as_json: bool) -> String {
        let Some(next) = next else { return list };
        let limit = self.limit.map(|limit| format!(" --limit {limit}")).unwrap_or_default();
        let more = format!("older ones: limulus {command}{limit} --after {next}\n");
        if as_json {
            output::say_text(&more);
            return list;
        }
        list + &worded(more)
    }
}
