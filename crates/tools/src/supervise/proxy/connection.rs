//! One connection of a command: one request, for one host.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use super::Shared;
use super::dial::{DialError, dial};
use super::hello;
use super::host::{self, Host};
use super::http::{self, BadRequest, HttpRequest};
use super::incoming::Incoming;
use super::record::HostRefusal;
use super::socks::{self, SocksReply, SocksRequest};
use super::tunnel::{self, Flow};
use crate::limits::{HELLO_BYTES, PROXY_HEAD_BYTES, PROXY_LEFTOVER_BYTES, PROXY_LEFTOVER_MS};

/// Serves a client until its connection is over. Whatever goes wrong, the client sees it by the end of its connection.
pub(super) fn serve(shared: &Shared, client: &TcpStream) {
    // Small pieces must not wait for each other.
    let _ = client.set_nodelay(true);
    let _ = client.set_write_timeout(Some(shared.limits.head));
    let mut incoming = Incoming::new(client, Instant::now() + shared.limits.head, PROXY_HEAD_BYTES);
    let served = match incoming.more().map(|()| incoming.bytes[0]) {
        Ok(socks::VERSION) => serve_socks(shared, client, incoming),
        Ok(4) => answer(client, &socks::REJECTED_4),
        Ok(first) if first.is_ascii_uppercase() => serve_http(shared, client, incoming),
        Ok(_) | Err(_) => Ok(()),
    };
    if served.is_err() {
        // The client may still be sending.
        let _ = client.shutdown(Shutdown::Both);
    }
}

fn serve_socks(shared: &Shared, mut client: &TcpStream, mut incoming: Incoming<'_>) -> io::Result<()> {
    let (host, port) = match socks::read(&mut incoming, |bytes| client.write_all(bytes))? {
        SocksRequest::Connect { host, port } => (host, port),
        SocksRequest::Refused(reply) => return answer(client, &reply),
    };
    match open(shared, &host, port) {
        Ok(found) => {
            client.write_all(&SocksReply::Connected.bytes())?;
            serve_tunnel(shared, client, &found, incoming)
        }
        Err(DialError::Refused(HostRefusal::Unresolved)) => answer(client, &SocksReply::HostUnreachable.bytes()),
        Err(DialError::Refused(_)) => answer(client, &SocksReply::NotAllowed.bytes()),
        Err(DialError::Failed(_)) => answer(client, &SocksReply::Failed.bytes()),
    }
}

fn serve_http(shared: &Shared, mut client: &TcpStream, mut incoming: Incoming<'_>) -> io::Result<()> {
    let head = match read_head(&mut incoming) {
        Ok(head) => head,
        Err(error) if error.kind() == ErrorKind::FileTooLarge => {
            return status(client, "431 Request Header Fields Too Large", "the head of the request is too large");
        }
        Err(error) if error.kind() == ErrorKind::TimedOut => {
            return status(client, "408 Request Timeout", "the head of the request did not come in time");
        }
        Err(error) => return Err(error),
    };
    match http::parse(&head) {
        Err(BadRequest::Malformed) => status(client, "400 Bad Request", "this is no request that a proxy can forward"),
        Err(BadRequest::NoLength) => {
            status(client, "411 Length Required", "a request over http:// needs a Content-Length here")
        }
        Ok(HttpRequest::Tunnel { host, port }) => match open(shared, &host, port) {
            Ok(found) => {
                client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
                serve_tunnel(shared, client, &found, incoming)
            }
            Err(error) => not_opened(client, &host, port, &error),
        },
        // There is no TLS in it, whose name could be compared.
        Ok(HttpRequest::Forward { host, port, .. }) if port == shared.limits.tls_port => {
            shared.recorder.refuse(&host, port, HostRefusal::Sni);
            not_opened(client, &host, port, &DialError::Refused(HostRefusal::Sni))
        }
        Ok(HttpRequest::Forward { host, port, head, body_bytes }) => match open(shared, &host, port) {
            Ok(found) => forward(shared, client, &found, (head, body_bytes), &incoming),
            Err(error) => not_opened(client, &host, port, &error),
        },
    }
}

fn read_head(incoming: &mut Incoming<'_>) -> io::Result<Vec<u8>> {
    loop {
        if let Some(end) = http::head_end(&incoming.bytes) {
            return incoming.take_vec(end);
        }
        incoming.more()?;
    }
}

/// A host that was connected to.
struct Opened {
    stream: TcpStream,
    host: Host,
    port: u16,
}

/// Connects to a host that a client names, and records a refusal.
fn open(shared: &Shared, text: &str, port: u16) -> Result<Opened, DialError> {
    let found = Host::parse(text).ok_or(DialError::Refused(HostRefusal::BadHost)).and_then(|host| {
        let stream = dial(&shared.rules, &shared.resolver, (&host, port), shared.limits.dial)?;
        Ok(Opened { stream, host, port })
    });
    if let Err(DialError::Refused(why)) = &found {
        let named = Host::parse(text).map_or_else(|| text.to_owned(), |host| host.to_string());
        shared.recorder.refuse(&named, port, *why);
    }
    if let Ok(Opened { stream, .. }) = &found {
        let _ = stream.set_nodelay(true);
    }
    found
}

fn serve_tunnel(shared: &Shared, client: &TcpStream, found: &Opened, incoming: Incoming<'_>) -> io::Result<()> {
    let mut incoming = incoming.within(Instant::now() + shared.limits.head, HELLO_BYTES);
    if found.port == shared.limits.tls_port {
        check_hello(shared, found, &mut incoming)?;
    }
    carry(shared, (client, found), (Flow::all(incoming.bytes), Flow::all(vec![])))
}

/// Waits for the first message of TLS, and refuses any other host than the one that was asked for.
fn check_hello(shared: &Shared, found: &Opened, incoming: &mut Incoming<'_>) -> io::Result<()> {
    let why = match hello::is_for(&found.host, incoming) {
        Ok(true) => return Ok(()),
        Ok(false) => ErrorKind::InvalidData.into(),
        Err(error) if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::FileTooLarge) => error,
        // The client has gone.
        Err(error) => return Err(error),
    };
    shared.recorder.refuse(&found.host.to_string(), found.port, HostRefusal::Sni);
    Err(why)
}

/// One request with its body, and whatever its host answers.
fn forward(
    shared: &Shared,
    client: &TcpStream,
    found: &Opened,
    (mut head, body_bytes): (Vec<u8>, u64),
    incoming: &Incoming<'_>,
) -> io::Result<()> {
    let here = incoming.bytes.len().min(usize::try_from(body_bytes).unwrap_or(usize::MAX));
    head.extend_from_slice(&incoming.bytes[..here]);
    let up = Flow::first(head, body_bytes - here as u64);
    carry(shared, (client, found), (up, Flow::all(vec![])))?;
    finish(client)
}

fn carry(shared: &Shared, (client, found): (&TcpStream, &Opened), flows: (Flow, Flow)) -> io::Result<()> {
    let at = shared.recorder.reach(&found.host, found.port);
    tunnel::carry((client, &found.stream), flows, shared.limits.idle, |up, down| shared.recorder.count(at, up, down))
}

fn not_opened(client: &TcpStream, host: &str, port: u16, error: &DialError) -> io::Result<()> {
    let named = host::authority(host.trim_matches(['[', ']']), port);
    match error {
        DialError::Refused(HostRefusal::Unresolved) => {
            status(client, "502 Bad Gateway", &format!("{named} is {}", HostRefusal::Unresolved.reason()))
        }
        DialError::Refused(why) => status(client, "403 Forbidden", &format!("{named} is {}", why.reason())),
        DialError::Failed(error) => {
            status(client, "502 Bad Gateway", &format!("{named} could not be connected to: {error}"))
        }
    }
}

/// Answers with a status of HTTP and one sentence.
fn status(client: &TcpStream, status: &str, sentence: &str) -> io::Result<()> {
    let body = format!("limulus: {sentence}\n");
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\n");
    answer(client, format!("{head}Connection: close\r\n\r\n{body}").as_bytes())
}

/// The last bytes that a client receives.
fn answer(mut client: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    client.write_all(bytes)?;
    finish(client)
}

/// Ends a connection so that the client still reads what was sent: if unread bytes were left, the kernel would reset it.
fn finish(mut client: &TcpStream) -> io::Result<()> {
    client.set_nonblocking(false)?;
    client.shutdown(Shutdown::Write)?;
    let deadline = Instant::now() + Duration::from_millis(PROXY_LEFTOVER_MS);
    client.set_read_timeout(Some(Duration::from_millis(PROXY_LEFTOVER_MS)))?;
    let mut piece = [0; 4096];
    let mut left = PROXY_LEFTOVER_BYTES;
    while let Ok(count @ 1..) = client.read(&mut piece) {
        left = left.saturating_sub(count);
        if left == 0 || Instant::now() >= deadline {
            break;
        }
    }
    Ok(())
}
