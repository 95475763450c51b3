//! `limulus runs abort`: ends a run that is not under way in any process.

use std::sync::Arc;

use clap::Args;
use engine::{Command, RunId};
use gateway::SessionKey;
use gateway::show::lookup;
use journal::Reader;
use protocol::method::RunParams;

use super::writer::{Happening, Writer};
use crate::args::WriterArgs;
use crate::config::{Config, Globals};
use crate::error::CliError;

/// End a run: its stream is cut and kept, its commands are ended with every process of theirs.
#[derive(Debug, Args)]
pub(crate) struct AbortArgs {
    /// The run, or the beginning of its id
    run: Option<String>,
    /// The session whose active, else last, run it is
    #[arg(long, value_name = "KEY")]
    session: Option<String>,
    #[command(flatten)]
    writer: WriterArgs,
}

pub(crate) async fn run(args: AbortArgs, globals: &Globals) -> Result<(), CliError> {
    let config = Arc::new(Config::load(&globals.home, &globals.environment, args.writer.flags())?);
    let (run, key) = {
        let reader = Reader::open(&globals.home)?;
        let found = lookup::run(&reader, &RunParams { run: args.run, session: args.session })?;
        if found.row.is_none() {
            let what = format!("the run {} has not started: its message waits in {}", found.run, found.session.key);
            return Err(CliError::not_found(what, "`limulus status` shows what it waits for"));
        }
        (found.run, found.session.key)
    };
    let mut writer = Writer::open(globals, config, &args.writer, 1).await?;
    let aborted = abort(&mut writer, &SessionKey::parse(Some(&key))?, run).await;
    let closed = writer.close().await;
    aborted.and(closed)
}

/// The abort is asked for in the batch that opens the session: nothing else of the run begins.
async fn abort(writer: &mut Writer, key: &SessionKey, run: RunId) -> Result<(), CliError> {
    writer.session(key, vec![Command::Abort { run: Some(run) }]).await?;
    loop {
        match writer.next().await? {
            Happening::Told(event) => {
                if event.run == Some(run) && event.run_end().is_some() {
                    writer.screen.say(&format!("run {run} is aborted; what had come is kept"));
                    return Ok(());
                }
            }
            Happening::Interrupt => super::agent::quit(),
        }
    }
}
