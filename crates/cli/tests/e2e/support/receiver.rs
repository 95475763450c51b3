//! A program that receives webhooks: it records each request and answers with the status that the test has set.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde_json::Value;

use super::until;

/// A request that came.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    /// Its headers; names in lower case.
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("a JSON body")
    }
}

#[derive(Debug, Default)]
struct State {
    status: u16,
    seen: Vec<Received>,
}

/// The receiver. Its threads end with the process of the tests.
pub(crate) struct Receiver {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
}

impl Receiver {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/hook", listener.local_addr().expect("bound"));
        let state = Arc::new(Mutex::new(State { status: 200, seen: vec![] }));
        let kept = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = Arc::clone(&kept);
                // A client that is killed breaks its connection.
                thread::spawn(move || serve(stream, &kept));
            }
        });
        Self { url, state }
    }

    /// What it answers from now on; 0 = it takes a request and never answers.
    pub(crate) fn answers(&self, status: u16) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).status = status;
    }

    /// What came so far, in order.
    pub(crate) fn seen(&self) -> Vec<Received> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).seen.clone()
    }

    pub(crate) fn until_seen(&self, times: usize) {
        until("the webhook receives it", || self.seen().len() >= times);
    }
}

fn serve(stream: TcpStream, state: &Mutex<State>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut headers = vec![];
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(": ") {
            headers.push((name.to_lowercase(), value.to_owned()));
        }
    }
    let length = headers.iter().find(|(name, _)| name == "content-length")?.1.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = String::from_utf8(body).ok()?;
    let status = {
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        state.seen.push(Received { headers, body });
        state.status
    };
    if status == 0 {
        // Until the client goes.
        let _ = reader.read(&mut [0]);
        return None;
    }
    let mut stream = stream;
    write!(stream, "HTTP/1.1 {status} x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").ok()
}
