//! Tier A: enters the namespaces, starts the first process inside, and waits for it.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, PipeReader, PipeWriter, Write as _};
use std::os::fd::{AsFd, AsRawFd as _};
use std::process::{Child, Command};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, WaitOptions, set_dumpable_behavior, setrlimit, waitpid,
};

use super::plan::Plan;
use crate::capabilities::Mounts;
use crate::handover::ListenerSender;
use crate::init::{InitMessage, InitOrder, InitPipes};
use crate::launch::{self, INIT, hand_over};
use crate::profile::{NetworkAccess, Tier, WorkspaceAccess};
use crate::protect::{Protection, ProtectionEnd};
use crate::report::{ConfineReport, ConfineState, LayerState, ReportFile, SandboxLayers, UnavailableCache};
use crate::setup::{AtStep as _, SetupError, SetupStep};
use crate::signals::{CommandEnd, Receiver, Signals};
use crate::view::ViewEntry;
use crate::{capabilities, namespaces};

/// Runs the command in namespaces of its own, until it and everything that it started has ended.
pub(super) fn run(
    plan: &mut Plan,
    launch: &launch::Order,
    arguments: &[OsString],
    report: &mut ReportFile,
) -> Result<CommandEnd, SetupError> {
    // Without it the command reaches nothing, as it is then for the caller too.
    let sender = launch.listener.as_deref().and_then(|name| ListenerSender::connect(name).ok());
    namespaces::enter()?;
    // It starts while this process goes on with its own part.
    let mut init = Init::start(plan, &launch.words)?;
    plan.caches.belong_to(init.pid());
    let ended = run_with(&mut init, plan, (arguments, sender), report);
    if ended.is_err() {
        init.kill();
    }
    ended
}

fn run_with(
    init: &mut Init,
    plan: &Plan,
    (arguments, sender): (&[OsString], Option<ListenerSender>),
    report: &mut ReportFile,
) -> Result<CommandEnd, SetupError> {
    hide()?;
    // From here on this process has something to clean up, so a signal must not end it.
    let signals = Signals::hold().at(SetupStep::Init, "signals")?;
    let protection = protection(plan)?;
    let entries = entries(plan, &protection);
    let confined = entries.and_then(|entries| {
        init.until_bound()?;
        let proxy_port = sender.and_then(|sender| listen(init, sender));
        capabilities::forget().at(SetupStep::Init, "capabilities")?;
        let order = order(plan, entries, arguments, proxy_port)?;
        run_protected(init, (plan, &protection), &order, &signals, report)
    });
    if confined.is_err() {
        // What is protected stays so until nothing is left that could change it.
        init.kill();
    }
    let ProtectionEnd { unprotected, created } = protection.end();
    let (end, confined) = confined?;
    if unprotected != confined.unprotected || !created.is_empty() {
        let _ = report.write(&ConfineReport { unprotected, created, ..confined });
    }
    Ok(end)
}

fn protection(plan: &Plan) -> Result<Protection, SetupError> {
    match plan.profile.access {
        WorkspaceAccess::ReadOnly => Ok(Protection::default()),
        WorkspaceAccess::Workspace => Protection::of(&plan.workspace, &plan.profile.read_only),
    }
}

/// The view of the command.
fn entries(plan: &Plan, protection: &Protection) -> Result<Vec<ViewEntry>, SetupError> {
    let mut entries = plan.entries()?;
    entries.extend(protection.entries());
    Ok(entries)
}

/// Listens in the network of the first process inside, and gives the socket away. Returns the port; none if it fails, since then the
/// command reaches nothing.
fn listen(init: &Init, sender: ListenerSender) -> Option<u16> {
    capabilities::with_kept(|| namespaces::enter_network_of(init.pid()).map_err(io::Error::other)).ok()?;
    sender.listen().ok()
}

/// What the first process inside is to do.
fn order(
    plan: &Plan,
    entries: Vec<ViewEntry>,
    arguments: &[OsString],
    proxy_port: Option<u16>,
) -> Result<String, SetupError> {
    let order = InitOrder {
        program: arguments[0].clone(),
        arguments: arguments[1..].to_vec(),
        folder: plan.folder.clone(),
        temporary: plan.profile.temporary.clone(),
        entries,
        caches: plan.caches.mounts.clone(),
        variables: plan.caches.variables.clone(),
        writable: plan.writable(),
        network: plan.profile.network,
        proxy_port,
        limits: plan.profile.limits.clone(),
    };
    Ok(serde_json::to_string(&order).at(SetupStep::Profile, "the profile")? + "\n")
}

fn run_protected(
    init: &mut Init,
    (plan, protection): (&Plan, &Protection),
    order: &str,
    signals: &Signals,
    report: &mut ReportFile,
) -> Result<(CommandEnd, ConfineReport), SetupError> {
    let (landlock, landlock_abi, refused) = init.until_confined(order)?;
    let layers = layers(plan.profile.network, landlock, landlock_abi);
    let state = ConfineState::Confined;
    let caches = plan.caches.unavailable.iter().cloned().chain(refused).collect();
    let confined =
        ConfineReport { state, layers: Some(layers), unprotected: protection.unprotected(), created: vec![], caches };
    report.write(&confined).at(SetupStep::Profile, "the report")?;
    Ok((init.until_ended(signals)?, confined))
}

/// What is left of the rights of this process is needed for its network only, and nobody may look into it.
fn hide() -> Result<(), SetupError> {
    capabilities::hold_back().at(SetupStep::Init, "capabilities")?;
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    // If the command dumps no core, neither does this process when it ends in the same way.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    Ok(())
}

fn layers(network: NetworkAccess, landlock: LayerState, landlock_abi: u32) -> SandboxLayers {
    let network = match network {
        NetworkAccess::None | NetworkAccess::Proxy => LayerState::Enforced,
        NetworkAccess::Host => LayerState::absent("the profile allows the network of the host"),
    };
    SandboxLayers {
        tier: Tier::A,
        user: LayerState::Enforced,
        mounts: LayerState::Enforced,
        processes: LayerState::Enforced,
        network,
        ipc: LayerState::Enforced,
        landlock,
        landlock_abi,
        seccomp: LayerState::Enforced,
    }
}

/// The first process inside.
struct Init {
    child: Child,
    messages: BufReader<PipeReader>,
    order: PipeWriter,
}

impl Init {
    fn start(plan: &Plan, words: &[String]) -> Result<Self, SetupError> {
        let pipe = || io::pipe().at(SetupStep::Init, "a pipe");
        let ((order_reader, order), (messages, messages_writer)) = (pipe()?, pipe()?);
        // This process has one thread, so nothing else is started meanwhile that would inherit them.
        inherit(&order_reader)?;
        inherit(&messages_writer)?;
        let pipes = InitPipes {
            order: order_reader.as_raw_fd(),
            messages: messages_writer.as_raw_fd(),
            network: plan.profile.network,
        };
        let pipes = serde_json::to_string(&pipes).at(SetupStep::Init, "the pipes")?;
        let mounts = if plan.caches.mounts.is_empty() { Mounts::WithoutOverlays } else { Mounts::WithOverlays };
        capabilities::pass_on(mounts).at(SetupStep::Init, "capabilities")?;
        let mut command = Command::new("/proc/self/exe");
        hand_over(&mut command, pipes.as_ref(), launch::command_environment(&plan.profile.temporary));
        let child = command.args(words).arg(INIT).spawn().at(SetupStep::Init, "/proc/self/exe")?;
        Ok(Self { child, messages: BufReader::new(messages), order })
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// It waits for its order then.
    fn until_bound(&mut self) -> Result<(), SetupError> {
        match self.message() {
            Some(InitMessage::Bound) => Ok(()),
            other => Err(ended_early(other)),
        }
    }

    /// What Landlock holds, its version, and the caches that the kernel has refused, once the sandbox is complete.
    fn until_confined(&mut self, order: &str) -> Result<(LayerState, u32, Vec<UnavailableCache>), SetupError> {
        self.order.write_all(order.as_bytes()).at(SetupStep::Init, "the first process inside has ended")?;
        match self.message() {
            Some(InitMessage::Confined(landlock, abi, refused)) => Ok((landlock, abi, refused)),
            other => Err(ended_early(other)),
        }
    }

    fn message(&mut self) -> Option<InitMessage> {
        let mut line = String::new();
        self.messages.read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }

    /// Passes signals on until everything inside has ended. The kernel reports the end of this process only when it has ended
    /// all others.
    fn until_ended(&mut self, signals: &Signals) -> Result<CommandEnd, SetupError> {
        // Signals wait until there is a command that gets them.
        let failed = match self.message() {
            Some(InitMessage::Failed(error)) => Some(error),
            _ => None,
        };
        let own_end = loop {
            match waitpid(Some(self.pid()), WaitOptions::NOHANG) {
                Ok(Some((_, status))) => {
                    if let Some(end) = CommandEnd::of(status) {
                        break end;
                    }
                }
                Ok(None) => signals.until_child_ends(Receiver::Process(self.pid())),
                Err(_) => break CommandEnd::Signal(9),
            }
        };
        match (failed, self.message()) {
            (Some(error), _) => Err(error),
            (None, Some(InitMessage::Ended(end))) => Ok(end),
            // Somebody killed it. The command may have run.
            (None, _) => Ok(own_end),
        }
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Why the first process inside did not go on.
fn ended_early(message: Option<InitMessage>) -> SetupError {
    match message {
        Some(InitMessage::Failed(error)) => error,
        _ => SetupError::new(SetupStep::Init, "it ended without a reason"),
    }
}

/// Lets the next program inherit a pipe.
fn inherit(pipe: &impl AsFd) -> Result<(), SetupError> {
    fcntl_setfd(pipe, FdFlags::empty()).at(SetupStep::Init, "a pipe")
}
