//! What every key is for: read from the comments of `defaults.toml`, which is where it is said. From it come the file that
//! `config init` writes, the descriptions of the schema and the table in docs/configuration.md. What may not live here:
//! what a key may hold (`keys`).

use toml::{Table, Value};

use super::keys::{self, KeyPath};
use super::layers::DEFAULTS;

/// A key as it stands in `defaults.toml`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    /// Its path, with the names of the example.
    pub(super) path: Vec<String>,
    /// The default, or where there is none an example.
    pub(super) value: Value,
    /// Whether the value is the default.
    pub(super) is_default: bool,
    /// What it is for.
    pub(super) comment: String,
}

impl Entry {
    /// Whether it stands for the key of this pattern.
    pub(super) fn is_of(&self, pattern: &[&str]) -> bool {
        let fits = |(known, part): (&&str, &String)| *known == "*" || known == part;
        pattern.len() == self.path.len() && pattern.iter().zip(&self.path).all(fits)
    }
}

/// Every key in the order of the file.
pub(super) fn entries() -> Vec<Entry> {
    let mut entries: Vec<Entry> = vec![];
    let mut heading = String::new();
    for line in body().lines() {
        let (is_default, text) = match line.strip_prefix("# ") {
            Some(text) => (false, text),
            None => (true, line),
        };
        let (code, comment) = split_comment(text);
        if code.starts_with('[') {
            code.clone_into(&mut heading);
        } else if code.contains(" = ") {
            let (path, value) = only_key(&format!("{heading}\n{code}"));
            entries.push(Entry { path, value, is_default, comment: comment.to_owned() });
        } else if let Some(entry) = entries.last_mut().filter(|_| line.starts_with("   ")) {
            entry.comment = format!("{} {comment}", entry.comment);
        }
    }
    entries
}

/// The file that a user begins with: every key commented out, so that nothing is set and everything can be.
pub(crate) fn template() -> String {
    let mut text = String::from(HEAD);
    for line in body().lines() {
        let is_key = line.starts_with(|c: char| c.is_ascii_alphabetic());
        // The comments stay below one another.
        let line = if is_key { format!("# {}", line.replacen("   # ", " # ", 1)) } else { line.to_owned() };
        text.push_str(&line);
        text.push('\n');
    }
    text
}

const HEAD: &str = "\
# The configuration of limulus. Every key is here with its default, commented out: take the # away and change it.
# `limulus config check` says what is wrong, `limulus config show --origin` what is in force and why.

";

/// The defaults without what is said of the file itself.
fn body() -> &'static str {
    DEFAULTS.split_once("\n\n").map_or(DEFAULTS, |(_, body)| body)
}

/// The line before its comment, and the comment without its mark.
fn split_comment(line: &str) -> (&str, &str) {
    let mut is_quoted = false;
    let mark = line.char_indices().find(|(_, c)| {
        is_quoted ^= *c == '"';
        *c == '#' && !is_quoted
    });
    mark.map_or((line.trim_end(), ""), |(at, _)| (line[..at].trim_end(), line[at + 1..].trim()))
}

/// The path and the value of the one key in this text.
fn only_key(text: &str) -> (Vec<String>, Value) {
    let table: Table = toml::from_str(text).expect("the defaults and their examples are TOML, and a test reads them");
    let (mut path, mut value) = (vec![], Value::Table(table));
    while !matches!(keys::place(&path), KeyPath::Key(_)) {
        let (part, inner) = match value {
            Value::Table(table) => table.into_iter().next().expect("a heading is followed by a key"),
            Value::Array(values) => ("0".to_owned(), values.into_iter().next().expect("[[…]] makes one entry")),
            other => unreachable!("{other} stands at no key"),
        };
        path.push(part);
        value = inner;
    }
    (path, value)
}

/// The keys as the rows of a table in Markdown, for docs/configuration.md.
#[cfg(test)]
pub(super) fn table() -> String {
    let mut text = String::from("| key | default | takes | what it is for |\n|---|---|---|---|\n");
    let entries = entries();
    for (pattern, kind) in keys::KEYS {
        let entry = entries.iter().find(|entry| entry.is_of(pattern)).expect("the defaults name every key");
        let name = pattern.join(".").replace('*', "NAME").replace("profiles.NAME", "profiles.N");
        let default = if entry.is_default { format!("`{}`", entry.value) } else { String::new() };
        let cells = [format!("`{name}`"), default, kind.expected(), entry.comment.clone()];
        text += &["| ", &cells.map(|cell| cell.replace('|', "\\|")).join(" | "), " |\n"].concat();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::{env, fs};

    use super::*;

    #[test]
    fn a_comment_is_read_with_its_second_line_and_a_default_is_told_from_an_example() {
        let entry = |key: &str| entries().into_iter().find(|entry| entry.path.join(".") == key).unwrap();
        let workspace = entry("agents.main.workspace");
        assert_eq!((workspace.value, workspace.is_default), (Value::from("."), true));
        assert!(
            workspace.comment.ends_with("~ is yours; `--workspace DIR` is for one command"),
            "{}",
            workspace.comment
        );
        let window = entry("models.acme/some-model.context_window");
        assert_eq!((window.value, window.is_default), (Value::from(200_000), false));
        assert_eq!(entry("providers.acme.headers.x-team").value, Value::from("env:ACME_TEAM"));
        assert_eq!(entry("providers.acme.profiles.0.key").value, Value::from("env:ACME_KEY"));
        assert_eq!(entries().len(), keys::KEYS.len(), "each key has one line");
        let silent: Vec<_> = entries().into_iter().filter(|entry| entry.comment.is_empty()).collect();
        assert_eq!(silent, [], "each is explained");
    }

    #[test]
    fn the_file_to_begin_with_sets_nothing_and_every_line_of_it_can_be_taken() {
        let template = template();
        let is_empty = |value: &Value| value.as_table().is_some_and(Table::is_empty);
        let mut tables: Vec<Value> = toml::from_str::<Table>(&template).unwrap().into_iter().map(|(_, v)| v).collect();
        while let Some(value) = tables.pop() {
            let Value::Table(inner) = value else { panic!("{value} is set") };
            tables.extend(inner.into_iter().map(|(_, value)| value).filter(|value| !is_empty(value)));
        }
        let taken: Vec<&str> = template.lines().skip(3).map(|line| line.strip_prefix("# ").unwrap_or(line)).collect();
        let defaults: Vec<&str> = body().lines().map(|line| line.strip_prefix("# ").unwrap_or(line)).collect();
        let code = |lines: &[&str]| lines.iter().map(|line| split_comment(line).0.to_owned()).collect::<Vec<_>>();
        assert_eq!(code(&taken), code(&defaults));
    }

    /// `UPDATE=1` writes it.
    #[test]
    fn the_page_has_a_row_for_every_key() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
        let text = fs::read_to_string(&page).unwrap();
        let (mark, end) = ("<!-- keys: made from defaults.toml -->\n", "<!-- end -->");
        let (before, rest) = text.split_once(mark).unwrap();
        let (rows, after) = rest.split_once(end).unwrap();
        if env::var_os("UPDATE").is_some() {
            fs::write(&page, [before, mark, &table(), end, after].concat()).unwrap();
        } else {
            assert_eq!(rows, table(), "UPDATE=1 makes it anew");
        }
    }
}
