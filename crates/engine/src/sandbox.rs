//! What commands can reach. The engine only records it with the settings of a run; the tools carry it out.

use serde::{Deserialize, Serialize};

/// What the commands of a run can reach.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sandbox {
    /// Where commands may write. Runs of older versions have no sandbox.
    #[serde(skip_serializing_if = "SandboxMode::is_off")]
    pub mode: SandboxMode,
    /// Whether a command needs no approval where the sandbox holds: nobody has set a policy for commands.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allows: bool,
    /// Whether commands reach the network.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub network: bool,
    /// Further files and folders that commands cannot read, as they were written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
    /// Further folders that commands may write to, as they were written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub writable: Vec<String>,
    /// MiB of memory that all processes of a command use together; none = a part of what the machine has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// The copy in which the run works; none = it works in the workspace itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy: Option<WorkspaceCopy>,
}

/// The copy of a workspace, in which the runs of a session work until its changes are taken over or discarded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceCopy {
    /// What is copied.
    pub root: SandboxRoot,
    /// The absolute path of what it is a copy of: the workspace, or the project that the workspace is in.
    pub of: String,
    /// The absolute path of the copy.
    pub folder: String,
}

impl WorkspaceCopy {
    /// The path that something in the copy has in what it is a copy of; none if it is elsewhere.
    pub fn original(&self, path: &str) -> Option<String> {
        let rest = path.strip_prefix(&self.folder)?;
        (rest.is_empty() || rest.starts_with('/')).then(|| format!("{}{rest}", self.of))
    }
}

/// Where the runs of a session work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxRoot {
    /// In the workspace.
    #[default]
    Workspace,
    /// In a copy of all of it.
    Copy,
    /// In a git worktree with the files that git does not ignore, as they are in the workspace.
    Worktree,
}

impl SandboxRoot {
    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Workspace => "workspace",
            Self::Copy => "copy",
            Self::Worktree => "worktree",
        }
    }
}

/// What becomes of the changes in a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyAct {
    /// They are made in the workspace. If all of them are, the copy is removed.
    Apply,
    /// They are removed with the copy.
    Discard,
}

impl Sandbox {
    /// Whether it is that of a run without one.
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Where commands may write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxMode {
    /// In the workspace and in a temporary folder of their own.
    Workspace,
    /// In a temporary folder of their own.
    ReadOnly,
    /// Wherever the user may: there is no sandbox.
    #[default]
    Off,
}

impl SandboxMode {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    fn is_off(&self) -> bool {
        *self == Self::Off
    }

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Workspace => "workspace",
            Self::ReadOnly => "read_only",
            Self::Off => "off",
        }
    }
}
