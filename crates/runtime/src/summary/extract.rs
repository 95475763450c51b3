//! Extracts the main facts of a conversation without a model: what was asked, the last answer, what was done, which
//! files were touched, and the names and numbers that must stay exact. Each part has its share of the space, so that
//! the whole is shorter than its source.

use std::collections::BTreeMap;

use serde_json::Value;

use super::history::HistoryItem;
use super::truncate::{ends, first_line};

/// The minimum and maximum characters of an extract.
const LEAST_CHARS: usize = 1_000;
const MOST_CHARS: usize = 12_000;
/// Characters of a line.
const LINE_CHARS: usize = 160;
/// Minimum characters of a name that stays exact: shorter ones are words.
const EXACT_LEAST: usize = 7;
const EXACT_MOST: usize = 120;

/// An extract: at most a quarter of its source.
pub(crate) fn extract(items: &[HistoryItem]) -> String {
    let chars: usize = items.iter().map(|item| texts(item).iter().map(|text| text.len()).sum::<usize>()).sum();
    let share = (chars / 4).clamp(LEAST_CHARS, MOST_CHARS) / 5;
    let parts = [
        ("Summary of what was before", earlier(items, 2 * share)),
        ("Asked first", asked_first(items, share)),
        ("Asked since, newest last", asked_since(items, share)),
        ("Answered last", answered_last(items, share)),
        ("Done, newest last", done(items, share)),
        ("Files", newest(files(items), share)),
        ("Exact names", newest(exact(items), share)),
    ];
    let part = |(title, text): (&str, String)| (!text.is_empty()).then(|| format!("## {title}\n{text}"));
    parts.into_iter().filter_map(part).collect::<Vec<_>>().join("\n\n")
}

/// The files and exact names that a summary leaves out, to be appended to it; empty if there are none.
pub(crate) fn left_out(items: &[HistoryItem], summary: &str) -> String {
    let missing = |line: &String| !summary.contains(line.trim_start_matches("- ").split(" (").next().unwrap_or(line));
    let part = |title: &str, lines: Vec<String>| {
        let lines: Vec<String> = lines.into_iter().filter(missing).collect();
        let text = newest(lines, MOST_CHARS / 10);
        if text.is_empty() { text } else { format!("\n\n## {title}\n{text}") }
    };
    part("Files", files(items)) + &part("Exact names", exact(items))
}

fn texts(item: &HistoryItem) -> Vec<&str> {
    match item {
        HistoryItem::Summary(text)
        | HistoryItem::User(text)
        | HistoryItem::Model(text)
        | HistoryItem::Result { text, .. } => vec![text],
        HistoryItem::Call { tool, arguments } => vec![tool, arguments],
    }
}

fn earlier(items: &[HistoryItem], chars: usize) -> String {
    let summary =
        items.iter().rev().find_map(|item| if let HistoryItem::Summary(text) = item { Some(text) } else { None });
    // Its own titles stay readable under ours.
    let text = summary.map(|text| text.replace("\n## ", "\n### ")).unwrap_or_default();
    let text = text.strip_prefix("## ").map_or(text.clone(), |rest| format!("### {rest}"));
    ends(&text, chars / 2, chars / 2, "\n[…]\n")
}

fn asked(items: &[HistoryItem]) -> impl Iterator<Item = &String> {
    items.iter().filter_map(|item| if let HistoryItem::User(text) = item { Some(text) } else { None })
}

fn asked_first(items: &[HistoryItem], chars: usize) -> String {
    asked(items).next().map(|text| ends(text.trim(), chars * 3 / 4, chars / 4, "\n[…]\n")).unwrap_or_default()
}

fn asked_since(items: &[HistoryItem], chars: usize) -> String {
    newest(asked(items).skip(1).map(|text| format!("- {}", first_line(text, LINE_CHARS))).collect(), chars)
}

fn answered_last(items: &[HistoryItem], chars: usize) -> String {
    let last = items.iter().rev().find_map(|item| if let HistoryItem::Model(text) = item { Some(text) } else { None });
    last.map(|text| ends(text.trim(), chars / 2, chars / 2, "\n[…]\n")).unwrap_or_default()
}

/// A line for each call: the tool, its arguments and its outcome. Results come in the order of their calls.
fn done(items: &[HistoryItem], chars: usize) -> String {
    let mut lines: Vec<String> = vec![];
    let mut open = std::collections::VecDeque::new();
    for item in items {
        match item {
            HistoryItem::Call { tool, arguments } => {
                open.push_back(lines.len());
                lines.push(format!("- {tool} {}", first_line(&in_short(arguments), LINE_CHARS / 2)));
            }
            HistoryItem::Result { text, is_error, .. } => {
                let how = if *is_error { "failed: " } else { "" };
                if let Some(at) = open.pop_front() {
                    let line = format!("{} → {how}{}", lines[at], first_line(text, LINE_CHARS / 2));
                    lines[at] = line;
                }
            }
            HistoryItem::Summary(_) | HistoryItem::User(_) | HistoryItem::Model(_) => open.clear(),
        }
    }
    newest(lines, chars)
}

/// The arguments without their braces, if they are an object of one text.
fn in_short(arguments: &str) -> String {
    match serde_json::from_str::<BTreeMap<String, Value>>(arguments) {
        Ok(fields) => match fields.into_iter().next() {
            Some((_, Value::String(text))) => text,
            _ => arguments.to_owned(),
        },
        Err(_) => arguments.to_owned(),
    }
}

/// The files that calls named, each once, in the order in which they were last touched.
fn files(items: &[HistoryItem]) -> Vec<String> {
    let mut files: Vec<(String, bool)> = vec![];
    let mut touch = |path: String, changed: bool| {
        let before = files.iter().position(|(known, _)| *known == path).map(|at| files.remove(at));
        files.push((path, changed || before.is_some_and(|(_, changed)| changed)));
    };
    for item in items {
        match item {
            HistoryItem::Summary(text) => {
                for (path, changed) in listed(text) {
                    touch(path, changed);
                }
            }
            HistoryItem::Call { tool, arguments } => {
                let changes = tools::changes_files(tool);
                for path in named(arguments) {
                    touch(path, changes);
                }
            }
            HistoryItem::User(_) | HistoryItem::Model(_) | HistoryItem::Result { .. } => {}
        }
    }
    let line = |(path, changed): (String, bool)| format!("- {path}{}", if changed { " (changed)" } else { "" });
    files.into_iter().map(line).collect()
}

/// The files that an earlier extract lists.
fn listed(summary: &str) -> impl Iterator<Item = (String, bool)> + '_ {
    let files =
        summary.split("## Files\n").skip(1).flat_map(|part| part.lines().map_while(|line| line.strip_prefix("- ")));
    files.map(|line| match line.strip_suffix(" (changed)") {
        Some(path) => (path.to_owned(), true),
        None => (line.to_owned(), false),
    })
}

/// The paths in a call's arguments: its `path`, and the files of a patch.
fn named(arguments: &str) -> Vec<String> {
    let Ok(fields) = serde_json::from_str::<BTreeMap<String, Value>>(arguments) else { return vec![] };
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let of_patch = |line: &str| {
        let heads = ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];
        heads.iter().find_map(|head| line.strip_prefix(head)).map(|path| path.trim().to_owned())
    };
    let patched = text("patch").into_iter().flat_map(str::lines).filter_map(of_patch);
    let own = text("path").map(str::to_owned).filter(|path| path != ".");
    own.into_iter().chain(patched).collect()
}

/// Names and numbers that must stay exact (ids, hashes, addresses), each once, in the order of their last use.
fn exact(items: &[HistoryItem]) -> Vec<String> {
    let mut last_used = BTreeMap::new();
    let words = items.iter().flat_map(texts).flat_map(|text| {
        let words = text.split(|c: char| c.is_whitespace() || "\"'`()[]{}<>,;|".contains(c));
        words.map(|word| word.trim_matches(|c: char| ".:!?*=".contains(c)))
    });
    for (at, word) in words.filter(|word| is_exact(word)).enumerate() {
        last_used.insert(word, at);
    }
    let mut names: Vec<_> = last_used.into_iter().collect();
    names.sort_unstable_by_key(|(_, at)| *at);
    names.into_iter().map(|(name, _)| format!("- {name}")).collect()
}

fn is_exact(word: &str) -> bool {
    let length = word.chars().count();
    if !(EXACT_LEAST..=EXACT_MOST).contains(&length) {
        return false;
    }
    let is_address = word.starts_with("https://") || word.starts_with("http://");
    let digits = word.chars().filter(char::is_ascii_digit).count();
    let notices = word.chars().filter(char::is_ascii_alphabetic).count();
    let is_id = digits >= 3 && notices >= 1 && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_:/#.".contains(c));
    is_address || is_id && !word.contains("..") && digits * 8 >= length
}

/// The last lines that fit into this many characters, and how many do not.
fn newest(lines: Vec<String>, chars: usize) -> String {
    let mut room = chars;
    let fits = |line: &&String| {
        let length = line.chars().count() + 1;
        let fits = length <= room;
        room = room.saturating_sub(length);
        fits
    };
    let kept = lines.iter().rev().take_while(fits).count();
    let left = lines.len() - kept;
    let note = (left > 0 && kept > 0).then(|| format!("- [{left} earlier ones are left out]"));
    note.into_iter().chain(lines.into_iter().skip(left)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(tool: &str, arguments: &str) -> HistoryItem {
        HistoryItem::Call { tool: tool.into(), arguments: arguments.into() }
    }

    fn result(text: &str) -> HistoryItem {
        HistoryItem::Result { tool: "exec".into(), text: text.into(), is_error: text.starts_with("no") }
    }

    fn conversation() -> Vec<HistoryItem> {
        vec![
            HistoryItem::User("Repair the tide table of build 7f3a9c21, see https://tides.example/bugs/77".into()),
            HistoryItem::Model("I look first.".into()),
            call("read", r#"{"path":"src/tide.rs"}"#),
            call("exec", r#"{"command":"cargo test"}"#),
            result("fn tide() {}"),
            result("no such test"),
            call("edit", r#"{"path":"src/tide.rs","old_text":"a","new_text":"b"}"#),
            call("apply_patch", "{\"patch\":\"*** Begin Patch\\n*** Update File: src/moon.rs\\n*** End Patch\"}"),
            result("edited"),
            result("patched"),
            HistoryItem::User("And the moon?".into()),
            HistoryItem::Model("Both are repaired.".into()),
        ]
    }

    #[test]
    fn r25_an_extract_holds_requests_calls_files_and_names() {
        let extract = extract(&conversation());
        for part in [
            "## Asked first\nRepair the tide table",
            "## Asked since, newest last\n- And the moon?",
            "## Answered last\nBoth are repaired.",
            "- exec cargo test → failed: no such test",
            "- src/tide.rs (changed)",
            "- src/moon.rs (changed)",
            "- 7f3a9c21",
            "- https://tides.example/bugs/77",
        ] {
            assert!(extract.contains(part), "{part:?} is not in\n{extract}");
        }
    }

    #[test]
    fn r14_an_extract_is_shorter_than_its_source() {
        let mut long = conversation();
        for n in 0..200 {
            long.push(HistoryItem::User(format!("question {n} {}", "and so on ".repeat(30))));
            long.push(call("exec", &format!("{{\"command\":\"echo {n}\"}}")));
            long.push(result(&"out ".repeat(500)));
            long.push(HistoryItem::Model("潮".repeat(300)));
        }
        let chars = extract(&long).chars().count();
        assert!((1_000..=MOST_CHARS).contains(&chars), "{chars}");
        assert!(extract(&long).contains("earlier ones are left out"));
        assert!(extract(&[HistoryItem::User("x".repeat(100_000))]).chars().count() < MOST_CHARS);
    }

    #[test]
    fn r25_an_extract_keeps_the_content_of_the_earlier_one() {
        let first = extract(&conversation());
        let items = [
            HistoryItem::Summary(first),
            HistoryItem::User("Go on".into()),
            call("read", r#"{"path":"a.txt"}"#),
            result("text"),
        ];
        let second = extract(&items);
        for part in ["tide table", "- src/tide.rs (changed)", "- a.txt", "- 7f3a9c21"] {
            assert!(second.contains(part), "{part:?} is not in\n{second}");
        }
    }

    #[test]
    fn r25_names_missing_from_a_summary_are_appended_to_it() {
        let behind = left_out(&conversation(), "They repaired src/tide.rs (bug https://tides.example/bugs/77).");
        assert!(behind.contains("- src/moon.rs (changed)") && behind.contains("- 7f3a9c21"), "{behind}");
        assert!(!behind.contains("src/tide.rs") && !behind.contains("https"), "{behind}");
        assert_eq!(left_out(&[], "anything"), "");
    }

    #[test]
    fn words_are_not_taken_for_names() {
        let ids = [
            "2026-11-22T10:00",
            "550e8400-e29b-41d4-a716-446655440000",
            "v1.2.3456",
            "src/a100.rs",
            "http://a.example",
        ];
        assert_eq!(ids.map(is_exact), [true; 5]);
        assert_eq!(["hundreds", "1234567890", "a-b-c-d-12", "100..a200"].map(is_exact), [false; 4]);
        assert!(!is_exact(&"a1".repeat(100)) && !is_exact("a123"));
    }
}
