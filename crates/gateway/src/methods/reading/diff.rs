//! `runs.diff`: what runs changed in files, as a unified diff. Contents before come from the home, contents after from the
//! file itself as long as it was not changed since, else also from the home.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use engine::{FileContent, FileKind};
use protocol::method::{
    CopyOfRun, CopyOutcome, DiffParams, FileAct, FileDiff, RunDiff, RunParams, RunsDiff, UndoneRun,
};
use tools::{FileStore, FileVersion, Protected, StoreLimits, UnifiedDiff};
use views::files::{CopyState, FileHistory, NetChange, RunCopy, Undone, net, why_not_kept};
use views::{Source, background, lookup};

use super::Reads;
use crate::error::Error;

/// The largest content that is compared, bytes.
const COMPARED_BYTES: usize = 1 << 20;

impl Reads for RunsDiff {
    fn read(source: &Source<'_>, params: DiffParams) -> Result<RunDiff, Error> {
        let (row, run) = match &params.run_id {
            Some(run) => {
                let found = lookup::run(source.read, &RunParams { run: Some(run.clone()), ..RunParams::default() })?;
                (found.session, Some(found.run))
            }
            None => (lookup::session(source.read, params.session_key.as_deref())?, None),
        };
        let history = FileHistory::read(source.read, row.branch)?;
        let runs = match run {
            Some(run) => history.run(run).into_iter().collect(),
            None => history.last(params.last.unwrap_or(1)),
        };
        let mut workspace = String::new();
        let mut commands = vec![];
        for run in &runs {
            workspace = run.workspace(source.read)?.unwrap_or(workspace);
            commands.extend(run.commands(source.read)?);
        }
        if runs.is_empty() {
            let last = lookup::last(source.read, &row)?.and_then(|last| last.row);
            let folder = last.map(|last| views::files::workspace(source.read, last.settings)).transpose()?.flatten();
            workspace = folder.unwrap_or_default();
        }
        let unrecorded: BTreeSet<String> = runs.iter().flat_map(|run| run.unrecorded()).collect();
        let unrecorded = unrecorded.into_iter().collect();
        let contents = Contents::new(source.home, &workspace);
        let all: BTreeMap<_, _> = net(runs.iter().copied());
        let files = all.iter().map(|(path, change)| contents.compare(path, *change)).collect();
        let run_ids = runs.iter().map(|run| run.run).collect();
        let background = match workspace.as_str() {
            "" => vec![],
            folder => background(source.home, source.read, &source.texts(), Some(folder))?,
        };
        let mut undone = vec![];
        for run in &runs {
            let of_run = history.undone_of(source.read, run)?;
            undone.extend(of_run.map(|Undone { at, files, of }| UndoneRun {
                run_id: run.run,
                undone_at: at,
                files,
                of,
            }));
        }
        let copy = match runs.last() {
            Some(run) => history.copy(source.read, Some(run.run))?.map(copy_of_run),
            None => None,
        };
        let session_key = row.key;
        Ok(RunDiff { session_key, run_ids, workspace, files, commands, unrecorded, background, undone, copy })
    }
}

fn copy_of_run(RunCopy { copy, state, .. }: RunCopy) -> CopyOfRun {
    let (state, at) = match state {
        CopyState::Open => (CopyOutcome::Open, None),
        CopyState::Applied(at) => (CopyOutcome::Applied, Some(at)),
        CopyState::Discarded(at) => (CopyOutcome::Discarded, Some(at)),
        CopyState::Gone => (CopyOutcome::Gone, None),
    };
    CopyOfRun { of: copy.of, folder: copy.folder, state, at }
}

/// Where contents are found.
pub(crate) struct Contents<'a> {
    store: FileStore,
    protected: Protected,
    workspace: &'a Path,
}

impl<'a> Contents<'a> {
    pub(crate) fn new(home: &Path, workspace: &'a str) -> Self {
        let store = FileStore::new(home.join("files"), StoreLimits::NONE);
        let protected = Protected::folder(home.to_owned());
        Self { store, protected, workspace: Path::new(workspace) }
    }

    /// The difference of both sides of a change.
    pub(crate) fn compare(&self, path: &str, change: NetChange) -> FileDiff {
        let kind = change.after.or(change.before).map_or(FileKind::File, |version| version.content.kind);
        let act = match (change.before, change.after) {
            (None, _) => FileAct::Created,
            (_, None) => FileAct::Removed,
            (Some(_), Some(_)) => FileAct::Changed,
        };
        let octal =
            |version: Option<FileVersion>| version.and_then(|version| version.mode).map(|mode| format!("{mode:o}"));
        let mode = octal(change.before).zip(octal(change.after)).filter(|(a, b)| a != b).map(|(a, b)| [a, b]);
        let file = FileDiff { path: path.to_owned(), kind, act, mode, added: 0, removed: 0, diff: None, note: None };
        if let Some(why) = change.not_kept {
            return FileDiff { note: Some(why_not_kept(why).to_owned()), ..file };
        }
        let is_folder = |version: &FileVersion| version.content.kind == FileKind::Folder;
        if change.before.iter().chain(&change.after).all(is_folder) {
            return file;
        }
        match (self.text(path, change.before), self.text(path, change.after)) {
            (Ok(before), Ok(after)) => compared(file, &before, &after),
            (Err(note), _) | (_, Err(note)) => FileDiff { note: Some(note.to_owned()), ..file },
        }
    }

    /// The text of a version, or why there is none. Nothing is the empty text.
    fn text(&self, path: &str, version: Option<FileVersion>) -> Result<String, &'static str> {
        let Some(FileContent { hash: Some(hash), .. }) = version.map(|version| version.content) else {
            return Ok(String::new());
        };
        let now = || tools::content_now(self.workspace, &self.protected, path, &hash, COMPARED_BYTES);
        let content =
            self.store.content(&hash).or_else(now).ok_or("a content is not kept, or is too large to be compared")?;
        if content.len() > COMPARED_BYTES {
            return Err("it is too large to be compared");
        }
        if !tools::is_text(&content) {
            return Err("it is no text");
        }
        Ok(String::from_utf8_lossy(&content).into_owned())
    }
}

fn compared(file: FileDiff, before: &str, after: &str) -> FileDiff {
    let (before, after) = (Some(before), Some(after));
    let before = before.filter(|_| file.act != FileAct::Created);
    let UnifiedDiff { added, removed, text } =
        UnifiedDiff::of(&file.path, before, after.filter(|_| file.act != FileAct::Removed));
    FileDiff { added, removed, diff: Some(text), ..file }
}
