//! Calls of tools on a terminal: a command as in a shell, any other call as a sentence, and the end of what failed. Foreign
//! text in these lines is made printable where they are written.

use std::borrow::Cow;

use engine::CallOutcome;
use protocol::method::FileDiff;
use serde_json::{Map, Value};

use super::colours::without_colours;
use crate::language::word;
use crate::show::human::{excerpt, printable_line};

/// The last lines of the output of a failed call that are shown.
const FAILED_LINES: usize = 8;
/// A file whose path comes with the end of the call.
const A_FILE: &str = "a file";
/// Characters of a path, a pattern or an address in a sentence.
const NAME_CHARS: usize = 120;

/// The end of a call, as a line of the stream has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallEnd<'a> {
    pub(super) outcome: CallOutcome,
    /// The beginning of its output.
    pub(super) output: &'a str,
    /// The end of its output, if that is further on.
    pub(super) tail: Option<&'a str>,
    /// The number of lines of its output.
    pub(super) lines: u64,
    /// Milliseconds that it took.
    pub(super) took_ms: Option<u64>,
    /// What it changed in files.
    pub(super) changes: &'a [FileDiff],
}

/// Characters of a call that is named in an error.
const CALL_CHARS: usize = 400;

/// What a call does, in one line.
pub(crate) fn call_in_words(tool: &str, arguments: &str) -> String {
    let text = sentence(tool, arguments).unwrap_or_else(|| format!("{tool} {arguments}"));
    excerpt(&printable_line(&text), CALL_CHARS)
}

/// What a call does, as a person says it: `$ cargo test`, `Read calc.py`. None for a tool that is not built in, and for
/// arguments that do not fit it: they are shown as they are.
pub(super) fn sentence(tool: &str, arguments: &str) -> Option<String> {
    let fields = fields(arguments)?;
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let named = |name: &str| text(name).map(|text| excerpt(&printable_line(text), NAME_CHARS));
    // Its path may be past the end of arguments that were cut.
    let unnamed = |cut: &str| text(cut).filter(|text| text.ends_with('…')).map(|_| A_FILE.to_owned());
    let inside = || named("path").map(|path| format!(" in {path}")).unwrap_or_default();
    Some(match tool {
        "exec" => format!("$ {}", text("command")?),
        "read" | "memory_get" => format!("Read {}", named("path")?),
        "ls" => format!("List {}", named("path").unwrap_or_else(|| ".".to_owned())),
        "grep" => format!("Search `{}`{}", named("pattern")?, inside()),
        "find" => format!("Find `{}`{}", named("pattern")?, inside()),
        "write" => format!("Write {}", named("path").or(unnamed("content"))?),
        "edit" => format!("Edit {}", named("path").or(unnamed("new_text")).or(unnamed("old_text"))?),
        "apply_patch" => format!("Patch {}", patched(text("input")?)?),
        "plan" => "Plan".to_owned(),
        "web_fetch" => format!("Fetch {}", named("url")?),
        "web_search" => format!("Search the web for `{}`", named("query")?),
        "memory_search" => format!("Search the memory for `{}`", named("query")?),
        "process" => match (text("action")?, named("id")) {
            ("list", _) => "List the commands in the background".to_owned(),
            ("poll", Some(id)) => format!("Look at {id}"),
            ("write", Some(id)) => format!("Write to {id}"),
            ("end", Some(id)) => format!("End {id}"),
            _ => return None,
        },
        _ => return None,
    })
}

/// The sentence in the language of this process; a command stays as it is.
pub(super) fn in_language(sentence: String) -> String {
    if sentence.starts_with("$ ") { sentence } else { word(sentence) }
}

/// The line of a call that has ended; `sentence` says what it does.
pub(super) fn ended(tool: &str, sentence: &str, end: &CallEnd<'_>) -> String {
    let named = match (sentence.strip_suffix(&*word(A_FILE)), end.changes) {
        (Some(verb), [file]) if matches!(tool, "write" | "edit") => {
            Some(format!("{verb}{}", excerpt(&printable_line(&file.path), NAME_CHARS)))
        }
        _ => None,
    };
    let sentence = named.as_deref().unwrap_or(sentence);
    let time = end.took_ms.map(|ms| format!(" · {}", seconds(ms))).unwrap_or_default();
    let mark = super::vocabulary::mark(end.outcome);
    match end.outcome {
        CallOutcome::Done if tool == "exec" => format!("{sentence}   {mark}{time}"),
        CallOutcome::Done => match (counted(tool, end.lines), super::diff::counts(end.changes)) {
            (Some(count), _) => format!("{sentence} ({})", word(count)),
            (None, Some(counts)) => format!("{sentence}  {counts}"),
            (None, None) => sentence.to_owned(),
        },
        outcome => {
            let how = status(end).unwrap_or_else(|| super::vocabulary::plain(&outcome).replace('_', " "));
            format!("{sentence}   {mark} {}{time}", word(how))
        }
    }
}

/// The lines below a call that has ended: the end of what failed.
pub(super) fn below(end: &CallEnd<'_>) -> Vec<String> {
    if end.outcome == CallOutcome::Done {
        return vec![];
    }
    let mut shown: Vec<Cow<'_, str>> = end.tail.unwrap_or(end.output).lines().map(last_state).collect();
    // The line of the call says it already.
    if status(end).is_some() {
        shown.pop();
    }
    while shown.last().is_some_and(|line| line.trim().is_empty()) {
        shown.pop();
    }
    let from = shown.len().saturating_sub(FAILED_LINES);
    let before = (from > 0 || end.tail.is_some()).then(|| "…".to_owned());
    before.into_iter().chain(shown.drain(from..).map(Cow::into_owned)).collect()
}

/// All lines below a call that has ended: of its whole output, or if that could not be read, of its end or its beginning.
pub(super) fn all_below(end: &CallEnd<'_>, whole: Option<&str>) -> Vec<String> {
    let lines = |text: &str| text.lines().map(|line| last_state(line).into_owned()).collect::<Vec<_>>();
    match (whole, end.tail) {
        (Some(whole), _) => lines(whole),
        (None, Some(tail)) => std::iter::once("…".to_owned()).chain(lines(tail)).collect(),
        (None, None) => lines(end.output),
    }
}

/// What a terminal would show last of a line that a command writes again and again.
fn last_state(line: &str) -> Cow<'_, str> {
    without_colours(line.rsplit('\r').find(|state| !state.is_empty()).unwrap_or_default())
}

/// The last line of the output of a call that its limit ended: which limit it was.
pub(super) fn limit<'a>(end: &CallEnd<'a>) -> Option<&'a str> {
    let last = end.tail.unwrap_or(end.output).lines().next_back()?;
    (end.outcome == CallOutcome::TimedOut && last.starts_with("[its limit")).then_some(last)
}

/// `exit 101`, `signal 9 (SIGKILL)`: what the last line of the output of a command says.
pub(super) fn status(end: &CallEnd<'_>) -> Option<String> {
    let last = end.tail.unwrap_or(end.output).lines().next_back()?;
    let said = last.strip_prefix('[')?.strip_suffix(']')?;
    let signal = said.strip_prefix("ended by signal ").map(|signal| format!("signal {signal}"));
    let exit = said.strip_prefix("exit status ").map(|status| format!("exit {status}"));
    signal.or(exit).map(|status| excerpt(&status, 40))
}

fn counted(tool: &str, lines: u64) -> Option<String> {
    let (one, many) = match tool {
        "read" => ("line", "lines"),
        "ls" => ("entry", "entries"),
        "grep" | "find" => ("match", "matches"),
        _ => return None,
    };
    Some(match (lines, one) {
        (0, "match") => "no match".to_owned(),
        (0, _) => "empty".to_owned(),
        (lines, _) => format!("{lines} {}", if lines == 1 { one } else { many }),
    })
}

/// The files that a patch names.
fn patched(patch: &str) -> Option<String> {
    let name = |line: &str| {
        let rest =
            ["*** Add File: ", "*** Update File: ", "*** Delete File: "].iter().find_map(|of| line.strip_prefix(of));
        rest.map(|path| excerpt(&printable_line(path), NAME_CHARS))
    };
    let names: Vec<String> = patch.lines().filter_map(name).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// `12.3 s`, `4 ms`.
pub(super) fn seconds(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        _ => crate::show::human::duration(ms),
    }
}

/// The fields of arguments, of which a line may have only the beginning: then the last text ends where that does.
fn fields(arguments: &str) -> Option<Map<String, Value>> {
    if let Ok(fields) = serde_json::from_str(arguments) {
        return Some(fields);
    }
    let cut = arguments.strip_suffix('…')?;
    // The end may be in the middle of an escape.
    (0..8).find_map(|less| {
        let (at, _) = cut.char_indices().rev().nth(less)?;
        serde_json::from_str(&format!("{}…\"}}", &cut[..at])).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r09_a_call_is_said_as_a_sentence() {
        for (tool, arguments, said) in [
            ("exec", r#"{"command":"cargo test"}"#, Some("$ cargo test")),
            ("exec", "{\"command\":\"echo \\\"aa\\u00…", Some("$ echo \"aa…")),
            ("exec", r#"{"cmd":"ls"}"#, None),
            ("read", r#"{"path":"calc.py","offset":3}"#, Some("Read calc.py")),
            ("read", r#"{"path":"a\n\u001b[2J"}"#, Some(r"Read a\n\u001b[2J")),
            ("read", "[1]", None),
            ("ls", "{}", Some("List .")),
            ("grep", r#"{"pattern":"fn","path":"src"}"#, Some("Search `fn` in src")),
            ("find", r#"{"pattern":"*.rs"}"#, Some("Find `*.rs`")),
            ("write", "{\"path\":\"a.txt\",\"content\":\"好好好…", Some("Write a.txt")),
            ("write", "{\"content\":\"好好好…", Some("Write a file")),
            ("write", r#"{"content":"x"}"#, None),
            ("edit", r#"{"path":"a.txt","old_text":"1","new_text":"2"}"#, Some("Edit a.txt")),
            (
                "apply_patch",
                r#"{"input":"*** Begin Patch\n*** Add File: a\n+x\n*** Delete File: b\n*** End Patch"}"#,
                Some("Patch a, b"),
            ),
            ("process", r#"{"action":"poll","id":"p1"}"#, Some("Look at p1")),
            ("process", r#"{"action":"list"}"#, Some("List the commands in the background")),
            ("process", r#"{"action":"end"}"#, None),
            ("web_fetch", r#"{"url":"https://a.example"}"#, Some("Fetch https://a.example")),
            ("web_search", r#"{"query":"rust async"}"#, Some("Search the web for `rust async`")),
            ("memory_search", r#"{"query":"high tide"}"#, Some("Search the memory for `high tide`")),
            ("memory_get", r#"{"path":"memory/NOTES.md","from":3}"#, Some("Read memory/NOTES.md")),
            ("made_up", "{}", None),
        ] {
            assert_eq!(sentence(tool, arguments).as_deref(), said, "{tool} {arguments}");
        }
    }

    #[test]
    fn r09_the_end_of_a_call_has_its_status_its_time_and_the_last_lines_of_a_failure() {
        let end = |outcome, output, took_ms| CallEnd {
            outcome,
            output,
            tail: None,
            lines: 40,
            took_ms: Some(took_ms),
            changes: &[],
        };
        let done = end(CallOutcome::Done, "ok\n[exit status 0]\n", 950);
        assert_eq!(ended("exec", "$ true", &done), "$ true   ✓ · 950 ms");
        assert_eq!(ended("read", "Read calc.py", &done), "Read calc.py (40 lines)");
        assert_eq!(ended("write", "Write calc.py", &done), "Write calc.py");
        assert!(below(&done).is_empty() && all_below(&done, None) == ["ok", "[exit status 0]"]);
        let lines: Vec<String> = (0..20).map(|line| format!("line {line}")).collect();
        let output = lines.join("\n") + "\n[exit status 101]\n";
        let failed = end(CallOutcome::Failed, &output, 12_345);
        assert_eq!(ended("exec", "$ cargo test", &failed), "$ cargo test   ✗ exit 101 · 12.3 s");
        let rows = below(&failed);
        assert_eq!((rows.len(), &*rows[0], &*rows[1], &*rows[8]), (9, "…", "line 12", "line 19"));
        assert_eq!(all_below(&failed, None).len(), 21, "in detail all of it");
        let long = CallEnd { tail: Some("the end\n[ended by signal 9 (SIGKILL)]\n"), ..failed };
        assert_eq!(ended("exec", "$ x", &long), "$ x   ✗ signal 9 (SIGKILL) · 12.3 s");
        assert_eq!(below(&long), ["…", "the end"]);
        assert_eq!(all_below(&long, None), ["…", "the end", "[ended by signal 9 (SIGKILL)]"]);
        assert_eq!(all_below(&long, Some("\u{1b}[1mthe beginning\u{1b}[m\nthe end\n")), ["the beginning", "the end"]);
        let written_over = end(CallOutcome::Failed, "10 %\r90 %\rdisk full\r\n\n\n[exit status 1]\n", 5);
        assert_eq!(below(&written_over), ["disk full"]);
        let coloured = end(CallOutcome::Failed, "\u{1b}[31mred\u{1b}[0m\u{1b}[2J\n\u{1b}[0m\n[exit status 1]\n", 5);
        assert_eq!(below(&coloured), ["red\u{1b}[2J"]);
        let nothing = CallEnd { lines: 0, ..end(CallOutcome::Done, "no matches\n", 5) };
        assert_eq!(ended("grep", "Search `x`", &nothing), "Search `x` (no match)");
        assert_eq!(ended("ls", "List a", &nothing), "List a (empty)");
        let line = "[its limit was reached: 5 s for one call (tools.timeout_s)]";
        let late = CallEnd { tail: Some(line), ..end(CallOutcome::TimedOut, "x", 65_000) };
        assert_eq!(ended("exec", "$ x", &late), "$ x   ✗ timed out · 1 min 5 s");
        assert_eq!((limit(&late), limit(&failed)), (Some(line), None));
    }
}
