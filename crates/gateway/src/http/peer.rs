//! The process at the other end of a connection on this machine. A command of a call has what its user has, also the token where no
//! sandbox holds it: over TCP as on the socket it may read, but not act on the home that it belongs to.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::OnceLock;

use super::places::Place;

/// Where the kernel lists connections.
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// A process that there is not: its socket is held by nobody any more.
const GONE: u32 = u32::MAX;

/// The other end of a connection.
#[derive(Debug)]
pub(super) struct Peer {
    /// Its address.
    address: SocketAddr,
    /// The address of this end.
    here: SocketAddr,
    process: OnceLock<Option<u32>>,
    /// What it takes.
    pub(super) place: Place,
}

impl Peer {
    pub(super) fn new((address, here): (SocketAddr, SocketAddr), place: Place) -> Self {
        Self { address, here, process: OnceLock::new(), place }
    }

    pub(super) fn ip(&self) -> IpAddr {
        self.address.ip().to_canonical()
    }

    /// Its process, if it may be one that a call of this home has started; one that is not there if it has ended. Looked for once a
    /// connection, and only if there is anything that was started. May block.
    pub(super) fn process(&self, home: &Path) -> Option<u32> {
        *self.process.get_or_init(|| {
            let is_here = self.ip().is_loopback() || self.ip() == self.here.ip().to_canonical();
            let has_started =
                || has_children() || tools::running_calls(&home.join("calls")).is_ok_and(|calls| !calls.is_empty());
            if is_here && has_started() { self.found() } else { None }
        })
    }

    /// Whether it is inside a call of this home, or cannot be shown not to be. May block.
    pub(super) fn is_in_call(&self, home: &Path) -> bool {
        self.process(home).is_some_and(|pid| pid == GONE || tools::is_in_call(pid))
    }

    fn found(&self) -> Option<u32> {
        let own = rustix::process::getuid().as_raw();
        let (inode, user) = TABLES
            .iter()
            .find_map(|table| row(&fs::read_to_string(table).unwrap_or_default(), self.address, self.here))?;
        // What another user runs is no command of this home.
        if user != own {
            return None;
        }
        let holders = holders(inode, own);
        let in_call = holders.iter().find(|pid| tools::is_in_call(**pid));
        Some(in_call.or(holders.first()).copied().unwrap_or(GONE))
    }
}

/// Whether this process has started anything, or inherited what that has left.
fn has_children() -> bool {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let mut children = tasks.map(|task| fs::read_to_string(task.path().join("children")));
    children.any(|children| children.map_or(true, |children| !children.trim().is_empty()))
}

/// The inode and the user of the socket from one address to another, in a table of the kernel.
fn row(table: &str, from: SocketAddr, to: SocketAddr) -> Option<(u64, u32)> {
    let names = |address: SocketAddr| {
        let port = address.port();
        let words = |bytes: &[u8]| {
            let words = bytes.chunks_exact(4).map(|word| u32::from_ne_bytes(word.try_into().expect("four bytes")));
            words.map(|word| format!("{word:08X}")).collect::<Vec<_>>().concat()
        };
        match address.ip().to_canonical() {
            IpAddr::V4(ip) => [
                format!("{}:{port:04X}", words(&ip.octets())),
                format!("{}:{port:04X}", words(&ip.to_ipv6_mapped().octets())),
            ],
            IpAddr::V6(ip) => [(); 2].map(|()| format!("{}:{port:04X}", words(&ip.octets()))),
        }
    };
    let (from, to) = (names(from), names(to));
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is =
            |names: &[String], at: usize| fields.get(at).is_some_and(|field| names.iter().any(|name| name == field));
        let socket = || Some((fields.get(9)?.parse().ok()?, fields.get(7)?.parse().ok()?));
        (is(&from, 1) && is(&to, 2)).then(socket).flatten()
    })
}

/// The processes of this user that hold a socket, without this one.
fn holders(inode: u64, user: u32) -> Vec<u32> {
    let name = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let own = processes.filter(|entry| entry.metadata().is_ok_and(|meta| meta.uid() == user));
    let pids = own.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let holds = |pid: &u32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files.map(|file| fs::read_link(file.path())).any(|target| target.is_ok_and(|target| target == Path::new(&name)))
    };
    pids.filter(|pid| *pid != std::process::id()).filter(holds).collect()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// R60: the kernel's table says which socket is at the other end, by either form of an address.
    #[test]
    fn r60_the_socket_at_the_other_end_is_found() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, peer) = listener.accept().unwrap();
            let here = server.local_addr().unwrap();
            let found = TABLES.iter().find_map(|table| row(&fs::read_to_string(table).unwrap(), peer, here));
            let (inode, user) = found.unwrap();
            assert_eq!(user, rustix::process::getuid().as_raw());
            let fd = std::os::fd::AsRawFd::as_raw_fd(&client);
            let link = fs::read_link(format!("/proc/self/fd/{fd}")).unwrap();
            assert_eq!(link, Path::new(&format!("socket:[{inode}]")));
            assert_eq!(holders(inode, user), [0; 0], "this process itself is no client");
        }
        let mapped: SocketAddr = "[::ffff:127.0.0.1]:5".parse().unwrap();
        let line =
            "sl\n 0: 0000000000000000FFFF00000100007F:0005 0000000000000000FFFF00000100007F:0006 01 0:0 0:0 0 7 0 9 1";
        assert_eq!(row(line, mapped, "127.0.0.1:6".parse().unwrap()), Some((9, 7)));
        assert_eq!(row(line, mapped, "127.0.0.1:7".parse().unwrap()), None);
    }
}
