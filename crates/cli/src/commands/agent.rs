//! `limulus agent`: sends a message and follows its run to the end.

use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use config::{Globals, Resolved, Subject, today};
use engine::tables::limits::MESSAGE_BYTES;
use engine::tables::routing::OnlyIf;
use engine::{
    Address, Candidate, Outcome, Overrides, QueueMode, ReasoningMode, ReceiptState, RunId, SandboxMode, SandboxRoot,
    StopReason, Thinking, Unattended, Usage,
};
use gateway::methods::chat_command;
use journal::{Read as _, Reader};
use protocol::event::RunEnd;
use protocol::method::{AgentAnswer, AgentParams, ApprovalsList, Attachment, DeliveriesList, Method as _};
use serde_json::Value;
use uuid::Uuid;

use super::conversation::{Conversation, ConversationArgs};
use super::follower::{End, Follower, can_approve};
use super::given::Wanted;
use super::message::{MessageArgs, refuse_key, refuse_task};
use super::paused::PausedRun;
use super::result::OutputFile;
use super::sent::Sent;
use super::task::TaskArgs;
use super::{interrupted, policy, resume, summary};
use crate::args::{AnswerArgs, WriterArgs};
use crate::error::{CliError, Exit};
use crate::render::set_markdown;
use crate::show::human::{Zone, now};
use crate::show::{json_line, print, worded};
use crate::{deprecation, upgrade};

/// Send a message to an agent and follow its run to the end.
#[derive(Debug, Args)]
#[command(
    after_help = "Ctrl-C ends the run cleanly; twice quits at once. After a kill, `limulus resume` continues the run.\n\
A message that begins with one of these is a command and needs no model: /new /reset /stop /pause /resume /compact /queue /model\n\
/think /verbose /status /usage /diff /undo /exit /help (docs/chat.md)."
)]
pub(crate) struct AgentArgs {
    #[command(flatten)]
    message: MessageArgs,
    /// Attach a file: an image (PNG, JPEG, GIF, WebP), PDF or text; may be repeated
    #[arg(long, value_name = "FILE")]
    attach: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) conversation: ConversationArgs,
    /// Choose what happens if a run is unfinished: steer, followup, collect, steer_backlog or interrupt [default: the
    /// mode of the session (`limulus queue mode`), else queue.mode]
    #[arg(long, value_name = "MODE", value_parser = super::queue::mode)]
    mode: Option<QueueMode>,
    /// Send it only if the session is in this state, idle or active; else it is refused and nothing is recorded
    #[arg(long, value_name = "STATE", value_parser = super::queue::only_if)]
    only_if: Option<OnlyIf>,
    /// Use this model, PROVIDER/MODEL; the agent's fallbacks follow it
    #[arg(long, value_name = "P/M")]
    model: Option<String>,
    /// Think this much in this run: off, minimal, low, medium, high or xhigh
    #[arg(long, value_name = "LEVEL", value_parser = thinking)]
    thinking: Option<Thinking>,
    /// Send the reply to this route of the configuration as well (docs/replies.md)
    #[arg(long, value_name = "ROUTE")]
    reply_to: Option<String>,
    /// Put the reasoning of the model into the reply: off, block or stream [default: reply.reasoning]
    #[arg(long, value_name = "HOW", value_parser = reasoning)]
    reasoning: Option<ReasoningMode>,
    /// Limit this run to so many seconds
    #[arg(long, value_name = "S", value_parser = crate::args::whole_from::<1>)]
    timeout: Option<u64>,
    /// Approve every request of this run
    #[arg(long)]
    yes: bool,
    /// Run the commands of this run without their sandbox
    #[arg(long)]
    no_sandbox: bool,
    /// Let it work in a copy or a git worktree of the workspace, or in the workspace [default: sandbox.root]
    #[arg(long, value_name = "ROOT", value_parser = super::sandbox::root)]
    root: Option<SandboxRoot>,
    /// Show the output of every call, as display.verbose does
    #[arg(short, long)]
    verbose: bool,
    /// Give the message a key of your own: the same key is the same message, also after a crash; with --new or --continue
    /// it is looked for in every session of the folder
    #[arg(long, value_name = "K")]
    key: Option<String>,
    /// Write the text of the answer into this file when the run has ended
    #[arg(long, value_name = "FILE")]
    output_last: Option<PathBuf>,
    #[command(flatten)]
    task: TaskArgs,
    #[command(flatten)]
    pub(crate) answers: AnswerArgs,
    #[command(flatten)]
    pub(crate) writer: WriterArgs,
}

pub(crate) async fn run(mut args: AgentArgs, globals: &Globals) -> Result<(), CliError> {
    set_markdown(args.answers.markdown);
    let text = std::mem::take(&mut args.message).read()?;
    refuse_key(&text, args.key.as_deref())?;
    refuse_task(&text, args.task.option())?;
    let output = args.output_last.as_deref().map(OutputFile::find).transpose()?;
    let schema = args.task.schema().await?;
    let conversation = Conversation::of(&args.conversation, args.key.as_deref(), globals)?;
    let key = &conversation.key;
    let config = Arc::new(deprecation::load(globals, args.writer.flags())?);
    let overrides = overrides(&args, schema.clone(), args.task.system().await?);
    // Reject what cannot run before anything is recorded.
    let subject = Subject {
        agent: &key.agent,
        overrides: &overrides,
        session: runtime::SessionContext::default(),
        date: &today(),
    };
    let untrusted = policy::trust::ask(&config, &config.workspace_of(subject)?, can_approve() && !args.writer.json)?;
    let Resolved { settings, mut notes } = config.resolve(subject)?;
    notes.extend(untrusted.into_iter().chain(upgrade::notes(&config, &globals.home)));
    let image_note = settings.candidates.first().filter(|candidate| !candidate.images).map(blind_note);
    // A relative workspace is relative to this folder, also if `resume` runs in another one.
    let (place, first) = conversation.lines(&settings, globals);
    let overrides = Overrides { workspace: Some(settings.workspace), ..overrides };
    let (attachments, types) = attached(args.attach, tools::Secrets::new(config.secrets())).await?;
    notes.extend(image_note.filter(|_| types.iter().any(|media_type| media_type.starts_with("image/"))));
    let keyed_in = args.key.is_some().then(|| globals.home.clone());
    let mut params = AgentParams {
        message: text,
        session_key: key.to_string(),
        // With this key a request that is repeated after a lost connection is the same message.
        idempotency_key: args.key.unwrap_or_else(|| Uuid::now_v7().to_string()),
        mode: args.mode,
        only_if: args.only_if,
        attachments,
        deliver: args.reply_to.is_some(),
        reply_to: args.reply_to.map(route).map(Box::new),
        ..asked_of_run(overrides)
    };
    let before = interrupted::of(globals, &params.session_key);
    let mut follower = Follower::open_for_message(globals, config, &args.writer, &params.message).await?;
    // An owner of an older version asks whoever is there, and does not know the parameter.
    params.unattended = params.unattended.filter(|_| follower.can(ApprovalsList::NAME));
    params.verbose = params.verbose.filter(|_| follower.can(DeliveriesList::NAME));
    if args.verbose {
        follower.screen.show_detail();
    }
    if args.yes {
        // No question will show them.
        follower.screen.show_whole_calls();
    }
    if schema.is_some() && !args.writer.json {
        follower.screen.leave_stdout();
    }
    let place = Some(place).filter(|_| follower.screen.is_watched());
    let first = first.filter(|_| !args.writer.json);
    // If another process owns the home, the run is not interrupted.
    let before = before.filter(|_| follower.is_owner());
    let before = before.map(|run| interrupted::line(&run, "it goes on", &Zone::local(), now()));
    for line in place.iter().chain(&first).chain(&notes).chain(&before) {
        follower.screen.say(line);
    }
    follower.screen.sends(&params.idempotency_key);
    let ended = match too_long(&params.message) {
        Some(error) => Err(error),
        None => converse(&mut follower, &key.to_string(), &params, globals).await,
    };
    if let Ok(Ending::Run(run, end)) = &ended {
        summary::say(&mut follower, (*run, end.outcome), &conversation, globals).await;
    }
    let wanted = Wanted { output, schema, as_json: args.writer.json, keyed_in };
    let exit = give(&mut follower, (&params, wanted), &ended, globals).await;
    let closed = follower.close(End::of(&ended)).await;
    exit.and(closed)
}

/// Gives the user what came of the message. No other process executes a run that `/resume` has resumed here.
async fn give(
    follower: &mut Follower<'_>,
    (params, wanted): (&AgentParams, Wanted),
    ended: &Result<Ending, CliError>,
    globals: &Globals,
) -> Result<(), CliError> {
    let (ended, key) = (ended.as_ref().map_err(Clone::clone)?, &params.session_key);
    wanted.give(follower, key, ended).await?;
    if follower.is_owner() && chat_command(&params.message).is_some_and(|command| command.resumes) {
        resume::follow_one(follower, &Reader::open(&globals.home)?, key).await?;
    }
    Ok(())
}

/// The address that a route serves.
pub(super) fn route(name: String) -> Address {
    Address { channel: name, ..Address::default() }
}

fn reasoning(text: &str) -> Result<ReasoningMode, String> {
    let mode = serde_json::from_value(Value::String(text.to_owned()));
    mode.map_err(|_| "there are: off, block, stream".to_owned())
}

fn thinking(text: &str) -> Result<Thinking, String> {
    let level = serde_json::from_value(Value::String(text.to_owned()));
    level.map_err(|_| "there are: off, minimal, low, medium, high, xhigh".to_owned())
}

/// What the command line asks of the run. Its workspace is not known yet.
fn overrides(args: &AgentArgs, schema: Option<Value>, system: Option<Box<str>>) -> Overrides {
    Overrides {
        workspace: None,
        model: args.model.clone(),
        deadline_ms: args.timeout.map(|s| s * 1000),
        thinking: args.thinking,
        max_output: None,
        sampling: None,
        allow: args.yes,
        sandbox: args.no_sandbox.then_some(SandboxMode::Off),
        root: args.root,
        // Whoever sits there is asked.
        unattended: can_approve().then_some(Unattended::Wait),
        compact: false,
        stop_before: args.task.stop_before.clone(),
        plan: args.task.plan,
        output_schema: schema.map(Box::new),
        system,
        append_system: args.task.append_system.as_deref().map(Box::from),
        verbose: args.verbose.then_some(true),
        reasoning: args.reasoning,
        // Whoever takes the message knows it.
        skill: None,
    }
}

fn asked_of_run(overrides: Overrides) -> AgentParams {
    let Overrides {
        workspace,
        model,
        deadline_ms,
        thinking,
        max_output: _,
        sampling: _,
        allow,
        sandbox,
        root,
        unattended,
        compact: _,
        stop_before,
        plan,
        output_schema,
        system,
        append_system,
        verbose,
        reasoning,
        skill: _,
    } = overrides;
    AgentParams {
        model,
        timeout_ms: deadline_ms,
        thinking,
        allow,
        no_sandbox: sandbox == Some(SandboxMode::Off),
        root,
        unattended,
        workspace,
        stop_before,
        plan,
        output_schema: output_schema.map(|schema| *schema),
        system: system.map(String::from),
        append_system: append_system.map(String::from),
        verbose,
        reasoning,
        ..AgentParams::default()
    }
}

/// Sends a message to a session that was chosen otherwise, as `agent --session KEY -m TEXT` does.
pub(super) async fn say_to(
    key: &str,
    text: String,
    (answers, writer): (AnswerArgs, WriterArgs),
    globals: &Globals,
) -> Result<(), CliError> {
    let args = AgentArgs {
        message: MessageArgs::of(text),
        attach: vec![],
        conversation: ConversationArgs::of(key),
        mode: None,
        only_if: None,
        model: None,
        thinking: None,
        reply_to: None,
        reasoning: None,
        timeout: None,
        yes: false,
        no_sandbox: false,
        root: None,
        verbose: false,
        key: None,
        output_last: None,
        task: TaskArgs::default(),
        answers,
        writer,
    };
    Box::pin(run(args, globals)).await
}

/// The result of a message.
pub(super) enum Ending {
    Run(RunId, RunEnd),
    /// It was a chat command, with this response.
    Command(String),
}

/// Prints the response of a chat command.
pub(super) fn say_command(text: &str, as_json: bool) -> Result<(), CliError> {
    // The lines of a diff are those of files.
    let words = if text.contains("\n@@ ") { text.to_owned() } else { worded(text) };
    print(&if as_json { json_line(&AgentAnswer::Command { text: text.to_owned() }) } else { words + "\n" })
}

/// The note for an image that goes to a model without image support.
fn blind_note(candidate: &Candidate) -> String {
    let model = format!("{}/{}", candidate.provider, candidate.model);
    let note = format!("{model} receives the name of the image, not the image");
    if candidate.provider == "offline" {
        return note;
    }
    format!("{note}: if it takes images, set images = true in [models.\"{model}\"]")
}

/// Reads the attachments on a thread that may block. Returns them with their media types.
async fn attached(paths: Vec<PathBuf>, secrets: tools::Secrets) -> Result<(Vec<Attachment>, Vec<String>), CliError> {
    if paths.is_empty() {
        return Ok((vec![], vec![]));
    }
    let reading = tokio::task::spawn_blocking(move || {
        // Reject what cannot be sent before anything is sent.
        let checked = tools::attach(&paths, &secrets);
        let checked =
            checked.map_err(|error| CliError::Usage { what: error.to_string(), hint: error.hint().to_owned() })?;
        let types = checked.into_iter().map(|file| file.media_type).collect();
        let files = paths.iter().map(|path| {
            let bytes = std::fs::read(path).map_err(|error| CliError::Usage {
                what: format!("{} cannot be read: {error}", path.display()),
                hint: "name a file that can be read".into(),
            })?;
            let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
            Ok(Attachment { name, content: STANDARD.encode(bytes) })
        });
        Ok((files.collect::<Result<_, CliError>>()?, types))
    });
    reading.await.unwrap_or_else(|error| Err(CliError::bug(&format!("a file could not be attached: {error}"))))
}

/// The error for a message that is too long for any session. Such a message may also exceed a frame.
fn too_long(message: &str) -> Option<CliError> {
    let bytes = message.len() as u64;
    (bytes > MESSAGE_BYTES).then(|| CliError::Refused {
        exit: Exit::Refused,
        what: format!(
            "the message has {} MiB, at most {} MiB can be sent",
            bytes.div_ceil(1 << 20),
            MESSAGE_BYTES >> 20
        ),
        hint: "put it into a file in the workspace and name the file".into(),
    })
}

/// Sends the message and follows the session until its run has ended, also if the owner of the home changes.
async fn converse(
    follower: &mut Follower<'_>,
    key: &str,
    params: &AgentParams,
    globals: &Globals,
) -> Result<Ending, CliError> {
    let mut message = Sent::to(key, &globals.home);
    if follower.is_owner() {
        report_others(follower, key, message.journal()?)?;
    }
    message.paused_before = PausedRun::of_key(message.journal()?, key)?.map(|paused| paused.run);
    message.stops = !params.stop_before.is_empty();
    follower.follow(key).await?;
    follower.steer_by_keyboard(key);
    let mut ended = loop {
        if let Some(ended) = message.follow(follower, params).await? {
            break ended;
        }
        follower.reopen().await?;
        message.owner_changed();
    };
    // What was typed too late for the run has a run of its own. If the run did not complete, that decides how this ends.
    while is_completed(&ended)
        && let Some(message) = follower.pop_steer().await
    {
        let mut typed = Sent::to(key, &globals.home);
        (typed.run, typed.steers) = (Some(message.into()), Some(message));
        ended = loop {
            if let Some((run, end)) = typed.wait(follower, key).await? {
                break Ending::Run(run, end);
            }
            follower.reopen().await?;
            typed.owner_changed();
        };
    }
    Ok(ended)
}

fn is_completed(ended: &Ending) -> bool {
    matches!(ended, Ending::Run(_, end) if end.outcome == Outcome::Completed)
}

/// The end of a run whose message was settled before the run started.
pub(super) fn never_began(state: ReceiptState) -> Option<RunEnd> {
    let error = views::never_began(state)?;
    let (outcome, text, usage, error) = (Outcome::Aborted, String::new(), Usage::default(), Some(error));
    Some(RunEnd { outcome, text, usage, error, stop_reason: None, category: None, checkpoint: None })
}

/// Ends the process at once, as a crash would. Committed entries are durable.
pub(crate) fn quit() -> ! {
    crate::keyboard::give_back();
    std::process::exit(i32::from(Exit::Aborted as u8))
}

/// What is said of an answer that is incomplete, and why its rest did not come.
pub(super) fn incomplete(reason: StopReason, failure: Option<&str>) -> String {
    let rest = failure.and_then(|failure| failure.lines().next());
    let rest = rest.map(|why| format!("; its rest did not come: {why}")).unwrap_or_default();
    format!("the answer is incomplete: {}{rest}", reason.in_words())
}

/// The result of the command for this end of its run.
pub(crate) fn outcome(run: RunId, ended: &RunEnd) -> Result<(), CliError> {
    let failed = |exit, what: String, hint: &str| Err(CliError::Failed { exit, what, hint: hint.to_owned() });
    match ended.outcome {
        Outcome::Completed => match ended.stop_reason {
            None => Ok(()),
            Some(reason) => {
                let hint = match reason {
                    StopReason::Length => {
                        "send another message to continue it; `requests.continuations` says how often that happens by itself"
                    }
                    StopReason::ContentFilter => "say it in other words, or use another model",
                };
                failed(Exit::Incomplete, incomplete(reason, ended.error.as_deref()), hint)
            }
        },
        Outcome::Failed => {
            let what = ended.error.clone().unwrap_or_else(|| "the run failed".to_owned());
            // A failure with two lines says what happened and what to do. A failure with more lines is a list.
            let (what, remedy) = what.split_once('\n').filter(|(_, rest)| !rest.contains('\n')).unwrap_or((&what, ""));
            let hint = format!("{remedy} `limulus runs trace {run}` shows every step");
            failed(Exit::RunFailed, what.to_owned(), hint.trim_start())
        }
        Outcome::Aborted => {
            let what = ended.error.clone().unwrap_or_else(|| "the run was aborted; the text so far is kept".to_owned());
            failed(Exit::Aborted, what, "send another message to continue")
        }
        Outcome::Interrupted => {
            failed(Exit::Aborted, "another message took the run's place".into(), "`limulus runs list` shows both")
        }
        Outcome::TimedOut => failed(
            Exit::TimedOut,
            "the run exceeded its time limit; the text so far is kept".into(),
            "`--timeout S` or `runs.deadline_s` sets it",
        ),
        Outcome::Stalled => {
            let why = ended.error.as_deref().unwrap_or("no progress for too long (`runs.stall_s`)");
            let hint = "send another message to continue; a command gets more time with its own timeout_s";
            failed(Exit::TimedOut, format!("the run stalled: {why}; the text so far is kept"), hint)
        }
    }
}

/// Reports unfinished work of other sessions, which `resume` would resume.
fn report_others(follower: &mut Follower<'_>, key: &str, journal: &Reader) -> Result<(), CliError> {
    let others = journal.unfinished()?.iter().filter(|row| row.key != key).count();
    if others > 0 {
        let sessions = if others == 1 { "1 other session has" } else { &format!("{others} other sessions have") };
        follower.screen.say(&format!("limulus: {sessions} unfinished work; `limulus resume` resumes it"));
    }
    Ok(())
}
