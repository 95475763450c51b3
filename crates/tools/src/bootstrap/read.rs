//! Reads a bootstrap file, with what it includes: a line `@PATH` stands for the text of that file.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use crate::error::ToolError;
use crate::guard::Protected;
use crate::limits::{INCLUDED_DEPTH, NAMED_PROBLEMS};
use crate::paths::Workspace;
use crate::size::size;

/// A text, and what of it is not as it was written.
pub(super) type ReadText = (String, Vec<String>);

/// Reads one file.
pub(super) struct Reading<'a> {
    /// The folder that it and what it includes must be in.
    root: PathBuf,
    /// The same folder if it is open already.
    opened: Option<Workspace>,
    protected: &'a Protected,
    /// Whether it is the user's own. Only what it includes must not be protected then.
    is_own: bool,
    /// Bytes that it may have, with what it includes.
    pub(super) most: usize,
    /// The files that are being read, each included by the one before.
    open: Vec<PathBuf>,
    problems: Vec<String>,
}

impl<'a> Reading<'a> {
    /// `opened` is the same folder, if it was opened for another file.
    pub(super) fn new(root: &Path, opened: Option<Workspace>, protected: &'a Protected, most: usize) -> Self {
        Self { root: root.to_owned(), opened, protected, is_own: false, most, open: vec![], problems: vec![] }
    }

    /// Reads one of the user's own. Many keep such files elsewhere and have a link here; only they can write in this folder, which is
    /// that of limulus itself.
    pub(super) fn own_file(self, path: &Path) -> Result<ReadText, String> {
        let target = path.canonicalize().map_err(|error| format!("cannot read it: {error}"))?;
        let root = target.parent().unwrap_or(&target).to_owned();
        Self { root, opened: None, is_own: true, ..self }.file(&target)
    }

    pub(super) fn file(mut self, path: &Path) -> Result<ReadText, String> {
        let text = self.text(path)?;
        Ok((text.trim().to_owned(), self.problems))
    }

    /// The text of a file. What it includes takes its bytes from what is left.
    fn text(&mut self, path: &Path) -> Result<String, String> {
        let said = |error: ToolError| error.to_string();
        let shown = path.to_str().ok_or("its path is not UTF-8")?;
        let none = Protected::default();
        let protected = if self.is_own && self.open.is_empty() { &none } else { self.protected };
        let workspace = match &self.opened {
            Some(opened) => opened.clone(),
            None => Workspace::open(&self.root, protected).map_err(said)?,
        };
        let resolved = workspace.resolve(shown).map_err(said)?;
        if !resolved.inside {
            return Err(format!("it leads out of {}", self.root.display()));
        }
        if self.open.contains(&resolved.real) {
            return Err("it includes itself".to_owned());
        }
        if self.open.len() > INCLUDED_DEPTH {
            return Err(format!("over {INCLUDED_DEPTH} files include each other"));
        }
        let (file, bytes) = resolved.open_file("read").map_err(said)?;
        let text = beginning_and_end(file, bytes, self.most).map_err(|error| format!("cannot read it: {error}"))?;
        let text = text.ok_or("it is not text in UTF-8")?;
        if bytes > self.most as u64 {
            self.problems.push(format!("{shown} has {}: its middle is left out", size(bytes)));
        }
        self.most -= text.len().min(self.most);
        self.open.push(resolved.real.clone());
        let text =
            self.with_included(text.trim_start_matches('\u{feff}'), resolved.real.parent().unwrap_or(&resolved.real));
        self.open.pop();
        Ok(text)
    }

    /// The text with the files that it includes. Examples of code include nothing.
    fn with_included(&mut self, text: &str, folder: &Path) -> String {
        let mut whole = String::with_capacity(text.len());
        let mut is_code = false;
        for line in text.split_inclusive('\n') {
            is_code ^= line.trim_start().starts_with("```");
            let path = included(line).filter(|_| !is_code);
            if path.is_some() && self.most == 0 {
                self.problems.push(format!("{}: there is no space for it", line.trim()));
            }
            let Some(path) = path.filter(|_| self.most > 0) else {
                whole.push_str(line);
                continue;
            };
            match self.text(&folder.join(path)) {
                Ok(text) => whole.push_str(text.trim()),
                Err(why) => {
                    let note = format!("[@{path} is left out: {}]", why.escape_debug());
                    self.most -= note.len().min(self.most);
                    self.problems.push(format!("@{path}: {why}"));
                    whole.push_str(&note);
                }
            }
            whole.push('\n');
        }
        self.problems.truncate(NAMED_PROBLEMS);
        whole
    }
}

/// The path that a line includes. A name without a dot and a slash is somebody's name.
fn included(line: &str) -> Option<&str> {
    let path = line.trim().strip_prefix('@')?;
    let is_path = path.contains(['.', '/']) && !path.contains(char::is_whitespace);
    is_path.then_some(path)
}

/// The whole text, or its first 70 % and its last 20 % of `most` bytes; none if it is no text in UTF-8.
fn beginning_and_end(mut file: File, bytes: u64, most: usize) -> std::io::Result<Option<String>> {
    let mut read = |at: u64, bytes: usize| {
        let mut part = Vec::new();
        file.seek(SeekFrom::Start(at))?;
        (&file).take(bytes as u64).read_to_end(&mut part)?;
        Ok::<_, std::io::Error>(part)
    };
    if bytes <= most as u64 {
        let whole = read(0, most)?;
        return Ok(text(&whole, Cut::None));
    }
    let (first, last) = (most / 10 * 7, most / 10 * 2);
    let (first, last) = (read(0, first)?, read(bytes - last as u64, last)?);
    let (first, last) = (text(&first, Cut::End), text(&last, Cut::Beginning));
    Ok(first.zip(last).map(|(first, last)| {
        let left_out = size(bytes - (first.len() + last.len()) as u64);
        format!("{}\n[{left_out} are left out here]\n{}", first.trim_end(), last.trim_start())
    }))
}

/// Where a piece of a text was cut, perhaps within a character.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    None,
    Beginning,
    End,
}

fn text(piece: &[u8], cut: Cut) -> Option<String> {
    // The other bytes of a character begin with the bits 10.
    let from =
        if cut == Cut::Beginning { piece.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count() } else { 0 };
    let piece = &piece[from..];
    let text = match std::str::from_utf8(piece) {
        Ok(text) => text,
        Err(error) if cut == Cut::End && error.error_len().is_none() => {
            std::str::from_utf8(&piece[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    (!text.contains('\0')).then(|| text.to_owned())
}
