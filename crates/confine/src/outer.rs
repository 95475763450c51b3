//! The outer process: reads the profile, sets up what must be set up from outside, and ends as the command ends.

mod namespaced;
mod plan;

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::process::setsid;

use crate::filter::{self, Sockets};
use crate::landlocked::{Connections, FileRules};
use crate::launch::{self, Order};
use crate::profile::{NetworkAccess, Profile, Tier, WorkspaceAccess};
use crate::report::{ConfineReport, ConfineState, LayerState, ReportFile, SandboxLayers, Unprotected};
use crate::setup::{AtStep as _, SetupError, SetupStep};
use crate::signals::CommandEnd;
use crate::{capabilities, descriptors, rlimits};

use plan::Plan;

/// The body of the outer process. Returns unless the command ended by a signal, or this process became the command.
pub(crate) fn outer_main(arguments: &[OsString]) -> ExitCode {
    match prepared(arguments).and_then(|(order, report)| run(&order, arguments, report)) {
        Ok(end) => end.repeat(),
        Err(error) => {
            // For a person: the report is what a program reads.
            let _ = writeln!(std::io::stderr(), "limulus sandbox: {error}");
            ExitCode::from(error.code)
        }
    }
}

fn prepared(arguments: &[OsString]) -> Result<(Order, ReportFile), SetupError> {
    descriptors::close_inherited(&[]).at(SetupStep::Descriptors, "/proc/self/fd")?;
    let order: Order = launch::received()?;
    if arguments.is_empty() {
        return Err(SetupError::new(SetupStep::Profile, "no program is given"));
    }
    let report = ReportFile::create(&order.profile.report)?;
    Ok((order, report))
}

/// Runs the command, and writes an error to the report too.
fn run(order: &Order, arguments: &[OsString], mut report: ReportFile) -> Result<CommandEnd, SetupError> {
    let ended = Plan::of(&order.profile).and_then(|mut plan| match order.profile.tier {
        Tier::A => namespaced::run(&mut plan, order, arguments, &mut report),
        Tier::B => become_command(&plan, arguments, &mut report),
        Tier::C => Err(SetupError::new(SetupStep::Profile, "tier C is no sandbox")),
    });
    if let Err(error) = &ended {
        let failed = ConfineReport {
            state: ConfineState::Failed(error.clone()),
            layers: None,
            unprotected: vec![],
            created: vec![],
            caches: vec![],
        };
        // Without the report, the caller knows all the same that nothing ran: it says so only if something did.
        let _ = report.write(&failed);
    }
    ended
}

/// Restricts this process and executes the command in it. Returns only an error.
fn become_command(plan: &Plan, arguments: &[OsString], report: &mut ReportFile) -> Result<CommandEnd, SetupError> {
    let profile = plan.profile;
    // Away from the terminal of the caller; not possible for the leader of a group, which keeps it.
    let _ = setsid();
    let connections = match profile.network {
        NetworkAccess::None | NetworkAccess::Proxy => Connections::Forbidden,
        NetworkAccess::Host => Connections::Allowed,
    };
    let rules = FileRules::on_host(&plan.writable(), &plan.hidden, connections)
        .at(SetupStep::Landlock, "the folders beside what is hidden")?;
    std::env::set_current_dir(&plan.folder).at(SetupStep::Command, format!("the folder {}", plan.folder.display()))?;
    rlimits::apply(&profile.limits, Tier::B)?;
    capabilities::drop_all().or_else(|_| capabilities::forget()).at(SetupStep::Privileges, "capabilities")?;
    capabilities::forbid_new_privileges().at(SetupStep::Privileges, "no_new_privs")?;
    let (landlock, landlock_abi) = rules.apply()?;
    filter::apply(Sockets::of(Tier::B, profile.network))?;
    let layers = layers_without_namespaces(profile.network, landlock, landlock_abi);
    let state = ConfineState::Confined;
    let caches = plan.caches.unavailable.clone();
    let confined =
        ConfineReport { state, layers: Some(layers), unprotected: not_held(profile), created: vec![], caches };
    report.write(&confined).at(SetupStep::Profile, "the report")?;
    let environment = launch::command_environment(&profile.temporary);
    let environment = launch::with_caches(environment, plan.caches.variables.iter().cloned());
    let mut command = Command::new(launch::found(&arguments[0], &environment)?);
    let error = command.arg0(&arguments[0]).args(&arguments[1..]).env_clear().envs(environment).exec();
    Err(SetupError::of_command(&arguments[0], &error))
}

fn layers_without_namespaces(network: NetworkAccess, landlock: LayerState, landlock_abi: u32) -> SandboxLayers {
    let absent = || LayerState::absent("tier B has no namespaces");
    let network = match network {
        NetworkAccess::None | NetworkAccess::Host => absent(),
        NetworkAccess::Proxy => LayerState::absent("tier B has no namespaces, so no host can be reached by rule"),
    };
    SandboxLayers {
        tier: Tier::B,
        user: absent(),
        mounts: absent(),
        processes: absent(),
        network,
        ipc: absent(),
        landlock,
        landlock_abi,
        seccomp: LayerState::Enforced,
    }
}

/// Landlock cannot take a right away below a folder in which it is given.
fn not_held(profile: &Profile) -> Vec<Unprotected> {
    if profile.access == WorkspaceAccess::ReadOnly {
        return vec![];
    }
    let reason = "only a mount namespace can protect a name in a writable folder";
    let names = profile.read_only.iter().map(|name| profile.workspace.join(&name.path));
    names.map(|path| Unprotected { path, reason: reason.to_owned() }).collect()
}
