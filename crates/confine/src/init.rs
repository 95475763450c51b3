//! The first process inside (PID 1 of its namespace) in tier A: builds the view, gives up every right, starts the command, and
//! inherits what the command leaves behind. When it ends, the kernel ends everything else inside.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use nix::sched::{CloneFlags, unshare};
use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl, open};
use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitOptions, set_dumpable_behavior, set_parent_process_death_signal, setsid, wait,
};
use serde::{Deserialize, Serialize};

use crate::caches::{CacheMount, CacheVariable};
use crate::filter::{self, Sockets};
use crate::landlocked::FileRules;
use crate::profile::{NetworkAccess, ResourceLimits, Tier};
use crate::report::{LayerState, UnavailableCache};
use crate::setup::{AtStep as _, SETUP_FAILED, SetupError, SetupStep};
use crate::signals::{CommandEnd, Receiver, Signals};
use crate::view::ViewEntry;
use crate::{capabilities, descriptors, launch, namespaces, rlimits, view};

/// What the outer process asks of the first one inside.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct InitOrder {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) folder: PathBuf,
    pub(crate) temporary: PathBuf,
    pub(crate) entries: Vec<ViewEntry>,
    pub(crate) caches: Vec<CacheMount>,
    /// Those of caches of which there is no copy.
    pub(crate) variables: Vec<CacheVariable>,
    pub(crate) writable: Vec<PathBuf>,
    pub(crate) network: NetworkAccess,
    /// Where the proxy of the command listens on its loopback interface, if it has one.
    pub(crate) proxy_port: Option<u16>,
    pub(crate) limits: ResourceLimits,
}

/// The numbers of two inherited pipes: the order comes from the outer process, messages go to it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct InitPipes {
    pub(crate) order: RawFd,
    pub(crate) messages: RawFd,
    /// It makes its network while the outer process prepares the order.
    pub(crate) network: NetworkAccess,
}

/// What it tells the outer process, one message a line.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum InitMessage {
    /// From now on it dies with the outer process, and it has its network.
    Bound,
    /// The sandbox is complete, and the command is about to be executed. What Landlock holds, its version, and the caches of which
    /// the kernel allows no copy.
    Confined(LayerState, u32, Vec<UnavailableCache>),
    /// From now on signals are passed on to the command.
    Started,
    Failed(SetupError),
    Ended(CommandEnd),
}

/// The body of the first process inside.
pub(crate) fn init_main() -> ExitCode {
    // Nobody would hear of an error of these two: the outer process is gone, or another program called this one.
    let Ok(pipes) = launch::received::<InitPipes>() else { return ExitCode::from(SETUP_FAILED) };
    let Some(mut outer) = Outer::open(&pipes) else { return ExitCode::from(SETUP_FAILED) };
    match run(&mut outer, pipes.network) {
        Ok(end) => {
            outer.tell(&InitMessage::Ended(end));
            ExitCode::SUCCESS
        }
        Err(error) => {
            let code = error.code;
            outer.tell(&InitMessage::Failed(error));
            ExitCode::from(code)
        }
    }
}

fn run(outer: &mut Outer, network: NetworkAccess) -> Result<CommandEnd, SetupError> {
    // From now on this process is killed when the outer one ends.
    set_parent_process_death_signal(Some(Signal::KILL)).at(SetupStep::Init, "the signal of the parent's death")?;
    descriptors::close_inherited(&outer.descriptors()).at(SetupStep::Descriptors, "/proc/self/fd")?;
    namespaces::enter_inner(network)?;
    let order = outer.bind()?;
    // Away from the terminal of the caller. It fails only for the leader of a session, which has none then.
    let _ = setsid();
    unshare(CloneFlags::CLONE_NEWNS).at(SetupStep::Mounts, "unshare")?;
    let refused = view::build(order.entries.clone(), &order.caches)?;
    view::mount_proc()?;
    std::env::set_current_dir(&order.folder)
        .at(SetupStep::Command, format!("the folder {}", order.folder.display()))?;
    rlimits::apply(&order.limits, Tier::A)?;
    capabilities::drop_all().at(SetupStep::Privileges, "capabilities")?;
    capabilities::forbid_new_privileges().at(SetupStep::Privileges, "no_new_privs")?;
    // So the command cannot look into this process, which has the profile in its memory.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).at(SetupStep::Privileges, "dumpable")?;
    let is_copy = |cache: &&CacheMount| refused.iter().all(|refused| refused.path != cache.folder);
    let (copies, others): (Vec<_>, Vec<_>) = order.caches.iter().partition(is_copy);
    let writable = order.writable.iter().chain(copies.iter().map(|cache| &cache.folder)).cloned().collect();
    let (landlock, abi) = FileRules::in_view(writable).apply()?;
    filter::apply(Sockets::of(Tier::A, order.network))?;
    // The command gets the mask of this process, which the outer process has passed on.
    Signals::release().at(SetupStep::Command, "signals")?;
    let variables = copies.iter().filter_map(|cache| cache.of_copy.clone());
    let variables =
        variables.chain(others.iter().filter_map(|cache| cache.instead.clone())).chain(order.variables.clone());
    let environment = launch::with_caches(launch::command_environment(&order.temporary), variables);
    outer.tell(&InitMessage::Confined(landlock, abi, refused.clone()));
    let command = start(&order, launch::with_proxy(environment, order.proxy_port))?;
    let signals = Signals::hold().at(SetupStep::Command, "signals")?;
    outer.tell(&InitMessage::Started);
    Ok(until_ended(command, &signals))
}

fn start(order: &InitOrder, environment: Vec<(OsString, OsString)>) -> Result<Pid, SetupError> {
    // Looked for here, because the standard library copies the whole process where it does so itself.
    let mut command = Command::new(launch::found(&order.program, &environment)?);
    command.arg0(&order.program).args(&order.arguments).env_clear().envs(environment).process_group(0);
    let child = command.spawn().map_err(|error| SetupError::of_command(&order.program, &error))?;
    Ok(Pid::from_child(&child))
}

/// Reaps whatever ends, until the command does.
fn until_ended(command: Pid, signals: &Signals) -> CommandEnd {
    loop {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            match CommandEnd::of(status) {
                Some(end) if pid == command => return end,
                _ => {}
            }
        }
        signals.until_child_ends(Receiver::Group(command));
    }
}

/// The pipes to and from the outer process.
struct Outer {
    order: File,
    messages: File,
}

impl Outer {
    /// Opens the inherited pipes again, so that they are closed when a program is executed; their inherited numbers are closed
    /// with all the others. None if there is nobody at the other ends.
    fn open(pipes: &InitPipes) -> Option<Self> {
        let reopen = |number: RawFd, access: OFlags| {
            // Without waiting for somebody at the other end.
            let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let pipe = open(format!("/proc/self/fd/{number}"), flags, Mode::empty()).ok()?;
            fcntl_setfl(&pipe, fcntl_getfl(&pipe).ok()? - OFlags::NONBLOCK).ok()?;
            Some(File::from(pipe))
        };
        let messages = reopen(pipes.messages, OFlags::WRONLY)?;
        Some(Self { order: reopen(pipes.order, OFlags::RDONLY)?, messages })
    }

    fn descriptors(&self) -> [RawFd; 2] {
        [self.order.as_raw_fd(), self.messages.as_raw_fd()]
    }

    /// The outer process may have ended before, so this one says that it is bound to it and waits for the order, which only a living
    /// process gives.
    fn bind(&mut self) -> Result<InitOrder, SetupError> {
        self.tell(&InitMessage::Bound);
        let mut line = String::new();
        BufReader::new(&self.order).read_line(&mut line).at(SetupStep::Init, "the order")?;
        serde_json::from_str(&line).at(SetupStep::Init, "the order, unless the outer process has ended")
    }

    fn tell(&mut self, message: &InitMessage) {
        let line = serde_json::to_string(message).expect("a message has only text, numbers and paths from JSON");
        // If the outer process has ended, this one is about to.
        let _ = self.messages.write_all(format!("{line}\n").as_bytes());
    }
}
