//! `limulus diff`: what runs changed in files.

use clap::Args;
use config::Globals;
use protocol::Client;
use protocol::method::{DiffParams, FileAct, FileDiff, NoParams, RunDiff, RunsDiff, RunsRecord, UndoneRun};

use super::background;
use super::change::change;
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
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// Records what background commands changed that ended while nobody owned the home: else the diff would lack it.
pub(crate) async fn record(globals: &Globals) -> Result<(), CliError> {
    let record = async |client: &Client| client.call::<RunsRecord>(NoParams {}).await;
    change(globals, &WriterArgs::default(), record).await.map(|_| ())
}

pub(crate) fn run(args: DiffArgs, globals: &Globals) -> Result<(), CliError> {
    let last = args.last.map(|last| usize::try_from(last).unwrap_or(usize::MAX));
    let diff = ask::<RunsDiff>(globals, DiffParams { session_key: args.session, run_id: args.run, last })?;
    if args.json {
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
    let shown = diff.files.iter().map(of_file).chain([sum]).chain(undone).chain(unrecorded);
    shown.chain(commands).chain(background).collect()
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
