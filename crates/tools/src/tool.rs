//! The seam of tools: what a tool is, what a call of it does to the world, and how the call is run, looked up and ended. The
//! policy judges acts and knows no tool; the runtime has a [`ToolSet`](crate::ToolSet) and knows none either.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use engine::{CallOutcome, Found, ToolResult, ToolSpec, UserQuestion};
use serde_json::Value;

use crate::call::{CallRequest, Context, FoundCall};
use crate::error::ToolError;
use crate::file_call::FileCall;
use crate::paths::{ResolvedPath, Workspace};
use crate::tool_result;

/// A future of a tool.
pub type ToolFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Receives a piece of live output, with the number of bytes before it.
pub type OnOutput<'a> = dyn FnMut(u64, String) + Send + 'a;

/// A tool of an agent. A new one is a file with an implementation, and a line in the list of [`ToolSet`](crate::ToolSet).
pub trait Tool: Send + Sync {
    /// What the model receives of it, where a call without a limit of its own may take so many seconds. The schema has an
    /// object for the arguments.
    fn spec(&self, timeout_s: u64) -> ToolSpec;

    /// The call with these arguments, which fit the schema. It may block.
    fn call(&self, arguments: Value) -> Result<ParsedCall, ToolError>;

    /// What a run must have, so that it has this tool.
    fn needs(&self) -> Needs {
        Needs::Nothing
    }

    /// Whether its calls run commands: they may change any file of the workspace, and may have a limit of their own.
    fn runs_commands(&self) -> bool {
        false
    }
}

/// What a tool needs. A run without it does not offer the tool to the model, which would pay for it and get nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Every run has it.
    Nothing,
    /// A user who answers.
    User,
    /// Something that searches the web, in the configuration.
    SearchProvider,
    /// A route to which messages can be sent, in the configuration.
    Route,
    /// Skills that are there when the run begins.
    Skills,
    /// Files of memory that are there when the run begins.
    Memory,
}

/// What a call is about to do to the world. The strictest verdict on its acts decides; a call without acts may run.
#[derive(Debug)]
pub enum Act {
    /// It reads below this path. `verb` is the word for that in a question: `read`, `list`, `search`.
    Read {
        /// The word for it.
        verb: &'static str,
        /// Where.
        path: ResolvedPath,
    },
    /// It changes this file.
    Write {
        /// The word for it.
        verb: &'static str,
        /// The file.
        path: ResolvedPath,
    },
    /// It runs a command, or gives text to one, which may be commands.
    Run {
        /// The command line, or the text.
        line: String,
        /// The running command that receives the text; none if it is a new command.
        to: Option<String>,
        /// Why it has to run outside of its sandbox, if it asks for that.
        outside: Option<String>,
    },
    /// Its command reaches what its sandbox keeps from it.
    Exit {
        /// The command line.
        line: String,
        /// Hosts, each as `HOST` or `HOST:PORT`.
        hosts: Vec<String>,
        /// Files and folders that it writes.
        paths: Vec<ResolvedPath>,
    },
    /// It requests this address from the web.
    Fetch(String),
    /// It sends a message to a route.
    Send {
        /// The name of the route.
        route: String,
        /// Whether the reply of the run goes there as well.
        is_own: bool,
    },
    /// It does something else to the world, in the words of a question.
    Other {
        /// What the user is asked, without a question mark.
        question: String,
    },
}

impl Act {
    /// The line of a new command.
    pub(crate) fn new_command(&self) -> Option<&str> {
        match self {
            Self::Run { line, to: None, .. } => Some(line),
            Self::Run { .. }
            | Self::Read { .. }
            | Self::Write { .. }
            | Self::Exit { .. }
            | Self::Fetch(_)
            | Self::Send { .. }
            | Self::Other { .. } => None,
        }
    }
}

/// Where a call is judged.
#[derive(Debug)]
pub struct CallSite<'a> {
    /// What it has in common with the other calls of its run.
    pub context: &'a Context,
    pub(crate) workspace: &'a Workspace,
}

impl CallSite<'_> {
    /// The file or folder of this path, which is relative to the workspace, absolute, or relative to the home folder (`~/`).
    pub fn resolve(&self, path: &str) -> Result<ResolvedPath, ToolError> {
        self.workspace.resolve(path)
    }
}

/// A call with checked arguments.
pub trait ToolCall: Send + Sync {
    /// What it is about to do. An error means that it cannot be done, and is the answer for the model. It may block.
    fn acts(&self, site: &CallSite<'_>) -> Result<Vec<Act>, ToolError>;

    /// The limit that it asks for itself, milliseconds.
    fn timeout_ms(&self) -> Option<u64> {
        None
    }

    /// The question to the user that it is. Such a call is answered instead of run.
    fn question(&self) -> Option<UserQuestion> {
        None
    }

    /// Runs it, or attaches to what already runs under this id. Dropping the future ends what is in this process.
    fn run<'a>(
        &'a self,
        context: &'a Context,
        request: &'a CallRequest,
        progress: &'a mut OnOutput<'a>,
    ) -> ToolFuture<'a, Result<ToolResult, ToolError>>;

    /// Finds out what became of it after a crash. Nothing is known of one that does not say.
    fn find<'a>(
        &'a self,
        _context: &'a Context,
        _request: &'a CallRequest,
    ) -> ToolFuture<'a, Result<FoundCall, ToolError>> {
        Box::pin(std::future::ready(Ok(FoundCall { found: Found::Unknown, ended: None })))
    }

    /// Ends it with all that it has started, after the future of [`run`](Self::run) was dropped. Its outcome is `Unended` if that
    /// takes longer than `grace`.
    fn end<'a>(
        &'a self,
        context: &'a Context,
        _request: &'a CallRequest,
        _grace: Duration,
    ) -> ToolFuture<'a, ToolResult> {
        Box::pin(std::future::ready(tool_result::failed(&context.secrets, &ToolError::Cancelled)))
    }
}

/// A call of a tool, as its arguments give it.
pub struct ParsedCall(pub(crate) Work);

/// Where the work of a call is done.
pub(crate) enum Work {
    /// On files, on the thread that has checked the call.
    Files(Box<dyn FileCall>),
    /// By a future.
    Future(Box<dyn ToolCall>),
}

impl ParsedCall {
    /// A call that a future runs.
    pub fn new(call: impl ToolCall + 'static) -> Self {
        Self(Work::Future(Box::new(call)))
    }

    /// A call that works on files in this process.
    pub(crate) fn files(call: impl FileCall + 'static) -> Self {
        Self(Work::Files(Box::new(call)))
    }

    /// What it is about to do.
    pub(crate) fn acts(&self, site: &CallSite<'_>) -> Result<Vec<Act>, ToolError> {
        match &self.0 {
            Work::Files(call) => call.acts(site.workspace),
            Work::Future(call) => call.acts(site),
        }
    }

    /// The limit that it asks for itself, milliseconds.
    pub(crate) fn timeout_ms(&self) -> Option<u64> {
        match &self.0 {
            Work::Files(_) => None,
            Work::Future(call) => call.timeout_ms(),
        }
    }

    /// The question to the user that it is.
    pub(crate) fn question(&self) -> Option<UserQuestion> {
        match &self.0 {
            Work::Files(_) => None,
            Work::Future(call) => call.question(),
        }
    }

    /// The call, if it only reads files.
    pub(crate) fn into_reading(self) -> Option<Box<dyn FileCall>> {
        match self.0 {
            Work::Files(call) if call.change().is_none() => Some(call),
            Work::Files(_) | Work::Future(_) => None,
        }
    }
}

impl fmt::Debug for ParsedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let work = match &self.0 {
            Work::Files(_) => "Files",
            Work::Future(_) => "Future",
        };
        f.debug_tuple("ParsedCall").field(&work).finish()
    }
}

/// A result with this text, which may hold secrets: they are masked.
pub fn done(context: &Context, text: &str) -> ToolResult {
    tool_result::text(CallOutcome::Done, &context.secrets.mask(text))
}
