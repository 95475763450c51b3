//! The tool `read`: a piece of a text file, bounded, with a note on how to go on; or an image.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use crate::cancel::Cancel;
use crate::error::ToolError;
use crate::images::{self, Image};
use crate::invocation::ReadArguments;
use crate::kinds;
use crate::limits::{IMAGE_FILE_BYTES, READ_BYTES, READ_LINES, SNIFF_BYTES};
use crate::paths::{ResolvedPath, Workspace};
use crate::size::size;
use crate::tool_result::Told;

pub(crate) fn run(workspace: &Workspace, arguments: &ReadArguments, cancel: &Cancel) -> Result<Told, ToolError> {
    let path = workspace.reach(&arguments.path)?;
    let (file, bytes) = path.open_file("read")?;
    let mut source = BufReader::new(file);
    let beginning = source.fill_buf().map_err(ToolError::file("read", path.shown.clone()))?;
    if images::media_type(beginning).is_some() {
        return image(&path, bytes, source);
    }
    not_binary(&path, bytes, beginning)?;
    text(&path, bytes, Lines { source, number: 0 }, arguments, cancel).map(Told::from)
}

/// An image, and a line on it.
fn image(path: &ResolvedPath, bytes: u64, source: BufReader<File>) -> Result<Told, ToolError> {
    let broken = |reason| ToolError::Image { path: path.shown.clone(), reason };
    if bytes > IMAGE_FILE_BYTES {
        return Err(broken(format!("has {}; at most {} can be shown", size(bytes), size(IMAGE_FILE_BYTES))));
    }
    let mut content = Vec::with_capacity(bytes as usize);
    source.take(IMAGE_FILE_BYTES).read_to_end(&mut content).map_err(ToolError::file("read", path.shown.clone()))?;
    let image = Image::of(&content).map_err(|error| broken(error.to_string()))?;
    let text = format!("{}: {}\n", path.shown, image.line());
    let name = path.relative.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(Told { text, shown: vec![image.attached(&name)] })
}

/// The lines that are asked for.
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
            Appended::Cut => return cut(path, bytes, text, &lines, offset),
        }
    }
    if lines.source.fill_buf().map_err(failed())?.is_empty() {
        return decode(path, bytes, text);
    }
    Ok(decode(path, bytes, text)? + &format!("[more lines follow; go on with offset={}]\n", lines.number + 1))
}

/// The answer when the bytes do not suffice for another line.
fn cut(path: &ResolvedPath, bytes: u64, mut text: Vec<u8>, lines: &Lines, offset: u64) -> Result<String, ToolError> {
    if lines.number + 1 > offset {
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        text.truncate(whole);
        return Ok(
            decode(path, bytes, text)? + &format!("[more lines follow; go on with offset={}]\n", lines.number + 1)
        );
    }
    let valid = std::str::from_utf8(&text).map_or_else(|error| error.valid_up_to(), str::len);
    if text.len() - valid < 4 {
        text.truncate(valid);
    }
    let note = format!(
        "\n[line {offset} is longer than {READ_BYTES} bytes and was cut; see the rest of it with a command, the next line with offset={}]\n",
        offset + 1
    );
    Ok(decode(path, bytes, text)? + &note)
}

/// A file with zero bytes at its beginning is told as binary at once.
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

/// How a line was taken.
enum Appended {
    /// Whole, or what was left before the end of the file.
    Whole,
    /// There was none.
    End,
    /// The text is as long as it may be, and the line goes on.
    Cut,
}

/// A file read line by line with bounded memory, whatever its lines are.
struct Lines {
    source: BufReader<File>,
    /// Lines that were taken whole.
    number: u64,
}

impl Lines {
    /// Passes over one line; false at the end of the file.
    fn skip(&mut self) -> std::io::Result<bool> {
        let found = self.source.skip_until(b'\n')? > 0;
        self.number += u64::from(found);
        Ok(found)
    }

    fn append(&mut self, text: &mut Vec<u8>) -> std::io::Result<Appended> {
        let room = READ_BYTES.saturating_sub(text.len());
        let taken = self.source.by_ref().take(room as u64).read_until(b'\n', text)?;
        if taken > 0 && (text.ends_with(b"\n") || taken < room) {
            self.number += 1;
            return Ok(Appended::Whole);
        }
        Ok(if self.source.fill_buf()?.is_empty() {
            self.number += u64::from(taken > 0);
            Appended::End
        } else {
            Appended::Cut
        })
    }
}
