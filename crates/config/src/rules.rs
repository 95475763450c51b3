//! The rules of the policy, as a run of an agent has them.

use engine::Policy;
use engine::policy::{PolicyRule, matches_word};

use super::Config;
use super::declared::PolicyEntry;
use super::error::ValueOrigin;
use super::resolve::Subject;

impl Config {
    /// The rules for this run, in the order of the files. `--yes` answers what they would ask.
    pub(super) fn rules(&self, subject: Subject<'_>) -> Vec<PolicyRule> {
        let name = subject.session.key.map(name_of_session);
        let has_agent =
            |entry: &PolicyEntry| entry.agent.is_empty() || entry.agent.iter().any(|name| name == subject.agent);
        let has_session = |entry: &PolicyEntry| match name {
            _ if entry.session.is_empty() => true,
            Some(name) => entry.session.iter().any(|pattern| matches_word(pattern, name)),
            // What it allows is not known to be allowed; what it asks or denies may be.
            None => entry.decision != Some(Policy::Allow),
        };
        let has_principal = |entry: &PolicyEntry| match subject.session.principal {
            _ if entry.principal.is_empty() => true,
            Some(principal) => entry.principal.iter().any(|name| name == principal.name()),
            None => entry.decision != Some(Policy::Allow),
        };
        let skill = subject.overrides.skill.as_deref();
        let has_skill = |entry: &PolicyEntry| {
            entry.skill.is_empty() || skill.is_some_and(|skill| entry.skill.iter().any(|name| name == skill))
        };
        let is_for =
            |entry: &PolicyEntry| has_agent(entry) && has_session(entry) && has_principal(entry) && has_skill(entry);
        let entries = self.values.policy.iter().enumerate().filter(|(_, entry)| is_for(entry));
        let rules = entries.filter_map(|(number, entry)| {
            let written = entry.decision?;
            let answered = written == Policy::Ask && subject.overrides.allow;
            let decision = if answered { Policy::Allow } else { written };
            let key = ["policy".to_owned(), number.to_string(), "decision".to_owned()];
            let origin = self.layers.origin(&key);
            Some(PolicyRule {
                grant: None,
                answered,
                decision,
                origin: origin.and_then(ValueOrigin::at).unwrap_or_default(),
                restricts: matches!(origin, Some(ValueOrigin::Project { trusted: false, .. })),
                tools: entry.tool.iter().flat_map(|name| tools::tools_of(name).unwrap_or_default()).collect(),
                commands: entry.command.clone(),
                paths: entry.path.clone(),
                hosts: entry.host.clone(),
            })
        });
        rules.collect()
    }
}

/// The name in the key of a session, `agent:AGENT:NAME`.
fn name_of_session(key: &str) -> &str {
    key.splitn(3, ':').nth(2).unwrap_or(key)
}
