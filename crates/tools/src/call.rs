//! Runs a call, looks it up after a crash, ends it. The work of each tool is in its own file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use engine::{CallId, EffectId, Found, Sandbox, SandboxMode, ToolResult};

use crate::cancel::{Cancel, in_process};
use crate::changes::{self, FileStore, Prepare, Recorder};
use crate::error::ToolError;
use crate::fetch::NetworkPolicy;
use crate::file_call;
use crate::folder::CallFolder;
use crate::guard::Protected;
use crate::limits::TIMEOUT_S;
use crate::masking::Secrets;
use crate::memory::MemoryContext;
use crate::output::Outputs;
use crate::policy_rules::CallRules;
use crate::process::HeldProcess;
use crate::sandbox;
use crate::search::SearchProvider;
use crate::tool::{ParsedCall, ToolCall, Work};
use crate::tool_result;
use crate::tool_set::{ToolSet, tool_named};

/// What every call of a run has in common.
#[derive(Debug, Clone)]
pub struct Context {
    /// The tools that there are.
    pub tools: ToolSet,
    /// The absolute path of the folder that the agent works in.
    pub workspace: PathBuf,
    /// The folder that holds one record folder for each command (`home/calls`). A tool creates it when it needs it.
    pub calls: PathBuf,
    /// The limit of a call that asks for none of its own, milliseconds. The engine ends the call at this limit; the supervisor ends it 10 s later if
    /// it still runs.
    pub tool_timeout_ms: u64,
    /// Where the contents of files are kept before a tool changes them.
    pub files: FileStore,
    /// What no tool may read or write: the home, the configuration and the files of keys.
    pub protected: Protected,
    /// Values that are masked in all output of a tool.
    pub secrets: Secrets,
    /// Where `read` finds an output that was too long to be shown in full.
    pub outputs: Outputs,
    /// Which addresses `web_fetch` may connect to.
    pub reach: NetworkPolicy,
    /// What `web_search` asks.
    pub search: Option<SearchProvider>,
    /// What the tools of memory work with.
    pub memory: MemoryContext,
    /// The rules of the run, for what a call comes to only while it runs: files below a folder, redirects.
    pub rules: CallRules,
    /// What its commands can reach.
    pub sandbox: Sandbox,
    /// Environment variables that commands never get.
    pub secret_env: Vec<String>,
    /// Further variables that commands get besides the usual ones; a `*` at the end stands for any end.
    pub passed_env: Vec<String>,
    /// The user's folder, whose skills the run has.
    pub user: Option<PathBuf>,
    /// The skills that the run may have; none = all.
    pub skills: Option<Vec<String>>,
    /// The names of the routes to which messages can be sent.
    pub routes: Vec<String>,
    /// Those to which the reply of the run goes.
    pub replies_to: Vec<String>,
    /// The background commands of the session.
    pub processes: Vec<HeldProcess>,
    /// The program whose subcommand `supervise` is [`crate::supervise_main`].
    pub supervisor: PathBuf,
}

impl Context {
    /// What tools for files neither read nor write: what belongs to limulus, and what the sandbox hides from commands.
    pub(crate) fn kept(&self) -> Protected {
        match self.sandbox.mode {
            SandboxMode::Off => self.protected.clone(),
            SandboxMode::Workspace | SandboxMode::ReadOnly => {
                self.protected.clone().and(&sandbox::hidden(&self.sandbox))
            }
        }
    }

    /// What the changes of commands are found and kept with.
    pub(crate) fn recorder(&self) -> Recorder {
        Recorder {
            calls: self.calls.clone(),
            files: self.files.clone(),
            protected: self.protected.clone(),
            workspace: Some(self.workspace.clone()),
        }
    }
}

/// Has the workspace listed that a call which runs a command and is being checked would change, so that the call need not wait for
/// it. May block.
pub fn list_ahead(context: &Context) {
    context.recorder().prepare(Prepare::Always);
}

/// The same before the first request of a run, if commands were used in this workspace before. May block.
pub fn list_known(workspace: &Path, files: &FileStore, protected: &Protected) {
    let (files, protected, workspace) = (files.clone(), protected.clone(), Some(workspace.to_owned()));
    Recorder { calls: PathBuf::new(), files, protected, workspace }.prepare(Prepare::Known);
}

/// A call that the runtime runs, looks up or ends.
#[derive(Debug, Clone)]
pub struct CallRequest {
    /// The `run_call` effect that started the call. Looking the call up and ending it use the same id.
    pub id: EffectId,
    /// The call that the model made.
    pub call: CallId,
    /// The tool's name as the model wrote it; the tool need not exist.
    pub tool: String,
    /// The arguments as the model wrote them.
    pub arguments: Arc<[u8]>,
    /// The evidence that [`crate::check`] returned.
    pub evidence: Option<String>,
    /// The limit that it asks for itself, milliseconds.
    pub timeout_ms: Option<u64>,
    /// Bytes of its live output that the journal holds already; 0 unless the runtime attaches to a running command.
    pub already: u64,
}

/// What became of a call that a crash interrupted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundCall {
    /// Whether the call never started, still runs, has ended, or has an unknown outcome.
    pub found: Found,
    /// The result, for `Ended`. For a tool that changes files, and for a command, else what it has changed so far.
    pub ended: Option<ToolResult>,
}

/// Runs a call, or attaches to a command that is already running under this id. `progress` receives pieces of live
/// output, each with the number of bytes before it. Dropping the future ends every tool except a command, which keeps
/// running.
///
/// The outcome is Done or Failed; of a command also TimedOut (the supervisor's own limit), Interrupted (the supervisor
/// was killed) or Unended (some process could not be ended).
pub async fn run(context: &Context, request: &CallRequest, mut progress: impl FnMut(u64, String) + Send) -> ToolResult {
    let (here, asked) = (context.clone(), request.clone());
    let begun = in_process(name(request), move |cancel| Ok(begin(&here, &asked, cancel))).await;
    let ended = match begun {
        Ok(Begun::Ended(result)) => return *result,
        Ok(Begun::Future(call)) => call.run(context, request, &mut progress).await,
        Err(error) => Err(error),
    };
    match ended {
        Ok(result) => result,
        Err(error) => failed(context, error).await,
    }
}

/// What the model and the screen receive of a call that its limit has ended: which limit, and what sets it.
pub fn limit_reached(context: &Context, request: &CallRequest) -> String {
    limit_line(context.tools.runs_commands(&request.tool), request.timeout_ms, context.tool_timeout_ms)
}

pub(crate) fn limit_line(is_command: bool, own_ms: Option<u64>, configured_ms: u64) -> String {
    let configured = configured_ms / 1_000;
    match own_ms {
        Some(own) => format!(
            "[its limit was reached: {} s, its own timeout_s (at most {TIMEOUT_S} s; without it {configured} s, tools.timeout_s)]\n",
            own / 1_000
        ),
        None if is_command => format!(
            "[its limit was reached: {configured} s for one call (tools.timeout_s); a command may ask for up to {TIMEOUT_S} s \
             with timeout_s]\n"
        ),
        None => format!("[its limit was reached: {configured} s for one call (tools.timeout_s)]\n"),
    }
}

/// The result of a call that failed. Its message may repeat all that the model sent, so it is made on another thread.
async fn failed(context: &Context, error: ToolError) -> ToolResult {
    let secrets = context.secrets.clone();
    let failed = in_process("failed", move |_| Ok(tool_result::failed(&secrets, &error))).await;
    failed.unwrap_or_else(|defect| tool_result::failed(&context.secrets, &defect))
}

/// The tool of a call, for the report of a defect.
pub(crate) fn name(request: &CallRequest) -> &'static str {
    tool_named(&request.tool).unwrap_or("unknown")
}

/// What the thread that parses the arguments leaves to others.
enum Begun {
    /// Nothing: the tool works in this process and has ended, or the arguments do not fit.
    Ended(Box<ToolResult>),
    Future(Box<dyn ToolCall>),
}

/// Parses the arguments, and runs a tool that works on files. It blocks.
fn begin(context: &Context, request: &CallRequest, cancel: &Cancel) -> Begun {
    let result = match context.tools.parse(&request.tool, &request.arguments) {
        Ok(ParsedCall(Work::Future(call))) => return Begun::Future(call),
        Ok(ParsedCall(Work::Files(call))) => file_call::run(context, request, &*call, cancel),
        Err(error) => tool_result::failed(&context.secrets, &error),
    };
    Begun::Ended(Box::new(result))
}

/// Finds out what became of a call whose runtime was killed. After `NeverStarted` the call can never start under this
/// id: to run it again, the caller needs another id.
pub async fn find(context: &Context, request: &CallRequest) -> FoundCall {
    let (here, asked) = (context.clone(), request.clone());
    let found = match in_process(name(request), move |_| look(&here, &asked)).await {
        Ok(Looked::Future(call)) => call.find(context, request).await,
        Ok(Looked::Found(found)) => Ok(*found),
        Err(error) => Err(error),
    };
    found.unwrap_or(FoundCall { found: Found::Unknown, ended: None })
}

/// What a look at the files of a call gives.
enum Looked {
    /// Files do not show what became of it.
    Future(Box<dyn ToolCall>),
    Found(Box<FoundCall>),
}

/// Parses the arguments, and looks at the files that the call was to change. It blocks.
fn look(context: &Context, request: &CallRequest) -> Result<Looked, ToolError> {
    Ok(match context.tools.parse(&request.tool, &request.arguments) {
        Ok(ParsedCall(Work::Future(call))) => Looked::Future(call),
        Ok(ParsedCall(Work::Files(call))) => Looked::Found(Box::new(file_call::find(context, request, &*call)?)),
        // The call was not valid: running it again makes no difference.
        Err(_) => Looked::Found(Box::new(FoundCall { found: Found::NeverStarted, ended: None })),
    })
}

/// Ends a call and every process of it. Returns its real outcome if it ends within `grace`, else `Unended`. The caller
/// drops the future of [`run`] first.
pub async fn end(context: &Context, request: &CallRequest, grace: Duration) -> ToolResult {
    let (here, asked) = (context.clone(), request.clone());
    match in_process(name(request), move |_| look(&here, &asked)).await {
        Ok(Looked::Future(call)) => call.end(context, request, grace).await,
        Ok(Looked::Found(found)) => match *found {
            FoundCall { found: Found::Ended, ended: Some(ended) } => ended,
            FoundCall { ended, .. } => {
                let changes = ended.map(|ended| ended.changes).unwrap_or_default();
                ToolResult { changes, ..tool_result::failed(&context.secrets, &ToolError::Cancelled) }
            }
        },
        Err(error) => failed(context, error).await,
    }
}

/// Removes the record of a call in the folder [`Context::calls`]. The result must be synced in the journal. A void
/// record, which is one empty file, stays.
pub fn forget(calls: &Path, id: EffectId) -> std::io::Result<()> {
    changes::forget(calls, id);
    CallFolder::of(calls, id).remove()
}

/// Stops every process of a command until the command is thawed or ended. It stays frozen if the runtime exits, and its
/// limit does not run meanwhile. Returns false if no such command runs.
pub fn freeze(calls: &Path, id: EffectId) -> std::io::Result<bool> {
    CallFolder::of(calls, id).ask_to_freeze()
}

/// Continues the processes of a frozen command. Returns false if no such command runs.
pub fn thaw(calls: &Path, id: EffectId) -> std::io::Result<bool> {
    CallFolder::of(calls, id).ask_to_thaw()
}
