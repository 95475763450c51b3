//! What can go wrong in a tool. Each message is written for the model that reads it: what happened, and what to do.

use std::io;

/// Why a call did not do what it was to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    /// No tool of that name.
    #[error("there is no tool `{name}`; there are: {known}")]
    UnknownTool { name: String, known: String },
    /// The arguments are not JSON.
    #[error("the arguments are not valid JSON: {source}. Send one JSON object")]
    BrokenJson { source: serde_json::Error },
    /// The arguments do not fit the schema.
    #[error("the arguments of `{tool}` do not fit: {violations}")]
    Arguments { tool: &'static str, violations: String },
    /// A path that no file can have.
    #[error("`{path}` is not a path: {reason}")]
    BadPath { path: String, reason: &'static str },
    /// The workspace is gone.
    #[error("the workspace {path} cannot be entered ({source}); make the folder, or set `workspace` in config.toml")]
    Workspace { path: String, source: io::Error },
    /// A file or folder that is not there, or not to be touched.
    #[error("cannot {act} {path}: {source}")]
    File { act: &'static str, path: String, source: io::Error },
    /// A folder where a file is needed.
    #[error("{path} is a folder; use `ls` to see what is in it")]
    IsFolder { path: String },
    /// A file where a folder is needed.
    #[error("{path} is a file, not a folder; use `read` to see what is in it")]
    IsFile { path: String },
    /// A pipe, a socket, a device.
    #[error("{path} is neither a file nor a folder, so it is not opened")]
    Special { path: String },
    /// Not text.
    #[error("{path} is not UTF-8 text ({bytes} bytes, {what}); look at it with a command, for example `file` or `xxd`")]
    NotText { path: String, bytes: u64, what: &'static str },
    /// An image that cannot be shown.
    #[error("{path} is an image that {reason}")]
    Image { path: String, reason: String },
    /// An offset past the end.
    #[error("{path} has only {lines} lines; `offset` {offset} is past its end")]
    PastEnd { path: String, lines: u64, offset: u64 },
    /// A pattern that cannot be read.
    #[error("the pattern is not a regular expression: {reason}")]
    Pattern { reason: String },
    /// A glob that cannot be read.
    #[error("`{glob}` is not a glob: {reason}")]
    Glob { glob: String, reason: String },
    /// A folder that cannot be walked.
    #[error("cannot look further: {reason}")]
    Walk { reason: String },
    /// A path that leads elsewhere than when it was checked.
    #[error(
        "{path} is outside the workspace, and that was not asked when the call was checked; nothing was done. Call again"
    )]
    Moved { path: String },
    /// A file that somebody else has changed.
    #[error(
        "{path} was changed while this call waited (it was {before}, now it is {now}); nothing was written. Read it \
         again, then decide"
    )]
    Conflict { path: String, before: String, now: String },
    /// A file that was not as it is now when the call was checked.
    #[error("{path} was changed while this call was checked; nothing was written. Call again")]
    Unchecked { path: String },
    /// A change that does not fit its file.
    #[error("cannot edit {path}: {reason}")]
    NoFit { path: String, reason: String },
    /// A text file that is too large to be changed in memory.
    #[error("{path} is larger than {limit} bytes; change it with a command")]
    TooLarge { path: String, limit: u64 },
    /// A patch that cannot be read.
    #[error("the patch cannot be read at its line {line}: {reason}. Nothing was changed")]
    Patch { line: usize, reason: String },
    /// Several files, of which some were changed.
    #[error("cannot change {path}: {source}. Changed were only: {done}. The same call again makes the rest")]
    Partly { path: String, source: io::Error, done: String },
    /// A page that cannot be fetched.
    #[error("cannot fetch {url}: {reason}")]
    Fetch { url: String, reason: String },
    /// No process of that name.
    #[error("there is no process `{id}` in this session; there are: {known}")]
    NoProcess { id: String, known: String },
    /// A process that takes no input.
    #[error("{id} takes no input: {reason}")]
    NoInput { id: String, reason: String },
    /// Too many commands in the background.
    #[error(
        "{most} commands run in the background already; end one of them with `process`, or run this one without `background`"
    )]
    ManyProcesses { most: usize },
    /// The call was cut.
    #[error("the call was ended before it was done; nothing was changed")]
    Cancelled,
    /// A defect of ours.
    #[error("the tool `{tool}` failed inside; this is a defect of limulus, please report it")]
    Defect { tool: &'static str },
    /// The supervisor did not start.
    #[error("the command could not be started: {reason}")]
    NotStarted { reason: String },
    /// The folder of the call cannot be used.
    #[error("the record of the command in {path} cannot be read or written ({source}); free space or check its rights")]
    Record { path: String, source: io::Error },
}

impl ToolError {
    /// For `map_err`: doing `act` to `path` failed.
    pub(crate) fn file(act: &'static str, path: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { act, path, source }
    }
}
