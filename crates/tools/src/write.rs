//! The tool `write`: creates or replaces a whole file atomically.

use engine::{EffectId, Found};

use crate::cancel::Cancel;
use crate::change::{self, Change};
use crate::error::ToolError;
use crate::evidence::{Evidence, FileChange};
use crate::invocation::WriteArguments;
use crate::paths::{ResolvedPath, Workspace};

/// The state of the file before and after the call.
pub(crate) fn states(
    path: &ResolvedPath,
    arguments: &WriteArguments,
    cancel: &Cancel,
) -> Result<Vec<FileChange>, ToolError> {
    Ok(vec![FileChange::to(path.state("write", cancel)?, arguments.content.as_bytes())])
}

pub(crate) fn run(
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
pub(crate) fn find(
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
