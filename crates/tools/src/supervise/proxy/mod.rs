//! The proxy of a command whose sandbox has hosts by rule. It is in the supervisor, outside of the sandbox: it accepts connections
//! from a listening socket of the command's network namespace, and connects to what the rules allow.
//!
//! ```text
//! command ──► 127.0.0.1:PORT inside ──► accept ──► host by rule? ──► resolve once ──► addresses public? ──► connect to these
//!             CONNECT, http://, SOCKS 5             port 443: TLS that names the host
//! ```
//!
//! Everything in it has a bound: connections, bytes of heads, time, recorded hosts. It uses no async runtime, as its supervisor.
//! What may not live here: which rules a command has.

mod connection;
mod dial;
mod hello;
pub(crate) mod host;
mod http;
mod incoming;
mod record;
mod rules;
mod socks;
mod tunnel;

use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use confine::ExpectedListener;
use rustix::fd::OwnedFd;

use crate::limits::{
    DIAL_MS, LISTENER_MS, PROXY_ACCEPT_ERRORS, PROXY_CONNECTIONS, PROXY_HEAD_MS, TLS_PORT, TUNNEL_HALF_CLOSED_MS,
    TUNNEL_IDLE_MS,
};
use dial::Resolver;
use record::NetworkRecorder;
use tunnel::IdleLimits;

pub(crate) use record::{NetworkReport, refusals};
pub(crate) use rules::HostRules;

/// The bounds that tests change.
#[derive(Debug, Clone)]
struct ProxyLimits {
    /// For what a client sends before its bytes go on.
    head: Duration,
    /// For resolving a name and connecting.
    dial: Duration,
    idle: IdleLimits,
    /// The port at which only TLS is spoken.
    tls_port: u16,
}

impl Default for ProxyLimits {
    fn default() -> Self {
        Self {
            head: Duration::from_millis(PROXY_HEAD_MS),
            dial: Duration::from_millis(DIAL_MS),
            idle: IdleLimits {
                open: Duration::from_millis(TUNNEL_IDLE_MS),
                half_closed: Duration::from_millis(TUNNEL_HALF_CLOSED_MS),
            },
            tls_port: TLS_PORT,
        }
    }
}

/// What all connections share.
struct Shared {
    rules: HostRules,
    resolver: Resolver,
    limits: ProxyLimits,
    recorder: NetworkRecorder,
    connections: Slots,
}

/// The proxy of a command.
pub(crate) struct Proxy {
    shared: Arc<Shared>,
}

impl Proxy {
    /// Starts it. `folder` is that of the call. Nothing waits for the listener: if it does not come, the command reaches nothing.
    pub(crate) fn start(rules: HostRules, folder: OwnedFd, expected: io::Result<ExpectedListener>) -> Self {
        let shared = Arc::new(Shared {
            rules,
            resolver: Resolver::of_system(),
            limits: ProxyLimits::default(),
            recorder: NetworkRecorder::new(folder),
            connections: Slots::default(),
        });
        let own = Arc::clone(&shared);
        let started = expected.and_then(|expected| {
            thread::Builder::new().spawn(move || match expected.receive(Duration::from_millis(LISTENER_MS)) {
                Ok(listener) => accept(&own, &listener),
                // A command that could not be started, or ended before.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {}
                Err(error) => own.recorder.trouble(trouble(&error)),
            })
        });
        if let Err(error) = started {
            shared.recorder.trouble(trouble(&error));
        }
        Self { shared }
    }

    /// The command has ended: writes the report. Open connections end with this process.
    pub(crate) fn finish(&self) {
        self.shared.recorder.finish();
    }
}

fn trouble(error: &io::Error) -> String {
    format!("its proxy could not be started: {error}")
}

/// Accepts connections for as long as this process lives.
fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    let mut errors = 0;
    while errors < PROXY_ACCEPT_ERRORS {
        // Further ones wait where they are.
        let slot = Slot::take(shared);
        let started = listener.accept().and_then(|(client, _)| {
            thread::Builder::new().spawn(move || connection::serve(&slot.shared, &client)).map(drop)
        });
        errors = if started.is_ok() { 0 } else { errors + 1 };
    }
}

/// How many connections there are.
#[derive(Default)]
struct Slots {
    taken: Mutex<usize>,
    freed: Condvar,
}

/// The place of one connection.
struct Slot {
    shared: Arc<Shared>,
}

impl Slot {
    /// Waits for a free one.
    fn take(shared: &Arc<Shared>) -> Self {
        let Slots { taken, freed } = &shared.connections;
        let taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
        let free = freed.wait_while(taken, |taken| *taken >= PROXY_CONNECTIONS);
        *free.unwrap_or_else(PoisonError::into_inner) += 1;
        Self { shared: Arc::clone(shared) }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let Slots { taken, freed } = &self.shared.connections;
        *taken.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        freed.notify_one();
    }
}

#[cfg(test)]
mod tests;
