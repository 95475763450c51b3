//! P09: the connection is closed or reset after byte k, for every k, also in the middle of a chunk.

use engine::FailureClass;
use models::{Model, ModelSet};

use super::{WIRES, Wire};
use crate::support::{Answer, Reply, chunked, read, request_of, serve, until_close};

/// Sends one request for each k from 0 on and returns the results; `reply` gets k.
async fn each(wire: &Wire, count: usize, reply: impl Fn(usize) -> Reply + Send + Sync + 'static) -> Vec<Answer> {
    let server = serve(reply).await;
    let model = ModelSet::new();
    let mut answers = Vec::with_capacity(count);
    for _ in 0..count {
        answers.push(read(model.stream(request_of(wire.api, &server.base_url))).await);
    }
    answers
}

/// Before the mark, the result is a broken connection; after it, also the complete answer. It is never another text.
fn check(wire: &Wire, whole: &Answer, answers: &[Answer], whole_from: usize) {
    for (cut, answer) in answers.iter().enumerate() {
        let of = format!("{:?} cut at {cut}: {answer:?}", wire.api);
        match answer.end.as_ref().unwrap() {
            Ok(_) => assert!(cut >= whole_from && (&answer.text, &answer.calls) == (&whole.text, &whole.calls), "{of}"),
            Err(failure) => assert_eq!(failure.class, FailureClass::Network, "{of}"),
        }
        assert!(whole.text.starts_with(&answer.text) && whole.reasoning.starts_with(&answer.reasoning), "{of}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c2_c3_p09_a_reset_at_every_byte() {
    for wire in &WIRES {
        let whole = wire.whole().await;
        let bytes = until_close(wire.body.as_bytes());
        let head = bytes.len() - wire.body.len();
        let answers = each(wire, bytes.len(), move |cut| Reply::Reset(bytes[..cut].to_vec())).await;
        check(wire, &whole, &answers, head + wire.whole_at());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c2_c3_p09_chunks_interrupted_at_every_byte() {
    for wire in &WIRES {
        let whole = wire.whole().await;
        let bytes = chunked(wire.body.as_bytes(), 50);
        // The byte of the chunked body before which no part of the mark can have arrived.
        let mark = wire.whole_at() - 1;
        let ends: usize = (0..=mark / 50).map(|at| format!("{:x}\r\n", chunk_length(wire, at)).len() + 2).sum();
        let head = head_of(&bytes);
        let answers = each(wire, bytes.len(), move |cut| Reply::Close(bytes[..cut].to_vec())).await;
        check(wire, &whole, &answers, head + mark + ends - 2);
    }
}

fn chunk_length(wire: &Wire, at: usize) -> usize {
    (wire.body.len() - at * 50).min(50)
}

fn head_of(bytes: &[u8]) -> usize {
    bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4
}
