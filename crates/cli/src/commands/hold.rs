//! `limulus runs pause`, `runs resume` and `runs break`: pause a run now or at a breakpoint, and resume it.

use std::sync::Arc;

use clap::Args;
use client::is_gone;
use config::Globals;
use engine::RunId;
use engine::tables::transitions::RunState;
use journal::Reader;
use protocol::method::{BreakParams, PauseParams, RunAsked, RunResumeParams, RunsBreak, RunsPause, RunsResume};
use protocol::{Client, ClientError};
use views::lookup;
use views::lookup::FoundRun;

use super::abort::until_ended;
use super::change::change;
use super::follower::{End, Follower};
use super::resume;
use crate::args::WriterArgs;
use crate::deprecation;
use crate::error::{CliError, failed};
use crate::show::choice::RunChoice;
use crate::show::{json, print, worded};

/// Pause a run, also across restarts; a running command continues, and its output is kept
#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    pub(super) choice: RunChoice,
    /// Stop its commands as well, with all of their processes and their time limits
    #[arg(long)]
    freeze: bool,
    #[command(flatten)]
    writer: WriterArgs,
}

/// Resume a paused run; if another process owns the home, return at once, else this process does the work
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    pub(super) choice: RunChoice,
    /// End it as interrupted instead: keep its text, and continue with what waits after it
    #[arg(long)]
    drop: bool,
    #[command(flatten)]
    writer: WriterArgs,
}

/// Set a breakpoint that pauses a run once; `runs resume` resumes it
#[derive(Debug, Args)]
pub(crate) struct BreakArgs {
    #[command(flatten)]
    pub(super) choice: RunChoice,
    #[command(flatten)]
    place: BreakpointArgs,
    #[command(flatten)]
    writer: WriterArgs,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct BreakpointArgs {
    /// Pause before the next call of this tool starts
    #[arg(long, value_name = "TOOL", value_parser = tool)]
    before_tool: Option<String>,
    /// Pause when it next enters this state: preparing, tool_exec, compacting, error, retry or awaiting
    #[arg(long, value_name = "STATE", value_parser = state)]
    on: Option<RunState>,
    /// Remove all breakpoints
    #[arg(long)]
    clear: bool,
}

/// Parses the name of a tool, with or without blanks around it.
fn tool(text: &str) -> Result<String, String> {
    tools::tool_named(text.trim()).map(str::to_owned)
}

/// Parses the name of a run state.
fn state(text: &str) -> Result<RunState, String> {
    let text = text.trim();
    let names = || RunState::ALL.iter().map(|state| state.name()).collect::<Vec<_>>().join(", ");
    RunState::ALL.iter().find(|state| state.name() == text).copied().ok_or_else(|| format!("there are: {}", names()))
}

pub(crate) async fn pause(args: PauseArgs, globals: &Globals) -> Result<(), CliError> {
    let RunChoice { run, session } = args.choice;
    let params = PauseParams { run, session, freeze: args.freeze };
    let asked = change(globals, &args.writer, async |client| client.call::<RunsPause>(params.clone()).await).await?;
    let frozen = if args.freeze { ", and its commands are stopped" } else { "" };
    let text = format!("run {0} is paused{frozen}; `limulus runs resume {0}` resumes it\n", asked.run_id);
    print(&if args.writer.json { json(&asked) } else { worded(text) })
}

pub(crate) async fn break_at(args: BreakArgs, globals: &Globals) -> Result<(), CliError> {
    let RunChoice { run, session } = args.choice;
    let BreakpointArgs { before_tool, on, .. } = args.place;
    let place = match (&before_tool, on) {
        (Some(tool), _) => format!("pauses before `{tool}`"),
        (None, Some(state)) => format!("pauses in `{}`", state.name()),
        (None, None) => "has no breakpoints".to_owned(),
    };
    let params = BreakParams { run, session, before_tool, on_state: on };
    let asked = change(globals, &args.writer, async |client| client.call::<RunsBreak>(params.clone()).await).await?;
    print(&if args.writer.json { json(&asked) } else { worded(format!("run {} {place}\n", asked.run_id)) })
}

pub(crate) async fn run_resume(args: ResumeArgs, globals: &Globals) -> Result<(), CliError> {
    let config = Arc::new(deprecation::load(globals, args.writer.flags())?);
    let reader = Reader::open(&globals.home)?;
    let found = lookup::run(&reader, &args.choice.into())?;
    // Nothing starts before the run that is to end has ended.
    let mut follower = Follower::open_to_change(globals, config, &args.writer).await?;
    let resumed = if args.drop {
        drop_run(&mut follower, &found).await
    } else {
        resume(&mut follower, &reader, &found, args.writer.json).await
    };
    let closed = follower.close(End::of(&resumed)).await;
    resumed.and(closed)
}

async fn ask(client: &Client, run: RunId, drop: bool) -> Result<RunAsked, ClientError> {
    client.call::<RunsResume>(RunResumeParams { run: Some(run.to_string()), session: None, drop }).await
}

async fn drop_run(follower: &mut Follower<'_>, found: &FoundRun) -> Result<(), CliError> {
    let run = found.run;
    until_ended(follower, &found.session.key, run, async |client| ask(client, run, true).await.map(drop)).await?;
    follower.screen.say(&format!("run {run} ended as interrupted; the text so far is kept"));
    follower.continue_session(&found.session.key).await
}

/// Resumes the run. If this process is the owner, it follows the run to its end, because no other process executes it.
async fn resume(follower: &mut Follower<'_>, reader: &Reader, found: &FoundRun, as_json: bool) -> Result<(), CliError> {
    let key = &found.session.key;
    follower.follow(key).await?;
    let asked = loop {
        match ask(follower.client(), found.run, false).await {
            Ok(asked) => break asked,
            Err(error) if is_gone(&error) => follower.reopen().await?,
            Err(error) => return Err(failed(error)),
        }
    };
    if follower.is_owner() {
        return resume::follow_one(follower, reader, key).await;
    }
    print(&if as_json { json(&asked) } else { worded(format!("run {} continues\n", asked.run_id)) })
}
