//! The runtime's side of the tool `exec`: starts a supervisor, follows a call or attaches to it, looks it up, ends it.
//! Nothing here writes into the folder of a call. Dropping any of these futures does not affect the command.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use engine::tables::limits::{PROCESS_MS, RUNNING_PROCESSES};
use engine::{CallOutcome, ChangedFile, EffectId, Found, NotKept, ToolClass, ToolResult, ToolSpec};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdout, Command};
use tokio::time::sleep;

use crate::call::{CallRequest, Context, FoundCall};
use crate::cancel::{Cancel, in_process};
use crate::changes::{self, Ran, Recorder};
use crate::error::ToolError;
use crate::evidence::Evidence;
use crate::folder::{CallFolder, CallState, EndedBy, ExitRecord};
use crate::limits::{
    ATTACHED_TICK_MS, BACKGROUND_MS, EXITS, FOLLOWED_TICK_MS, FORCE_MS, REASON_BYTES, SLACK_MS, TIMEOUT_S, URGE_TICK_MS,
};
use crate::live::LiveOutput;
use crate::paths::{ResolvedPath, Workspace};
use crate::supervise::proxy::host::{self, Host, WEB};
use crate::supervise::{Job, SUPERVISOR};
use crate::tool::{Act, CallSite, OnOutput, ParsedCall, Tool, ToolCall, ToolFuture};
use crate::tool_set::{self, spec};
use crate::{approved, call, cgroup, command_env, preview, sandbox, supervisors, tool_result, window};

/// The result of a command that was cancelled before it started.
const NEVER_STARTED: &str = "The command was ended before it started; nothing was run.\n";

pub(crate) const NAME: &str = "exec";

/// The tool.
pub(crate) struct Exec;

impl Tool for Exec {
    fn spec(&self, timeout_s: u64) -> ToolSpec {
        spec(
            "exec",
            ToolClass::Once,
            "Run a shell command (`sh -c`) in the workspace, and give its output and exit status. Whatever it leaves running is \
             ended with it: a server or anything else that stays needs `background`, and `process` then.",
            &json!({
                "command": { "type": "string", "minLength": 1, "description": "The command." },
                "background": { "type": "boolean", "description": "Let it go on in the background, for at most 24 hours." },
                "yield_ms": { "type": "integer", "minimum": 10, "maximum": 120_000, "description": "Put it into the background only if it has not ended after so many milliseconds." },
                "hosts": {
                    "type": "array",
                    "items": { "type": "string", "minLength": 1 },
                    "maxItems": EXITS,
                    "description": "Only if its sandbox refused them: the hosts that it has to reach, each as `host` or `host:port`. The user is asked.",
                },
                "writable": {
                    "type": "array",
                    "items": { "type": "string", "minLength": 1 },
                    "maxItems": EXITS,
                    "description": "Only if its sandbox refused them: the folders and files outside the workspace that it has to write. The user is asked.",
                },
                "outside_sandbox": { "type": "string", "minLength": 1, "description": "Only if it failed for the sandbox: why it has to run outside of it. The user is asked." },
                "timeout_s": { "type": "integer", "minimum": 1, "maximum": TIMEOUT_S, "description": format!("Seconds after which it is ended: {timeout_s} if left out, at most {TIMEOUT_S}. It ends no command in the background.") },
            }),
            &["command"],
        )
    }

    fn call(&self, arguments: Value) -> Result<ParsedCall, ToolError> {
        Ok(ParsedCall::new(tool_set::arguments::<ExecArguments>("exec", arguments)?))
    }

    fn runs_commands(&self) -> bool {
        true
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct ExecArguments {
    command: String,
    /// Whether the command continues in the background.
    #[serde(default)]
    background: bool,
    /// Milliseconds after which it continues in the background if it has not ended.
    yield_ms: Option<u64>,
    /// Seconds after which it is ended; none = the configured limit of a call.
    timeout_s: Option<u64>,
    /// Why it has to run outside of its sandbox.
    outside_sandbox: Option<String>,
    /// The hosts that it reaches from its sandbox.
    #[serde(default)]
    hosts: Vec<String>,
    /// The files and folders outside the workspace that it writes.
    #[serde(default)]
    writable: Vec<String>,
}

impl ExecArguments {
    /// The limit that the call asks for itself, milliseconds.
    fn own_limit_ms(&self) -> Option<u64> {
        self.timeout_s.map(|seconds| seconds.saturating_mul(1_000))
    }

    /// How long the call waits before its command continues in the background; none = the command stays in the
    /// foreground. At most half of the limit of the call; `tool_timeout_ms` is the configured one.
    fn yields_after(&self, tool_timeout_ms: u64) -> Option<Duration> {
        let wanted = self.yield_ms.or(self.background.then_some(BACKGROUND_MS));
        wanted.map(|ms| Duration::from_millis(ms.min(self.own_limit_ms().unwrap_or(tool_timeout_ms) / 2)))
    }
}

impl ToolCall for ExecArguments {
    fn acts(&self, site: &CallSite<'_>) -> Result<Vec<Act>, ToolError> {
        let running = site.context.processes.iter().filter(|process| process.ended.is_none()).count();
        if self.yields_after(site.context.tool_timeout_ms).is_some() && running >= RUNNING_PROCESSES {
            return Err(ToolError::ManyProcesses { most: RUNNING_PROCESSES });
        }
        let line = self.command.clone();
        let run = Act::Run { line: line.clone(), to: None, outside: self.outside_sandbox.clone() };
        // What runs outside reaches all of it.
        if self.outside_sandbox.is_some() || self.hosts.is_empty() && self.writable.is_empty() {
            return Ok(vec![run]);
        }
        let hosts = self.hosts.iter().map(|host| exit_host(host)).collect::<Result<_, _>>()?;
        let paths = self.writable.iter().map(|path| exit_path(site, path)).collect::<Result<_, _>>()?;
        Ok(vec![run, Act::Exit { line, hosts, paths }])
    }

    fn timeout_ms(&self) -> Option<u64> {
        self.own_limit_ms()
    }

    fn run<'a>(
        &'a self,
        context: &'a Context,
        request: &'a CallRequest,
        progress: &'a mut OnOutput<'a>,
    ) -> ToolFuture<'a, Result<ToolResult, ToolError>> {
        Box::pin(run(context, request, self, progress))
    }

    fn find<'a>(
        &'a self,
        context: &'a Context,
        request: &'a CallRequest,
    ) -> ToolFuture<'a, Result<FoundCall, ToolError>> {
        Box::pin(find(context, request.id, self))
    }

    fn end<'a>(
        &'a self,
        context: &'a Context,
        request: &'a CallRequest,
        grace: Duration,
    ) -> ToolFuture<'a, ToolResult> {
        Box::pin(async move {
            // If the record cannot be read, nobody can confirm that the command ended.
            let unseen =
                |error| ToolResult { outcome: CallOutcome::Unended, ..tool_result::failed(&context.secrets, &error) };
            end(context, request.id, self, grace).await.unwrap_or_else(unseen)
        })
    }
}

/// A host that a command asks for, in the form that rules have.
fn exit_host(given: &str) -> Result<String, ToolError> {
    let parts = host::split(given, Some(WEB[0]));
    let host = parts.and_then(|(name, port)| Some(host::named(&Host::parse(name)?, port)));
    host.ok_or_else(|| {
        let violations =
            format!("`hosts`: {given:?} is no host: write `example.org` or `example.org:8443`, without a path or `*`");
        ToolError::Arguments { tool: NAME.to_owned(), violations }
    })
}

/// A file or folder that a command asks to write.
fn exit_path(site: &CallSite<'_>, given: &str) -> Result<ResolvedPath, ToolError> {
    let path = site.resolve(given)?;
    if path.look().is_err() {
        let violations =
            format!("`writable`: {} does not exist: name the folder in which it is to be made", path.shown);
        return Err(ToolError::Arguments { tool: NAME.to_owned(), violations });
    }
    Ok(path)
}

/// Whether the command of a call was to reach hosts, or to write files, beyond its sandbox.
pub(crate) fn asks_for_exits(arguments: &str) -> bool {
    let arguments = serde_json::from_str::<ExecArguments>(arguments);
    arguments.is_ok_and(|arguments| !arguments.hosts.is_empty() || !arguments.writable.is_empty())
}

/// The command in the arguments of a call; none if they are not valid.
pub(crate) fn command_of(arguments: &str) -> Option<String> {
    serde_json::from_str::<ExecArguments>(arguments).ok().map(|arguments| arguments.command)
}

/// Starts the command, or attaches to it if it is already running, and waits for its end. The request says how many
/// bytes of its live output the journal holds.
async fn run(
    context: &Context,
    request: &CallRequest,
    arguments: &ExecArguments,
    progress: &mut OnOutput<'_>,
) -> Result<ToolResult, ToolError> {
    let (id, already) = (request.id, request.already);
    let folder = CallFolder::of(&context.calls, id);
    let mut update = if state(&folder)? == CallState::Absent {
        begin(context, id, Recorder::begin).await?;
        let evidence = Evidence::parse(request.evidence.as_deref());
        let started = start(context, &folder, arguments, evidence).await;
        OutputUpdate::of(&folder, started.inspect_err(|_| changes::forget(&context.calls, id))?)
    } else {
        begin(context, id, |recorder, id, _| recorder.attach(id)).await?;
        OutputUpdate::none()
    };
    let yields_at = arguments.yields_after(context.tool_timeout_ms).map(|after| Instant::now() + after);
    // The first word of a supervisor says whether it has claimed the folder. Before it, nothing in there can be judged.
    while !update.is_over() && update.message.is_empty() {
        update.wait(None).await;
    }
    let mut live = LiveOutput::new(context.secrets.clone(), already);
    loop {
        // Read the state first: if the command has ended by then, its output is complete.
        // If the state cannot be read, the command may still run, so keep waiting: its limit ends it.
        let now = folder.state().unwrap_or(CallState::Running);
        if matches!(now, CallState::Running | CallState::Ended(_)) {
            live.advance(&folder, progress);
        }
        match now {
            CallState::Running if yields_at.is_some_and(|at| at <= Instant::now()) => {
                return in_background(context, &folder, id).await;
            }
            CallState::Running => {}
            CallState::Absent if !update.is_over() => {}
            CallState::Absent => {
                // A supervisor may still be starting. Claiming the folder keeps it from running the command.
                if folder.claim_void().map_err(record_error(&folder))? {
                    return Err(ToolError::NotStarted { reason: context.secrets.mask(&update.reason()) });
                }
            }
            CallState::Void => return Ok(failed(NEVER_STARTED)),
            CallState::Ended(record) => return settled(context, (&folder, id), arguments, record).await,
            CallState::Dead => return interrupted(context, (&folder, id)).await,
        }
        update.wait(yields_at).await;
    }
}

/// Has the recorder begin with a command. It never fails: a command whose changes cannot be recorded can still run.
async fn begin(
    context: &Context,
    id: EffectId,
    how: impl FnOnce(&Recorder, EffectId, &Cancel) + Send + 'static,
) -> Result<(), ToolError> {
    let recorder = context.recorder();
    let begun = move |cancel: &Cancel| {
        how(&recorder, id, cancel);
        cancel.check()
    };
    in_process("exec", begun).await
}

/// Adds to a result what the command has changed.
async fn with_changes(recorder: Recorder, id: EffectId, (ran, over): (Ran, Over), result: ToolResult) -> ToolResult {
    ToolResult { changes: changes_of(recorder, id, ran, over).await, ..result }
}

/// What a command has changed so far.
pub(crate) async fn changes_of(recorder: Recorder, id: EffectId, ran: Ran, over: Over) -> Vec<ChangedFile> {
    let found = in_process("exec", move |_: &Cancel| Ok(recorder.changes(id, ran, over == Over::Yes))).await;
    let defect =
        || ChangedFile { path: ".".to_owned(), not_kept: Some(NotKept::NotRecorded), ..ChangedFile::default() };
    found.unwrap_or_else(|_| vec![defect()])
}

/// Whether a command changes nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    Yes,
    No,
}

/// When a command ran that has this record.
pub(crate) fn ran(record: &ExitRecord) -> Ran {
    let ns = |ms: i64| Some(ms.saturating_mul(1_000_000));
    let to_ns = if record.survivors.is_empty() { ns(record.ended_at.saturating_add(1)) } else { None };
    Ran { from_ns: ns(record.started_at), to_ns }
}

/// The result of a call whose command continues in the background.
async fn in_background(context: &Context, folder: &CallFolder, id: EffectId) -> Result<ToolResult, ToolError> {
    let window = window::read(folder, &context.secrets, Some(0), false).map_err(record_error(folder))?;
    let line_end = if window.text.is_empty() || window.text.ends_with('\n') { "" } else { "\n" };
    let (name, next, hours) = (id.process_name(), window.next, PROCESS_MS / 3_600_000);
    let text = format!(
        "{}{line_end}[it continues in the background as {name}, for at most {hours} h; to see more: process action=poll id={name} offset={next}]\n",
        window.text
    );
    let result = ToolResult { in_background: true, ..tool_result::text(CallOutcome::Done, &text) };
    Ok(with_changes(context.recorder(), id, (Ran::default(), Over::No), result).await)
}

/// Finds out what became of the call. A command that never began cannot begin any more. If the command was to continue
/// in the background and runs, the call has its result.
async fn find(context: &Context, id: EffectId, arguments: &ExecArguments) -> Result<FoundCall, ToolError> {
    let folder = CallFolder::of(&context.calls, id);
    loop {
        return Ok(match state(&folder)? {
            CallState::Absent if !folder.claim_void().map_err(record_error(&folder))? => continue,
            // The command has removed its folder.
            CallState::Absent if cgroup::exists(&folder) => {
                end_left(&folder).await;
                unknown(context, id).await
            }
            CallState::Absent | CallState::Void => FoundCall { found: Found::NeverStarted, ended: None },
            CallState::Running => {
                let yields = arguments.yields_after(context.tool_timeout_ms).is_some();
                let ended = if yields { Some(in_background(context, &folder, id).await?) } else { None };
                FoundCall { found: Found::Running, ended }
            }
            CallState::Ended(record) => FoundCall {
                found: Found::Ended,
                ended: Some(settled(context, (&folder, id), arguments, record).await?),
            },
            CallState::Dead => {
                end_left(&folder).await;
                unknown(context, id).await
            }
        });
    }
}

/// A command whose outcome nobody knows; what it changed can be seen.
async fn unknown(context: &Context, id: EffectId) -> FoundCall {
    let result = failed("The outcome of the command is unknown.\n");
    let result = with_changes(context.recorder(), id, (Ran::default(), Over::Yes), result).await;
    FoundCall { found: Found::Unknown, ended: Some(result) }
}

/// Ends the command and all its processes, and waits for the exit record.
async fn end(
    context: &Context,
    id: EffectId,
    arguments: &ExecArguments,
    grace: Duration,
) -> Result<ToolResult, ToolError> {
    let folder = CallFolder::of(&context.calls, id);
    loop {
        return Ok(match ended_within(&folder, grace).await.map_err(record_error(&folder))? {
            CallState::Absent => {
                folder.claim_void().map_err(record_error(&folder))?;
                continue;
            }
            CallState::Void => failed(NEVER_STARTED),
            CallState::Ended(record) => return settled(context, (&folder, id), arguments, record).await,
            CallState::Dead => return interrupted(context, (&folder, id)).await,
            CallState::Running => with_changes(context.recorder(), id, (Ran::default(), Over::No), unended()).await,
        });
    }
}

/// Asks the supervisor to end the command, if it runs, and waits for the exit record. Returns `Running` if that takes
/// longer than `grace`.
pub(crate) async fn ended_within(folder: &CallFolder, grace: Duration) -> io::Result<CallState> {
    let began = Instant::now();
    let mut asked = false;
    let mut urge_at = began + Duration::from_millis(URGE_TICK_MS);
    loop {
        match folder.state()? {
            // If the command has taken the FIFO away, its supervisor is not asked, and what it guards is killed below.
            CallState::Running if !asked => asked = folder.ask_to_end().unwrap_or(false) || urge_at <= Instant::now(),
            CallState::Running if began.elapsed() < grace => {}
            state => return Ok(state),
        }
        if urge_at <= Instant::now() {
            let (call, force) = (folder.clone(), began.elapsed() >= Duration::from_millis(FORCE_MS));
            // A panic of it is no reason to wait less.
            let _ = tokio::task::spawn_blocking(move || supervisors::urge(&call, force)).await;
            urge_at = Instant::now() + Duration::from_millis(URGE_TICK_MS);
        }
        sleep(Duration::from_millis(ATTACHED_TICK_MS)).await;
    }
}

fn state(folder: &CallFolder) -> Result<CallState, ToolError> {
    folder.state().map_err(record_error(folder))
}

pub(crate) fn record_error(folder: &CallFolder) -> impl FnOnce(std::io::Error) -> ToolError {
    let path = folder.path().display().to_string();
    move |source| ToolError::Record { path, source }
}

async fn settled(
    context: &Context,
    (folder, id): (&CallFolder, EffectId),
    arguments: &ExecArguments,
    record: ExitRecord,
) -> Result<ToolResult, ToolError> {
    let ran = ran(&record);
    let (reader, secrets, mode) = (folder.clone(), context.secrets.clone(), context.sandbox.mode);
    let limit = call::limit_line(true, arguments.own_limit_ms(), context.tool_timeout_ms);
    let limit = if record.ended_by == Some(EndedBy::Limit) { limit } else { String::new() };
    let workspace = context.workspace.clone();
    let reading = tokio::task::spawn_blocking(move || {
        if record.signal.is_some() {
            sandbox::tidy(&reader, &workspace);
        }
        let note = sandbox::note(&reader, record.status != Some(0), mode).unwrap_or_default();
        preview::ended(&reader, &record, &secrets, &(limit + &note))
    });
    let result = reading.await.map_err(|_| ToolError::Defect { tool: "exec" })?;
    Ok(with_changes(context.recorder(), id, (ran, Over::Yes), result).await)
}

/// Ends what the command left, since its supervisor was killed.
pub(crate) async fn end_left(folder: &CallFolder) {
    let call = folder.clone();
    // It returns nothing, and a panic in it must not end the session.
    let _ = tokio::task::spawn_blocking(move || supervisors::end_left_of(&call)).await;
}

/// The result of a command whose supervisor was killed: what it left has ended, so its output is complete.
async fn interrupted(context: &Context, (folder, id): (&CallFolder, EffectId)) -> Result<ToolResult, ToolError> {
    end_left(folder).await;
    let (reader, secrets, workspace) = (folder.clone(), context.secrets.clone(), context.workspace.clone());
    let reading = tokio::task::spawn_blocking(move || {
        sandbox::tidy(&reader, &workspace);
        preview::interrupted(&reader, &secrets)
    });
    let result = reading.await.map_err(|_| ToolError::Defect { tool: "exec" })?;
    Ok(with_changes(context.recorder(), id, (Ran::default(), Over::Yes), result).await)
}

fn failed(text: &str) -> ToolResult {
    tool_result::text(CallOutcome::Failed, text)
}

fn unended() -> ToolResult {
    let output = "The command could not be ended in time; it may still be running.\n";
    tool_result::text(CallOutcome::Unended, output)
}

/// Starts the supervisor and sends it the job. The supervisor writes to the returned pipe whenever the folder changes.
async fn start(
    context: &Context,
    folder: &CallFolder,
    arguments: &ExecArguments,
    evidence: Evidence,
) -> Result<ChildStdout, ToolError> {
    let not_started = |error: std::io::Error| ToolError::NotStarted {
        reason: format!("{} did not start: {error}", context.supervisor.display()),
    };
    folder.make_parent().map_err(record_error(folder))?;
    let stays = arguments.yields_after(context.tool_timeout_ms).is_some();
    let limit_ms = if stays { PROCESS_MS } else { arguments.own_limit_ms().unwrap_or(context.tool_timeout_ms) };
    let nonce = supervisors::nonce().map_err(not_started)?;
    let (here, of_call) = (context.clone(), folder.clone());
    let (command, limit_ms) = (arguments.command.clone(), limit_ms.saturating_add(SLACK_MS));
    let of_job = nonce.clone();
    let call = Some(folder.path().to_owned());
    let job = move |_: &Cancel| {
        let folder = Workspace::open(&here.workspace, &here.protected)?.root;
        approved::is_still(&evidence.approved, &folder, &command)?;
        let is_confined = sandbox::is_confined(&here, &evidence);
        let sandbox = if is_confined { Some(sandbox::profile(&here, &folder, &of_call, &evidence)?) } else { None };
        let hosts = sandbox.as_ref().filter(|profile| profile.reaches_hosts());
        let hosts = hosts.map(|_| here.rules.hosts_of(NAME, &evidence.hosts, here.reach));
        let memory_bytes = sandbox.as_ref().and_then(|_| cgroup::memory_bytes(here.sandbox.memory_mib));
        let (input, nonce) = (stays, of_job);
        Ok(serde_json::to_vec(&Job { command, folder, call, limit_ms, input, nonce, sandbox, hosts, memory_bytes }))
    };
    let job = in_process("exec", job).await?.map_err(|error| not_started(error.into()))?;
    let mut supervisor = Command::new(&context.supervisor);
    // Every process may read its arguments, and a command does not receive the place of the home.
    supervisor.arg("supervise").arg(cgroup::token(folder));
    supervisor.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    // Its process must not be one of `limulus` for who ends those by name.
    supervisor.arg0(SUPERVISOR);
    supervisor.env_clear().envs(command_env::variables(&context.passed_env, &context.secret_env));
    let mut child = supervisors::spawn(supervisor, folder.path(), &nonce).map_err(not_started)?;
    let mut stdin = child.stdin.take().expect("the input was asked to be a pipe");
    let stdout = child.stdout.take().expect("the output was asked to be a pipe");
    // The child outlives this future.
    supervisors::watch(child, folder.path().to_owned());
    // If the supervisor has exited meanwhile, its own output says why.
    let _ = stdin.write_all(&job).await;
    drop(stdin);
    Ok(stdout)
}

/// Says when to read the folder again.
#[derive(Debug)]
struct OutputUpdate {
    /// The supervisor's output, if this process started it and the pipe is still open.
    stdout: Option<ChildStdout>,
    /// What the supervisor wrote before it began.
    message: Vec<u8>,
    /// The folder, until its supervisor has claimed it.
    claimed: Option<PathBuf>,
}

impl OutputUpdate {
    fn of(folder: &CallFolder, stdout: ChildStdout) -> Self {
        Self { stdout: Some(stdout), message: Vec::new(), claimed: Some(folder.path().to_owned()) }
    }

    /// For a call that another process started: nothing signals changes.
    fn none() -> Self {
        Self { stdout: None, message: Vec::new(), claimed: None }
    }

    fn is_over(&self) -> bool {
        self.stdout.is_none()
    }

    fn reason(&self) -> String {
        let message = String::from_utf8_lossy(&self.message);
        if message.trim().is_empty() { "its supervisor exited at once".to_owned() } else { message.trim().to_owned() }
    }

    /// Returns when the folder may have changed, or at `latest`.
    async fn wait(&mut self, latest: Option<Instant>) {
        let Some(stdout) = &mut self.stdout else {
            return sleep(Duration::from_millis(ATTACHED_TICK_MS)).await;
        };
        let longest = Duration::from_millis(FOLLOWED_TICK_MS);
        let longest = latest.map_or(longest, |at| longest.min(at.saturating_duration_since(Instant::now())));
        let mut buffer = [0; 256];
        tokio::select! {
            read = stdout.read(&mut buffer) => match read {
                Ok(count) if count > 0 => {
                    if buffer[0] == b'.' && let Some(folder) = self.claimed.take() {
                        supervisors::began(&folder);
                    }
                    let space = REASON_BYTES.saturating_sub(self.message.len()).min(count);
                    self.message.extend_from_slice(&buffer[..space]);
                }
                _ => self.stdout = None,
            },
            () = sleep(longest) => {}
        }
    }
}
