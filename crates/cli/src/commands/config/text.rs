//! Changes single keys in the text of a configuration. Every other byte stays as it was: each way to make a change is tried, and
//! taken only if all other values of the text stay the same.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::{DeTable, DeValue};
use toml::{Table, Value};
use toml_edit::{DocumentMut, InlineTable, Item, TableLike};

/// The values of a text by their path.
type Leaves = BTreeMap<Vec<String>, Value>;

/// The text in which this key has this value. None if the text has a form that cannot be changed so.
pub(super) fn set(text: &str, path: &[String], value: &Value) -> Option<String> {
    let mut expected = leaves(text)?;
    if expected.insert(path.to_vec(), value.clone()).as_ref() == Some(value) {
        return Some(text.to_owned());
    }
    let is_right = |text: &String| leaves(text).as_ref() == Some(&expected);
    let ways = [replaced, inserted, appended, inserted_inline];
    ways.into_iter().find_map(|way| way(text, path, value).filter(is_right))
}

/// The text without this key, or without this table. None if the text has a form that cannot be changed so.
pub(super) fn unset(text: &str, path: &[String]) -> Option<String> {
    let mut rest = text.to_owned();
    // From the last one, so that the entries of a list keep their numbers.
    for leaf in leaves(text)?.into_keys().rev().filter(|leaf| leaf.starts_with(path)) {
        let mut expected = leaves(&rest)?;
        expected.remove(&leaf);
        let is_right = |text: &String| leaves(text).as_ref() == Some(&expected);
        let removed = without_line(&rest, &leaf).filter(is_right);
        rest = removed.or_else(|| without_value(&rest, &leaf).filter(is_right))?;
    }
    Some(without_headings(rest, path))
}

/// The value of this key in the text.
pub(super) fn value(text: &str, path: &[String]) -> Option<Value> {
    leaves(text)?.remove(path)
}

/// Whether the text sets this key, or a key in this table.
pub(super) fn has(text: &str, path: &[String]) -> bool {
    leaves(text).is_some_and(|leaves| leaves.keys().any(|leaf| leaf.starts_with(path)))
}

/// Another value in the place of that which stands there.
fn replaced(text: &str, path: &[String], value: &Value) -> Option<String> {
    let place = place(text, path)?;
    Some(format!("{}{value}{}", &text[..place.value.start], &text[place.value.end..]))
}

/// A further key under a heading that stands there.
fn inserted(text: &str, path: &[String], value: &Value) -> Option<String> {
    let mut document: DocumentMut = text.parse().ok()?;
    let (name, tables) = path.split_last()?;
    table(document.as_item_mut(), tables)?.insert(name, Item::Value(edit_value(value)?));
    Some(document.to_string())
}

/// A further heading, behind everything that stands there.
fn appended(text: &str, path: &[String], value: &Value) -> Option<String> {
    let (name, tables) = path.split_last()?;
    let heading = match tables.split_last() {
        Some((number, list))
            if list.last().is_some_and(|name| name == "profiles") && number.parse::<usize>().is_ok() =>
        {
            format!("[[{}]]", dotted(list))
        }
        _ => format!("[{}]", dotted(tables)),
    };
    let before = if text.trim().is_empty() { String::new() } else { format!("{}\n\n", text.trim_end()) };
    Some(format!("{before}{heading}\n{} = {value}\n", dotted(std::slice::from_ref(name))))
}

/// A further table in a table of one line.
fn inserted_inline(text: &str, path: &[String], value: &Value) -> Option<String> {
    let mut document: DocumentMut = text.parse().ok()?;
    let (name, tables) = path.split_last()?;
    let mut item = document.as_item_mut();
    for part in tables {
        let table = item.as_table_like_mut()?;
        item = table.entry(part).or_insert_with(|| Item::Value(InlineTable::new().into()));
    }
    item.as_table_like_mut()?.insert(name, Item::Value(edit_value(value)?));
    Some(document.to_string())
}

/// Without the line of the key.
fn without_line(text: &str, path: &[String]) -> Option<String> {
    let place = place(text, path)?;
    let start = text[..place.key.start].rfind('\n').map_or(0, |at| at + 1);
    let end = text[place.value.end..].find('\n').map_or(text.len(), |at| place.value.end + at + 1);
    Some(format!("{}{}", &text[..start], &text[end..]))
}

/// Without the key, in a table of one line.
fn without_value(text: &str, path: &[String]) -> Option<String> {
    let mut document: DocumentMut = text.parse().ok()?;
    let (name, tables) = path.split_last()?;
    table(document.as_item_mut(), tables)?.remove(name)?;
    Some(document.to_string())
}

/// Without the headings of this table, if nothing but comments stands under them; these stay.
fn without_headings(text: String, path: &[String]) -> String {
    let is_heading =
        |line: &str| line.trim_start().starts_with('[') && heading(line).is_some_and(|of| of.starts_with(path));
    let kept: String = text.split_inclusive('\n').filter(|line| !is_heading(line)).collect();
    // A text of several lines may have one that looks like a heading.
    if leaves(&kept).is_some() && leaves(&kept) == leaves(&text) { kept } else { text }
}

/// The path that a heading names, without numbers of entries.
fn heading(line: &str) -> Option<Vec<String>> {
    let mut value = Value::Table(toml::from_str(line).ok()?);
    let mut path = vec![];
    loop {
        value = match value {
            Value::Table(table) => match table.into_iter().next() {
                Some((name, inner)) => {
                    path.push(name);
                    inner
                }
                None => return Some(path),
            },
            Value::Array(values) => values.into_iter().next()?,
            _ => return None,
        }
    }
}

/// Every value of a text that is no table, by its path; an entry of a list of tables has its number in it.
fn leaves(text: &str) -> Option<Leaves> {
    let mut all = Leaves::new();
    gather(&mut vec![], Value::Table(toml::from_str::<Table>(text).ok()?), &mut all);
    Some(all)
}

fn gather(path: &mut Vec<String>, value: Value, into: &mut Leaves) {
    let inner: Vec<(String, Value)> = match value {
        Value::Table(table) => table.into_iter().collect(),
        Value::Array(values) if values.first().is_some_and(Value::is_table) => {
            (0..).zip(values).map(|(number, value): (usize, _)| (number.to_string(), value)).collect()
        }
        value => {
            into.insert(path.clone(), value);
            return;
        }
    };
    for (name, value) in inner {
        path.push(name);
        gather(path, value, into);
        path.pop();
    }
}

/// Where a key and its value stand, in bytes.
struct Place {
    key: Range<usize>,
    value: Range<usize>,
}

fn place(text: &str, path: &[String]) -> Option<Place> {
    let root = DeTable::parse(text).ok()?;
    let mut table = root.get_ref();
    let mut parts = path.iter();
    loop {
        let (key, value) = table.get_key_value(parts.next()?.as_str())?;
        let mut inner = value;
        if parts.len() == 0 {
            return Some(Place { key: key.span(), value: value.span() });
        }
        if let DeValue::Array(entries) = inner.get_ref() {
            inner = entries.get(parts.next()?.parse::<usize>().ok()?)?;
        }
        let DeValue::Table(found) = inner.get_ref() else { return None };
        table = found;
    }
}

/// The table at a path, if it is there.
fn table<'a>(root: &'a mut Item, path: &[String]) -> Option<&'a mut dyn TableLike> {
    let mut item = root;
    for part in path {
        item = match part.parse::<usize>() {
            Ok(number) if item.is_array_of_tables() || item.is_array() => item.get_mut(number)?,
            _ => item.get_mut(part.as_str())?,
        };
    }
    item.as_table_like_mut()
}

fn edit_value(value: &Value) -> Option<toml_edit::Value> {
    value.to_string().parse().ok()
}

/// A path as in a file.
fn dotted(path: &[String]) -> String {
    path.iter().map(|part| toml_edit::Key::new(part.as_str()).to_string()).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use config::template;

    use super::*;

    fn path(key: &str) -> Vec<String> {
        key.split('.').map(str::to_owned).collect()
    }

    #[test]
    fn r24_a_key_is_set_and_every_other_byte_stays() {
        let check = |text: &str, key: &str, value: &str, expected: &str| {
            let value =
                edit_value(&Value::Integer(1)).and(toml::from_str::<Table>(&format!("v = {value}")).ok()).unwrap();
            assert_eq!(set(text, &path(key), &value["v"]).as_deref(), Some(expected), "{text}");
        };
        check("", "runs.deadline_s", "5", "[runs]\ndeadline_s = 5\n");
        check(
            "# a\n[runs] # b\n  deadline_s  =  5   # c\n# d",
            "runs.deadline_s",
            "\"off\"",
            "# a\n[runs] # b\n  deadline_s  =  \"off\"   # c\n# d",
        );
        check(
            "[runs]\n# a\nresume = \"restart\"\n\n# b\n[tools]\n",
            "runs.deadline_s",
            "5",
            "[runs]\n# a\nresume = \"restart\"\ndeadline_s = 5\n\n# b\n[tools]\n",
        );
        check("[runs]\nresume = \"restart\"", "runs.deadline_s", "5", "[runs]\nresume = \"restart\"\ndeadline_s = 5\n");
        check("[runs]\n# end\n", "agents.a b.model", "\"x/y\"", "[runs]\n# end\n\n[agents.\"a b\"]\nmodel = \"x/y\"\n");
        check("runs.deadline_s = 1 # a\n", "runs.deadline_s", "2", "runs.deadline_s = 2 # a\n");
        check("runs = { deadline_s = 1 } # a\n", "runs.deadline_s", "2", "runs = { deadline_s = 2 } # a\n");
        check(
            "tools = { timeout_s = 1 }\n",
            "tools.exec.policy",
            "\"deny\"",
            "tools = { timeout_s = 1 , exec = { policy = \"deny\" } }\n",
        );
        check(
            "[[providers.a.profiles]]\nname = \"x\"\n",
            "providers.a.profiles.0.key",
            "\"env:K\"",
            "[[providers.a.profiles]]\nname = \"x\"\nkey = \"env:K\"\n",
        );
        check(
            "[[providers.a.profiles]]\nname = \"x\"\n",
            "providers.a.profiles.1.key",
            "\"env:K\"",
            "[[providers.a.profiles]]\nname = \"x\"\n\n[[providers.a.profiles]]\nkey = \"env:K\"\n",
        );
        check(
            "[agents.main]\nfallbacks = [ # one\n \"a/b\" ]\n",
            "agents.main.fallbacks",
            "[]",
            "[agents.main]\nfallbacks = []\n",
        );
        assert_eq!(set("x = [", &path("runs.deadline_s"), &Value::Integer(5)), None, "a broken text is not changed");
        assert_eq!(set("runs = 5\n", &path("runs.deadline_s"), &Value::Integer(5)), None);
    }

    #[test]
    fn r24_a_key_is_taken_out_and_every_comment_stays() {
        let check = |text: &str, key: &str, expected: &str| {
            assert_eq!(unset(text, &path(key)).as_deref(), Some(expected), "{text}");
        };
        check("# a\n[runs]\n# b\ndeadline_s = 5 # c\n# d\n", "runs.deadline_s", "# a\n[runs]\n# b\n# d\n");
        check(
            "runs = { deadline_s = 5, resume = \"restart\" }\n",
            "runs.deadline_s",
            "runs = { resume = \"restart\" }\n",
        );
        check("runs.deadline_s = 5\n", "runs.deadline_s", "");
        check(
            "[a]\nx = 1\n# of b\n[providers.b]\napi = \"x\"\n[[providers.b.profiles]]\nkey = 1\n# end\n[c]\n",
            "providers.b",
            "[a]\nx = 1\n# of b\n# end\n[c]\n",
        );
        check(
            "[agents.main]\nfallbacks = [\n \"a/b\",\n]\nmodel = \"x/y\"\n",
            "agents.main.fallbacks",
            "[agents.main]\nmodel = \"x/y\"\n",
        );
        check(
            "[runs]\ndeadline_s = 5\n[tools]\nx = \"\"\"\n[runs]\n\"\"\"\n",
            "runs",
            "[runs]\n[tools]\nx = \"\"\"\n[runs]\n\"\"\"\n",
        );
    }

    /// Each key of the file that `config init` writes, set and taken out again.
    #[test]
    fn r24_a_file_is_the_same_after_a_key_is_set_and_taken_out() {
        let text = template();
        for key in ["runs.deadline_s", "agents.main.model", "budget.run.tokens", "offline.pace_ms", "budget.at_limit"] {
            let key = path(key);
            let with = set(&text, &key, &Value::Integer(5)).unwrap();
            assert_eq!((with.lines().count(), value(&with, &key)), (text.lines().count() + 1, Some(Value::Integer(5))));
            assert!(has(&with, &key[..1]) && !has(&text, &key[..1]));
            assert_eq!(unset(&with, &key), Some(text.clone()));
        }
    }
}
