//! `limulus runs list`, `show`, `trace` and `explain`. The other subcommands of `runs` have their own files.

use clap::{Args, Subcommand};
use config::Globals;
use engine::Timestamp;
use engine::tables::failover::FailureCategory;
use protocol::method::{BudgetLine, RunsExplain, RunsList, RunsListParams, RunsListed, RunsShow, RunsTrace};
use protocol::show::{CallStory, Explained, RunStory, RunSummary, TraceLine};
use runtime::Clock;
use views::name;

use super::abort::AbortArgs;
use super::hold::{BreakArgs, PauseArgs, ResumeArgs};
use super::send::SteerArgs;
use super::wait::WaitArgs;
use super::watch::WatchArgs;
use crate::args::PageArgs;
use crate::error::CliError;
use crate::language::word;
use crate::reading::ask;
use crate::render::plan_lines;
use crate::show::choice::{RunChoice, SessionFilter};
use crate::show::human::{
    Page, Zone, columns, count, duration, excerpt, heading, printable, printable_line, resources, tokens,
};
use crate::show::trace::lay_out as lay_out_trace;
use crate::show::{json, json_line, print};
use crate::unnamed::SessionArgument;

/// List, show, trace, pause, resume, steer and abort runs
#[derive(Debug, Args)]
pub(crate) struct RunsArgs {
    #[command(subcommand)]
    command: RunsCommand,
}

/// A subcommand that writes to a run or waits for it. Others only read the journal.
pub(crate) enum Following {
    Abort(AbortArgs),
    Pause(PauseArgs),
    Resume(ResumeArgs),
    Break(BreakArgs),
    Steer(SteerArgs),
    Watch(WatchArgs),
    Wait(WaitArgs),
}

impl RunsArgs {
    /// Where it has its session.
    pub(crate) fn session(&mut self) -> SessionArgument<'_> {
        match &mut self.command {
            RunsCommand::Show { choice, .. }
            | RunsCommand::Trace { choice, .. }
            | RunsCommand::Explain { choice, .. } => choice.session(),
            RunsCommand::List { choice, .. } => choice.session(),
            RunsCommand::Pause(args) => args.choice.session(),
            RunsCommand::Resume(args) => args.choice.session(),
            RunsCommand::Break(args) => args.choice.session(),
            RunsCommand::Watch(args) => args.choice.session(),
            RunsCommand::Wait(args) => args.choice.session(),
            RunsCommand::Abort(args) => args.choice.session(),
            RunsCommand::Steer(args) => args.session(),
        }
    }

    /// The arguments of a subcommand that does more than read; else these arguments.
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

/// All subcommands of `runs`.
#[derive(Debug, Subcommand)]
enum RunsCommand {
    /// List runs, of one session or of all
    List {
        #[command(flatten)]
        choice: SessionFilter,
        #[command(flatten)]
        page: PageArgs,
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Show a run: its answer, its steps and their calls
    Show {
        #[command(flatten)]
        choice: RunChoice,
        /// Print one JSON object, texts whole
        #[arg(long)]
        json: bool,
    },
    /// Trace a run: every transition with its time and cause
    Trace {
        #[command(flatten)]
        choice: RunChoice,
        /// Print one JSON object for each entry, with its recorded fields
        #[arg(long)]
        json: bool,
    },
    /// Explain a run: its state and since when, what it waits for and until when, what you can do
    Explain {
        #[command(flatten)]
        choice: RunChoice,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Pause a run, also across restarts; a running command continues, and its output is kept
    Pause(PauseArgs),
    /// Resume a paused run; if another process owns the home, return at once, else this process does the work
    Resume(ResumeArgs),
    /// Set a breakpoint that pauses a run once; `runs resume` resumes it
    Break(BreakArgs),
    /// Deliver a message to an unfinished run at its next boundary
    Steer(SteerArgs),
    /// End a run: keep the text so far, and end its commands with all of their processes
    Abort(AbortArgs),
    /// Watch a run: its answer, its tool calls and what it waits for; exit with the run's exit code
    Watch(WatchArgs),
    /// Wait for the end of a run; the exit code is the run's, or 124 if the time is over
    Wait(WaitArgs),
}

/// Prints the result of a subcommand that only reads.
pub(crate) fn run(args: RunsArgs, globals: &Globals) -> Result<(), CliError> {
    let zone = Zone::local();
    print(&match args.command {
        RunsCommand::List { choice: SessionFilter { key: session, .. }, page, json: as_json } => {
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
            return Err(CliError::bug("a subcommand that does more than read was passed to the reader"));
        }
    })
}

/// Every line as JSON. Programs also get the lines that a person need not see.
fn all_lines(lines: Vec<TraceLine>) -> String {
    lines.into_iter().map(|line| json_line(&TraceLine { echo: false, ..line })).collect()
}

fn lay_out_list(runs: &[RunSummary], zone: &Zone) -> String {
    let heading = heading(["RUN", "SESSION", "STATE", "STARTED", "MODEL", "TOKENS"]);
    let rows = runs.iter().map(|run| {
        [
            run.run.to_string(),
            run.key.clone(),
            word(run.status()),
            run.started_at.map(|at| zone.time(at)).unwrap_or_default(),
            run.model.clone(),
            word(format!("{} in, {} out", run.usage.prompt(), run.usage.output)),
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
    page.line(format!("  {}", resources(&run.resources)));
    if let Some(wait) = &summary.lane_wait {
        let behind: Vec<String> = wait.behind.iter().map(|of| format!("{} (run {})", of.session, of.run)).collect();
        let (since, ahead) = (zone.time(wait.since), count(wait.ahead as usize, "other"));
        page.line(format!("  waits since {since} for {}, {ahead} before it", wait.place()));
        page.indented("  its slots are held by: ", &behind.join("\n"));
    }
    if let Some(reason) = summary.stop_reason {
        page.indented("  incomplete: ", reason.in_words());
    }
    for (what, address) in [("came from", &run.origin), ("answer goes to", &run.reply_to)] {
        if let Some(address) = address {
            page.line(format!("  {what} {}", printable_line(&address.to_string())));
        }
    }
    if let Some(error) = &summary.error {
        page.indented("  failure: ", error);
    }
    if let Some(FailureCategory { kind, recoverability }) = run.category {
        page.line(format!("  its kind: {} ({})", kind.name(), recoverability.name()));
    }
    if let Some(at) = &summary.checkpoint {
        page.line(format!("  interrupted at the checkpoint {at}"));
    }
    for limit in run.budget.iter().filter_map(BudgetLine::as_limit) {
        page.line(format!("  budget of the {}: {}", limit.scope.name(), limit.figures()));
    }
    if let Some(at) = &run.removed_to {
        page.line(format!("  entries up to {at} were removed and are not shown"));
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

/// The state of a run in three lines: since when, what it waits for, what the user can do.
fn lay_out_explained(explained: &Explained, zone: &Zone, now: Timestamp) -> String {
    let Explained { run, key, state, since, waits_for, until, then, budget: _, plan, can } = explained;
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
    // The first line has the id, so the commands need not repeat it.
    let id = run.to_string();
    let way = |what: &str, command: &str| format!("{}: {}", word(what), command.replace(&id, "RUN"));
    let can: Vec<String> = can.iter().map(|can| way(can.what.as_ref(), can.command.as_ref())).collect();
    page.line(format!("  you can {}", can.join("; ")));
    if !plan.is_empty() {
        page.line("  its plan:");
    }
    for (mark, step) in plan_lines(plan) {
        page.line_as_it_is(format!("    {mark} {step}"));
    }
    page.text()
}

fn lay_out_call(page: &mut Page, call: &CallStory) {
    const PREVIEW_CHARS: usize = 160;
    let end = call.outcome.map_or_else(|| name(&call.stage), |outcome| name(&outcome));
    let arguments = excerpt(&call.arguments, PREVIEW_CHARS);
    let (end, class) = (word(end), word(name(&call.class)));
    page.line_as_it_is(format!("  → {} {arguments} — {end} ({class})", excerpt(&call.tool, PREVIEW_CHARS)));
    if let Some(output) = &call.output {
        page.line_as_it_is(format!("    {}", excerpt(output, PREVIEW_CHARS)));
    }
}

#[cfg(test)]
mod tests;
