//! The copy in which a run worked: what changed in it is taken over, or it is discarded.

use std::path::{Path, PathBuf};

use engine::{CopyAct, FileKind, NotKept, RunId, SessionRow};
use journal::Read;
use protocol::method::{FileAct, FilesUndone, UndoParams, UndoneFile};
use tools::{CopyChange, FileVersion, PlannedCopy, UndoPlan};
use views::background;
use views::files::{CopyState, FileHistory, NetChange, RunCopy, RunFiles, is_among, why_not_kept};

use super::undo::{Planned, judged, protected, store, works_elsewhere};
use crate::error::Error;
use crate::service::Service;

/// The plan for a copy: for each file that changed in it what is in the workspace, and what is to be there. May block.
pub(super) fn plan(
    (service, read): (&Service, &dyn Read),
    (row, history): (&SessionRow, &FileHistory),
    (run, act): (Option<RunId>, CopyAct),
    params: &UndoParams,
) -> Result<Planned, Error> {
    let found = history.copy(read, run)?.ok_or_else(|| no_copy(row, run))?;
    let RunCopy { run, copy, state } = found;
    must_be_open(run, state)?;
    works_elsewhere(read, &copy.folder)?;
    if act == CopyAct::Apply {
        works_elsewhere(read, &copy.of)?;
    }
    // What goes with its copy is not kept.
    let store = (act == CopyAct::Apply).then(|| store(service));
    let changes = tools::copy_changes(&copy, &protected(service), store.as_ref())
        .map_err(|what| Error::State { what, hint: format!("`limulus diff {run} --discard` removes the copy") });
    let roots = [&copy.of, &copy.folder].map(PathBuf::from);
    let (mut files, mut is_whole) = (vec![], true);
    // A copy that cannot be compared can be discarded all the same.
    let changes = if act == CopyAct::Discard { changes.unwrap_or_default() } else { changes? };
    for change in changes {
        if is_among(&roots, &change.path, &params.paths) { files.push(change) } else { is_whole = false }
    }
    let (files, shown, removes) = match act {
        CopyAct::Apply => {
            let (taken, left): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| file.not_kept.is_none());
            let (planned, mut shown) = judged(service, &copy.of, taken.into_iter().map(net).collect(), params);
            shown.extend(left.into_iter().map(left_in));
            shown.sort_by(|one, other| one.path.cmp(&other.path));
            let removes = is_whole && shown.iter().all(|file| file.left.is_none());
            (planned, shown, removes)
        }
        CopyAct::Discard => (vec![], files.into_iter().map(discarded).collect(), true),
    };
    let background = background(service.home(), read, &views::texts(read), Some(&copy.folder))?;
    if !background.is_empty() {
        return Err(Error::State {
            what: format!("a command in the background still works in the copy of run {run}"),
            hint: "wait for its end; `limulus status` shows it".to_owned(),
        });
    }
    let known = history.run(run);
    let undone = FilesUndone {
        session_key: row.key.clone(),
        run_id: run,
        redo: false,
        copy: Some(act),
        done: false,
        workspace: copy.of.clone(),
        files: shown,
        commands: known.map(|run| run.commands(read)).transpose()?.unwrap_or_default(),
        unrecorded: known.map(RunFiles::unrecorded).unwrap_or_default(),
        background,
    };
    // Where nothing changed, there is no folder that the plan could not find.
    let workspace = if Path::new(&copy.of).is_dir() { copy.of.clone() } else { copy.folder.clone() };
    let plan = UndoPlan { workspace, files, passed: vec![], copy: Some(PlannedCopy { copy, removes }) };
    Ok(Planned { undone, plan })
}

fn net(CopyChange { path, before, after, .. }: CopyChange) -> (String, NetChange) {
    (path, NetChange { before, after, not_kept: None, doubt: None })
}

/// A change that cannot be taken over: it stays in its copy, and its copy stays.
fn left_in(change: CopyChange) -> UndoneFile {
    let why = match change.not_kept {
        Some(NotKept::TooLarge) => "over 4 GiB changed: take it over by hand",
        Some(why) => why_not_kept(why),
        None => "it is only in the copy",
    };
    UndoneFile { left: Some(why.to_owned()), ..discarded(change) }
}

/// A change that goes with its copy.
fn discarded(CopyChange { path, before, after, .. }: CopyChange) -> UndoneFile {
    let version: Option<FileVersion> = after.or(before);
    let act = match (before, after) {
        (None, _) => FileAct::Created,
        (_, None) => FileAct::Removed,
        (Some(_), Some(_)) => FileAct::Changed,
    };
    let kind = version.map_or(FileKind::File, |version| version.content.kind);
    UndoneFile { path, kind, act, left: None, changed_since: false, maybe_others: None, diff: None }
}

fn no_copy(row: &SessionRow, run: Option<RunId>) -> Error {
    let what = run.map_or_else(
        || format!("no run of {} worked in a copy", row.key),
        |run| format!("run {run} worked in the workspace itself, not in a copy"),
    );
    Error::State {
        what,
        hint: "`limulus undo` takes back what it changed; sandbox.root has runs work in a copy".to_owned(),
    }
}

/// Refuses a copy that is not there any more.
fn must_be_open(run: RunId, state: CopyState) -> Result<(), Error> {
    let what = match state {
        CopyState::Open => return Ok(()),
        CopyState::Applied(_) => {
            return Err(Error::State {
                what: format!("the changes of run {run} are already taken over"),
                hint: format!("`limulus undo {run}` takes them back"),
            });
        }
        CopyState::Discarded(_) => format!("the copy in which run {run} worked is already discarded"),
        CopyState::Gone => {
            format!("the copy in which run {run} worked is gone: somebody removed it, or it was never complete")
        }
    };
    Err(Error::State { what, hint: format!("`limulus diff {run}` shows what it changed") })
}
