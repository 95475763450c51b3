//! The tool `write`: creates or replaces a whole file atomically.

use engine::{EffectId, Found, ToolClass, ToolSpec};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cancel::Cancel;
use crate::change::{self, Change};
use crate::error::ToolError;
use crate::evidence::{Evidence, FileChange};
use crate::file_call::{At, FileCall, FileChanger};
use crate::paths::{ResolvedPath, Workspace};
use crate::tool::{Act, ParsedCall, Tool};
use crate::tool_result::ToolText;
use crate::tool_set::{self, spec};

/// The tool.
pub(crate) struct Write;

impl Tool for Write {
    fn spec(&self, _timeout_s: u64) -> ToolSpec {
        spec(
            "write",
            ToolClass::Idempotent,
            "Write a text file, whole: it is made, with the folders above it, or replaced.",
            &json!({
                "path": { "type": "string", "minLength": 1, "description": "The file: relative to the workspace, or absolute." },
                "content": { "type": "string", "description": "All that the file will hold." },
            }),
            &["path", "content"],
        )
    }

    fn call(&self, arguments: Value) -> Result<ParsedCall, ToolError> {
        Ok(ParsedCall::files(tool_set::arguments::<WriteArguments>("write", arguments)?))
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct WriteArguments {
    path: String,
    content: String,
}

impl FileCall for WriteArguments {
    fn acts(&self, workspace: &Workspace) -> Result<Vec<Act>, ToolError> {
        Ok(vec![Act::Write { verb: "write", path: workspace.resolve(&self.path)? }])
    }

    fn run(&self, at: &At<'_>, cancel: &Cancel) -> Result<ToolText, ToolError> {
        let workspace = at.workspace()?.keeping(&at.context.files);
        run(&workspace, at.id, self, &at.evidence, cancel).map(ToolText::from)
    }

    fn change(&self) -> Option<&dyn FileChanger> {
        Some(self)
    }
}

impl FileChanger for WriteArguments {
    fn paths(&self, resolve: &dyn Fn(&str) -> Result<ResolvedPath, ToolError>) -> Result<Vec<ResolvedPath>, ToolError> {
        Ok(vec![resolve(&self.path)?])
    }

    fn states(
        &self,
        _workspace: &Workspace,
        paths: &[ResolvedPath],
        cancel: &Cancel,
    ) -> Result<Vec<FileChange>, ToolError> {
        let Some(path) = paths.first() else { return Ok(vec![]) };
        states(path, self, cancel)
    }

    fn find(&self, at: &At<'_>) -> Result<(Found, String), ToolError> {
        find(&at.workspace()?, at.id, self, &at.evidence)
    }
}

/// The state of the file before and after the call.
fn states(path: &ResolvedPath, arguments: &WriteArguments, cancel: &Cancel) -> Result<Vec<FileChange>, ToolError> {
    Ok(vec![FileChange::to(path.state("write", cancel)?, arguments.content.as_bytes())])
}

fn run(
    workspace: &Workspace,
    id: EffectId,
    arguments: &WriteArguments,
    evidence: &Evidence,
    cancel: &Cancel,
) -> Result<String, ToolError> {
    let path = workspace.reach_to_write(&arguments.path)?;
    // Without evidence of a check, the call may only create a new file.
    let states = evidence.files.first().copied().unwrap_or(FileChange::to(None, arguments.content.as_bytes()));
    let done = done(&path, arguments, states);
    let content = Some(arguments.content.clone().into());
    change::apply("write", id, &[Change { path, states, content }], workspace.store(), cancel)?;
    Ok(done)
}

/// Finds out what became of an interrupted call; for `Ended`, with the text for the model.
fn find(
    workspace: &Workspace,
    id: EffectId,
    arguments: &WriteArguments,
    evidence: &Evidence,
) -> Result<(Found, String), ToolError> {
    let path = workspace.reach_to_write(&arguments.path)?;
    let Some(states) = evidence.files.first().copied() else { return Ok((Found::Unknown, String::new())) };
    let done = done(&path, arguments, states);
    Ok((change::find("write", id, &[(path, states)])?, done))
}

fn done(path: &ResolvedPath, arguments: &WriteArguments, states: FileChange) -> String {
    let how = if states.before.is_some() { "replaced" } else { "a new file" };
    format!("wrote {} bytes to {} ({how})\n", arguments.content.len(), path.shown)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use engine::{EffectKind, RunId};

    use super::*;

    #[test]
    fn r15_a_cancelled_write_changes_nothing() {
        let home = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(home.path(), &crate::Protected::default()).unwrap();
        let arguments = WriteArguments { path: "a.txt".to_owned(), content: "after".to_owned() };
        let id = EffectId { run: RunId(uuid::Uuid::nil()), kind: EffectKind::RunCall, ordinal: 1, try_no: 1 };
        let cancelled = run(&workspace, id, &arguments, &Evidence::default(), &Cancel::cancelled());
        assert!(matches!(cancelled, Err(ToolError::Cancelled)));
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    }
}
