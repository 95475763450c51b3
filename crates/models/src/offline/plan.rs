//! Decides the next step of a turn: a call, or the answer.

use serde_json::{Value, json};

use super::answer;
use super::grammar::Act;
use super::turn::{Output, Turn};

/// The next step of a turn.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    Call { tool: &'static str, arguments: Value },
    Answer(String),
}

/// Lines of a README that are read to describe a folder.
const README_LINES: u64 = 40;

/// Plans one call a step, in the order of the requests.
pub(super) fn next(turn: &Turn) -> Next {
    let mut results = turn.results.iter();
    let mut sections = Vec::new();
    for act in &turn.acts {
        let mut outputs: Vec<&Output> = Vec::new();
        while let Some((tool, arguments)) = call(act, &outputs) {
            match results.next() {
                Some(output) => outputs.push(output),
                None if turn.closes => return Next::Answer(answer::so_far(sections, turn.language)),
                None => return Next::Call { tool, arguments },
            }
        }
        sections.push(answer::section(act, &outputs, turn.language));
    }
    let whole = if sections.is_empty() { answer::not_understood(turn.language) } else { sections.join("\n\n") };
    Next::Answer(match whole.strip_prefix(turn.partial.as_str()) {
        Some("") => answer::nothing_more(turn.language),
        Some(rest) => rest.to_owned(),
        None => whole,
    })
}

/// The next call that an act needs after these results; none if it is complete.
fn call(act: &Act, outputs: &[&Output]) -> Option<(&'static str, Value)> {
    match (act, outputs) {
        (Act::List { path } | Act::Look { path }, []) => Some(("ls", with_path(json!({}), path.as_deref()))),
        (Act::Look { path }, [listing]) if !listing.is_error => {
            let readme = answer::readme(&listing.text)?;
            let path =
                path.as_ref().map_or(readme.to_owned(), |path| format!("{}/{readme}", path.trim_end_matches('/')));
            Some(("read", json!({ "path": path, "limit": README_LINES })))
        }
        (Act::Read { path, limit }, []) => Some((
            "read",
            match limit {
                Some(limit) => json!({ "path": path, "limit": limit }),
                None => json!({ "path": path }),
            },
        )),
        (Act::Search { text, path }, []) => {
            Some(("grep", with_path(json!({ "pattern": pattern(text) }), path.as_deref())))
        }
        (Act::Run { command }, []) => Some(("exec", json!({ "command": command }))),
        (Act::Edit { path, old, new }, []) => Some(("edit", json!({ "path": path, "old_text": old, "new_text": new }))),
        (Act::Find { pattern, path }, []) => Some(("find", with_path(json!({ "pattern": pattern }), path.as_deref()))),
        (Act::Fetch { url }, []) => Some(("web_fetch", json!({ "url": url }))),
        (Act::Write { path, content }, []) => Some(("write", json!({ "path": path, "content": content }))),
        _ => None,
    }
}

fn with_path(mut arguments: Value, path: Option<&str>) -> Value {
    if let Some(path) = path {
        arguments["path"] = json!(path);
    }
    arguments
}

/// A regular expression: `/…/` unchanged, any other text escaped.
fn pattern(text: &str) -> String {
    if let Some(regex) =
        text.strip_prefix('/').and_then(|text| text.strip_suffix('/')).filter(|regex| !regex.is_empty())
    {
        return regex.to_owned();
    }
    let mut pattern = String::with_capacity(text.len());
    for c in text.chars() {
        if r"\.+*?()|[]{}^$".contains(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}
