//! Sends histories through the official clients of two providers (`sdks/`, in Python) to a local server, which checks
//! the requests against the rules. The clients check them against their own types before.
//!
//! It needs Python with three modules: `SDKS_PYTHON`, which `.ci/run` sets, else `python3`. `SDKS_HISTORIES` sets the
//! number of histories; all ten thousand take minutes.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use models::{Api, Cached};
use serde_json::{Value, json};

use super::served::{SERVED, Sent};
use super::{each_history, mutants, rules};

/// The default number of histories.
const HISTORIES: u32 = 500;

/// The models whose requests are sent. DeepSeek's requests have a field that OpenAI does not know.
const MODELS: [&str; 4] = ["claude-sonnet-5", "claude-haiku-4-5", "gpt-4.1", "gpt-5.4"];

/// The Python to use; `None` if none has the modules. If `SDKS_PYTHON` is set, that is a failure.
fn python() -> Option<String> {
    let named = std::env::var("SDKS_PYTHON").ok();
    let python = named.clone().unwrap_or_else(|| "python3".to_owned());
    let tried = Command::new(&python).args(["-c", "import anthropic, openai, pydantic"]).output();
    if tried.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    let is_ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(!is_ci || named.is_none(), "{python} has not the modules of crates/runtime/tests/it/histories/sdks");
    eprintln!("skipped: no Python with anthropic and openai (crates/runtime/tests/it/histories/sdks/requirements.txt)");
    None
}

/// The requests to send, by number.
struct Requests {
    sent: Vec<(Sent, bool)>,
    /// How many have arrived.
    arrived: AtomicUsize,
    /// The requests that the clients have changed.
    changed: Mutex<Vec<String>>,
}

/// R41: the official clients send each history unchanged, their own types accept it, and the rules accept it. A request
/// that breaks a rule is refused.
#[test]
fn r41_third_party_the_official_clients_send_each_history() {
    let Some(python) = python() else { return };
    let pending = Arc::new(Requests { sent: requests(), arrived: AtomicUsize::new(0), changed: Mutex::default() });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let shared = Arc::clone(&pending);
    thread::spawn(move || listener.incoming().for_each(|socket| connect(socket.unwrap(), Arc::clone(&shared))));
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/histories/sdks");
    let mut child = Command::new(python);
    child.arg(program).arg(server).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = child.env("NO_PROXY", "127.0.0.1").spawn().unwrap();
    let mut lines = child.stdin.take().unwrap();
    for (number, (sent, is_bad)) in pending.sent.iter().enumerate() {
        let line = json!({ "number": number, "api": sent.served.api.name(), "body": sent.body, "is_bad": is_bad });
        if writeln!(lines, "{line}").is_err() {
            break; // It has exited, and its output says why.
        }
    }
    drop(lines);
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed.lines().last(), Some(&*format!("{} sent, 0 wrong", pending.sent.len())), "{printed}");
    assert!(pending.changed.lock().unwrap().is_empty(), "the clients changed {:?}", pending.changed);
    let good = pending.sent.iter().filter(|(_, is_bad)| !is_bad).count();
    assert!(pending.arrived.load(Ordering::SeqCst) >= good, "not all of them have arrived");
}

/// The histories as requests to the models, and for each rule of their formats a request that breaks it.
fn requests() -> Vec<(Sent, bool)> {
    let histories = std::env::var("SDKS_HISTORIES").ok().map_or(HISTORIES, |count| count.parse().unwrap());
    let tools = Cached::from(Arc::from(&tools::specs()[..2]));
    let sent = RefCell::new(vec![]);
    each_history(histories, |case, history| {
        let models = SERVED.iter().filter(|served| MODELS.contains(&served.model));
        let requests = models.map(|served| (served.sent(case.system, &history.messages, &tools), false));
        sent.borrow_mut().extend(requests);
        Ok(())
    });
    let mut sent = sent.into_inner();
    for api in [Api::Anthropic, Api::OpenAiChat, Api::OpenAiResponses] {
        sent.extend(mutants::bad(api).into_iter().map(|bad| (bad.sent, true)));
    }
    sent
}

/// Serves the requests of a connection until it ends.
fn connect(socket: TcpStream, pending: Arc<Requests>) {
    thread::spawn(move || {
        let mut reader = BufReader::new(socket.try_clone().unwrap());
        let mut socket = socket;
        while let Some((number, body)) = request(&mut reader) {
            let answer = answer(&pending, number, &body);
            if socket.write_all(&answer).is_err() {
                return;
            }
        }
    });
}

/// The number of a request, from its header, and its body.
fn request(reader: &mut impl BufRead) -> Option<(usize, Value)> {
    let (mut number, mut length) = (0, 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim().to_lowercase().split_once(": ") {
            Some(("x-number", value)) => number = value.parse().ok()?,
            Some(("content-length", value)) => length = value.parse().ok()?,
            None if line.trim().is_empty() => break,
            Some(_) | None => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((number, serde_json::from_slice(&body).ok()?))
}

/// Accepts the request, or responds with the rules that it breaks.
fn answer(pending: &Requests, number: usize, body: &Value) -> Vec<u8> {
    let (sent, is_bad) = &pending.sent[number];
    pending.arrived.fetch_add(1, Ordering::SeqCst);
    if *body != sent.body && !is_bad {
        pending.changed.lock().unwrap().push(format!("{number}: {body}"));
    }
    let broken = rules::broken(&Sent { served: sent.served, body: body.clone() });
    if broken.is_empty() {
        let end = if sent.served.api == Api::OpenAiChat { "data: [DONE]\n\n" } else { "" };
        return reply("200 OK", "text/event-stream", end);
    }
    let error = json!({ "type": "error", "error": { "type": "invalid_request_error", "message": broken.join(", ") } });
    reply("400 Bad Request", "application/json", &error.to_string())
}

fn reply(status: &str, media_type: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: {media_type}\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
}
