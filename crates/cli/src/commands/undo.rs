//! `limulus undo` and `limulus redo`: take back what a run changed in files, or make it once more.

use std::path::{Component, Path, PathBuf};

use clap::Args;
use config::Globals;
use engine::{CopyAct, FileKind};
use journal::Reader;
use protocol::method::{FileAct, FilesUndone, RunsUndo, UndoParams, UndoneFile};
use protocol::{Client, ClientError};

use super::background;
use super::change::change;
use super::diff::{UNRECORDED, ran};
use crate::args::WriterArgs;
use crate::error::{CliError, Exit};
use crate::language::word;
use crate::output::Output;
use crate::prompt;
use crate::show::human::{Page, count, now};
use crate::show::{json, print};

/// Take back what a run changed in files: shows it, and asks first on a terminal
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct UndoArgs {
    /// The run's id, or a unique prefix of it; or a session, for its last run that changed files
    #[arg(value_name = "RUN|KEY")]
    pub(crate) run: Option<String>,
    /// The session whose last run is meant: NAME, or agent:AGENT:NAME [default: that of this folder]
    #[arg(long, value_name = "KEY", conflicts_with = "run")]
    pub(crate) session: Option<String>,
    /// Only these files, and what is in these folders
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub(super) files: Vec<PathBuf>,
    /// Also overwrite files that were changed since
    #[arg(long)]
    pub(super) force: bool,
    /// Leave files that were changed since or cannot be restored, and restore the others; if there are none, go one run
    /// further back
    #[arg(long, conflicts_with = "force")]
    pub(super) skip: bool,
    /// Do not ask
    #[arg(long)]
    pub(super) yes: bool,
    /// Only show what would be done
    #[arg(long, conflicts_with = "yes")]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(crate) writer: WriterArgs,
}

/// Whether changes are taken back, or made once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Undo,
    Redo,
    /// What changed in a copy is taken over.
    Apply,
    /// A copy is removed.
    Discard,
}

impl Way {
    fn copy_act(self) -> Option<CopyAct> {
        match self {
            Self::Undo | Self::Redo => None,
            Self::Apply => Some(CopyAct::Apply),
            Self::Discard => Some(CopyAct::Discard),
        }
    }
}

pub(crate) async fn run(args: UndoArgs, way: Way, globals: &Globals) -> Result<(), CliError> {
    // An owner would create a journal only to find nothing in it.
    Reader::open(&globals.home)?;
    let here = std::env::current_dir().unwrap_or_default();
    let asks = prompt::is_possible() && !args.yes && !args.dry_run;
    let params = UndoParams {
        session_key: args.session,
        run_id: args.run,
        paths: args.files.iter().map(|path| plain(&here.join(path)).display().to_string()).collect(),
        redo: way == Way::Redo,
        copy: way.copy_act(),
        force: args.force,
        skip: args.skip,
        dry_run: true,
        diffs: asks,
        ..UndoParams::default()
    };
    let is_dry = args.dry_run;
    let asked = async |client: &Client| {
        let mut params = params.clone();
        let mut planned = client.call::<RunsUndo>(params.clone()).await?;
        if asks {
            planned = decided(client, planned, &mut params).await?;
        }
        let is_possible = way == Way::Discard || planned.files.iter().any(|file| file.left.is_none());
        if is_dry || asks && is_possible && !confirmed(&planned) {
            return Ok(planned);
        }
        client.call::<RunsUndo>(UndoParams { dry_run: false, diffs: false, ..params }).await
    };
    let undone = change(globals, &args.writer, asked).await?;
    if !undone.done && !is_dry {
        let what = "nothing was changed".to_owned();
        return Err(CliError::Refused {
            exit: Exit::Refused,
            what,
            hint: "--yes does it without a question".to_owned(),
        });
    }
    print(&if args.writer.json { json(&undone) } else { lay_out(&undone) })
}

/// Asks what is to become of files, and which run is meant if nothing of one can be restored. Returns what would be done.
async fn decided(
    client: &Client,
    mut planned: FilesUndone,
    params: &mut UndoParams,
) -> Result<FilesUndone, ClientError> {
    loop {
        if decide(&planned, params) {
            planned = client.call::<RunsUndo>(params.clone()).await?;
        }
        if !goes_further(&planned, params) {
            return Ok(planned);
        }
        (params.keep, params.overwrite) = (vec![], vec![]);
        params.before = Some(planned.run_id.to_string());
        planned = client.call::<RunsUndo>(params.clone()).await?;
    }
}

/// Asks about each file that was changed since, or that somebody else may have changed. Returns whether there was one.
fn decide(planned: &FilesUndone, params: &mut UndoParams) -> bool {
    let in_question: Vec<&UndoneFile> = planned.files.iter().filter(|file| file.is_asked()).collect();
    for (number, file) in in_question.iter().enumerate() {
        match choice(file, in_question.len() - number) {
            Choice::Keep => params.keep.push(file.path.clone()),
            Choice::Overwrite => params.overwrite.push(file.path.clone()),
            Choice::KeepAll => {
                params.keep.extend(in_question[number..].iter().map(|file| file.path.clone()));
                break;
            }
        }
    }
    !in_question.is_empty()
}

/// Asks whether to go one run further back, if nothing of the last one can be restored.
fn goes_further(planned: &FilesUndone, params: &UndoParams) -> bool {
    let is_stuck = !planned.files.is_empty() && planned.files.iter().all(|file| file.left.is_some());
    if !is_stuck || params.redo || params.copy.is_some() || params.run_id.is_some() || !params.paths.is_empty() {
        return false;
    }
    // With a closed stderr there is no answer either.
    let _ = Output::Stderr.write(&lay_out(planned));
    let question = format!("? nothing of run {} can be restored: go one run further back", planned.run_id);
    prompt::ask(&question, " [y/N] ").is_some_and(|line| prompt::is_yes(&line))
}

/// What becomes of a file that somebody else may have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Keep,
    Overwrite,
    KeepAll,
}

/// Asks about one file until there is an answer. Nothing typed, and the end of the input, keep it.
fn choice(file: &UndoneFile, left: usize) -> Choice {
    let more = if left > 1 { ", keep [a]ll" } else { "" };
    let question = format!("? {}: {}\n", file.path, word(file.left.as_deref().unwrap_or_default()));
    let mark = format!("  [k]eep it, [o]verwrite it, show the [d]iff{more} [k] ");
    loop {
        let Some(line) = prompt::ask(&question, &mark) else { return Choice::KeepAll };
        match line.trim().to_lowercase().as_str() {
            "" | "k" | "keep" => return Choice::Keep,
            "o" | "overwrite" => return Choice::Overwrite,
            "a" if left > 1 => return Choice::KeepAll,
            "d" | "diff" => {
                let diff = file.diff.clone().unwrap_or_else(|| word("no diff can be shown"));
                // With a closed stderr there is no answer either.
                let _ = Output::Stderr.write(&format!("{}\n", diff.trim_end()));
            }
            _ => {}
        }
    }
}

/// Shows the plan on the terminal and asks.
fn confirmed(planned: &FilesUndone) -> bool {
    // With a closed stderr there is no answer either.
    let _ = Output::Stderr.write(&lay_out(planned));
    let question = match planned.copy {
        Some(CopyAct::Apply) => "? take these changes over",
        Some(CopyAct::Discard) => "? remove the copy and these changes",
        None if planned.redo => "? make these changes once more",
        None => "? take these changes back",
    };
    prompt::ask(question, " [y/N] ").is_some_and(|line| prompt::is_yes(&line))
}

/// A path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => plain.push(component),
        }
    }
    plain
}

fn lay_out(undone: &FilesUndone) -> String {
    let mut page = Page::default();
    let moved: Vec<&UndoneFile> = undone.files.iter().filter(|file| file.left.is_none()).collect();
    page.line(first_line(undone, moved.len()));
    let forward = undone.redo || undone.copy.is_some();
    for file in &moved {
        page.line(format!("  {} {}", act(file, forward), file.path));
    }
    let left: Vec<&UndoneFile> = undone.files.iter().filter(|file| file.left.is_some()).collect();
    if !left.is_empty() {
        page.line("stays as it is:");
    }
    for file in &left {
        page.line_as_it_is(format!("  {}: {}", file.path, word(file.left.as_deref().unwrap_or_default())));
    }
    if undone.copy.is_some() {
        after_copy(&mut page, undone, left.is_empty());
        return page.text();
    }
    if undone.done && !undone.redo && !left.is_empty() {
        page.line(format!("the next undo goes further back; `limulus undo {}` tries this run again", undone.run_id));
    }
    for why in &undone.unrecorded {
        page.line(format!("{UNRECORDED}: {why}"));
    }
    if !undone.commands.is_empty() && !undone.redo {
        page.line(format!("{} did outside this folder, and in ignored files, stays", ran(undone.commands.len())));
    }
    for command in &undone.background {
        page.line(background::in_folder(command, now()));
    }
    if undone.done && !undone.redo {
        page.line(format!("`limulus redo {}` makes the changes once more", undone.run_id));
    }
    page.text()
}

fn first_line(undone: &FilesUndone, moved: usize) -> String {
    let (run, workspace, files) = (undone.run_id, &undone.workspace, count(moved, "file"));
    let done = if undone.done { ", done" } else { "" };
    match undone.copy {
        Some(CopyAct::Apply) => format!("changes of run {run} into {workspace}: {files}{done}"),
        Some(CopyAct::Discard) => format!("copy of {workspace} of run {run}: {files} changed{}", removed(undone.done)),
        None => {
            let what = if undone.redo { "redo" } else { "undo" };
            format!("{what} of run {run} in {workspace}: {files}{done}")
        }
    }
}

fn removed(done: bool) -> &'static str {
    if done { ", removed" } else { "" }
}

/// What follows on taking over a copy, or discarding it.
fn after_copy(page: &mut Page, undone: &FilesUndone, is_whole: bool) {
    if !undone.done || undone.copy == Some(CopyAct::Discard) {
        return;
    }
    let run = undone.run_id;
    if !is_whole {
        page.line(format!("the copy stays: `limulus diff {run} --apply` tries the others again"));
    }
    page.line(format!("what git ignores is not taken over; `limulus undo {run}` takes the changes back"));
}

fn act(file: &UndoneFile, redo: bool) -> &'static str {
    match (file.act, file.kind) {
        (FileAct::Created, FileKind::Folder) => "create folder",
        (FileAct::Removed, FileKind::Folder) => "remove folder",
        (FileAct::Created, _) => "create ",
        (FileAct::Removed, _) => "remove ",
        (FileAct::Changed, _) if redo => "change ",
        (FileAct::Changed, _) => "restore",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_plain_before_the_owner_sees_it() {
        for (given, expected) in [("/a/./b/../c", "/a/c"), ("/../a", "/a"), ("/a/b", "/a/b")] {
            assert_eq!(plain(Path::new(given)), Path::new(expected), "{given}");
        }
    }
}
