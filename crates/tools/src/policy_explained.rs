//! What would be decided about a call, and by which rule, without running or recording anything.

use std::path::PathBuf;

use engine::policy::{Argv, RuleDecision, RuleSubject, decide};
use engine::{Policy, Settings, ToolClass};

use crate::call::Context;
use crate::changes::{FileStore, StoreLimits};
use crate::error::ToolError;
use crate::fetch::NetworkPolicy;
use crate::guard::Protected;
use crate::masking::Secrets;
use crate::output::Outputs;
use crate::paths::{ResolvedPath, Workspace};
use crate::policy_rules::{CallRules, Globs, by_address, by_file};
use crate::shell::simple_commands;
use crate::tool::{Act, CallSite};
use crate::tool_set::{ToolSet, unknown};

/// What is decided about one act of a call.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ExplainedAct {
    /// The act, in one line: `run git diff`, `read src/a.rs`.
    pub act: String,
    /// What is decided.
    pub decision: Policy,
    /// Where the rule stands that decides; none if the setting below does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The setting that decides where no rule matches.
    pub setting: &'static str,
}

/// Each act of a call with these arguments, a JSON object. The strictest decision is the one on the call. It may block.
///
/// # Errors
/// Returns why there is no such call.
pub fn explain(settings: &Settings, tool: &str, arguments: &[u8]) -> Result<Vec<ExplainedAct>, ToolError> {
    let context = context_of(settings);
    let spec =
        settings.tool(tool).ok_or_else(|| unknown(tool, settings.tools.iter().map(|spec| spec.name.as_str())))?;
    let workspace = Workspace::open(&context.workspace, &context.protected)?;
    let acts = context.tools.parse(tool, arguments)?.acts(&CallSite { context: &context, workspace: &workspace })?;
    let rules = &settings.policy;
    let mut explained = vec![];
    for act in acts {
        match act {
            Act::Read { verb, path } => explained.push(on_path(settings, tool, verb, &path)),
            Act::Write { verb, path } => {
                explained.push(on_path(settings, tool, verb, &path));
                if path.is_executed() {
                    let decided = RuleDecision { decision: settings.executed_files, rule: None };
                    explained.push(of(format!("{verb} {}", path.shown), decided, EXECUTED));
                }
            }
            Act::Run { line, to } => {
                let commands = if to.is_none() { simple_commands(&line) } else { None };
                let on = |command: Option<&Argv>| decide(rules, tool, RuleSubject::Command(command), settings.exec);
                match commands.filter(|commands| !commands.is_empty()) {
                    Some(commands) => explained.extend(
                        commands.iter().map(|command| of(format!("run {}", shown(command)), on(Some(command)), EXEC)),
                    ),
                    None => explained.push(of("run what cannot be read as simple commands".to_owned(), on(None), EXEC)),
                }
            }
            Act::Fetch(url) => {
                explained.push(of(format!("fetch {url}"), by_address(rules, tool, &url, settings.web_fetch), FETCH));
            }
            Act::Other { question } => {
                let default = if spec.class == ToolClass::ReadOnly { Policy::Allow } else { Policy::Ask };
                explained.push(of(question, decide(rules, tool, RuleSubject::Other, default), CLASS));
            }
        }
    }
    Ok(explained)
}

/// What is decided where no rule matches.
pub fn defaults(settings: &Settings) -> Vec<ExplainedAct> {
    let rows = [
        ("read or change files inside the workspace", Policy::Allow, INSIDE),
        ("read or change files outside the workspace", settings.outside, OUTSIDE),
        ("change files that other programs run or load", settings.executed_files, EXECUTED),
        ("run commands", settings.exec, EXEC),
        ("fetch from the web", settings.web_fetch, FETCH),
    ];
    rows.map(|(act, decision, setting)| of(act.to_owned(), RuleDecision { decision, rule: None }, setting)).to_vec()
}

const INSIDE: &str = "built in";
const OUTSIDE: &str = "tools.outside_workspace.policy";
const EXECUTED: &str = "tools.executed_files.policy";
const EXEC: &str = "tools.exec.policy";
const FETCH: &str = "tools.web_fetch.policy";
const CLASS: &str = "the class of the tool";

fn of(act: String, RuleDecision { decision, rule }: RuleDecision<'_>, setting: &'static str) -> ExplainedAct {
    ExplainedAct { act, decision, rule: rule.map(|rule| rule.origin.clone()), setting }
}

fn on_path(settings: &Settings, tool: &str, verb: &str, path: &ResolvedPath) -> ExplainedAct {
    let (default, setting) = if path.inside { (Policy::Allow, INSIDE) } else { (settings.outside, OUTSIDE) };
    of(format!("{verb} {}", path.shown), by_file((&settings.policy, &Globs::default()), tool, path, default), setting)
}

/// Enough to say what a call would do: nothing is run.
fn context_of(settings: &Settings) -> Context {
    Context {
        tools: ToolSet::default(),
        workspace: PathBuf::from(&settings.workspace),
        calls: PathBuf::new(),
        tool_timeout_ms: settings.limits.tool_timeout_ms,
        files: FileStore::new(PathBuf::new(), StoreLimits::default()),
        protected: Protected::default(),
        secrets: Secrets::default(),
        outputs: Outputs::default(),
        reach: NetworkPolicy::Public,
        rules: CallRules::default(),
        secret_env: vec![],
        passed_env: vec![],
        processes: vec![],
        supervisor: PathBuf::new(),
    }
}

fn shown(command: &Argv) -> String {
    command.iter().map(|word| word.as_deref().unwrap_or("…")).collect::<Vec<_>>().join(" ")
}
