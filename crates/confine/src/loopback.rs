//! Brings the loopback interface of a new network namespace up, by one message to the kernel: programs talk to themselves at
//! 127.0.0.1.

use std::io;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

/// `RTM_NEWLINK` of linux/rtnetlink.h.
const NEW_LINK: u16 = 16;
/// `NLM_F_REQUEST | NLM_F_ACK` of linux/netlink.h.
const REQUEST_WITH_ANSWER: u16 = 1 | 4;
/// `NLMSG_ERROR` of linux/netlink.h, also the type of an answer without an error.
const ANSWER: u16 = 2;
/// The index of the first interface of each namespace.
const LOOPBACK: u32 = 1;
/// `IFF_UP` of linux/if.h.
const UP: u32 = 1;

/// Brings it up, and waits for the answer.
pub(crate) fn bring_up() -> io::Result<()> {
    // No protocol is the first one, that of routes and interfaces.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    sendto(&socket, &message(), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0; 64];
    let (length, _) = recv(&socket, &mut answer, RecvFlags::empty())?;
    match error_of(&answer[..length]) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(-code)),
        None => Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel gave an unknown answer")),
    }
}

/// A `nlmsghdr` (length, type, flags, sequence, sender) and an `ifinfomsg` (family, type, index, flags, mask of flags).
fn message() -> Vec<u8> {
    let mut message = vec![];
    message.extend(32u32.to_ne_bytes());
    message.extend(NEW_LINK.to_ne_bytes());
    message.extend(REQUEST_WITH_ANSWER.to_ne_bytes());
    message.extend([0; 12]);
    for field in [LOOPBACK, UP, UP] {
        message.extend(field.to_ne_bytes());
    }
    message
}

/// The error in a `nlmsgerr` behind a `nlmsghdr`: 0 for none, else a negative number.
fn error_of(answer: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let code = i32::from_ne_bytes(answer.get(16..20)?.try_into().ok()?);
    (kind == ANSWER).then_some(code)
}
