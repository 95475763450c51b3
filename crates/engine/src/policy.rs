//! Rules on what calls may do, and the decision on one act of a call. Pure: what an act is comes from the tools, the rules from the
//! configuration.
//!
//! ```text
//! rules of the user that match   deny beats ask beats allow
//! none of them matches           the default of the act
//! rules of a project that match  count where they are stricter than that
//! grants that match              allow what would be asked about
//! ```

use serde::{Deserialize, Serialize};

use crate::ids::CallId;
use crate::launching::{commands_within, runs_unnamed};
use crate::settings::Policy;
use crate::tables::policy::ActClass;

/// Who began a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Principal {
    /// The user of this machine.
    Local,
    /// An agent.
    Agent,
}

impl Principal {
    /// Every one.
    pub const ALL: [Self; 2] = [Self::Local, Self::Agent];

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Agent => "agent",
        }
    }
}

/// A rule that somebody has written. It matches an act if each of its lists that is not empty does; a list of commands matches
/// commands only, one of paths files only, one of hosts addresses only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyRule {
    /// What it decides.
    pub decision: Policy,
    /// Where it stands, for people: `config.toml, line 7`.
    pub origin: String,
    /// Whether it can only make things stricter, because a project says it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restricts: bool,
    /// The grant that it comes from: it allows what would be asked about, and nothing that is denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<CallId>,
    /// Whether it asks, and whoever began the run has answered for all of its calls. That lets nothing out of a sandbox.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub answered: bool,
    /// The names of its tools; empty = every tool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Patterns of commands, word for word: `*` in a word stands for any characters, a `*` that is the last word for any words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// Globs of files, relative to the workspace or absolute.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Names of hosts; `*.` at the beginning stands for any names before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
}

/// A simple command, as its words; none for one that nobody knows before the shell has expanded it, and which may be several.
pub type Argv = Vec<Option<String>>;

/// What a call is about to do, as rules see it.
#[derive(Clone, Copy)]
pub enum RuleSubject<'a> {
    /// It reads or changes a file: whether a glob is one of it.
    Path(&'a dyn Fn(&str) -> bool),
    /// It runs a simple command; none if the text cannot be read as simple commands.
    Command(Option<&'a Argv>),
    /// It requests something from this host; none if the address has none.
    Host(Option<&'a str>),
    /// It does something else.
    Other,
}

/// The decision on an act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleDecision<'a> {
    /// What is decided.
    pub decision: Policy,
    /// The rule that decides, of several equally strict ones the first; none if it is the default.
    pub rule: Option<&'a PolicyRule>,
}

/// The decision of these rules on an act of a tool, which is `default` where none of them matches: what
/// [`ActClass::default_in`] says.
pub fn decide<'a>(rules: &'a [PolicyRule], tool: &str, subject: RuleSubject<'_>, default: Policy) -> RuleDecision<'a> {
    decide_by(rules, |_| true, tool, subject, default)
}

/// The decision on what a command of this tool reaches beyond its sandbox: a host, or a file that it writes. Only a rule that names
/// the tool and such hosts or files allows it; what nothing allows is asked about.
pub fn decide_exit<'a>(rules: &'a [PolicyRule], tool: &str, subject: RuleSubject<'_>) -> RuleDecision<'a> {
    let allows_exit = |rule: &PolicyRule| !rule.answered && !rule.tools.is_empty() && rule.names(subject);
    decide_by(
        rules,
        |rule| rule.decision != Policy::Allow || allows_exit(rule),
        tool,
        subject,
        ActClass::Exit.row().decision,
    )
}

/// The decision of those of the rules that count.
fn decide_by<'a>(
    rules: &'a [PolicyRule],
    counts: impl Fn(&PolicyRule) -> bool,
    tool: &str,
    subject: RuleSubject<'_>,
    default: Policy,
) -> RuleDecision<'a> {
    let of = |wanted: &dyn Fn(&PolicyRule) -> bool| {
        strictest(rules.iter().filter(|rule| counts(rule) && wanted(rule)), tool, subject)
    };
    let own = of(&|rule| !rule.restricts && rule.grant.is_none());
    let own = own.unwrap_or(RuleDecision { decision: default, rule: None });
    let restriction = of(&|rule| rule.restricts);
    let written = restriction.filter(|found| strictness(found.decision) > strictness(own.decision)).unwrap_or(own);
    if written.decision != Policy::Ask {
        return written;
    }
    let granted = of(&|rule| rule.grant.is_some() && rule.names(subject));
    granted.filter(|found| found.decision == Policy::Allow).unwrap_or(written)
}

/// The strictest rule that matches. A text that cannot be read as simple commands is asked about wherever a rule on commands might
/// have matched: an allow would let pass what nobody has read, and so would the absence of a deny.
fn strictest<'a>(
    rules: impl Iterator<Item = &'a PolicyRule>,
    tool: &str,
    subject: RuleSubject<'_>,
) -> Option<RuleDecision<'a>> {
    let decisions = rules.filter(|rule| rule.is_for(tool)).filter_map(|rule| {
        let is_unread = matches!(subject, RuleSubject::Command(None)) && !rule.commands.is_empty();
        let decision = if is_unread { Some(Policy::Ask) } else { rule.matches(subject).then_some(rule.decision) };
        Some(RuleDecision { decision: decision?, rule: Some(rule) })
    });
    decisions.reduce(|first, next| if strictness(next.decision) > strictness(first.decision) { next } else { first })
}

/// Whether any of these rules depends on the words of a command of this tool, so that it has to be read.
pub fn reads_commands(rules: &[PolicyRule], tool: &str) -> bool {
    rules.iter().any(|rule| rule.is_for(tool) && !rule.commands.is_empty())
}

/// Deny before ask before allow.
pub fn strictness(decision: Policy) -> u8 {
    match decision {
        Policy::Allow => 0,
        Policy::Ask => 1,
        Policy::Deny => 2,
    }
}

impl PolicyRule {
    fn is_for(&self, tool: &str) -> bool {
        self.tools.is_empty() || self.tools.iter().any(|name| name == tool)
    }

    /// What allows must fit for certain; what asks or denies need only be possible.
    fn matches_command(&self, pattern: &str, argv: &[Option<String>]) -> bool {
        matches_command(pattern, argv, self.decision != Policy::Allow)
    }

    /// Whether it says which of such acts it is about: a grant for all commands, files or hosts is none.
    fn names(&self, subject: RuleSubject<'_>) -> bool {
        match subject {
            RuleSubject::Command(_) => !self.commands.is_empty(),
            RuleSubject::Path(_) => !self.paths.is_empty(),
            RuleSubject::Host(_) => !self.hosts.is_empty(),
            RuleSubject::Other => true,
        }
    }

    fn matches(&self, subject: RuleSubject<'_>) -> bool {
        let has = |of: &[String], matching: &dyn Fn(&str) -> bool| of.iter().any(|pattern| matching(pattern));
        let (commands, paths, hosts) = (&self.commands, &self.paths, &self.hosts);
        let others_are_empty = match subject {
            RuleSubject::Command(_) => paths.is_empty() && hosts.is_empty(),
            RuleSubject::Path(_) => commands.is_empty() && hosts.is_empty(),
            RuleSubject::Host(_) => commands.is_empty() && paths.is_empty(),
            RuleSubject::Other => commands.is_empty() && paths.is_empty() && hosts.is_empty(),
        };
        others_are_empty
            && match subject {
                RuleSubject::Command(argv) => {
                    commands.is_empty()
                        || argv.is_some_and(|argv| has(commands, &|pattern| self.matches_command(pattern, argv)))
                }
                RuleSubject::Path(is_of) => paths.is_empty() || has(paths, is_of),
                RuleSubject::Host(host) => {
                    hosts.is_empty() || host.is_some_and(|host| has(hosts, &|pattern| matches_host(pattern, host)))
                }
                RuleSubject::Other => true,
            }
    }
}

/// Whether a command has the words of this pattern, or, if `might` is set, whether it, or one that it runs, may have them.
fn matches_command(pattern: &str, argv: &[Option<String>], might: bool) -> bool {
    if might {
        return commands_within(argv).into_iter().any(|at| matches_words(pattern, &argv[at..], true));
    }
    let words: Vec<&str> = pattern.split_whitespace().collect();
    let is_named = |at: usize| words.get(at).is_some_and(|word| !word.contains('*'));
    // Who allows any program allows what it runs.
    matches_words(pattern, argv, false) && !(is_named(0) && runs_unnamed(argv, &is_named))
}

/// The same for these words alone. A `*` that is the last word stands for any further words, also none. A word that is not known fits
/// nothing else, but may be anything.
fn matches_words(pattern: &str, argv: &[Option<String>], might: bool) -> bool {
    let mut words: Vec<&str> = pattern.split_whitespace().collect();
    let is_open = words.last() == Some(&"*") && words.len() > 1;
    if is_open {
        words.pop();
    }
    for (at, word) in words.iter().enumerate() {
        match argv.get(at) {
            Some(Some(given)) if matches_word(word, given) => {}
            // The same program in a folder.
            Some(Some(given)) if might && at == 0 && matches_word(word, given.rsplit('/').next().unwrap_or(given)) => {}
            // It may stand for any number of words.
            Some(None) => return might,
            Some(Some(_)) | None => return false,
        }
    }
    let rest = &argv[words.len()..];
    is_open || rest.is_empty() || might && rest.iter().all(Option::is_none)
}

/// Whether a text fits a pattern in which `*` stands for any characters.
pub fn matches_word(pattern: &str, text: &str) -> bool {
    let Some((beginning, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut left) = text.strip_prefix(beginning) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return left.ends_with(part);
        }
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// Whether a host name is what a pattern names: one name, all names below one (`*.example.org`), or any (`*`).
pub fn matches_host(pattern: &str, host: &str) -> bool {
    let (pattern, host) = (pattern.to_ascii_lowercase(), host.trim_end_matches('.').to_ascii_lowercase());
    match pattern.strip_prefix("*.") {
        Some(domain) => host.strip_suffix(domain).is_some_and(|before| before.len() > 1 && before.ends_with('.')),
        None => pattern == host || pattern == "*",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(command: &str) -> Argv {
        command.split(' ').map(|word| (word != "?").then(|| word.to_owned())).collect()
    }

    fn rule(decision: Policy, commands: &[&str], paths: &[&str], hosts: &[&str]) -> PolicyRule {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let (commands, paths, hosts) = (owned(commands), owned(paths), owned(hosts));
        PolicyRule {
            decision,
            origin: "here".to_owned(),
            restricts: false,
            grant: None,
            answered: false,
            tools: vec![],
            commands,
            paths,
            hosts,
        }
    }

    #[test]
    fn r24_a_pattern_of_a_command_is_matched_word_by_word() {
        for (pattern, matching, others) in [
            ("git status", &["git status"][..], &["git", "git status -s", "git statusx", "gitstatus"][..]),
            ("git log *", &["git log", "git log -3 --stat"], &["git logout", "git", "git -c a log"]),
            ("cargo test --*", &["cargo test --all"], &["cargo test", "cargo test all", "cargo test --all more"]),
            ("*", &["ls", "rm"], &["ls -l"]),
            ("* *", &["ls", "ls -l a"], &[]),
            ("ls a*c*e", &["ls ace", "ls abcde", "ls a*c*e"], &["ls abc", "ls ae", "ls acex"]),
        ] {
            for command in matching {
                assert!(matches_command(pattern, &argv(command), false), "{pattern}: {command}");
            }
            for command in others {
                assert!(!matches_command(pattern, &argv(command), false), "{pattern}: {command}");
            }
        }
        assert!(!matches_word("a*a", "a"), "no character is matched twice");
        for (pattern, command, fits, may_fit) in [
            ("git diff *", "git diff ?", true, true),
            ("git diff *", "git ? x", false, true),
            ("git * x", "git ? x", false, true),
            ("git push", "git push ?", false, true),
            ("git push", "git push ? x", false, false),
            ("git push", "git status ?", false, false),
            ("git push origin", "git ?", false, true),
            ("rm *", "git ?", false, false),
            ("rm *", "/bin/rm a", false, true),
            ("rm *", "a /bin/rm", false, false),
        ] {
            let found =
                (matches_command(pattern, &argv(command), false), matches_command(pattern, &argv(command), true));
            assert_eq!(found, (fits, may_fit), "{pattern}: {command}");
        }
    }

    #[test]
    fn r24_a_host_is_a_name_or_all_below_one() {
        for (pattern, host, expected) in [
            ("example.org", "example.org", true),
            ("example.org", "EXAMPLE.org.", true),
            ("example.org", "docs.example.org", false),
            ("*.example.org", "docs.example.org", true),
            ("*.example.org", "example.org", false),
            ("*.example.org", ".example.org", false),
            ("*.example.org", "evilexample.org", false),
            ("*", "any", true),
        ] {
            assert_eq!(matches_host(pattern, host), expected, "{pattern}: {host}");
        }
    }

    #[test]
    fn r24_deny_beats_ask_beats_allow_and_the_winner_names_itself() {
        let mut rules = vec![
            rule(Policy::Allow, &["git *"], &[], &[]),
            rule(Policy::Ask, &["git push *"], &[], &[]),
            rule(Policy::Deny, &["git push --force *"], &[], &[]),
            rule(Policy::Deny, &[], &[], &["*.example.com"]),
            rule(Policy::Allow, &[], &["/etc/hosts"], &[]),
        ];
        for (at, rule) in rules.iter_mut().enumerate() {
            rule.origin = at.to_string();
        }
        let of = |command: &str, default| {
            let decided = decide(&rules, "exec", RuleSubject::Command(Some(&argv(command))), default);
            (decided.decision, decided.rule.map(|rule| rule.origin.as_str()))
        };
        assert_eq!(of("git status", Policy::Deny), (Policy::Allow, Some("0")), "a rule beats the default");
        assert_eq!(of("git push origin", Policy::Allow), (Policy::Ask, Some("1")));
        assert_eq!(of("git push --force origin", Policy::Allow), (Policy::Deny, Some("2")));
        assert_eq!(of("rm -rf /", Policy::Deny), (Policy::Deny, None), "the default decides");
        let unread = decide(&rules, "exec", RuleSubject::Command(None), Policy::Allow);
        assert_eq!(unread.decision, Policy::Ask, "nobody knows what it is");
        let host = |host| decide(&rules, "web_fetch", RuleSubject::Host(host), Policy::Ask).decision;
        assert_eq!(
            (host(Some("a.example.com")), host(Some("b.org")), host(None)),
            (Policy::Deny, Policy::Ask, Policy::Ask)
        );
        assert_eq!(decide(&rules, "plan", RuleSubject::Other, Policy::Allow).rule, None);
    }

    /// R24, R67: what opens a sandbox names the tool and the hosts, and no answer for all calls does it.
    #[test]
    fn r67_only_a_rule_that_names_a_host_lets_commands_reach_it() {
        let exec = |rule: PolicyRule| PolicyRule { tools: vec!["exec".to_owned()], ..rule };
        let of = |rules: &[PolicyRule], host: &str| decide_exit(rules, "exec", RuleSubject::Host(Some(host))).decision;
        let named = exec(rule(Policy::Allow, &[], &[], &["*.example.org", "b.org:22"]));
        assert_eq!(of(std::slice::from_ref(&named), "a.example.org"), Policy::Allow);
        assert_eq!(of(std::slice::from_ref(&named), "b.org:22"), Policy::Allow);
        assert_eq!(of(std::slice::from_ref(&named), "b.org"), Policy::Ask, "another port");
        let deny = rule(Policy::Deny, &[], &[], &["a.example.org"]);
        assert_eq!(of(&[named.clone(), deny], "a.example.org"), Policy::Deny);
        for other in [
            exec(rule(Policy::Allow, &[], &[], &[])),
            rule(Policy::Allow, &[], &[], &["*"]),
            exec(rule(Policy::Allow, &["*"], &[], &[])),
            PolicyRule { answered: true, ..named.clone() },
        ] {
            assert_eq!(of(std::slice::from_ref(&other), "a.example.org"), Policy::Ask, "{other:?}");
        }
        let granted = PolicyRule {
            grant: Some(CallId { run: crate::ids::RunId(uuid::Uuid::nil()), step: 1, index: 0 }),
            ..named
        };
        assert_eq!(of(&[granted], "a.example.org"), Policy::Allow, "somebody granted it");
    }

    /// An agent may write into the folder of its project.
    #[test]
    fn r24_a_rule_of_a_project_counts_where_it_is_stricter() {
        let of_project = |decision| [PolicyRule { restricts: true, ..rule(decision, &["git *"], &[], &[]) }];
        let git = argv("git push");
        for default in [Policy::Allow, Policy::Ask, Policy::Deny] {
            for said in [Policy::Allow, Policy::Ask, Policy::Deny] {
                let rules = of_project(said);
                let decided = decide(&rules, "exec", RuleSubject::Command(Some(&git)), default);
                let expected = if strictness(said) > strictness(default) { said } else { default };
                assert_eq!(decided.decision, expected, "{said:?} beside {default:?}");
                assert_eq!(decided.rule.is_some(), expected != default, "it is named where it decides");
            }
        }
    }

    /// What was allowed for good allows what would be asked, and only what it names.
    #[test]
    fn r60_a_grant_allows_what_is_asked_and_nothing_that_is_denied() {
        let call = CallId { run: crate::ids::RunId(uuid::Uuid::nil()), step: 1, index: 0 };
        let granted = |commands: &[&str]| PolicyRule { grant: Some(call), ..rule(Policy::Allow, commands, &[], &[]) };
        let git = argv("git push origin");
        let of = |rules: &[PolicyRule], subject| decide(rules, "exec", subject, Policy::Ask).decision;
        let push = || RuleSubject::Command(Some(&git));
        let ask = rule(Policy::Ask, &["git *"], &[], &[]);
        let project = PolicyRule { restricts: true, ..ask.clone() };
        let deny = rule(Policy::Deny, &["git push *"], &[], &[]);
        assert_eq!(of(&[granted(&["git push *"])], push()), Policy::Allow);
        assert_eq!(of(&[ask, granted(&["git push *"])], push()), Policy::Allow);
        assert_eq!(of(&[project, granted(&["git push *"])], push()), Policy::Allow);
        assert_eq!(of(&[deny, granted(&["git push *"])], push()), Policy::Deny);
        assert_eq!(of(&[granted(&["git pull *"])], push()), Policy::Ask);
        assert_eq!(of(&[granted(&["git *"])], RuleSubject::Command(None)), Policy::Ask);
        let whole = [granted(&[])];
        for subject in [push(), RuleSubject::Command(None), RuleSubject::Path(&|_| true), RuleSubject::Host(Some("a"))]
        {
            assert_eq!(of(&whole, subject), Policy::Ask, "it names nothing");
        }
        assert_eq!(of(&whole, RuleSubject::Other), Policy::Allow, "calls of its tool have nothing to name");
    }

    #[test]
    fn r24_a_rule_is_for_its_tools_and_one_without_conditions_for_all_that_they_do() {
        let whole = PolicyRule { tools: vec!["web_fetch".to_owned()], ..rule(Policy::Deny, &[], &[], &[]) };
        let rules = [whole];
        let decided = |tool, subject| decide(&rules, tool, subject, Policy::Ask).decision;
        for subject in [RuleSubject::Host(Some("a.org")), RuleSubject::Host(None), RuleSubject::Other] {
            assert_eq!(decided("web_fetch", subject), Policy::Deny);
            assert_eq!(decided("read", subject), Policy::Ask);
        }
        assert!(!reads_commands(&rules, "web_fetch"), "nothing has to be read for it");
        assert_eq!(decided("web_fetch", RuleSubject::Command(None)), Policy::Deny, "it decides whatever is done");
    }
}
