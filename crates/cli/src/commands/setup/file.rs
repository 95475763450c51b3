//! Changes config.toml: adds the model, and the address or key reference of its provider if that is missing. Every
//! other byte of the file stays as it was.

use std::io;
use std::path::{Path, PathBuf};

use config::{Config, is_address, read_config, shown_address, shown_key};
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, TableLike, Value};

use super::choice::Choice;
use crate::commands::config::file::change;
pub(super) use crate::commands::config::file::failed;
use crate::error::{CliError, Exit};

/// The first line of a new file.
const HEAD: &str = "# The configuration of limulus; `limulus config init --print` shows every key that there is.\n";

/// Keys whose values are names.
const PLAIN: [&str; 4] = ["api", "kind", "model", "name"];
/// What stands for a line that cannot be read alone.
const HIDDEN: &str = "…";

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
    pub(super) fn plan(file: &Path, choice: &Choice, config: &Config) -> Result<Self, CliError> {
        let before = match read_config(file) {
            Ok(text) => Some(text),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => None,
            Err(error) => return Err(failed(file, &error)),
        };
        let text = before.clone().unwrap_or_else(|| HEAD.to_owned());
        let model = choice.name();
        let wanted = Wanted {
            model: &model,
            provider: &choice.provider,
            base_url: choice.base_url.as_deref(),
            key: choice.reference(config.home()),
        };
        let (after, replaces_a_model) = edit(&text, &wanted).ok_or_else(|| by_hand(file, &model))?;
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
        let shown = |lines: Vec<String>| lines.into_iter().map(|line| without_secrets(&line)).collect();
        (shown(lines_beyond(&after, &before)), shown(lines_beyond(&before, &after)))
    }

    /// Writes the file, if nobody has changed it meanwhile.
    pub(super) fn write(&self) -> Result<(), CliError> {
        change(&self.file, |now| {
            if now == self.before.as_deref() { Ok((Some(self.after.clone()), ())) } else { Err(changed(&self.file)) }
        })
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

fn changed(file: &Path) -> CliError {
    let what = format!("{} was changed meanwhile; nothing was written", file.display());
    CliError::Refused { exit: Exit::Refused, what, hint: "run it again".to_owned() }
}

/// A line of the file without the secrets in it: a key, the password of an address, a header.
fn without_secrets(line: &str) -> String {
    let Ok(mut parsed) = line.parse::<DocumentMut>() else { return HIDDEN.to_owned() };
    hide_in(parsed.as_table_mut());
    parsed.to_string().trim_end_matches('\n').to_owned()
}

fn hide_in(table: &mut dyn TableLike) {
    for (name, item) in table.iter_mut() {
        let is_plain = PLAIN.contains(&name.get());
        match item {
            Item::Value(value) => hide(value, is_plain),
            Item::Table(table) => hide_in(table),
            _ => {}
        }
    }
}

fn hide(value: &mut Value, is_plain: bool) {
    match value {
        Value::String(text) if !is_plain => {
            let is_address = is_address(text.value());
            let shown = if is_address { shown_address(text.value()) } else { shown_key(text.value()) };
            if !is_address || shown != *text.value() {
                // Without the comment behind it, which may hold a secret too.
                *value = Value::from(shown);
            }
        }
        Value::InlineTable(table) => hide_in(table),
        Value::Array(values) => values.iter_mut().for_each(|value| hide(value, is_plain)),
        _ => {}
    }
}

/// What the file is to say.
struct Wanted<'a> {
    /// `PROVIDER/MODEL`.
    model: &'a str,
    provider: &'a str,
    /// The address of the provider; none = as it is.
    base_url: Option<&'a str>,
    /// The reference to its key; none = as it is.
    key: Option<String>,
}

/// The text with the model in it, and whether it replaced another one. None if the file has a form that cannot be added
/// to.
fn edit(text: &str, wanted: &Wanted<'_>) -> Option<(String, bool)> {
    let mut document: DocumentMut = text.parse().ok()?;
    let mut replaces = false;
    match table(document.as_table_mut(), "agents").and_then(|agents| table(agents, "main")) {
        Some(agent) => replaces = set_value(agent, "model", wanted.model)?,
        None => append(&mut document, ["agents", "main"], LAST - 1, |agent| {
            agent.insert("model", wanted.model.into());
        })?,
    }
    let (mut base_url, mut key) = (wanted.base_url, wanted.key.as_deref());
    if let Some(provider) =
        table(document.as_table_mut(), "providers").and_then(|table_of| table(table_of, wanted.provider))
    {
        if let Some(base_url) = base_url.take_if(|_| provider.contains_key("base_url")) {
            set_value(provider, "base_url", base_url)?;
        }
        if let Some(profiles) = provider.get_mut("profiles") {
            // The first profile is used first.
            let first = profiles.as_array_of_tables_mut()?.iter_mut().next();
            if let (Some(first), Some(key)) = (first, key.take()) {
                set_value(first, "key", key)?;
            }
        }
    }
    if base_url.is_some() || key.is_some() {
        append(&mut document, ["providers", wanted.provider], LAST, |provider| {
            if let Some(base_url) = base_url {
                provider.insert("base_url", base_url.into());
            }
            if let Some(key) = key {
                let mut profile = Table::new();
                profile.insert("name", "default".into());
                profile.insert("key", key.into());
                let mut profiles = ArrayOfTables::new();
                profiles.push(profile);
                provider.insert("profiles", Item::ArrayOfTables(profiles));
            }
        })?;
    }
    Some((document.to_string(), replaces))
}

fn table<'a>(parent: &'a mut dyn TableLike, name: &str) -> Option<&'a mut dyn TableLike> {
    parent.get_mut(name)?.as_table_like_mut()
}

/// Sets the value of a key. Returns whether it replaced another one.
fn set_value(table: &mut dyn TableLike, key: &str, text: &str) -> Option<bool> {
    match table.get_mut(key) {
        None => {
            table.insert(key, text.into());
            Some(false)
        }
        Some(item) => {
            let value = item.as_value_mut()?;
            if value.as_str() == Some(text) {
                return Some(false);
            }
            let decor = value.decor().clone();
            *value = Value::from(text);
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

fn by_hand(file: &Path, model: &str) -> CliError {
    CliError::Refused {
        exit: Exit::Refused,
        what: format!("{} is written in a way that cannot be added to; nothing was changed", file.display()),
        hint: format!(
            "write `model = \"{model}\"` under [agents.main] yourself, and the provider (docs/configuration.md)"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::template;

    const MODEL: &str = "openai/gpt-x";

    /// What is wanted of OpenAI: its model, and its key unless it is known.
    fn openai(is_known: bool) -> Wanted<'static> {
        let key = (!is_known).then(|| "env:OPENAI_API_KEY".to_owned());
        Wanted { model: MODEL, provider: "openai", base_url: None, key }
    }

    fn edited(text: &str, wanted: &Wanted<'_>) -> String {
        edit(text, wanted).expect("it can be added to").0
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
        assert_eq!(edited(HEAD, &openai(false)), expected);
        let local = |base_url| Wanted { model: "ollama/q:8b", provider: "ollama", base_url, key: None };
        assert!(!edited(HEAD, &local(None)).contains("providers"));
        let elsewhere = edited(HEAD, &local(Some("http://box:11434")));
        assert!(elsewhere.ends_with("\n[providers.ollama]\nbase_url = \"http://box:11434\"\n"), "{elsewhere}");
    }

    #[test]
    fn comments_stay_where_they_are() {
        let after = edited(&template(), &openai(false));
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
        assert_eq!(edited(text, &openai(false)), expected);
    }

    #[test]
    fn a_model_is_replaced_in_its_place_and_that_is_reported() {
        let check = |text: &str, expected: &str, replaces: bool| {
            assert_eq!(edit(text, &openai(true)), Some((expected.to_owned(), replaces)), "{text}");
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
        assert_eq!(edit("agents = { helper = { } }\n", &openai(true)), None, "the form is reported, not guessed");
    }

    #[test]
    fn r50_a_key_and_an_address_are_replaced_in_their_place_and_an_old_key_is_not_shown() {
        let text = "[agents.main]\nmodel = \"openai/gpt-x\"\n[providers.openai]\nbase_url = \"http://a/v1\" # mine\n\
                    [[providers.openai.profiles]]\nname = \"work\"\nkey = \"sk-old\" # old\n\
                    [[providers.openai.profiles]]\nname = \"home\"\nkey = \"env:HOME_KEY\"\n";
        let wanted =
            Wanted { base_url: Some("http://b/v1"), key: Some("file:/h/keys/openai".to_owned()), ..openai(true) };
        let expected = text.replace("http://a/v1", "http://b/v1").replace("sk-old", "file:/h/keys/openai");
        let after = edited(text, &wanted);
        assert_eq!(after, expected);
        let change = Change { file: "f".into(), before: Some(text.to_owned()), after, replaces_a_model: false };
        let (added, removed) = change.lines();
        assert_eq!(added, ["base_url = \"http://b/v1\" # mine", "key = \"file:/h/keys/openai\""]);
        assert_eq!(removed, ["base_url = \"http://a/v1\" # mine", "key = \"…\""]);
    }

    #[test]
    fn r61_a_provider_with_an_address_gets_both_and_keeps_what_it_has() {
        let wanted = Wanted {
            model: "custom/m",
            provider: "custom",
            base_url: Some("http://a/v1"),
            key: Some("cmd:pass show a".to_owned()),
        };
        let expected = "\
[agents.main]
model = \"custom/m\"

[providers.custom]
base_url = \"http://a/v1\"

[[providers.custom.profiles]]
name = \"default\"
key = \"cmd:pass show a\"
";
        assert_eq!(edited("", &wanted).trim_start(), expected);
        let kept = edited("[providers.custom]\nheaders.x-team = \"env:TEAM\"\n", &wanted);
        for line in ["headers.x-team = \"env:TEAM\"", "base_url = \"http://a/v1\"", "key = \"cmd:pass show a\""] {
            assert!(kept.lines().any(|kept| kept == line), "{kept}");
        }
    }
}
