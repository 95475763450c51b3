//! Limits of resources, which every process inside inherits.

use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};

use crate::profile::{ResourceLimits, Tier};
use crate::setup::{AtStep as _, SetupError, SetupStep};

/// Sets the limits that are given, none above what this process has. There are never core dumps: they would contain the
/// memory of a command, at a place that it does not choose.
pub(crate) fn apply(limits: &ResourceLimits, tier: Tier) -> Result<(), SetupError> {
    set(Resource::Core, Some(0))?;
    set(Resource::As, limits.memory_bytes)?;
    set(Resource::Nofile, limits.open_files)?;
    set(Resource::Fsize, limits.file_bytes)?;
    set(Resource::Cpu, limits.cpu_seconds)?;
    // The kernel counts processes by user and user namespace; outside of one, all those of the user would count.
    let counts_own = tier == Tier::A && !geteuid().is_root();
    set(Resource::Nproc, limits.processes.filter(|_| counts_own))
}

fn set(resource: Resource, limit: Option<u64>) -> Result<(), SetupError> {
    let Some(limit) = limit else { return Ok(()) };
    let most = getrlimit(resource).maximum.map_or(limit, |most| most.min(limit));
    setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
        .at(SetupStep::Limits, format!("{resource:?} = {most}"))
}
