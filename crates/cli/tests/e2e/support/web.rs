//! A client of HTTP and WebSocket that is no part of the product: requests as they are written, and what comes back.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;
use tungstenite::client::IntoClientRequest as _;
use tungstenite::{Message, WebSocket};

use super::{Home, Process};

/// How long a client waits for anything.
const PATIENCE: Duration = Duration::from_mins(1);

/// A service, and where it listens.
pub(crate) struct Web {
    pub(crate) service: Process,
    pub(crate) address: String,
    pub(crate) token: String,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Web {
    /// Starts a service in this home, at a port that is free.
    pub(crate) fn start(home: &Home) -> Self {
        let service = home.start(&["serve", "--json", "--listen", "127.0.0.1:0"]);
        let ready = service.until_line("ready", |line| line["type"] == "ready");
        let address = ready["listensAt"].as_str().expect("it listens").to_owned();
        let token = home.run(&["gateway", "token"]).expect_code(0).out.trim_end().to_owned();
        Self { service, address, token }
    }

    /// The address of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Sends a request with the token.
    pub(crate) fn ask(&self, request: &str, body: &Value) -> Answer {
        self.ask_with(request, &[("authorization", &format!("Bearer {}", self.token))], body)
    }

    /// The same with another token.
    pub(crate) fn ask_as(&self, token: &str, request: &str, body: &Value) -> Answer {
        self.ask_with(request, &[("authorization", &format!("Bearer {token}"))], body)
    }

    /// The same with these headers, and none besides. No body if it is null.
    pub(crate) fn ask_with(&self, request: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        let mut stream = self.connect();
        let host = [("host", self.address.as_str())];
        let host = if headers.iter().any(|(name, _)| *name == "host") { &[][..] } else { &host[..] };
        let lines =
            host.iter().chain(headers).map(|(name, value)| format!("{name}: {value}\r\n")).collect::<Vec<_>>().concat();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let length = body.len();
        write!(stream, "{request} HTTP/1.1\r\n{lines}connection: close\r\ncontent-length: {length}\r\n\r\n{body}")
            .expect("it is read");
        Answer::read(stream)
    }

    /// Begins to read events, one after the other.
    pub(crate) fn events(&self, path: &str, headers: &[(&str, &str)]) -> EventReader {
        self.events_as(&self.token, path, headers)
    }

    /// The same with another token.
    pub(crate) fn events_as(&self, token: &str, path: &str, headers: &[(&str, &str)]) -> EventReader {
        let mut stream = self.connect();
        let lines = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect::<Vec<_>>().concat();
        let host = &self.address;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n{lines}\r\n")
            .expect("it is read");
        let mut reader = EventReader(BufReader::new(stream));
        while !reader.line().is_empty() {}
        reader
    }

    /// Connects a WebSocket, without a handshake of the protocol.
    pub(crate) fn websocket(&self, headers: &[(&'static str, &str)]) -> Result<WebSocket<TcpStream>, String> {
        let mut request = format!("ws://{}/", self.address).into_client_request().expect("an address");
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().expect("a header"));
        }
        let connected = tungstenite::client(request, self.connect()).map_err(|error| error.to_string());
        connected.map(|(socket, _)| socket)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    }
}

impl Answer {
    fn read(mut stream: TcpStream) -> Self {
        let mut bytes = vec![];
        stream.read_to_end(&mut bytes).expect("it answers");
        let text = String::from_utf8(bytes).expect("UTF-8");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let is_chunked = head.to_lowercase().contains("transfer-encoding: chunked");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let body = if is_chunked { joined(body) } else { body.to_owned() };
        Self { status, head: head.to_lowercase(), body }
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// The data of its events.
    pub(crate) fn data(&self) -> Vec<&str> {
        self.body.lines().filter_map(|line| line.strip_prefix("data: ")).collect()
    }
}

/// The body of a response in chunks.
fn joined(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((length, behind)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).expect("a length");
        body += &behind[..length];
        rest = behind[length..].strip_prefix("\r\n").unwrap_or_default();
    }
    body
}

/// Reads events as they come.
pub(crate) struct EventReader(BufReader<TcpStream>);

impl EventReader {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("it is sent");
        line.trim_end().to_owned()
    }

    /// The id and the data of the next event; none at the end. An event comes in one chunk.
    pub(crate) fn next(&mut self) -> Option<(String, Value)> {
        let mut id = String::new();
        loop {
            let line = self.line();
            if line == "0" {
                return None;
            }
            if let Some(cursor) = line.strip_prefix("id: ") {
                cursor.clone_into(&mut id);
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return Some((id, serde_json::from_str(data).expect("JSON")));
            }
        }
    }
}

/// The next frame of a WebSocket; none when it was closed.
pub(crate) fn frame(socket: &mut WebSocket<TcpStream>) -> Option<Value> {
    frame_of(socket)
}

/// The same over any stream.
pub(crate) fn frame_of<S: Read + Write>(socket: &mut WebSocket<S>) -> Option<Value> {
    loop {
        match socket.read() {
            Ok(Message::Text(text)) => return Some(serde_json::from_str(&text).expect("a frame")),
            Ok(Message::Close(_)) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

/// Sends a frame.
pub(crate) fn put(socket: &mut WebSocket<TcpStream>, frame: &Value) {
    socket.send(Message::text(frame.to_string())).expect("it is read");
}
