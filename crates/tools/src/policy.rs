//! Checks a call before it runs: whether its arguments fit, and whether it may run. The settings decide on commands, on
//! web pages, on paths outside the workspace and on writing to files that other programs run; everything else inside the
//! workspace is allowed.

use std::path::Path;

use engine::tables::limits::RUNNING_PROCESSES;
use engine::{Hash, Policy, Settings};

use crate::call::{CallRequest, Context};
use crate::cancel::Cancel;
use crate::error::ToolError;
use crate::evidence::{Evidence, FileChange};
use crate::invocation::{Invocation, ProcessArguments, ReadArguments, unknown};
use crate::limits::QUOTED_BYTES;
use crate::masking::Secrets;
use crate::paths::{ResolvedPath, Workspace};
use crate::specs::known;
use crate::{apply_patch, changes, edit, output, process, tool_result, write};

/// The result of a check, for the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Whether the call may run. `Deny` also if the arguments do not fit or the tool does not exist.
    pub decision: Policy,
    /// The hash of tool, arguments and folder. An approval is valid for this fingerprint only.
    pub fingerprint: Hash,
    /// The data needed to look the call up after a crash; pass it back in [`CallRequest::evidence`].
    pub evidence: Option<String>,
    /// For `Ask`, the question for the user; for `Deny`, the message for the model.
    pub reason: Option<String>,
    /// The limit that the call asks for itself, milliseconds.
    pub timeout_ms: Option<u64>,
}

/// The result of a check that failed itself.
pub(crate) fn unchecked(secrets: &Secrets, error: &ToolError) -> Checked {
    denied(Hash::of(&[]), tool_result::message(secrets, error))
}

/// Checks a call on this thread; returns its parsed arguments if they fit. It reads the file system (for `write`, the existing
/// file), so it may block.
pub(crate) fn check_here(
    settings: &Settings,
    context: &Context,
    request: &CallRequest,
    cancel: &Cancel,
) -> (Checked, Option<Invocation>) {
    let fingerprint = fingerprint(&request.tool, &request.arguments, &context.workspace);
    match judge(settings, context, request, cancel) {
        Ok((Verdict { decision, evidence, reason }, invocation)) => {
            let reason = reason.map(|reason| context.secrets.mask(&reason));
            let timeout_ms = if let Invocation::Exec(exec) = &invocation { exec.timeout_ms() } else { None };
            (Checked { decision, fingerprint, evidence: evidence.to_text(), reason, timeout_ms }, Some(invocation))
        }
        Err(error) => (denied(fingerprint, tool_result::message(&context.secrets, &error)), None),
    }
}

fn denied(fingerprint: Hash, reason: String) -> Checked {
    Checked { decision: Policy::Deny, fingerprint, evidence: None, reason: Some(reason), timeout_ms: None }
}

struct Verdict {
    decision: Policy,
    evidence: Evidence,
    reason: Option<String>,
}

/// The verdict on a call, and its parsed arguments.
fn judge(
    settings: &Settings,
    context: &Context,
    request: &CallRequest,
    cancel: &Cancel,
) -> Result<(Verdict, Invocation), ToolError> {
    if settings.plan && settings.tool(&request.tool).is_none() && known(&request.tool).is_some() {
        return Err(ToolError::OnlyPlans { tool: request.tool.clone() });
    }
    if settings.tool(&request.tool).is_none() {
        return Err(unknown(&request.tool, settings.tools.iter().map(|spec| spec.name.as_str())));
    }
    let workspace = Workspace::open(&context.workspace, &context.protected)?;
    let resolve = |path: &str| workspace.resolve(path);
    let invocation = Invocation::parse(&request.tool, &request.arguments)?;
    let verdict = match &invocation {
        Invocation::Read(ReadArguments { path, .. }) if let Some(named) = output::named(path) => {
            named?;
            Verdict { decision: Policy::Allow, evidence: Evidence::default(), reason: None }
        }
        Invocation::WebFetch(fetch) => by_address(settings, &fetch.url),
        Invocation::Read(read) => by_path(settings, "read", &resolve(&read.path)?),
        Invocation::Ls(ls) => by_path(settings, "list", &resolve(&ls.path)?),
        Invocation::Grep(grep) => by_path(settings, "search", &resolve(&grep.path)?),
        Invocation::Write(arguments) => {
            let path = resolve(&arguments.path)?;
            let verdict = by_change(settings, "write", std::slice::from_ref(&path));
            // Do not read a file that the policy denies.
            let files =
                if verdict.decision == Policy::Deny { vec![] } else { write::states(&path, arguments, cancel)? };
            of_change(verdict, std::slice::from_ref(&path), files)
        }
        Invocation::Find(find) => by_path(settings, "search", &resolve(&find.path)?),
        Invocation::Edit(arguments) => {
            let path = resolve(&arguments.path)?;
            let verdict = by_change(settings, "edit", std::slice::from_ref(&path));
            let files = if verdict.decision == Policy::Deny { vec![] } else { edit::states(&path, arguments, cancel) };
            of_change(verdict, std::slice::from_ref(&path), files)
        }
        Invocation::ApplyPatch(arguments) => {
            let paths = apply_patch::paths(arguments, resolve)?;
            let verdict = by_change(settings, "change", &paths);
            let denied = verdict.decision == Policy::Deny;
            let files = if denied { vec![] } else { apply_patch::states(&workspace, &paths, arguments, cancel) };
            of_change(verdict, &paths, files)
        }
        Invocation::Exec(exec) => {
            let running = context.processes.iter().filter(|process| process.ended.is_none()).count();
            if exec.yields_after(context.tool_timeout_ms).is_some() && running >= RUNNING_PROCESSES {
                return Err(ToolError::ManyProcesses { most: RUNNING_PROCESSES });
            }
            by_command(settings, &format!("run the command `{}`", quoted(&exec.command)))
        }
        Invocation::Process(process) => by_input(settings, context, process)?,
    };
    Ok((verdict, invocation))
}

/// Adds what the call is to change, with what taking it back needs.
fn of_change(verdict: Verdict, paths: &[ResolvedPath], mut files: Vec<FileChange>) -> Verdict {
    for (path, change) in paths.iter().zip(&mut files) {
        if change.before.is_some() && change.after.is_none() {
            change.mode = path.look().ok().map(|seen| seen.mode);
        }
    }
    let folders = changes::missing_folders(paths, &files);
    Verdict { evidence: Evidence { files, folders, ..verdict.evidence }, ..verdict }
}

fn by_path(settings: &Settings, act: &str, path: &ResolvedPath) -> Verdict {
    let decision = if path.inside { Policy::Allow } else { settings.outside };
    let reason = match decision {
        Policy::Allow => None,
        Policy::Ask => Some(format!("{act} {}, which is outside the workspace", path.shown)),
        Policy::Deny => Some(format!(
            "may not {act} {}: it is outside the workspace, and the configuration denies that. Work inside {}",
            path.shown, settings.workspace
        )),
    };
    // The call can access this path and no other outside the workspace, even if a link on it changes.
    let outside = if path.inside || decision == Policy::Deny { vec![] } else { vec![path.real.clone()] };
    Verdict { decision, evidence: Evidence { outside, ..Evidence::default() }, reason }
}

/// Judges several paths like the first that is outside the workspace; the reason and the evidence name all paths
/// outside.
fn by_paths(settings: &Settings, act: &str, paths: &[ResolvedPath]) -> Verdict {
    let outside: Vec<&ResolvedPath> = paths.iter().filter(|path| !path.inside).collect();
    let Some(first) = outside.first().or(paths.first().as_ref()).copied() else {
        return Verdict { decision: Policy::Allow, evidence: Evidence::default(), reason: None };
    };
    let verdict = by_path(settings, act, first);
    if verdict.decision == Policy::Deny || outside.len() < 2 {
        return verdict;
    }
    let shown: Vec<&str> = outside.iter().map(|path| path.shown.as_str()).collect();
    let reason = verdict.reason.map(|_| format!("{act} {}, which are outside the workspace", shown.join(", ")));
    let evidence = Evidence { outside: outside.iter().map(|path| path.real.clone()).collect(), ..Evidence::default() };
    Verdict { evidence, reason, ..verdict }
}

/// What a question says of files that other programs run or load.
const EXECUTED: &str = "which other programs run or load";

/// Whether this question is about files that other programs run or load, which `--yes` does not approve.
pub fn asks_about_executed_files(question: &str) -> bool {
    question.contains(EXECUTED)
}

/// Judges paths that are to be changed. Files that other programs run or load have a policy of their own, inside the
/// workspace as well; the stricter one decides.
fn by_change(settings: &Settings, act: &str, paths: &[ResolvedPath]) -> Verdict {
    let mut verdict = by_paths(settings, act, paths);
    let executed: Vec<&ResolvedPath> = paths.iter().filter(|path| path.is_executed()).collect();
    if verdict.decision == Policy::Deny || executed.is_empty() {
        return verdict;
    }
    let shown: Vec<&str> = executed.iter().map(|path| path.shown.as_str()).collect();
    let shown = shown.join(", ");
    match settings.executed_files {
        Policy::Allow => {}
        Policy::Ask => {
            let question = format!("{act} {shown}, {EXECUTED}");
            verdict.reason = Some(verdict.reason.map_or(question.clone(), |reason| format!("{reason}; {question}")));
            verdict.decision = Policy::Ask;
        }
        Policy::Deny => {
            let reason = format!(
                "may not {act} {shown}: other programs run or load it, and the configuration denies that (policy in \
                 [tools.executed_files]). Ask the user to do it"
            );
            return Verdict { decision: Policy::Deny, evidence: Evidence::default(), reason: Some(reason) };
        }
    }
    let inside = executed.iter().filter(|path| path.inside).map(|path| path.real.clone());
    verdict.evidence.outside.extend(inside);
    verdict
}

/// Text for a process can be commands, so it needs the same approval. Polling, listing and ending need none.
fn by_input(settings: &Settings, context: &Context, asked: &ProcessArguments) -> Result<Verdict, ToolError> {
    let ProcessArguments::Write { id, text, .. } = asked else {
        return Ok(Verdict { decision: Policy::Allow, evidence: Evidence::default(), reason: None });
    };
    let process = process::named(context, id)?;
    let (to, text) = (quoted(&process.command()), quoted(text));
    Ok(by_command(settings, &format!("write `{text}` to the command `{to}`, which runs in the background")))
}

fn by_command(settings: &Settings, question: &str) -> Verdict {
    let reason = match settings.exec {
        Policy::Allow => None,
        Policy::Ask => Some(question.to_owned()),
        Policy::Deny => Some(
            "commands are denied by the configuration (policy in [tools.exec]); use the tools for files instead"
                .to_owned(),
        ),
    };
    Verdict { decision: settings.exec, evidence: Evidence::default(), reason }
}

fn by_address(settings: &Settings, url: &str) -> Verdict {
    let reason = match settings.web_fetch {
        Policy::Allow => None,
        Policy::Ask => Some(format!("fetch {}", quoted(url))),
        Policy::Deny => {
            Some("fetching from the web is denied by the configuration (policy in [tools.web_fetch])".to_owned())
        }
    };
    Verdict { decision: settings.web_fetch, evidence: Evidence::default(), reason }
}

fn quoted(command: &str) -> String {
    let shown = &command[..command.floor_char_boundary(QUOTED_BYTES)];
    let rest = command.len() - shown.len();
    // Control characters could change the terminal that shows the question.
    let shown: String = shown.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect();
    if rest == 0 { shown } else { format!("{shown}… ({rest} bytes more)") }
}

/// The hash includes lengths, so that no two calls give the same bytes.
fn fingerprint(tool: &str, arguments: &[u8], workspace: &Path) -> Hash {
    let mut bytes = Vec::with_capacity(arguments.len() + 256);
    for part in [tool.as_bytes(), arguments, workspace.as_os_str().as_encoded_bytes()] {
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part);
    }
    Hash::of(&bytes)
}
