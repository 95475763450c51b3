//! `limulus agent`: sends a message, follows its run to the end.

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use engine::{Answer, Attached, BodyKind, Candidate, Command, Content, Event, MessageId, Outcome, Overrides, RunId};
use gateway::SessionKey;
use gateway::events::run_end;
use protocol::event::{RunEnd, StateLine, Stream};
use uuid::Uuid;

use super::writer::{Happening, Writer};
use crate::args::WriterArgs;
use crate::config::{Config, Globals, Resolved, Subject};
use crate::error::{CliError, Exit};
use crate::resolver::today;

/// Send a message to an agent and follow its run to the end.
#[derive(Debug, Args)]
#[command(after_help = "Ctrl-C ends the run cleanly; twice quits at once. After a kill, `limulus resume` goes on.")]
pub(crate) struct AgentArgs {
    /// The message; `-` reads it from stdin
    #[arg(short, long, value_name = "TEXT")]
    message: String,
    /// A file that goes with it, as often as you like: an image (PNG, JPEG, GIF, WebP), PDF or text
    #[arg(long, value_name = "FILE")]
    attach: Vec<PathBuf>,
    /// The session: a name, or agent:AGENT:NAME
    #[arg(long, value_name = "KEY", default_value = "agent:main:main")]
    session: String,
    /// The model, as PROVIDER/MODEL; the agent's fallbacks stay behind it
    #[arg(long, value_name = "P/M")]
    model: Option<String>,
    /// The run's own limit, seconds
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..))]
    timeout: Option<u64>,
    /// Allow everything that would be asked, for this run
    #[arg(long)]
    yes: bool,
    /// A key of your own: the same key is the same message, also after a crash
    #[arg(long, value_name = "K")]
    key: Option<String>,
    #[command(flatten)]
    writer: WriterArgs,
}

pub(crate) async fn run(args: AgentArgs, globals: &Globals) -> Result<(), CliError> {
    let text = text(&args.message)?;
    let key = SessionKey::parse(Some(&args.session))?;
    let config = Arc::new(Config::load(&globals.home, &globals.environment, args.writer.flags())?);
    let overrides =
        Overrides { workspace: None, model: args.model, deadline_ms: args.timeout.map(|s| s * 1000), allow: args.yes };
    // What cannot run is said before anything is recorded.
    let subject = Subject { agent: &key.agent, overrides: &overrides, session_model: None, date: &today() };
    let Resolved { settings, mut notes } = config.resolve(subject)?;
    let sees = settings.candidates.first().filter(|candidate| !candidate.images).map(blind_note);
    // A relative workspace is meant from here, also when `resume` takes the message up from elsewhere.
    let overrides = Overrides { workspace: Some(settings.workspace), ..overrides };
    let attachments = attached(args.attach, tools::Secrets::new(config.secrets())).await?;
    notes.extend(sees.filter(|_| attachments.iter().any(|file| file.media_type.starts_with("image/"))));
    let mut writer = Writer::open(globals, config, &args.writer, 1).await?;
    for note in &notes {
        writer.screen.say(note);
    }
    tell_others(&mut writer, &key)?;
    let message = Command::Message {
        message: MessageId(Uuid::now_v7()),
        content: Content::text(BodyKind::Message, &text),
        mode: None,
        key: args.key,
        overrides,
        attachments,
    };
    let answers = writer.session(&key, vec![message]).await;
    let ended = match answers.as_deref() {
        Ok([Answer::Receipt(receipt), ..]) => {
            follow(&mut writer, &key, receipt.run).await.map(|ended| (receipt.run, ended))
        }
        Ok(_) => Err(CliError::bug("a message was answered without a receipt")),
        Err(error) => Err(error.clone()),
    };
    let closed = writer.close().await;
    let (run, ended) = ended?;
    closed?;
    outcome(run, &ended)
}

/// What is said where an image goes to a model that does not see it.
fn blind_note(candidate: &Candidate) -> String {
    let model = format!("{}/{}", candidate.provider, candidate.model);
    let told = format!("{model} is told of the image, not shown it");
    if candidate.provider == "offline" {
        return told;
    }
    format!("{told}: if it sees images, set images = true in [models.\"{model}\"]")
}

/// Reads what goes with the message, on a thread that may block.
async fn attached(paths: Vec<PathBuf>, secrets: tools::Secrets) -> Result<Vec<Attached>, CliError> {
    if paths.is_empty() {
        return Ok(vec![]);
    }
    let reading = tokio::task::spawn_blocking(move || tools::attach(&paths, &secrets));
    let attached = reading.await.map_err(|error| CliError::bug(&format!("a file could not be attached: {error}")))?;
    attached.map_err(|error| CliError::Usage { what: error.to_string(), hint: error.hint().to_owned() })
}

/// Follows the session until this run has ended.
async fn follow(writer: &mut Writer, key: &SessionKey, run: RunId) -> Result<RunEnd, CliError> {
    if let Some(ended) = ended_before(writer, key, run)? {
        return Ok(ended);
    }
    let mut interrupts = 0;
    loop {
        match writer.next().await? {
            Happening::Told(event) => {
                if let Some(end) = event.run_end().filter(|_| event.run == Some(run)) {
                    return Ok(end.clone());
                }
                if let Stream::State(StateLine::Lifecycle { reason: Some(what), remedy, .. }) = event.what {
                    return Err(CliError::Refused { exit: Exit::Refused, what, hint: remedy.unwrap_or_default() });
                }
            }
            Happening::Interrupt => {
                interrupts += 1;
                if interrupts > 1 {
                    quit();
                }
                writer.abort_all();
            }
        }
    }
}

/// The same key again: the run has ended before, its answer is printed from the journal.
fn ended_before(writer: &mut Writer, key: &SessionKey, run: RunId) -> Result<Option<RunEnd>, CliError> {
    let journal = Arc::clone(writer.runtime.journal());
    let Some(row) = journal.run(run)?.filter(|row| row.outcome.is_some()) else { return Ok(None) };
    let Some(session) = journal.session(&key.to_string())? else { return Ok(None) };
    let line = journal.history(row.branch)?;
    let ended = line.entries().map(|(_, entry)| entry).find(|entry| match &entry.event {
        Event::RunEnded(ended) => ended.run == run,
        _ => false,
    });
    writer.catch_up();
    match ended.and_then(|entry| run_end(journal.as_ref(), &session, entry)) {
        Some(event) => {
            writer.screen.say(&format!("run {run} has answered this key before"));
            writer.screen.draw_again(&event);
            Ok(event.run_end().cloned())
        }
        None => Err(CliError::Refused {
            exit: Exit::Refused,
            what: format!("run {run} has answered this key before, and its answer was removed since"),
            hint: format!("`limulus runs show {run}` shows what is known of it; another key asks again"),
        }),
    }
}

/// As a crash would: what is recorded is recorded.
pub(crate) fn quit() -> ! {
    std::process::exit(i32::from(Exit::Aborted as u8))
}

fn outcome(run: RunId, ended: &RunEnd) -> Result<(), CliError> {
    let failed = |exit, what: String, hint: &str| Err(CliError::Failed { exit, what, hint: hint.to_owned() });
    match ended.outcome {
        Outcome::Completed => Ok(()),
        Outcome::Failed => {
            let what = ended.error.clone().unwrap_or_else(|| "the run failed".to_owned());
            // A failure says on its first line what happened, below it what to do.
            let (what, remedy) = what.split_once('\n').unwrap_or((&what, ""));
            let hint = format!("{remedy} `limulus runs trace {run}` tells the whole story");
            failed(Exit::RunFailed, what.to_owned(), hint.trim_start())
        }
        Outcome::Aborted => {
            failed(Exit::Aborted, "the run was aborted; what had come is kept".into(), "send another message to go on")
        }
        Outcome::Interrupted => {
            failed(Exit::Aborted, "another message took the run's place".into(), "`limulus runs list` shows both")
        }
        Outcome::TimedOut => failed(
            Exit::TimedOut,
            "the run passed its limit; what had come is kept".into(),
            "`--timeout S` or `runs.deadline_s` sets it",
        ),
    }
}

/// Other sessions' runs stay for `resume`.
fn tell_others(writer: &mut Writer, key: &SessionKey) -> Result<(), CliError> {
    let key = key.to_string();
    let others = writer.runtime.journal().unfinished()?.iter().filter(|row| row.key != key).count();
    if others > 0 {
        let sessions = if others == 1 { "1 other session has" } else { &format!("{others} other sessions have") };
        writer.screen.say(&format!("limulus: {sessions} unfinished work; `limulus resume` takes it up"));
    }
    Ok(())
}

fn text(message: &str) -> Result<String, CliError> {
    let text = if message == "-" {
        let mut bytes = vec![];
        std::io::stdin().read_to_end(&mut bytes).map_err(|error| CliError::Usage {
            what: format!("stdin does not read: {error}"),
            hint: "give the message with -m TEXT".into(),
        })?;
        String::from_utf8(bytes).map_err(|_| CliError::Usage {
            what: "the message on stdin is not UTF-8".into(),
            hint: "convert it first, for example with iconv".into(),
        })?
    } else {
        message.to_owned()
    };
    if text.trim().is_empty() {
        return Err(CliError::Usage { what: "the message is empty".into(), hint: "give it with -m TEXT".into() });
    }
    Ok(text)
}
