//! `limulus sessions compact`: compacts the history of a session, or undoes the last compaction.

use std::sync::Arc;

use clap::Args;
use config::Globals;
use journal::Reader;
use protocol::Client;
use protocol::method::{CompactParams, Compacted, SessionsCompact, SessionsUncompact, UncompactParams};
use views::lookup;

use super::change::change;
use super::follower::{End, Follower};
use super::resume;
use crate::args::WriterArgs;
use crate::deprecation;
use crate::error::CliError;
use crate::show::choice::SessionChoice;
use crate::show::{json, json_line, print, worded};

/// Compact the history of a session: a summary replaces all but its newest part; the journal keeps the original
#[derive(Debug, Args)]
pub(crate) struct CompactArgs {
    #[command(flatten)]
    pub(super) choice: SessionChoice,
    /// Keep this above all in the summary
    #[arg(long, value_name = "TEXT", conflicts_with = "undo")]
    focus: Option<String>,
    /// Undo the last compaction: the model receives what the summary replaced
    #[arg(long)]
    undo: bool,
    #[command(flatten)]
    writer: WriterArgs,
}

pub(crate) async fn run(args: CompactArgs, globals: &Globals) -> Result<(), CliError> {
    // Do not create a session only to compact it.
    let key = lookup::session(&Reader::open(&globals.home)?, args.choice.key.as_deref())?.key;
    if args.undo {
        let params = UncompactParams { session_key: Some(key) };
        let asked = async |client: &Client| client.call::<SessionsUncompact>(params.clone()).await;
        let undone = change(globals, &args.writer, asked).await?;
        let (key, items, tokens) = (&undone.session_key, undone.items, undone.tokens);
        let text = format!(
            "the last compaction of {key} is undone: {items} items are restored, about {tokens} tokens in all\n"
        );
        return print(&if args.writer.json { json(&undone) } else { worded(text) });
    }
    let config = Arc::new(deprecation::load(globals, args.writer.flags())?);
    let mut follower = Follower::open(globals, config, &args.writer, 1).await?;
    follower.say_what_is_answered_too(&key)?;
    let compacted = compact(&mut follower, &key, args.focus).await;
    let shown = compacted.and_then(|compacted| {
        follower.screen.hide_status();
        print(&if args.writer.json { json_line(&compacted) } else { worded(describe(&compacted)) })?;
        Ok(compacted)
    });
    let finished = match shown {
        Ok(compacted) => finish(&mut follower, globals, &compacted).await,
        Err(error) => Err(error),
    };
    let closed = follower.close(End::of(&finished)).await;
    finished.and(closed)
}

/// If a run of this process is to compact its history, or this process took the home over, no other process executes
/// what is unfinished in the session.
async fn finish(follower: &mut Follower<'_>, globals: &Globals, compacted: &Compacted) -> Result<(), CliError> {
    let key = &compacted.session_key;
    if compacted.done.is_none() && follower.is_owner() {
        return resume::follow_one(follower, &Reader::open(&globals.home)?, key).await;
    }
    follower.finish(Some(key)).await
}

/// Requests the compaction and draws what happens until it is done.
async fn compact(follower: &mut Follower<'_>, key: &str, focus: Option<String>) -> Result<Compacted, CliError> {
    follower.follow(key).await?;
    loop {
        let params = CompactParams { session_key: Some(key.to_owned()), focus: focus.clone() };
        if let Some(compacted) = follower.ask::<SessionsCompact>(params).await? {
            return Ok(compacted);
        }
        follower.reopen().await?;
    }
}

fn describe(Compacted { session_key: key, run_id, done }: &Compacted) -> String {
    match (done, run_id) {
        (Some(done), _) => {
            let done = done.sentence(key);
            format!("{done}\n`limulus sessions context {key}` shows it; `sessions compact {key} --undo` undoes it\n")
        }
        (None, Some(run)) => format!("run {run} compacts the history before its next request\n"),
        (None, None) => "the history is compacted before the next request\n".to_owned(),
    }
}
