//! A model server that handles each request as a test has planned, and records the requests. The tests provide the
//! bodies.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde_json::Value;

/// What is done with a request.
pub(crate) enum Does {
    /// These bytes, and the connection is closed.
    Answer(String),
    /// These bytes, then nothing more until the client goes.
    Hold(String),
    /// These bytes, then this again and again until the client goes.
    Ping(String, String),
}

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// The key in its header.
    pub(crate) key: String,
    pub(crate) model: String,
    pub(crate) body: Value,
}

/// The server. Its threads end with the process of the tests.
pub(crate) struct Planned {
    /// `http://ADDRESS/v1`.
    pub(crate) base_url: String,
    seen: Arc<Mutex<Vec<Asked>>>,
}

impl Planned {
    /// Starts one; `plan` is asked with the number of each request from 0.
    pub(crate) fn start(plan: impl Fn(usize, &Asked) -> Does + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let base_url = format!("http://{}/v1", listener.local_addr().expect("bound"));
        let seen = Arc::new(Mutex::new(vec![]));
        let (plan, log) = (Arc::new(plan), Arc::clone(&seen));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (plan, log) = (Arc::clone(&plan), Arc::clone(&log));
                // A thread each, so that a blocked connection blocks no other. A killed client breaks its connection.
                thread::spawn(move || serve(stream, &log, &*plan));
            }
        });
        Self { base_url, seen }
    }

    /// All that was asked so far, in order.
    pub(crate) fn seen(&self) -> Vec<Asked> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The model and the key of each request so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.seen().iter().map(|asked| format!("{} {}", asked.model, asked.key)).collect()
    }

    /// Waits until so many requests have come.
    #[track_caller]
    pub(crate) fn until_asked(&self, times: usize) {
        super::until("a request", || self.seen().len() >= times);
    }
}

fn serve(stream: TcpStream, log: &Mutex<Vec<Asked>>, plan: &(impl Fn(usize, &Asked) -> Does + ?Sized)) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reader = BufReader::new(stream);
    let asked = request(&mut reader)?;
    let number = {
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        log.push(asked.clone());
        log.len() - 1
    };
    let mut stream = reader.into_inner();
    match plan(number, &asked) {
        Does::Answer(bytes) => stream.write_all(bytes.as_bytes()).ok(),
        Does::Hold(bytes) => {
            stream.write_all(bytes.as_bytes()).ok()?;
            let _ = stream.read(&mut [0; 16]);
            None
        }
        Does::Ping(bytes, again) => {
            stream.write_all(bytes.as_bytes()).ok()?;
            loop {
                // waits: this is the server's own pace, not a condition.
                thread::sleep(std::time::Duration::from_millis(50));
                stream.write_all(again.as_bytes()).ok()?;
            }
        }
    }
}

fn request(reader: &mut BufReader<TcpStream>) -> Option<Asked> {
    let (mut length, mut key, mut path) = (0, String::new(), String::new());
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        let Some((name, value)) = line.split_once(':').filter(|_| !path.is_empty()) else {
            line.split(' ').nth(1)?.clone_into(&mut path);
            continue;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "authorization" => value.trim().trim_start_matches("Bearer ").clone_into(&mut key),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body: Value = serde_json::from_slice(&body).ok()?;
    // Gemini has it in the path.
    let model = body["model"].as_str().unwrap_or(&path).to_owned();
    Some(Asked { key, model, body })
}

/// The head of a stream that ends with its connection.
pub(crate) const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

/// A stream of chat completions with these words, without its end.
pub(crate) fn said(words: &[&str]) -> String {
    let frames = words.iter().map(|word| {
        let frame = serde_json::json!({ "choices": [{ "index": 0, "delta": { "content": word } }] });
        format!("data: {frame}\n\n")
    });
    STREAM.to_owned() + &frames.collect::<String>()
}

/// The same with its end.
pub(crate) fn whole(words: &[&str]) -> String {
    let end = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    said(words) + end
}
