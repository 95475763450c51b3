//! `limulus runs list`, `limulus runs show` and `limulus runs trace`. Ending, watching and waiting are in files of their own.

use clap::{Args, Subcommand};
use engine::Timestamp;
use gateway::show::name;
use protocol::method::{RunsExplain, RunsList, RunsListParams, RunsListed, RunsShow, RunsTrace};
use protocol::show::{CallStory, Explained, RunStory, RunSummary, TraceLine};
use runtime::Clock;

use super::abort::AbortArgs;
use super::hold::{BreakArgs, PauseArgs, ResumeArgs};
use super::send::SteerArgs;
use super::wait::WaitArgs;
use super::watch::WatchArgs;
use crate::args::PageArgs;
use crate::config::Globals;
use crate::error::CliError;
use crate::reading::ask;
use crate::show::choice::RunChoice;
use crate::show::human::{Page, Zone, columns, count, duration, excerpt, printable, tokens};
use crate::show::trace::lay_out as lay_out_trace;
use crate::show::{json, json_line, print};

/// Runs: what they did and what they are doing.
#[derive(Debug, Args)]
pub(crate) struct RunsArgs {
    #[command(subcommand)]
    command: RunsCommand,
}

/// What waits for something, or does it.
pub(crate) enum Following {
    /// `runs abort`
    Abort(AbortArgs),
    /// `runs pause`
    Pause(PauseArgs),
    /// `runs resume`
    Resume(ResumeArgs),
    /// `runs break`
    Break(BreakArgs),
    /// `runs steer`
    Steer(SteerArgs),
    /// `runs watch`
    Watch(WatchArgs),
    /// `runs wait`
    Wait(WaitArgs),
}

impl RunsArgs {
    /// What a command is given that does more than read.
    pub(crate) fn following(self) -> Result<Following, Self> {
        match self.command {
            RunsCommand::Abort(args) => Ok(Following::Abort(args)),
            RunsCommand::Pause(args) => Ok(Following::Pause(args)),
            RunsCommand::Resume(args) => Ok(Following::Resume(args)),
            RunsCommand::Break(args) => Ok(Following::Break(args)),
            RunsCommand::Steer(args) => Ok(Following::Steer(args)),
            RunsCommand::Watch(args) => Ok(Following::Watch(args)),
            RunsCommand::Wait(args) => Ok(Following::Wait(args)),
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
        #[command(flatten)]
        page: PageArgs,
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
    /// Why a run stands where it stands: state and since when, what it waits for and until when, what can be done
    Explain {
        #[command(flatten)]
        choice: RunChoice,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Hold a run where it is: a checkpoint, which outlives a restart. A running command goes on, and what it gives is kept
    Pause(PauseArgs),
    /// Let a run go on that is held. Beside an owner this comes back at once; where there is none, this process does the work
    Resume(ResumeArgs),
    /// Let a run hold by itself when it comes to a place. Each place holds it once; `runs resume` lets it go on
    Break(BreakArgs),
    /// Say something to the run that is under way: it hears it at its next boundary
    Steer(SteerArgs),
    /// End a run: its stream is cut and kept, its commands are ended with every process of theirs
    Abort(AbortArgs),
    /// Watch a run: its answer as it comes, its tool calls, what it waits for. Ends with it, and with its exit code
    Watch(WatchArgs),
    /// Wait for the end of a run; the exit code is the run's, or 124 when the waiting took too long
    Wait(WaitArgs),
}

/// Prints what was asked.
pub(crate) fn run(args: RunsArgs, globals: &Globals) -> Result<(), CliError> {
    let zone = Zone::local();
    print(&match args.command {
        RunsCommand::List { session, page, json: as_json } => {
            let of = session.as_ref().map(|key| format!(" --session {key}")).unwrap_or_default();
            let params = RunsListParams { session_key: session, limit: page.limit(), after: page.after.clone() };
            let RunsListed { runs, next } = ask::<RunsList>(globals, params)?;
            let list = if as_json { json(&runs) } else { lay_out_list(&runs, &zone) };
            page.with_next(list, &format!("runs list{of}"), next, as_json)
        }
        RunsCommand::Show { choice, json: as_json } => {
            let run = ask::<RunsShow>(globals, choice.into())?;
            if as_json { json(&run) } else { lay_out(&run, &zone) }
        }
        RunsCommand::Trace { choice, json: as_json } => {
            let lines = ask::<RunsTrace>(globals, choice.into())?.lines;
            if as_json { all_lines(lines) } else { lay_out_trace(&lines, &zone) }
        }
        RunsCommand::Explain { choice, json: as_json } => {
            let explained = ask::<RunsExplain>(globals, choice.into())?;
            if as_json { json(&explained) } else { lay_out_explained(&explained, &zone, Clock::new().now()) }
        }
        RunsCommand::Abort(_)
        | RunsCommand::Pause(_)
        | RunsCommand::Resume(_)
        | RunsCommand::Break(_)
        | RunsCommand::Steer(_)
        | RunsCommand::Watch(_)
        | RunsCommand::Wait(_) => {
            return Err(CliError::bug("a command that follows a run was taken for one that reads"));
        }
    })
}

/// Every line as JSON: what a person need not see is there for programs.
fn all_lines(lines: Vec<TraceLine>) -> String {
    lines.into_iter().map(|line| json_line(&TraceLine { echo: false, ..line })).collect()
}

fn lay_out_list(runs: &[RunSummary], zone: &Zone) -> String {
    let heading = ["RUN", "SESSION", "STATE", "STARTED", "MODEL", "TOKENS"].map(str::to_owned);
    let rows = runs.iter().map(|run| {
        [
            run.run.to_string(),
            run.key.clone(),
            run.status(),
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
    if let Some(wait) = &summary.lane_wait {
        let behind: Vec<String> = wait.behind.iter().map(|of| format!("{} (run {})", of.session, of.run)).collect();
        let (since, ahead) = (zone.time(wait.since), count(wait.ahead as usize, "other"));
        page.line(format!("  waits since {since} for {}, {ahead} before it", wait.place()));
        page.indented("  its slots are held by: ", &behind.join("\n"));
    }
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

/// Three lines.
fn lay_out_explained(explained: &Explained, zone: &Zone, now: Timestamp) -> String {
    let Explained { run, key, state, since, waits_for, until, then, can } = explained;
    let mut page = Page::default();
    page.line(format!(
        "run {run} of {key} is {state} since {}, for {}",
        zone.time(*since),
        duration(now.since(*since))
    ));
    let limit =
        until.zip(then.as_deref()).map(|(at, then)| format!("; at the latest until {}, then {then}", zone.time(at)));
    let waits_for = waits_for.as_deref().unwrap_or("nothing: it is over");
    page.line(format!("  waits for {}{}", printable(waits_for), limit.unwrap_or_default()));
    // The id is in the first line.
    let id = run.to_string();
    let can: Vec<String> = can.iter().map(|way| format!("{}: {}", way.what, way.command.replace(&id, "RUN"))).collect();
    page.line(format!("  you can {}", can.join("; ")));
    page.text()
}

fn lay_out_call(page: &mut Page, call: &CallStory) {
    const PREVIEW_CHARS: usize = 160;
    let end = call.outcome.map_or_else(|| name(&call.stage), |outcome| name(&outcome));
    let arguments = excerpt(&call.arguments, PREVIEW_CHARS);
    page.line(format!("  → {} {arguments} — {end} ({})", printable(&call.tool), name(&call.class)));
    if let Some(output) = &call.output {
        page.line(format!("    {}", excerpt(output, PREVIEW_CHARS)));
    }
}

#[cfg(test)]
mod tests;
