//! Applies hunks to a text, each after the one before, at the first position where its lines occur. Unchanged lines
//! stay byte for byte; added lines get the line ends of the file.

use crate::patch::{Hunk, HunkLine};
use crate::text::{line_end, nearest};

/// The byte order mark.
const MARK: char = '\u{feff}';

/// Returns the text with these hunks applied. The error names the hunk, counted from 1, and says why it does not fit.
pub(crate) fn apply(text: &str, hunks: &[Hunk]) -> Result<String, String> {
    let (mark, body) = text.strip_prefix(MARK).map_or(("", text), |body| (&text[..MARK.len_utf8()], body));
    let lines: Vec<&str> = body.split_inclusive('\n').collect();
    let mut writer = Writer { text: mark.to_owned(), line_end: line_end(body) };
    let mut from = 0;
    for (number, hunk) in hunks.iter().enumerate() {
        let place = place(&lines, from, hunk);
        let at = place.map_err(|reason| format!("hunk {} does not fit: {reason}", number + 1))?;
        writer.keep(&lines[from..at]);
        from = at;
        for line in &hunk.lines {
            match line {
                HunkLine::Added(line) => writer.add(line),
                HunkLine::Kept(_) => writer.keep(&lines[from..=from]),
                HunkLine::Removed(_) => {}
            }
            from += usize::from(!matches!(line, HunkLine::Added(_)));
        }
    }
    writer.keep(&lines[from..]);
    Ok(writer.text)
}

struct Writer {
    text: String,
    line_end: &'static str,
}

impl Writer {
    fn keep(&mut self, lines: &[&str]) {
        for line in lines {
            self.end_line();
            self.text.push_str(line);
        }
    }

    fn add(&mut self, line: &str) {
        self.end_line();
        self.text.push_str(line);
        self.text.push_str(self.line_end);
    }

    /// Adds a line end if the last line lacks one.
    fn end_line(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with(['\n', MARK]) {
            self.text.push_str(self.line_end);
        }
    }
}

/// The line at which a hunk begins, counted from 0.
fn place(lines: &[&str], from: usize, hunk: &Hunk) -> Result<usize, String> {
    let mut from = from;
    for anchor in &hunk.anchors {
        let found = seek(lines, from, &[anchor.as_str()], false);
        from = found.ok_or_else(|| format!("no line `{anchor}` follows; {}", nearest(&lines.concat(), anchor)))? + 1;
    }
    let there: Vec<&str> = hunk
        .lines
        .iter()
        .filter_map(|line| match line {
            HunkLine::Kept(line) | HunkLine::Removed(line) => Some(line.as_str()),
            HunkLine::Added(_) => None,
        })
        .collect();
    match seek(lines, from, &there, hunk.at_end) {
        // A hunk without anchors that only adds lines goes to the end.
        Some(_) if there.is_empty() && hunk.anchors.is_empty() => Ok(lines.len()),
        Some(at) => Ok(at),
        None => {
            let wanted = there.join("\n");
            Err(format!(
                "these lines do not occur there, or not in this order:\n{wanted}\n{}",
                nearest(&lines.concat(), &wanted)
            ))
        }
    }
}

/// Finds these lines from line `from` on: exact matches first, then matches that differ only in trailing white space.
fn seek(lines: &[&str], from: usize, wanted: &[&str], at_end: bool) -> Option<usize> {
    let last = lines.len().checked_sub(wanted.len())?;
    let from = if at_end { from.max(last) } else { from };
    let place = |same: fn(&str, &str) -> bool| {
        (from..=last).find(|at| lines[*at..].iter().zip(wanted).all(|(line, wanted)| same(line, wanted)))
    };
    place(|line, wanted| line.trim_end_matches(['\n', '\r']) == wanted)
        .or_else(|| place(|line, wanted| line.trim_end() == wanted.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patch::{FileAct, parse};

    fn patched(text: &str, hunks: &str) -> Result<String, String> {
        let acts = parse(&format!("*** Begin Patch\n*** Update File: f\n{hunks}\n*** End Patch")).unwrap();
        let [FileAct::Update { hunks, .. }] = &acts[..] else { panic!("one update") };
        apply(text, hunks)
    }

    #[test]
    fn hunks_change_what_they_name_and_nothing_else() {
        for (text, hunks, expected) in [
            ("a\nb\nc\n", "@@\n a\n-b\n+x\n+y\n c", "a\nx\ny\nc\n"),
            ("a\nb\nc\n", "-b", "a\nc\n"),
            ("a\nb\na\nb\n", "@@\n-b\n+1\n@@\n-b\n+2", "a\n1\na\n2\n"),
            ("f\nx\ng\nx\n", "@@ g\n-x\n+y", "f\nx\ng\ny\n"),
            ("m\nf\nx\nn\nf\nx\n", "@@ n\n@@ f\n-x\n+y", "m\nf\nx\nn\nf\ny\n"),
            ("x\ny\nx\n", "@@\n-x\n+z\n*** End of File", "x\ny\nz\n"),
            ("a\n", "@@\n+b", "a\nb\n"),
            ("a", "@@\n+b", "a\nb\n"),
            ("a\nb", "@@\n-a\n b", "b"),
            ("", "@@\n+a", "a\n"),
            ("f\ng\n", "@@ f\n+new", "f\nnew\ng\n"),
            ("a\r\nb\r\n", "@@\n a\n+x\n b", "a\r\nx\r\nb\r\n"),
            ("\u{feff}a\nb\n", "@@\n-a\n+x", "\u{feff}x\nb\n"),
            ("a  \nb\n", "@@\n a\n-b\n+c", "a  \nc\n"),
            ("a\n\nb\n", "@@\n a\n\n-b\n+c", "a\n\nc\n"),
        ] {
            assert_eq!(patched(text, hunks).as_deref(), Ok(expected), "{text:?} {hunks:?}");
        }
    }

    #[test]
    fn a_hunk_that_does_not_fit_is_named() {
        for (text, hunks, parts) in [
            ("alpha\nbeta\n", "@@\n-alpha\n+x\n@@\n-alpha\n+y", &["hunk 2", "the nearest text", "1: alpha"][..]),
            ("alpha\nbeta\n", "@@ gamma\n+x", &["hunk 1", "no line `gamma` follows"]),
            ("alpha\nbeta\n", "@@\n-beta\n-alpha", &["hunk 1", "not in this order:\nbeta\nalpha"]),
            ("a\n", "@@\n a\n b\n c", &["hunk 1"]),
        ] {
            let reason = patched(text, hunks).unwrap_err();
            for part in parts {
                assert!(reason.contains(part), "{hunks:?}: {reason}");
            }
        }
    }
}
