//! `limulus send` and `limulus runs steer`: sends a message without waiting for the answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use client::{is_gone, look};
use config::{Globals, Subject, today};
use engine::tables::lifecycle::LifecycleKind;
use engine::tables::routing::OnlyIf;
use engine::{Interrupt, MessageId, ModeSource, QueueMode, ReceiptRow, ReceiptState, RunId, Timestamp};
use gateway::methods::chat_command;
use journal::{Read as _, Reader};
use protocol::method::{Agent, AgentAnswer, AgentParams, OwnerKind, RunParams};
use serde::Serialize;
use uuid::Uuid;
use views::SessionKey;
use views::{lookup, name};

use super::follower::{End, Follower};
use super::message::{refuse_again, refuse_key, was_refused};
use crate::args::WriterArgs;
use crate::deprecation;
use crate::error::{CliError, Exit, failed};
use crate::show::human::Page;
use crate::show::{json, print};
use crate::unnamed::SessionArgument;

/// Send a message to a session and return at once; its mode decides what happens to an unfinished run.
#[derive(Debug, Args)]
#[command(
    after_help = "Modes: steer = into the unfinished run, at its next boundary; followup = after it; collect = gathered with others \
into one followup; steer_backlog = both; interrupt = in place of it. `limulus queue --table` prints what becomes of a \
message in every state, `limulus receipt ID` what became of this one."
)]
pub(crate) struct SendArgs {
    /// The message; `-` reads it from stdin
    text: String,
    /// Send it to this session: NAME, or agent:AGENT:NAME [default: that of this folder]
    #[arg(long, value_name = "KEY")]
    pub(crate) session: Option<String>,
    /// Use this mode: steer, followup, collect, steer_backlog or interrupt [default: the session's, else queue.mode]
    #[arg(long, value_name = "MODE", value_parser = super::queue::mode)]
    mode: Option<QueueMode>,
    /// As an interrupt: replace = end the unfinished run | suspend = pause it [default: the session's, else
    /// agents.NAME.interrupt, else queue.interrupt]
    #[arg(long, value_name = "HOW", value_parser = super::queue::interrupt)]
    interrupt: Option<Interrupt>,
    /// Send it only if the session is in this state, idle or active; else it is refused and nothing is recorded
    #[arg(long, value_name = "STATE", value_parser = super::queue::only_if)]
    only_if: Option<OnlyIf>,
    /// Send the reply of its run to this route of the configuration (docs/replies.md)
    #[arg(long, value_name = "ROUTE")]
    reply_to: Option<String>,
    /// Give the message a key of your own: the same key is the same message, also after a crash
    #[arg(long, value_name = "K")]
    key: Option<String>,
    #[command(flatten)]
    pub(crate) writer: WriterArgs,
}

/// Deliver a message to an unfinished run at its next boundary
#[derive(Debug, Args)]
pub(crate) struct SteerArgs {
    /// The run's id, or a unique prefix of it, or its session, and the text; or the text alone
    #[arg(value_names = ["RUN|KEY", "TEXT"], num_args = 1..=2, required = true)]
    words: Vec<String>,
    /// Choose the active run of this session: NAME, or agent:AGENT:NAME [default: that of this folder]
    #[arg(long, value_name = "KEY")]
    session: Option<String>,
    #[arg(skip)]
    run: Option<String>,
    /// Give the message a key of your own: the same key is the same message, also after a crash
    #[arg(long, value_name = "K")]
    key: Option<String>,
    #[command(flatten)]
    writer: WriterArgs,
}

impl SteerArgs {
    /// Where it has its session.
    pub(crate) fn session(&mut self) -> SessionArgument<'_> {
        if self.session.is_none() && self.words.len() == 2 {
            self.run = Some(self.words.remove(0));
        }
        SessionArgument::of(&mut self.session).or_run(&mut self.run)
    }
}

/// Sends a message to an unfinished run. An ended run is refused, because the message would start another run.
pub(crate) async fn steer(args: SteerArgs, globals: &Globals) -> Result<(), CliError> {
    let SteerArgs { words, session, run: wanted, key, writer } = args;
    let Ok([text]) = <[String; 1]>::try_from(words) else {
        let what = "these arguments name a run twice".to_owned();
        return Err(CliError::Usage { what, hint: "give RUN and TEXT, or `--session KEY` and TEXT".to_owned() });
    };
    let reader = Reader::open(&globals.home)?;
    if wanted.is_none() && lookup::run(&reader, &RunParams { run: Some(text.clone()), session: None }).is_ok() {
        let what = format!("`{text}` is a run, and there is no text for it");
        return Err(CliError::Usage { what, hint: format!("`limulus runs steer {text} TEXT` sends it one") });
    }
    let found = lookup::run(&reader, &RunParams { run: wanted, session })?;
    if found.session.run != Some(found.run) {
        return Err(CliError::Refused {
            exit: Exit::Refused,
            what: format!("run {} is not active, so it receives no message", found.run),
            hint: format!("`limulus send --session {} TEXT` sends the message to its session", found.session.key),
        });
    }
    run(
        SendArgs {
            text,
            session: Some(found.session.key),
            mode: Some(QueueMode::Steer),
            interrupt: None,
            only_if: None,
            reply_to: None,
            key,
            writer,
        },
        globals,
    )
    .await
}

/// What is known about a message as soon as it is recorded.
#[derive(Debug, Serialize)]
struct SentMessage {
    message: MessageId,
    session: String,
    mode: QueueMode,
    /// What decided its mode; an older owner does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    mode_by: Option<ModeSource>,
    state: ReceiptState,
    run: RunId,
    #[serde(skip_serializing_if = "Option::is_none")]
    ahead: Option<u32>,
    /// The run that ends as interrupted for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    ends_run: Option<RunId>,
    accepted_at: Timestamp,
    /// Whether it starts its run at once: an owner is there, and nothing of its session comes before it.
    starts_run: bool,
    /// Whether an owner is there to execute it.
    served: bool,
    /// What that owner is: one that is a command leaves when that is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<OwnerKind>,
    /// The paused run of its session, which comes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<RunId>,
}

pub(crate) async fn run(args: SendArgs, globals: &Globals) -> Result<(), CliError> {
    let message = super::message::text(&args.text)?;
    refuse_key(&message, args.key.as_deref())?;
    let key = SessionKey::parse(args.session.as_deref())?;
    let config = Arc::new(deprecation::load(globals, args.writer.flags())?);
    let overrides = engine::Overrides::default();
    // Reject what cannot run before anything is recorded.
    let subject = Subject {
        agent: &key.agent,
        overrides: &overrides,
        session: runtime::SessionContext::default(),
        date: &today(),
    };
    let workspace = config.resolve(subject)?.settings.workspace;
    let params = AgentParams {
        message,
        session_key: key.to_string(),
        // With this key a request that is repeated after a lost connection is the same message.
        idempotency_key: args.key.unwrap_or_else(|| Uuid::now_v7().to_string()),
        mode: args.mode,
        interrupt: args.interrupt,
        only_if: args.only_if,
        model: None,
        timeout_ms: None,
        allow: false,
        workspace: Some(workspace),
        attachments: vec![],
        deliver: args.reply_to.is_some(),
        reply_to: args.reply_to.map(super::agent::route).map(Box::new),
        ..AgentParams::default()
    };
    let command = chat_command(&params.message);
    let mut follower = match command {
        Some(_) => Follower::open_for_message(globals, config, &args.writer, &params.message).await?,
        None => Follower::open_to_change(globals, config, &args.writer).await?,
    };
    if command.is_some_and(|command| command.asks_model) {
        follower.say_what_is_answered_too(&params.session_key)?;
    }
    let sent = match send(&mut follower, &params).await {
        Ok(sent) if command.is_some_and(|command| command.resumes) => {
            follower.continue_session(&params.session_key).await.map(|()| sent)
        }
        Ok(sent) => follower.finish(Some(&params.session_key)).await.map(|()| sent),
        error => error,
    };
    let closed = follower.close(End::of(&sent)).await;
    let sent = sent?;
    closed?;
    match sent {
        SendResponse::Message(sent) => {
            let sent = left(sent, globals).await?;
            print(&if args.writer.json { json(&sent) } else { lay_out(&sent) })
        }
        SendResponse::Command(text) => super::agent::say_command(&text, args.writer.json),
    }
}

/// The response to a sent message.
enum SendResponse {
    /// The message is recorded.
    Message(SentMessage),
    /// It was a chat command, with this response.
    Command(String),
}

async fn send(follower: &mut Follower<'_>, params: &AgentParams) -> Result<SendResponse, CliError> {
    loop {
        let accepted = match follower.client().ask::<Agent>(params.clone()) {
            Ok(mut answers) => answers.next().await,
            Err(error) => Err(error),
        };
        match accepted {
            Ok(AgentAnswer::Accepted {
                run_id, accepted_at, message, mode, mode_by, state, ahead, ends_run, ..
            }) => {
                let owner = follower.owner_kind().filter(|_| !follower.is_owner());
                let served = !follower.is_owner() && owner != Some(OwnerKind::Change);
                let session = params.session_key.clone();
                return Ok(SendResponse::Message(SentMessage {
                    message,
                    session,
                    mode,
                    mode_by,
                    state,
                    run: run_id,
                    ahead,
                    ends_run,
                    accepted_at,
                    starts_run: false,
                    served,
                    owner,
                    paused: None,
                }));
            }
            Ok(AgentAnswer::Command { text }) => return Ok(SendResponse::Command(text)),
            Ok(_) => return Err(CliError::bug("a message was answered before it was accepted")),
            Err(error) if is_gone(&error) => {
                if !was_refused(&error) {
                    refuse_again(&params.message)?;
                }
                follower.reopen().await?;
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

/// How long a message that nothing comes before is given to start its run, and how often that is looked at. A run
/// starts within milliseconds if its lane has a free slot.
const START_TIMEOUT: Duration = Duration::from_millis(500);
const START_INTERVAL: Duration = Duration::from_millis(10);

/// What is true of the message when the command leaves. If this process has owned the home, it may have finished the run
/// that answers the message, or another process may own the home by now.
async fn left(sent: SentMessage, globals: &Globals) -> Result<SentMessage, CliError> {
    let reader = Reader::open(&globals.home)?;
    if sent.served {
        return started(sent, &reader).await;
    }
    let owner = look(&globals.home, false).await.and_then(Result::ok);
    let served = owner.as_ref().is_some_and(|owner| owner.kind != Some(OwnerKind::Change));
    let owner = owner.and_then(|owner| owner.kind);
    let receipt = reader.receipt(sent.message)?;
    let Some(ReceiptRow { state, run, .. }) = receipt.filter(|receipt| receipt.state != sent.state) else {
        return started(SentMessage { served, owner, ..sent }, &reader).await;
    };
    let starts_run = state == ReceiptState::Started && run == sent.message.into();
    Ok(SentMessage { state, run, ahead: None, starts_run, served, owner, ..sent })
}

/// What becomes of the message at once: it is accepted before its run starts, and one that nothing comes before is not
/// reported as one that waits.
async fn started(mut sent: SentMessage, reader: &Reader) -> Result<SentMessage, CliError> {
    let until = Instant::now() + START_TIMEOUT;
    loop {
        let row = reader.session(&sent.session)?;
        sent = now(sent, row.map(|row| (row.lifecycle, row.run)));
        if !sent.starts_run || sent.state == ReceiptState::Started || Instant::now() >= until {
            return Ok(sent);
        }
        tokio::time::sleep(START_INTERVAL).await;
    }
}

/// Adds what its session does now: its lifecycle and its unfinished run.
fn now(sent: SentMessage, session: Option<(LifecycleKind, Option<RunId>)>) -> SentMessage {
    let Some((lifecycle, under_way)) = session else { return sent };
    if lifecycle == LifecycleKind::Suspended {
        return SentMessage { paused: under_way, starts_run: false, ..sent };
    }
    let is_its_own = sent.run == sent.message.into();
    if is_its_own && under_way == Some(sent.run) && sent.state == ReceiptState::Queued {
        return SentMessage { state: ReceiptState::Started, ahead: None, starts_run: true, ..sent };
    }
    let is_first = is_its_own && sent.ahead == Some(1) && under_way.is_none() && sent.mode != QueueMode::Collect;
    let may_start = matches!(lifecycle, LifecycleKind::Ready | LifecycleKind::Idle);
    SentMessage { starts_run: is_first && may_start && sent.served, ..sent }
}

fn lay_out(sent: &SentMessage) -> String {
    let SentMessage { message, session, mode, state, run, ahead, starts_run, served, owner, paused, .. } = sent;
    let place = ahead.map(|ahead| format!(", number {ahead} in the queue")).unwrap_or_default();
    let mut page = Page::default();
    let does = match (starts_run, state) {
        (true, ReceiptState::Queued) => format!("starts run {run} as soon as its lane has a free slot"),
        (true, _) => format!("starts run {run}"),
        (false, _) => format!("is {}{place}", name(state)),
    };
    page.line(format!("message {message} to {session} ({}) {does}", name(mode)));
    if let Some(ends) = sent.ends_run {
        page.line(format!("  run {ends} ends as interrupted for it"));
    }
    if run.to_string() != message.to_string() {
        page.line(format!("  run {run} takes it"));
    }
    if let Some(paused) = paused {
        page.line(format!(
            "  run {paused} is paused: `limulus runs resume --session {session}` resumes it; the message follows"
        ));
    } else if !served && !state.is_over() {
        page.line(format!("  nobody owns this home now: `limulus resume {session}` or `limulus serve` answers it"));
    } else if *owner == Some(OwnerKind::Command) && !state.is_over() {
        page.line(format!(
            "  the owner is a command: if that ends first, `limulus resume {session}` or `limulus serve` answers it"
        ));
    }
    page.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_nothing_comes_before_is_reported_by_the_run_that_it_starts() {
        let sent = || SentMessage {
            message: MessageId(Uuid::from_u128(1)),
            session: "agent:main:main".to_owned(),
            mode: QueueMode::Steer,
            mode_by: Some(ModeSource::BuiltIn),
            state: ReceiptState::Queued,
            run: RunId(Uuid::from_u128(1)),
            ahead: Some(1),
            ends_run: None,
            accepted_at: Timestamp(0),
            starts_run: false,
            served: true,
            owner: Some(OwnerKind::Service),
            paused: None,
        };
        let line = |sent| lay_out(&sent).lines().next().unwrap().split_once("(steer) ").unwrap().1.to_owned();
        let (own, other) = (Some(RunId(Uuid::from_u128(1))), Some(RunId(Uuid::from_u128(2))));
        let begun = now(sent(), Some((LifecycleKind::Active, own)));
        assert_eq!((begun.state, begun.ahead, begun.starts_run), (ReceiptState::Started, None, true));
        let starts = "starts run 00000000-0000-0000-0000-000000000001";
        assert_eq!(line(begun), starts);
        let first = now(sent(), Some((LifecycleKind::Idle, None)));
        assert_eq!(line(first), format!("{starts} as soon as its lane has a free slot"));
        let queued = "is queued, number 1 in the queue";
        for session in [(LifecycleKind::Active, other), (LifecycleKind::Suspended, other)] {
            assert_eq!(line(now(sent(), Some(session))), queued, "{session:?}");
        }
        let unserved = SentMessage { served: false, ..sent() };
        assert_eq!(line(now(unserved, Some((LifecycleKind::Ready, None)))), queued);
        let gathers = SentMessage { mode: QueueMode::Collect, ..sent() };
        assert!(!now(gathers, Some((LifecycleKind::Ready, None))).starts_run);
    }
}
