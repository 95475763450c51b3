//! `memory_search`: finds passages by an index, or without one, and shows them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::files::{self, LeftOut, MemoryFile, MemoryFiles};
use super::index::{FileWords, FoundPassages, MemoryIndex, MemoryQuery, MemorySearch, PassageHit};
use super::passages::{Passage, passages};
use super::scan::Scan;
use super::words::spaced;
use crate::cancel::Cancel;
use crate::error::ToolError;
use crate::file_call::{At, FileCall};
use crate::limits::{FOUND_BYTES, MEMORY_FILE_BYTES, MEMORY_FILES, NAMED_LEFT_OUT};
use crate::masking::Secrets;
use crate::paths::Workspace;
use crate::size::size;
use crate::tool::Act;
use crate::tool_result::ToolText;
use crate::tool_set;

/// A call.
#[derive(Debug)]
pub(super) struct Search {
    pub(super) query: MemoryQuery,
    /// How many passages are shown at most.
    pub(super) most: usize,
}

impl FileCall for Search {
    /// What is below the workspace is judged file by file while it runs; the user's own files are in the home.
    fn acts(&self, workspace: &Workspace) -> Result<Vec<Act>, ToolError> {
        Ok(vec![Act::Read { verb: "search", path: workspace.resolve(&tool_set::here())? }])
    }

    fn run(&self, at: &At<'_>, cancel: &Cancel) -> Result<ToolText, ToolError> {
        let mut reading = Reading::new(files::list(at, cancel)?, cancel);
        let index = at.context.memory.index.as_deref();
        let found = match index.map(|index| self.by_index(index, &mut reading)) {
            Some(Ok(found)) => found,
            // What keeps the index from being used (a full disk, a home that cannot be written) does not keep the files from it.
            Some(Err(_)) | None => self.directly(&mut reading)?,
        };
        cancel.check()?;
        Ok(reading.shown(&found, &at.context.secrets).into())
    }
}

impl Search {
    fn by_index(&self, index: &dyn MemoryIndex, reading: &mut Reading<'_>) -> Result<FoundPassages, String> {
        let search = MemorySearch {
            folders: reading.listed.folders.clone(),
            files: reading.listed.files.iter().map(|file| file.indexed.clone()).collect(),
            query: self.query.clone(),
            most: self.most,
        };
        index.search(&search, &mut |file| reading.words(file))
    }

    fn directly(&self, reading: &mut Reading<'_>) -> Result<FoundPassages, ToolError> {
        let mut scan = Scan::new(&self.query);
        for file in 0..reading.listed.files.len() {
            match reading.words(file) {
                FileWords::Passages(passages) => {
                    for (passage, words) in passages.iter().enumerate() {
                        scan.add(PassageHit { file, passage }, words);
                    }
                }
                FileWords::LeftOut => {}
                FileWords::Cancelled => return Err(ToolError::Cancelled),
            }
        }
        Ok(scan.found(self.most))
    }
}

/// The files of a search, read when they are needed.
struct Reading<'a> {
    listed: MemoryFiles,
    cancel: &'a Cancel,
}

impl<'a> Reading<'a> {
    fn new(listed: MemoryFiles, cancel: &'a Cancel) -> Self {
        Self { listed, cancel }
    }

    /// The words of each passage of a file: its own, those of the heading above it, and those of the name of the file.
    fn words(&mut self, file: usize) -> FileWords {
        if self.cancel.is_set() {
            return FileWords::Cancelled;
        }
        let Some(passages) = self.passages(file) else { return FileWords::LeftOut };
        let title = self.listed.files[file].title();
        let words = |passage: Passage| {
            let heading = if passage.text.starts_with('#') { "" } else { &passage.heading };
            spaced(&format!("{title}\n{heading}\n{}", passage.text))
        };
        FileWords::Passages(passages.into_iter().map(words).collect())
    }

    /// The passages of a file. What cannot be read is left out.
    fn passages(&mut self, file: usize) -> Option<Vec<Passage>> {
        match self.listed.files.get(file)?.text() {
            Ok(text) => Some(passages(&text)),
            Err(left_out) => {
                if !self.listed.left_out.contains(&left_out) {
                    self.listed.left_out.push(left_out);
                }
                None
            }
        }
    }

    fn shown(mut self, found: &FoundPassages, secrets: &Secrets) -> String {
        let mut shown = String::new();
        if found.is_partial {
            shown += "[no passage has all of these words; these have some of them]\n\n";
        }
        let mut read: BTreeMap<usize, Vec<Passage>> = BTreeMap::new();
        let mut count = 0;
        for hit in &found.hits {
            let passages = read.entry(hit.file).or_insert_with(|| self.passages(hit.file).unwrap_or_default());
            // A file may have changed since it was indexed a moment ago.
            let (Some(passage), Some(file)) = (passages.get(hit.passage), self.listed.files.get(hit.file)) else {
                continue;
            };
            count += 1;
            let text = secrets.mask(&passage.text);
            let text =
                if shown.len() + text.len() > FOUND_BYTES { "[left out: too long; use memory_get]" } else { &text };
            // Writing to a String cannot fail.
            let _ = writeln!(shown, "{}:{}-{}\n{text}\n", file.shown, passage.first, passage.last);
        }
        if count == 0 {
            "no matches\n".clone_into(&mut shown);
        }
        shown + &self.listed.notes()
    }
}

impl MemoryFiles {
    /// What is not searched, and why.
    fn notes(&self) -> String {
        let mut notes = String::new();
        let is_named = |file: &MemoryFile| self.left_out.iter().any(|left_out| left_out.path == file.shown);
        let is_cut = |file: &&MemoryFile| file.is_cut && !is_named(file);
        let cut = self.files.iter().filter(is_cut).map(|file| LeftOut {
            path: file.shown.clone(),
            why: format!("what is behind its first {}", size(MEMORY_FILE_BYTES)),
        });
        let left_out: Vec<LeftOut> = self.left_out.iter().cloned().chain(cut).collect();
        for LeftOut { path, why } in left_out.iter().take(NAMED_LEFT_OUT) {
            let _ = writeln!(notes, "[left out: {}: {}]", path.escape_debug(), why.escape_debug());
        }
        if let Some(rest @ 1..) = left_out.len().checked_sub(NAMED_LEFT_OUT) {
            let _ = writeln!(notes, "[{rest} more are left out]");
        }
        if self.is_cut {
            let _ = writeln!(notes, "[there are too many files: the first {MEMORY_FILES} are searched]");
        }
        notes
    }
}
