//! Keys as a command line names them, and the values that it gives them: both are checked against the declarations before
//! anything is written.

use protocol::deprecated::{Deprecated, Surface};
use toml::{Table, Value};

use super::concealed::{self, shown_path, shown_unknown};
use super::deprecated::{renamed, revalued};
use super::endpoints::KeySource;
use super::error::ConfigError;
use super::kind::Kind;
use super::layers::{dotted, is_list};
use super::nearest::{Among, nearest};
use super::review::Remark;
use super::settings::{self, Entry};

/// A key or a table of the configuration that is declared.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyPath {
    path: Vec<String>,
    entry: Entry,
    renamed: Option<String>,
}

/// A key with the value that a command line gives it.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyValue {
    /// Its parts.
    pub path: Vec<String>,
    /// A value that it takes.
    pub value: Value,
    kind: Kind,
}

impl KeyPath {
    /// Reads a key as it stands in a file: names with dots are quoted. An old name is read as that of today.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let given = parts(text);
        let (path, old) = renamed(&given);
        if path.iter().any(|part| concealed::has_key(part)) {
            return Err(ConfigError::NoSuchKey {
                key: shown_path(&path),
                nearest: Some("providers.NAME.profiles".to_owned()),
            });
        }
        match settings::at(&path) {
            Entry::Unknown => {
                let nearest = nearest(&path, Among::All).map(|nearest| shown_path(&nearest));
                Err(ConfigError::NoSuchKey { key: shown_unknown(&path), nearest })
            }
            entry => Ok(Self { path, entry, renamed: old.map(ToString::to_string) }),
        }
    }

    /// Its parts.
    pub fn path(&self) -> &[String] {
        &self.path
    }

    /// Its parts, and those of each old name of it.
    pub fn paths(&self) -> Vec<Vec<String>> {
        let old = Deprecated::of(Surface::ConfigKey).filter_map(|row| {
            let new: Vec<String> = row.new.split('.').map(str::to_owned).collect();
            let rest = self.path.strip_prefix(new.as_slice())?;
            Some(row.old.split('.').map(str::to_owned).chain(rest.iter().cloned()).collect())
        });
        [self.path.clone()].into_iter().chain(old).collect()
    }

    /// The key as in a file.
    pub fn name(&self) -> String {
        shown_path(&self.path)
    }

    /// A value of it, secrets masked.
    pub fn masked(&self, value: &Value) -> Value {
        match self.entry {
            Entry::Key(kind) => kind.masked(value),
            Entry::Table | Entry::Unknown => value.clone(),
        }
    }

    /// Whether its value is a model.
    pub fn is_model(&self) -> bool {
        self.entry == Entry::Key(Kind::Model)
    }

    /// Whether it is a table, or the list of profiles of a provider.
    pub fn is_table(&self) -> bool {
        self.entry == Entry::Table
    }

    /// A warning if the command line has the old name.
    pub fn deprecated(&self) -> Option<&str> {
        self.renamed.as_deref()
    }

    /// Whether this setting is the key, or stands in the table.
    pub fn covers(&self, setting: &str) -> bool {
        let name = dotted(&self.path);
        setting.strip_prefix(&name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// What a value of the key is, and when a change takes effect; of a table, that of its keys.
    pub fn expected(&self) -> String {
        match self.entry {
            Entry::Key(kind) => kind.expected(),
            Entry::Table | Entry::Unknown => format!("a table in TOML, such as {}", example(&self.path)),
        }
    }

    /// The next moment from which a change counts, such as `run`.
    pub fn counts_from(&self) -> &'static str {
        settings::under(&self.path).next().map_or("run", |setting| setting.counts.name())
    }

    /// The keys that a text sets. A table sets each of its keys and leaves the others. Lists and tables are TOML; everything else
    /// may be TOML or the text itself.
    pub fn values(&self, text: &str) -> Result<Vec<KeyValue>, ConfigError> {
        let as_toml = toml_value(text);
        let value = match (self.entry, as_toml) {
            (Entry::Table, Some(value @ (Value::Table(_) | Value::Array(_))))
            | (
                Entry::Key(Kind::Models | Kind::Variables | Kind::Command | Kind::Words(_)),
                Some(value @ Value::Array(_)),
            ) => value,
            // Numbers and the like are read as from a variable; a text may be quoted.
            (Entry::Key(kind), Some(Value::String(quoted))) if text.trim_start().starts_with(['"', '\'']) => {
                one_of(kind, &quoted)
            }
            (Entry::Key(kind), _) => one_of(kind, text),
            (Entry::Table | Entry::Unknown, _) => return Err(self.refused(&Value::String(text.to_owned()))),
        };
        let mut values = vec![];
        flatten(&mut self.path.clone(), value, &mut values)?;
        Ok(values)
    }

    fn refused(&self, value: &Value) -> ConfigError {
        ConfigError::Unfit { key: self.name(), found: Kind::shown_for_table(value), expected: self.expected() }
    }
}

impl KeyValue {
    /// The key as in a file.
    pub fn name(&self) -> String {
        shown_path(&self.path)
    }

    /// The value, secrets masked.
    pub fn shown(&self) -> Value {
        self.masked(&self.value)
    }

    /// Another value of this key, secrets masked.
    pub fn masked(&self, value: &Value) -> Value {
        self.kind.masked(value)
    }

    /// A warning if it is a key of a provider itself, and not its place.
    pub fn in_the_open(&self) -> Option<Remark> {
        let text = self.value.as_str().filter(|_| self.kind == Kind::Secret)?;
        (!KeySource::of(text).is_reference()).then(|| Remark {
            what: format!("`{}` holds a key itself, and the history of your shell may hold it too", self.name()),
            hint: "name the place of the key: env:NAME, file:PATH or cmd:COMMAND".to_owned(),
        })
    }
}

/// The keys under this path that a value sets.
fn flatten(path: &mut Vec<String>, value: Value, into: &mut Vec<KeyValue>) -> Result<(), ConfigError> {
    match (settings::at(path), value) {
        (Entry::Table, Value::Table(table)) => {
            for (name, value) in table {
                path.push(name);
                flatten(path, value, into)?;
                path.pop();
            }
            Ok(())
        }
        (Entry::Table, Value::Array(values)) if is_list(path) => {
            for (number, value) in values.into_iter().enumerate() {
                path.push(number.to_string());
                flatten(path, value, into)?;
                path.pop();
            }
            Ok(())
        }
        (Entry::Key(kind), value) => {
            let (value, _) = revalued(path, value);
            if !kind.fits(&value) || path.iter().any(|part| concealed::has_key(part)) {
                let (key, found, expected) = (shown_path(path), kind.shown(&value), kind.expected());
                return Err(ConfigError::Unfit { key, found, expected });
            }
            into.push(KeyValue { path: path.clone(), value, kind });
            Ok(())
        }
        (Entry::Table, value) => {
            Err(KeyPath { path: path.clone(), entry: Entry::Table, renamed: None }.refused(&value))
        }
        (Entry::Unknown, _) => {
            let nearest = nearest(path, Among::All).map(|nearest| shown_path(&nearest));
            Err(ConfigError::NoSuchKey { key: shown_unknown(path), nearest })
        }
    }
}

/// The parts of a key as in a file. A text that is none is taken apart at its dots.
fn parts(text: &str) -> Vec<String> {
    let by_dots = || text.split('.').map(|part| part.trim_matches('"').to_owned()).collect();
    if text.contains(['\n', '=', '#']) {
        return by_dots();
    }
    let Ok(table) = toml::from_str::<Table>(&format!("{text} = 0")) else { return by_dots() };
    let (mut parts, mut value) = (vec![], Value::Table(table));
    while let Value::Table(table) = value {
        let Some((name, inner)) = table.into_iter().next() else { break };
        parts.push(name);
        value = inner;
    }
    parts
}

fn toml_value(text: &str) -> Option<Value> {
    toml::from_str::<Table>(&format!("value = {text}")).ok().filter(|table| table.len() == 1)?.remove("value")
}

/// A single value of this kind. A list is never one: it is TOML.
fn one_of(kind: Kind, text: &str) -> Value {
    match kind {
        Kind::Models | Kind::Variables | Kind::Command | Kind::Words(_) => Value::String(text.to_owned()),
        _ => kind.parse(text),
    }
}

/// A table with the first key that is declared in it.
fn example(path: &[String]) -> String {
    let Some(setting) = settings::under(path).next() else { return "{}".to_owned() };
    let names = &settings::example(setting.path)[path.len()..];
    let is_entry = is_list(path);
    let table = format!("{{ {} = {} }}", dotted(&names[usize::from(is_entry)..]), setting.value.text());
    if is_entry { format!("[{table}]") } else { table }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(key: &str, text: &str) -> Vec<String> {
        match KeyPath::parse(key).and_then(|key| key.values(text)) {
            Ok(values) => values.iter().map(|value| format!("{} = {}", value.name(), value.shown())).collect(),
            Err(error) => vec![format!("{error}; {}", error.hint())],
        }
    }

    #[test]
    fn r24_a_value_is_read_as_its_key_is_declared() {
        let check = |key: &str, text: &str, expected: &[&str]| assert_eq!(set(key, text), expected, "{key} {text}");
        check("tools.exec.policy", "allow", &["tools.exec.policy = \"allow\""]);
        check("tools.exec.policy", "\"allow\"", &["tools.exec.policy = \"allow\""]);
        check("runs.deadline_s", "60", &["runs.deadline_s = 60"]);
        check("runs.deadline_s", "off", &["runs.deadline_s = \"off\""]);
        check("runs.repeats_told", "0", &["runs.loop_warn_after = \"off\""]);
        check("budget.run.cost", "2.5", &["budget.run.cost = 2.5"]);
        check("budget.run.cost", "2", &["budget.run.cost = 2.0"]);
        check("queue.steer_prefix", "[STEER] ", &["queue.steer_prefix = \"[STEER] \""]);
        check("agents.main.fallbacks", "[\"a/b\"]", &["agents.main.fallbacks = [\"a/b\"]"]);
        check("models.\"acme/m-1.5\".images", "true", &["models.\"acme/m-1.5\".images = true"]);
        check("models.acme/m.images", "true", &["models.\"acme/m\".images = true"]);
        check(
            "runs",
            "{ deadline_s = 5, resume = \"restart\" }",
            &["runs.deadline_s = 5", "runs.resume = \"restart\""],
        );
        let profile = ["providers.acme.profiles.0.key = \"env:K_1\""];
        check("providers.acme.profiles", "[{ key = \"env:K_1\" }]", &profile);
        check("providers.acme.profiles.0.key", "sk-abc", &["providers.acme.profiles.0.key = \"…\""]);
    }

    #[test]
    fn r24_what_a_key_does_not_take_is_refused_with_what_it_takes() {
        let check = |key: &str, text: &str, expected: &str| assert_eq!(set(key, text), [expected], "{key} {text}");
        check(
            "tools.exec.polcy",
            "allow",
            "there is no key `tools.exec.polcy`; the nearest known key is `tools.exec.policy`",
        );
        check("rnus", "1", "there is no key `rnus`; the nearest known key is `runs`");
        check(
            "runs.deadline_s",
            "soon",
            "`runs.deadline_s` cannot be \"soon\"; it takes a whole number from 1 to 31622400, or \"off\"",
        );
        check(
            "runs.deadline_s",
            "[1]",
            "`runs.deadline_s` cannot be \"[1]\"; it takes a whole number from 1 to 31622400, or \"off\"",
        );
        check("display.verbose", "yes", "`display.verbose` cannot be \"yes\"; it takes true or false");
        check(
            "agents.main.fallbacks",
            "a/b,c/d",
            "`agents.main.fallbacks` cannot be \"a/b,c/d\"; it takes a list of PROVIDER/MODEL, such as [\"acme/some-model\"]",
        );
        check("runs", "5", "`runs` cannot be text; it takes a table in TOML, such as { stall_s = 1800 }");
        check(
            "runs",
            "{ stall_s = 0 }",
            "`runs.stall_s` cannot be 0; it takes a whole number from 1 to 31622400, or \"off\"",
        );
        check("runs", "{ stll_s = 1 }", "there is no key `runs.stll_s`; the nearest known key is `runs.stall_s`");
        check(
            "providers.acme.profiles",
            "k",
            "`providers.acme.profiles` cannot be text; it takes a table in TOML, such as [{ name = \"first\" }]",
        );
    }

    #[test]
    fn r50_a_key_of_a_provider_is_named_by_its_place_or_warned_about_and_never_shown() {
        let warns = |text: &str| {
            let values = KeyPath::parse("providers.acme.profiles.0.key").unwrap().values(text).unwrap();
            values[0].in_the_open().is_some()
        };
        assert!(warns("sk-literal-0123456789") && !warns("env:ACME_KEY") && !warns("file:~/key"));
        for (key, text) in [
            ("providers.acme.api", "sk-literal-0123456789"),
            ("agents.main.model", "acme/sk-literal-0123456789"),
            ("providers.sk-literal-0123456789.api", "gemini"),
            ("providers.acme.profiles", "sk-literal-0123456789"),
            ("sk-literal-0123456789", "1"),
            ("providers.acme.profiles.0.key", "env:sk-literal-0123456789"),
        ] {
            let hints = set(key, text);
            assert!(hints.len() == 1 && !hints[0].contains("0123456789") && !hints[0].contains(" = \"sk"), "{hints:?}");
        }
    }
}
