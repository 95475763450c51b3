//! The tool `ls`: lists a folder.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;

use engine::{ToolClass, ToolSpec};
use rustix::fs::{FileType, readlinkat};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cancel::Cancel;
use crate::error::ToolError;
use crate::file_call::{At, FileCall};
use crate::guard::Seen;
use crate::limits::LIST_ENTRIES;
use crate::paths::Workspace;
use crate::tool::{Act, ParsedCall, Tool};
use crate::tool_result::ToolText;
use crate::tool_set::{self, spec};
use crate::{guard, openat};

/// The tool.
pub(crate) struct Ls;

impl Tool for Ls {
    fn spec(&self, _timeout_s: u64) -> ToolSpec {
        spec(
            "ls",
            ToolClass::ReadOnly,
            "List a folder: names in order, folders with a trailing slash, files with their size in bytes.",
            &json!({
                "path": { "type": "string", "minLength": 1, "description": "The folder; the workspace if left out." },
            }),
            &[],
        )
    }

    fn call(&self, arguments: Value) -> Result<ParsedCall, ToolError> {
        Ok(ParsedCall::files(tool_set::arguments::<LsArguments>("ls", arguments)?))
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct LsArguments {
    #[serde(default = "tool_set::here")]
    path: String,
}

impl FileCall for LsArguments {
    fn acts(&self, workspace: &Workspace) -> Result<Vec<Act>, ToolError> {
        Ok(vec![Act::Read { verb: "list", path: workspace.resolve(&self.path)? }])
    }

    fn run(&self, at: &At<'_>, cancel: &Cancel) -> Result<ToolText, ToolError> {
        run(&at.workspace()?, self, cancel).map(ToolText::from)
    }
}

fn run(workspace: &Workspace, arguments: &LsArguments, cancel: &Cancel) -> Result<String, ToolError> {
    let path = workspace.reach(&arguments.path)?;
    let folder = path.open_folder("list")?;
    let mut names = openat::list(&folder).map_err(ToolError::file("list", path.shown.clone()))?;
    names.sort();
    if names.is_empty() {
        return Ok(format!("{} is empty\n", path.shown));
    }
    let mut text = String::new();
    for name in names.iter().take(LIST_ENTRIES) {
        cancel.check()?;
        let name = OsStr::from_bytes(name);
        // Neither the size of a key nor what a link of the home leads to is shown.
        let shown = match path.guard.entry_of_judged(&folder, name) {
            Err(error) if guard::is_hidden(&error) => format!("{} (hidden by the sandbox)\n", name.to_string_lossy()),
            Err(error) if guard::is_own(&error) => format!("{} (of limulus itself)\n", name.to_string_lossy()),
            found => line(&folder, name, found.ok().flatten()),
        };
        text += &shown;
    }
    Ok(match names.len().saturating_sub(LIST_ENTRIES) {
        0 => text,
        rest => text + &format!("[{rest} more entries left out; search with grep, or list with a command]\n"),
    })
}

/// One entry: a folder with a trailing slash, a link with its target, a file with its size.
fn line(folder: &OwnedFd, name: &OsStr, found: Option<Seen>) -> String {
    let shown = name.to_string_lossy();
    let Some(found) = found else {
        return format!("{shown} (gone)\n");
    };
    match found.kind {
        FileType::Directory => format!("{shown}/\n"),
        FileType::RegularFile => format!("{shown}  {} bytes\n", found.bytes),
        FileType::Symlink => match readlinkat(folder, name, Vec::new()) {
            Ok(target) => format!("{shown} -> {}\n", target.to_string_lossy()),
            Err(_) => format!("{shown} (a link)\n"),
        },
        _ => format!("{shown} (neither file nor folder)\n"),
    }
}
