//! `agent`: sends a message. The first response says that it is recorded, the second how its run ended. A chat command
//! gets its response at once.

use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::policy::Principal;
use engine::tables::routing::OnlyIf;
use engine::{
    Acknowledgement, Attached, BodyKind, Command, Content, MessageId, Overrides, QueueMode, QueueSettings, Receipt,
    Sampling, SandboxMode, SenderOptions, Settings,
};
use protocol::Response;
use protocol::method::{Agent, AgentAnswer, AgentParams, Attachment};
use runtime::SessionContext;
use uuid::Uuid;
use views::SessionKey;

use super::chat::{self, Handled};
use super::end::{self, ended, observed};
use crate::connection::{Caller, ReadPermit};
use crate::error::Error;
use crate::events::is_over;
use crate::methods::encoded;
use crate::service::Service;

pub(in crate::methods) async fn agent<'a>(
    caller: &'a Arc<Caller>,
    id: &str,
    mut params: AgentParams,
    permit: &mut Option<ReadPermit<'a>>,
) -> Result<AgentAnswer, Error> {
    let service = &caller.service;
    let key = SessionKey::parse(Some(&params.session_key))?;
    if params.only_if.is_some() && chat::is_command(&params.message) {
        return Err(Error::invalid(
            "`onlyIf` is a condition for messages, and this is a command",
            "send the command without that condition",
        ));
    }
    let mut skill = None;
    match chat::handle(caller, &key, &params).await? {
        Some(Handled::Answer(text)) => return Ok(AgentAnswer::Command { text }),
        Some(Handled::Message(text)) => params.message = text,
        Some(Handled::Skill(text, own)) => (params.message, skill) = (text, own),
        None => {}
    }
    // A message creates its session. One that is to be refused must not.
    let is_new = || Ok::<_, Error>(service.runtime.journal().session(&key.to_string())?.is_none());
    if params.only_if == Some(OnlyIf::Active) && is_new()? {
        let what =
            format!("the message was to be accepted only while the session is active, and there is no session {key}");
        return Err(Error::State { what, hint: "send it without that condition".to_owned() });
    }
    let sent = MessageId(Uuid::now_v7());
    // The wait begins before the message is sent, because the run may end before the response arrives.
    let waiting = service.hub.wait_for(sent.into());
    let command = command(service, &key, sent, (params, skill)).await?;
    let key = key_of(&key);
    let Acknowledgement::Receipt(receipt) = super::command_to(service, &key.0, &key.1, command).await? else {
        return Err(Error::Bug { what: "a message was accepted without a receipt".to_owned() });
    };
    let accepted_at = receipt.accepted_at;
    let Receipt { message, run: run_id, ends: ends_run, mode, mode_by, state, ahead, verbose, .. } = receipt;
    let accepted =
        AgentAnswer::Accepted { run_id, accepted_at, message, mode, mode_by, state, ahead, ends_run, verbose };
    caller.respond(Response::ok(id, encoded::<Agent>(accepted)));
    if is_over(receipt.state) {
        return Ok(AgentAnswer::Error(end::never_began(receipt.run, receipt.state, accepted_at)));
    }
    let is_new = receipt.run == sent.into();
    let ended =
        if is_new { observed(caller, waiting, permit).await? } else { ended(caller, receipt.run, permit).await? };
    Ok(end::response(ended))
}

fn key_of(key: &SessionKey) -> (String, String) {
    (key.to_string(), key.agent.clone())
}

/// Builds the message for the session. What cannot run is refused before anything is recorded.
async fn command(
    service: &Arc<Service>,
    key: &SessionKey,
    message: MessageId,
    (mut params, skill): (AgentParams, Option<Box<str>>),
) -> Result<Command, Error> {
    if params.message.trim().is_empty() {
        return Err(Error::invalid("the message is empty", "give a text"));
    }
    if params.idempotency_key.is_empty() {
        return Err(Error::invalid("the idempotency key is empty", "make one for each message, for example a UUID"));
    }
    let overrides = overrides_of(&mut params, skill)?;
    let options =
        SenderOptions { only_if: params.only_if, origin: params.origin, reply_to: params.reply_to, masked: 0 };
    let deliver = params.deliver;
    options.check().map_err(|what| Error::invalid(what, "docs/protocol.md describes addresses"))?;
    let mode = mode_of(params.mode, &overrides)?;
    if let Some(schema) = overrides.output_schema.as_deref().cloned() {
        let checked = tools::SchemaChecker::of_this_program().check_schema(schema).await;
        checked.map_err(|why| Error::invalid(format!("`outputSchema`: {why}"), "docs/scripting.md shows one"))?;
    }
    let key_text = key.to_string();
    let session =
        SessionContext { key: Some(&key_text), principal: Some(Principal::Local), ..SessionContext::default() };
    let settings = service.runtime.resolver().settings(&key.agent, session, &overrides).map_err(|failure| {
        if failure.code.as_deref() == Some(runtime::NO_SPACE) {
            let hint = "the message was not recorded: send it again when there is space".to_owned();
            return Error::State { what: failure.message, hint };
        }
        let hint = "`limulus config check` shows the errors, `limulus models list` the usable models".to_owned();
        Error::Config { what: failure.to_string(), hint }
    })?;
    if deliver {
        must_go_out(&options, &settings)?;
    }
    check_workspace(&settings.known_workspace(), &overrides).await?;
    // The folder is fixed when the message is accepted, also if another owner resumes the run elsewhere.
    let overrides = Overrides { workspace: Some(settings.known_workspace()), ..overrides };
    let attachments = attached(service, params.attachments).await?;
    let queue = service.runtime.resolver().queue(&key.agent);
    Ok(Command::Message {
        message,
        content: Content::text(BodyKind::Message, &params.message),
        mode,
        queue: QueueSettings { message_interrupt: params.interrupt, ..queue },
        key: Some(params.idempotency_key),
        overrides,
        attachments,
        options,
    })
}

/// Refuses a message whose reply is to go out, if no route serves its address.
fn must_go_out(options: &SenderOptions, settings: &Settings) -> Result<(), Error> {
    let routes = &settings.reply.routes;
    let known = || {
        if routes.is_empty() {
            return "[routes.NAME] in config.toml makes one: docs/replies.md".to_owned();
        }
        format!("there are: {}", routes.iter().map(|route| &*route.name).collect::<Vec<_>>().join(", "))
    };
    let Some(to) = options.reply_to.as_ref().or(options.origin.as_ref()) else {
        return Err(Error::invalid("`deliver` is set, and the message has no `replyTo`", known()));
    };
    match settings.reply.route_to(to) {
        Some(_) => Ok(()),
        None => Err(Error::invalid(format!("no route is called `{}`", to.channel.escape_debug()), known())),
    }
}

/// What a message asks of its run, checked.
fn overrides_of(params: &mut AgentParams, skill: Option<Box<str>>) -> Result<Overrides, Error> {
    let sampling = Sampling {
        temperature: thousandths("temperature", params.temperature, 2.0)?,
        top_p: thousandths("topP", params.top_p, 1.0)?,
    };
    let overrides = Overrides {
        compact: false,
        workspace: params.workspace.take(),
        model: params.model.take(),
        deadline_ms: params.timeout_ms,
        thinking: params.thinking,
        max_output: params.max_output,
        sampling: Some(Box::new(sampling)).filter(|sampling| !sampling.is_usual()),
        allow: params.allow,
        sandbox: params.no_sandbox.then_some(SandboxMode::Off),
        root: params.root,
        unattended: params.unattended,
        stop_before: std::mem::take(&mut params.stop_before),
        plan: params.plan,
        output_schema: params.output_schema.take().map(Box::new),
        system: params.system.take().map(String::into_boxed_str),
        append_system: params.append_system.take().map(String::into_boxed_str),
        verbose: params.verbose,
        reasoning: params.reasoning,
        skill,
    };
    let prompts = [("system", &overrides.system), ("appendSystem", &overrides.append_system)];
    for (name, text) in prompts.into_iter().filter_map(|(name, text)| Some((name, text.as_deref()?))) {
        engine::check_prompt(text).map_err(|why| {
            Error::invalid(format!("`{name}`: {why}"), "docs/prompt.md says what a prompt of your own replaces")
        })?;
    }
    if let Some(why) = overrides.stop_before.iter().find_map(|name| tools::tools_of(name).err()) {
        return Err(Error::invalid(
            format!("`stopBefore`: {why}"),
            "docs/scripting.md says what each class stops before",
        ));
    }
    Ok(overrides)
}

/// A number that is at least 0 and at most this, in thousandths.
fn thousandths(name: &str, number: Option<f64>, most: f64) -> Result<Option<u32>, Error> {
    let Some(number) = number else { return Ok(None) };
    if !(0.0..=most).contains(&number) {
        return Err(Error::invalid(format!("`{name}` is {number}"), format!("give a number from 0 to {most}")));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 0 and 2,000")]
    Ok(Some((number * 1_000.0).round() as u32))
}

/// The mode of a message. What is asked of its run is asked of no other: such a message joins no run.
fn mode_of(mode: Option<QueueMode>, overrides: &Overrides) -> Result<Option<QueueMode>, Error> {
    let asks = [
        ("stopBefore", !overrides.stop_before.is_empty()),
        ("plan", overrides.plan),
        ("outputSchema", overrides.output_schema.is_some()),
        ("system", overrides.system.is_some()),
        ("appendSystem", overrides.append_system.is_some()),
    ];
    let Some((name, _)) = asks.into_iter().find(|(_, asks)| *asks) else { return Ok(mode) };
    match mode.unwrap_or(QueueMode::Followup) {
        mode @ (QueueMode::Followup | QueueMode::Interrupt) => Ok(Some(mode)),
        QueueMode::Steer | QueueMode::Collect | QueueMode::SteerBacklog => Err(Error::invalid(
            format!("`{name}` is for a run of its own, and a message of this mode joins another"),
            "send it as a followup or as an interrupt, or without a mode",
        )),
    }
}

/// Refuses a folder that a client names and that is not there: its name may be mistyped.
async fn check_workspace(workspace: &str, overrides: &Overrides) -> Result<(), Error> {
    if overrides.workspace.is_none() {
        return Ok(());
    }
    let folder = PathBuf::from(workspace);
    // A folder may be on a disk that is slow.
    if tokio::task::spawn_blocking(move || folder.is_dir()).await.unwrap_or(false) {
        return Ok(());
    }
    let what = format!("the workspace {workspace} is not a folder that exists");
    Err(Error::invalid(what, format!("create it (mkdir -p '{workspace}'), or name another folder")))
}

/// Reads the attachments on a thread that may block, because images are encoded anew.
async fn attached(service: &Arc<Service>, files: Vec<Attachment>) -> Result<Vec<Attached>, Error> {
    if files.is_empty() {
        return Ok(vec![]);
    }
    let secrets = service.runtime.resolver().secrets();
    let reading = tokio::task::spawn_blocking(move || {
        let decoded = files.into_iter().map(|Attachment { name, content }| match STANDARD.decode(content) {
            Ok(bytes) => Ok((name, bytes)),
            Err(error) => Err(Error::invalid(format!("{name} is not base64: {error}"), "encode its bytes as base64")),
        });
        let decoded = decoded.collect::<Result<Vec<_>, _>>()?;
        tools::attach_sent(decoded, &secrets).map_err(|error| Error::invalid(error.to_string(), error.hint()))
    });
    reading.await.unwrap_or_else(|error| Err(Error::Bug { what: format!("a file could not be attached: {error}") }))
}
