//! The tool `grep`: searches a regular expression in the files of a folder, in the order of their paths.

use std::fmt::Write as _;

use engine::{ToolClass, ToolSpec};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use rustix::fs::FileType;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cancel::Cancel;
use crate::error::ToolError;
use crate::file_call::{At, FileCall};
use crate::limits::{GREP_HEAP_BYTES, GREP_LINE_BYTES, GREP_MATCHES, PATTERN_BYTES};
use crate::paths::{ResolvedPath, Workspace};
use crate::tool::{Act, ParsedCall, Tool};
use crate::tool_result::ToolText;
use crate::tool_set::{self, spec};
use crate::walk::{self, Hidden};

/// The tool.
pub(crate) struct Grep;

impl Tool for Grep {
    fn spec(&self, _timeout_s: u64) -> ToolSpec {
        spec(
            "grep",
            ToolClass::ReadOnly,
            "Search text in files, as `path:line: text`. Leaves out hidden, binary and git-ignored files. At most 200 matches.",
            &json!({
                "pattern": { "type": "string", "minLength": 1, "description": "A regular expression (Rust syntax)." },
                "path": { "type": "string", "minLength": 1, "description": "File or folder; the workspace if left out." },
                "glob": { "type": "string", "minLength": 1, "description": "Only files that match, for example `*.rs`." },
                "ignore_case": { "type": "boolean", "description": "Whether upper and lower case are the same." },
            }),
            &["pattern"],
        )
    }

    fn call(&self, arguments: Value) -> Result<ParsedCall, ToolError> {
        Ok(ParsedCall::files(tool_set::arguments::<GrepArguments>("grep", arguments)?))
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct GrepArguments {
    pattern: String,
    #[serde(default = "tool_set::here")]
    path: String,
    glob: Option<String>,
    #[serde(default)]
    ignore_case: bool,
}

impl FileCall for GrepArguments {
    fn acts(&self, workspace: &Workspace) -> Result<Vec<Act>, ToolError> {
        Ok(vec![Act::Read { verb: "search", path: workspace.resolve(&self.path)? }])
    }

    fn run(&self, at: &At<'_>, cancel: &Cancel) -> Result<ToolText, ToolError> {
        run(&at.workspace()?, self, cancel).map(ToolText::from)
    }
}

fn run(workspace: &Workspace, arguments: &GrepArguments, cancel: &Cancel) -> Result<String, ToolError> {
    let path = workspace.reach(&arguments.path)?;
    let matcher = matcher(arguments)?;
    let mut searcher = SearcherBuilder::new()
        .line_number(true)
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(GREP_HEAP_BYTES))
        .build();
    let mut found = Matches { cancel, shown: String::new(), text: String::new(), count: 0 };
    let mut unread = 0_u32;
    for file in files(workspace, &path, arguments.glob.as_deref(), cancel)? {
        cancel.check()?;
        let result = file.and_then(|file| {
            let (opened, _) = file.open_file("search")?;
            found.shown = file.shown;
            searcher.search_file(&matcher, &opened, &mut found).map_err(ToolError::file("search", found.shown.clone()))
        });
        // What belongs to limulus is left out, not reported: an error would say what is there.
        unread += u32::from(result.is_err_and(|error| !error.is_own()));
        if found.is_full() {
            break;
        }
    }
    cancel.check()?;
    Ok(found.into_text(unread))
}

/// The files to search: the given file, or those below the given folder.
fn files<'a>(
    workspace: &'a Workspace,
    path: &'a ResolvedPath,
    glob: Option<&str>,
    cancel: &Cancel,
) -> Result<Box<dyn Iterator<Item = Result<ResolvedPath, ToolError>> + 'a>, ToolError> {
    let seen = path.look().map_err(ToolError::file("search", path.shown.clone()))?;
    if seen.kind == FileType::RegularFile {
        return Ok(Box::new(std::iter::once(Ok(path.clone()))));
    }
    let entries = walk::entries(workspace, path, glob, Hidden::LeftOut, cancel)?;
    // Links are not followed, so the search stays in the folder; pipes and devices are not opened.
    let is_file = |entry: &Result<walk::Entry, ToolError>| entry.as_ref().map_or(true, |entry| entry.is_file);
    Ok(Box::new(entries.filter(is_file).map(|entry| entry.map(|entry| entry.path))))
}

fn matcher(arguments: &GrepArguments) -> Result<RegexMatcher, ToolError> {
    if arguments.pattern.len() > PATTERN_BYTES {
        return Err(ToolError::Pattern { reason: format!("it has more than {PATTERN_BYTES} bytes") });
    }
    let mut builder = RegexMatcherBuilder::new();
    let builder = builder.case_insensitive(arguments.ignore_case).line_terminator(Some(b'\n'));
    builder.build(&arguments.pattern).map_err(|error| ToolError::Pattern { reason: error.to_string() })
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
