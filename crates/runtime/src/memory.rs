//! The index of files of memory, for the tools: that of the journal, in `search.db` of the home.

use std::path::PathBuf;
use std::sync::Arc;

use engine::Settings;
use journal::{PassageFile, PassageSearch, PassageWords, SearchIndex};
use tools::{FileWords, FoundPassages, MemoryContext, MemoryIndex, MemorySearch, PassageHit};

use crate::runtime::Shared;

/// What the tools of memory work with in a run. A run that reads no bootstrap files has no memory of the user either.
pub(crate) fn context(shared: &Shared, settings: &Settings) -> MemoryContext {
    let index: Arc<dyn MemoryIndex> = Arc::new(HomeIndex { home: shared.home.clone() });
    MemoryContext { own: settings.instructions.then(|| shared.home.clone()), index: Some(index) }
}

/// The index of a home.
#[derive(Debug)]
struct HomeIndex {
    home: PathBuf,
}

impl MemoryIndex for HomeIndex {
    fn search(
        &self,
        search: &MemorySearch,
        words_of: &mut dyn FnMut(usize) -> FileWords,
    ) -> Result<FoundPassages, String> {
        let file = |file: &tools::IndexedFile| PassageFile {
            folder: file.folder.clone(),
            path: file.path.clone(),
            stamp: file.stamp.clone(),
        };
        let search = PassageSearch {
            folders: search.folders.clone(),
            files: search.files.iter().map(file).collect(),
            all: search.query.all.clone(),
            any: search.query.any.clone(),
            most: search.most,
        };
        let mut words_of = |file: usize| match words_of(file) {
            FileWords::Passages(passages) => PassageWords::Passages(passages),
            FileWords::LeftOut => PassageWords::LeftOut,
            FileWords::Cancelled => PassageWords::Cancelled,
        };
        let found =
            SearchIndex::find_passages(&self.home, &search, &mut words_of).map_err(|error| error.to_string())?;
        let hit = |(file, passage): (usize, usize)| PassageHit { file, passage };
        Ok(FoundPassages { hits: found.passages.into_iter().map(hit).collect(), is_partial: found.is_partial })
    }
}
