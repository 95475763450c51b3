//! Generates the reference of the settings from the declarations: the file that `config init` writes, the file of
//! defaults and the table in docs/configuration.md.

use super::declared::{RESERVED, SECTIONS};
use super::layers::{dotted, is_list};
#[cfg(test)]
use super::settings::Preset;
use super::settings::{Section, Setting, example};

/// The column of the comments.
const COMMENT_AT: usize = 34;

const HEAD: &str = "\
# The configuration of limulus. Every key that changes anything is here with its default, commented out: remove the # to change it.
# `limulus config check` prints what is wrong, `limulus config show --origin` what is in force and why.
";

/// The initial file of a user: every key, commented out.
pub fn template() -> String {
    SECTIONS.iter().fold(HEAD.to_owned(), |text, section| text + "\n" + &lines(section, |_| "# "))
}

/// One section of a file. `mark` is the text before a setting.
fn lines(section: &Section, mark: impl Fn(&Setting) -> &'static str) -> String {
    // Rules, providers and models are examples: a heading without a # would make one.
    let is_example = matches!(section.path.first(), Some(&"policy" | &"providers" | &"models"));
    let heading =
        dotted(&example(section.path.strip_suffix(&["*"]).filter(|_| is_list_entry(section)).unwrap_or(section.path)));
    let heading = if is_list_entry(section) { format!("[[{heading}]]") } else { format!("[{heading}]") };
    let mut text = line(if is_example { "# " } else { "" }, &heading, section.about);
    for setting in section.settings.iter().filter(|setting| !is_reserved(setting)) {
        let key = dotted(&example(setting.path)[section.path.len()..]);
        text += &line(mark(setting), &format!("{key} = {}", setting.value.text()), setting.doc);
    }
    text
}

fn is_reserved(setting: &Setting) -> bool {
    RESERVED.iter().any(|(path, _)| *path == setting.path)
}

fn is_list_entry(section: &Section) -> bool {
    section.path.split_last().is_some_and(|(_, list)| is_list(list))
}

fn line(mark: &str, code: &str, comment: &str) -> String {
    let code = format!("{mark}{code}");
    match (comment, code.len()) {
        ("", _) => format!("{code}\n"),
        (_, ..=COMMENT_AT) => format!("{code:COMMENT_AT$} # {comment}\n"),
        _ => format!("{code}  # {comment}\n"),
    }
}

/// The defaults as a file. A setting without a default is a commented example.
#[cfg(test)]
pub(super) fn defaults() -> String {
    let head = "# Every key of the configuration that changes anything, with its default. Generated from the declarations; docs/configuration.md says more.\n";
    let mark = |setting: &Setting| match setting.value {
        Preset::Default(_) => "",
        Preset::Example(_) => "# ",
    };
    SECTIONS.iter().fold(head.to_owned(), |text, section| text + "\n" + &lines(section, mark))
}

/// The keys as the rows of a table in Markdown, for docs/configuration.md.
#[cfg(test)]
pub(super) fn table() -> String {
    let mut text =
        String::from("| key | default | takes | a change counts from the next | purpose |\n|---|---|---|---|---|\n");
    for setting in super::settings::all() {
        let name = setting
            .path
            .join(".")
            .replace('*', "NAME")
            .replace("profiles.NAME", "profiles.N")
            .replace("policy.NAME", "policy.N");
        let default = match setting.value {
            Preset::Default(text) => format!("`{text}`"),
            Preset::Example(_) => String::new(),
        };
        let doc = setting.doc.to_owned();
        let cells = [format!("`{name}`"), default, setting.kind.expected(), setting.counts.name().to_owned(), doc];
        text += &["| ", &cells.map(|cell| cell.replace('|', "\\|")).join(" | "), " |\n"].concat();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::{env, fs};

    use protocol::deprecated::DEPRECATED;
    use toml::{Table, Value};

    use super::super::settings::{self, Entry};
    use super::super::stricter;
    use super::*;

    /// Compares a file, or the part of a page between two marks, with the generated text; `UPDATE=1` writes it.
    fn check(file: &str, marks: Option<(&str, &str)>, generated: &str) {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file);
        let text = fs::read_to_string(&file).unwrap_or_default();
        let (before, found, after) = match marks {
            None => ("", text.as_str(), ""),
            Some((begin, end)) => {
                let from = text.find(begin).unwrap() + begin.len();
                let to = from + text[from..].find(end).unwrap();
                (&text[..from], &text[from..to], &text[to..])
            }
        };
        if env::var_os("UPDATE").is_some() {
            fs::write(&file, [before, generated, after].concat()).unwrap();
        } else {
            assert_eq!(found, generated, "UPDATE=1 writes it");
        }
    }

    #[test]
    fn each_declared_value_is_one_that_its_setting_takes() {
        for setting in settings::all() {
            let value = setting.value.value();
            assert!(setting.kind.fits(&value), "{}: {value}", setting.path.join("."));
            assert!(!setting.doc.is_empty() && !setting.doc.contains('\n'), "{}", setting.path.join("."));
            assert_eq!(settings::at(&example(setting.path)), Entry::Key(setting.kind), "each path is there once");
        }
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
        let taken: Vec<&str> = template.lines().skip(2).map(|line| line.strip_prefix("# ").unwrap_or(line)).collect();
        let taken: Table = toml::from_str(&taken.join("\n")).unwrap();
        let all = Value::Table(taken.clone());
        for (path, _) in RESERVED {
            let mut value = Some(&all);
            for part in *path {
                value = value.and_then(|table| table.get(*part));
            }
            assert_eq!(value, None, "{path:?} is reserved");
        }
        for setting in settings::all().filter(|setting| !is_reserved(setting)) {
            let mut value = &Value::Table(taken.clone());
            for part in example(setting.path) {
                value = part.parse::<usize>().map_or_else(|_| value.get(&part), |at| value.get(at)).unwrap();
            }
            assert_eq!(*value, setting.value.value(), "{}", setting.path.join("."));
        }
    }

    #[test]
    fn the_published_defaults_are_the_declared_ones() {
        check("config.defaults.toml", None, &defaults());
    }

    #[test]
    fn the_page_has_a_row_for_every_key_and_every_old_name() {
        let names: Vec<String> = DEPRECATED.iter().map(|row| format!("| `{}` | `{}` |\n", row.old, row.new)).collect();
        let rows = format!("| old | new |\n|---|---|\n{}", names.concat());
        let marks = ("<!-- old names: made from the list -->\n", "<!-- end of old names -->");
        check("configuration.md", Some(marks), &rows);
        let project = ("<!-- keys of a project: made from the table -->\n", "<!-- end of keys of a project -->");
        check("configuration.md", Some(project), &stricter::table());
        check("configuration.md", Some(("<!-- keys: made from the declarations -->\n", "<!-- end -->")), &table());
    }
}
