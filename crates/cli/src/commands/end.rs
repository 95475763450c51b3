//! `limulus sessions end`: ends a session for good, with its run and all that it has in the background.

use std::sync::Arc;

use clap::Args;
use engine::tables::lifecycle::LifecycleKind;
use engine::{CallOutcome, Command, ProcessState, SessionRow};
use gateway::SessionKey;
use gateway::show::{fold_branch, lookup};
use journal::{Journal, Reader};

use super::writer::{Happening, Writer};
use crate::args::WriterArgs;
use crate::config::{Config, Globals};
use crate::error::{CliError, Exit};

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
    let row = lookup::session(&Reader::open(&globals.home)?, Some(&args.key))?;
    let mut writer = Writer::open(globals, config, &args.writer, 1).await?;
    let ended = end(&mut writer, &SessionKey::parse(Some(&row.key))?).await;
    let closed = writer.close().await;
    ended.and(closed)
}

/// Asked for in the batch that opens the session, so that nothing of it begins; kept, so that any owner carries it out.
async fn end(writer: &mut Writer, key: &SessionKey) -> Result<(), CliError> {
    writer.session(key, vec![Command::Terminate]).await?;
    let journal = Arc::clone(writer.runtime.journal());
    let row = loop {
        // What is recorded after this look is told after it.
        if let Some(row) = journal.session(&key.to_string())?.filter(is_over) {
            break row;
        }
        if let Happening::Interrupt = writer.next().await? {
            super::agent::quit();
        }
    };
    let left = left(journal.as_ref(), &row)?;
    if left.is_empty() {
        writer.screen.say(&format!("session {key} is ended for good; what was said in it stays readable"));
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
fn left(journal: &dyn Journal, row: &SessionRow) -> Result<Vec<String>, CliError> {
    let session = fold_branch(journal, row)?;
    let is_left = |state: &ProcessState| matches!(state, ProcessState::Ended { outcome: CallOutcome::Unended, .. });
    let left = session.processes.iter().filter(|process| is_left(&process.state));
    Ok(left.map(engine::Process::name).collect())
}
