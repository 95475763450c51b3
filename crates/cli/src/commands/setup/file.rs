//! Changes config.toml: adds the model, and the address or key reference of its provider if that is missing. Every
//! other byte of the file stays as it was.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use config::{Config, make_private, read_config};
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, TableLike, Value};

use super::found::{By, Found};
use crate::error::{CliError, Exit};

/// The first line of a new file.
const HEAD: &str = "# The configuration of limulus; `limulus config init --print` shows every key that there is.\n";

/// A file before and after the change.
#[derive(Debug)]
pub(super) struct Change {
    file: PathBuf,
    before: Option<String>,
    after: String,
    replaces_a_model: bool,
}

impl Change {
    /// The change after which the agent `main` uses this model.
    pub(super) fn plan(file: &Path, found: &Found, config: &Config) -> Result<Self, CliError> {
        let before = match read_config(file) {
            Ok(text) => Some(text),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => None,
            Err(error) => return Err(failed(file, &error)),
        };
        let text = before.clone().unwrap_or_else(|| HEAD.to_owned());
        let is_known = match found.by {
            By::Variable(_) => config.has_profiles(found.provider()),
            By::Address(_) => config.is_configured(found.provider()),
        };
        let edited = edit(&text, found, is_known);
        let (after, replaces_a_model) = edited.ok_or_else(|| by_hand(file, found))?;
        Ok(Self { file: file.to_owned(), before, after, replaces_a_model })
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    pub(super) fn is_needed(&self) -> bool {
        self.before.as_deref() != Some(&self.after)
    }

    pub(super) fn is_new_file(&self) -> bool {
        self.before.is_none()
    }

    /// Whether it replaces another model.
    pub(super) fn replaces_a_model(&self) -> bool {
        self.replaces_a_model
    }

    /// The added and the removed lines.
    pub(super) fn lines(&self) -> (Vec<String>, Vec<String>) {
        let before: Vec<&str> = self.before.iter().flat_map(|text| text.lines()).collect();
        let after: Vec<&str> = self.after.lines().collect();
        (lines_beyond(&after, &before), lines_beyond(&before, &after))
    }

    /// Writes the file whole or not at all.
    pub(super) fn write(&self) -> Result<(), CliError> {
        self.replace().map_err(|error| failed(&self.file, &error))
    }

    fn replace(&self) -> io::Result<()> {
        // A link stays a link: its target is written.
        let target = fs::canonicalize(&self.file).unwrap_or_else(|_| self.file.clone());
        let folder = target.parent().expect("a file has a folder");
        make_private(folder)?;
        let mut written = tempfile::NamedTempFile::new_in(folder)?;
        written.write_all(self.after.as_bytes())?;
        if let Ok(meta) = fs::metadata(&target) {
            written.as_file().set_permissions(meta.permissions())?;
        }
        written.persist(&target).map(|_| ()).map_err(|error| error.error)
    }
}

/// The lines of one text that the other lacks in this order.
fn lines_beyond(text: &[&str], other: &[&str]) -> Vec<String> {
    let mut at = 0;
    let mut beyond = vec![];
    for line in text {
        match other[at..].iter().position(|known| known == line) {
            Some(found) => at += found + 1,
            None if line.trim().is_empty() => {}
            None => beyond.push((*line).to_owned()),
        }
    }
    beyond
}

/// The text with the model in it, and whether it replaced another one. None if the file has a form that cannot be added
/// to.
fn edit(text: &str, found: &Found, is_known: bool) -> Option<(String, bool)> {
    let mut document: DocumentMut = text.parse().ok()?;
    let mut replaces = false;
    match table(document.as_table_mut(), "agents").and_then(|agents| table(agents, "main")) {
        Some(agent) => replaces = set_model(agent, &found.model)?,
        None => append(&mut document, ["agents", "main"], LAST - 1, |agent| {
            agent.insert("model", found.model.as_str().into());
        })?,
    }
    match &found.by {
        _ if is_known => {}
        By::Variable(variable) => append(&mut document, ["providers", found.provider()], LAST, |provider| {
            let mut profile = Table::new();
            profile.insert("name", "default".into());
            profile.insert("key", format!("env:{variable}").into());
            let mut profiles = ArrayOfTables::new();
            profiles.push(profile);
            provider.insert("profiles", Item::ArrayOfTables(profiles));
        })?,
        By::Address(address) if *address != DEFAULT_OLLAMA => {
            append(&mut document, ["providers", found.provider()], LAST, |provider| {
                provider.insert("base_url", address.as_str().into());
            })?;
        }
        By::Address(_) => {}
    }
    Some((document.to_string(), replaces))
}

/// The default address of an Ollama, which needs no line.
const DEFAULT_OLLAMA: &str = "http://127.0.0.1:11434";

fn table<'a>(parent: &'a mut dyn TableLike, name: &str) -> Option<&'a mut dyn TableLike> {
    parent.get_mut(name)?.as_table_like_mut()
}

/// Sets the model. Returns whether it replaced another one.
fn set_model(agent: &mut dyn TableLike, model: &str) -> Option<bool> {
    match agent.get_mut("model") {
        None => {
            agent.insert("model", model.into());
            Some(false)
        }
        Some(item) => {
            let value = item.as_value_mut()?;
            if value.as_str() == Some(model) {
                return Some(false);
            }
            let decor = value.decor().clone();
            *value = Value::from(model);
            *value.decor_mut() = decor;
            Some(true)
        }
    }
}

/// Fills the table of this name: the existing one, else a new one at the end of the file, after its last comments.
fn append(
    document: &mut DocumentMut,
    [parent, name]: [&str; 2],
    position: isize,
    fill: impl FnOnce(&mut Table),
) -> Option<()> {
    let before = match document.trailing().as_str() {
        Some(trailing) if !trailing.trim().is_empty() => format!("{}\n\n", trailing.trim_end()),
        _ => "\n".to_owned(),
    };
    document.set_trailing("");
    let root = document.as_table_mut();
    let parent = root.entry(parent).or_insert_with(implicit).as_table_mut()?;
    let is_new = !parent.contains_key(name);
    let table = parent.entry(name).or_insert_with(implicit).as_table_mut()?;
    fill(table);
    place_last(table, is_new, position, &before);
    Some(())
}

fn implicit() -> Item {
    let mut table = Table::new();
    table.set_implicit(true);
    Item::Table(table)
}

/// Moves new headings after all others, with the comments before them.
fn place_last(table: &mut Table, is_new: bool, position: isize, before: &str) {
    let mut has_lists = false;
    for (_, item) in table.iter_mut() {
        for inner in item.as_array_of_tables_mut().into_iter().flat_map(ArrayOfTables::iter_mut) {
            has_lists = true;
            inner.set_position(Some(position));
            inner.decor_mut().set_prefix(before);
        }
    }
    if is_new && !has_lists {
        table.set_implicit(false);
        table.set_position(Some(position));
        table.decor_mut().set_prefix(before);
    }
}

/// A position after every parsed table.
const LAST: isize = isize::MAX;

fn by_hand(file: &Path, found: &Found) -> CliError {
    CliError::Refused {
        exit: Exit::Refused,
        what: format!("{} is written in a way that cannot be added to; nothing was changed", file.display()),
        hint: format!("write `model = \"{}\"` under [agents.main] yourself", found.model),
    }
}

fn failed(file: &Path, error: &io::Error) -> CliError {
    CliError::Failed {
        exit: Exit::Store,
        what: format!("{} cannot be changed ({error})", file.display()),
        hint: "make it and its folder writable, or set LIMULUS_HOME to another folder".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::template;

    fn openai() -> Found {
        Found { model: "openai/gpt-x".to_owned(), by: By::Variable("OPENAI_API_KEY") }
    }

    fn edited(text: &str, found: &Found, is_known: bool) -> String {
        edit(text, found, is_known).expect("it can be added to").0
    }

    #[test]
    fn a_new_file_names_the_variable_of_the_key() {
        let expected = "\
# The configuration of limulus; `limulus config init --print` shows every key that there is.

[agents.main]
model = \"openai/gpt-x\"

[[providers.openai.profiles]]
name = \"default\"
key = \"env:OPENAI_API_KEY\"
";
        assert_eq!(edited(HEAD, &openai(), false), expected);
        let local = |address: &str| Found { model: "ollama/q:8b".to_owned(), by: By::Address(address.to_owned()) };
        assert!(!edited(HEAD, &local(DEFAULT_OLLAMA), false).contains("providers"));
        let elsewhere = edited(HEAD, &local("http://box:11434"), false);
        assert!(elsewhere.ends_with("\n[providers.ollama]\nbase_url = \"http://box:11434\"\n"), "{elsewhere}");
    }

    #[test]
    fn comments_stay_where_they_are() {
        let after = edited(&template(), &openai(), false);
        let (added, removed): (Vec<_>, Vec<_>) = {
            let (before, after) = (template(), after.clone());
            let (before, after): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
            (lines_beyond(&after, &before), lines_beyond(&before, &after))
        };
        assert_eq!(removed, [""; 0]);
        let profile = ["[[providers.openai.profiles]]", "name = \"default\"", "key = \"env:OPENAI_API_KEY\""];
        assert_eq!(added, [&["model = \"openai/gpt-x\""][..], &profile].concat());
        let heading = after.lines().position(|line| line.starts_with("[agents.main]")).unwrap();
        assert_eq!(after.lines().nth(heading + 1), Some("model = \"openai/gpt-x\""));
        assert!(after.ends_with("key = \"env:OPENAI_API_KEY\"\n"), "behind every comment: {after}");
    }

    #[test]
    fn comments_at_the_end_stay_with_their_heading() {
        let text = "[providers.openai]\nbase_url = \"http://x\" # here\n[offline]\n# pace_ms = 0\n";
        let expected = "\
[providers.openai]
base_url = \"http://x\" # here
[offline]
# pace_ms = 0

[agents.main]
model = \"openai/gpt-x\"

[[providers.openai.profiles]]
name = \"default\"
key = \"env:OPENAI_API_KEY\"
";
        assert_eq!(edited(text, &openai(), false), expected);
    }

    #[test]
    fn a_model_is_replaced_in_its_place_and_that_is_reported() {
        let check = |text: &str, expected: &str, replaces: bool| {
            assert_eq!(edit(text, &openai(), true), Some((expected.to_owned(), replaces)), "{text}");
        };
        check(
            "[agents.main]\nmodel = \"a/b\" # mine\nworkspace = \"x\"\n",
            "[agents.main]\nmodel = \"openai/gpt-x\" # mine\nworkspace = \"x\"\n",
            true,
        );
        check("agents.main.model = \"openai/gpt-x\"\n", "agents.main.model = \"openai/gpt-x\"\n", false);
        check("agents = { main = { } }\n", "agents = { main = { model = \"openai/gpt-x\"  } }\n", false);
        check(
            "[agents.helper]\n# one\n[runs]\ndeadline_s = 5\n# two\n",
            "[agents.helper]\n# one\n[runs]\ndeadline_s = 5\n# two\n\n[agents.main]\nmodel = \"openai/gpt-x\"\n",
            false,
        );
        assert_eq!(edit("agents = { helper = { } }\n", &openai(), true), None, "the form is reported, not guessed");
    }
}
