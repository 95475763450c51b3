//! The tool `ls`: what is in a folder.

use std::fs::{self, DirEntry};
use std::path::Path;

use crate::cancel::Cancel;
use crate::error::ToolError;
use crate::invocation::LsArguments;
use crate::limits::LIST_ENTRIES;
use crate::paths;

pub(crate) fn run(workspace: &Path, arguments: &LsArguments, cancel: &Cancel) -> Result<String, ToolError> {
    let path = paths::resolve(workspace, &arguments.path)?;
    let metadata = fs::metadata(&path.real).map_err(ToolError::file("list", path.shown.clone()))?;
    if !metadata.is_dir() {
        return Err(ToolError::IsFile { path: path.shown });
    }
    let mut entries = Vec::new();
    for entry in fs::read_dir(&path.real).map_err(ToolError::file("list", path.shown.clone()))? {
        cancel.check()?;
        entries.push(entry.map_err(ToolError::file("list", path.shown.clone()))?);
    }
    entries.sort_by_key(DirEntry::file_name);
    if entries.is_empty() {
        return Ok(format!("{} is empty\n", path.shown));
    }
    let text: String = entries.iter().take(LIST_ENTRIES).map(line).collect();
    Ok(match entries.len().saturating_sub(LIST_ENTRIES) {
        0 => text,
        rest => text + &format!("[{rest} more entries left out; search with grep, or list with a command]\n"),
    })
}

/// One entry: a folder ends with a slash, a link says where it leads, a file has its size.
fn line(entry: &DirEntry) -> String {
    let name = entry.file_name();
    let name = name.to_string_lossy();
    match entry.metadata() {
        Ok(found) if found.is_dir() => format!("{name}/\n"),
        Ok(found) if found.is_symlink() => match fs::read_link(entry.path()) {
            Ok(target) => format!("{name} -> {}\n", target.display()),
            Err(_) => format!("{name} (a link)\n"),
        },
        Ok(found) if found.is_file() => format!("{name}  {} bytes\n", found.len()),
        _ => format!("{name} (neither file nor folder)\n"),
    }
}
