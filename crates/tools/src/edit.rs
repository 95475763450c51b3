//! The tool `edit`: one piece of a text file, found exactly and once, is replaced. Line ends and byte order mark stay.

use engine::{EffectId, Found};

use crate::cancel::Cancel;
use crate::change::{self, Change};
use crate::error::ToolError;
use crate::evidence::{Evidence, FileChange};
use crate::invocation::EditArguments;
use crate::limits::LISTED_LINES;
use crate::paths::{ResolvedPath, Workspace};
use crate::text::{TextFile, line_end, nearest, with_line_ends};

/// What the file is, and what it is to become; nothing if the edit does not fit: then its run says why.
pub(crate) fn states(path: &ResolvedPath, arguments: &EditArguments) -> Vec<FileChange> {
    edited(path, arguments).map_or(vec![], |(states, _)| vec![states])
}

pub(crate) fn run(
    workspace: &Workspace,
    id: EffectId,
    arguments: &EditArguments,
    evidence: &Evidence,
    cancel: &Cancel,
) -> Result<String, ToolError> {
    let path = workspace.reach(&arguments.path)?;
    let done = done(&path, arguments);
    let known = evidence.files.first();
    if let Some(known) = known
        && path.state("edit")? == known.after
    {
        return Ok(done);
    }
    let (states, content) = edited(&path, arguments)?;
    let known = *known.ok_or_else(|| ToolError::Unchecked { path: path.shown.clone() })?;
    if states != known {
        return Err(change::conflict(&path, known.before, states.before));
    }
    change::apply("edit", id, &[Change { path, states, content: Some(content.into()) }], cancel)?;
    Ok(done)
}

/// What became of it, and for Ended what the model is told.
pub(crate) fn find(
    workspace: &Workspace,
    id: EffectId,
    arguments: &EditArguments,
    evidence: &Evidence,
) -> Result<(Found, String), ToolError> {
    let path = workspace.reach(&arguments.path)?;
    // One that did not fit has changed nothing.
    let Some(states) = evidence.files.first().copied() else { return Ok((Found::NeverStarted, String::new())) };
    let done = done(&path, arguments);
    Ok((change::find("edit", id, &[(path, states)])?, done))
}

fn done(path: &ResolvedPath, arguments: &EditArguments) -> String {
    let lines = |text: &str| text.lines().count();
    let (old, new) = (lines(&arguments.old_text), lines(&arguments.new_text));
    format!("edited {}: {old} lines became {new}\n", path.shown)
}

/// The file as it is to be.
fn edited(path: &ResolvedPath, arguments: &EditArguments) -> Result<(FileChange, String), ToolError> {
    let file = TextFile::read("edit", path)?;
    let text = replaced(&file.text, &arguments.old_text, &arguments.new_text);
    let text = text.map_err(|reason| ToolError::NoFit { path: path.shown.clone(), reason })?;
    Ok((FileChange::to(file.state, text.as_bytes()), text))
}

/// The text with the one place of `old` replaced; the error says why there is not one.
fn replaced(text: &str, old: &str, new: &str) -> Result<String, String> {
    if old == new {
        return Err("`old_text` and `new_text` are the same".to_owned());
    }
    // As the file ends its lines; where it does so in two ways, as it was given or the other way.
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
        "`old_text` is not in it; {}\nGive the text exactly as it stands there, white space included",
        nearest(text, old)
    ))
}

/// Where `piece` begins, those that overlap included.
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
        "`old_text` is in it {} times, at lines {}{rest}; give more of what stands around the one that you mean",
        places.len(),
        lines.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_place_is_replaced_and_the_rest_stays_byte_for_byte() {
        for (text, old, new, expected) in [
            ("a\nb\nc\n", "b\n", "x\ny\n", "a\nx\ny\nc\n"),
            ("a\r\nb\r\nc\r\n", "a\nb", "a\nx\nb", "a\r\nx\r\nb\r\nc\r\n"),
            ("a\r\nb\r\n", "b\r\n", "", "a\r\n"),
            ("\u{feff}a\nb", "a", "ü", "\u{feff}ü\nb"),
            ("a\nb\r\nc\n", "b\nc", "x\ny", "a\nx\r\ny\n"),
            ("a\nb\r\nc\n", "b\r\nc", "x", "a\nx\n"),
            ("no end", "end", "more", "no more"),
        ] {
            assert_eq!(replaced(text, old, new).as_deref(), Ok(expected), "{text:?} {old:?}");
        }
    }

    #[test]
    fn what_does_not_fit_says_what_is_there() {
        let text = "fn one() {\n    1\n}\n\nfn two() {\n\t2\n}\n";
        for (old, parts) in [
            ("}\n", &["2 times, at lines 3, 7", "give more"][..]),
            ("fn two() {\n    2\n}", &["not in it", "\n5: fn two() {\n6: \t2\n7: }"]),
            ("fn tow() {", &["nearest to it:\n5: fn two() {"]),
            ("something else entirely", &["nothing in it is like it"]),
            ("\n\n\n", &["blank"]),
        ] {
            let reason = replaced(text, old, "new").unwrap_err();
            for part in parts {
                assert!(reason.contains(part), "{old:?}: {reason}");
            }
        }
        assert!(replaced("aaa", "aa", "b").unwrap_err().contains("2 times"), "also where they overlap");
        assert!(replaced("a", "a", "a").unwrap_err().contains("the same"));
    }
}
