//! The listening socket that a service manager passes on to `limulus serve` (`LISTEN_FDS` of systemd): it stays open while the service
//! is started again, so that a client that connects meanwhile waits instead of being refused.

use std::io;
use std::net::TcpListener;
use std::sync::{Mutex, PoisonError};

use listenfd::ListenFd;

static SOCKET: Mutex<Option<io::Result<TcpListener>>> = Mutex::new(None);

/// Takes it from the environment, which must not be read meanwhile: before there is another thread.
pub(crate) fn take() {
    if std::env::var_os("LISTEN_FDS").is_none() {
        return;
    }
    let mut given = ListenFd::from_env();
    let taken = match given.len() {
        0 => None,
        1 => given.take_tcp_listener(0).transpose(),
        many => Some(Err(io::Error::other(format!("it was given {many} sockets, and takes one")))),
    };
    *SOCKET.lock().unwrap_or_else(PoisonError::into_inner) = taken;
}

/// The socket, once; an error if what was passed on is none that it can listen at.
pub(crate) fn socket() -> Option<io::Result<TcpListener>> {
    SOCKET.lock().unwrap_or_else(PoisonError::into_inner).take()
}
