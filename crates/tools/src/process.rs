//! The tool `process`: lists, polls, writes to and ends background commands. It can access only the commands of its own
//! session and keeps no state: the model passes the offset at which a poll continues.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use engine::{CallOutcome, EffectId, Found, SandboxMode, Timestamp, ToolClass, ToolResult, ToolSpec};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::call::{CallRequest, Context, FoundCall};
use crate::cancel::{Cancel, in_process};
use crate::error::ToolError;
use crate::exec::{self, ended_within, record_error};
use crate::folder::{CallFolder, CallState};
use crate::limits::{INPUT_MS, LISTED_BYTES, POLL_TICK_MS, POLL_WAIT_MS, PROCESS_END_MS};
use crate::tool::{Act, CallSite, OnOutput, ParsedCall, Tool, ToolCall, ToolFuture, done};
use crate::tool_set::{self, spec};
use crate::{preview, sandbox, tool_result, window};

/// A background command of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldProcess {
    /// The effect of the call that started it; its process name is derived from this.
    pub effect: EffectId,
    /// The arguments of that call, as the model wrote them. They are parsed when somebody asks for the command.
    pub arguments: Arc<str>,
    /// When the call that started it began.
    pub started_at: Timestamp,
    /// How it ended; none if the session does not know that it ended.
    pub ended: Option<String>,
}

impl HeldProcess {
    /// The shell command.
    pub(crate) fn command(&self) -> String {
        command_of(&self.arguments)
    }
}

/// The command in the arguments of an `exec` call; the arguments themselves if they are not valid.
pub fn command_of(arguments: &str) -> String {
    exec::command_of(arguments).unwrap_or_else(|| arguments.to_owned())
}

/// The tool.
pub(crate) struct Process;

impl Tool for Process {
    fn spec(&self, _timeout_s: u64) -> ToolSpec {
        spec(
            "process",
            ToolClass::Once,
            "Look after commands in the background: `list` them, `poll` one for new output and whether it has ended, `write` to \
             its standard input, `end` it with all that it started.",
            &json!({
                "action": { "type": "string", "enum": ["list", "poll", "write", "end"] },
                "id": { "type": "string", "minLength": 1, "description": "Which: as `exec` or `list` gave it." },
                "offset": { "type": "integer", "minimum": 0, "description": "For poll: from which byte of the output on; its end if left out." },
                "wait_ms": { "type": "integer", "minimum": 0, "maximum": 60_000, "description": "For poll: how long to wait for something new." },
                "text": { "type": "string", "description": "For write: what, with the line end if it takes lines." },
                "eof": { "type": "boolean", "description": "For write: end the input after it." },
            }),
            &["action"],
        )
    }

    fn call(&self, arguments: Value) -> Result<ParsedCall, ToolError> {
        let fields = tool_set::arguments::<ProcessFields>("process", arguments)?;
        fields.arguments().map(ParsedCall::new)
    }
}

/// Arguments of `process`, checked against the schema only.
#[derive(Debug, Deserialize)]
struct ProcessFields {
    action: ProcessAction,
    id: Option<String>,
    offset: Option<u64>,
    #[serde(default)]
    wait_ms: u64,
    text: Option<String>,
    #[serde(default)]
    eof: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ProcessAction {
    List,
    Poll,
    Write,
    End,
}

/// An action of `process` with its arguments.
#[derive(Debug)]
enum ProcessArguments {
    /// List the background commands, running and ended.
    List,
    /// Read the output from byte `offset` on, or its end. If there is no new output, wait up to `wait`.
    Poll { id: String, offset: Option<u64>, wait: Duration },
    /// Write text to the standard input; then close it if `eof`.
    Write { id: String, text: String, eof: bool },
    /// End the process.
    End { id: String },
}

impl ProcessFields {
    fn arguments(self) -> Result<ProcessArguments, ToolError> {
        let missing = |field: &str| ToolError::Arguments {
            tool: "process".to_owned(),
            violations: format!("this action needs `{field}`"),
        };
        let id = self.id.ok_or_else(|| missing("id"));
        Ok(match self.action {
            ProcessAction::List => ProcessArguments::List,
            ProcessAction::Poll => {
                let wait = Duration::from_millis(self.wait_ms.min(POLL_WAIT_MS));
                ProcessArguments::Poll { id: id?, offset: self.offset, wait }
            }
            ProcessAction::Write if self.text.is_none() && !self.eof => return Err(missing("text")),
            ProcessAction::Write => {
                ProcessArguments::Write { id: id?, text: self.text.unwrap_or_default(), eof: self.eof }
            }
            ProcessAction::End => ProcessArguments::End { id: id? },
        })
    }
}

impl ToolCall for ProcessArguments {
    /// Text for a process can be commands, so it is one. Polling, listing and ending do nothing to the world outside.
    fn acts(&self, site: &CallSite<'_>) -> Result<Vec<Act>, ToolError> {
        let Self::Write { id, text, .. } = self else { return Ok(vec![]) };
        let process = named(site.context, id)?;
        // What is given to a command can do what that command can.
        let call = folder(site.context, process);
        let is_free = site.context.sandbox.mode != SandboxMode::Off && !sandbox::has(&call);
        let is_open = site.context.sandbox.mode != SandboxMode::Off && exec::asks_for_exits(&process.arguments);
        let outside = (is_free || is_open).then(|| "it runs outside of it".to_owned());
        Ok(vec![Act::Run { line: text.clone(), to: Some(process.command()), outside }])
    }

    fn run<'a>(
        &'a self,
        context: &'a Context,
        _request: &'a CallRequest,
        _progress: &'a mut OnOutput<'a>,
    ) -> ToolFuture<'a, Result<ToolResult, ToolError>> {
        Box::pin(run(context, self))
    }

    fn find<'a>(
        &'a self,
        _context: &'a Context,
        _request: &'a CallRequest,
    ) -> ToolFuture<'a, Result<FoundCall, ToolError>> {
        // The process may have read the text, so it must not be written again. Reading output and ending are repeatable.
        let found = if matches!(self, Self::Write { .. }) { Found::Unknown } else { Found::NeverStarted };
        Box::pin(std::future::ready(Ok(FoundCall { found, ended: None })))
    }
}

/// Runs a call with these arguments.
async fn run(context: &Context, asked: &ProcessArguments) -> Result<ToolResult, ToolError> {
    match asked {
        ProcessArguments::List => {
            let here = context.clone();
            let list = move |_: &Cancel| Ok(done(&here, &list(&here)));
            in_process("process", list).await
        }
        ProcessArguments::Poll { id, offset, wait } => {
            let text = poll(context, named(context, id)?, *offset, *wait).await?;
            // `poll` masks its text itself, so that the offsets stay right.
            Ok(tool_result::text(CallOutcome::Done, &text))
        }
        ProcessArguments::Write { id, text, eof } => {
            write(context, named(context, id)?, text, *eof).await.map(|text| done(context, &text))
        }
        ProcessArguments::End { id } => end(context, named(context, id)?).await,
    }
}

/// Finds the process of this name; the newest if there are two.
pub(crate) fn named<'a>(context: &'a Context, id: &str) -> Result<&'a HeldProcess, ToolError> {
    let name = |process: &HeldProcess| process.effect.process_name();
    let found = context.processes.iter().rev().find(|process| name(process) == id);
    found.ok_or_else(|| {
        let known: Vec<String> = context.processes.iter().map(name).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        ToolError::NoProcess { id: id.to_owned(), known }
    })
}

fn folder(context: &Context, process: &HeldProcess) -> CallFolder {
    CallFolder::of(&context.calls, process.effect)
}

/// How a process ended; none while it runs. The folder of the call knows it before the session.
fn ended(folder: &CallFolder, process: &HeldProcess) -> io::Result<Option<String>> {
    Ok(match folder.state()? {
        CallState::Running => None,
        CallState::Ended(record) => Some(preview::how(&record)),
        CallState::Dead | CallState::Absent | CallState::Void => {
            let unknown = || "its outcome is unknown: it was interrupted, or its record is gone".to_owned();
            Some(process.ended.clone().unwrap_or_else(unknown))
        }
    })
}

fn list(context: &Context) -> String {
    if context.processes.is_empty() {
        return "No command is in the background.\n".to_owned();
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
    let line = |process: &HeldProcess| {
        let ended = ended(&folder(context, process), process).ok().flatten();
        let seconds = Timestamp(now).since(process.started_at) / 1_000;
        let state = ended.map_or_else(|| format!("running for {seconds} s"), |how| format!("ended: {how}"));
        let command = process.command().replace('\n', " ");
        let preview = &command[..command.floor_char_boundary(LISTED_BYTES)];
        let rest = if preview.len() < command.len() { "…" } else { "" };
        format!("{} [{state}] {preview}{rest}\n", process.effect.process_name())
    };
    context.processes.iter().map(line).collect()
}

async fn poll(
    context: &Context,
    process: &HeldProcess,
    offset: Option<u64>,
    wait: Duration,
) -> Result<String, ToolError> {
    let folder = folder(context, process);
    let until = Instant::now() + wait;
    let from = match offset {
        None if !wait.is_zero() => Some(folder.written().map_err(record_error(&folder))?),
        offset => offset,
    };
    loop {
        // Read the state first: a command that has ended by then writes no more.
        let ended = ended(&folder, process).map_err(record_error(&folder))?;
        let window = window::read(&folder, &context.secrets, from, ended.is_some()).map_err(record_error(&folder))?;
        if ended.is_none() && window.text.is_empty() && Instant::now() < until {
            sleep(Duration::from_millis(POLL_TICK_MS)).await;
            continue;
        }
        let line_end = if window.text.is_empty() || window.text.ends_with('\n') { "" } else { "\n" };
        let state = ended.map_or_else(|| "running".to_owned(), |how| format!("ended: {}", context.secrets.mask(&how)));
        let more = if window.next < window.written { "more follows; " } else { "" };
        return Ok(format!("{}{line_end}[{state}; {more}continue with offset={}]\n", window.text, window.next));
    }
}

async fn write(context: &Context, process: &HeldProcess, text: &str, eof: bool) -> Result<String, ToolError> {
    let folder = folder(context, process);
    let id = process.effect.process_name();
    let refused = |reason: String| ToolError::NoInput { id: process.effect.process_name(), reason };
    if let Some(how) = ended(&folder, process).map_err(record_error(&folder))? {
        return Err(refused(format!("it has ended ({how})")));
    }
    if !text.is_empty() {
        let input = folder.input().map_err(record_error(&folder))?;
        let input = input.ok_or_else(|| refused("none of its processes reads input any more".to_owned()))?;
        let taken = feed(input, text.as_bytes()).await.map_err(record_error(&folder))?;
        if taken < text.len() {
            let reason = format!("it read {taken} of {} bytes and stopped; the rest was not sent", text.len());
            return Err(refused(reason));
        }
    }
    if eof {
        folder.ask_to_close_input().map_err(record_error(&folder))?;
    }
    let end = if eof { ", and ended" } else { "" };
    Ok(format!("[{} bytes written to the input of {id}{end}; process action=poll shows its output]\n", text.len()))
}

/// Writes as many bytes as the process reads within [`INPUT_MS`]; returns their number.
async fn feed(mut input: File, bytes: &[u8]) -> io::Result<usize> {
    let until = Instant::now() + Duration::from_millis(INPUT_MS);
    let mut taken = 0;
    while taken < bytes.len() {
        match input.write(&bytes[taken..]) {
            Ok(count) => taken += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < until => {
                sleep(Duration::from_millis(POLL_TICK_MS)).await;
            }
            // The reader is gone, or does not read.
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::BrokenPipe) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(taken)
}

async fn end(context: &Context, process: &HeldProcess) -> Result<ToolResult, ToolError> {
    let folder = folder(context, process);
    let id = process.effect.process_name();
    let already = ended(&folder, process).map_err(record_error(&folder))?.is_some();
    let over = ended_within(&folder, Duration::from_millis(PROCESS_END_MS)).await.map_err(record_error(&folder))?;
    if over == CallState::Running {
        return Ok(tool_result::text(
            CallOutcome::Failed,
            &format!("[{id} could not be ended in time; it may still run]\n"),
        ));
    }
    let how = ended(&folder, process).map_err(record_error(&folder))?.unwrap_or_default();
    let had = if already { "had ended already" } else { "has ended" };
    Ok(tool_result::text(CallOutcome::Done, &context.secrets.mask(&format!("[{id} {had}: {how}]\n"))))
}
