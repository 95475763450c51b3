//! The errors of the tools. A model reads each message: it says what happened and what to do.

use std::io;

use crate::guard;

/// Why a call failed.
#[allow(missing_docs, reason = "the messages say what the fields are")]
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// There is no tool of that name.
    #[error("there is no tool `{name}`; there are: {known}")]
    UnknownTool { name: String, known: String },
    /// The run has no skill of that name.
    #[error("there is no skill `{name}`{}; there are: {known}", why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default())]
    UnknownSkill { name: String, why: Option<String>, known: String },
    /// The file is not in the folder of the skill.
    #[error("`{path}` leads out of the folder of the skill `{name}`; read it with the tool `read`")]
    OutsideSkill { name: String, path: String },
    /// The run only plans.
    #[error("`{tool}` was not run: this run makes a plan and changes nothing. Put what it would do into the plan")]
    OnlyPlans { tool: String },
    /// The arguments are too long to be parsed.
    #[error("the arguments have {bytes} bytes, at most {most} are taken; split the call")]
    LargeArguments { bytes: usize, most: usize },
    /// The arguments are not JSON.
    #[error("the arguments are not valid JSON: {source}. Send one JSON object")]
    BrokenJson { source: serde_json::Error },
    /// The arguments do not fit the schema.
    #[error("the arguments of `{tool}` do not fit: {violations}")]
    Arguments { tool: String, violations: String },
    /// The path is not valid.
    #[error("`{path}` is not a path: {reason}")]
    BadPath { path: String, reason: &'static str },
    /// The workspace cannot be opened.
    #[error("the workspace {path} cannot be opened ({source}); create the folder, or set `workspace` in config.toml")]
    Workspace { path: String, source: io::Error },
    /// A file or folder does not exist or cannot be accessed.
    #[error("cannot {act} {path}: {source}")]
    File { act: &'static str, path: String, source: io::Error },
    /// The path is a folder, and a file is needed.
    #[error("{path} is a folder; use `ls` to see what is in it")]
    IsFolder { path: String },
    /// The path is a file, and a folder is needed.
    #[error("{path} is a file, not a folder; use `read` to see what is in it")]
    IsFile { path: String },
    /// The path is a pipe, a socket or a device.
    #[error("{path} is neither a file nor a folder, so it was not opened")]
    Special { path: String },
    /// The file is not UTF-8 text.
    #[error("{path} is not UTF-8 text ({bytes} bytes, {what}); look at it with a command, for example `file` or `xxd`")]
    NotText { path: String, bytes: u64, what: &'static str },
    /// The image cannot be shown.
    #[error("{path} is an image that {reason}")]
    Image { path: String, reason: String },
    /// The offset is past the end of the file.
    #[error("{path} has only {lines} lines; `offset` {offset} is past its end")]
    PastEnd { path: String, lines: u64, offset: u64 },
    /// The pattern is not a regular expression.
    #[error("the pattern is not a regular expression: {reason}")]
    Pattern { reason: String },
    /// The glob is not valid.
    #[error("`{glob}` is not a glob: {reason}")]
    Glob { glob: String, reason: String },
    /// A folder cannot be walked.
    #[error("cannot search further: {reason}")]
    Walk { reason: String },
    /// The path leads outside the workspace now, and did not when the call was checked.
    #[error(
        "{path} now leads outside the workspace, or to a file that other programs run, which it did not when the call was \
         checked; nothing was done. Call again"
    )]
    Moved { path: String },
    /// Somebody else changed the file after the check.
    #[error(
        "{path} was changed while this call waited (it was {before}, now it is {now}); nothing was written. Read it \
         again, then decide"
    )]
    Conflict { path: String, before: String, now: String },
    /// A program, a script or the folder of a command is another than when somebody was asked about it.
    #[error(
        "{path} is not what it was when this command was asked about: it was changed or replaced meanwhile, and nothing was \
         run. Call again"
    )]
    Replaced { path: String },
    /// The file changed while the call was checked.
    #[error("{path} was changed while this call was checked; nothing was written. Call again")]
    Unchecked { path: String },
    /// The change does not fit the file.
    #[error("cannot edit {path}: {reason}")]
    NoFit { path: String, reason: String },
    /// The text file is too large to be changed in memory.
    #[error("{path} is larger than {limit} bytes; change it with a command")]
    TooLarge { path: String, limit: u64 },
    /// The patch changes too many files, or too large ones.
    #[error("the patch changes more than {files} files or {bytes} bytes of files; split it. Nothing was changed")]
    LargePatch { files: usize, bytes: u64 },
    /// The patch cannot be parsed.
    #[error("the patch cannot be read at its line {line}: {reason}. Nothing was changed")]
    Patch { line: usize, reason: String },
    /// The tool changed some of several files, then failed.
    #[error(
        "cannot change {path}: {source}. Only these were changed: {done}. Make the same call again to change the rest"
    )]
    Partly { path: String, source: io::Error, done: String },
    /// The page cannot be fetched.
    #[error("cannot fetch {url}: {reason}")]
    Fetch { url: String, reason: String },
    /// The web cannot be searched.
    #[error("cannot search the web: {reason}")]
    Search { reason: String },
    /// The path is no file of memory, or one that cannot be used.
    #[error("`{path}` cannot be read as memory: {reason}")]
    Memory { path: String, reason: String },
    /// The session has no process of that name.
    #[error("there is no process `{id}` in this session; there are: {known}")]
    NoProcess { id: String, known: String },
    /// The process takes no input.
    #[error("{id} takes no input: {reason}")]
    NoInput { id: String, reason: String },
    /// Too many commands run in the background.
    #[error(
        "{most} commands run in the background already; end one of them with `process`, or run this one without `background`"
    )]
    ManyProcesses { most: usize },
    /// The call was cancelled.
    #[error("the call was ended before it was done; nothing was changed")]
    Cancelled,
    /// The tool panicked, which is a bug of Limulus.
    #[error("the tool `{tool}` failed because of a bug in limulus; please report it")]
    Defect { tool: &'static str },
    /// The supervisor could not be started.
    #[error("the command could not be started: {reason}")]
    NotStarted { reason: String },
    /// The folder of the call cannot be read or written.
    #[error(
        "the record of the command in {path} cannot be read or written ({source}); free disk space or check its permissions"
    )]
    Record { path: String, source: io::Error },
}

impl ToolError {
    /// Whether the path belongs to limulus itself.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self, Self::File { source, .. } if guard::is_own(source))
    }

    /// Returns a function for `map_err`: `act` failed on `path`.
    pub(crate) fn file(act: &'static str, path: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { act, path, source }
    }
}
