//! The tool `read`: a bounded part of a text file, with a note on how to continue; or an image.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};

use engine::{ToolClass, ToolSpec};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cancel::Cancel;
use crate::error::ToolError;
use crate::file_call::{At, FileCall};
use crate::images::{self, Image};
use crate::limits::{IMAGE_FILE_BYTES, READ_BYTES, READ_LINES, SNIFF_BYTES};
use crate::paths::{ResolvedPath, Workspace};
use crate::size::size;
use crate::tool::{Act, ParsedCall, Tool};
use crate::tool_result::ToolText;
use crate::tool_set::{self, spec};
use crate::{kinds, output};

/// The tool.
pub(crate) struct Read;

impl Tool for Read {
    fn spec(&self, _timeout_s: u64) -> ToolSpec {
        spec(
            "read",
            ToolClass::ReadOnly,
            "Read a text file (UTF-8), an image (PNG, JPEG, GIF, WebP), or an output that was left out (`output:…`). Gives at \
             most 2000 lines or 50 KB at once; go on with `offset`. An image is shown to you.",
            &json!({
                "path": { "type": "string", "minLength": 1, "description": "The file: relative to the workspace, or absolute." },
                "offset": { "type": "integer", "minimum": 1, "description": "The first line to read, from 1." },
                "limit": { "type": "integer", "minimum": 1, "maximum": 2000, "description": "How many lines." },
            }),
            &["path"],
        )
    }

    fn call(&self, arguments: Value) -> Result<ParsedCall, ToolError> {
        Ok(ParsedCall::files(tool_set::arguments::<ReadArguments>("read", arguments)?))
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct ReadArguments {
    path: String,
    /// The first line, counted from 1.
    offset: Option<u64>,
    /// The maximum number of lines.
    limit: Option<u64>,
}

impl FileCall for ReadArguments {
    fn acts(&self, workspace: &Workspace) -> Result<Vec<Act>, ToolError> {
        if let Some(named) = output::named(&self.path) {
            return named.map(|_| vec![]);
        }
        Ok(vec![Act::Read { verb: "read", path: workspace.resolve(&self.path)? }])
    }

    fn run(&self, at: &At<'_>, cancel: &Cancel) -> Result<ToolText, ToolError> {
        if let Some(named) = output::named(&self.path) {
            let page = output::Wanted { path: &self.path, offset: self.offset, limit: self.limit };
            return output::read(&at.context.outputs, named?, &page).map(ToolText::from);
        }
        run(&at.workspace()?, self, cancel)
    }
}

fn run(workspace: &Workspace, arguments: &ReadArguments, cancel: &Cancel) -> Result<ToolText, ToolError> {
    let path = workspace.reach(&arguments.path)?;
    let (file, bytes) = path.open_file("read")?;
    let mut source = BufReader::new(file);
    let beginning = source.fill_buf().map_err(ToolError::file("read", path.shown.clone()))?;
    if images::media_type(beginning).is_some() {
        return image(&path, bytes, source);
    }
    not_binary(&path, bytes, beginning)?;
    text(&path, bytes, Lines { source, number: 0 }, arguments, cancel).map(ToolText::from)
}

/// Reads an image; returns it with a one-line description.
fn image(path: &ResolvedPath, bytes: u64, source: BufReader<File>) -> Result<ToolText, ToolError> {
    let broken = |reason| ToolError::Image { path: path.shown.clone(), reason };
    if bytes > IMAGE_FILE_BYTES {
        return Err(broken(format!("has {}; at most {} can be shown", size(bytes), size(IMAGE_FILE_BYTES))));
    }
    let mut content = Vec::with_capacity(bytes as usize);
    source.take(IMAGE_FILE_BYTES).read_to_end(&mut content).map_err(ToolError::file("read", path.shown.clone()))?;
    let image = Image::of(&content).map_err(|error| broken(error.to_string()))?;
    let text = format!("{}: {}\n", path.shown, image.line());
    let name = path.relative.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(ToolText { text, shown: vec![image.attached(&name)] })
}

/// Reads the requested lines.
fn text(
    path: &ResolvedPath,
    bytes: u64,
    mut lines: Lines,
    arguments: &ReadArguments,
    cancel: &Cancel,
) -> Result<String, ToolError> {
    let failed = || ToolError::file("read", path.shown.clone());
    let offset = arguments.offset.unwrap_or(1);
    while lines.number + 1 < offset {
        cancel.check()?;
        if !lines.skip().map_err(failed())? {
            return past_end(path, lines.number, offset);
        }
    }
    let most = arguments.limit.unwrap_or(READ_LINES).min(READ_LINES);
    let mut text = Vec::new();
    while lines.number + 1 < offset.saturating_add(most) {
        cancel.check()?;
        match lines.append(&mut text).map_err(failed())? {
            Appended::Whole => {}
            Appended::End if lines.number == 0 && offset == 1 => return Ok(format!("{} is empty\n", path.shown)),
            Appended::End if lines.number < offset => return past_end(path, lines.number, offset),
            Appended::End => return decode(path, bytes, text),
            Appended::Truncated => return truncated(path, bytes, text, &lines, offset),
        }
    }
    if lines.source.fill_buf().map_err(failed())?.is_empty() {
        return decode(path, bytes, text);
    }
    Ok(decode(path, bytes, text)? + &format!("[more lines follow; continue with offset={}]\n", lines.number + 1))
}

/// The result if another line does not fit.
fn truncated(
    path: &ResolvedPath,
    bytes: u64,
    mut text: Vec<u8>,
    lines: &Lines,
    offset: u64,
) -> Result<String, ToolError> {
    if lines.number + 1 > offset {
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        text.truncate(whole);
        return Ok(
            decode(path, bytes, text)? + &format!("[more lines follow; continue with offset={}]\n", lines.number + 1)
        );
    }
    let valid = std::str::from_utf8(&text).map_or_else(|error| error.valid_up_to(), str::len);
    if text.len() - valid < 4 {
        text.truncate(valid);
    }
    let note = format!(
        "\n[line {offset} is longer than {READ_BYTES} bytes and was truncated; read the rest of it with a command, the next line with offset={}]\n",
        offset + 1
    );
    Ok(decode(path, bytes, text)? + &note)
}

/// Returns an error if the beginning of a file contains zero bytes, since it is binary then.
fn not_binary(path: &ResolvedPath, bytes: u64, beginning: &[u8]) -> Result<(), ToolError> {
    if beginning[..beginning.len().min(SNIFF_BYTES)].contains(&0) {
        let what = kinds::name(beginning).unwrap_or("binary");
        return Err(ToolError::NotText { path: path.shown.clone(), bytes, what });
    }
    Ok(())
}

fn decode(path: &ResolvedPath, bytes: u64, text: Vec<u8>) -> Result<String, ToolError> {
    String::from_utf8(text).map_err(|_| ToolError::NotText {
        path: path.shown.clone(),
        bytes,
        what: "another encoding",
    })
}

fn past_end(path: &ResolvedPath, lines: u64, offset: u64) -> Result<String, ToolError> {
    Err(ToolError::PastEnd { path: path.shown.clone(), lines, offset })
}

/// The result of [`Lines::append`].
enum Appended {
    /// It appended a whole line; at the end of the file also one without a line end.
    Whole,
    /// There was no further line.
    End,
    /// The text has reached its limit within the line.
    Truncated,
}

/// Reads a file line by line with bounded memory, also if its lines are very long.
struct Lines {
    source: BufReader<File>,
    /// The number of lines that were read whole.
    number: u64,
}

impl Lines {
    /// Skips one line; false at the end of the file.
    fn skip(&mut self) -> std::io::Result<bool> {
        let found = self.source.skip_until(b'\n')? > 0;
        self.number += u64::from(found);
        Ok(found)
    }

    fn append(&mut self, text: &mut Vec<u8>) -> std::io::Result<Appended> {
        let space = READ_BYTES.saturating_sub(text.len());
        let taken = self.source.by_ref().take(space as u64).read_until(b'\n', text)?;
        if taken > 0 && (text.ends_with(b"\n") || taken < space) {
            self.number += 1;
            return Ok(Appended::Whole);
        }
        Ok(if self.source.fill_buf()?.is_empty() {
            self.number += u64::from(taken > 0);
            Appended::End
        } else {
            Appended::Truncated
        })
    }
}
