//! `limulus agents list`: the agents of a home, each with its state over its sessions.

use clap::{Args, Subcommand};
use config::{FlagValues, Globals};
use gateway::methods::reading::agents_without_journal;
use protocol::method::{AgentsList, NoParams};
use protocol::show::AgentSummary;

use crate::deprecation;
use crate::error::{CliError, Exit};
use crate::language::word;
use crate::output::say;
use crate::reading::ask_among;
use crate::show::human::{Zone, columns, heading, printable_line};
use crate::show::{json, print};

/// List the agents, each with its state over its sessions.
#[derive(Debug, Args)]
pub(crate) struct AgentsArgs {
    #[command(subcommand)]
    command: AgentsCommand,
}

#[derive(Debug, Subcommand)]
enum AgentsCommand {
    /// List the configured agents and those with a session: state, sessions, queue, last activity
    #[command(
        after_help = "The state of an agent is the worst of its sessions': error, recovering, suspended, active, \
                      initializing, idle, ready. Sessions that have ended do not count."
    )]
    List {
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: &AgentsArgs, globals: &Globals) -> Result<(), CliError> {
    let AgentsCommand::List { json: as_json } = args.command;
    let configured = configured(globals);
    let agents = match ask_among::<AgentsList>(globals, NoParams {}, &configured) {
        // A home without a journal has agents, and no sessions.
        Err(error) if error.exit() == Exit::NotFound => agents_without_journal(&configured),
        listed => listed?,
    };
    print(&if as_json { json(&agents.agents) } else { lay_out(&agents.agents, &Zone::local()) })
}

/// The agents of the configuration. If it cannot be read, the sessions are shown without it.
fn configured(globals: &Globals) -> Vec<String> {
    match deprecation::load(globals, FlagValues::default()) {
        Ok(config) => config.agents(),
        Err(error) => {
            say!("limulus: {error}; only agents with a session are listed");
            vec![]
        }
    }
}

fn lay_out(agents: &[AgentSummary], zone: &Zone) -> String {
    let heading = heading(["AGENT", "STATE", "SESSIONS", "QUEUED", "LAST ACTIVITY"]);
    let rows = agents.iter().map(|agent| {
        let removed = if agent.configured { String::new() } else { format!(" {}", word("(not configured)")) };
        [
            format!("{}{removed}", printable_line(&agent.agent)),
            word(state(agent)),
            sessions(agent),
            agent.queued.to_string(),
            agent.last_activity.map(|at| zone.time(at)).unwrap_or_default(),
        ]
    });
    columns(&std::iter::once(heading).chain(rows).collect::<Vec<_>>())
}

/// The state of an agent, and how many of its sessions are blocked.
fn state(agent: &AgentSummary) -> String {
    let blocked = if agent.blocked == 0 { String::new() } else { format!(", {} blocked", agent.blocked) };
    format!("{}{blocked}", agent.state)
}

/// How many sessions it has, by state.
fn sessions(agent: &AgentSummary) -> String {
    let by_state: Vec<String> = agent.sessions.iter().map(|(state, count)| word(format!("{count} {state}"))).collect();
    if by_state.is_empty() { word("none") } else { by_state.join(", ") }
}

#[cfg(test)]
mod tests {
    use gateway::methods::reading::Reads as _;
    use views::Source;
    use views::scene::Scene;

    use super::*;

    #[test]
    fn r20_agents_are_listed_with_their_state_and_the_number_of_their_sessions() {
        let mut scene = Scene::new();
        scene.start("look around");
        let configured = ["helper".to_owned(), "main".to_owned()];
        let source = Source { agents: &configured, ..Source::of(&scene.journal) };
        let agents = AgentsList::read(&source, NoParams {}).unwrap().agents;
        let expected = "\
AGENT   STATE   SESSIONS  QUEUED  LAST ACTIVITY
helper  ready   none      0
main    active  1 active  0       2025-11-21 03:04:05
";
        assert_eq!(lay_out(&agents, &Zone::utc()), expected);
        let blocked = AgentSummary { blocked: 1, configured: false, ..agents[1].clone() };
        assert!(lay_out(&[blocked], &Zone::utc()).contains("main (not configured)  active, 1 blocked"));
    }
}
