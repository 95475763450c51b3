//! What would be decided about a call, and by which rule, without running or recording anything.

use std::path::{Path, PathBuf};

use engine::policy::{Argv, PolicyRule, RuleDecision, RuleSubject, decide};
use engine::tables::policy::{ActClass, DEFAULTS};
use engine::{CallId, Derived, Policy, SandboxMode, Settings, ToolClass};
use reqwest::Url;

use crate::call::Context;
use crate::changes::{FileStore, StoreLimits};
use crate::error::ToolError;
use crate::fetch::NetworkPolicy;
use crate::guard::Protected;
use crate::masking::Secrets;
use crate::memory::MemoryContext;
use crate::output::Outputs;
use crate::paths::{ResolvedPath, THIS_PROGRAM, Workspace};
use crate::policy::{Exit, exits, outside_of_sandbox};
use crate::policy_rules::{CallRules, Globs, by_address, by_file, class_of_command, class_of_path, class_of_tool};
use crate::sandbox::SandboxState;
use crate::search::SearchProvider;
use crate::shell::simple_commands;
use crate::tool::{Act, CallSite};
use crate::tool_set::{ToolSet, unknown};

/// What is decided about one act of a call.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ExplainedAct {
    /// The act, in one line: `run git diff`, `read src/a.rs`.
    pub act: String,
    /// Its class, whose row of the table of defaults decides where no rule matches.
    pub class: ActClass,
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
    let workspace = Workspace::open(&context.workspace, &context.kept())?;
    let acts = context.tools.parse(tool, arguments)?.acts(&CallSite { context: &context, workspace: &workspace })?;
    let rules = &settings.policy;
    let mut explained = vec![];
    for act in acts {
        match act {
            Act::Read { verb, path } => {
                explained.push(on_path(settings, (tool, verb), ActClass::ReadInside, &path));
            }
            Act::Write { verb, path } => {
                explained.push(on_path(settings, (tool, verb), ActClass::ChangeInside, &path));
                if path.is_executed() {
                    let class = ActClass::ExecutedFile;
                    let decided = RuleDecision { decision: class.default_in(settings), rule: None };
                    explained.push(of(format!("{verb} {}", path.shown), decided, class));
                }
            }
            Act::Run { line, to, outside } => {
                let commands = if to.is_none() { simple_commands(&line) } else { None };
                let (is_new, state) = (to.is_none(), SandboxState::of(settings, &context.supervisor));
                let class = class_of_command(state, is_new);
                let default = class.default_in(settings);
                let on = |command: Option<&Argv>| {
                    let decided = decide(rules, tool, RuleSubject::Command(command), default);
                    let decision = outside_of_sandbox(decided.decision, state, outside.is_some());
                    // Where it leaves the sandbox, no rule decides.
                    let rule = decided.rule.filter(|_| decision == decided.decision);
                    RuleDecision { decision, rule }
                };
                match commands.filter(|commands| !commands.is_empty()) {
                    Some(commands) => explained.extend(
                        commands.iter().map(|command| of(format!("run {}", shown(command)), on(Some(command)), class)),
                    ),
                    None => {
                        explained.push(of("run what cannot be read as simple commands".to_owned(), on(None), class));
                    }
                }
            }
            Act::Exit { hosts, paths, .. } => {
                let globs = Globs::of(settings);
                let on = |exit: Exit<'_>| of(exit.act(), exit.decision(settings, tool, &globs), ActClass::Exit);
                explained.extend(exits(settings, (&hosts, &paths)).map(on));
            }
            Act::Fetch(url) => {
                let decided = by_address(rules, tool, &url, ActClass::Fetch.default_in(settings));
                explained.push(of(format!("fetch {url}"), decided, ActClass::Fetch));
            }
            Act::Send { route, is_own } => {
                explained.push(of(
                    format!("send a message to `{route}`"),
                    on_route(settings, tool, &route, is_own),
                    ActClass::Message,
                ));
            }
            Act::Other { question } => {
                let class = class_of_tool(spec);
                let decided = decide(rules, tool, RuleSubject::Other, class.default_in(settings));
                explained.push(of(question, decided, class));
            }
        }
    }
    Ok(explained)
}

/// Why there is no call of this tool with these arguments, or what denies it. It may block.
///
/// # Errors
/// Returns why the arguments do not fit the tool.
pub fn denies(settings: &Settings, tool: &str, arguments: &[u8]) -> Result<Option<ExplainedAct>, ToolError> {
    context_of(settings).tools.parse(tool, arguments)?;
    // What is about a running command is not known here.
    let acts = explain(settings, tool, arguments).unwrap_or_default();
    Ok(acts.into_iter().find(|act| act.decision == Policy::Deny))
}

/// The rule that would allow a call like this one: with these patterns of commands, files or hosts, or, if there are none, with
/// those that are offered to whoever is asked: the command, file or host of each act that is asked about. None if no rule could
/// allow it. It may block.
pub fn suggest(
    settings: &Settings,
    call: CallId,
    (tool, arguments): (&str, &[u8]),
    patterns: &[String],
) -> Option<PolicyRule> {
    let context = context_of(settings);
    let spec = settings.tool(tool)?;
    let workspace = Workspace::open(&context.workspace, &context.kept()).ok()?;
    let acts = context.tools.parse(tool, arguments).ok()?;
    let acts = acts.acts(&CallSite { context: &context, workspace: &workspace }).ok()?;
    let (is_given, mut offered) = (!patterns.is_empty(), Offered::default());
    let (mut commands, mut paths, mut hosts) = (false, false, false);
    let leaves = acts.iter().any(|act| matches!(act, Act::Exit { .. }));
    let is_allowed = leaves && allows_commands(settings, tool, arguments);
    for act in acts {
        match act {
            Act::Read { verb, ref path } | Act::Write { verb, ref path } => {
                let is_read = matches!(act, Act::Read { .. });
                let inside = if is_read { ActClass::ReadInside } else { ActClass::ChangeInside };
                if on_path(settings, (tool, verb), inside, path).decision == Policy::Ask {
                    offered.paths.push(exact(path));
                    paths = true;
                }
            }
            // Leaving the sandbox is approved once only, and so is a message: the route says whether more may follow.
            Act::Send { .. } | Act::Run { outside: Some(_), .. } => return None,
            Act::Exit { hosts: reached, paths: written, .. } => {
                let asked = asked_exits(settings, tool, (&reached, &written));
                (hosts, paths) = (hosts || !asked.hosts.is_empty(), paths || !asked.paths.is_empty());
                offered.hosts.extend(asked.hosts);
                offered.paths.extend(asked.paths);
            }
            // A command that is allowed needs no rule; what it reaches does.
            Act::Run { .. } if is_allowed => {}
            Act::Run { line, to, .. } => {
                let known = if to.is_none() { simple_commands(&line)? } else { return None };
                let known = Some(known).filter(|known| !known.is_empty())?;
                commands = true;
                if !is_given {
                    offered.commands.extend(known.iter().map(pattern).collect::<Option<Vec<_>>>()?);
                }
            }
            Act::Fetch(url) => {
                hosts = true;
                if !is_given {
                    let url = Url::parse(&url).ok()?;
                    offered.hosts.push(url.host_str().filter(|host| !host.contains('*'))?.to_owned());
                }
            }
            Act::Other { .. } if spec.class != ToolClass::ReadOnly && !is_given => {}
            Act::Other { .. } => return None,
        }
    }
    if is_given {
        offered = match (commands, paths, hosts) {
            (true, false, false) => Offered { commands: patterns.to_vec(), ..Offered::default() },
            (false, true, false) => Offered { paths: patterns.to_vec(), ..Offered::default() },
            (false, false, true) => Offered { hosts: patterns.to_vec(), ..Offered::default() },
            _ => return None,
        };
    }
    let Offered { mut commands, mut paths, hosts } = offered;
    commands.dedup();
    paths.dedup();
    let (origin, tools) = (String::new(), vec![tool.to_owned()]);
    let rule = PolicyRule {
        decision: Policy::Allow,
        origin,
        answered: false,
        restricts: false,
        grant: Some(call),
        tools,
        commands,
        paths,
        hosts,
    };
    allows(settings, &rule, tool, arguments).then_some(rule)
}

/// Whether all commands of a call are allowed, whatever they reach.
fn allows_commands(settings: &Settings, tool: &str, arguments: &[u8]) -> bool {
    let acts = explain(settings, tool, arguments).unwrap_or_default();
    acts.iter().filter(|act| is_command(act.class)).all(|act| act.decision == Policy::Allow)
}

fn is_command(class: ActClass) -> bool {
    matches!(class, ActClass::RunConfined | ActClass::Run)
}

/// The hosts and files beyond the sandbox that are asked about.
fn asked_exits(settings: &Settings, tool: &str, (hosts, paths): (&[String], &[ResolvedPath])) -> Offered {
    let mut asked = Offered::default();
    let globs = Globs::of(settings);
    let is_asked = |exit: &Exit<'_>| exit.decision(settings, tool, &globs).decision == Policy::Ask;
    for exit in exits(settings, (hosts, paths)).filter(is_asked) {
        match exit {
            Exit::Host(host) => asked.hosts.push(host.to_owned()),
            Exit::Path(path) => asked.paths.push(exact(path)),
        }
    }
    asked
}

#[derive(Default)]
struct Offered {
    commands: Vec<String>,
    paths: Vec<String>,
    hosts: Vec<String>,
}

/// Whether a call is allowed with this grant beside those of its run. It may block.
pub fn allows(settings: &Settings, rule: &PolicyRule, tool: &str, arguments: &[u8]) -> bool {
    let policy = settings.policy.iter().cloned().chain([rule.clone()]).collect();
    let settings = Settings { policy, derived: Derived::default(), ..settings.clone() };
    let is_allowed = |acts: Vec<ExplainedAct>| acts.iter().all(|act| act.decision == Policy::Allow);
    explain(&settings, tool, arguments).is_ok_and(is_allowed)
}

/// The glob of this file alone.
fn exact(path: &ResolvedPath) -> String {
    let special = |c: char| "*?[]{}!\\".contains(c);
    let text = path.real.to_string_lossy();
    text.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

/// The pattern of commands that is offered for this one: itself, or all with its first words, if a subcommand or a word that a
/// pattern cannot name follows. None if nobody knows its words.
fn pattern(command: &Argv) -> Option<String> {
    let words: Vec<&str> = command.iter().map(Option::as_deref).collect::<Option<_>>()?;
    let plain = |word: &&str| !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || c == '*');
    let [program, subcommand, ..] = words[..] else {
        return words.first().filter(|w| plain(w)).map(ToString::to_string);
    };
    let is_name = |word: &str| word.starts_with(|c: char| c.is_ascii_alphabetic()) && word.chars().all(is_of_name);
    if WITH_SUBCOMMANDS.contains(&program) && is_name(subcommand) && !RUNS_OTHERS.contains(&subcommand) {
        return Some(format!("{program} {subcommand} *"));
    }
    words.iter().all(plain).then(|| words.join(" "))
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-'
}

/// Subcommands whose further arguments are programs: all of them would be allowed.
const RUNS_OTHERS: &[&str] = &["dlx", "eval", "exec", "foreach", "run", "sh", "shell", "x"];

/// Programs whose first argument says what they do.
const WITH_SUBCOMMANDS: &[&str] = &[
    "apt",
    "brew",
    "bun",
    "bundle",
    "cargo",
    "composer",
    "conda",
    "deno",
    "docker",
    "dotnet",
    "gem",
    "gh",
    "git",
    "go",
    "helm",
    "jj",
    "just",
    "kubectl",
    "make",
    "mix",
    "npm",
    "pip",
    "pip3",
    "pnpm",
    "podman",
    "poetry",
    "rustup",
    "swift",
    "systemctl",
    "terraform",
    "uv",
    "yarn",
    "zig",
];

/// What is decided where no rule matches: the table of defaults, as these settings and this machine have it.
pub fn defaults(settings: &Settings) -> Vec<ExplainedAct> {
    let state = SandboxState::of(settings, Path::new(THIS_PROGRAM));
    let holds = state == SandboxState::Holds;
    let rows = DEFAULTS.iter().filter(|row| row.reserved.is_none());
    let rows = rows.filter(|row| row.class != ActClass::RunConfined || holds);
    let explained = rows.map(|row| {
        let decision = match row.class {
            ActClass::Run => outside_of_sandbox(row.class.default_in(settings), state, holds),
            // Without a sandbox there is nothing to ask for.
            ActClass::Exit if settings.sandbox.mode == SandboxMode::Off => Policy::Allow,
            class => class.default_in(settings),
        };
        of(row.acts.to_owned(), RuleDecision { decision, rule: None }, row.class)
    });
    explained.collect()
}

fn of(act: String, RuleDecision { decision, rule }: RuleDecision<'_>, class: ActClass) -> ExplainedAct {
    let rule = rule.map(|rule| rule.origin.clone());
    ExplainedAct { act, class, decision, rule, setting: class.row().setting }
}

/// The decision on a message to a route: it may go where the reply of the run goes, unless somebody has said otherwise.
pub(crate) fn on_route<'a>(settings: &'a Settings, tool: &str, route: &str, is_own: bool) -> RuleDecision<'a> {
    let usual = if is_own { Policy::Allow } else { ActClass::Message.default_in(settings) };
    let default = settings.reply.route(route).and_then(|route| route.policy).unwrap_or(usual);
    decide(&settings.policy, tool, RuleSubject::Other, default)
}

fn on_path(settings: &Settings, (tool, verb): (&str, &str), inside: ActClass, path: &ResolvedPath) -> ExplainedAct {
    let class = class_of_path(path, inside);
    let decided = by_file((&settings.policy, &Globs::of(settings)), tool, path, class.default_in(settings));
    of(format!("{verb} {}", path.shown), decided, class)
}

/// Enough to say what a call would do: nothing is run.
pub(crate) fn context_of(settings: &Settings) -> Context {
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
        search: settings.web_search.as_deref().map(SearchProvider::at),
        memory: MemoryContext::default(),
        rules: CallRules::default(),
        secret_env: vec![],
        passed_env: vec![],
        user: None,
        skills: None,
        routes: settings.reply.routes.iter().map(|route| route.name.clone()).collect(),
        replies_to: vec![],
        processes: vec![],
        supervisor: PathBuf::from(THIS_PROGRAM),
        sandbox: settings.sandbox.clone(),
    }
}

fn shown(command: &Argv) -> String {
    command.iter().map(|word| word.as_deref().unwrap_or("…")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R60: what is offered is what was asked about, never more than its first two words, and nothing that runs others.
    #[test]
    fn r60_the_pattern_that_is_offered_is_that_of_the_command() {
        let of = |line: &str| {
            let commands = simple_commands(line).filter(|commands| !commands.is_empty())?;
            commands.iter().map(pattern).collect::<Option<Vec<_>>>().map(|patterns| patterns.join(", "))
        };
        for (line, offered) in [
            ("git log -3", Some("git log *")),
            ("git log -3 | head -5", Some("git log *, head -5")),
            ("cargo test --all", Some("cargo test *")),
            ("rm -rf build", Some("rm -rf build")),
            ("make", Some("make")),
            ("git -c alias.x=!sh x", Some("git -c alias.x=!sh x")),
            ("docker run --rm alpine sh", Some("docker run --rm alpine sh")),
            ("npm exec thing", Some("npm exec thing")),
            ("git ''", None),
            ("echo 'a b'", None),
            ("ls *.rs", None),
            ("# list files", None),
            ("", None),
            ("> /dev/null", None),
            ("git '*'", None),
        ] {
            assert_eq!(of(line).as_deref(), offered, "{line}");
        }
    }
}
