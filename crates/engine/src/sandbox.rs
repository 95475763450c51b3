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
