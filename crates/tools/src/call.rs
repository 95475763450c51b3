//! Runs a call, looks it up after a crash, ends it. The work of each tool is in its own file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use engine::{CallId, CallOutcome, ChangedFile, EffectId, Found, ToolResult};

use crate::cancel::{Cancel, in_process};
use crate::changes::{self, Diffs, FileStore, Made, Prepare, Recorder};
use crate::error::ToolError;
use crate::evidence::Evidence;
use crate::fetch::{self, Fetched, NetworkPolicy};
use crate::folder::CallFolder;
use crate::guard::Protected;
use crate::invocation::{ExecArguments, FetchArguments, Invocation, ProcessArguments};
use crate::limits::{FETCH_PREVIEW_BYTES, TIMEOUT_S};
use crate::masking::Secrets;
use crate::output::{self, Outputs};
use crate::paths::Workspace;
use crate::process::{self, HeldProcess};
use crate::tool_result::{self, ToolText};
use crate::{apply_patch, edit, exec, grep, ls, read, specs, write};

/// What every call of a run has in common.
#[derive(Debug, Clone)]
pub struct Context {
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
    /// Environment variables that commands never get.
    pub secret_env: Vec<String>,
    /// Further variables that commands get besides the usual ones; a `*` at the end stands for any end.
    pub passed_env: Vec<String>,
    /// The background commands of the session.
    pub processes: Vec<HeldProcess>,
    /// The program whose subcommand `supervise` is [`crate::supervise_main`].
    pub supervisor: PathBuf,
}

impl Context {
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

/// Has the workspace listed that a call of `exec` which is being checked would change, so that the call need not wait for it. May block.
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
        Ok(Begun::Command(arguments)) => {
            exec::run(context, request.id, &arguments, request.already, &mut progress).await
        }
        Ok(Begun::Process(arguments)) => process::run(context, &arguments).await,
        Ok(Begun::Fetch(arguments)) => fetched_page(context, fetch::fetch(&arguments.url, context.reach).await).await,
        Err(error) => Err(error),
    };
    match ended {
        Ok(result) => result,
        Err(error) => failed(context, error).await,
    }
}

/// What the model and the screen receive of a call that its limit has ended: which limit, and what sets it.
pub fn limit_reached(context: &Context, request: &CallRequest) -> String {
    limit_line(request.tool == "exec", request.timeout_ms, context.tool_timeout_ms)
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
fn name(request: &CallRequest) -> &'static str {
    specs::known(&request.tool).unwrap_or("unknown")
}

/// What the thread that parses the arguments leaves to others.
enum Begun {
    /// Nothing: the tool works in this process and has ended, or the arguments do not fit.
    Ended(Box<ToolResult>),
    Command(ExecArguments),
    Process(ProcessArguments),
    Fetch(FetchArguments),
}

/// Parses the arguments, and runs a tool that works in this process. It blocks.
fn begin(context: &Context, request: &CallRequest, cancel: &Cancel) -> Begun {
    let result = match Invocation::parse(&request.tool, &request.arguments) {
        Ok(Invocation::Exec(arguments)) => return Begun::Command(arguments),
        Ok(Invocation::Process(arguments)) => return Begun::Process(arguments),
        Ok(Invocation::WebFetch(arguments)) => return Begun::Fetch(arguments),
        Ok(invocation) => return Begun::Ended(Box::new(run_parsed(context, request, &invocation, cancel))),
        Err(error) => Err(error),
    };
    Begun::Ended(Box::new(tool_result::of(&context.secrets, result)))
}

/// Runs a tool that works in this process. It blocks.
pub(crate) fn run_parsed(
    context: &Context,
    request: &CallRequest,
    invocation: &Invocation,
    cancel: &Cancel,
) -> ToolResult {
    let result = run_here(context, request, invocation, cancel);
    let made = if result.is_ok() { Made::All } else { Made::Unknown };
    let changes = changed(context, request, invocation, made);
    ToolResult { changes, ..tool_result::of(&context.secrets, result) }
}

/// The result of a fetch. If the status is not a success, the call has failed.
async fn fetched_page(context: &Context, fetched: Result<Fetched, ToolError>) -> Result<ToolResult, ToolError> {
    let (fetched, secrets) = (fetched?, context.secrets.clone());
    let page = move |_: &Cancel| {
        let (page, whole) = output::first_page(&secrets.mask(&fetched.text), FETCH_PREVIEW_BYTES);
        let outcome = if fetched.status.is_success() { CallOutcome::Done } else { CallOutcome::Failed };
        let text = secrets.mask(&fetched.head) + "\n" + &page;
        Ok(ToolResult { whole, ..tool_result::text(outcome, &text) })
    };
    in_process("web_fetch", page).await
}

/// Runs a tool that works on files.
fn run_here(
    context: &Context,
    request: &CallRequest,
    invocation: &Invocation,
    cancel: &Cancel,
) -> Result<ToolText, ToolError> {
    if let Invocation::Read(arguments) = invocation
        && let Some(named) = output::named(&arguments.path)
    {
        return output::read(&context.outputs, named?, arguments).map(ToolText::from);
    }
    let (id, evidence) = (request.id, &Evidence::parse(request.evidence.as_deref()));
    let workspace = Workspace::open(&context.workspace, &context.protected)?.with(evidence.outside.clone());
    let workspace = workspace.keeping(&context.files);
    let text = match invocation {
        Invocation::Read(arguments) => return read::run(&workspace, arguments, cancel),
        Invocation::Ls(arguments) => ls::run(&workspace, arguments, cancel),
        Invocation::Grep(arguments) => grep::run(&workspace, arguments, cancel),
        Invocation::Find(arguments) => crate::find::run(&workspace, arguments, cancel),
        Invocation::Write(arguments) => write::run(&workspace, id, arguments, evidence, cancel),
        Invocation::Edit(arguments) => edit::run(&workspace, id, arguments, evidence, cancel),
        Invocation::ApplyPatch(arguments) => apply_patch::run(&workspace, id, arguments, evidence, cancel),
        Invocation::Exec(_) | Invocation::Process(_) | Invocation::WebFetch(_) => {
            Err(ToolError::Defect { tool: invocation.tool() })
        }
    };
    text.map(ToolText::from)
}

/// Finds out what became of a call whose runtime was killed. After `NeverStarted` the call can never start under this
/// id: to run it again, the caller needs another id.
pub async fn find(context: &Context, request: &CallRequest) -> FoundCall {
    let (here, asked) = (context.clone(), request.clone());
    let found = match in_process(name(request), move |_| look(&here, &asked)).await {
        Ok(Looked::Command(arguments)) => exec::find(context, request.id, &arguments).await,
        Ok(Looked::Found(found)) => Ok(found),
        Err(error) => Err(error),
    };
    found.unwrap_or(FoundCall { found: Found::Unknown, ended: None })
}

/// What a look at the files of a call gives.
enum Looked {
    /// It is a command: its folder shows what became of it.
    Command(ExecArguments),
    Found(FoundCall),
}

/// Parses the arguments, and looks at the files that the call was to change. It blocks.
fn look(context: &Context, request: &CallRequest) -> Result<Looked, ToolError> {
    Ok(match Invocation::parse(&request.tool, &request.arguments) {
        Ok(Invocation::Exec(arguments)) => Looked::Command(arguments),
        // The process may have read the text, so it must not be written again. Reading output and ending are
        // repeatable.
        Ok(Invocation::Process(ProcessArguments::Write { .. })) => {
            Looked::Found(FoundCall { found: Found::Unknown, ended: None })
        }
        Ok(invocation) if invocation.changes_files() => Looked::Found(find_change(context, request, &invocation)?),
        // The tool changes nothing, or the call was not valid: running it again makes no difference.
        _ => Looked::Found(FoundCall { found: Found::NeverStarted, ended: None }),
    })
}

/// Ends a call and every process of it. Returns its real outcome if it ends within `grace`, else `Unended`. The caller
/// drops the future of [`run`] first.
pub async fn end(context: &Context, request: &CallRequest, grace: Duration) -> ToolResult {
    let (here, asked) = (context.clone(), request.clone());
    match in_process(name(request), move |_| look(&here, &asked)).await {
        Ok(Looked::Command(arguments)) => {
            // If the record cannot be read, nobody can confirm that the command ended.
            let unseen =
                |error| ToolResult { outcome: CallOutcome::Unended, ..tool_result::failed(&context.secrets, &error) };
            exec::end(context, request.id, &arguments, grace).await.unwrap_or_else(unseen)
        }
        Ok(Looked::Found(FoundCall { found: Found::Ended, ended: Some(ended) })) => ended,
        Ok(Looked::Found(FoundCall { ended, .. })) => {
            let changes = ended.map(|ended| ended.changes).unwrap_or_default();
            ToolResult { changes, ..tool_result::failed(&context.secrets, &ToolError::Cancelled) }
        }
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

/// Finds out how far a change of files came.
fn find_change(context: &Context, request: &CallRequest, invocation: &Invocation) -> Result<FoundCall, ToolError> {
    let (id, evidence) = (request.id, Evidence::parse(request.evidence.as_deref()));
    let workspace = Workspace::open(&context.workspace, &context.protected)?.with(evidence.outside.clone());
    let (found, text) = match invocation {
        Invocation::Write(arguments) => write::find(&workspace, id, arguments, &evidence),
        Invocation::Edit(arguments) => edit::find(&workspace, id, arguments, &evidence),
        Invocation::ApplyPatch(arguments) => apply_patch::find(&workspace, id, arguments, &evidence),
        _ => Err(ToolError::Defect { tool: invocation.tool() }),
    }?;
    let (made, result) = match found {
        Found::Ended => (Made::All, Ok(text.into())),
        Found::NeverStarted | Found::Running | Found::Unknown => (Made::Unknown, Err(ToolError::Cancelled)),
    };
    let changes = changed(context, request, invocation, made);
    let is_known = found == Found::Ended || !changes.is_empty();
    let ended = is_known.then(|| ToolResult { changes, ..tool_result::of(&context.secrets, result) });
    Ok(FoundCall { found, ended })
}

/// What a call has changed in files, as far as it came.
fn changed(context: &Context, request: &CallRequest, invocation: &Invocation, made: Made) -> Vec<ChangedFile> {
    let evidence = Evidence::parse(request.evidence.as_deref());
    if !invocation.changes_files() || evidence.files.is_empty() {
        return vec![];
    }
    let files = || {
        let workspace = Workspace::open(&context.workspace, &context.protected)?.with(evidence.outside.clone());
        let reach = |path: &str| workspace.reach_to_write(path);
        let paths = match invocation {
            Invocation::Write(arguments) => vec![reach(&arguments.path)?],
            Invocation::Edit(arguments) => vec![reach(&arguments.path)?],
            Invocation::ApplyPatch(arguments) => apply_patch::paths(arguments, reach)?,
            _ => vec![],
        };
        let files: Vec<_> = paths.into_iter().zip(evidence.files.iter().copied()).collect();
        let diffs = Diffs { store: &context.files, secrets: &context.secrets };
        let changed = changes::of_files((&workspace, diffs), &files, &evidence, made);
        changes::made(request.id, &workspace.root, &changed);
        Ok::<_, ToolError>(changed)
    };
    // A path that cannot be reached any more was not changed by this call.
    files().unwrap_or_default()
}
