//! One call from the outside: run it, look it up, end it. What may not live here: what any one tool does.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use engine::{CallId, CallOutcome, EffectId, Found, ToolResult};

use crate::cancel::{Cancel, in_process};
use crate::error::ToolError;
use crate::evidence::Evidence;
use crate::fetch::{self, Fetched, NetworkPolicy};
use crate::folder::CallFolder;
use crate::invocation::{Invocation, ProcessArguments};
use crate::limits::FETCH_SHOWN_BYTES;
use crate::masking::Secrets;
use crate::output::{self, Outputs};
use crate::paths::Workspace;
use crate::process::{self, HeldProcess};
use crate::tool_result::{self, Told};
use crate::{apply_patch, edit, exec, grep, ls, read, write};

/// What every call of a run has in common.
#[derive(Debug, Clone)]
pub struct Context {
    /// The absolute path of the folder that the agent works in.
    pub workspace: PathBuf,
    /// The folder of the records of commands, one in it for each call (`home/calls`). It is made when it is needed.
    pub calls: PathBuf,
    /// The limit of a call, milliseconds. The engine ends a call at it; the supervisor does 10 s later, if nobody else did.
    pub call_ms: u64,
    /// Values that are masked in whatever leaves a tool.
    pub secrets: Secrets,
    /// Where `read` finds an output that was too long to be told.
    pub outputs: Outputs,
    /// Which addresses `web_fetch` may connect to.
    pub reach: NetworkPolicy,
    /// Environment variables that commands do not get.
    pub secret_env: Vec<String>,
    /// What its session has in the background.
    pub processes: Vec<HeldProcess>,
    /// The program whose subcommand `supervise` is [`crate::supervise_main`].
    pub supervisor: PathBuf,
}

/// One call.
#[derive(Debug, Clone)]
pub struct CallRequest {
    /// The `run_call` effect: also where the call is looked up or ended, it is the one that started it.
    pub id: EffectId,
    /// The call.
    pub call: CallId,
    /// The tool's name.
    pub tool: String,
    /// The arguments as the model wrote them.
    pub arguments: Arc<[u8]>,
    /// What the check gave as evidence.
    pub evidence: Option<String>,
    /// Bytes of its live output that the journal holds already: 0 unless it is attached to.
    pub already: u64,
}

/// What was found of a call that a crash cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundCall {
    /// What.
    pub found: Found,
    /// For Ended: how.
    pub ended: Option<ToolResult>,
}

/// Runs a call, or attaches to a command that is already running under this id. `progress` takes pieces of live output,
/// each with the number of bytes before it. Dropping the future ends every tool but a command: that one goes on.
///
/// It ends as Done or Failed; a command also as TimedOut (by the supervisor's own limit), Interrupted (the supervisor was
/// killed) and Unended (some process could not be ended).
pub async fn run(context: &Context, request: &CallRequest, mut progress: impl FnMut(u64, String) + Send) -> ToolResult {
    let invocation = match Invocation::parse(&request.tool, &request.arguments) {
        Ok(invocation) => invocation,
        Err(error) => return tool_result::failed(&context.secrets, &error),
    };
    let ended = match invocation {
        Invocation::Exec(arguments) => exec::run(context, request.id, &arguments, request.already, &mut progress).await,
        Invocation::Process(arguments) => process::run(context, &arguments).await,
        Invocation::WebFetch(arguments) => {
            fetch::fetch(&arguments.url, context.reach).await.map(|fetched| fetched_page(context, &fetched))
        }
        invocation => return run_aside(context, request, invocation).await,
    };
    ended.unwrap_or_else(|error| tool_result::failed(&context.secrets, &error))
}

/// A page as the model is told of it: what the server says it has not is a call that failed.
fn fetched_page(context: &Context, fetched: &Fetched) -> ToolResult {
    let (page, whole) = output::first_page(&context.secrets.mask(&fetched.text), FETCH_SHOWN_BYTES);
    let outcome = if fetched.status.is_success() { CallOutcome::Done } else { CallOutcome::Failed };
    let told = context.secrets.mask(&fetched.head) + "\n" + &page;
    ToolResult { whole, ..tool_result::text(outcome, &told) }
}

/// Runs a tool that works in this process, on a thread that may block.
async fn run_aside(context: &Context, request: &CallRequest, invocation: Invocation) -> ToolResult {
    let tool = invocation.tool();
    if let Invocation::Read(arguments) = &invocation
        && let Some(named) = output::named(&arguments.path)
    {
        let (outputs, arguments) = (context.outputs.clone(), arguments.clone());
        let read = in_process(tool, move |_| output::read(&outputs, named?, &arguments));
        return tool_result::of(&context.secrets, read.await.map(Told::from));
    }
    let (workspace, id, evidence) =
        (context.workspace.clone(), request.id, Evidence::parse(request.evidence.as_deref()));
    let work = move |cut: &Cancel| run_here(&workspace, id, &invocation, &evidence, cut);
    tool_result::of(&context.secrets, in_process(tool, work).await)
}

/// The tools that work on files.
fn run_here(
    workspace: &Path,
    id: EffectId,
    invocation: &Invocation,
    evidence: &Evidence,
    cut: &Cancel,
) -> Result<Told, ToolError> {
    let workspace = Workspace::open(workspace)?.with(evidence.outside.clone());
    let text = match invocation {
        Invocation::Read(arguments) => return read::run(&workspace, arguments, cut),
        Invocation::Ls(arguments) => ls::run(&workspace, arguments, cut),
        Invocation::Grep(arguments) => grep::run(&workspace, arguments, cut),
        Invocation::Find(arguments) => crate::find::run(&workspace, arguments, cut),
        Invocation::Write(arguments) => write::run(&workspace, id, arguments, evidence, cut),
        Invocation::Edit(arguments) => edit::run(&workspace, id, arguments, evidence, cut),
        Invocation::ApplyPatch(arguments) => apply_patch::run(&workspace, id, arguments, evidence, cut),
        Invocation::Exec(_) | Invocation::Process(_) | Invocation::WebFetch(_) => {
            Err(ToolError::Defect { tool: invocation.tool() })
        }
    };
    text.map(Told::from)
}

/// Finds out what became of a call whose process was killed. After NeverStarted this id never starts: what runs the call
/// again needs another one.
pub async fn find(context: &Context, request: &CallRequest) -> FoundCall {
    let found = match Invocation::parse(&request.tool, &request.arguments) {
        Ok(Invocation::Exec(arguments)) => exec::find(context, request.id, &arguments).await,
        // What it wrote may have been read, and must not be written again. A look or an end may be repeated.
        Ok(Invocation::Process(ProcessArguments::Write { .. })) => Ok(FoundCall { found: Found::Unknown, ended: None }),
        Ok(invocation) if invocation.changes_files() => find_change(context, request, invocation).await,
        // It changes nothing, or never was a call: whether it ran makes no difference.
        _ => Ok(FoundCall { found: Found::NeverStarted, ended: None }),
    };
    found.unwrap_or(FoundCall { found: Found::Unknown, ended: None })
}

/// Ends a call, with every process of it. Within `grace` it is ended and its real outcome is told, else it is Unended.
/// The future of [`run`] is dropped before.
pub async fn end(context: &Context, request: &CallRequest, grace: Duration) -> ToolResult {
    let cut = || tool_result::failed(&context.secrets, &ToolError::Cancelled);
    match Invocation::parse(&request.tool, &request.arguments) {
        Ok(Invocation::Exec(_)) => {
            // If its record cannot be reached, nobody has seen it end.
            let unseen =
                |error| ToolResult { outcome: CallOutcome::Unended, ..tool_result::failed(&context.secrets, &error) };
            exec::end(context, request.id, grace).await.unwrap_or_else(unseen)
        }
        Ok(invocation) if invocation.changes_files() => match find_change(context, request, invocation).await {
            Ok(FoundCall { ended: Some(ended), .. }) => ended,
            Ok(_) => cut(),
            Err(error) => tool_result::failed(&context.secrets, &error),
        },
        _ => cut(),
    }
}

/// Removes the record of a call (in the folder of [`Context::calls`]) whose result is in the journal, synced. What is void stays: it is one empty file.
pub fn forget(calls: &Path, id: EffectId) -> std::io::Result<()> {
    CallFolder::of(calls, id).remove()
}

/// Stops every process of a command where it is, until it is thawed or ended: it outlives the runtime frozen, and its
/// supervisor's limit stands still. False if no such command runs.
pub fn freeze(calls: &Path, id: EffectId) -> std::io::Result<bool> {
    CallFolder::of(calls, id).ask_to_freeze()
}

/// Lets the processes of a frozen command go on. False if no such command runs.
pub fn thaw(calls: &Path, id: EffectId) -> std::io::Result<bool> {
    CallFolder::of(calls, id).ask_to_thaw()
}

async fn find_change(context: &Context, request: &CallRequest, invocation: Invocation) -> Result<FoundCall, ToolError> {
    let (workspace, id, tool) = (context.workspace.clone(), request.id, invocation.tool());
    let evidence = Evidence::parse(request.evidence.as_deref());
    let look = move || {
        let workspace = Workspace::open(&workspace)?.with(evidence.outside.clone());
        match &invocation {
            Invocation::Write(arguments) => write::find(&workspace, id, arguments, &evidence),
            Invocation::Edit(arguments) => edit::find(&workspace, id, arguments, &evidence),
            Invocation::ApplyPatch(arguments) => apply_patch::find(&workspace, id, arguments, &evidence),
            _ => Err(ToolError::Defect { tool }),
        }
    };
    let (found, text) = tokio::task::spawn_blocking(look).await.map_err(|_| ToolError::Defect { tool })??;
    let ended = (found == Found::Ended).then(|| tool_result::of(&context.secrets, Ok(text.into())));
    Ok(FoundCall { found, ended })
}
