//! A model server whose every word is the time at which it was sent, so that a reader can compute its age.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::Problem;

/// Words of an answer.
const WORDS: usize = 400;
/// The pause between two words.
const APART: Duration = Duration::from_millis(5);

/// Times are counted from here.
static BEGAN: OnceLock<Instant> = OnceLock::new();

/// It lives as long as this process.
pub(super) struct Stamped {
    pub(super) base_url: String,
}

impl Stamped {
    pub(super) fn start() -> Result<Self, Problem> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let base_url = format!("http://{}/v1", listener.local_addr()?);
        BEGAN.get_or_init(Instant::now);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that disconnects does not matter here.
                thread::spawn(move || drop(answer(stream)));
            }
        });
        Ok(Self { base_url })
    }

    /// The age of the last word of a text, ms.
    pub(super) fn age_ms(text: &str) -> Option<f64> {
        let sent: u64 = text.split_whitespace().last()?.parse().ok()?;
        Some((now_us().saturating_sub(sent)) as f64 / 1e3)
    }
}

fn now_us() -> u64 {
    BEGAN.get_or_init(Instant::now).elapsed().as_micros() as u64
}

fn answer(stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    let (mut length, mut line) = (0, String::new());
    while reader.read_line(&mut line)? > 2 {
        let field = line.to_ascii_lowercase();
        length = field.strip_prefix("content-length:").and_then(|value| value.trim().parse().ok()).unwrap_or(length);
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let mut stream = reader.into_inner();
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")?;
    for _ in 0..WORDS {
        thread::sleep(APART);
        let delta = json!({ "content": format!("{} ", now_us()) });
        let chunk = json!({ "choices": [{ "index": 0, "delta": delta }] });
        stream.write_all(format!("data: {chunk}\n\n").as_bytes())?;
    }
    let end = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] });
    stream.write_all(format!("data: {end}\n\ndata: [DONE]\n\n").as_bytes())
}
