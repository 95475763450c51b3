//! The owner of the homes of a test: each command itself, or a `limulus serve` that all of them use.

use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

use rustix::process::Signal;

use super::home::PROGRAM;
use super::{Home, Process, is_alive};

/// The variable of `approvals.unattended`.
const UNATTENDED: &str = "LIMULUS_APPROVALS__UNATTENDED";

thread_local! {
    static IS_SERVED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a test in whose homes commands find an owner.
pub(crate) fn beside_an_owner(test: fn()) {
    IS_SERVED.set(true);
    test();
    IS_SERVED.set(false);
}

/// Who owns a home while commands run in it.
pub(crate) enum Owner {
    /// Each command that writes.
    Commands,
    /// A service. The first command starts it with the current configuration.
    Service(Mutex<Option<Serving>>),
}

/// A service and the variables that it was started with.
pub(crate) struct Serving {
    service: Process,
    variables: Vec<(String, String)>,
}

impl Owner {
    pub(super) fn of_this_test() -> Self {
        if IS_SERVED.get() { Self::Service(Mutex::default()) } else { Self::Commands }
    }

    /// Has the owner there before a command looks for it. What is configured by variables is the owner's: when they
    /// change, another one is started, as a user would.
    pub(super) fn be_there(&self, home: &Home) {
        let Self::Service(serving) = self else { return };
        let mut serving = serving.lock().unwrap_or_else(PoisonError::into_inner);
        let variables = home.variables();
        if serving.as_ref().is_some_and(|serving| serving.variables == variables) {
            return;
        }
        if let Some(before) = serving.take() {
            before.service.signal(Signal::TERM);
            before.service.finish().expect_code(0);
        }
        let mut service = home.program(PROGRAM, &["serve"]);
        // Elsewhere than its clients: what they mean by their folder has to be sent.
        service.current_dir(home.user());
        // A command that runs its message by itself denies what nobody can be asked about; a service does if that is configured.
        if variables.iter().all(|(name, _)| name != UNATTENDED) {
            service.env(UNATTENDED, "deny");
        }
        let service = Process::spawn(service);
        service.until_err("serving");
        *serving = Some(Serving { service, variables });
    }

    /// Kills the service.
    pub(super) fn leave(&self) {
        let Self::Service(serving) = self else { return };
        if let Some(serving) = serving.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let is_there = std::thread::panicking() || is_alive(serving.service.pid());
            assert!(is_there, "the owner ended while commands went through it");
        }
    }
}
