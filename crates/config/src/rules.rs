//! The rules of the policy, as a run of an agent has them.

use engine::Policy;
use engine::policy::PolicyRule;

use super::error::ValueOrigin;
use super::layers::Layers;
use super::resolve::Subject;
use super::{Config, Values};

impl Config {
    /// The rules for this run. `--yes` answers what they would ask.
    pub(super) fn rules(&self, subject: Subject<'_>) -> Vec<PolicyRule> {
        let is_for =
            |rule: &&NumberedRule| rule.agents.is_empty() || rule.agents.iter().any(|name| name == subject.agent);
        let mut rules: Vec<PolicyRule> = vec![];
        for numbered in numbered(&self.values, &self.layers).iter().filter(is_for) {
            let mut rule = numbered.rule.clone();
            if subject.overrides.allow && rule.decision == Policy::Ask {
                rule.decision = Policy::Allow;
            }
            rules.push(rule);
        }
        rules
    }

    /// All rules, in the order of the files, each with its agents.
    pub fn all_rules(&self) -> Vec<(PolicyRule, Vec<String>)> {
        numbered(&self.values, &self.layers).into_iter().map(|numbered| (numbered.rule, numbered.agents)).collect()
    }
}

struct NumberedRule {
    rule: PolicyRule,
    agents: Vec<String>,
}

fn numbered(values: &Values, layers: &Layers) -> Vec<NumberedRule> {
    let entries = values.policy.iter().enumerate().filter_map(|(number, entry)| Some((number, entry, entry.decision?)));
    let rule = |(number, entry, decision): (usize, &super::PolicyEntry, Policy)| {
        let key = ["policy".to_owned(), number.to_string(), "decision".to_owned()];
        let origin = layers.origin(&key);
        let tools = entry.tool.iter().flat_map(|name| tools::tools_of(name).unwrap_or_default());
        let rule = PolicyRule {
            decision,
            origin: origin.map(ToString::to_string).unwrap_or_default(),
            restricts: matches!(origin, Some(ValueOrigin::Project { .. })),
            tools: tools.collect(),
            commands: entry.command.clone(),
            paths: entry.path.clone(),
            hosts: entry.host.clone(),
        };
        NumberedRule { rule, agents: entry.agent.clone() }
    };
    entries.map(rule).collect()
}
