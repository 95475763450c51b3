//! What a client may send over TCP, from `corpus/`, changed anywhere: the service answers it, or closes that connection, and serves the
//! next client as if nothing had happened.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use gateway::http::{HttpListener, HttpOptions, Token};
use serde_json::Value;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{self, Message, WebSocket};

use crate::support::Home;

/// How long an answer may take; far longer than any takes.
const PATIENCE: Duration = Duration::from_secs(20);
/// Frames of one connection.
const FRAMES: usize = 12;
/// What JSON may have in any place.
const TOKENS: [&str; 12] = [
    "null",
    "-1",
    "1e400",
    "18446744073709551616",
    "\"\\ud800\"",
    "\"\\u0000\"",
    "[[[[",
    "{\"a\":",
    "\"\"",
    "true",
    "\u{202e}",
    "\r\n",
];

/// A change of a text: where, which, and a byte for it.
type Change = (u16, u8, u8);

/// A line of a corpus, changed.
fn changed(corpus: &str, (line, changes): &(u8, Vec<Change>)) -> Vec<u8> {
    let lines: Vec<&str> = corpus.lines().collect();
    let mut text = lines[usize::from(*line) % lines.len()].as_bytes().to_vec();
    for (at, how, byte) in changes.iter().take(4) {
        let at = usize::from(*at) % (text.len() + 1);
        match how % 7 {
            0 if at < text.len() => text[at] = *byte,
            1 => text.insert(at, *byte),
            2 if at < text.len() => drop(text.remove(at)),
            3 => text.truncate(at),
            4 => {
                let end = text.len().min(at + 16);
                let piece = text[at..end].to_vec();
                text.splice(at..at, piece);
            }
            5 => drop(text.splice(at..at, TOKENS[usize::from(*byte) % TOKENS.len()].bytes())),
            _ => {}
        }
    }
    text
}

/// Where a service listens, and its token.
struct Address {
    address: SocketAddr,
    token: String,
}

/// A service that listens, in a thread of its own, as long as this lives.
struct Served {
    at: Address,
    end: Option<mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Served {
    fn start() -> Self {
        let (started, ready) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let home = Home::new();
                let token = Token::open(&home.path()).unwrap().expose().to_owned();
                let options = HttpOptions { home: home.path(), ..HttpOptions::default() };
                let listener = HttpListener::bind("127.0.0.1:0".parse().unwrap(), options).await.unwrap();
                started.send((listener.address(), token)).unwrap();
                let listening = listener.spawn(home.service.clone());
                let _ = tokio::task::spawn_blocking(move || ended.recv()).await;
                listening.abort();
                home.leave().await;
            });
        });
        let (address, token) = ready.recv().unwrap();
        Self { at: Address { address, token }, end: Some(end), thread: Some(thread) }
    }
}

impl Address {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The status and the body of the response to a request.
    fn ask(&self, head: &str, body: &[u8]) -> (u16, String) {
        let mut stream = self.connect();
        let (host, token, length) = (self.address, &self.token, body.len());
        let head = format!(
            "{head}\r\nhost: {host}\r\nauthorization: Bearer {token}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
        let mut answer = vec![];
        // A stream of events has no end: its beginning is enough.
        let mut piece = [0; 16 << 10];
        loop {
            let read = stream.read(&mut piece).unwrap_or_else(|error| panic!("{head}: {error}"));
            answer.extend_from_slice(&piece[..read]);
            let is_events = answer.windows(17).any(|part| part == b"text/event-stream");
            if read == 0 || is_events && answer.ends_with(b"\r\n\r\n") {
                break;
            }
        }
        let text = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no response: {text:?}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or_else(|| panic!("no status: {head}")), body.to_owned())
    }

    /// Another client is served.
    fn assert_well(&self) {
        assert_eq!(self.ask("GET /readyz HTTP/1.1", b"").0, 200);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.end.take());
        let ended = self.thread.take().map(thread::JoinHandle::join);
        assert!(thread::panicking() || ended.is_some_and(|ended| ended.is_ok()), "the service panicked");
    }
}

/// Whether a response is one that a client can have caused, and says why.
fn assert_response(status: u16, body: &str, asked: &str) {
    assert!(status < 500 || status == 503, "{status} to {asked}: {body}");
    if status >= 400 {
        let problem: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"));
        let error = &problem["error"];
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{asked}: {body}");
        assert!(error["code"].is_string(), "{asked}: {body}");
    }
}

/// R24, R60: any body of a request.
#[test]
fn fuzz_r60_the_bodies_of_requests() {
    let served = Served::start();
    let at = &served.at;
    bolero::check!().with_test_time(Duration::from_secs(2)).with_type::<(u8, Vec<Change>)>().for_each(|change| {
        let line = changed(include_str!("corpus/bodies.txt"), change);
        let Some(begin) = line.iter().position(|byte| *byte == b'{') else { return };
        let (head, body) = line.split_at(begin);
        let path: String = head.iter().filter(|byte| byte.is_ascii_graphic()).map(|byte| char::from(*byte)).collect();
        let path = path.strip_prefix("POST").unwrap_or(&path);
        let (status, answer) = at.ask(&format!("POST /{} HTTP/1.1", path.trim_start_matches('/')), body);
        // What is no path is answered by the server of HTTP itself, without a body.
        if !answer.is_empty() {
            assert_response(status, &answer, &String::from_utf8_lossy(&line));
        }
    });
    at.assert_well();
}

/// R24, R43: any cursor of a stream of events, as a header and as a parameter.
#[test]
fn fuzz_r43_the_cursors_of_events() {
    let served = Served::start();
    let at = &served.at;
    bolero::check!().with_test_time(Duration::from_secs(2)).with_type::<(u8, Vec<Change>)>().for_each(|change| {
        let cursor = changed(include_str!("corpus/cursors.txt"), change);
        let encoded = cursor.iter().map(|byte| format!("%{byte:02x}")).collect::<Vec<_>>().concat();
        let (status, answer) = at.ask(&format!("GET /v1/events?from={encoded} HTTP/1.1"), b"");
        if status != 200 {
            assert_response(status, &answer, &String::from_utf8_lossy(&cursor));
        }
        let plain: String =
            cursor.iter().filter(|byte| byte.is_ascii_graphic()).map(|byte| char::from(*byte)).collect();
        let (status, answer) = at.ask(&format!("GET /v1/events HTTP/1.1\r\nlast-event-id: {plain}"), b"");
        if status != 200 {
            assert_response(status, &answer, &plain);
        }
    });
    at.assert_well();
}

/// R24, R60: any frames of a WebSocket, before and after the handshake, of our own clients and of OpenClaw's.
#[test]
fn fuzz_r60_the_frames_of_a_websocket() {
    let served = Served::start();
    let at = &served.at;
    bolero::check!().with_test_time(Duration::from_secs(2)).with_type::<(bool, Vec<(u8, Vec<Change>)>)>().for_each(
        |(is_let_in, frames)| {
            let request = format!("ws://{}/", at.address).into_client_request().unwrap();
            let (mut socket, _) = tungstenite::client(request, at.connect()).unwrap();
            let corpus = include_str!("corpus/frames.txt").replace("TOKEN", &at.token);
            if *is_let_in {
                let first = corpus.lines().nth(usize::from(frames.len() % 2 == 0) * 2).unwrap();
                socket.send(Message::text(first)).unwrap();
                assert!(answers(&mut socket), "it is let in");
            }
            for frame in frames.iter().take(FRAMES) {
                let frame = changed(&corpus, frame);
                let message = match String::from_utf8(frame) {
                    Ok(text) => Message::text(text),
                    Err(error) => Message::binary(error.into_bytes()),
                };
                if socket.send(message).is_err() {
                    break;
                }
            }
            // All that was sent is read before this is answered, or the connection is closed.
            let _ = socket.send(Message::Ping(vec![7].into()));
            loop {
                match socket.read() {
                    Ok(Message::Pong(_)) => break,
                    Ok(_) => {}
                    Err(tungstenite::Error::Io(error)) if error.kind() == std::io::ErrorKind::WouldBlock => {
                        panic!("no answer to {frames:?}")
                    }
                    Err(_) => break,
                }
            }
        },
    );
    at.assert_well();
}

/// Whether the next response is a good one.
fn answers(socket: &mut WebSocket<TcpStream>) -> bool {
    loop {
        match socket.read() {
            Ok(Message::Text(text)) => {
                let frame: Value = serde_json::from_str(&text).unwrap();
                if frame["type"] == "res" {
                    return frame["ok"] == true;
                }
            }
            Ok(_) => {}
            Err(error) => panic!("{error}"),
        }
    }
}
