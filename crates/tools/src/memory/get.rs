//! `memory_get`: lines of one file of memory.

use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;

use super::files::{self, MemoryFile, MemoryFiles};
use crate::cancel::Cancel;
use crate::error::ToolError;
use crate::file_call::{At, FileCall};
use crate::limits::{MEMORY_FILE_BYTES, NAMED_FILES, READ_BYTES, READ_LINES};
use crate::paths::Workspace;
use crate::size::size;
use crate::tool::Act;
use crate::tool_result::ToolText;

#[derive(Debug, Deserialize)]
pub(super) struct GetArguments {
    path: String,
    /// The first line, counted from 1.
    #[serde(default = "first")]
    from: usize,
    /// The maximum number of lines.
    lines: Option<usize>,
}

fn first() -> usize {
    1
}

impl FileCall for GetArguments {
    /// The user's own files are in the home, of which only files of memory are read here. Whatever else a path leads to is refused
    /// when the call runs, with the names that there are.
    fn acts(&self, workspace: &Workspace) -> Result<Vec<Act>, ToolError> {
        let path = workspace.resolve(&self.path).ok().filter(|path| path.inside);
        Ok(path.map(|path| Act::Read { verb: "read", path }).into_iter().collect())
    }

    fn run(&self, at: &At<'_>, cancel: &Cancel) -> Result<ToolText, ToolError> {
        let listed = files::list(at, cancel)?;
        let real = at.workspace()?.resolve(&self.path).ok().map(|path| path.real);
        let file = listed.named_as(&self.path, real.as_deref()).ok_or_else(|| self.refused(&listed))?;
        let text = file.text().map_err(|left_out| self.cannot(left_out.why))?;
        let text = at.context.secrets.mask(&text);
        self.page(file, &text).map(ToolText::from)
    }
}

impl GetArguments {
    fn cannot(&self, reason: String) -> ToolError {
        ToolError::Memory { path: self.path.clone(), reason }
    }

    fn refused(&self, listed: &MemoryFiles) -> ToolError {
        if let Some(left_out) = listed.left_out.iter().find(|left_out| left_out.path == self.path) {
            return self.cannot(left_out.why.clone());
        }
        let names: Vec<&str> = listed.files.iter().take(NAMED_FILES).map(|file| file.shown.as_str()).collect();
        let more = listed.files.len() - names.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let there_are = if names.is_empty() { "there are none".to_owned() } else { names.join(", ") };
        self.cannot(format!("it is no file of memory; `read` reads other files. Files of memory: {there_are}{more}"))
    }

    /// The lines that are asked for, as many as fit.
    fn page(&self, file: &MemoryFile, text: &str) -> Result<String, ToolError> {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let most = self.lines.unwrap_or(usize::MAX).min(READ_LINES as usize);
        if lines.is_empty() {
            return Ok(format!("{} is empty\n", file.shown));
        }
        if self.from > lines.len() {
            return Err(self.cannot(format!("`from` {} is past its last line, which is {}", self.from, lines.len())));
        }
        let mut page = String::new();
        let mut next = self.from;
        for line in lines.iter().skip(self.from - 1).take(most) {
            let space = READ_BYTES - page.len();
            if line.len() > space && page.is_empty() {
                page = format!("{} […]\n", &line[..line.floor_char_boundary(space)]);
                next += 1;
            }
            if line.len() > space {
                break;
            }
            page += line;
            next += 1;
        }
        if !page.ends_with('\n') {
            page.push('\n');
        }
        // Writing to a String cannot fail.
        if next <= lines.len() {
            let _ = writeln!(page, "[more lines follow; continue with from={next}]");
        } else if file.is_cut {
            let _ = writeln!(page, "[only the first {} of the file are read]", size(MEMORY_FILE_BYTES));
        }
        Ok(page)
    }
}

impl MemoryFiles {
    /// The file of this name, or to which the same path leads.
    fn named_as(&self, name: &str, real: Option<&Path>) -> Option<&MemoryFile> {
        let name = name.trim_start_matches("./");
        let by_name = self.files.iter().find(|file| file.shown == name);
        by_name.or_else(|| self.files.iter().find(|file| Some(file.path.real.as_path()) == real))
    }
}
