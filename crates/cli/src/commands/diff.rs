//! `limulus diff`: what runs changed in files.

use clap::Args;
use protocol::method::{DiffParams, FileAct, FileDiff, RunDiff, RunsDiff};

use crate::config::Globals;
use crate::error::{CliError, Exit};
use crate::output::{Control, Output, Part};
use crate::reading::ask;
use crate::show::human::count;
use crate::show::{json, print};

/// Show what a run, or the last runs of a session, changed in files
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The run's id, or a unique prefix of it [default: the last run of the session that changed files]
    run: Option<String>,
    /// The session whose runs are meant: NAME, or agent:AGENT:NAME
    #[arg(long, value_name = "KEY", conflicts_with = "run")]
    session: Option<String>,
    /// Show what the last N runs that changed files did together
    #[arg(long, value_name = "N", conflicts_with = "run", value_parser = clap::value_parser!(u64).range(1..))]
    last: Option<u64>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: DiffArgs, globals: &Globals) -> Result<(), CliError> {
    let last = args.last.map(|last| usize::try_from(last).unwrap_or(usize::MAX));
    let diff = ask::<RunsDiff>(globals, DiffParams { session_key: args.session, run_id: args.run, last })?;
    if args.json {
        return print(&json(&diff));
    }
    let text = lay_out(&diff);
    if !Output::Stdout.is_terminal() || is_plain() {
        return print(&text);
    }
    Output::Stdout.draw(&coloured(&text)).map_err(|error| CliError::Failed {
        exit: Exit::Store,
        what: format!("the diff could not be printed ({error})"),
        hint: "print it into a file".to_owned(),
    })
}

/// Whether the user wants no colours (no-color.org).
fn is_plain() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
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
    let sum = format!("{} changed, +{added} −{removed}{runs}\n", count(diff.files.len(), "file"));
    let unrecorded = diff.unrecorded.iter().map(|why| format!("{UNRECORDED}: {why}\n"));
    let commands = (!diff.commands.is_empty())
        .then(|| format!("{} did outside this folder is not shown\n", ran(diff.commands.len())));
    diff.files.iter().map(of_file).chain([sum]).chain(unrecorded).chain(commands).collect()
}

fn of_file(file: &FileDiff) -> String {
    let mode = file.mode.as_ref().map(|[old, new]| format!("mode {old} → {new}: {}\n", file.path));
    let whole = |note: String| format!("{}: {}{note}\n", act(file.act), file.path);
    let text = match (&file.diff, &file.note) {
        (Some(diff), _) if !diff.is_empty() => diff.clone(),
        (_, Some(note)) => whole(format!(" ({note})")),
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

/// The lines of a diff in colours. Text and colours are told apart where they are written.
fn coloured(text: &str) -> Vec<Part<'_>> {
    let mut parts = vec![];
    for line in text.split_inclusive('\n') {
        let (end, rest) = (Control::Plain, line.strip_suffix('\n').unwrap_or(line));
        let colour = match line.as_bytes() {
            [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] | [b'@', b'@', ..] => Some(Control::Dim),
            [b'+', ..] => Some(Control::Added),
            [b'-', ..] => Some(Control::Removed),
            _ => None,
        };
        match colour {
            Some(colour) => {
                parts.extend([Part::Control(colour), Part::Text(rest), Part::Control(end), Part::Text("\n")]);
            }
            None => parts.push(Part::Text(line)),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_has_colours_that_its_text_cannot_set() {
        let parts = coloured("--- a/x\n@@ -1 +1 @@\n-\u{1b}[31mred\n+new\n same\n");
        let controls: Vec<Control> = parts
            .iter()
            .filter_map(|part| if let Part::Control(control) = part { Some(*control) } else { None })
            .filter(|control| *control != Control::Plain)
            .collect();
        assert_eq!(controls, [Control::Dim, Control::Dim, Control::Removed, Control::Added]);
    }
}
