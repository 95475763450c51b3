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
use crate::protect::Protection;
use crate::report::{
    ConfineReport, ConfineState, LayerState, ReportFile, SandboxLayers, UnavailableCache, Unprotected,
};
use crate::setup::{AtStep as _, SetupError, SetupStep};
use crate::signals::{CommandEnd, Receiver, Signals};
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
    namespaces::enter(plan.profile.network)?;
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
    namespaces::bring_loopback_up(plan.profile.network)?;
    let proxy_port = sender.and_then(|sender| sender.listen().ok());
    hide()?;
    // From here on this process has something to clean up, so a signal must not end it.
    let signals = Signals::hold().at(SetupStep::Init, "signals")?;
    let protection = protection(plan)?;
    let order = order(plan, &protection, arguments, proxy_port);
    let confined = order.and_then(|order| run_protected(init, plan, &order, &signals, report));
    if confined.is_err() {
        // What is protected stays so until nothing is left that could change it.
        init.kill();
    }
    let lost = protection.end();
    let (end, confined) = confined?;
    if lost != confined.unprotected {
        let _ = report.write(&ConfineReport { unprotected: lost, ..confined });
    }
    Ok(end)
}

fn protection(plan: &Plan) -> Result<Protection, SetupError> {
    match plan.profile.access {
        WorkspaceAccess::ReadOnly => Ok(Protection::default()),
        WorkspaceAccess::Workspace => Protection::of(&plan.workspace, &plan.profile.read_only),
    }
}

/// What the first process inside is to do.
fn order(
    plan: &Plan,
    protection: &Protection,
    arguments: &[OsString],
    proxy_port: Option<u16>,
) -> Result<Order, SetupError> {
    let mut entries = plan.entries()?;
    entries.extend(protection.entries());
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
    let line = serde_json::to_string(&order).at(SetupStep::Profile, "the profile")? + "\n";
    Ok(Order { line, unprotected: protection.unprotected() })
}

/// An order as it is sent, and what it does not hold.
struct Order {
    line: String,
    unprotected: Vec<Unprotected>,
}

fn run_protected(
    init: &mut Init,
    plan: &Plan,
    order: &Order,
    signals: &Signals,
    report: &mut ReportFile,
) -> Result<(CommandEnd, ConfineReport), SetupError> {
    let (landlock, landlock_abi, refused) = init.until_confined(&order.line)?;
    let layers = layers(plan.profile.network, landlock, landlock_abi);
    let state = ConfineState::Confined;
    let caches = plan.caches.unavailable.iter().cloned().chain(refused).collect();
    let confined = ConfineReport { state, layers: Some(layers), unprotected: order.unprotected.clone(), caches };
    report.write(&confined).at(SetupStep::Profile, "the report")?;
    Ok((init.until_ended(signals)?, confined))
}

/// What is left of the rights of this process is needed by nobody, and nobody may look into it.
fn hide() -> Result<(), SetupError> {
    capabilities::forget().at(SetupStep::Init, "capabilities")?;
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
        let pipes = InitPipes { order: order_reader.as_raw_fd(), messages: messages_writer.as_raw_fd() };
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

    /// What Landlock holds, its version, and the caches that the kernel has refused, once the sandbox is complete.
    fn until_confined(&mut self, order: &str) -> Result<(LayerState, u32, Vec<UnavailableCache>), SetupError> {
        loop {
            match self.message() {
                Some(InitMessage::Bound) => {
                    self.order.write_all(order.as_bytes()).at(SetupStep::Init, "the first process inside has ended")?;
                }
                Some(InitMessage::Confined(landlock, abi, refused)) => return Ok((landlock, abi, refused)),
                Some(InitMessage::Failed(error)) => return Err(error),
                Some(InitMessage::Started | InitMessage::Ended(_)) | None => {
                    return Err(SetupError::new(SetupStep::Init, "it ended without a reason"));
                }
            }
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

/// Lets the next program inherit a pipe.
fn inherit(pipe: &impl AsFd) -> Result<(), SetupError> {
    fcntl_setfd(pipe, FdFlags::empty()).at(SetupStep::Init, "a pipe")
}
