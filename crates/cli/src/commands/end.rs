//! `limulus sessions end`: ends a session permanently, with its run and its background processes.

use std::sync::Arc;

use clap::Args;
use config::Globals;
use engine::tables::lifecycle::LifecycleKind;
use engine::{CallOutcome, ProcessState, SessionRow};
use journal::{Read, Reader};
use protocol::method::{EndParams, SessionsEnd};
use views::{fold_branch, lookup};

use super::follower::{End, Follower};
use crate::args::WriterArgs;
use crate::deprecation;
use crate::error::{CliError, Exit};
use crate::show::choice::SessionName;

/// End a session permanently: its run, its queue, its background processes; the conversation stays readable.
#[derive(Debug, Args)]
pub(crate) struct EndArgs {
    #[command(flatten)]
    pub(super) name: SessionName,
    #[command(flatten)]
    writer: WriterArgs,
}

pub(crate) async fn run(args: EndArgs, globals: &Globals) -> Result<(), CliError> {
    let config = Arc::new(deprecation::load(globals, args.writer.flags())?);
    // Do not create a session only to end it.
    let reader = Reader::open(&globals.home)?;
    let row = lookup::session(&reader, Some(args.name.key()))?;
    let mut follower = Follower::open_to_change(globals, config, &args.writer).await?;
    let ended = end(&mut follower, &reader, &row.key).await;
    let closed = follower.close(End::of(&ended)).await;
    ended.and(closed)
}

/// If nobody owns the home, the request is in the batch that opens the session, so that nothing of it starts. The request
/// is durable: any later owner carries it out.
async fn end(follower: &mut Follower<'_>, reader: &Reader, key: &str) -> Result<(), CliError> {
    follower.follow(key).await?;
    let left = loop {
        let params = EndParams { session_key: key.to_owned() };
        if let Some(ended) = follower.ask::<SessionsEnd>(params).await? {
            break ended.left;
        }
        follower.reopen().await?;
        // Do not repeat the request for a session that has ended meanwhile.
        if let Some(row) = reader.session(key)?.filter(is_over) {
            break unended(reader, &row)?;
        }
    };
    if left.is_empty() {
        follower.screen.say(&format!("session {key} has ended permanently; its conversation stays readable"));
        return Ok(());
    }
    Err(CliError::Failed {
        exit: Exit::RunFailed,
        what: format!(
            "session {key} has ended permanently, but not all of its background processes: {}",
            left.join(", ")
        ),
        hint: format!("`limulus sessions show {key}` shows the commands; end the remaining ones by hand"),
    })
}

/// Whether the session has ended and all of its processes are settled.
fn is_over(row: &SessionRow) -> bool {
    row.lifecycle == LifecycleKind::Terminated && !row.unfinished
}

/// The processes that could not be ended.
fn unended(read: &dyn Read, row: &SessionRow) -> Result<Vec<String>, CliError> {
    let session = fold_branch(read, row)?;
    let is_unended = |state: &ProcessState| matches!(state, ProcessState::Ended { outcome: CallOutcome::Unended, .. });
    let unended = session.account.processes.iter().filter(|process| is_unended(&process.state));
    Ok(unended.map(engine::Process::name).collect())
}
