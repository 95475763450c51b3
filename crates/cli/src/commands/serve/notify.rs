//! Notifies the service manager that started this process, if it listens (`NOTIFY_SOCKET`).

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends a notification. Errors are ignored.
pub(super) fn report(state: &str) {
    if let Some(address) = std::env::var_os("NOTIFY_SOCKET").filter(|address| !address.is_empty()) {
        let _ = send(&address, state);
    }
}

fn send(address: &OsStr, state: &str) -> io::Result<usize> {
    let socket = UnixDatagram::unbound()?;
    socket.send_to_addr(state.as_bytes(), &address_of(address)?)
}

/// A path, or an abstract name after an `@`.
fn address_of(address: &OsStr) -> io::Result<SocketAddr> {
    match address.as_bytes().strip_prefix(b"@") {
        #[cfg(target_os = "linux")]
        Some(name) => <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name),
        _ => SocketAddr::from_pathname(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r15_the_manager_receives_notifications() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        send(path.as_os_str(), "READY=1").unwrap();
        let mut observed = [0; 16];
        let bytes = manager.recv(&mut observed).unwrap();
        assert_eq!(&observed[..bytes], b"READY=1");
        assert!(send(OsStr::new("/nowhere/at/all"), "READY=1").is_err());
    }
}
