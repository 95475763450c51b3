//! How the outer process hands a listening socket of its network namespace to its caller, who connects for the command.
//!
//! A socket stays in the namespace in which it was made: what is accepted from it comes from inside, and what the caller
//! connects with its own sockets goes outside. They meet at an abstract Unix socket of the host, to which the outer process
//! connects before it enters any namespace. The caller knows it by its process id, so nothing has to be inherited, and no name
//! has to be secret.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, listen, recvmsg, sendmsg, socket_with,
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Where the caller waits for the listening socket of a sandbox whose network is [`NetworkAccess::Proxy`](crate::NetworkAccess).
#[derive(Debug)]
pub struct ListenerReceiver {
    socket: UnixListener,
    name: Vec<u8>,
}

impl ListenerReceiver {
    pub(crate) fn new() -> io::Result<Self> {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // Without a name the kernel chooses one that nobody has.
        bind(&socket, &SocketAddrUnix::new_unnamed())?;
        listen(&socket, 8)?;
        let socket = UnixListener::from(socket);
        let address = socket.local_addr()?;
        let name = address.as_abstract_name().ok_or_else(|| io::Error::from(ErrorKind::Unsupported))?.to_owned();
        Ok(Self { socket, name })
    }

    /// What the outer process connects to.
    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Names the process that gives the socket: `outer` was started with the command of this receiver, and has not been waited for.
    ///
    /// # Errors
    /// Fails if the kernel cannot observe the process.
    pub fn expect_from(self, outer: &Child) -> io::Result<ExpectedListener> {
        self.expect(Pid::from_child(outer))
    }

    fn expect(self, outer: Pid) -> io::Result<ExpectedListener> {
        self.socket.set_nonblocking(true)?;
        let end = pidfd_open(outer, PidfdFlags::empty())?;
        Ok(ExpectedListener { socket: self.socket, outer, end })
    }
}

/// The listening socket of a sandbox that was started.
#[derive(Debug)]
pub struct ExpectedListener {
    socket: UnixListener,
    outer: Pid,
    /// Readable once the outer process has ended.
    end: OwnedFd,
}

impl ExpectedListener {
    /// Waits for the listening socket: connections of the command to its proxy are accepted from it.
    ///
    /// # Errors
    /// Fails if none comes in time, or if the outer process ends before; then the command reaches nothing.
    pub fn receive(self, limit: Duration) -> io::Result<TcpListener> {
        let deadline = Instant::now() + limit;
        loop {
            match self.socket.accept() {
                Ok((stream, _)) if socket_peercred(&stream)?.pid == self.outer => return received(&stream, deadline),
                // Any process of the machine may connect.
                Ok(_) => {
                    left_until(deadline)?;
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            let left = left_until(deadline)?;
            let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
            let mut sources = [PollFd::new(&self.socket, PollFlags::IN), PollFd::new(&self.end, PollFlags::IN)];
            poll(&mut sources, Some(&timeout))?;
            if sources[0].revents().is_empty() && !sources[1].revents().is_empty() {
                return Err(io::Error::new(ErrorKind::UnexpectedEof, "the sandbox ended before it had a listener"));
            }
        }
    }
}

fn left_until(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn received(stream: &UnixStream, deadline: Instant) -> io::Result<TcpListener> {
    // What is accepted from a socket that does not block may or may not block.
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(left_until(deadline)?))?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(stream, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let sent = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let none = || io::Error::new(ErrorKind::UnexpectedEof, "the sandbox has no listener");
    sent.map(OwnedFd::into).ok_or_else(none)
}

/// The side of the outer process.
#[derive(Debug)]
pub(crate) struct ListenerSender(UnixStream);

impl ListenerSender {
    /// Connects to the caller, from the network namespace of the host.
    pub(crate) fn connect(name: &[u8]) -> io::Result<Self> {
        UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?).map(Self)
    }

    /// Listens on the loopback interface of the network namespace in which this process is now, and gives the listening socket
    /// away. Returns its port.
    pub(crate) fn listen(self) -> io::Result<u16> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let descriptors = [listener.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        sendmsg(&self.0, &[IoSlice::new(b"l")], &mut control, SendFlags::NOSIGNAL)?;
        Ok(listener.local_addr()?.port())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a process may send that is not the outer one is never taken, and the wait ends with the outer process.
    #[test]
    fn escape_63_only_the_outer_process_gives_a_listener() {
        let receiver = ListenerReceiver::new().unwrap();
        let port = ListenerSender::connect(receiver.name()).unwrap().listen().unwrap();
        assert_ne!(port, 0);
        let mut other = std::process::Command::new("true").spawn().unwrap();
        let error = receiver.expect_from(&other).unwrap().receive(Duration::from_mins(1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{error}");
        other.wait().unwrap();
    }

    #[test]
    fn a_listener_that_does_not_come_is_not_waited_for_for_ever() {
        let receiver = ListenerReceiver::new().unwrap();
        let mut outer = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let error = receiver.expect_from(&outer).unwrap().receive(Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        outer.kill().unwrap();
        outer.wait().unwrap();
    }

    #[test]
    fn what_is_sent_can_be_accepted_from() {
        let receiver = ListenerReceiver::new().unwrap();
        let port = ListenerSender::connect(receiver.name()).unwrap().listen().unwrap();
        let expected = receiver.expect(rustix::process::getpid()).unwrap();
        let listener = expected.receive(Duration::from_mins(1)).unwrap();
        assert_eq!(listener.local_addr().unwrap(), (Ipv4Addr::LOCALHOST, port).into());
    }
}
