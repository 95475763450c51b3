//! The layers of the configuration in order of precedence: defaults, the user's file, that of the home, variables. The layer of a
//! project, which comes before variables, is in `project_layer`. Every value is checked when it is read, so that a message can
//! name its place.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

use super::concealed::{self, shown_path, shown_unknown};
use super::deprecated::{renamed, revalued, warning};
use super::environment::Environment;
use super::error::{ConfigError, ValueOrigin};
use super::files::read_config;
use super::kind::Kind;
use super::nearest::{Among, nearest};
use super::settings::{self, Entry, Preset, example};

/// Variables that are not keys: the home, and switches for the process itself.
const RESERVED: &[&str] = &["LIMULUS_HOME", "LIMULUS_LOG", "LIMULUS_CRASHPOINT", "LIMULUS_HOLD", "LIMULUS_MUTANT"];

const PREFIX: &str = "LIMULUS_";

/// The errors that come with a suggestion. Each one takes about a millisecond, and a file may have thousands of wrong keys.
const SUGGESTIONS: usize = 20;

/// The list of rules. Those of all files count together.
const POLICY: &str = "policy";

/// What the parser says of a key that is there twice.
const DUPLICATE: &str = "duplicate key";

/// Checked values by their path; a later layer wins. Wrong values are left out and collected as errors.
#[derive(Clone, Default)]
pub(super) struct Layers {
    values: Values,
    wrong: Vec<ConfigError>,
    deprecated: Vec<String>,
}

type Values = BTreeMap<Vec<String>, (Value, ValueOrigin)>;

/// The defaults. A part of the program, so they are taken as they are: a test says that they pass all checks.
static DEFAULTS: LazyLock<Values> = LazyLock::new(|| {
    let defaults = settings::all().filter(|setting| matches!(setting.value, Preset::Default(_)));
    defaults.map(|setting| (example(setting.path), (setting.value.value(), ValueOrigin::Defaults))).collect()
});

/// A file, to find the line of a value.
struct Source<'a> {
    text: &'a str,
    path: &'a Path,
    of: FileOf,
}

/// Whose a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileOf {
    User,
    Project { trusted: bool },
}

impl Source<'_> {
    fn origin(&self, offset: usize) -> ValueOrigin {
        let before = &self.text[..self.text.floor_char_boundary(offset)];
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let path = self.path.to_owned();
        match self.of {
            FileOf::User => ValueOrigin::File { path, line, column },
            FileOf::Project { trusted } => ValueOrigin::Project { path, line, column, trusted },
        }
    }
}

impl fmt::Debug for Layers {
    /// Without the values: some are keys of providers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layers").field("keys", &self.values.keys()).field("wrong", &self.wrong).finish_non_exhaustive()
    }
}

impl Layers {
    /// Reads every layer: the defaults, these files, the strongest first, if they exist, the variables.
    pub(super) fn read(files: &[PathBuf], environment: &Environment) -> Self {
        Self::with(files, environment, read_config)
    }

    /// The layers if this one of the files had this text.
    pub(super) fn with_text((file, text): (&Path, &str), files: &[PathBuf], environment: &Environment) -> Self {
        Self::with(files, environment, |path| if path == file { Ok(text.to_owned()) } else { read_config(path) })
    }

    fn with(files: &[PathBuf], environment: &Environment, read: impl Fn(&Path) -> io::Result<String>) -> Self {
        let mut layers = Self { values: DEFAULTS.clone(), ..Self::default() };
        for file in files.iter().rev() {
            match read(file) {
                Ok(text) => layers.put_text(&text, file, FileOf::User),
                // If the home cannot be created, opening the journal reports it.
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    layers.wrong.push(ConfigError::NotText { path: file.clone() });
                }
                Err(error) => {
                    let detail = error.to_string();
                    layers.wrong.push(ConfigError::Unreadable { path: file.to_owned(), detail });
                }
            }
        }
        layers.put_variables(environment);
        layers
    }

    /// The values of a file of a project alone.
    pub(super) fn of_project(text: &str, file: &Path, trusted: bool) -> Self {
        let mut layers = Self::default();
        layers.put_text(text, file, FileOf::Project { trusted });
        layers
    }

    /// Puts these values over those of the same keys.
    pub(super) fn restrict(&mut self, restrictions: Vec<(Vec<String>, Value, ValueOrigin)>) {
        self.values.extend(restrictions.into_iter().map(|(path, value, origin)| (path, (value, origin))));
    }

    /// The value in force of a key.
    pub(super) fn value(&self, path: &[String]) -> Option<&Value> {
        self.values.get(path).map(|(value, _)| value)
    }

    /// Where the value in force of a key comes from.
    pub(super) fn origin(&self, path: &[String]) -> Option<&ValueOrigin> {
        self.values.get(path).map(|(_, origin)| origin)
    }

    /// The valid values by their path, each with its origin.
    pub(super) fn values(&self) -> impl Iterator<Item = (&[String], &Value, &ValueOrigin)> {
        self.values.iter().map(|(path, (value, origin))| (path.as_slice(), value, origin))
    }

    /// Whether the user has set the value of this path.
    pub(super) fn is_configured(&self, wanted: &[&str]) -> bool {
        self.values().any(|(path, _, origin)| path.iter().eq(wanted) && *origin != ValueOrigin::Defaults)
    }

    /// The errors, in the order of reading.
    pub(super) fn wrong(&self) -> &[ConfigError] {
        &self.wrong
    }

    /// A warning for each old name that was used.
    pub(super) fn deprecated(&self) -> &[String] {
        &self.deprecated
    }

    /// Whether this key has a value that it does not take.
    pub(super) fn is_wrong(&self, wanted: &str) -> bool {
        self.wrong.iter().any(|error| matches!(error, ConfigError::Value { key, .. } if key == wanted))
    }

    /// Adds the values of a TOML text.
    fn put_text(&mut self, text: &str, path: &Path, of: FileOf) {
        let source = Source { text, path, of };
        let syntax = |error: toml::de::Error| ConfigError::Syntax {
            origin: source.origin(error.span().map_or(0, |span| span.start)),
            // Only its message: the full error would quote the line, which may hold a key.
            detail: concealed::without_keys(&detail(&error, text)),
        };
        let spans = DeTable::parse(text).map_err(syntax);
        let values: Result<Table, _> = toml::from_str(text).map_err(syntax);
        match (spans, values) {
            (Ok(spans), Ok(values)) => self.put_table(&source, &mut vec![], spans.get_ref(), &values),
            (Err(error), _) | (_, Err(error)) => self.wrong.push(error),
        }
    }

    fn put_table(&mut self, source: &Source<'_>, path: &mut Vec<String>, spans: &DeTable<'_>, values: &Table) {
        // In the order of the file, so that errors have that order.
        let mut spans: Vec<_> = spans.iter().collect();
        spans.sort_by_key(|(key, _)| key.span().start);
        for (key, span) in spans {
            path.push(key.get_ref().to_string());
            if let Some(value) = values.get(key.get_ref().as_ref()) {
                self.put_value(source, path, (key.span().start, span), value);
            }
            path.pop();
        }
    }

    /// `at` is the offset of the key, and the value with its offsets.
    fn put_value(
        &mut self,
        source: &Source<'_>,
        path: &mut Vec<String>,
        at: (usize, &Spanned<DeValue<'_>>),
        value: &Value,
    ) {
        let origin = source.origin(at.0);
        match (settings::at(&renamed(path).0), at.1.get_ref(), value) {
            (Entry::Unknown, ..) => {
                let nearest = if self.wrong.len() < SUGGESTIONS { nearest(path, Among::All) } else { None };
                let nearest = nearest.map(|nearest| shown_unknown(&nearest));
                self.wrong.push(ConfigError::UnknownKey { origin, key: shown_unknown(path), nearest });
            }
            (Entry::Key(kind), ..) => self.put(path, kind, value.clone(), origin),
            (Entry::Table, DeValue::Table(spans), Value::Table(values)) => self.put_table(source, path, spans, values),
            (Entry::Table, DeValue::Array(spans), Value::Array(values)) if is_list(path) => {
                let before = if is_of_rule(path) { self.rules() } else { 0 };
                for (number, (span, value)) in spans.iter().zip(values).enumerate() {
                    path.push((before + number).to_string());
                    self.put_value(source, path, (span.span().start, span), value);
                    path.pop();
                }
            }
            (Entry::Table, ..) => self.wrong.push(ConfigError::Value {
                origin,
                key: shown_path(path),
                found: Kind::shown_for_table(value),
                expected: if is_list(path) {
                    format!("tables, each as [[{}]]", shown_path(path))
                } else {
                    "a table".to_owned()
                },
            }),
        }
    }

    /// Adds the values of `LIMULUS_…` variables.
    fn put_variables(&mut self, environment: &Environment) {
        for (name, text) in environment.variables() {
            let Some(rest) = name.strip_prefix(PREFIX).filter(|_| !RESERVED.contains(&name)) else { continue };
            let path: Vec<String> = rest.split("__").map(str::to_lowercase).collect();
            match settings::at(&renamed(&path).0) {
                Entry::Key(kind) if !is_of_rule(&path) => {
                    let origin = ValueOrigin::Variable { name: name.to_owned() };
                    self.put(&path, kind, kind.parse(text), origin);
                }
                Entry::Key(_) | Entry::Table | Entry::Unknown => {
                    let nearest = nearest(&path, Among::Keys).map(|nearest| variable(&nearest));
                    self.wrong.push(ConfigError::UnknownVariable { name: name.to_owned(), nearest });
                }
            }
        }
    }

    fn put(&mut self, path: &[String], kind: Kind, value: Value, origin: ValueOrigin) {
        let (path, old_name) = renamed(path);
        let (value, old_value) = revalued(&path, value);
        self.deprecated.extend(old_name.into_iter().chain(old_value).map(|row| warning(&origin, row)));
        // If a layer has both the old and the new name, the new one wins.
        let is_same_layer = |(_, known): &(Value, ValueOrigin)| known.is_same_layer(&origin);
        if old_name.is_some() && self.values.get(&path).is_some_and(is_same_layer) {
            return;
        }
        if path.iter().any(|part| concealed::has_key(part)) {
            self.wrong.push(ConfigError::KeyAsName { origin, key: shown_path(&path) });
        } else if kind.fits(&value) {
            self.values.insert(path, (value, origin));
        } else {
            let (key, found, expected) = (shown_path(&path), kind.shown(&value), kind.expected());
            self.wrong.push(ConfigError::Value { origin, key, found, expected });
        }
    }

    /// The number after those of the rules so far.
    pub(super) fn rules(&self) -> usize {
        let numbers = self.values.keys().filter(|path| is_of_rule(path)).filter_map(|path| path.get(1)?.parse().ok());
        numbers.max().map_or(0, |last: usize| last + 1)
    }

    /// The values in force, as one table.
    pub(super) fn table(&self) -> Table {
        let mut whole = Table::new();
        for (path, (value, _)) in &self.values {
            let (key, tables) = path.split_last().expect("every key of the table has a name");
            let table = tables.iter().fold(&mut whole, |table, name| {
                let inner = table.entry(name.clone()).or_insert_with(|| Value::Table(Table::new()));
                inner.as_table_mut().expect("no key of the table is a prefix of another")
            });
            table.insert(key.clone(), value.clone());
        }
        whole
    }
}

/// Whether the table at this path may also be a list of tables. Only `policy` and `providers.NAME.profiles` may.
pub(super) fn is_list<T: AsRef<str>>(path: &[T]) -> bool {
    match path {
        [policy] => policy.as_ref() == POLICY,
        [first, _, last] => first.as_ref() == "providers" && last.as_ref() == "profiles",
        _ => false,
    }
}

/// Whether a key is one of a rule.
pub(super) fn is_of_rule(path: &[String]) -> bool {
    path.first().is_some_and(|first| first == POLICY)
}

fn variable(path: &[String]) -> String {
    format!("{PREFIX}{}", path.join("__").to_uppercase())
}

/// The path as written in a file.
pub(super) fn dotted(path: &[String]) -> String {
    let bare = |part: &str| part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let part = |part: &String| if bare(part) { part.clone() } else { format!("{part:?}") };
    path.iter().map(part).collect::<Vec<_>>().join(".")
}

/// What the parser says, and the name of a key that is there twice.
fn detail(error: &toml::de::Error, text: &str) -> String {
    let message = error.message();
    let name = error.span().filter(|_| message == DUPLICATE).and_then(|span| text.get(span));
    name.map_or_else(|| message.to_owned(), |name| format!("{message} `{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_passes_the_checks_of_a_value_that_a_user_sets() {
        let mut layers = Layers::default();
        for (path, (value, _)) in DEFAULTS.iter() {
            let Entry::Key(kind) = settings::at(path) else { panic!("{path:?} is no setting") };
            layers.put(path, kind, value.clone(), ValueOrigin::Defaults);
        }
        assert!(layers.wrong.is_empty() && layers.deprecated.is_empty(), "{:?} {:?}", layers.wrong, layers.deprecated);
        assert_eq!(layers.values, *DEFAULTS);
    }

    #[test]
    fn every_declared_value_is_what_the_parser_for_files_reads() {
        for setting in settings::all() {
            let read: Table = toml::from_str(&format!("value = {}", setting.value.text())).unwrap();
            assert_eq!(read["value"], setting.value.value(), "{:?}", setting.path);
        }
    }
}
