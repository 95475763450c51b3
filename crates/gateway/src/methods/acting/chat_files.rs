//! `/undo` and `/diff` in a message, as `limulus undo` and `limulus diff` without options.

use std::fmt::Write as _;

use protocol::limits::CHAT_DIFF_BYTES;
use protocol::method::{DiffParams, FileAct, FilesUndone, RunDiff, RunsDiff, UndoParams, UndoneRun};
use views::{Source, count};

use super::chat::Chat;
use super::{end, undo};
use crate::error::Error;
use crate::methods::reading::Reads as _;

impl Chat<'_> {
    /// Takes back what the last run changed in files. A file that was changed since is refused, as without a terminal.
    pub(super) async fn undo(&self) -> Result<String, Error> {
        let params = UndoParams { session_key: Some(self.key.to_string()), ..UndoParams::default() };
        undo::undo(self.caller, params).await.map(|undone| undone_text(&undone))
    }

    /// What the last run changed in files.
    pub(super) async fn diff(&self) -> Result<String, Error> {
        let service = &self.caller.service;
        super::record(service).await?;
        let (home, key) = (std::sync::Arc::clone(service.home()), self.key.to_string());
        let diff = end::reading(service, move |read| {
            let home = home.as_ref();
            let source =
                Source { home, read, immutable: false, most_bytes: u64::MAX, waits: &[], full: &[], agents: &[] };
            RunsDiff::read(&source, DiffParams { session_key: Some(key), ..DiffParams::default() })
        });
        diff.await.map(|diff| diff_text(&diff))
    }
}

fn undone_text(undone: &FilesUndone) -> String {
    let (left, moved): (Vec<_>, Vec<_>) = undone.files.iter().partition(|file| file.left.is_some());
    let mut text = format!("took back what run {} changed: {}", undone.run_id, count(moved.len(), "file"));
    // Writing to a String cannot fail.
    for file in moved {
        let did = match file.act {
            FileAct::Created => "created",
            FileAct::Changed => "restored",
            FileAct::Removed => "removed",
        };
        let _ = write!(text, "\n  {did} {}", file.path);
    }
    for file in left {
        let _ = write!(text, "\n  left as it is: {}: {}", file.path, file.left.as_deref().unwrap_or_default());
    }
    for why in &undone.unrecorded {
        let _ = write!(text, "\nwhat commands changed in this folder is not recorded: {why}");
    }
    if !undone.commands.is_empty() {
        let ran = count(undone.commands.len(), "command");
        let _ = write!(text, "\nwhat {ran} did outside this folder, and in ignored files, stays");
    }
    let _ = write!(text, "\n`limulus redo {}` makes the changes once more", undone.run_id);
    text
}

fn diff_text(diff: &RunDiff) -> String {
    let (added, removed) = diff.files.iter().fold((0, 0), |sum, file| (sum.0 + file.added, sum.1 + file.removed));
    let mut text = String::new();
    for file in &diff.files {
        match &file.diff {
            Some(diff) if !diff.is_empty() => text += diff,
            _ => {
                let note = file.note.as_deref().map(|note| format!(" ({note})")).unwrap_or_default();
                let _ = writeln!(text, "{}{note}", file.path);
            }
        }
        if text.len() > CHAT_DIFF_BYTES {
            let end = (0..=CHAT_DIFF_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
            text.truncate(end);
            text += "\n… the rest: limulus diff\n";
            break;
        }
    }
    for why in &diff.unrecorded {
        let _ = writeln!(text, "what commands changed in this folder is not recorded: {why}");
    }
    let by =
        diff.run_ids.first().map_or_else(|| " (no run has changed files)".to_owned(), |run| format!(" by run {run}"));
    let _ = write!(text, "{} changed, +{added} −{removed}{by}", count(diff.files.len(), "file"));
    for UndoneRun { run_id, undone_at, files, of } in &diff.undone {
        let at = views::usage::utc(*undone_at);
        let _ = if files == of {
            write!(text, "\nrun {run_id} was undone at {at}; `limulus redo {run_id}` makes its changes once more")
        } else {
            let of = count(*of, "file");
            write!(
                text,
                "\n{files} of {of} of run {run_id} were undone at {at}; `limulus redo {run_id}` makes them once more"
            )
        };
    }
    text
}
