//! `limulus runs abort`: ends a run, in whichever process it executes. A run that waits never starts.

use std::cell::Cell;
use std::sync::Arc;

use clap::Args;
use config::Globals;
use engine::tables::lifecycle::LifecycleKind;
use engine::{ReceiptState, RunId, SessionRow};
use journal::{Read as _, Reader};
use protocol::method::{AbortParams, RunsAbort};
use protocol::{Client, ClientError};
use views::count;
use views::lookup::{self, FoundRun};

use super::follower::{End, Follower, Happening};
use crate::args::WriterArgs;
use crate::deprecation;
use crate::error::{CliError, failed};
use crate::show::choice::RunChoice;

/// End a run: keep the text so far, and end its commands with all of their processes.
#[derive(Debug, Args)]
pub(crate) struct AbortArgs {
    #[command(flatten)]
    pub(super) choice: RunChoice,
    /// Cancel everything that waits in its session as well [default: it continues when the run has ended]
    #[arg(long)]
    clear: bool,
    #[command(flatten)]
    writer: WriterArgs,
}

pub(crate) async fn run(args: AbortArgs, globals: &Globals) -> Result<(), CliError> {
    let config = Arc::new(deprecation::load(globals, args.writer.flags())?);
    let FoundRun { run, session: SessionRow { key, lifecycle, .. }, .. } = {
        let reader = Reader::open(&globals.home)?;
        lookup::run_to_end(&reader, &args.choice.into())?
    };
    let mut follower = Follower::open_to_change(globals, config, &args.writer).await?;
    let aborted = match abort(&mut follower, (&key, lifecycle), run, args.clear).await {
        Ok(()) => match follower.finish(Some(&key)).await {
            Ok(()) => follower.say_what_waits(&key),
            error => error,
        },
        error => error,
    };
    let closed = follower.close(End::of(&aborted)).await;
    aborted.and(closed)
}

async fn abort(
    follower: &mut Follower<'_>,
    (key, lifecycle): (&str, LifecycleKind),
    run: RunId,
    clear: bool,
) -> Result<(), CliError> {
    let params = AbortParams { run: Some(run.to_string()), session: None, clear };
    let cancelled = Cell::new(0);
    let ask = async |client: &Client| {
        let aborted = client.call::<RunsAbort>(params.clone()).await?;
        cancelled.set(cancelled.get() + aborted.cancelled.len());
        Ok(())
    };
    let text = match until_ended(follower, key, run, ask).await? {
        AbortResult::Ended if matches!(lifecycle, LifecycleKind::Error | LifecycleKind::Recovering) => {
            format!("run {run}, which needed a human, is aborted; the text so far is kept")
        }
        AbortResult::Ended => format!("run {run} is aborted; the text so far is kept"),
        AbortResult::Cancelled => format!("run {run} had not started; its message is cancelled"),
    };
    if clear {
        follower.screen.say(&format!("{} cancelled", count(cancelled.get(), "message")));
    }
    follower.screen.say(&text);
    Ok(())
}

/// The result of an abort.
pub(super) enum AbortResult {
    /// The run has ended.
    Ended,
    /// The run had not started and never will.
    Cancelled,
}

/// Requests the end of a run and waits for it. If nobody owns the home, the request is in the batch that opens the session,
/// so nothing else of the run starts.
pub(super) async fn until_ended(
    follower: &mut Follower<'_>,
    key: &str,
    run: RunId,
    ask: impl AsyncFn(&Client) -> Result<(), ClientError>,
) -> Result<AbortResult, CliError> {
    follower.follow(key).await?;
    let mut is_repeated = false;
    loop {
        match ask(follower.client()).await {
            Ok(()) => break,
            Err(error) if follower.may_retry(&error) => {
                follower.reopen().await?;
                is_repeated = true;
            }
            // The owner that is gone had recorded the request.
            Err(ClientError::Answered(_)) if is_repeated => break,
            Err(error) => return Err(failed(error)),
        }
    }
    loop {
        // The line of its end may have come between two owners, when this command followed none.
        if is_repeated && let Some(result) = recorded(follower, key, run)? {
            return Ok(result);
        }
        match follower.next().await? {
            Happening::Recorded(event) => {
                if event.run == Some(run) && event.run_end().is_some() {
                    return Ok(AbortResult::Ended);
                }
                if event.never_began(run).is_some() {
                    return Ok(AbortResult::Cancelled);
                }
            }
            Happening::Interrupt => super::agent::quit(),
            // The request is recorded: the next owner carries it out.
            Happening::Gone => {
                follower.reopen().await?;
                is_repeated = true;
                match ask(follower.client()).await {
                    // The run may have ended meanwhile.
                    Ok(()) | Err(ClientError::Answered(_) | ClientError::Gone) => {}
                    Err(error) => return Err(failed(error)),
                }
            }
        }
    }
}

/// The result as the journal has it, if the run is over.
fn recorded(follower: &mut Follower<'_>, key: &str, run: RunId) -> Result<Option<AbortResult>, CliError> {
    let Some(home) = follower.home() else { return Ok(None) };
    let reader = Reader::open(home)?;
    let state = reader.receipt(run.into())?.map(|receipt| receipt.state);
    if state.and_then(views::never_began).is_some() {
        return Ok(Some(AbortResult::Cancelled));
    }
    let is_over =
        reader.session(key)?.is_none_or(|row| row.run != Some(run)) && state.is_none_or(ReceiptState::is_over);
    if is_over {
        // What of its lines has arrived is drawn.
        while follower.next_arrived().is_some() {}
    }
    Ok(is_over.then_some(AbortResult::Ended))
}
