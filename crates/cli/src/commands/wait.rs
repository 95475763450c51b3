//! `limulus runs wait`: waits for the end of a run. The run continues even if the command ends first.

use std::time::{Duration, Instant};

use clap::Args;
use client::{is_gone, look};
use config::Globals;
use engine::{Outcome, ReceiptRow, RunId};
use journal::{Read as _, Reader};
use protocol::method::{AgentWait, WaitParams, WaitStatus, Waited};
use protocol::show::{Payload, Reply};
use views::lookup::{self, FoundRun};

use super::agent::incomplete;
use super::paused::{PausedRun, Pauses};
use super::task::must_fit;
use crate::error::{CliError, Exit, failed};
use crate::show::choice::RunChoice;
use crate::show::{json, print, worded};

/// The timeout of one request to the owner, milliseconds.
const ROUND_MS: u64 = 60_000;
/// Poll interval of the journal if no owner responds.
const LOOK: Duration = Duration::from_millis(200);

/// Wait for the end of a run; the exit code is the run's, or 124 if the time is over
#[derive(Debug, Args)]
#[command(after_help = "A run whose message is cancelled before it starts counts as aborted: exit code 130.")]
pub(crate) struct WaitArgs {
    #[command(flatten)]
    pub(super) choice: RunChoice,
    /// Wait at most this many seconds; 0 checks once [default: as long as it takes]
    #[arg(long, value_name = "S", value_parser = crate::args::whole_from::<0>)]
    timeout: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: WaitArgs, globals: &Globals) -> Result<(), CliError> {
    let reader = Reader::open(&globals.home)?;
    let FoundRun { run, session, .. } = lookup::run_or_message(&reader, &args.choice.clone().into())?;
    let (waited, ended) = wait(&args, globals, (&reader, session.key.clone()), run).await?;
    if args.json {
        print(&json(&waited))?;
    }
    if waited.ended_at.is_none()
        && let Some(held) = PausedRun::held(&reader, &session.key, waited.run_id)?
    {
        return Err(held.timed_out());
    }
    outcome(&waited, ended, !args.json)?;
    match (ended, waited.reply) {
        (Some(Outcome::Completed), Some(reply)) => must_fit(&reader, waited.run_id, &text_of(&reply)).await,
        _ => Ok(()),
    }
}

/// The text of the answer.
fn text_of(reply: &Reply) -> String {
    let texts = reply.payloads.iter().map(|payload| match payload {
        Payload::Text { text, .. } => text.as_str(),
        Payload::Reasoning { .. } | Payload::ToolSummary { .. } | Payload::Media { .. } | Payload::Error { .. } => "",
    });
    texts.collect()
}

/// The result of the wait, and how the run ended if it did.
async fn wait(
    args: &WaitArgs,
    globals: &Globals,
    (reader, key): (&Reader, String),
    mut run: RunId,
) -> Result<(Waited, Option<Outcome>), CliError> {
    let (within, mut pauses) = (args.timeout.map(Duration::from_secs), Pauses::of(key));
    let began = Instant::now();
    loop {
        let row = reader.run(run)?;
        if let Some(row) = row.as_ref().filter(|row| row.outcome.is_some()) {
            return Ok((views::waited(reader, row)?, row.outcome));
        }
        // A run that has not started may never start, and another run may have taken its message over.
        if let Some(receipt) = reader.receipt(run.into())?.filter(|_| row.is_none()) {
            if let Some(waited) = never_began(&receipt) {
                return Ok((waited, Some(Outcome::Aborted)));
            }
            if receipt.run != run {
                run = receipt.run;
                continue;
            }
        }
        let left = within.map(|within| within.saturating_sub(began.elapsed()));
        if left == Some(Duration::ZERO) {
            let (started_at, status) = (row.map(|row| row.started_at), WaitStatus::Timeout);
            let (ended_at, error, stop_reason, reply) = (None, None, None, None);
            let waited = Waited { run_id: run, status, started_at, ended_at, error, stop_reason, reply };
            return Ok((waited, None));
        }
        if let Some(paused) = pauses.news(reader)? {
            paused.say(args.json);
        }
        let most = left.map_or(ROUND_MS, |left| u64::try_from(left.as_millis()).unwrap_or(ROUND_MS).clamp(1, ROUND_MS));
        let Some(Ok(owner_client)) = look(&globals.home, false).await else {
            tokio::time::sleep(left.map_or(LOOK, |left| left.min(LOOK))).await;
            continue;
        };
        match owner_client.client.call::<AgentWait>(WaitParams { run_id: run, timeout_ms: most }).await {
            // The next pass reads its end, in the same words as without an owner.
            Ok(_) => {}
            Err(error) if is_gone(&error) => tokio::time::sleep(LOOK).await,
            Err(error) => return Err(failed(error)),
        }
    }
}

/// The result for a run whose message was settled before the run started.
fn never_began(receipt: &ReceiptRow) -> Option<Waited> {
    let error = Some(views::never_began(receipt.state)?);
    let ReceiptRow { run, accepted_at, .. } = receipt;
    let (status, ended_at) = (WaitStatus::Error, Some(*accepted_at));
    Some(Waited { run_id: *run, status, started_at: None, ended_at, error, stop_reason: None, reply: None })
}

fn outcome(waited: &Waited, ended: Option<Outcome>, say: bool) -> Result<(), CliError> {
    let run = waited.run_id;
    let hint = format!("`limulus runs show {run}` shows it");
    let failed = |exit, what: String| Err(CliError::Failed { exit, what, hint: hint.clone() });
    match waited.status {
        WaitStatus::Ok => {
            if say {
                print(&worded(format!("run {run} completed\n")))?;
            }
            let incomplete = |reason| failed(Exit::Incomplete, incomplete(reason, waited.error.as_deref()));
            waited.stop_reason.map_or(Ok(()), incomplete)
        }
        WaitStatus::Timeout if waited.ended_at.is_none() => {
            failed(Exit::TimedOut, format!("the time is over; run {run} continues"))
        }
        WaitStatus::Timeout => {
            let why = waited.error.as_deref().unwrap_or("it exceeded its time limit");
            failed(Exit::TimedOut, format!("run {run} did not complete: {why}"))
        }
        WaitStatus::Error => {
            let why = waited.error.as_deref().unwrap_or("it was ended");
            let exit = match ended {
                Some(Outcome::Aborted | Outcome::Interrupted) => Exit::Aborted,
                Some(Outcome::Completed | Outcome::Failed | Outcome::TimedOut | Outcome::Stalled) | None => {
                    Exit::RunFailed
                }
            };
            failed(exit, format!("run {run} did not complete: {why}"))
        }
    }
}
