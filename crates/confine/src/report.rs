//! What the confined process tells its caller, in a file that the command cannot write.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::profile::Tier;
use crate::setup::{AtStep as _, Error, SetupError, SetupStep};

/// What became of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfineReport {
    /// Whether the command ran.
    pub state: ConfineState,
    /// What holds, once the command runs.
    #[serde(default)]
    pub layers: Option<SandboxLayers>,
    /// Protected names that the sandbox does not hold, or that somebody outside removed while the command ran.
    #[serde(default)]
    pub unprotected: Vec<Unprotected>,
    /// What the command has created or replaced in the workspace that other programs run, as far as it was looked for: relative to the
    /// workspace, what somebody may enter first.
    #[serde(default)]
    pub created: Vec<PathBuf>,
    /// Package caches of the user that the command could not write as private copies. They are as the rest of the file system.
    #[serde(default)]
    pub caches: Vec<UnavailableCache>,
}

/// Whether the command ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfineState {
    /// The sandbox is complete, and the command was executed in it.
    Confined,
    /// A step failed, and the command did not run.
    Failed(SetupError),
}

/// A protected name that is not held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unprotected {
    /// The name.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

/// A package cache without a private copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnavailableCache {
    /// Where the user has it.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

/// What each layer of a sandbox does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxLayers {
    /// The tier that was set up.
    pub tier: Tier,
    /// A user namespace without capabilities.
    pub user: LayerState,
    /// An own view of the file system.
    pub mounts: LayerState,
    /// A PID namespace with its own `/proc`.
    pub processes: LayerState,
    /// A network namespace.
    pub network: LayerState,
    /// Namespaces of IPC and of host names.
    pub ipc: LayerState,
    /// Landlock rules.
    pub landlock: LayerState,
    /// The version of Landlock's interface that is used; 0 if there is none.
    pub landlock_abi: u32,
    /// The filters of system calls.
    pub seccomp: LayerState,
}

/// Whether a layer holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerState {
    /// It holds completely.
    Enforced,
    /// It holds in part.
    Partial {
        /// What does not hold, in words.
        reason: String,
    },
    /// It does not hold.
    Absent {
        /// Why, in words.
        reason: String,
    },
}

impl LayerState {
    pub(crate) fn absent(reason: impl Into<String>) -> Self {
        Self::Absent { reason: reason.into() }
    }

    pub(crate) fn partial(reason: impl Into<String>) -> Self {
        Self::Partial { reason: reason.into() }
    }
}

impl ConfineReport {
    /// Reads the report of a confined process. An empty or missing one means that the process was ended before the command
    /// ran.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Report { path: path.to_owned(), source };
        let text = fs::read_to_string(path).map_err(failed)?;
        serde_json::from_str(&text).map_err(|error| failed(error.into()))
    }
}

/// The open file of a report.
#[derive(Debug)]
pub(crate) struct ReportFile {
    file: File,
    is_empty: bool,
}

impl ReportFile {
    /// Creates the file of a report.
    pub(crate) fn create(path: &Path) -> Result<Self, SetupError> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let file = options.open(path).at(SetupStep::Profile, format!("the report {}", path.display()))?;
        Ok(Self { file, is_empty: true })
    }

    /// Replaces what the file says.
    pub(crate) fn write(&mut self, report: &ConfineReport) -> io::Result<()> {
        let text = serde_json::to_vec(report).map_err(io::Error::from)?;
        // Some file systems write a file that was emptied to their disk at once when it is closed.
        if !std::mem::replace(&mut self.is_empty, false) {
            self.file.rewind()?;
            self.file.set_len(0)?;
        }
        self.file.write_all(&text)
    }
}
