//! What the file of a project may set, and what is stricter for each of these keys. A project can limit what a run does, takes
//! and spends. It never says which model is asked, where, with which key, or what is kept and shown. Every value is merged so
//! that nothing becomes laxer than without the file: an agent may write into the folder of its project.

use toml::Value;

use super::kind::OFF;
use super::settings;

/// What is stricter for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// A lower number; `"off"` is the highest.
    Lower,
    /// `deny` rather than `ask`, `ask` rather than `allow`. If the key is not set, this key says the policy.
    Policy { unset: Option<&'static [&'static str]> },
    /// Of these words the earlier one.
    Earlier(&'static [&'static str]),
    /// `false`.
    False,
    /// Fewer entries; a `*` at the end of one stands for any end.
    Fewer,
}

/// The policies, the strictest first.
const POLICIES: &[&str] = &["deny", "ask", "sandbox", "allow"];
pub(super) const EXEC: &[&str] = &["tools", "exec", "policy"];
/// The policy of a key that is not set is that of commands.
const AS_COMMANDS: Rule = Rule::Policy { unset: Some(EXEC) };

/// Every key that a project may set. All others are refused.
pub(super) const PROJECT_KEYS: &[(&[&str], Rule)] = &[
    (&["runs", "stall_s"], Rule::Lower),
    (&["runs", "deadline_s"], Rule::Lower),
    (&["runs", "loop_stop_after"], Rule::Lower),
    (&["runs", "poison_after"], Rule::Lower),
    (&["runs", "recover"], Rule::Earlier(&["ask", "auto"])),
    (&["tools", "timeout_s"], Rule::Lower),
    (EXEC, Rule::Policy { unset: None }),
    (&["tools", "exec", "env"], Rule::Fewer),
    // Whoever has switched it off is asked about commands; a project does not have them run without a question.
    (&["sandbox", "mode"], Rule::Earlier(&["read_only", "workspace"])),
    (&["sandbox", "root"], Rule::Earlier(&["copy", "worktree", "workspace"])),
    (&["sandbox", "network"], Rule::Earlier(&["off", "on"])),
    (&["tools", "outside_workspace", "policy"], AS_COMMANDS),
    (&["tools", "executed_files", "policy"], Rule::Policy { unset: None }),
    (&["tools", "web_fetch", "policy"], AS_COMMANDS),
    (&["tools", "web_fetch", "allow_private"], Rule::False),
    (&["budget", "run", "tokens"], Rule::Lower),
    (&["budget", "run", "cost"], Rule::Lower),
    (&["budget", "run", "calls"], Rule::Lower),
    (&["budget", "run", "wall_s"], Rule::Lower),
    (&["budget", "run", "bytes"], Rule::Lower),
    (&["budget", "session", "tokens"], Rule::Lower),
    (&["budget", "session", "cost"], Rule::Lower),
    (&["budget", "session", "calls"], Rule::Lower),
    (&["budget", "session", "wall_s"], Rule::Lower),
    (&["budget", "session", "bytes"], Rule::Lower),
];

/// The rule of a key; none if a project may not set it.
pub(super) fn rule(path: &[String]) -> Option<Rule> {
    PROJECT_KEYS.iter().find(|(key, _)| path.iter().eq(*key)).map(|(_, rule)| *rule)
}

impl Rule {
    /// What a project may do with the key, for the documentation.
    #[cfg(test)]
    pub(super) fn about(self) -> String {
        match self {
            Self::Lower => "a lower limit".to_owned(),
            Self::Policy { .. } => "`ask` in the place of `allow`, or `deny`".to_owned(),
            Self::Earlier(words) => format!("`{}`", words[0]),
            Self::False => "`false`".to_owned(),
            Self::Fewer => "fewer entries".to_owned(),
        }
    }

    /// The value in force of a key that has the value `own` without the project; none if that stays. Both values fit the key.
    pub(super) fn stricter(self, own: &Value, project: &Value) -> Option<Value> {
        let is_stricter = match self {
            Self::Lower => amount(project) < amount(own),
            Self::Policy { .. } => is_earlier(POLICIES, project, own),
            Self::Earlier(words) => is_earlier(words, project, own),
            Self::False => own.as_bool() == Some(true) && project.as_bool() == Some(false),
            Self::Fewer => {
                let fewer = both(own, project);
                return (fewer != names(own)).then(|| Value::Array(fewer.into_iter().map(Value::from).collect()));
            }
        };
        is_stricter.then(|| project.clone())
    }
}

/// The keys that have the policy of commands if nobody has set them.
pub(super) fn as_commands() -> impl Iterator<Item = Vec<String>> {
    PROJECT_KEYS.iter().filter(|(_, rule)| *rule == AS_COMMANDS).map(|(key, _)| settings::example(key))
}

/// Whether a value allows more than another of the same key.
pub(super) fn is_laxer(rule: Rule, value: &Value, than: &Value) -> bool {
    match rule {
        Rule::Fewer => both(than, value).len() < names(value).len(),
        _ => rule.stricter(value, than).is_some(),
    }
}

/// A limit as a number.
fn amount(value: &Value) -> f64 {
    match value {
        Value::Integer(number) => *number as f64,
        Value::Float(number) => *number,
        Value::String(text) if text == OFF => f64::INFINITY,
        // Not a limit, so not a lower one.
        _ => f64::NAN,
    }
}

fn is_earlier(words: &[&str], project: &Value, own: &Value) -> bool {
    let at = |value: &Value| words.iter().position(|word| value.as_str() == Some(word));
    matches!((at(project), at(own)), (Some(project), Some(own)) if project < own)
}

fn names(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The entries that both lists have: those of one that an entry of the other covers.
fn both(own: &Value, project: &Value) -> Vec<String> {
    let (own, project) = (names(own), names(project));
    let covers = |by: &[String], name: &str| {
        by.iter().any(|known| known == name || known.strip_suffix('*').is_some_and(|start| name.starts_with(start)))
    };
    let kept = own.iter().filter(|name| covers(&project, name));
    let narrowed = project.iter().filter(|name| covers(&own, name) && !own.contains(name));
    kept.chain(narrowed).cloned().collect()
}

/// The rows of the documentation.
#[cfg(test)]
pub(super) fn table() -> String {
    let row = |(key, rule): &(&[&str], Rule)| format!("| `{}` | {} |\n", key.join("."), rule.about());
    format!("| key | a project may set |\n|---|---|\n{}", PROJECT_KEYS.iter().map(row).collect::<String>())
}

/// The value of a key that is set nowhere: as the key says that its rule names, of these values.
pub(super) fn unset<'a>(rule: Rule, value_of: impl Fn(&[String]) -> Option<&'a Value>) -> Option<&'a Value> {
    let Rule::Policy { unset: Some(key) } = rule else { return None };
    value_of(&settings::example(key))
}

#[cfg(test)]
mod tests {
    use super::super::settings::{Entry, at, example};
    use super::*;

    fn value(text: &str) -> Value {
        settings::toml_value(text)
    }

    #[test]
    fn r24_what_is_stricter_is_said_for_each_key_that_a_project_may_set() {
        for (key, rule) in PROJECT_KEYS {
            let Entry::Key(kind) = at(&example(key)) else { panic!("{key:?} is no key") };
            let setting = settings::under(&example(key)).next().unwrap();
            let own = setting.value.value();
            assert!(kind.fits(&own), "{key:?}");
            assert_eq!(rule.stricter(&own, &own), None, "{key:?}: the same is not stricter");
        }
    }

    #[test]
    fn r24_a_value_of_a_project_counts_only_if_it_is_stricter() {
        let check = |rule: Rule, own: &str, project: &str, expected: Option<&str>| {
            assert_eq!(rule.stricter(&value(own), &value(project)), expected.map(value), "{rule:?} {own} {project}");
        };
        check(Rule::Lower, "\"off\"", "5", Some("5"));
        check(Rule::Lower, "5", "\"off\"", None);
        check(Rule::Lower, "5", "6", None);
        check(Rule::Lower, "2.5", "2", Some("2"));
        check(Rule::Lower, "0", "0.0", None);
        let policy = Rule::Policy { unset: None };
        for (own, project, expected) in [
            ("allow", "ask", Some("ask")),
            ("allow", "deny", Some("deny")),
            ("ask", "deny", Some("deny")),
            ("ask", "allow", None),
            ("deny", "ask", None),
            ("deny", "allow", None),
        ] {
            let quoted = |word: &str| format!("{word:?}");
            check(policy, &quoted(own), &quoted(project), expected.map(quoted).as_deref());
        }
        check(Rule::Earlier(&["ask", "auto"]), "\"auto\"", "\"ask\"", Some("\"ask\""));
        check(Rule::Earlier(&["ask", "auto"]), "\"ask\"", "\"auto\"", None);
        check(Rule::False, "true", "false", Some("false"));
        check(Rule::False, "false", "true", None);
        check(Rule::Fewer, "[\"A\", \"B\"]", "[\"B\", \"C\"]", Some("[\"B\"]"));
        check(Rule::Fewer, "[\"GIT_*\"]", "[\"GIT_DIR\", \"SSH_*\"]", Some("[\"GIT_DIR\"]"));
        check(Rule::Fewer, "[\"GIT_DIR\"]", "[\"GIT_*\"]", None);
        check(Rule::Fewer, "[\"GIT_DIR\"]", "[]", Some("[]"));
        check(Rule::Fewer, "[]", "[\"HOME*\"]", None);
    }
}
