//! What rules of the policy are about, as tools see it: globs, command lines, addresses.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use engine::policy::{Argv, PolicyRule, RuleDecision, RuleSubject, decide, decide_exit, reads_commands, strictness};
use engine::tables::policy::ActClass;
use engine::{Policy, Settings, ToolClass, ToolSpec, WorkspaceCopy};
use globset::{GlobBuilder, GlobMatcher};
use reqwest::Url;

use crate::fetch::NetworkPolicy;
use crate::paths::ResolvedPath;
use crate::sandbox::SandboxState;
use crate::shell::simple_commands;
use crate::supervise::proxy::HostRules;
use crate::supervise::proxy::host::{self, Host, WEB};

/// The rules of a run, and what decides where none of them matches.
#[derive(Debug, Clone, Default)]
pub struct CallRules {
    rules: Arc<[PolicyRule]>,
    globs: Arc<Globs>,
    outside: Policy,
    web_fetch: Policy,
}

impl CallRules {
    /// Those of a run.
    pub fn of(settings: &Settings) -> Self {
        Self {
            rules: Arc::clone(&settings.policy),
            globs: Arc::new(Globs::of(settings)),
            outside: ActClass::Outside.default_in(settings),
            web_fetch: ActClass::Fetch.default_in(settings),
        }
    }

    /// The decision on an address.
    pub(crate) fn on_address(&self, tool: &str, url: &str) -> RuleDecision<'_> {
        by_address(&self.rules, tool, url, self.web_fetch)
    }

    /// Which hosts the commands of this tool reach from their sandbox. `approved` are those that somebody approved for one of them.
    pub(crate) fn hosts_of(&self, tool: &str, approved: &[String], network: NetworkPolicy) -> HostRules {
        let of = |wanted: &dyn Fn(&PolicyRule) -> bool| {
            let rules = self.rules.iter().filter(|rule| is_of_hosts(rule, tool) && wanted(rule));
            rules.flat_map(|rule| rule.hosts.clone()).collect::<Vec<_>>()
        };
        // As `decide_exit` decides: what allows names the tool, and no answer for all calls of a run allows it.
        let allows = |rule: &PolicyRule| rule.decision == Policy::Allow && !rule.tools.is_empty() && !rule.answered;
        let granted = of(&|rule| allows(rule) && rule.grant.is_some());
        HostRules {
            allow: of(&|rule| allows(rule) && rule.grant.is_none() && !rule.restricts),
            ask: of(&|rule| rule.decision == Policy::Ask || rule.answered),
            approved: granted.into_iter().chain(approved.iter().cloned()).collect(),
            deny: of(&|rule| rule.decision == Policy::Deny),
            private: network != NetworkPolicy::Public,
        }
    }

    /// Whether there are any.
    pub(crate) fn has_any(&self) -> bool {
        !self.rules.is_empty()
    }

    /// What a rule decides about a file that a call comes to while it runs; none if no rule does.
    pub(crate) fn on_path(&self, tool: &str, path: &ResolvedPath) -> Option<Policy> {
        if !self.has_any() {
            return None;
        }
        let default = if path.inside { ActClass::ReadInside.row().decision } else { self.outside };
        let decided = by_file((&self.rules, &self.globs), tool, path, default);
        decided.rule.map(|_| decided.decision)
    }
}

/// Whether a rule is about hosts that this tool reaches.
fn is_of_hosts(rule: &PolicyRule, tool: &str) -> bool {
    let is_for = rule.tools.is_empty() || rule.tools.iter().any(|name| name == tool);
    is_for && !rule.hosts.is_empty() && rule.commands.is_empty() && rule.paths.is_empty()
}

/// The class of what a tool does that is no file, command or address.
pub(crate) fn class_of_tool(spec: &ToolSpec) -> ActClass {
    match spec.class {
        ToolClass::ReadOnly => ActClass::Harmless,
        ToolClass::Idempotent | ToolClass::Once => ActClass::Other,
    }
}

/// The class of an act on a file, which is `inside` in the workspace.
pub(crate) fn class_of_path(path: &ResolvedPath, inside: ActClass) -> ActClass {
    if path.inside { inside } else { ActClass::Outside }
}

/// The class of a command, or of text for one that runs already.
pub(crate) fn class_of_command(state: SandboxState, is_new: bool) -> ActClass {
    if is_new && state == SandboxState::Holds { ActClass::RunConfined } else { ActClass::Run }
}

/// Whether a text is a glob.
pub fn is_glob(glob: &str) -> bool {
    matcher(glob).is_some()
}

/// The globs of rules, each compiled at its first use: a search comes to many files.
#[derive(Debug, Default)]
pub(crate) struct Globs {
    compiled: Mutex<BTreeMap<String, Arc<[GlobMatcher]>>>,
    /// The copy in which the run works: what is in it is also known by its path in the original.
    copy: Option<WorkspaceCopy>,
}

impl Globs {
    /// For the rules of a run.
    pub(crate) fn of(settings: &Settings) -> Self {
        Self { copy: settings.sandbox.copy.clone(), ..Self::default() }
    }

    /// Of what a glob names, and of what is in it.
    fn matchers(&self, glob: &str) -> Arc<[GlobMatcher]> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(matchers) = compiled.get(glob) {
            return Arc::clone(matchers);
        }
        let name = glob.trim_end_matches('/');
        let matchers: Arc<[GlobMatcher]> = [name, &format!("{name}/**")].into_iter().filter_map(matcher).collect();
        Arc::clone(compiled.entry(glob.to_owned()).or_insert(matchers))
    }
}

fn matcher(glob: &str) -> Option<GlobMatcher> {
    GlobBuilder::new(glob)
        .literal_separator(true)
        .backslash_escape(true)
        .build()
        .ok()
        .map(|glob| glob.compile_matcher())
}

/// The decision on a file.
pub(crate) fn by_file<'a>(
    (rules, globs): (&'a [PolicyRule], &Globs),
    tool: &str,
    path: &ResolvedPath,
    default: Policy,
) -> RuleDecision<'a> {
    decide(rules, tool, RuleSubject::Path(&|glob| is_of(glob, path, globs)), default)
}

/// The decision on a host that a command reaches from its sandbox, as its proxy decides: without a port it is both ports of the web.
pub(crate) fn exit_to_host<'a>(settings: &'a Settings, tool: &str, asked: &str) -> RuleDecision<'a> {
    let rules = CallRules::of(settings).hosts_of(tool, &[], NetworkPolicy::Public);
    let (name, port) = match asked.parse::<IpAddr>() {
        Ok(_) => (asked, None),
        Err(_) => host::split(asked, None).map_or((asked, None), |(name, port)| (name, Some(port))),
    };
    let ports = port.map_or(WEB.to_vec(), |port| vec![port]);
    let named = decide_exit(&settings.policy, tool, RuleSubject::Host(Some(asked)));
    let decision = match Host::parse(name) {
        Some(host) if ports.iter().any(|port| rules.denies(&host, *port)) => Policy::Deny,
        Some(host) if ports.iter().all(|port| rules.allows(&host, *port)) => Policy::Allow,
        _ => Policy::Ask,
    };
    RuleDecision { decision, rule: named.rule.filter(|rule| rule.decision == decision) }
}

/// The decision on a file that a command writes from its sandbox.
pub(crate) fn exit_to_file<'a>(
    (rules, globs): (&'a [PolicyRule], &Globs),
    tool: &str,
    path: &ResolvedPath,
) -> RuleDecision<'a> {
    decide_exit(rules, tool, RuleSubject::Path(&|glob| is_of(glob, path, globs)))
}

/// An absolute glob is one of absolute paths, in a copy also of those of its original, any other of paths in the workspace. A glob of a folder is one of what is in it too.
fn is_of(glob: &str, path: &ResolvedPath, globs: &Globs) -> bool {
    let matches = |path: &Path| globs.matchers(glob).iter().any(|matcher| matcher.is_match(path));
    if !glob.starts_with('/') {
        return path.inside && matches(&path.relative);
    }
    let original = || globs.copy.as_ref()?.original(path.real.to_str()?);
    matches(&path.real) || original().is_some_and(|original| matches(Path::new(&original)))
}

/// The decision on a command line, or on text for a running command, which is never read.
pub(crate) fn by_commands<'a>(
    rules: &'a [PolicyRule],
    tool: &str,
    line: Option<&str>,
    default: Policy,
) -> (RuleDecision<'a>, CommandLine) {
    let of = |command: Option<&Argv>| decide(rules, tool, RuleSubject::Command(command), default);
    if !reads_commands(rules, tool) {
        return (of(None), CommandLine::Unneeded);
    }
    let Some(commands) = line.and_then(simple_commands).filter(|commands| !commands.is_empty()) else {
        return (of(None), CommandLine::Unreadable);
    };
    // Of commands that are allowed, one that a grant allows is named: it counts as a use of that grant.
    let granted = |of: &RuleDecision<'a>| of.rule.is_some_and(|rule| rule.grant.is_some());
    let rank = |of: &RuleDecision<'a>| (strictness(of.decision), granted(of));
    let strictest =
        |first: RuleDecision<'a>, next: RuleDecision<'a>| if rank(&next) > rank(&first) { next } else { first };
    let decision = commands.iter().map(|command| of(Some(command))).reduce(strictest);
    (decision.unwrap_or_else(|| of(None)), CommandLine::Read)
}

/// What is known of a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandLine {
    /// No rule depends on its words.
    Unneeded,
    /// Every simple command in it is known.
    Read,
    /// Nobody knows for certain which commands it runs.
    Unreadable,
}

/// The decision on an address.
pub(crate) fn by_address<'a>(rules: &'a [PolicyRule], tool: &str, url: &str, default: Policy) -> RuleDecision<'a> {
    let url = Url::parse(url).ok();
    let host = url.as_ref().and_then(Url::host_str);
    let decided = decide(rules, tool, RuleSubject::Host(host), default);
    // A rule may be one of this port alone.
    let port = url.as_ref().and_then(Url::port).filter(|port| !WEB.contains(port));
    let Some((host, port)) = host.zip(port) else { return decided };
    let of_port = decide(rules, tool, RuleSubject::Host(Some(&format!("{host}:{port}"))), default);
    match (decided.rule, of_port.rule) {
        (Some(_), Some(_)) if strictness(decided.decision) >= strictness(of_port.decision) => decided,
        (_, Some(_)) => of_port,
        (_, None) => decided,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(decision: Policy, commands: &[&str]) -> PolicyRule {
        let commands = commands.iter().map(|text| (*text).to_owned()).collect();
        let (origin, restricts) = ("here".to_owned(), false);
        PolicyRule {
            decision,
            origin,
            restricts,
            grant: None,
            answered: false,
            tools: vec![],
            commands,
            paths: vec![],
            hosts: vec![],
        }
    }

    /// R24: every simple command of a line must be allowed by itself.
    #[test]
    fn r24_a_line_is_allowed_only_if_each_command_in_it_is() {
        let rules = [
            rule(Policy::Allow, &["git status", "git diff *", "echo *", "head *"]),
            rule(Policy::Deny, &["git push *"]),
        ];
        let of = |line: &str| by_commands(&rules, "exec", Some(line), Policy::Ask).0.decision;
        for line in [
            "git status",
            "git diff | head -5",
            "echo $(git status)",
            "git status && git diff --stat; echo done",
            "echo a 2>/dev/null",
        ] {
            assert_eq!(of(line), Policy::Allow, "{line}");
        }
        for line in [
            "git status && rm x",
            "echo $(rm x)",
            "echo a > x",
            "git log",
            "X=1 git status",
            "git diff <(rm x)",
            "# nothing",
            "eval 'git status'",
            "git(){ rm x; }; git status",
        ] {
            assert_eq!(of(line), Policy::Ask, "{line}");
        }
        for line in ["git push", "echo $(git push -f)", "git status; (git push)", "git $X", "\"git\" 'push'"] {
            assert_eq!(of(line), Policy::Deny, "{line}");
        }
    }

    /// R24: a rule of a port decides about that port, beside those of the host.
    #[test]
    fn r24_a_rule_can_be_one_of_a_port() {
        let of = |rules: &[(Policy, &str)], url: &str| {
            let of_host = |(decision, host): &(Policy, &str)| PolicyRule {
                hosts: vec![(*host).to_owned()],
                ..rule(*decision, &[])
            };
            let rules: Vec<_> = rules.iter().map(of_host).collect();
            by_address(&rules, "web_fetch", url, Policy::Ask).decision
        };
        let (allow, deny) = (Policy::Allow, Policy::Deny);
        for (rules, url, expected) in [
            (&[(allow, "a.org")][..], "http://a.org:8080/x", allow),
            (&[(allow, "a.org:8080")], "http://a.org:8080/x", allow),
            (&[(allow, "a.org:8080")], "http://a.org/", Policy::Ask),
            (&[(allow, "a.org"), (deny, "a.org:8080")], "http://a.org:8080/", deny),
            (&[(allow, "a.org"), (deny, "a.org:8080")], "https://a.org/", allow),
            (&[(deny, "a.org"), (allow, "a.org:8080")], "http://a.org:8080/", deny),
        ] {
            assert_eq!(of(rules, url), expected, "{rules:?} {url}");
        }
    }
}
