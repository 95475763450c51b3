//! `limulus runs list`, `limulus runs show` and `limulus runs trace`. Ending a run is in `abort`: it writes.

use clap::{Args, Subcommand};
use engine::SessionId;
use journal::Read;

use super::abort::AbortArgs;
use crate::config::Globals;
use crate::error::CliError;
use crate::show::human::{Page, Zone, columns, excerpt, printable, tokens};
use crate::show::lookup::{self, RunChoice};
use crate::show::run::{CallStory, RunStory, RunSummary, story};
use crate::show::sentence::name;
use crate::show::trace::{lay_out as lay_out_trace, trace};
use crate::show::{json, json_line, open, print, texts};

/// Runs: what they did and what they are doing.
#[derive(Debug, Args)]
pub(crate) struct RunsArgs {
    #[command(subcommand)]
    command: RunsCommand,
}

impl RunsArgs {
    /// What `runs abort` is given, if it is that: the one command here that writes.
    pub(crate) fn abort(self) -> Result<AbortArgs, Self> {
        match self.command {
            RunsCommand::Abort(abort) => Ok(abort),
            command => Err(Self { command }),
        }
    }
}

/// What can be asked of runs.
#[derive(Debug, Subcommand)]
enum RunsCommand {
    /// All runs, or those of a session
    List {
        /// The session: NAME, or agent:AGENT:NAME [default: all]
        #[arg(long, value_name = "KEY")]
        session: Option<String>,
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// One run: its answer, its steps, their calls
    Show {
        #[command(flatten)]
        choice: RunChoice,
        /// Print one JSON object, texts whole
        #[arg(long)]
        json: bool,
    },
    /// The story of one run: every transition with its time and cause
    Trace {
        #[command(flatten)]
        choice: RunChoice,
        /// Print one JSON object for each entry
        #[arg(long)]
        json: bool,
    },
    /// End a run: its stream is cut and kept, its commands are ended with every process of theirs
    Abort(AbortArgs),
}

/// Prints what was asked.
pub(crate) fn run(args: RunsArgs, globals: &Globals) -> Result<(), CliError> {
    let reader = open(globals)?;
    let (zone, texts) = (Zone::local(), texts(&reader));
    print(&match args.command {
        RunsCommand::List { session, json: as_json } => {
            let runs = list(&reader, session.as_deref())?;
            if as_json { json(&runs) } else { lay_out_list(&runs, &zone) }
        }
        RunsCommand::Show { choice, json: as_json } => {
            let run = story(&reader, &choice.find(&reader)?, &texts)?;
            if as_json { json(&run) } else { lay_out(&run, &zone) }
        }
        RunsCommand::Trace { choice, json: as_json } => {
            let lines = trace(&reader, &choice.find(&reader)?, &texts)?;
            if as_json { lines.iter().map(json_line).collect() } else { lay_out_trace(&lines, &zone) }
        }
        RunsCommand::Abort(_) => return Err(CliError::bug("`runs abort` was taken for a command that reads")),
    })
}

fn list(read: &dyn Read, key: Option<&str>) -> Result<Vec<RunSummary>, CliError> {
    let chosen: Option<SessionId> = match key {
        Some(_) => Some(lookup::session(read, key)?.session),
        None => None,
    };
    let sessions = read.sessions()?;
    let key_of = |id| sessions.iter().find(|row| row.session == id).map_or("", |row| row.key.as_str());
    Ok(read.runs(chosen)?.iter().map(|row| RunSummary::of_row(row, key_of(row.session))).collect())
}

fn lay_out_list(runs: &[RunSummary], zone: &Zone) -> String {
    let heading = ["RUN", "SESSION", "STATE", "STARTED", "MODEL", "TOKENS"].map(str::to_owned);
    let rows = runs.iter().map(|run| {
        [
            run.run.to_string(),
            run.key.clone(),
            run.status().to_owned(),
            run.started_at.map(|at| zone.time(at)).unwrap_or_default(),
            run.model.clone(),
            format!("{} in, {} out", run.usage.input + run.usage.cached + run.usage.cache_written, run.usage.output),
        ]
    });
    columns(&std::iter::once(heading).chain(rows).collect::<Vec<_>>())
}

fn lay_out(run: &RunStory, zone: &Zone) -> String {
    let summary = &run.summary;
    let started =
        summary.started_at.map_or_else(|| "not started".to_owned(), |at| format!("started {}", zone.time(at)));
    let took = summary.started_at.zip(summary.ended_at).map(|(start, end)| format!(", took {} ms", end.since(start)));
    let mut page = Page::default();
    page.line(format!("run {} of {} is {}", summary.run, summary.key, summary.status()));
    page.line(format!("  {started}{}; {}; {}", took.unwrap_or_default(), summary.model, tokens(&summary.usage)));
    if let Some(error) = &summary.error {
        page.indented("  failure: ", error);
    }
    if let Some(at) = &run.removed_to {
        page.line(format!("  its first entries were removed, up to {at}: what they said and did is not shown"));
    }
    for (number, step) in run.steps.iter().enumerate() {
        let request = step.request;
        page.line(format!("\nmessage {} (request {}, try {})", number + 1, request.ordinal, request.try_no));
        page.indented("  ", &step.text);
        for call in &step.calls {
            lay_out_call(&mut page, call);
        }
    }
    if let Some(request) = run.open_request {
        page.line(format!("\nstill streaming (request {}, try {})", request.ordinal, request.try_no));
        page.indented("  ", &run.open_text);
    }
    page.text()
}

fn lay_out_call(page: &mut Page, call: &CallStory) {
    const PREVIEW_CHARS: usize = 160;
    let end = call.outcome.map_or_else(|| call.stage.to_owned(), |outcome| name(&outcome));
    let arguments = excerpt(&call.arguments, PREVIEW_CHARS);
    page.line(format!("  → {} {arguments} — {end} ({})", printable(&call.tool), name(&call.class)));
    if let Some(output) = &call.output {
        page.line(format!("    {}", excerpt(output, PREVIEW_CHARS)));
    }
}

#[cfg(test)]
mod tests;
