//! The first message of TLS, which names the host in the clear. It goes on unchanged.

use std::io;

use rustls::server::Acceptor;

use super::host::Host;
use super::incoming::Incoming;

/// Whether what a client sends first is TLS for this host, and for no other that the same server may serve too. Its bytes stay
/// in `incoming`.
///
/// # Errors
/// Fails if the client sends nothing in time, or closes the connection.
pub(super) fn is_for(host: &Host, incoming: &mut Incoming<'_>) -> io::Result<bool> {
    let (mut acceptor, mut fed) = (Acceptor::default(), 0);
    loop {
        let mut rest = &incoming.bytes[fed..];
        while !rest.is_empty() {
            let read = acceptor.read_tls(&mut rest)?;
            fed += read;
            match acceptor.accept() {
                Ok(Some(accepted)) => return Ok(names(host, accepted.client_hello().server_name())),
                Ok(None) if read > 0 => {}
                Ok(None) | Err(_) => return Ok(false),
            }
        }
        incoming.more()?;
    }
}

/// Clients send no name for an address.
fn names(host: &Host, name: Option<&str>) -> bool {
    match (host, name) {
        (Host::Name(host), Some(name)) => host.eq_ignore_ascii_case(name),
        (Host::Address(_), None) => true,
        (Host::Name(_), None) | (Host::Address(_), Some(_)) => false,
    }
}
