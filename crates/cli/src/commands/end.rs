//! `limulus sessions end`: ends a session for good, with its run and all that it has in the background.

use std::sync::Arc;

use clap::Args;
use engine::tables::lifecycle::LifecycleKind;
use engine::{CallOutcome, ProcessState, SessionRow};
use gateway::show::{fold_branch, lookup};
use journal::{Read, Reader};
use protocol::method::{EndParams, SessionsEnd};

use super::follower::{End, Follower};
use crate::args::WriterArgs;
use crate::config::{Config, Globals};
use crate::error::{CliError, Exit};
use crate::owner_client::failed;

/// End a session for good: its run, its queue, all that it has in the background. What was said stays readable.
#[derive(Debug, Args)]
pub(crate) struct EndArgs {
    /// NAME, or agent:AGENT:NAME
    key: String,
    #[command(flatten)]
    writer: WriterArgs,
}

pub(crate) async fn run(args: EndArgs, globals: &Globals) -> Result<(), CliError> {
    let config = Arc::new(Config::load(&globals.home, &globals.environment, args.writer.flags())?);
    // One that is not there is not made only to be ended.
    let reader = Reader::open(&globals.home)?;
    let row = lookup::session(&reader, Some(&args.key))?;
    let mut follower = Follower::open(globals, config, &args.writer, 1).await?;
    let ended = end(&mut follower, &reader, &row.key).await;
    let closed = follower.close(End::of(&ended)).await;
    ended.and(closed)
}

/// Where nobody owns the home it is asked for in the batch that opens the session, so that nothing of it begins; kept, so
/// that any owner carries it out.
async fn end(follower: &mut Follower<'_>, reader: &Reader, key: &str) -> Result<(), CliError> {
    follower.follow(key).await.map_err(failed)?;
    let left = loop {
        let params = EndParams { session_key: key.to_owned() };
        if let Some(ended) = follower.ask::<SessionsEnd>(params).await? {
            break ended.left;
        }
        follower.reopen().await?;
        // What has ended meanwhile is not asked for again.
        if let Some(row) = reader.session(key)?.filter(is_over) {
            break left(reader, &row)?;
        }
    };
    if left.is_empty() {
        follower.screen.say(&format!("session {key} is ended for good; what was said in it stays readable"));
        return Ok(());
    }
    Err(CliError::Failed {
        exit: Exit::RunFailed,
        what: format!(
            "session {key} is ended for good, but not all that it had in the background: {}",
            left.join(", ")
        ),
        hint: format!("`limulus sessions show {key}` shows the commands; end what is left of them by hand"),
    })
}

/// Whether the session has ended and nothing of it is being ended any more.
fn is_over(row: &SessionRow) -> bool {
    row.lifecycle == LifecycleKind::Terminated && !row.unfinished
}

/// The processes that could not be ended.
fn left(read: &dyn Read, row: &SessionRow) -> Result<Vec<String>, CliError> {
    let session = fold_branch(read, row)?;
    let is_left = |state: &ProcessState| matches!(state, ProcessState::Ended { outcome: CallOutcome::Unended, .. });
    let left = session.processes.iter().filter(|process| is_left(&process.state));
    Ok(left.map(engine::Process::name).collect())
}
