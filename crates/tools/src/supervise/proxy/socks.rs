//! SOCKS 5: names and addresses, without authentication, connections only.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::incoming::Incoming;

pub(super) const VERSION: u8 = 5;
/// What SOCKS 4 is answered: the request is rejected.
pub(super) const REJECTED_4: [u8; 8] = [0, 91, 0, 0, 0, 0, 0, 0];
/// The methods of authentication: none, and none that is acceptable.
const NONE: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;

/// The codes of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum SocksReply {
    Connected = 0,
    Failed = 1,
    NotAllowed = 2,
    HostUnreachable = 4,
    BadCommand = 7,
    BadAddress = 8,
}

impl SocksReply {
    /// With an address that means nothing to the client.
    pub(super) fn bytes(self) -> [u8; 10] {
        [VERSION, self as u8, 0, 1, 0, 0, 0, 0, 0, 0]
    }
}

/// What a client asks for, or what it is answered at once.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SocksRequest {
    Connect { host: String, port: u16 },
    Refused(Vec<u8>),
}

/// Reads the greeting, which `answer` answers, and the request.
pub(super) fn read(
    incoming: &mut Incoming<'_>,
    mut answer: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<SocksRequest> {
    let [_, count] = incoming.take()?;
    if !incoming.take_vec(count.into())?.contains(&NONE) {
        return Ok(SocksRequest::Refused(vec![VERSION, NO_METHOD]));
    }
    answer(&[VERSION, NONE])?;
    let [version, command, _, kind] = incoming.take()?;
    let refused = |reply: SocksReply| Ok(SocksRequest::Refused(reply.bytes().to_vec()));
    if version != VERSION {
        return refused(SocksReply::Failed);
    }
    if command != CONNECT {
        return refused(SocksReply::BadCommand);
    }
    let host = match kind {
        1 => Ipv4Addr::from(incoming.take::<4>()?).to_string(),
        3 => {
            let [length] = incoming.take()?;
            // What is no text is no host either, and both are refused in one place.
            String::from_utf8_lossy(&incoming.take_vec(length.into())?).into_owned()
        }
        4 => Ipv6Addr::from(incoming.take::<16>()?).to_string(),
        _ => return refused(SocksReply::BadAddress),
    };
    let port = u16::from_be_bytes(incoming.take()?);
    Ok(SocksRequest::Connect { host, port })
}
