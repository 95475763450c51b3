//! The socket of a home, `limulus.sock`, which only its user can connect to. The owner of the home listens; an owner
//! that finds a stale socket replaces it.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use protocol::limits::CONNECTIONS;
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Resource, Rlimit};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

use crate::connection::{Identity, frame};
use crate::error::Error;
use crate::service::Service;

/// The socket's name in its home.
pub const NAME: &str = "limulus.sock";

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 128;
/// The pause after a failed accept, for example because the process has no descriptors left.
const PAUSE: Duration = Duration::from_millis(100);
/// Descriptors that are reserved for everything else: the journal, requests to models, commands.
const RESERVED_FILES: u64 = 256;
/// Connections beyond the limit, so that a run can be aborted and the status be read when all places are taken.
pub const RESERVED: usize = 16;
/// How long a reserved place may be used: whoever acts has acted by then.
const RESERVED_TIME: Duration = Duration::from_mins(1);
/// The minimum number of connections.
const MIN_CONNECTIONS: usize = 16;

/// Why a home has no socket.
#[allow(missing_docs, reason = "the fields say it themselves")]
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Something that is not a socket has its name.
    #[error("{path} is not a socket: move it away, then start again")]
    Taken { path: PathBuf },
    /// The system refuses it.
    #[error("no socket at {path} ({source}): the home must be on a file system that supports sockets")]
    Io { path: PathBuf, source: io::Error },
}

/// A listening socket. Dropping it removes it from the home.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
    path: PathBuf,
    /// The inode of our file, because another owner's socket may have replaced it.
    inode: Option<(u64, u64)>,
    /// The limit of concurrent connections.
    most: usize,
    /// The reason that surplus connections receive.
    full: Vec<u8>,
}

impl Listener {
    /// Listens in this home, which this process owns. Must be called inside a tokio runtime.
    pub fn bind(home: &Path) -> Result<Self, SocketError> {
        let path = home.join(NAME);
        match fs::symlink_metadata(&path) {
            Ok(meta) if !meta.file_type().is_socket() => return Err(SocketError::Taken { path }),
            _ => {}
        }
        let failed = |source: io::Error| SocketError::Io { path: path.clone(), source };
        let socket = listen(home).map_err(failed)?;
        let inode = fs::symlink_metadata(&path).ok().map(|meta| (meta.dev(), meta.ino()));
        let socket = UnixListener::from_std(socket).map_err(failed)?;
        let files = rustix::process::getrlimit(Resource::Nofile).current;
        let most = capacity(files);
        Ok(Self { socket, path, inode, most, full: full(most, files) })
    }

    /// Limits the concurrent connections to `most`.
    #[must_use]
    pub fn at_most(mut self, most: usize) -> Self {
        self.full = full(most, None);
        self.most = most;
        self
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Accepts and serves connections in a task of its own, until that is aborted.
    pub fn spawn(self, service: Arc<Service>) -> JoinHandle<()> {
        tokio::spawn(async move { self.serve(&service).await })
    }

    async fn serve(&self, service: &Arc<Service>) {
        let open = Arc::new(AtomicUsize::new(0));
        loop {
            let Ok((stream, _)) = self.socket.accept().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            // A client of another user receives nothing.
            if !is_ours(&stream) {
                continue;
            }
            let taken = open.load(Ordering::Relaxed);
            if taken >= self.most + RESERVED {
                // A surplus connection is notified at once. A new connection has space for that, or its client has
                // left.
                let _ = stream.try_write(&self.full);
                continue;
            }
            let is_reserved = taken >= self.most;
            let slot = ConnectionSlot::take(&open);
            let service = Arc::clone(service);
            tokio::spawn(async move {
                let peer = stream.peer_cred().ok().and_then(|peer| peer.pid()).and_then(|pid| u32::try_from(pid).ok());
                let (read, write) = stream.into_split();
                let serving = service.serve_peer(Identity::of_user(peer), read, write);
                if is_reserved {
                    // A client that only follows connects again, and finds a place or is refused.
                    let _ = tokio::time::timeout(RESERVED_TIME, serving).await;
                } else {
                    serving.await;
                }
                drop(slot);
            });
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let there = fs::symlink_metadata(&self.path).ok().map(|meta| (meta.dev(), meta.ino()));
        if there.is_some() && there == self.inode {
            // A leftover socket is replaced by the next owner.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Raises the limit of open files for this process, as far as it may, so that many clients can connect.
pub fn raise_file_limit() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let wanted = 2 * CONNECTIONS as u64 + RESERVED_FILES;
    let most = limit.maximum.map_or(wanted, |most| most.min(wanted));
    if limit.current.is_some_and(|current| current < most) {
        // A refusal leaves the limit as it was.
        let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limit });
    }
}

/// How many connections this process can serve with this many open files.
fn capacity(files: Option<u64>) -> usize {
    let left = files.map(|files| files.saturating_sub(RESERVED_FILES));
    let left = left.and_then(|left| usize::try_from(left).ok()).unwrap_or(CONNECTIONS);
    left.clamp(MIN_CONNECTIONS, CONNECTIONS)
}

/// How many connections over TCP it can serve besides: whoever opens those needs no token, and takes no descriptor that is needed.
pub(crate) fn capacity_for_http() -> usize {
    http_capacity(rustix::process::getrlimit(Resource::Nofile).current)
}

fn http_capacity(files: Option<u64>) -> usize {
    let left = files.map(|files| files.saturating_sub(RESERVED_FILES + capacity(Some(files)) as u64));
    let left = left.and_then(|left| usize::try_from(left).ok()).unwrap_or(CONNECTIONS);
    left.clamp(MIN_CONNECTIONS, CONNECTIONS)
}

/// The message that a surplus client receives.
fn full(most: usize, files: Option<u64>) -> Vec<u8> {
    let what = format!("{most} clients are connected to the owner of this home, which is its limit");
    let hint = match files {
        Some(files) if most < CONNECTIONS => {
            format!("close one of them, or raise the owner's limit of open files, which is {files} (`ulimit -n`)")
        }
        Some(_) | None => "close one of them, then try again".to_owned(),
    };
    frame(&Error::Unavailable { what, hint }.shape())
}

/// Connects to the owner of this home.
pub async fn connect(home: &Path) -> io::Result<UnixStream> {
    let folder = folder(home)?;
    UnixStream::connect(short(&folder, home)).await
}

/// A slot among the allowed connections.
struct ConnectionSlot(Arc<AtomicUsize>);

impl ConnectionSlot {
    fn take(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(open))
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Binds and listens. Only the user can connect: the file has its mode from the beginning.
fn listen(home: &Path) -> io::Result<StdListener> {
    let folder = folder(home)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    // Its owner is gone, because this process holds the lock of the home.
    match fs::remove_file(home.join(NAME)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    rustix::net::bind(&socket, &SocketAddrUnix::new(short(&folder, home))?)?;
    rustix::fs::chmodat(folder.as_fd(), NAME, Mode::RUSR | Mode::WUSR, rustix::fs::AtFlags::empty())?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(StdListener::from(socket))
}

fn folder(home: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(home, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// A name of the socket that fits into the 108 bytes of an address, however long the home's path is.
fn short(folder: &OwnedFd, home: &Path) -> PathBuf {
    let path = home.join(NAME);
    if path.as_os_str().len() < ADDRESS_BYTES {
        return path;
    }
    PathBuf::from(format!("/proc/self/fd/{}/{NAME}", folder.as_raw_fd()))
}

/// Maximum bytes of a path in an address, including its terminator.
const ADDRESS_BYTES: usize = 108;

fn is_ours(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| may_connect(peer.uid(), rustix::process::geteuid().as_raw()))
}

/// Whether a process of this user may connect to that owner: the same user, or root, who could do everything anyway.
fn may_connect(peer: u32, owner: u32) -> bool {
    peer == owner || peer == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r60_only_the_owners_user_and_root_may_connect() {
        for (peer, owner, may) in
            [(1000, 1000, true), (0, 1000, true), (1001, 1000, false), (1000, 0, false), (0, 0, true)]
        {
            assert_eq!(may_connect(peer, owner), may, "{peer} {owner}");
        }
    }

    #[test]
    fn r60_the_limit_of_open_files_limits_the_clients() {
        for (files, connections) in
            [(Some(0), 16), (Some(256), 16), (Some(1_024), 768), (Some(20_000), CONNECTIONS), (None, CONNECTIONS)]
        {
            assert_eq!(capacity(files), connections, "{files:?}");
            let says = String::from_utf8(full(connections, files)).unwrap();
            assert_eq!(says.contains("ulimit -n"), connections < CONNECTIONS, "{says}");
            assert!(says.contains(&format!("{connections} clients")) && says.contains("UNAVAILABLE"), "{says}");
        }
        for (files, connections) in
            [(Some(64), 16), (Some(1_024), 16), (Some(1_500), 220), (Some(2_304), 1_024), (None, 1_024)]
        {
            assert_eq!(http_capacity(files), connections, "over TCP, {files:?}");
        }
    }

    #[tokio::test]
    async fn r60_only_the_user_can_open_the_socket_and_its_owner_removes_it() {
        let folder = tempfile::tempdir().unwrap();
        let long = folder.path().join("l".repeat(120));
        for home in [folder.path(), &long] {
            fs::create_dir_all(home).unwrap();
            let path = home.join(NAME);
            let first = Listener::bind(home).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
            assert!(connect(home).await.is_ok(), "{}", home.display());
            // The next owner replaces the file of a dead one, and does not touch that of a live one.
            let second = Listener::bind(home).unwrap();
            drop(first);
            assert!(path.exists() && connect(home).await.is_ok());
            drop(second);
            assert!(!path.exists());
        }
        fs::write(folder.path().join(NAME), "mine").unwrap();
        assert!(matches!(Listener::bind(folder.path()), Err(SocketError::Taken { .. })));
        assert_eq!(fs::read_to_string(folder.path().join(NAME)).unwrap(), "mine");
    }
}
