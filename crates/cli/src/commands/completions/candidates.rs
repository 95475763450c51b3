//! What may stand in the place of a session, a run or a model. It is read without an owner, and nothing is offered if it cannot be.

use std::cmp::Reverse;

use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use config::{FlagValues, Globals};
use engine::{SessionRow, Visibility};
use journal::{Read as _, Reader};
use models::known_models;
use protocol::method::{RunsList, RunsListParams};
use views::printable_line;

use crate::reading::ask;
use crate::show::human::session_name;

/// So many of the last used sessions and of the last runs are offered.
const OFFERED: usize = 50;

/// The command with candidates for each of its arguments, and so all commands in it.
pub(super) fn in_all(command: Command, path: &str) -> Command {
    // A KEY of the configuration is no session.
    let is_config = path.starts_with(" config");
    let command = if is_config { command } else { command.mut_args(with_candidates) };
    command.mut_subcommands(|inner| {
        let path = format!("{path} {}", inner.get_name());
        in_all(inner, &path)
    })
}

fn with_candidates(arg: Arg) -> Arg {
    let named = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    let name = named.unwrap_or_else(|| arg.get_id().as_str().to_uppercase());
    match name.as_str() {
        "KEY" => arg.add(ArgValueCandidates::new(sessions)),
        "RUN" => arg.add(ArgValueCandidates::new(runs)),
        "RUN|KEY" => arg.add(ArgValueCandidates::new(|| sessions().into_iter().chain(runs()).collect())),
        "P/M" => arg.add(ArgValueCandidates::new(models)),
        _ => arg,
    }
}

/// The sessions, the last used first, and one of each further agent.
fn sessions() -> Vec<CompletionCandidate> {
    let Ok(globals) = Globals::of_process() else { return vec![] };
    let rows = Reader::open(&globals.home).and_then(|reader| reader.sessions()).unwrap_or_default();
    let mut rows: Vec<SessionRow> = rows.into_iter().filter(|row| row.visibility != Visibility::Deleted).collect();
    rows.sort_by_key(|row| Reverse(row.last_activity));
    let used = rows.iter().take(OFFERED).map(|row| session_name(&row.key).to_owned());
    let agents = globals.load(FlagValues::default()).map(|config| config.agents()).unwrap_or_default();
    let agents = agents.into_iter().filter(|agent| agent != "main").map(|agent| format!("agent:{agent}:main"));
    let mut names: Vec<String> = vec![];
    for name in used.chain(agents) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    in_order(names.into_iter().map(|name| (name, None)))
}

/// The last runs, each with its session and its state.
fn runs() -> Vec<CompletionCandidate> {
    let Ok(globals) = Globals::of_process() else { return vec![] };
    let params = RunsListParams { session_key: None, limit: Some(OFFERED), after: None };
    let listed = ask::<RunsList>(&globals, params).map(|listed| listed.runs).unwrap_or_default();
    in_order(listed.iter().map(|run| {
        let about = format!("{}: {}", session_name(&run.key), run.status());
        (run.run.to_string(), Some(printable_line(&about).into_owned()))
    }))
}

/// The models of the configuration, then those of the catalogue.
fn models() -> Vec<CompletionCandidate> {
    let config = Globals::of_process().and_then(|globals| globals.load(FlagValues::default()));
    let mut names: Vec<String> = config.map(|config| config.named_models().collect()).unwrap_or_default();
    for known in known_models() {
        if !names.iter().any(|name| name == known) {
            names.push(known.to_owned());
        }
    }
    in_order(names.into_iter().map(|name| (name, None)))
}

fn in_order(names: impl Iterator<Item = (String, Option<String>)>) -> Vec<CompletionCandidate> {
    let candidate = |(at, (name, about)): (usize, (String, Option<String>))| {
        CompletionCandidate::new(name).help(about.map(Into::into)).display_order(Some(at))
    };
    names.enumerate().map(candidate).collect()
}
