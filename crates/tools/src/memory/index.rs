//! The seam of the index of memory: this crate says which files there are and what they hold; whoever keeps the index says in
//! which of their passages words occur. The index is a shortcut: without one, or if it fails, the files are searched directly.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// What the tools of memory work with, beside the workspace.
#[derive(Debug, Clone, Default)]
pub struct MemoryContext {
    /// The folder in which the user keeps files of memory for all workspaces; none if they are not to be read.
    pub own: Option<PathBuf>,
    /// What finds passages by their words; none if the files are searched directly.
    pub index: Option<Arc<dyn MemoryIndex>>,
}

/// A file of memory, as an index knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedFile {
    /// The folder in which it was found: one of [`MemorySearch::folders`].
    pub folder: String,
    /// Its absolute path.
    pub path: String,
    /// Another one after each change of the file. None if a change may have been missed: it is indexed again.
    pub stamp: Option<String>,
}

/// The words of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileWords {
    /// The words of each passage, in order. Characters of scripts without blanks between words are words of their own.
    Passages(Vec<String>),
    /// It cannot be indexed, and is read again at the next search.
    LeftOut,
    /// Nobody waits for the search any more.
    Cancelled,
}

/// What is searched for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryQuery {
    /// Phrases that a passage has all of: a phrase is words with blanks between them, which occur in this order.
    pub all: Vec<String>,
    /// Phrases of which it has one or more, if no passage has all of the others.
    pub any: Vec<String>,
}

/// A search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemorySearch {
    /// The folders that were looked through: a file of one of them that is not listed below is gone.
    pub folders: Vec<String>,
    /// The files that may be found.
    pub files: Vec<IndexedFile>,
    /// What is searched for.
    pub query: MemoryQuery,
    /// How many passages are wanted at most.
    pub most: usize,
}

/// A passage that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassageHit {
    /// The number of its file in [`MemorySearch::files`], from 0.
    pub file: usize,
    /// The number of the passage in the file, from 0.
    pub passage: usize,
}

/// What a search has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundPassages {
    /// The passages, best first.
    pub hits: Vec<PassageHit>,
    /// No passage has all phrases; these have some.
    pub is_partial: bool,
}

/// An index of files of memory.
pub trait MemoryIndex: Send + Sync + fmt::Debug {
    /// Brings the index up to date with the files, and searches. `words_of` reads the file of this number; it is called for those
    /// whose stamp is not known. It may block.
    ///
    /// # Errors
    /// Returns why the index cannot be used. The caller then searches the files themselves.
    fn search(
        &self,
        search: &MemorySearch,
        words_of: &mut dyn FnMut(usize) -> FileWords,
    ) -> Result<FoundPassages, String>;
}
