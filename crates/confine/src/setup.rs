//! The errors of this crate: one of the caller's side, and one for each step of setting a sandbox up.

use std::fmt;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The exit code if the sandbox could not be set up. The command did not run.
pub const SETUP_FAILED: u8 = 125;
/// The exit code if the program exists and cannot be executed inside the sandbox.
pub const COMMAND_NOT_EXECUTABLE: u8 = 126;
/// The exit code if the program does not exist inside the sandbox.
pub const COMMAND_NOT_FOUND: u8 = 127;

/// What goes wrong on the side of the caller.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The profile travels as JSON, which holds text.
    #[error("the sandbox profile cannot be written as JSON (is a path not UTF-8?): {source}")]
    Profile {
        /// Why.
        source: serde_json::Error,
    },
    /// The confined process could not be started.
    #[error("the sandbox could not be started: {source}")]
    Start {
        /// Why.
        source: io::Error,
    },
    /// The report of a confined process is missing or cannot be read.
    #[error("the report of the sandbox at {} cannot be read: {source}", path.display())]
    Report {
        /// The path that the profile names.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A step of setting a sandbox up, in the order in which they happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SetupStep {
    /// Read the profile.
    Profile,
    /// Enter a user namespace and map the own user.
    UserNamespace,
    /// Enter a namespace of processes.
    PidNamespace,
    /// Enter namespaces of System V IPC, message queues and host names.
    IpcNamespace,
    /// Enter a network namespace and bring its loopback interface up.
    NetworkNamespace,
    /// Find the protected names, and create placeholders for those that do not exist.
    ProtectedNames,
    /// Start the first process inside.
    Init,
    /// Close inherited descriptors.
    Descriptors,
    /// Build the own view of the file system.
    Mounts,
    /// Mount `/proc` of the own namespace.
    Proc,
    /// Set the limits of resources.
    Limits,
    /// Drop the capabilities, and the ways to gain privileges.
    Privileges,
    /// Apply the Landlock rules.
    Landlock,
    /// Apply the seccomp filters.
    Seccomp,
    /// Execute the program: everything else has succeeded.
    Command,
}

impl fmt::Display for SetupStep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Profile => "reading the profile",
            Self::UserNamespace => "entering a user namespace",
            Self::PidNamespace => "entering a PID namespace",
            Self::IpcNamespace => "entering an IPC namespace",
            Self::NetworkNamespace => "entering a network namespace",
            Self::ProtectedNames => "protecting names in the workspace",
            Self::Init => "starting the first process inside",
            Self::Descriptors => "closing inherited descriptors",
            Self::Mounts => "building the view of the file system",
            Self::Proc => "mounting /proc",
            Self::Limits => "setting resource limits",
            Self::Privileges => "dropping privileges",
            Self::Landlock => "applying Landlock",
            Self::Seccomp => "applying seccomp",
            Self::Command => "executing the command",
        })
    }
}

/// A step that failed. The command did not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{step} failed: {reason}")]
pub struct SetupError {
    /// Which step.
    pub step: SetupStep,
    /// Why, in words for a person.
    pub reason: String,
    /// The exit code of the process that reports it.
    pub code: u8,
}

impl SetupError {
    pub(crate) fn new(step: SetupStep, reason: impl fmt::Display) -> Self {
        Self { step, reason: reason.to_string(), code: SETUP_FAILED }
    }

    /// The program could not be executed.
    pub(crate) fn of_command(program: &std::ffi::OsStr, error: &io::Error) -> Self {
        let code = if error.kind() == io::ErrorKind::NotFound { COMMAND_NOT_FOUND } else { COMMAND_NOT_EXECUTABLE };
        Self { code, ..Self::new(SetupStep::Command, format!("{}: {error}", program.display())) }
    }
}

/// Names the step that an error belongs to.
pub(crate) trait AtStep<T> {
    /// `what` says what was attempted.
    fn at(self, step: SetupStep, what: impl fmt::Display) -> Result<T, SetupError>;
}

impl<T, E: fmt::Display> AtStep<T> for Result<T, E> {
    fn at(self, step: SetupStep, what: impl fmt::Display) -> Result<T, SetupError> {
        self.map_err(|error| SetupError::new(step, format!("{what}: {error}")))
    }
}
