//! `limulus policy`: the rules on what calls may do, what they decide about a call, and which projects are trusted.

pub(super) mod trust;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use config::{FlagValues, Globals, ProjectTrust, Subject, today};
use engine::policy::{PolicyRule, Principal, strictness};
use engine::{Overrides, Policy, Settings};
use serde::Serialize;
use tools::ExplainedAct;

use crate::deprecation;
use crate::error::CliError;
use crate::language::word;
use crate::show::human::{columns, heading, printable_line};
use crate::show::{json, print};

/// Show the rules on what calls may do, and what they decide.
#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// List the rules of this folder, with their places, and the settings that decide where none matches
    List {
        /// Of this agent
        #[arg(long, value_name = "NAME", default_value = "main")]
        agent: String,
        /// In this session
        #[arg(long, value_name = "NAME")]
        session: Option<String>,
        /// Begun by the user of this machine (local) or by an agent
        #[arg(long, value_name = "WHO")]
        principal: Option<BegunBy>,
        /// Begun with `/NAME` of this skill of your own
        #[arg(long, value_name = "NAME")]
        skill: Option<String>,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what would be decided about a call, and which rule decides; nothing is run
    Explain {
        /// The tool: `limulus policy explain exec "git push"`
        tool: String,
        /// Its arguments as JSON, or the text of the first one: a command, a path, an address
        arguments: String,
        /// Of this agent
        #[arg(long, value_name = "NAME", default_value = "main")]
        agent: String,
        /// In this session
        #[arg(long, value_name = "NAME")]
        session: Option<String>,
        /// Begun by the user of this machine (local) or by an agent
        #[arg(long, value_name = "WHO")]
        principal: Option<BegunBy>,
        /// Begun with `/NAME` of this skill of your own
        #[arg(long, value_name = "NAME")]
        skill: Option<String>,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Let the files of a project (.limulus/config.toml) allow more than your own configuration, until they change
    Trust {
        /// The folder of the project [default: this folder]
        path: Option<PathBuf>,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Let the files of a project restrict your own configuration only
    Untrust {
        /// The folder of the project [default: this folder]
        path: Option<PathBuf>,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Who begins a run.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum BegunBy {
    Local,
    Agent,
}

impl From<BegunBy> for Principal {
    fn from(begun_by: BegunBy) -> Self {
        match begun_by {
            BegunBy::Local => Self::Local,
            BegunBy::Agent => Self::Agent,
        }
    }
}

pub(crate) fn run(args: PolicyArgs, globals: &Globals) -> Result<(), CliError> {
    match args.command {
        PolicyCommand::List { agent, session, principal, skill, json: as_json } => {
            let settings = settings(globals, &agent, (session.as_deref(), principal, skill))?;
            let config = deprecation::load(globals, FlagValues::default())?;
            let project = config.project_trust(Path::new(&settings.workspace))?;
            print(&if as_json {
                json(&Listed { rules: &settings.policy, defaults: tools::defaults(&settings), project })
            } else {
                lay_out(&settings) + &trust::lay_out_open(&project)
            })
        }
        PolicyCommand::Explain { tool, arguments, agent, session, principal, skill, json: as_json } => {
            let settings = settings(globals, &agent, (session.as_deref(), principal, skill))?;
            let explained = explain(&settings, &tool, &arguments)?;
            print(&if as_json { json(&explained) } else { lay_out_explained(&explained) })
        }
        PolicyCommand::Trust { path, json } => trust::run(path, true, json, globals),
        PolicyCommand::Untrust { path, json } => trust::run(path, false, json, globals),
    }
}

fn settings(
    globals: &Globals,
    agent: &str,
    (session, principal, skill): (Option<&str>, Option<BegunBy>, Option<String>),
) -> Result<Settings, CliError> {
    let config = deprecation::load(globals, FlagValues::default())?;
    let overrides = Overrides { skill: skill.map(String::into_boxed_str), ..Overrides::default() };
    let key = session.map(|name| if name.contains(':') { name.to_owned() } else { format!("agent:{agent}:{name}") });
    let principal = principal.map(Principal::from);
    let session = runtime::SessionContext { key: key.as_deref(), principal, ..runtime::SessionContext::default() };
    Ok(config.resolve(Subject { agent, overrides: &overrides, session, date: &today() })?.settings)
}

/// The rules and the settings behind them, as `--json` prints them.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    rules: &'a [PolicyRule],
    /// What decides where no rule matches.
    defaults: Vec<ExplainedAct>,
    /// The files of the project, with what each allows.
    project: Vec<ProjectTrust>,
}

fn lay_out(settings: &Settings) -> String {
    let mut rows = vec![heading(["DECISION", "OF", "BY"])];
    let rule = |rule: &PolicyRule| [word(name(rule.decision)), about(rule), printable_line(&rule.origin).into_owned()];
    rows.extend(settings.policy.iter().map(rule));
    rows.extend(
        tools::defaults(settings).iter().map(|row| [word(name(row.decision)), word(&row.act), word(row.setting)]),
    );
    columns(&rows)
}

/// What a rule is about, in a line.
fn about(rule: &PolicyRule) -> String {
    let parts = [("", &rule.tools), ("command ", &rule.commands), ("path ", &rule.paths), ("host ", &rule.hosts)];
    let parts = parts.into_iter().filter(|(_, patterns)| !patterns.is_empty());
    let shown: Vec<String> =
        parts.map(|(what, patterns)| format!("{what}{}", printable_line(&patterns.join(", ")))).collect();
    if shown.is_empty() { word("every call") } else { shown.join("; ") }
}

fn name(decision: Policy) -> &'static str {
    match decision {
        Policy::Allow => "allow",
        Policy::Ask => "ask",
        Policy::Deny => "deny",
    }
}

/// What would be decided about a call.
#[derive(Debug, Serialize)]
struct ExplainedCall {
    decision: Policy,
    acts: Vec<ExplainedAct>,
}

fn explain(settings: &Settings, tool: &str, arguments: &str) -> Result<ExplainedCall, CliError> {
    let arguments = if arguments.trim_start().starts_with('{') {
        arguments.to_owned()
    } else {
        let schema = settings.tool(tool).map(|spec| &spec.schema);
        let first = schema.and_then(|schema| schema["required"].get(0)?.as_str()).unwrap_or("path");
        serde_json::json!({ first: arguments }).to_string()
    };
    let explained = tools::explain(settings, tool, arguments.as_bytes()).map_err(|error| CliError::Usage {
        what: error.to_string(),
        hint: "such as: limulus policy explain exec \"git push\"".into(),
    })?;
    let decision = explained.iter().map(|act| act.decision).max_by_key(|decision| strictness(*decision));
    Ok(ExplainedCall { decision: decision.unwrap_or(Policy::Allow), acts: explained })
}

fn lay_out_explained(explained: &ExplainedCall) -> String {
    let by = |line: &ExplainedAct| match &line.rule {
        Some(origin) => printable_line(origin).into_owned(),
        None => word(line.setting),
    };
    let mut rows = vec![heading(["DECISION", "OF", "BY"])];
    rows.extend(
        explained.acts.iter().map(|line| [word(name(line.decision)), printable_line(&line.act).into_owned(), by(line)]),
    );
    columns(&rows) + &format!("\n{}\n", word(format!("the call: {}", name(explained.decision))))
}
