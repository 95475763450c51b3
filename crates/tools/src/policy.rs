//! Checks a call before it runs: whether its arguments fit, and whether it may run. The rules of the run decide; where none
//! matches, its settings decide on commands, on web pages, on paths outside the workspace and on writing to files that other
//! programs run, and everything else inside the workspace is allowed.

use std::path::Path;

use engine::policy::{PolicyRule, RuleDecision, RuleSubject, decide, strictness};
use engine::tables::policy::ActClass;
use engine::{CallId, Hash, Policy, Sandbox, SandboxMode, Settings, ToolSpec, UserQuestion};

use crate::call::{CallRequest, Context};
use crate::cancel::Cancel;
use crate::error::ToolError;
use crate::evidence::{Evidence, FileChange};
use crate::limits::QUOTED_BYTES;
use crate::masking::Secrets;
use crate::paths::{ResolvedPath, Workspace};
use crate::policy_explained::on_route;
use crate::policy_rules::{
    CommandLine, Globs, by_commands, by_file, class_of_command, class_of_path, class_of_tool, exit_to_file,
    exit_to_host,
};
use crate::sandbox::SandboxState;
use crate::tool::{Act, CallSite, ParsedCall, Work};
use crate::tool_set::unknown;
use crate::{approved, changes, policy_rules, tool_result};

/// The result of a check, for the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Whether the call may run. `Deny` also if the arguments do not fit or the tool does not exist.
    pub decision: Policy,
    /// The hash of tool, arguments and folder. An approval is valid for this fingerprint only.
    pub fingerprint: Hash,
    /// The data needed to look the call up after a crash; pass it back in [`CallRequest::evidence`].
    pub evidence: Option<String>,
    /// For `Ask`, the question for the user; for `Deny`, the message for the model.
    pub reason: Option<String>,
    /// The limit that the call asks for itself, milliseconds.
    pub timeout_ms: Option<u64>,
    /// The grant without which it would be asked about.
    pub grant: Option<CallId>,
    /// The question to the user that the call is.
    pub question: Option<UserQuestion>,
}

/// The result of a check that failed itself.
pub(crate) fn unchecked(secrets: &Secrets, error: &ToolError) -> Checked {
    denied(Hash::of(&[]), tool_result::message(secrets, error))
}

/// Checks a call on this thread; returns its parsed arguments if they fit. It reads the file system (for `write`, the existing
/// file), so it may block.
pub(crate) fn check_here(
    settings: &Settings,
    context: &Context,
    request: &CallRequest,
    cancel: &Cancel,
) -> (Checked, Option<ParsedCall>) {
    let fingerprint = fingerprint(&request.tool, &request.arguments, &context.workspace);
    match judge(settings, context, request, cancel) {
        Ok((Verdict { decision, evidence, reason, grant }, call)) => {
            let reason = reason.map(|reason| context.secrets.mask(&reason));
            let timeout_ms = call.timeout_ms();
            let grant = grant.filter(|_| decision == Policy::Allow);
            let text = |asked: UserQuestion| UserQuestion { text: context.secrets.mask(&asked.text), ..asked };
            let question = call.question().map(text);
            let evidence = evidence.to_text();
            (Checked { decision, fingerprint, evidence, reason, timeout_ms, grant, question }, Some(call))
        }
        Err(error) => (denied(fingerprint, tool_result::message(&context.secrets, &error)), None),
    }
}

fn denied(fingerprint: Hash, reason: String) -> Checked {
    let (decision, reason) = (Policy::Deny, Some(reason));
    Checked { decision, fingerprint, evidence: None, reason, timeout_ms: None, grant: None, question: None }
}

struct Verdict {
    decision: Policy,
    evidence: Evidence,
    reason: Option<String>,
    grant: Option<CallId>,
}

impl Verdict {
    /// What may be done without a question.
    fn allowed() -> Self {
        Self { decision: Policy::Allow, evidence: Evidence::default(), reason: None, grant: None }
    }

    /// Of two verdicts on one call, the stricter decides. What is asked of both is asked at once.
    fn and(mut self, other: Self) -> Self {
        match (self.decision, other.decision) {
            (Policy::Deny, _) | (_, Policy::Allow) => {}
            (_, Policy::Deny) | (Policy::Allow, Policy::Ask) => {
                (self.decision, self.reason) = (other.decision, other.reason);
            }
            (Policy::Ask, Policy::Ask) => {
                self.reason =
                    self.reason.into_iter().chain(other.reason).reduce(|first, next| format!("{first}; {next}"));
            }
        }
        self.evidence.outside.extend(other.evidence.outside);
        self.evidence.unconfined |= other.evidence.unconfined;
        self.evidence.holds |= other.evidence.holds;
        self.evidence.hosts.extend(other.evidence.hosts);
        self.evidence.writable.extend(other.evidence.writable);
        self.grant = self.grant.or(other.grant);
        self
    }
}

/// The verdict on a call, and the call.
fn judge(
    settings: &Settings,
    context: &Context,
    request: &CallRequest,
    cancel: &Cancel,
) -> Result<(Verdict, ParsedCall), ToolError> {
    let Some(spec) = settings.tool(&request.tool) else {
        if settings.plan && context.tools.has(&request.tool) {
            return Err(ToolError::OnlyPlans { tool: request.tool.clone() });
        }
        return Err(unknown(&request.tool, settings.tools.iter().map(|spec| spec.name.as_str())));
    };
    let workspace = Workspace::open(&context.workspace, &context.kept())?;
    let call = context.tools.parse(&request.tool, &request.arguments)?;
    let acts = call.acts(&CallSite { context, workspace: &workspace })?;
    let mut written = vec![];
    let line = acts.iter().find_map(Act::new_command).map(str::to_owned);
    let mut verdict = by_acts((settings, &context.supervisor), spec, acts, &mut written);
    if let Some(line) = line.filter(|_| verdict.decision == Policy::Ask) {
        verdict.evidence.approved = approved::seen_of(&workspace.root, &line);
    }
    if let Work::Files(files) = &call.0
        && let Some(writer) = files.change()
        // Do not read a file that the policy denies.
        && verdict.decision != Policy::Deny
    {
        let states = writer.states(&workspace, &written, cancel)?;
        return Ok((of_change(verdict, &written, states), call));
    }
    Ok((verdict, call))
}

/// The verdict on all acts of a call of this tool. `written` receives the files that it changes, in order.
fn by_acts(
    (settings, program): (&Settings, &Path),
    spec: &ToolSpec,
    acts: Vec<Act>,
    written: &mut Vec<ResolvedPath>,
) -> Verdict {
    let tool = spec.name.as_str();
    let mut verdict = Verdict::allowed();
    let mut verb_of_change = "";
    for act in acts {
        let of_act = match act {
            Act::Read { verb, path } => {
                by_paths(settings, (tool, verb), ActClass::ReadInside, std::slice::from_ref(&path))
            }
            // The files of a call are judged together.
            Act::Write { verb, path } => {
                verb_of_change = verb;
                written.push(path);
                continue;
            }
            Act::Run { line, to, outside } => by_command(
                settings,
                program,
                tool,
                &Line { text: &line, to: to.as_deref(), outside: outside.as_deref() },
            ),
            Act::Exit { line, hosts, paths } => by_exit(settings, tool, &line, (hosts, paths)),
            Act::Fetch(url) => by_address(settings, tool, &url),
            Act::Send { route, is_own } => by_route(settings, tool, &route, is_own),
            Act::Other { question } => by_class(settings, spec, question),
        };
        verdict = verdict.and(of_act);
    }
    if written.is_empty() { verdict } else { verdict.and(by_change(settings, (tool, verb_of_change), written)) }
}

fn by_route(settings: &Settings, tool: &str, route: &str, is_own: bool) -> Verdict {
    let RuleDecision { decision, rule } = on_route(settings, tool, route, is_own);
    let reason = match decision {
        Policy::Allow => None,
        Policy::Ask => Some(format!("send a message to `{route}`")),
        Policy::Deny => Some(format!("may not send a message to `{route}`: {}", denied_by(rule))),
    };
    Verdict { decision, evidence: Evidence::default(), reason, grant: rule.and_then(|rule| rule.grant) }
}

/// What changes nothing may be done; anything else is asked.
fn by_class(settings: &Settings, spec: &ToolSpec, question: String) -> Verdict {
    let default = class_of_tool(spec).default_in(settings);
    let RuleDecision { decision, rule } = decide(&settings.policy, &spec.name, RuleSubject::Other, default);
    let reason = match decision {
        Policy::Allow => None,
        Policy::Ask => Some(question),
        Policy::Deny => Some(format!("may not {question}: {}", denied_by(rule))),
    };
    Verdict { decision, evidence: Evidence::default(), reason, grant: rule.and_then(|rule| rule.grant) }
}

/// What the model receives of a rule that denies.
fn denied_by(rule: Option<&PolicyRule>) -> String {
    let origin = rule.map_or_else(String::new, |rule| format!(" ({})", rule.origin));
    format!("a rule of the configuration denies that{origin}. Do it in another way, or ask the user")
}

/// Adds what the call is to change, with what taking it back needs.
fn of_change(verdict: Verdict, paths: &[ResolvedPath], mut files: Vec<FileChange>) -> Verdict {
    for (path, change) in paths.iter().zip(&mut files) {
        if change.before.is_some() && change.after.is_none() {
            change.mode = path.look().ok().map(|seen| seen.mode);
        }
    }
    let folders = changes::missing_folders(paths, &files);
    Verdict { evidence: Evidence { files, folders, ..verdict.evidence }, ..verdict }
}

fn by_path(settings: &Settings, act: &str, inside: ActClass, path: &ResolvedPath) -> Verdict {
    let decision = class_of_path(path, inside).default_in(settings);
    let reason = match decision {
        Policy::Allow => None,
        Policy::Ask => Some(format!("{act} {}, which is outside the workspace", path.shown)),
        Policy::Deny => Some(format!(
            "may not {act} {}: it is outside the workspace, and the configuration denies that. Work inside {}",
            path.shown, settings.workspace
        )),
    };
    // The call can access this path and no other outside the workspace, even if a link on it changes.
    let outside = if path.inside || decision == Policy::Deny { vec![] } else { vec![path.real.clone()] };
    Verdict { decision, evidence: Evidence { outside, ..Evidence::default() }, reason, grant: None }
}

/// Judges several paths: by the rules that match, and all others like the first that is outside the workspace; the reason and the
/// evidence name all paths outside.
fn by_paths(settings: &Settings, (tool, act): (&str, &str), inside: ActClass, paths: &[ResolvedPath]) -> Verdict {
    let globs = Globs::of(settings);
    let decided = |path: &ResolvedPath| {
        let default = class_of_path(path, inside).default_in(settings);
        by_file((&settings.policy, &globs), tool, path, default)
    };
    let mut verdict = Verdict::allowed();
    let mut others = vec![];
    for path in paths {
        match decided(path) {
            RuleDecision { rule: None, .. } => others.push(path),
            RuleDecision { decision, rule } => verdict = verdict.and(by_rule_on_path(decision, rule, act, path)),
        }
    }
    verdict.and(by_default(settings, act, inside, &others))
}

fn by_rule_on_path(decision: Policy, rule: Option<&PolicyRule>, act: &str, path: &ResolvedPath) -> Verdict {
    let where_to = if path.inside { "" } else { ", which is outside the workspace" };
    let reason = match decision {
        Policy::Allow => None,
        Policy::Ask => Some(format!("{act} {}{where_to}", path.shown)),
        Policy::Deny => Some(format!("may not {act} {}: {}", path.shown, denied_by(rule))),
    };
    let is_listed = !path.inside && decision != Policy::Deny || decision == Policy::Ask;
    let outside = if is_listed { vec![path.real.clone()] } else { vec![] };
    let grant = rule.and_then(|rule| rule.grant);
    Verdict { decision, evidence: Evidence { outside, ..Evidence::default() }, reason, grant }
}

fn by_default(settings: &Settings, act: &str, inside: ActClass, paths: &[&ResolvedPath]) -> Verdict {
    let outside: Vec<&ResolvedPath> = paths.iter().copied().filter(|path| !path.inside).collect();
    let Some(first) = outside.first().or(paths.first()).copied() else { return Verdict::allowed() };
    let verdict = by_path(settings, act, inside, first);
    if verdict.decision == Policy::Deny || outside.len() < 2 {
        return verdict;
    }
    let shown: Vec<&str> = outside.iter().map(|path| path.shown.as_str()).collect();
    let reason = verdict.reason.map(|_| format!("{act} {}, which are outside the workspace", shown.join(", ")));
    let evidence = Evidence { outside: outside.iter().map(|path| path.real.clone()).collect(), ..Evidence::default() };
    Verdict { evidence, reason, ..verdict }
}

/// Where commands cannot write in the workspace either, tools for files ask.
fn by_read_only_sandbox(act: &str, paths: &[ResolvedPath]) -> Verdict {
    let inside: Vec<&ResolvedPath> = paths.iter().filter(|path| path.inside).collect();
    if inside.is_empty() {
        return Verdict::allowed();
    }
    let shown: Vec<&str> = inside.iter().map(|path| path.shown.as_str()).collect();
    let reason = Some(format!("{act} {}, while the sandbox is read-only", shown.join(", ")));
    let evidence = Evidence { outside: inside.iter().map(|path| path.real.clone()).collect(), ..Evidence::default() };
    Verdict { decision: Policy::Ask, evidence, reason, grant: None }
}

/// What a question says of files that other programs run or load.
const EXECUTED: &str = "which other programs run or load";

/// Whether this question is about files that other programs run or load, which `--yes` does not approve.
pub fn asks_about_executed_files(question: &str) -> bool {
    question.contains(EXECUTED)
}

/// Judges paths that are to be changed. Files that other programs run or load have a policy of their own, inside the
/// workspace as well; the stricter one decides.
fn by_change(settings: &Settings, (tool, act): (&str, &str), paths: &[ResolvedPath]) -> Verdict {
    let mut verdict = by_paths(settings, (tool, act), ActClass::ChangeInside, paths);
    if settings.sandbox.mode == SandboxMode::ReadOnly {
        verdict = verdict.and(by_read_only_sandbox(act, paths));
    }
    let executed: Vec<&ResolvedPath> = paths.iter().filter(|path| path.is_executed()).collect();
    if verdict.decision == Policy::Deny || executed.is_empty() {
        return verdict;
    }
    let shown: Vec<&str> = executed.iter().map(|path| path.shown.as_str()).collect();
    let shown = shown.join(", ");
    match ActClass::ExecutedFile.default_in(settings) {
        Policy::Allow => {}
        Policy::Ask => {
            let question = format!("{act} {shown}, {EXECUTED}");
            verdict.reason = Some(verdict.reason.map_or(question.clone(), |reason| format!("{reason}; {question}")));
            verdict.decision = Policy::Ask;
        }
        Policy::Deny => {
            let reason = format!(
                "may not {act} {shown}: other programs run or load it, and the configuration denies that (policy in \
                 [tools.executed_files]). Ask the user to do it"
            );
            return Verdict { decision: Policy::Deny, reason: Some(reason), ..Verdict::allowed() };
        }
    }
    let inside = executed.iter().filter(|path| path.inside).map(|path| path.real.clone());
    verdict.evidence.outside.extend(inside);
    verdict
}

/// What a call gives to a shell or to a running command.
struct Line<'a> {
    text: &'a str,
    to: Option<&'a str>,
    outside: Option<&'a str>,
}

impl Line<'_> {
    /// What the user is asked. That a command leaves its sandbox is always said.
    fn question(&self, state: SandboxState, known: CommandLine) -> String {
        let line = quoted(self.text);
        if let Some(command) = self.to {
            let command = quoted(command);
            return match (state, self.outside) {
                (SandboxState::Off, _) | (_, None) => {
                    format!("write `{line}` to the command `{command}`, which runs in the background")
                }
                (_, Some(_)) => {
                    format!(
                        "write `{line}` to the command `{command}`, which runs in the background outside of a sandbox or reaches more than one"
                    )
                }
            };
        }
        let question = match (state, self.outside) {
            (SandboxState::Off, _) | (SandboxState::Holds, None) => format!("run the command `{line}`"),
            (SandboxState::Partial, None) => {
                format!("run the command `{line}` in a sandbox that does not hold all of it here")
            }
            (SandboxState::Missing, _) => {
                format!("run the command `{line}` without a sandbox, which this machine cannot hold")
            }
            (SandboxState::Holds | SandboxState::Partial, Some(why)) => {
                format!("run the command `{line}` outside of its sandbox ({})", quoted(why))
            }
        };
        match known {
            CommandLine::Unreadable => format!("{question}, of which no rule can say what it runs"),
            _ => question,
        }
    }
}

/// A command that is to be in a sandbox, and will not be, is asked about at least: `--yes` and rules answer for what a command
/// does inside.
pub(crate) fn outside_of_sandbox(decision: Policy, state: SandboxState, wants_out: bool) -> Policy {
    let leaves = match state {
        SandboxState::Off => false,
        SandboxState::Missing => true,
        SandboxState::Holds | SandboxState::Partial => wants_out,
    };
    if leaves && decision == Policy::Allow { Policy::Ask } else { decision }
}

fn by_command(settings: &Settings, program: &Path, tool: &str, asked: &Line<'_>) -> Verdict {
    let Line { text: line, to, outside } = *asked;
    let state = SandboxState::of(settings, program);
    let of_text = if to.is_none() { Some(line) } else { None };
    let default = class_of_command(state, to.is_none()).default_in(settings);
    let (RuleDecision { decision, rule }, known) = by_commands(&settings.policy, tool, of_text, default);
    let decision = outside_of_sandbox(decision, state, outside.is_some());
    let reason = match (decision, rule) {
        (Policy::Allow, _) => None,
        (Policy::Ask, _) => Some(asked.question(state, known)),
        (Policy::Deny, Some(_)) => Some(format!("may not run `{}`: {}", quoted(line), denied_by(rule))),
        (Policy::Deny, None) => Some(
            "commands are denied by the configuration (policy in [tools.exec]); use the tools for files instead"
                .to_owned(),
        ),
    };
    let unconfined = state == SandboxState::Missing || state != SandboxState::Off && outside.is_some();
    let holds = state == SandboxState::Holds && decision == Policy::Allow && to.is_none() && !unconfined;
    let evidence = Evidence { unconfined: unconfined && to.is_none(), holds, ..Evidence::default() };
    Verdict { decision, evidence, reason, grant: rule.and_then(|rule| rule.grant) }
}

/// What a command reaches beyond its sandbox. Only what somebody is asked about is approved: the rules open the rest by themselves.
fn by_exit(settings: &Settings, tool: &str, line: &str, (hosts, paths): (Vec<String>, Vec<ResolvedPath>)) -> Verdict {
    let globs = Globs::of(settings);
    let mut verdict = Verdict::allowed();
    let (mut asked_hosts, mut asked_paths, mut executed) = (vec![], vec![], false);
    for exit in exits(settings, (&hosts, &paths)) {
        let RuleDecision { decision, rule } = exit.decision(settings, tool, &globs);
        match (decision, exit) {
            (Policy::Deny, exit) => {
                let reason = Some(format!("may not {}: {}", exit.act(), denied_by(rule)));
                return Verdict { decision: Policy::Deny, reason, ..Verdict::allowed() };
            }
            (Policy::Allow, _) => verdict.grant = verdict.grant.or(rule.and_then(|rule| rule.grant)),
            (Policy::Ask, Exit::Host(host)) => asked_hosts.push(host.to_owned()),
            (Policy::Ask, Exit::Path(path)) => {
                executed |= path.is_executed();
                asked_paths.push(path.shown.clone());
            }
        }
        if let Exit::Path(path) = exit {
            verdict.evidence.writable.push(path.real.clone());
        }
    }
    let (line, hosts_shown, paths_shown) = (quoted(line), asked_hosts.join(", "), asked_paths.join(", "));
    let paths_shown = if executed { format!("{paths_shown} ({EXECUTED})") } else { paths_shown };
    // What it reaches comes first: a list shows the beginning of a question.
    verdict.reason = match (asked_hosts.is_empty(), asked_paths.is_empty()) {
        (true, true) => None,
        (false, true) => Some(format!("reach {hosts_shown} from the sandbox of the command `{line}`")),
        (true, false) => Some(format!("write to {paths_shown} from the sandbox of the command `{line}`")),
        (false, false) => {
            Some(format!("reach {hosts_shown} and write to {paths_shown} from the sandbox of the command `{line}`"))
        }
    };
    if verdict.reason.is_some() {
        verdict.decision = Policy::Ask;
    }
    verdict.evidence.hosts = asked_hosts;
    verdict
}

/// One thing that a command reaches beyond its sandbox.
#[derive(Clone, Copy)]
pub(crate) enum Exit<'a> {
    Host(&'a str),
    Path(&'a ResolvedPath),
}

impl<'a> Exit<'a> {
    pub(crate) fn decision(self, settings: &'a Settings, tool: &str, globs: &Globs) -> RuleDecision<'a> {
        match self {
            Self::Host(host) => exit_to_host(settings, tool, host),
            Self::Path(path) => {
                let decided = exit_to_file((&settings.policy, globs), tool, path);
                // Files that other programs run have their own policy beside it.
                let of_executed = ActClass::ExecutedFile.default_in(settings);
                let is_stricter = path.is_executed() && strictness(of_executed) > strictness(decided.decision);
                if is_stricter { RuleDecision { decision: of_executed, rule: None } } else { decided }
            }
        }
    }

    pub(crate) fn act(self) -> String {
        match self {
            Self::Host(host) => format!("reach {host} from the sandbox"),
            Self::Path(path) => format!("write to {} from the sandbox", path.shown),
        }
    }
}

/// What a command asks for beyond what its sandbox allows.
pub(crate) fn exits<'a>(
    settings: &Settings,
    (hosts, paths): (&'a [String], &'a [ResolvedPath]),
) -> impl Iterator<Item = Exit<'a>> {
    let Sandbox { mode, network, .. } = settings.sandbox;
    let has_sandbox = mode != SandboxMode::Off;
    let hosts = hosts.iter().filter(move |_| has_sandbox && !network).map(|host| Exit::Host(host));
    let is_kept = move |path: &&ResolvedPath| has_sandbox && !(path.inside && mode == SandboxMode::Workspace);
    hosts.chain(paths.iter().filter(is_kept).map(Exit::Path))
}

fn by_address(settings: &Settings, tool: &str, url: &str) -> Verdict {
    let RuleDecision { decision, rule } =
        policy_rules::by_address(&settings.policy, tool, url, ActClass::Fetch.default_in(settings));
    let reason = match (decision, rule) {
        (Policy::Allow, _) => None,
        (Policy::Ask, _) => Some(format!("fetch {}", quoted(url))),
        (Policy::Deny, Some(_)) => Some(format!("may not fetch {}: {}", quoted(url), denied_by(rule))),
        (Policy::Deny, None) => {
            Some("fetching from the web is denied by the configuration (policy in [tools.web_fetch])".to_owned())
        }
    };
    Verdict { decision, evidence: Evidence::default(), reason, grant: rule.and_then(|rule| rule.grant) }
}

/// A piece of a call in a question, bounded and without control characters.
fn quoted(command: &str) -> String {
    let shown = &command[..command.floor_char_boundary(QUOTED_BYTES)];
    let rest = command.len() - shown.len();
    // Control characters could change the terminal that shows the question.
    let shown: String = shown.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect();
    if rest == 0 { shown } else { format!("{shown}… ({rest} bytes more)") }
}

/// The hash includes lengths, so that no two calls give the same bytes.
fn fingerprint(tool: &str, arguments: &[u8], workspace: &Path) -> Hash {
    let mut bytes = Vec::with_capacity(arguments.len() + 256);
    for part in [tool.as_bytes(), arguments, workspace.as_os_str().as_encoded_bytes()] {
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part);
    }
    Hash::of(&bytes)
}
