//! `limulus runs abort`: ends a run, whichever process it is under way in. One that waits has not begun, and never will.

use std::cell::Cell;
use std::sync::Arc;

use clap::Args;
use engine::RunId;
use gateway::show::{count, lookup};
use journal::Reader;
use protocol::method::{AbortParams, RunParams, RunsAbort};
use protocol::{Client, ClientError};

use super::follower::{End, Follower, Happening};
use crate::args::WriterArgs;
use crate::config::{Config, Globals};
use crate::error::CliError;
use crate::owner_client::failed;

/// End a run: its stream is cut and kept, its commands are ended with every process of theirs.
#[derive(Debug, Args)]
pub(crate) struct AbortArgs {
    /// The run, or the beginning of its id
    run: Option<String>,
    /// The session whose active, else last, run it is
    #[arg(long, value_name = "KEY")]
    session: Option<String>,
    /// Take back all that waits in its session as well [default: that goes on when the run has ended]
    #[arg(long)]
    clear: bool,
    #[command(flatten)]
    writer: WriterArgs,
}

pub(crate) async fn run(args: AbortArgs, globals: &Globals) -> Result<(), CliError> {
    let config = Arc::new(Config::load(&globals.home, &globals.environment, args.writer.flags())?);
    let (run, key) = {
        let reader = Reader::open(&globals.home)?;
        let found = lookup::run_to_end(&reader, &RunParams { run: args.run, session: args.session })?;
        (found.run, found.session.key)
    };
    let mut follower = Follower::open(globals, config, &args.writer, 1).await?;
    let aborted = abort(&mut follower, &key, run, args.clear).await;
    let closed = follower.close(End::of(&aborted)).await;
    aborted.and(closed)
}

async fn abort(follower: &mut Follower<'_>, key: &str, run: RunId, clear: bool) -> Result<(), CliError> {
    let params = AbortParams { run: Some(run.to_string()), session: None, clear };
    let cancelled = Cell::new(0);
    let ask = async |client: &Client| {
        let aborted = client.call::<RunsAbort>(params.clone()).await?;
        cancelled.set(cancelled.get() + aborted.cancelled.len());
        Ok(())
    };
    let said = match until_over(follower, key, run, ask).await? {
        Over::Ended => format!("run {run} is aborted; what had come is kept"),
        Over::TakenBack => format!("run {run} had not begun; its message is taken back"),
    };
    if clear {
        follower.screen.say(&format!("{} taken back", count(cancelled.get(), "message")));
    }
    follower.screen.say(&said);
    Ok(())
}

/// What became of a run that was to end.
pub(super) enum Over {
    /// It has ended.
    Ended,
    /// It had not begun, and never will.
    TakenBack,
}

/// Asks for the end of a run and waits for it. Where nobody owns the home, it is asked for in the batch that opens the
/// session: nothing else of the run begins.
pub(super) async fn until_over(
    follower: &mut Follower<'_>,
    key: &str,
    run: RunId,
    ask: impl AsyncFn(&Client) -> Result<(), ClientError>,
) -> Result<Over, CliError> {
    follower.follow(key).await.map_err(failed)?;
    ask(follower.client()).await.map_err(failed)?;
    loop {
        match follower.next().await? {
            Happening::Told(event) => {
                if event.run == Some(run) && event.run_end().is_some() {
                    return Ok(Over::Ended);
                }
                if event.never_began(run).is_some() {
                    return Ok(Over::TakenBack);
                }
            }
            Happening::Interrupt => super::agent::quit(),
            // It is recorded: the next owner takes it to its end.
            Happening::Gone => {
                follower.reopen().await?;
                match ask(follower.client()).await {
                    // One that has ended meanwhile is told with what was missed.
                    Ok(()) | Err(ClientError::Answered(_) | ClientError::Gone) => {}
                    Err(error) => return Err(failed(error)),
                }
            }
        }
    }
}
