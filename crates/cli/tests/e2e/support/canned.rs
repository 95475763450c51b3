//! A server that returns fixed responses to any request, and records the requests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};

use serde_json::Value;

/// A server with these response bodies, one for each request. Returns its address and the bodies of the requests.
pub(crate) fn serve<const N: usize>(bodies: [String; N]) -> (String, Receiver<Value>) {
    serve_whole(bodies.map(|body| answered(&body)))
}

/// A success with this body.
pub(crate) fn answered(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

/// A refusal with this status and body.
pub(crate) fn refused(status: u16, body: &Value) -> String {
    let body = body.to_string();
    let head = format!("HTTP/1.1 {status} Refused\r\ncontent-type: application/json\r\nconnection: close");
    format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// A server that gives these answers, heads and bodies.
pub(crate) fn serve_whole(answers: impl Into<Vec<String>>) -> (String, Receiver<Value>) {
    let answers = answers.into();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}/v1", listener.local_addr().expect("bound"));
    let (send, bodies) = mpsc::channel();
    std::thread::spawn(move || {
        for answer in answers {
            let (stream, _) = listener.accept().expect("a connection");
            exchange(stream, &answer, &send);
        }
    });
    (address, bodies)
}

fn exchange(stream: TcpStream, answer: &str, bodies: &Sender<Value>) {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line of the head");
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a number");
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    // Before the answer: who has been answered finds it there. A test that has seen enough is gone.
    let _ = bodies.send(serde_json::from_slice(&body).expect("JSON"));
    reader.into_inner().write_all(answer.as_bytes()).expect("it is read");
}

/// The values of all fields with this name, at any depth.
pub(crate) fn all(value: &Value, name: &str) -> Vec<Value> {
    match value {
        Value::Object(fields) => {
            let own = fields.get(name).cloned();
            own.into_iter().chain(fields.values().flat_map(|value| all(value, name))).collect()
        }
        Value::Array(values) => values.iter().flat_map(|value| all(value, name)).collect(),
        _ => vec![],
    }
}
