//! The tool `find`: lists files and folders whose path matches a glob, in the order of their paths.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use engine::{ToolClass, ToolSpec};
use globset::{GlobBuilder, GlobSet};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cancel::Cancel;
use crate::error::ToolError;
use crate::file_call::{At, FileCall};
use crate::limits::FOUND_PATHS;
use crate::paths::Workspace;
use crate::tool::{Act, ParsedCall, Tool};
use crate::tool_result::ToolText;
use crate::tool_set::{self, spec};
use crate::walk::{self, Hidden, Matching};

/// The tool.
pub(crate) struct Find;

impl Tool for Find {
    fn spec(&self, _timeout_s: u64) -> ToolSpec {
        spec(
            "find",
            ToolClass::ReadOnly,
            "Find files and folders by name, sorted. Leaves out git-ignored ones, and hidden ones unless the pattern names them.",
            &json!({
                "pattern": { "type": "string", "minLength": 1, "description": "A glob: `*.rs` for names anywhere, `src/**/*.rs` for paths below `path`." },
                "path": { "type": "string", "minLength": 1, "description": "The folder; the workspace if left out." },
            }),
            &["pattern"],
        )
    }

    fn call(&self, arguments: Value) -> Result<ParsedCall, ToolError> {
        Ok(ParsedCall::files(tool_set::arguments::<FindArguments>("find", arguments)?))
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct FindArguments {
    pattern: String,
    #[serde(default = "tool_set::here")]
    path: String,
}

impl FileCall for FindArguments {
    fn acts(&self, workspace: &Workspace) -> Result<Vec<Act>, ToolError> {
        Ok(vec![Act::Read { verb: "search", path: workspace.resolve(&self.path)? }])
    }

    fn run(&self, at: &At<'_>, cancel: &Cancel) -> Result<ToolText, ToolError> {
        run(&at.workspace()?, self, cancel).map(ToolText::from)
    }
}

fn run(workspace: &Workspace, arguments: &FindArguments, cancel: &Cancel) -> Result<String, ToolError> {
    let folder = workspace.reach(&arguments.path)?;
    folder.open_folder("search")?;
    let (matcher, hidden) = (matcher(&arguments.pattern)?, hidden(&arguments.pattern));
    let root = folder.real.as_os_str().as_bytes();
    let below = |path: &Path| {
        let rest = path.as_os_str().as_bytes().strip_prefix(root).unwrap_or_default();
        matcher.is_match(OsStr::from_bytes(rest.strip_prefix(b"/").unwrap_or(rest)))
    };
    let Matching { entries, is_cut, mut unread } =
        walk::matching(workspace, &folder, hidden, FOUND_PATHS, cancel, &below)?;
    let mut lines = Vec::new();
    for entry in entries {
        // Do not name an entry that cannot be opened below the folder: a link may have led the walk elsewhere.
        let path = workspace.below(&folder, &entry.real);
        match path.look().map_err(ToolError::file("search", path.shown.clone())) {
            Ok(seen) => {
                let slash = if seen.kind.is_dir() { "/" } else { "" };
                lines.push(format!("{}{slash}\n", path.shown));
            }
            // What belongs to limulus is left out, not reported: an error would say what is there.
            Err(error) => unread += u32::from(!error.is_own()),
        }
    }
    if is_cut {
        lines.push(format!("[more follow after these {FOUND_PATHS}; narrow the pattern or the path]\n"));
    }
    cancel.check()?;
    if lines.is_empty() {
        lines.push("nothing matches\n".to_owned());
    }
    if unread > 0 {
        lines.push(format!("[{unread} files or folders could not be read]\n"));
    }
    Ok(lines.concat())
}

/// A pattern without a slash matches names in any folder; one with a slash matches whole paths.
fn matcher(pattern: &str) -> Result<GlobSet, ToolError> {
    let wrong = |error: globset::Error| ToolError::Glob { glob: pattern.to_owned(), reason: error.to_string() };
    walk::bounded(pattern)?;
    let whole = pattern.trim_start_matches("./").trim_end_matches('/');
    let whole = if whole.contains('/') { whole.to_owned() } else { format!("**/{whole}") };
    let glob = GlobBuilder::new(&whole).literal_separator(true).build().map_err(wrong)?;
    // A set of one: it compares names and endings, where a matcher would run a regular expression for each path.
    GlobSet::builder().add(glob).build().map_err(wrong)
}

/// Only a pattern that itself names a hidden file or folder finds hidden entries.
fn hidden(pattern: &str) -> Hidden {
    let names_hidden = pattern.split('/').any(|name| name.starts_with('.') && name != "." && name != "..");
    if names_hidden { Hidden::Shown } else { Hidden::LeftOut }
}
