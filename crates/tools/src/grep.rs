//! The tool `grep`: a regular expression in the files of a folder, in the order of their paths.

use std::fmt::Write as _;
use std::path::Path;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use ignore::overrides::OverrideBuilder;
use ignore::{Walk, WalkBuilder};

use crate::cancel::Cancel;
use crate::error::ToolError;
use crate::invocation::GrepArguments;
use crate::limits::{GREP_HEAP_BYTES, GREP_LINE_BYTES, GREP_MATCHES};
use crate::paths::{self, ResolvedPath};

pub(crate) fn run(workspace: &Path, arguments: &GrepArguments, cancel: &Cancel) -> Result<String, ToolError> {
    let path = paths::resolve(workspace, &arguments.path)?;
    std::fs::metadata(&path.real).map_err(ToolError::file("search", path.shown.clone()))?;
    let root = paths::workspace(workspace)?;
    let matcher = matcher(arguments)?;
    let mut searcher = SearcherBuilder::new()
        .line_number(true)
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(GREP_HEAP_BYTES))
        .build();
    let mut found = Matches { cancel, shown: String::new(), text: String::new(), count: 0 };
    let mut unread = 0_u32;
    for entry in walk(&path, arguments.glob.as_deref())? {
        cancel.check()?;
        let Ok(entry) = entry else {
            unread += 1;
            continue;
        };
        // Links are not followed, so the search stays where it began; pipes and devices are not opened.
        if !entry.file_type().is_some_and(|kind| kind.is_file()) {
            continue;
        }
        found.shown = entry.path().strip_prefix(&root).unwrap_or(entry.path()).display().to_string();
        if searcher.search_path(&matcher, entry.path(), &mut found).is_err() {
            unread += 1;
        }
        if found.is_full() {
            break;
        }
    }
    cancel.check()?;
    Ok(found.into_text(unread))
}

fn matcher(arguments: &GrepArguments) -> Result<RegexMatcher, ToolError> {
    let mut builder = RegexMatcherBuilder::new();
    let builder = builder.case_insensitive(arguments.ignore_case).line_terminator(Some(b'\n'));
    builder.build(&arguments.pattern).map_err(|error| ToolError::Pattern { reason: error.to_string() })
}

fn walk(path: &ResolvedPath, glob: Option<&str>) -> Result<Walk, ToolError> {
    let mut builder = WalkBuilder::new(&path.real);
    builder.require_git(false).sort_by_file_path(Path::cmp);
    if let Some(glob) = glob {
        let wrong = |error: ignore::Error| ToolError::Glob { glob: glob.to_owned(), reason: error.to_string() };
        let mut overrides = OverrideBuilder::new(&path.real);
        overrides.add(glob).map_err(wrong)?;
        builder.overrides(overrides.build().map_err(wrong)?);
    }
    Ok(builder.build())
}

/// The matches so far.
struct Matches<'a> {
    cancel: &'a Cancel,
    /// The file that is being searched.
    shown: String,
    text: String,
    count: usize,
}

impl Matches<'_> {
    fn is_full(&self) -> bool {
        self.count >= GREP_MATCHES
    }

    fn into_text(self, unread: u32) -> String {
        let none = if self.count == 0 { "no matches\n" } else { "" };
        let stopped = if self.is_full() {
            format!("[stopped after {GREP_MATCHES} matches; narrow the pattern, the path or the glob]\n")
        } else {
            String::new()
        };
        let missed =
            if unread > 0 { format!("[{unread} files or folders could not be read]\n") } else { String::new() };
        self.text + none + &stopped + &missed
    }
}

impl Sink for Matches<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        let line = String::from_utf8_lossy(found.bytes());
        let line = line.trim_end_matches(['\r', '\n']);
        let shown = &line[..line.floor_char_boundary(GREP_LINE_BYTES)];
        let rest = if shown.len() < line.len() { " […]" } else { "" };
        let number = found.line_number().unwrap_or(0);
        writeln!(self.text, "{}:{number}: {shown}{rest}", self.shown).map_err(std::io::Error::other)?;
        self.count += 1;
        Ok(!self.is_full() && !self.cancel.is_set())
    }
}
