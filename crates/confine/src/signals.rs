//! Signals: both processes around a command pass on what they receive, and end as it ended.

use std::process::ExitCode;

use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Pid, WaitStatus};
use serde::{Deserialize, Serialize};

/// What a caller or a terminal sends to end, stop or inform a command.
const PASSED_ON: [Signal; 7] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGCONT,
];

/// The signals that this process waits for instead of obeying them. A program that it executes inherits that.
pub(crate) struct Signals(SigSet);

impl Signals {
    /// From now on they wait. PID 1 would not get them otherwise.
    pub(crate) fn hold() -> nix::Result<Self> {
        let mut set = SigSet::empty();
        set.add(Signal::SIGCHLD);
        for signal in PASSED_ON {
            set.add(signal);
        }
        set.thread_block()?;
        Ok(Self(set))
    }

    /// No signal waits any more. PID 1 ignores those that come now.
    pub(crate) fn release() -> nix::Result<()> {
        SigSet::empty().thread_set_mask()
    }

    /// Waits until a child may have ended, and passes other signals on meanwhile. An error is as an end: who waits for a child
    /// looks for itself, and calls again.
    pub(crate) fn until_child_ends(&self, receiver: Receiver) {
        while let Ok(signal) = self.0.wait() {
            if signal == Signal::SIGCHLD {
                return;
            }
            receiver.send(signal);
        }
    }
}

/// Who gets the signals that are passed on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Receiver {
    Process(Pid),
    /// A shell and what it has started are meant both.
    Group(Pid),
}

impl Receiver {
    fn send(self, signal: Signal) {
        // An error means that it has ended already.
        let _ = match self {
            Self::Process(pid) => nix::sys::signal::kill(to_nix(pid), signal),
            Self::Group(leader) => nix::sys::signal::killpg(to_nix(leader), signal),
        };
    }
}

fn to_nix(pid: Pid) -> nix::unistd::Pid {
    nix::unistd::Pid::from_raw(pid.as_raw_nonzero().get())
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CommandEnd {
    Code(u8),
    Signal(i32),
}

impl CommandEnd {
    /// None if the process goes on.
    pub(crate) fn of(status: WaitStatus) -> Option<Self> {
        let code = status.exit_status().and_then(|code| u8::try_from(code).ok());
        code.map(Self::Code).or_else(|| status.terminating_signal().map(Self::Signal))
    }

    /// Ends this process in the same way. Returns only for an exit code.
    pub(crate) fn repeat(self) -> ExitCode {
        match self {
            Self::Code(code) => ExitCode::from(code),
            Self::Signal(signal) => {
                let _ = signal_hook::low_level::emulate_default_handler(signal);
                // A real-time signal has no default that could be repeated: what a shell says about it.
                ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX))
            }
        }
    }
}
