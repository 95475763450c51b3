//! Applies hunks to a text, each after the one before, at the first position where its lines occur. Unchanged lines
//! stay byte for byte; added lines get the line ends of the file.

use crate::cancel::Cancel;
use crate::limits::{PATCH_STEPS, STEPS_PER_LOOK};
use crate::patch::{Hunk, HunkLine};
use crate::text::{line_end, nearest};

/// The byte order mark.
const MARK: char = '\u{feff}';

/// Returns the text with these hunks applied. The error names the hunk, counted from 1, and says why it does not fit.
/// `search` counts the steps of a whole patch; the error of a cancelled call may say anything.
pub(crate) fn apply(text: &str, hunks: &[Hunk], search: &mut Search) -> Result<String, String> {
    let (mark, body) = text.strip_prefix(MARK).map_or(("", text), |body| (&text[..MARK.len_utf8()], body));
    let lines: Vec<Line> = body.split_inclusive('\n').map(Line::new).collect();
    let mut writer = Writer { text: mark.to_owned(), line_end: line_end(body) };
    let mut from = 0;
    for (number, hunk) in hunks.iter().enumerate() {
        let place = search.place(&lines, from, hunk);
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
    fn keep(&mut self, lines: &[Line]) {
        for line in lines {
            self.end_line();
            self.text.push_str(line.whole);
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

/// A line of the file, or one that a hunk names.
struct Line<'a> {
    whole: &'a str,
    /// Bytes without the line end.
    exact: usize,
    /// Bytes without trailing white space.
    trimmed: usize,
}

/// How much of a line is compared.
#[derive(Clone, Copy)]
enum Compared {
    Exact,
    Trimmed,
}

impl<'a> Line<'a> {
    fn new(whole: &'a str) -> Self {
        Self { whole, exact: whole.trim_end_matches(['\n', '\r']).len(), trimmed: whole.trim_end().len() }
    }

    fn text(&self, compared: Compared) -> &str {
        match compared {
            Compared::Exact => &self.whole[..self.exact],
            Compared::Trimmed => &self.whole[..self.trimmed],
        }
    }
}

/// The search for the lines of a patch. A patch of a few hundred kilobytes can ask for any number of comparisons with
/// the lines of a large file, so they are counted.
pub(crate) struct Search<'a> {
    cancel: &'a Cancel,
    steps_left: u64,
}

impl<'a> Search<'a> {
    pub(crate) fn new(cancel: &'a Cancel) -> Self {
        Self { cancel, steps_left: PATCH_STEPS }
    }

    /// The line at which a hunk begins, counted from 0.
    fn place(&mut self, lines: &[Line], from: usize, hunk: &Hunk) -> Result<usize, String> {
        let mut from = from;
        for anchor in &hunk.anchors {
            let found = self.seek(lines, from, &[Line::new(anchor)], false)?;
            from = found.ok_or_else(|| format!("no line `{anchor}` follows; {}", self.nearest(lines, anchor)))? + 1;
        }
        let named = hunk.lines.iter().filter_map(|line| match line {
            HunkLine::Kept(line) | HunkLine::Removed(line) => Some(Line::new(line)),
            HunkLine::Added(_) => None,
        });
        let named: Vec<Line> = named.collect();
        match self.seek(lines, from, &named, hunk.at_end)? {
            // A hunk without anchors that only adds lines goes to the end.
            Some(_) if named.is_empty() && hunk.anchors.is_empty() => Ok(lines.len()),
            Some(at) => Ok(at),
            None => {
                let wanted = named.iter().map(|line| line.whole).collect::<Vec<_>>().join("\n");
                let nearest = self.nearest(lines, &wanted);
                Err(format!("these lines do not occur there, or not in this order:\n{wanted}\n{nearest}"))
            }
        }
    }

    fn nearest(&self, lines: &[Line], wanted: &str) -> String {
        nearest(&lines.iter().map(|line| line.whole).collect::<String>(), wanted, self.cancel)
    }

    /// Finds these lines from line `from` on: exact matches first, then matches that differ only in trailing white
    /// space.
    fn seek(&mut self, lines: &[Line], from: usize, wanted: &[Line], at_end: bool) -> Result<Option<usize>, String> {
        let Some(last) = lines.len().checked_sub(wanted.len()) else { return Ok(None) };
        let from = if at_end { from.max(last) } else { from };
        for compared in [Compared::Exact, Compared::Trimmed] {
            for at in from..=last {
                if self.matches(&lines[at..], wanted, compared)? {
                    return Ok(Some(at));
                }
            }
        }
        Ok(None)
    }

    fn matches(&mut self, lines: &[Line], wanted: &[Line], compared: Compared) -> Result<bool, String> {
        for (line, wanted) in lines.iter().zip(wanted) {
            let (line, wanted) = (line.text(compared), wanted.text(compared));
            // Texts of different lengths are not compared.
            let bytes = if line.len() == wanted.len() { line.len() as u64 } else { 0 };
            self.step(1 + bytes / 64)?;
            if line != wanted {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn step(&mut self, steps: u64) -> Result<(), String> {
        let looks = self.steps_left / STEPS_PER_LOOK;
        let left = self.steps_left.checked_sub(steps).ok_or_else(|| {
            "its lines take too long to find in this file; split the patch, or write the file anew with `write`"
                .to_owned()
        })?;
        self.steps_left = left;
        if left / STEPS_PER_LOOK != looks && self.cancel.is_set() { Err("cancelled".to_owned()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patch::{FileAct, parse};

    fn patched(text: &str, hunks: &str) -> Result<String, String> {
        let acts = parse(&format!("*** Begin Patch\n*** Update File: f\n{hunks}\n*** End Patch")).unwrap();
        let [FileAct::Update { hunks, .. }] = &acts[..] else { panic!("one update") };
        apply(text, hunks, &mut Search::new(&Cancel::default()))
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

    /// A patch of 200 KB on a file of 8 MB asked for 4·10¹¹ comparisons.
    #[test]
    fn r15_a_search_that_cannot_end_soon_is_refused_or_cancelled() {
        let text = "a\n".repeat(1 << 20);
        let hunks = "@@\n".to_owned() + &" a\n".repeat(50_000) + " b";
        let reason = patched(&text, &hunks).unwrap_err();
        assert!(
            reason.contains("hunk 1") && reason.contains("split the patch"),
            "{}",
            &reason[..200.min(reason.len())]
        );
        // It ends after as many steps as are between two looks.
        let acts = parse(&format!("*** Begin Patch\n*** Update File: f\n{hunks}\n*** End Patch")).unwrap();
        let [FileAct::Update { hunks, .. }] = &acts[..] else { panic!("one update") };
        let cancel = Cancel::cancelled();
        let mut search = Search::new(&cancel);
        apply(&text, hunks, &mut search).unwrap_err();
        assert!(PATCH_STEPS - search.steps_left <= STEPS_PER_LOOK, "{}", search.steps_left);
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
