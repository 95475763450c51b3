//! The tool `apply_patch`: one patch changes several files, all or none. It computes every change before it writes the
//! first file. If a crash interrupts the writing, the same call completes it: it compares each file's hash.

use engine::{EffectId, Found, ToolClass, ToolSpec};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cancel::Cancel;
use crate::change::{self, Change};
use crate::error::ToolError;
use crate::evidence::{Evidence, FileChange};
use crate::file_call::{At, FileCall, FileChanger};
use crate::files::FileState;
use crate::hunk::{self, Search};
use crate::limits::{PATCH_FILES, PATCHED_BYTES};
use crate::patch::{FileAct, Hunk, parse};
use crate::paths::{ResolvedPath, Workspace};
use crate::text::TextFile;
use crate::tool::{Act, ParsedCall, Tool};
use crate::tool_result::ToolText;
use crate::tool_set::{self, spec};

/// The tool.
pub(crate) struct ApplyPatch;

impl Tool for ApplyPatch {
    fn spec(&self, _timeout_s: u64) -> ToolSpec {
        spec(
            "apply_patch",
            ToolClass::Idempotent,
            "Change several files at once, all or none, by a patch: `*** Begin Patch`, then for each file \
             `*** Add File: PATH` (every line behind `+`), `*** Delete File: PATH`, or `*** Update File: PATH` \
             (`*** Move to: PATH` to rename) with hunks: `@@` or `@@ LINE BEFORE IT`, lines behind ` ` (kept), `-` (removed) \
             or `+` (added); at the end `*** End Patch`.",
            &json!({
                "input": { "type": "string", "minLength": 1, "description": "The patch." },
            }),
            &["input"],
        )
    }

    fn call(&self, arguments: Value) -> Result<ParsedCall, ToolError> {
        Ok(ParsedCall::files(tool_set::arguments::<PatchArguments>("apply_patch", arguments)?))
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct PatchArguments {
    input: String,
}

impl FileCall for PatchArguments {
    fn acts(&self, workspace: &Workspace) -> Result<Vec<Act>, ToolError> {
        let paths = paths(self, &|path| workspace.resolve(path))?;
        Ok(paths.into_iter().map(|path| Act::Write { verb: "change", path }).collect())
    }

    fn run(&self, at: &At<'_>, cancel: &Cancel) -> Result<ToolText, ToolError> {
        let workspace = at.workspace()?.keeping(&at.context.files);
        run(&workspace, at.id, self, &at.evidence, cancel).map(ToolText::from)
    }

    fn change(&self) -> Option<&dyn FileChanger> {
        Some(self)
    }
}

impl FileChanger for PatchArguments {
    fn paths(&self, resolve: &dyn Fn(&str) -> Result<ResolvedPath, ToolError>) -> Result<Vec<ResolvedPath>, ToolError> {
        paths(self, resolve)
    }

    fn states(
        &self,
        workspace: &Workspace,
        paths: &[ResolvedPath],
        cancel: &Cancel,
    ) -> Result<Vec<FileChange>, ToolError> {
        Ok(states(workspace, paths, self, cancel))
    }

    fn find(&self, at: &At<'_>) -> Result<(Found, String), ToolError> {
        find(&at.workspace()?, at.id, self, &at.evidence)
    }
}

/// Resolves every path of the patch, each once, in the order in which the files are changed. Deleted files come last,
/// so that a moved file exists under one of its names at any time.
fn paths(
    arguments: &PatchArguments,
    resolve: &dyn Fn(&str) -> Result<ResolvedPath, ToolError>,
) -> Result<Vec<ResolvedPath>, ToolError> {
    let mut found: Vec<(ResolvedPath, bool)> = Vec::new();
    let mut name = |path: &str, is_deleted: bool| {
        let path = resolve(path)?;
        match found.iter().position(|(known, _)| known.real == path.real) {
            Some(known) => found[known].1 = is_deleted,
            None if found.len() == PATCH_FILES => return Err(too_large()),
            None => found.push((path, is_deleted)),
        }
        Ok(())
    };
    for act in parse(&arguments.input)? {
        match act {
            FileAct::Add { path, .. } => name(&path, false)?,
            FileAct::Delete { path } => name(&path, true)?,
            FileAct::Update { path, moved_to, .. } => {
                name(&path, moved_to.is_some())?;
                moved_to.map_or(Ok(()), |target| name(&target, false))?;
            }
        }
    }
    found.sort_by_key(|(_, is_deleted)| *is_deleted);
    Ok(found.into_iter().map(|(path, _)| path).collect())
}

/// The state of each file before and after the patch. Empty if the patch does not fit: [`run`] then reports why.
fn states(
    workspace: &Workspace,
    paths: &[ResolvedPath],
    arguments: &PatchArguments,
    cancel: &Cancel,
) -> Vec<FileChange> {
    let changes = Draft::new(paths, &[], cancel).and_then(|draft| draft.changes(workspace, arguments));
    changes.map_or(vec![], |changes| changes.into_iter().map(|change| change.states).collect())
}

fn run(
    workspace: &Workspace,
    id: EffectId,
    arguments: &PatchArguments,
    evidence: &Evidence,
    cancel: &Cancel,
) -> Result<String, ToolError> {
    let paths = paths(arguments, &|path| workspace.reach_to_write(path))?;
    let changes = Draft::new(&paths, &evidence.files, cancel)?.changes(workspace, arguments)?;
    for (number, change) in changes.iter().enumerate() {
        let Some(known) = evidence.files.get(number) else {
            return Err(ToolError::Unchecked { path: change.path.shown.clone() });
        };
        if !change.states.is_same(*known) {
            return Err(change::conflict(&change.path, known.before, change.states.before));
        }
    }
    change::apply("write", id, &changes, workspace.store(), cancel)?;
    Ok(done(workspace, arguments))
}

/// Finds out what became of an interrupted call; for `Ended`, with the text for the model.
fn find(
    workspace: &Workspace,
    id: EffectId,
    arguments: &PatchArguments,
    evidence: &Evidence,
) -> Result<(Found, String), ToolError> {
    let paths = paths(arguments, &|path| workspace.reach_to_write(path))?;
    if evidence.files.len() != paths.len() {
        // A patch that did not fit has changed nothing.
        return Ok((Found::NeverStarted, String::new()));
    }
    let files: Vec<_> = paths.into_iter().zip(evidence.files.iter().copied()).collect();
    Ok((change::find("write", id, &files)?, done(workspace, arguments)))
}

fn done(workspace: &Workspace, arguments: &PatchArguments) -> String {
    let shown = |path: &str| workspace.resolve(path).map_or(path.to_owned(), |path| path.shown);
    let line = |act: FileAct| match act {
        FileAct::Add { path, .. } => format!("A {}\n", shown(&path)),
        FileAct::Delete { path } => format!("D {}\n", shown(&path)),
        FileAct::Update { path, moved_to: None, .. } => format!("M {}\n", shown(&path)),
        FileAct::Update { path, moved_to: Some(target), .. } => format!("R {} -> {}\n", shown(&path), shown(&target)),
    };
    let acts = parse(&arguments.input).unwrap_or_default();
    "applied the patch:\n".to_owned() + &acts.into_iter().map(line).collect::<String>()
}

/// The files of a patch as they will be when it is applied.
struct Draft<'a> {
    files: Vec<DraftFile>,
    search: Search<'a>,
    cancel: &'a Cancel,
}

struct DraftFile {
    path: ResolvedPath,
    /// The state when the call was checked; without a check, the state now.
    before: FileState,
    /// Its text after the parts of the patch that were applied so far; none if the file does not exist.
    text: Option<String>,
    /// The state after the patch, if the file has it already.
    made: Option<FileState>,
}

impl<'a> Draft<'a> {
    fn new(paths: &[ResolvedPath], known: &[FileChange], cancel: &'a Cancel) -> Result<Self, ToolError> {
        let mut bytes = 0;
        let file = |(number, path): (usize, &ResolvedPath)| {
            let now = path.state("read", cancel)?;
            let known = known.get(number);
            if let Some(known) = known.filter(|known| known.after == now) {
                let (before, made) = (known.before, Some(known.after));
                return Ok(DraftFile { path: path.clone(), before, text: None, made });
            }
            let file = now.map(|_| TextFile::read("edit", path)).transpose()?;
            bytes += file.as_ref().map_or(0, |file| file.text.len() as u64);
            if bytes > PATCHED_BYTES {
                return Err(too_large());
            }
            let before = file.as_ref().and_then(|file| file.state);
            Ok(DraftFile { path: path.clone(), before, text: file.map(|file| file.text), made: None })
        };
        let files = paths.iter().enumerate().map(file).collect::<Result<_, _>>()?;
        Ok(Self { files, search: Search::new(cancel), cancel })
    }

    fn changes(mut self, workspace: &Workspace, arguments: &PatchArguments) -> Result<Vec<Change>, ToolError> {
        for act in parse(&arguments.input)? {
            self.cancel.check()?;
            self.draft(workspace, act)?;
        }
        let change = |file: DraftFile| {
            let content = file.text.map(String::into_bytes);
            let after = file.made.unwrap_or_else(|| content.as_deref().map(engine::Hash::of));
            Change { path: file.path, states: FileChange { before: file.before, after, mode: None }, content }
        };
        Ok(self.files.into_iter().map(change).collect())
    }

    fn draft(&mut self, workspace: &Workspace, act: FileAct) -> Result<(), ToolError> {
        match act {
            FileAct::Add { path, content } => self.add(workspace, &path, content),
            FileAct::Delete { path } => {
                let file = self.file(workspace, &path)?;
                if file.made.is_none() && file.text.take().is_none() {
                    return Err(no_fit(file, "the file does not exist, so it cannot be deleted"));
                }
                Ok(())
            }
            FileAct::Update { path, moved_to, hunks } => {
                let target = moved_to.as_deref().unwrap_or(&path);
                if self.file(workspace, target)?.made.is_none() {
                    let text = self.updated(workspace, &path, &hunks)?;
                    return self.add(workspace, target, text);
                }
                if moved_to.is_some() {
                    self.file(workspace, &path)?.text = None;
                }
                Ok(())
            }
        }
    }

    /// Takes the text of a file and returns it with these hunks applied.
    fn updated(&mut self, workspace: &Workspace, path: &str, hunks: &[Hunk]) -> Result<String, ToolError> {
        let file = self.file(workspace, path)?;
        let missing = no_fit(file, "the file does not exist; use `*** Add File`");
        let text = file.text.take().ok_or(missing)?;
        let updated = hunk::apply(&text, hunks, &mut self.search);
        self.cancel.check()?;
        match updated {
            Ok(text) => Ok(text),
            Err(reason) => Err(no_fit(self.file(workspace, path)?, &reason)),
        }
    }

    fn add(&mut self, workspace: &Workspace, path: &str, content: String) -> Result<(), ToolError> {
        let file = self.file(workspace, path)?;
        match file {
            DraftFile { made: Some(_), .. } => {}
            DraftFile { text: Some(_), .. } => {
                return Err(no_fit(file, "the file exists already; use `*** Update File`"));
            }
            DraftFile { text, .. } => *text = Some(content),
        }
        Ok(())
    }

    fn file(&mut self, workspace: &Workspace, path: &str) -> Result<&mut DraftFile, ToolError> {
        let path = workspace.resolve(path)?;
        let file = self.files.iter_mut().find(|file| file.path.real == path.real);
        // Somebody changed a link after the paths were resolved.
        file.ok_or(ToolError::Moved { path: path.shown })
    }
}

fn too_large() -> ToolError {
    ToolError::LargePatch { files: PATCH_FILES, bytes: PATCHED_BYTES }
}

fn no_fit(file: &DraftFile, reason: &str) -> ToolError {
    ToolError::NoFit { path: file.path.shown.clone(), reason: format!("{reason}\nNo part of the patch was applied") }
}
