//! Connects to a host that rules allow: its name is resolved once, all its addresses are checked, and one of exactly these is
//! connected to.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::host::Host;
use super::record::HostRefusal;
use super::rules::HostRules;
use crate::address::is_public;
use crate::limits::PROXY_CONNECTIONS;

type Resolve = dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// How names become addresses. The system cannot be asked to stop, so it is asked in threads of their own, of which there is a
/// bounded number.
#[derive(Clone)]
pub(super) struct Resolver {
    resolve: Arc<Resolve>,
    running: Arc<AtomicUsize>,
}

impl Resolver {
    pub(super) fn new(resolve: impl Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static) -> Self {
        Self { resolve: Arc::new(resolve), running: Arc::default() }
    }

    pub(super) fn of_system() -> Self {
        Self::new(|name, port| (name, port).to_socket_addrs().map(Iterator::collect))
    }

    fn addresses(&self, name: &str, port: u16, limit: Duration) -> io::Result<Vec<SocketAddr>> {
        if self.running.fetch_add(1, Ordering::SeqCst) >= PROXY_CONNECTIONS {
            self.running.fetch_sub(1, Ordering::SeqCst);
            return Err(ErrorKind::ResourceBusy.into());
        }
        let (sender, receiver) = mpsc::channel();
        let (own, name) = (self.clone(), name.to_owned());
        let started = thread::Builder::new().spawn(move || {
            // Nobody may wait any more.
            let _ = sender.send((own.resolve)(&name, port));
            own.running.fetch_sub(1, Ordering::SeqCst);
        });
        if let Err(error) = started {
            self.running.fetch_sub(1, Ordering::SeqCst);
            return Err(error);
        }
        receiver.recv_timeout(limit).map_err(|_| io::Error::from(ErrorKind::TimedOut))?
    }
}

/// Why a host is not connected to.
#[derive(Debug)]
pub(super) enum DialError {
    Refused(HostRefusal),
    /// It did not answer.
    Failed(io::Error),
}

/// Connects to a host within a time.
pub(super) fn dial(
    rules: &HostRules,
    resolver: &Resolver,
    (host, port): (&Host, u16),
    limit: Duration,
) -> Result<TcpStream, DialError> {
    if !rules.allows(host, port) {
        return Err(DialError::Refused(HostRefusal::NotAllowed));
    }
    let deadline = Instant::now() + limit;
    let unresolved = DialError::Refused(HostRefusal::Unresolved);
    let addresses = match host {
        Host::Address(address) => vec![SocketAddr::new(*address, port)],
        Host::Name(name) => match resolver.addresses(name, port, limit) {
            Ok(addresses) if !addresses.is_empty() => addresses,
            Ok(_) | Err(_) => return Err(unresolved),
        },
    };
    if !rules.private && !addresses.iter().all(|address| is_public(address.ip())) {
        return Err(DialError::Refused(HostRefusal::Private));
    }
    // A name is no way around a rule about an address.
    if addresses.iter().any(|address| rules.denies(&Host::of(address.ip()), port)) {
        return Err(DialError::Refused(HostRefusal::NotAllowed));
    }
    let mut failed = io::Error::from(ErrorKind::TimedOut);
    for address in addresses {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(DialError::Failed(failed))
}
