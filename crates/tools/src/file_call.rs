//! Calls that work on files in this process: run, looked up by the state of their files, and recorded with what they changed.

use engine::{ChangedFile, EffectId, Found, ToolResult};

use crate::call::{CallRequest, Context, FoundCall};
use crate::cancel::Cancel;
use crate::changes::{self, Diffs, Made};
use crate::error::ToolError;
use crate::evidence::{Evidence, FileChange};
use crate::paths::{ResolvedPath, Workspace};
use crate::tool::Act;
use crate::tool_result::{self, ToolText};

/// A call that works on files in this process.
pub(crate) trait FileCall: Send + Sync {
    /// What it is about to do.
    fn acts(&self, workspace: &Workspace) -> Result<Vec<Act>, ToolError>;

    /// Does it. It blocks, and looks at `cancel`.
    fn run(&self, at: &At<'_>, cancel: &Cancel) -> Result<ToolText, ToolError>;

    /// What else there is to a call that changes files.
    fn change(&self) -> Option<&dyn FileChanger> {
        None
    }
}

/// A call that changes files: their state shows what became of it.
pub(crate) trait FileChanger {
    /// The files that it changes, in the order of its acts and of [`states`](Self::states).
    fn paths(&self, resolve: &dyn Fn(&str) -> Result<ResolvedPath, ToolError>) -> Result<Vec<ResolvedPath>, ToolError>;

    /// Each of these files before and after the call. Empty if the change does not fit: the run then reports why.
    fn states(
        &self,
        workspace: &Workspace,
        paths: &[ResolvedPath],
        cancel: &Cancel,
    ) -> Result<Vec<FileChange>, ToolError>;

    /// What became of an interrupted call; for `Ended`, with the text for the model.
    fn find(&self, at: &At<'_>) -> Result<(Found, String), ToolError>;
}

/// Where a call works on files.
#[derive(Debug)]
pub(crate) struct At<'a> {
    pub(crate) context: &'a Context,
    pub(crate) id: EffectId,
    pub(crate) evidence: Evidence,
    pub(crate) tool: &'a str,
}

impl<'a> At<'a> {
    pub(crate) fn of(context: &'a Context, request: &'a CallRequest) -> Self {
        Self { context, id: request.id, evidence: Evidence::parse(request.evidence.as_deref()), tool: &request.tool }
    }

    /// The workspace, with the paths outside that the call was allowed.
    pub(crate) fn workspace(&self) -> Result<Workspace, ToolError> {
        let workspace = Workspace::open(&self.context.workspace, &self.context.kept())?;
        Ok(workspace.with(self.evidence.outside.clone()).judging(&self.context.rules, self.tool))
    }
}

/// Runs it. It blocks.
pub(crate) fn run(context: &Context, request: &CallRequest, call: &dyn FileCall, cancel: &Cancel) -> ToolResult {
    let at = At::of(context, request);
    let result = call.run(&at, cancel);
    let made = if result.is_ok() { Made::All } else { Made::Unknown };
    let changes = changed(&at, call, made);
    ToolResult { changes, ..tool_result::of(&context.secrets, result) }
}

/// Finds out how far it came. It blocks.
pub(crate) fn find(context: &Context, request: &CallRequest, call: &dyn FileCall) -> Result<FoundCall, ToolError> {
    // One that changes nothing may run again.
    let Some(writer) = call.change() else { return Ok(FoundCall { found: Found::NeverStarted, ended: None }) };
    let at = At::of(context, request);
    let (found, text) = writer.find(&at)?;
    let (made, result) = match found {
        Found::Ended => (Made::All, Ok(text.into())),
        Found::NeverStarted | Found::Running | Found::Unknown => (Made::Unknown, Err(ToolError::Cancelled)),
    };
    let changes = changed(&at, call, made);
    let is_known = found == Found::Ended || !changes.is_empty();
    let ended = is_known.then(|| ToolResult { changes, ..tool_result::of(&context.secrets, result) });
    Ok(FoundCall { found, ended })
}

/// What a call has changed in files, as far as it came.
fn changed(at: &At<'_>, call: &dyn FileCall, made: Made) -> Vec<ChangedFile> {
    let Some(writer) = call.change().filter(|_| !at.evidence.files.is_empty()) else { return vec![] };
    let files = || {
        let workspace = at.workspace()?;
        let paths = writer.paths(&|path| workspace.reach_to_write(path))?;
        let files: Vec<_> = paths.into_iter().zip(at.evidence.files.iter().copied()).collect();
        let diffs = Diffs { store: &at.context.files, secrets: &at.context.secrets };
        let changed = changes::of_files((&workspace, diffs), &files, &at.evidence, made);
        changes::made(at.id, &workspace.root, &changed);
        Ok::<_, ToolError>(changed)
    };
    // A path that cannot be reached any more was not changed by this call.
    files().unwrap_or_default()
}
