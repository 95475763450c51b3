//! `limulus send` and `limulus runs steer`: sends a message without waiting for the answer.

use std::sync::Arc;

use clap::Args;
use engine::tables::lifecycle::LifecycleKind;
use engine::{MessageId, QueueMode, ReceiptState, RunId, Timestamp};
use gateway::SessionKey;
use gateway::show::{lookup, name};
use journal::{Read as _, Reader};
use protocol::method::{Agent, AgentAnswer, AgentParams, RunParams};
use serde::Serialize;
use uuid::Uuid;

use super::follower::{End, Follower};
use crate::args::WriterArgs;
use crate::config::{Config, Globals, Subject};
use crate::error::{CliError, Exit};
use crate::owner_client::{failed, is_gone};
use crate::resolver::today;
use crate::show::human::Page;
use crate::show::{json, print};

/// Send a message to a session and return at once; its mode decides what happens to an unfinished run.
#[derive(Debug, Args)]
#[command(
    after_help = "Modes: steer = into the unfinished run, at its next boundary; followup = after it; collect = gathered with others\n\
into one followup; steer_backlog = both; interrupt = in place of it. `limulus queue --table` prints what becomes of a\n\
message in every state, `limulus receipt ID` what became of this one."
)]
pub(crate) struct SendArgs {
    /// The message; `-` reads it from stdin
    text: String,
    /// Send it to this session: NAME, or agent:AGENT:NAME
    #[arg(long, value_name = "KEY", default_value = "agent:main:main")]
    session: String,
    /// Use this mode: steer, followup, collect, steer_backlog or interrupt [default: the session's, else queue.mode]
    #[arg(long, value_name = "MODE", value_parser = super::queue::mode)]
    mode: Option<QueueMode>,
    /// Give the message a key of your own: the same key is the same message, also after a crash
    #[arg(long, value_name = "K")]
    key: Option<String>,
    #[command(flatten)]
    writer: WriterArgs,
}

/// Deliver a message to an unfinished run at its next boundary
#[derive(Debug, Args)]
pub(crate) struct SteerArgs {
    /// The run's id, or a unique prefix of it, and the text; with --session the text alone
    #[arg(value_names = ["RUN", "TEXT"], num_args = 1..=2, required = true)]
    words: Vec<String>,
    /// Choose the active run of this session: NAME, or agent:AGENT:NAME
    #[arg(long, value_name = "KEY")]
    session: Option<String>,
    /// Give the message a key of your own: the same key is the same message, also after a crash
    #[arg(long, value_name = "K")]
    key: Option<String>,
    #[command(flatten)]
    writer: WriterArgs,
}

/// Sends a message to an unfinished run. An ended run is refused, because the message would start another run.
pub(crate) async fn steer(args: SteerArgs, globals: &Globals) -> Result<(), CliError> {
    let SteerArgs { words, session, key, writer } = args;
    let (wanted, text) = match (<[String; 2]>::try_from(words), &session) {
        (Ok([run, text]), None) => (Some(run), text),
        (Err(mut words), Some(_)) if words.len() == 1 => (None, words.remove(0)),
        _ => {
            let what = "these arguments name no run and text".to_owned();
            return Err(CliError::Usage { what, hint: "give RUN and TEXT, or `--session KEY` and TEXT".to_owned() });
        }
    };
    let found = lookup::run(&Reader::open(&globals.home)?, &RunParams { run: wanted, session })?;
    if found.session.run != Some(found.run) {
        return Err(CliError::Refused {
            exit: Exit::Refused,
            what: format!("run {} is not active, so it receives no message", found.run),
            hint: format!("`limulus send --session {} TEXT` sends the message to its session", found.session.key),
        });
    }
    run(SendArgs { text, session: found.session.key, mode: Some(QueueMode::Steer), key, writer }, globals).await
}

/// What is known about a message as soon as it is recorded.
#[derive(Debug, Serialize)]
struct SentMessage {
    message: MessageId,
    session: String,
    mode: QueueMode,
    state: ReceiptState,
    run: RunId,
    #[serde(skip_serializing_if = "Option::is_none")]
    ahead: Option<u32>,
    accepted_at: Timestamp,
    /// Whether an owner is there to execute it.
    served: bool,
    /// The paused run of its session, which comes first.
    #[serde(skip)]
    paused: Option<RunId>,
}

pub(crate) async fn run(args: SendArgs, globals: &Globals) -> Result<(), CliError> {
    let message = super::agent::text(&args.text)?;
    let key = SessionKey::parse(Some(&args.session))?;
    let config = Arc::new(Config::load(&globals.home, &globals.environment, args.writer.flags())?);
    let overrides = engine::Overrides::default();
    // Reject what cannot run before anything is recorded.
    let subject = Subject {
        agent: &key.agent,
        overrides: &overrides,
        preferences: runtime::ModelPreferences::default(),
        date: &today(),
    };
    let workspace = config.resolve(subject)?.settings.workspace;
    let params = AgentParams {
        message,
        session_key: key.to_string(),
        // With this key a request that is repeated after a lost connection is the same message.
        idempotency_key: args.key.unwrap_or_else(|| Uuid::now_v7().to_string()),
        mode: args.mode,
        model: None,
        timeout_ms: None,
        allow: false,
        workspace: Some(workspace),
        attachments: vec![],
    };
    let mut follower = Follower::open(globals, config, &args.writer, 1).await?;
    let sent = send(&mut follower, &params).await;
    let closed = follower.close(End::of(&sent)).await;
    let sent = sent?;
    closed?;
    match sent {
        SendResponse::Message(sent) if args.writer.json => print(&json(&sent)),
        SendResponse::Message(sent) => {
            let row = Reader::open(&globals.home)?.session(&sent.session)?;
            let paused = row.filter(|row| row.lifecycle == LifecycleKind::Suspended).and_then(|row| row.run);
            print(&lay_out(&SentMessage { paused, ..sent }))
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
            Ok(AgentAnswer::Accepted { run_id, accepted_at, message, mode, state, ahead, .. }) => {
                let (session, served) = (params.session_key.clone(), !follower.is_owner());
                let paused = None;
                let sent =
                    SentMessage { message, session, mode, state, run: run_id, ahead, accepted_at, served, paused };
                return Ok(SendResponse::Message(sent));
            }
            Ok(AgentAnswer::Command { text }) => return Ok(SendResponse::Command(text)),
            Ok(_) => return Err(CliError::bug("a message was answered before it was accepted")),
            Err(error) if is_gone(&error) => follower.reopen().await?,
            Err(error) => return Err(failed(error)),
        }
    }
}

fn lay_out(sent: &SentMessage) -> String {
    let SentMessage { message, session, mode, state, run, ahead, served, paused, .. } = sent;
    let place = ahead.map(|ahead| format!(", number {ahead} in the queue")).unwrap_or_default();
    let mut page = Page::default();
    page.line(format!("message {message} to {session} ({}) is {}{place}", name(mode), name(state)));
    if run.to_string() != message.to_string() {
        page.line(format!("  run {run} takes it"));
    }
    if let Some(paused) = paused {
        page.line(format!(
            "  run {paused} is paused: `limulus runs resume --session {session}` resumes it; the message follows"
        ));
    } else if !served {
        page.line(format!("  nobody owns this home now: `limulus resume {session}` or `limulus serve` answers it"));
    }
    page.text()
}
