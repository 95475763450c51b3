//! What a call of a tool for files has changed, from the evidence of its check. So it can also be said after a crash.

use std::fs;
use std::path::PathBuf;

use engine::{ChangedFile, FileContent, FileKind, Modes};

use super::diff::{self, Diffs};
use super::version::name_of;
use crate::cancel::Cancel;
use crate::evidence::{Evidence, FileChange};
use crate::guard::MODE_BITS;
use crate::paths::{ResolvedPath, Workspace};

/// How much of its changes a call has made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    All,
    /// Some, or none: each file is looked at.
    Unknown,
}

/// What a call that was to change these files has changed.
pub(crate) fn of_files(
    (workspace, diffs): (&Workspace, Diffs<'_>),
    files: &[(ResolvedPath, FileChange)],
    evidence: &Evidence,
    made: Made,
) -> Vec<ChangedFile> {
    let is_made = |(path, change): &&(ResolvedPath, FileChange)| {
        let is_there = || path.state("read", &Cancel::default()).is_ok_and(|now| now == change.after);
        change.before != change.after && (made == Made::All || is_there())
    };
    let changed: Vec<ChangedFile> =
        files.iter().filter(is_made).filter_map(|(path, change)| file((workspace, diffs), path, *change)).collect();
    evidence.folders.iter().filter_map(|path| folder(workspace, path)).chain(changed).collect()
}

fn file((workspace, diffs): (&Workspace, Diffs<'_>), path: &ResolvedPath, change: FileChange) -> Option<ChangedFile> {
    let content = |hash| FileContent { kind: FileKind::File, hash: Some(hash) };
    let now = path.look().ok().map(|seen| seen.mode);
    // The tools keep the bits of a file that they replace.
    let mode = Modes { before: change.before.and(change.mode.or(now)), after: change.after.and(now) };
    let (before, after) = (change.before.map(content), change.after.map(content));
    let name = name_of(workspace, &path.real)?;
    let diff = diff::of_change(diffs, path, &name, change);
    Some(ChangedFile { path: name, before, after, mode, diff, ..ChangedFile::default() })
}

fn folder(workspace: &Workspace, real: &PathBuf) -> Option<ChangedFile> {
    use std::os::unix::fs::MetadataExt as _;
    let found = fs::symlink_metadata(real).ok().filter(fs::Metadata::is_dir)?;
    let after = Some(FileContent { kind: FileKind::Folder, hash: None });
    let mode = Modes { before: None, after: Some(found.mode() & MODE_BITS) };
    Some(ChangedFile { path: name_of(workspace, real)?, after, mode, ..ChangedFile::default() })
}

/// The folders that a call is to create for these files, the outermost first.
pub(crate) fn missing_folders(paths: &[ResolvedPath], files: &[FileChange]) -> Vec<PathBuf> {
    let mut missing: Vec<PathBuf> = vec![];
    let created = paths.iter().zip(files).filter(|(_, change)| change.before.is_none() && change.after.is_some());
    for (path, _) in created {
        let is_missing = |folder: &&std::path::Path| fs::symlink_metadata(folder).is_err();
        missing.extend(path.real.ancestors().skip(1).take_while(is_missing).map(PathBuf::from));
    }
    missing.sort();
    missing.dedup();
    missing
}
