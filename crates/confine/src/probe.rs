//! Finds out what this kernel lets this user do, by doing it: a sandbox of each tier is set up for a program that does nothing.

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;

use serde::{Deserialize, Serialize};

use crate::launch::Launcher;
use crate::profile::{NetworkAccess, Profile, ResourceLimits, Tier, WorkspaceAccess};
use crate::report::{ConfineReport, ConfineState, LayerState, SandboxLayers};
use crate::setup::{Error, SetupError, SetupStep};

/// The strongest sandbox that can be set up here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxSupport {
    /// What each layer does in it.
    pub layers: SandboxLayers,
    /// Why each stronger tier could not be set up, the strongest first.
    pub failures: Vec<SetupError>,
}

impl SandboxSupport {
    /// The tier that a profile may require.
    pub fn tier(&self) -> Tier {
        self.layers.tier
    }
}

/// Tries the tiers, the strongest first. `scratch` is an empty private folder of the caller, who removes it. It takes some
/// milliseconds, and must be repeated after an upgrade of the kernel or of this program.
pub fn probe(launcher: &Launcher, scratch: &Path) -> Result<SandboxSupport, Error> {
    let mut failures = vec![];
    for tier in [Tier::A, Tier::B] {
        let report = try_tier(launcher, scratch, tier)?;
        match (report.state, report.layers) {
            (ConfineState::Confined, Some(layers)) => {
                return Ok(SandboxSupport { layers: explained(layers, &failures), failures });
            }
            (ConfineState::Failed(error), _) => failures.push(error),
            (ConfineState::Confined, None) => {
                failures.push(SetupError::new(SetupStep::Profile, "the report is incomplete"));
            }
        }
    }
    Ok(SandboxSupport { layers: explained(nothing(), &failures), failures })
}

/// One process that sets a sandbox up and executes a program that ends at once.
fn try_tier(launcher: &Launcher, scratch: &Path, tier: Tier) -> Result<ConfineReport, Error> {
    let temporary = scratch.join(format!("probe-{tier:?}"));
    let start = |source| Error::Start { source };
    std::fs::create_dir(&temporary).map_err(start)?;
    let report = scratch.join(format!("probe-{tier:?}.json"));
    let profile = Profile {
        workspace: temporary.clone(),
        folder: temporary.clone(),
        access: WorkspaceAccess::Workspace,
        temporary,
        writable: vec![],
        approved: vec![],
        caches: None,
        hidden: vec![],
        read_only: vec![],
        network: NetworkAccess::None,
        limits: ResourceLimits::default(),
        tier,
        report: report.clone(),
    };
    // It is asked for its first process inside, which ends at once because it gets no order.
    let arguments = launcher.words.iter().map(OsString::from).chain([OsString::from(crate::launch::INIT)]);
    let mut command = profile.command(launcher, launcher.executable.as_os_str(), arguments, [])?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().map_err(start)?;
    ConfineReport::read(&report)
}

fn nothing() -> SandboxLayers {
    let absent = || LayerState::absent("it was not reached");
    SandboxLayers {
        tier: Tier::C,
        user: absent(),
        mounts: absent(),
        processes: absent(),
        network: absent(),
        ipc: absent(),
        landlock: absent(),
        landlock_abi: 0,
        seccomp: absent(),
    }
}

/// Puts the reason of a failure into the layer that it belongs to.
fn explained(mut layers: SandboxLayers, failures: &[SetupError]) -> SandboxLayers {
    for error in failures {
        let layer = match error.step {
            SetupStep::UserNamespace | SetupStep::Privileges => &mut layers.user,
            SetupStep::PidNamespace | SetupStep::Init | SetupStep::Proc => &mut layers.processes,
            SetupStep::IpcNamespace => &mut layers.ipc,
            SetupStep::NetworkNamespace => &mut layers.network,
            SetupStep::Mounts | SetupStep::ProtectedNames => &mut layers.mounts,
            SetupStep::Landlock => &mut layers.landlock,
            SetupStep::Seccomp => &mut layers.seccomp,
            SetupStep::Profile | SetupStep::Descriptors | SetupStep::Limits | SetupStep::Command => continue,
        };
        if *layer != LayerState::Enforced {
            *layer = LayerState::absent(error.to_string());
        }
    }
    layers
}
