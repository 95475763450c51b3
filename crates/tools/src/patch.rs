//! Parses the patch of `apply_patch`. It accesses no files.
//!
//! ```text
//! *** Begin Patch
//! *** Add File: PATH           then every line of it behind a `+`
//! *** Update File: PATH
//! *** Move to: PATH            if it is to be renamed
//! @@ LINE                      a hunk, behind this line of the file; `@@` alone, or none before the first
//!  kept
//! -removed
//! +added
//! *** End of File              if the hunk is the end of the file
//! *** Delete File: PATH
//! *** End Patch
//! ```

use crate::error::ToolError;

/// One operation on a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileAct {
    Add { path: String, content: String },
    Delete { path: String },
    Update { path: String, moved_to: Option<String>, hunks: Vec<Hunk> },
}

/// One change of a file's text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Hunk {
    /// The lines after which the hunk applies, from the outermost.
    pub(crate) anchors: Vec<String>,
    pub(crate) lines: Vec<HunkLine>,
    /// Whether the hunk must match the end of the file.
    pub(crate) at_end: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HunkLine {
    Kept(String),
    Removed(String),
    Added(String),
}

/// Parses a patch into its acts, in order. The error names the line, counted from 1.
pub(crate) fn parse(patch: &str) -> Result<Vec<FileAct>, ToolError> {
    let lines: Vec<&str> = patch.trim().lines().map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    let mut reader = Reader { lines: &lines, at: 0 };
    if reader.next() != Some("*** Begin Patch") {
        return Err(reader.error("the first line must be `*** Begin Patch`"));
    }
    let mut acts = Vec::new();
    loop {
        let Some(line) = reader.next() else { return Err(reader.error("`*** End Patch` is missing")) };
        if line.trim() == "*** End Patch" {
            break;
        } else if let Some(path) = head(line, "*** Add File:") {
            acts.push(FileAct::Add { path, content: reader.content()? });
        } else if let Some(path) = head(line, "*** Delete File:") {
            acts.push(FileAct::Delete { path });
        } else if let Some(path) = head(line, "*** Update File:") {
            acts.push(reader.update(path)?);
        } else {
            return Err(reader
                .error("expected `*** Add File: …`, `*** Update File: …`, `*** Delete File: …` or `*** End Patch`"));
        }
    }
    match reader.next() {
        Some(_) => Err(reader.error("nothing may follow `*** End Patch`")),
        None if acts.is_empty() => Err(reader.error("it changes nothing")),
        None => Ok(acts),
    }
}

fn head(line: &str, head: &str) -> Option<String> {
    line.strip_prefix(head).map(|path| path.trim().to_owned())
}

struct Reader<'a> {
    lines: &'a [&'a str],
    at: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let line = self.lines.get(self.at).copied();
        self.at += 1;
        line
    }

    /// The next line of the current file's part, without taking it.
    fn peek(&self) -> Option<&'a str> {
        let is_head = |line: &str| line.starts_with("*** ") && line != "*** End of File";
        self.lines.get(self.at).copied().filter(|line| !is_head(line))
    }

    fn error(&self, reason: &str) -> ToolError {
        ToolError::Patch { line: self.at, reason: reason.to_owned() }
    }

    fn content(&mut self) -> Result<String, ToolError> {
        let mut content = String::new();
        while let Some(line) = self.peek() {
            self.at += 1;
            let line = line.strip_prefix('+').ok_or_else(|| self.error("every line of a new file begins with `+`"))?;
            content.push_str(line);
            content.push('\n');
        }
        Ok(content)
    }

    fn update(&mut self, path: String) -> Result<FileAct, ToolError> {
        let moved_to = self.lines.get(self.at).and_then(|line| head(line, "*** Move to:"));
        self.at += usize::from(moved_to.is_some());
        let mut hunks: Vec<Hunk> = Vec::new();
        while let Some(line) = self.peek() {
            self.at += 1;
            self.take(line, &mut hunks)?;
        }
        if hunks.iter().any(|hunk| hunk.lines.is_empty()) {
            return Err(self.error("a hunk has no lines"));
        }
        if hunks.is_empty() && moved_to.is_none() {
            return Err(self.error("an update needs a hunk"));
        }
        Ok(FileAct::Update { path, moved_to, hunks })
    }

    /// Takes one line of an update.
    fn take(&self, line: &str, hunks: &mut Vec<Hunk>) -> Result<(), ToolError> {
        if let Some(anchor) = line.strip_prefix("@@") {
            // Several anchors in a row narrow the position down.
            if hunks.last().is_none_or(|hunk| !hunk.lines.is_empty()) {
                hunks.push(Hunk::default());
            }
            let anchor = anchor.strip_prefix(' ').unwrap_or(anchor).trim_end();
            if let (Some(hunk), false) = (hunks.last_mut(), anchor.is_empty()) {
                hunk.anchors.push(anchor.to_owned());
            }
            return Ok(());
        }
        if hunks.last().is_none_or(|hunk| hunk.at_end) {
            hunks.push(Hunk::default());
        }
        let Some(hunk) = hunks.last_mut() else { return Ok(()) };
        let rest = |line: &str| line[1..].to_owned();
        match line.as_bytes().first() {
            _ if line == "*** End of File" => hunk.at_end = true,
            None => hunk.lines.push(HunkLine::Kept(String::new())),
            Some(b' ') => hunk.lines.push(HunkLine::Kept(rest(line))),
            Some(b'-') => hunk.lines.push(HunkLine::Removed(rest(line))),
            Some(b'+') => hunk.lines.push(HunkLine::Added(rest(line))),
            Some(_) => return Err(self.error("a line of a hunk begins with a blank, `-` or `+`")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_parsed() {
        let patch = "*** Begin Patch\n*** Add File: a/new.txt\n+one\n+\n*** Update File: b.rs\n*** Move to: c.rs\n@@ mod x\n@@ fn f\n \
                     kept\n-old\n+new\n\n@@\n+last\n*** End of File\n*** Delete File: gone\n*** End Patch\n";
        let text = str::to_owned;
        let acts = vec![
            FileAct::Add { path: text("a/new.txt"), content: text("one\n\n") },
            FileAct::Update {
                path: text("b.rs"),
                moved_to: Some(text("c.rs")),
                hunks: vec![
                    Hunk {
                        anchors: vec![text("mod x"), text("fn f")],
                        lines: vec![
                            HunkLine::Kept(text("kept")),
                            HunkLine::Removed(text("old")),
                            HunkLine::Added(text("new")),
                            HunkLine::Kept(text("")),
                        ],
                        at_end: false,
                    },
                    Hunk { anchors: vec![], lines: vec![HunkLine::Added(text("last"))], at_end: true },
                ],
            },
            FileAct::Delete { path: text("gone") },
        ];
        assert_eq!(parse(patch).unwrap(), acts);
        assert_eq!(parse(&patch.replace('\n', "\r\n")).unwrap(), acts);
    }

    #[test]
    fn an_invalid_patch_is_refused_with_line_and_reason() {
        for (patch, line, reason) in [
            ("", 1, "Begin Patch"),
            ("*** Begin Patch\n*** Add File: a\n+x", 4, "End Patch"),
            ("*** Begin Patch\n*** End Patch", 3, "changes nothing"),
            ("*** Begin Patch\n*** Add File: a\nx\n*** End Patch", 3, "begins with `+`"),
            ("*** Begin Patch\n*** Update File: a\n*** End Patch", 2, "needs a hunk"),
            ("*** Begin Patch\n*** Update File: a\n@@ x\n*** End Patch", 3, "no lines"),
            ("*** Begin Patch\n*** Update File: a\nx\n*** End Patch", 3, "blank, `-` or `+`"),
            ("*** Begin Patch\nhello\n*** End Patch", 2, "expected `*** Add File"),
            ("*** Begin Patch\n*** Delete File: a\n*** End Patch\nmore", 4, "nothing may follow"),
        ] {
            let Err(ToolError::Patch { line: found, reason: why }) = parse(patch) else { panic!("{patch:?}") };
            assert!(found == line && why.contains(reason), "{patch:?}: line {found}: {why}");
        }
    }
}
