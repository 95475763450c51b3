//! `limulus diff`: what runs changed in files.

use std::path::PathBuf;

use clap::Args;
use config::Globals;
use engine::CopyAct;
use protocol::Client;
use protocol::method::{
    CopyOfRun, CopyOutcome, DiffParams, FileAct, FileDiff, NoParams, RunDiff, RunsDiff, RunsRecord, UndoneRun,
};

use super::background;
use super::change::change;
use super::undo::{self, UndoArgs, Way};
use crate::args::WriterArgs;
use crate::error::{CliError, Exit};
use crate::language::word;
use crate::output::Output;
use crate::reading::ask;
use crate::render::coloured;
use crate::show::human::{Zone, count, now};
use crate::show::{json, print, worded};

/// Show what a run, or the last runs of a session, changed in files
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The run's id, or a unique prefix of it; or a session, for its last run that changed files
    #[arg(value_name = "RUN|KEY")]
    pub(crate) run: Option<String>,
    /// The session whose runs are meant: NAME, or agent:AGENT:NAME [default: that of this folder]
    #[arg(long, value_name = "KEY", conflicts_with = "run")]
    pub(crate) session: Option<String>,
    /// Show what the last N runs that changed files did together
    #[arg(long, value_name = "N", conflicts_with = "run", value_parser = crate::args::whole_from::<1>)]
    last: Option<u64>,
    /// Take over into the workspace what changed in the copy in which the run worked, and remove the copy; shows it, and asks first on a
    /// terminal
    #[arg(long, conflicts_with = "last")]
    apply: bool,
    /// Remove the copy in which the run worked, with all that changed in it; shows it, and asks first on a terminal
    #[arg(long, conflicts_with_all = ["apply", "last"])]
    discard: bool,
    #[command(flatten)]
    copy: CopyArgs,
    #[command(flatten)]
    pub(crate) writer: WriterArgs,
}

/// How a copy is taken over, or discarded.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
struct CopyArgs {
    /// With --apply: only these files, and what is in these folders; the copy stays
    #[arg(long, value_name = "PATH", num_args = 1.., requires = "apply")]
    files: Vec<PathBuf>,
    /// With --apply: also overwrite files that were changed in the workspace since
    #[arg(long, requires = "apply")]
    force: bool,
    /// With --apply: leave files that were changed in the workspace since, and take over the others; the copy stays
    #[arg(long, requires = "apply", conflicts_with = "force")]
    skip: bool,
    /// With --apply or --discard: do not ask
    #[arg(long)]
    yes: bool,
    /// With --apply or --discard: only show what would be done
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
}

impl DiffArgs {
    /// What is to become of a copy; none if a diff is to be shown.
    pub(crate) fn copy_act(&self) -> Option<CopyAct> {
        match (self.apply, self.discard) {
            (true, _) => Some(CopyAct::Apply),
            (_, true) => Some(CopyAct::Discard),
            _ => None,
        }
    }

    fn for_copy(self) -> UndoArgs {
        let CopyArgs { files, force, skip, yes, dry_run } = self.copy;
        UndoArgs { run: self.run, session: self.session, files, force, skip, yes, dry_run, writer: self.writer }
    }
}

/// Records what background commands changed that ended while nobody owned the home: else the diff would lack it.
pub(crate) async fn record(globals: &Globals) -> Result<(), CliError> {
    let record = async |client: &Client| client.call::<RunsRecord>(NoParams {}).await;
    change(globals, &WriterArgs::default(), record).await.map(|_| ())
}

/// Takes over what changed in a copy, or discards it.
pub(crate) async fn decide(args: DiffArgs, act: CopyAct, globals: &Globals) -> Result<(), CliError> {
    let way = if act == CopyAct::Apply { Way::Apply } else { Way::Discard };
    undo::run(args.for_copy(), way, globals).await
}

pub(crate) fn run(args: DiffArgs, globals: &Globals) -> Result<(), CliError> {
    if args.copy.yes || args.copy.dry_run {
        return Err(CliError::Usage {
            what: "--yes and --dry-run are for --apply and --discard".to_owned(),
            hint: "`limulus diff` alone only shows what changed".to_owned(),
        });
    }
    let last = args.last.map(|last| usize::try_from(last).unwrap_or(usize::MAX));
    let diff = ask::<RunsDiff>(globals, DiffParams { session_key: args.session, run_id: args.run, last })?;
    if args.writer.json {
        return print(&json(&diff));
    }
    let text = lay_out(&diff);
    if !Output::Stdout.has_colors() {
        return print(&text);
    }
    Output::Stdout.draw(&coloured(&text)).map_err(|error| CliError::Failed {
        exit: Exit::Store,
        what: format!("the diff could not be printed ({error})"),
        hint: "print it into a file".to_owned(),
    })
}

/// What is said where not all that commands changed is recorded; the reason follows.
pub(super) const UNRECORDED: &str = "what commands changed in this folder is not recorded";

/// How many commands ran, up to a verb.
pub(super) fn ran(commands: usize) -> String {
    format!("{} ran: what {}", count(commands, "command"), if commands == 1 { "it" } else { "they" })
}

fn lay_out(diff: &RunDiff) -> String {
    let (added, removed) = diff.files.iter().fold((0, 0), |sum, file| (sum.0 + file.added, sum.1 + file.removed));
    let runs = match diff.run_ids.as_slice() {
        [] => " (no run has changed files)".to_owned(),
        [run] => format!(" by run {run}"),
        runs => format!(" by {} runs", runs.len()),
    };
    let sum = worded(format!("{} changed, +{added} −{removed}{runs}\n", count(diff.files.len(), "file")));
    let unrecorded = diff.unrecorded.iter().map(|why| worded(format!("{UNRECORDED}: {why}\n")));
    let commands = (!diff.commands.is_empty()).then(|| {
        worded(format!("{} did outside this folder, and in ignored files, is not shown\n", ran(diff.commands.len())))
    });
    let now = now();
    let background = diff.background.iter().map(|command| worded(background::in_folder(command, now)) + "\n");
    let undone =
        diff.undone.iter().map(|undone| worded(taken_back(undone, &Zone::local().time(undone.undone_at)) + "\n"));
    let copy = diff.copy.as_ref().map(|copy| worded(of_copy(copy, diff)) + "\n");
    let shown = diff.files.iter().map(of_file).chain([sum]).chain(copy).chain(undone).chain(unrecorded);
    shown.chain(commands).chain(background).collect()
}

/// Where the changes are, if the run worked in a copy.
fn of_copy(copy: &CopyOfRun, diff: &RunDiff) -> String {
    let run = diff.run_ids.last().map(ToString::to_string).unwrap_or_default();
    let at = copy.at.map(|at| Zone::local().time(at)).unwrap_or_default();
    match copy.state {
        CopyOutcome::Open => format!(
            "in a copy of {}: `limulus diff {run} --apply` takes the changes over, `--discard` removes the copy",
            copy.of
        ),
        CopyOutcome::Applied => format!("taken over into {} at {at}", copy.of),
        CopyOutcome::Discarded => format!("discarded with its copy of {} at {at}", copy.of),
        CopyOutcome::Gone => format!("the copy of {} in which it worked is gone", copy.of),
    }
}

/// That a run was undone since, and when.
fn taken_back(UndoneRun { run_id, files, of, .. }: &UndoneRun, at: &str) -> String {
    if files == of {
        return format!("run {run_id} was undone at {at}; `limulus redo {run_id}` makes its changes once more");
    }
    format!(
        "{files} of {} of run {run_id} were undone at {at}; `limulus redo {run_id}` makes them once more",
        count(*of, "file")
    )
}

fn of_file(file: &FileDiff) -> String {
    let mode = file.mode.as_ref().map(|[old, new]| format!("mode {old} → {new}: {}\n", file.path));
    let whole = |note: String| format!("{}: {}{note}\n", word(act(file.act)), file.path);
    let text = match (&file.diff, &file.note) {
        (Some(diff), _) if !diff.is_empty() => diff.clone(),
        (_, Some(note)) => whole(format!(" ({})", word(note))),
        _ if mode.is_none() => whole(String::new()),
        _ => String::new(),
    };
    mode.unwrap_or_default() + &text
}

fn act(act: FileAct) -> &'static str {
    match act {
        FileAct::Created => "created",
        FileAct::Changed => "changed",
        FileAct::Removed => "removed",
    }
}
