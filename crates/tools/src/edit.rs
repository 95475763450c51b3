//! The tool `edit`: replaces one piece of a text file that occurs exactly once. It keeps line ends and the byte order
//! mark.

use engine::{EffectId, Found, ToolClass, ToolSpec};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cancel::Cancel;
use crate::change::{self, Change};
use crate::error::ToolError;
use crate::evidence::{Evidence, FileChange};
use crate::file_call::{At, FileCall, FileChanger};
use crate::limits::LISTED_LINES;
use crate::paths::{ResolvedPath, Workspace};
use crate::text::{TextFile, line_end, nearest, with_line_ends};
use crate::tool::{Act, ParsedCall, Tool};
use crate::tool_result::ToolText;
use crate::tool_set::{self, spec};

/// The tool.
pub(crate) struct Edit;

impl Tool for Edit {
    fn spec(&self, _timeout_s: u64) -> ToolSpec {
        spec(
            "edit",
            ToolClass::Idempotent,
            "Replace one piece of a text file. The piece must stand in it exactly once; line ends stay as they are.",
            &json!({
                "path": { "type": "string", "minLength": 1, "description": "The file: relative to the workspace, or absolute." },
                "old_text": { "type": "string", "minLength": 1, "description": "What stands there now, white space included; enough of it to be unique." },
                "new_text": { "type": "string", "description": "What is to stand there." },
            }),
            &["path", "old_text", "new_text"],
        )
    }

    fn call(&self, arguments: Value) -> Result<ParsedCall, ToolError> {
        Ok(ParsedCall::files(tool_set::arguments::<EditArguments>("edit", arguments)?))
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct EditArguments {
    path: String,
    old_text: String,
    new_text: String,
}

impl FileCall for EditArguments {
    fn acts(&self, workspace: &Workspace) -> Result<Vec<Act>, ToolError> {
        Ok(vec![Act::Write { verb: "edit", path: workspace.resolve(&self.path)? }])
    }

    fn run(&self, at: &At<'_>, cancel: &Cancel) -> Result<ToolText, ToolError> {
        let workspace = at.workspace()?.keeping(&at.context.files);
        run(&workspace, at.id, self, &at.evidence, cancel).map(ToolText::from)
    }

    fn change(&self) -> Option<&dyn FileChanger> {
        Some(self)
    }
}

impl FileChanger for EditArguments {
    fn paths(&self, resolve: &dyn Fn(&str) -> Result<ResolvedPath, ToolError>) -> Result<Vec<ResolvedPath>, ToolError> {
        Ok(vec![resolve(&self.path)?])
    }

    fn states(
        &self,
        _workspace: &Workspace,
        paths: &[ResolvedPath],
        cancel: &Cancel,
    ) -> Result<Vec<FileChange>, ToolError> {
        let Some(path) = paths.first() else { return Ok(vec![]) };
        Ok(states(path, self, cancel))
    }

    fn find(&self, at: &At<'_>) -> Result<(Found, String), ToolError> {
        find(&at.workspace()?, at.id, self, &at.evidence)
    }
}

/// The state of the file before and after the edit. Empty if the edit does not fit: [`run`] then reports why.
fn states(path: &ResolvedPath, arguments: &EditArguments, cancel: &Cancel) -> Vec<FileChange> {
    edited(path, arguments, cancel).map_or(vec![], |(states, _)| vec![states])
}

fn run(
    workspace: &Workspace,
    id: EffectId,
    arguments: &EditArguments,
    evidence: &Evidence,
    cancel: &Cancel,
) -> Result<String, ToolError> {
    let path = workspace.reach_to_write(&arguments.path)?;
    let done = done(&path, arguments);
    let known = evidence.files.first();
    if let Some(known) = known
        && path.state("edit", cancel)? == known.after
    {
        return Ok(done);
    }
    let (states, content) = edited(&path, arguments, cancel)?;
    let known = *known.ok_or_else(|| ToolError::Unchecked { path: path.shown.clone() })?;
    if states != known {
        return Err(change::conflict(&path, known.before, states.before));
    }
    let changes = [Change { path, states, content: Some(content.into()) }];
    change::apply("edit", id, &changes, workspace.store(), cancel)?;
    Ok(done)
}

/// Finds out what became of an interrupted call; for `Ended`, with the text for the model.
fn find(
    workspace: &Workspace,
    id: EffectId,
    arguments: &EditArguments,
    evidence: &Evidence,
) -> Result<(Found, String), ToolError> {
    let path = workspace.reach_to_write(&arguments.path)?;
    // An edit that did not fit has changed nothing.
    let Some(states) = evidence.files.first().copied() else { return Ok((Found::NeverStarted, String::new())) };
    let done = done(&path, arguments);
    Ok((change::find("edit", id, &[(path, states)])?, done))
}

fn done(path: &ResolvedPath, arguments: &EditArguments) -> String {
    let lines = |text: &str| text.lines().count();
    let (old, new) = (lines(&arguments.old_text), lines(&arguments.new_text));
    format!("edited {}: {old} lines became {new}\n", path.shown)
}

/// The file after the edit, with both states.
fn edited(path: &ResolvedPath, arguments: &EditArguments, cancel: &Cancel) -> Result<(FileChange, String), ToolError> {
    let file = TextFile::read("edit", path)?;
    let text = replaced(&file.text, &arguments.old_text, &arguments.new_text, cancel);
    cancel.check()?;
    let text = text.map_err(|reason| ToolError::NoFit { path: path.shown.clone(), reason })?;
    Ok((FileChange::to(file.state, text.as_bytes()), text))
}

/// The text with the one occurrence of `old` replaced. The error says why there is not exactly one.
fn replaced(text: &str, old: &str, new: &str, cancel: &Cancel) -> Result<String, String> {
    if old == new {
        return Err("`old_text` and `new_text` are the same".to_owned());
    }
    // Try the line ends of the file first. If the file mixes two kinds, also try the piece as given and the other kind.
    let line_end = line_end(text);
    let ways = [Some(line_end), None, Some(if line_end == "\n" { "\r\n" } else { "\n" })];
    for way in ways {
        let as_file = |piece: &str| way.map_or(piece.to_owned(), |end| with_line_ends(piece, end));
        let old = as_file(old);
        match &places(text, &old)[..] {
            [] => {}
            [at] => return Ok([&text[..*at], &as_file(new), &text[at + old.len()..]].concat()),
            several => return Err(ambiguous(text, several)),
        }
    }
    Err(format!(
        "`old_text` is not in the file; {}\nGive the text exactly as it is in the file, white space included",
        nearest(text, old, cancel)
    ))
}

/// The offsets at which `piece` begins, overlapping occurrences included.
fn places(text: &str, piece: &str) -> Vec<usize> {
    let mut places = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find(piece) {
        places.push(from + at);
        from = text.ceil_char_boundary(from + at + 1);
    }
    places
}

fn ambiguous(text: &str, places: &[usize]) -> String {
    let line = |at: &usize| (text[..*at].matches('\n').count() + 1).to_string();
    let lines: Vec<String> = places.iter().take(LISTED_LINES).map(line).collect();
    let rest = if places.len() > LISTED_LINES { ", …" } else { "" };
    format!(
        "`old_text` is in the file {} times, at lines {}{rest}; include more of the text around the one that you mean",
        places.len(),
        lines.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_occurrence_is_replaced_and_the_rest_stays_byte_for_byte() {
        for (text, old, new, expected) in [
            ("a\nb\nc\n", "b\n", "x\ny\n", "a\nx\ny\nc\n"),
            ("a\r\nb\r\nc\r\n", "a\nb", "a\nx\nb", "a\r\nx\r\nb\r\nc\r\n"),
            ("a\r\nb\r\n", "b\r\n", "", "a\r\n"),
            ("\u{feff}a\nb", "a", "ü", "\u{feff}ü\nb"),
            ("a\nb\r\nc\n", "b\nc", "x\ny", "a\nx\r\ny\n"),
            ("a\nb\r\nc\n", "b\r\nc", "x", "a\nx\n"),
            ("no end", "end", "more", "no more"),
        ] {
            assert_eq!(replaced(text, old, new, &Cancel::default()).as_deref(), Ok(expected), "{text:?} {old:?}");
        }
    }

    #[test]
    fn an_edit_that_does_not_fit_reports_the_nearest_text() {
        let text = "fn one() {\n    1\n}\n\nfn two() {\n\t2\n}\n";
        for (old, parts) in [
            ("}\n", &["2 times, at lines 3, 7", "include more"][..]),
            ("fn two() {\n    2\n}", &["not in the file", "\n5: fn two() {\n6: \t2\n7: }"]),
            ("fn tow() {", &["the nearest text:\n5: fn two() {"]),
            ("something else entirely", &["no similar text"]),
            ("\n\n\n", &["blank"]),
        ] {
            let reason = replaced(text, old, "new", &Cancel::default()).unwrap_err();
            for part in parts {
                assert!(reason.contains(part), "{old:?}: {reason}");
            }
        }
        let reason = |text, old, new| replaced(text, old, new, &Cancel::default()).unwrap_err();
        assert!(reason("aaa", "aa", "b").contains("2 times"), "overlapping occurrences count");
        assert!(reason("a", "a", "a").contains("the same"));
    }
}
