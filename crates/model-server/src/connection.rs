//! One connection: reads requests and writes answers until the client closes it.

use std::io;
use std::time::{Duration, SystemTime};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::answer::{self, Asked};
use super::fault::{Fault, Odd};
use super::odd::{self, Then};
use super::{Seen, Shared, wire};

/// Maximum bytes of a request's head; our clients send less.
const HEAD_BYTES: usize = 64 << 10;
/// Maximum bytes of a request's body: enough for the longest history of any test.
const BODY_BYTES: usize = 256 << 20;
/// Milliseconds between pieces without content: far less than the shortest idle timeout.
const REPEAT_MS: u64 = 50;

/// How to answer a request.
enum Verdict {
    Stream(Box<Asked>, Option<Fault>),
    Send(Vec<u8>),
    Hang,
    Odd(Box<Asked>, Odd),
}

/// Answers requests until the client closes the connection.
pub(super) async fn serve(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut unread = vec![];
    while let Some((path, body)) = next_request(&mut stream, &mut unread).await? {
        let (verdict, wait_ms) = verdict(&path, &body, shared);
        pause(wait_ms).await;
        match verdict {
            Verdict::Stream(asked, fault) => match send(&mut stream, &asked, fault).await {
                Ok(Sent::Whole) => {}
                Ok(Sent::Cut) => return stream.shutdown().await,
                Ok(Sent::Stalled) => return gone(&mut stream, &mut unread).await,
                Err(error) => {
                    shared.was_hung_up_on();
                    return Err(error);
                }
            },
            Verdict::Send(bytes) => stream.write_all(&bytes).await?,
            Verdict::Hang => return gone(&mut stream, &mut unread).await,
            Verdict::Odd(asked, Odd::Late) => {
                gone(&mut stream, &mut unread).await?;
                return stream.write_all(&odd::answer(&asked, Odd::Late).0).await;
            }
            Verdict::Odd(asked, odd) => {
                let (bytes, then) = odd::answer(&asked, odd);
                stream.write_all(&bytes).await?;
                match then {
                    Then::Keep => {}
                    Then::Close => return stream.shutdown().await,
                    Then::Reset => return stream.set_zero_linger(),
                    Then::Wait => return gone(&mut stream, &mut unread).await,
                    Then::Repeat(piece) => return repeat(&mut stream, &piece).await,
                }
            }
        }
    }
    Ok(())
}

/// Sends the same piece again and again until the client gives up.
async fn repeat(stream: &mut TcpStream, piece: &[u8]) -> io::Result<()> {
    loop {
        stream.write_all(piece).await?;
        pause(REPEAT_MS).await;
    }
}

/// Sends nothing until the client gives up.
async fn gone(stream: &mut TcpStream, unread: &mut Vec<u8>) -> io::Result<()> {
    while stream.read_buf(unread).await? > 0 {}
    Ok(())
}

/// The path and the body of the next request; none if the client closed the connection.
async fn next_request(stream: &mut TcpStream, unread: &mut Vec<u8>) -> io::Result<Option<(String, Vec<u8>)>> {
    let end = loop {
        if let Some(at) = unread.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break at + 4;
        }
        if unread.len() > HEAD_BYTES {
            return Err(io::Error::other("the head of the request is too long"));
        }
        if stream.read_buf(unread).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&unread[..end]).into_owned();
    let length = content_length(&head).filter(|length| *length <= BODY_BYTES);
    let length = length.ok_or_else(|| io::Error::other("a request needs a content-length within bounds"))?;
    unread.drain(..end);
    while unread.len() < length {
        if stream.read_buf(unread).await? == 0 {
            return Ok(None);
        }
    }
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    Ok(Some((path, unread.drain(..length).collect())))
}

fn content_length(head: &str) -> Option<usize> {
    let fields = head.lines().filter_map(|line| line.split_once(':'));
    let mut lengths = fields.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    lengths.next().map_or(Some(0), |(_, value)| value.trim().parse().ok())
}

/// How to answer a request, and how many milliseconds to wait before.
fn verdict(path: &str, body: &[u8], shared: &Shared) -> (Verdict, u64) {
    if path.starts_with(odd::ELSEWHERE) {
        shared.violated("a redirect was followed");
    }
    if path.ends_with("/models") {
        return (Verdict::Send(wire::models()), 0);
    }
    if path.starts_with(odd::ELSEWHERE) || !path.ends_with("/chat/completions") {
        return (Verdict::Send(wire::refusal(404, &format!("nothing at {path}"), None, None)), 0);
    }
    let asked = match answer::read(body) {
        Ok(asked) => asked,
        Err(message) => {
            shared.violated(&message);
            return (Verdict::Send(wire::refusal(400, &message, None, None)), 0);
        }
    };
    let fault = asked.script.fault.filter(|_| asked.results >= asked.script.after);
    let fault = fault.filter(|fault| shared.counts_fault(&asked.text, fault.times()));
    let status = if let Some(Fault::Status { status, .. }) = fault { status } else { 200 };
    let (script, messages, results) = (asked.text.clone(), asked.messages, asked.results);
    shared.record(Seen { script, messages, results, status, at: SystemTime::now() });
    let wait_ms = if fault.is_some() { asked.script.fault_ms } else { 0 };
    let verdict = match fault {
        None | Some(Fault::Cut { .. } | Fault::Stall { .. }) => Verdict::Stream(Box::new(asked), fault),
        Some(Fault::Hang { .. }) => Verdict::Hang,
        Some(Fault::Odd { odd, .. }) => Verdict::Odd(Box::new(asked), odd),
        Some(Fault::Status { status, .. }) => {
            let message = match status {
                404 => format!("the model `{}` does not exist", asked.model),
                _ => "refused as the script says".to_owned(),
            };
            let retry_after = asked.script.retry_after.as_ref();
            Verdict::Send(wire::refusal(status, &message, asked.script.wording, retry_after))
        }
    };
    (verdict, wait_ms)
}

/// How the sending of an answer ended.
enum Sent {
    Whole,
    Cut,
    Stalled,
}

/// Streams an answer, up to the fault if it has one.
async fn send(stream: &mut TcpStream, asked: &Asked, fault: Option<Fault>) -> io::Result<Sent> {
    pause(asked.script.first_byte_timeout_ms).await;
    stream.write_all(wire::STREAM_HEAD).await?;
    let (mut words_sent, begun) = (0, Instant::now());
    for frame in wire::frames(asked) {
        if frame.is_word {
            pause(asked.script.delay_ms).await;
            if let Some(rate) = asked.script.rate {
                tokio::time::sleep_until(begun + Duration::from_secs(1) * words_sent / rate).await;
            }
            match fault {
                Some(Fault::Cut { words, .. }) if words == words_sent => return Ok(Sent::Cut),
                Some(Fault::Stall { words, .. }) if words == words_sent => return Ok(Sent::Stalled),
                _ => words_sent += 1,
            }
        }
        stream.write_all(&frame.bytes()).await?;
    }
    stream.write_all(wire::LAST_CHUNK).await?;
    Ok(Sent::Whole)
}

async fn pause(ms: u64) {
    if ms > 0 {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}
