//! Interrupts an answer at every byte: the result always has a type, never a false end, and never another text.

#![allow(clippy::print_stdout, reason = "the number of cases, printed with --nocapture")]

use engine::FailureClass;
use models::{Model, ModelSet, Request};

use crate::support::{Answer, Reply, chunked, read, serve, sized, until_close};

/// A recorded answer.
pub(crate) struct Canned<'a> {
    pub(crate) body: &'a str,
    /// The number of bytes from which the answer is complete; none = never.
    pub(crate) whole_at: Option<usize>,
}

/// Serves the first n bytes of an answer to request n; returns the result of each request.
pub(crate) async fn cuts(bytes: Vec<u8>, request: impl Fn(&str) -> Request) -> Vec<Answer> {
    let count = bytes.len() + 1;
    let server = serve(move |number| Reply::Close(bytes[..number].to_vec())).await;
    let model = ModelSet::new();
    let mut answers = Vec::with_capacity(count);
    for _ in 0..count {
        answers.push(read(model.stream(request(&server.base_url))).await);
    }
    answers
}

/// Interrupts an answer that ends with its connection, and one with a length.
pub(crate) async fn check_cuts(canned: &Canned<'_>, request: impl Fn(&str) -> Request) {
    for bytes in [until_close(canned.body.as_bytes()), sized(canned.body.as_bytes())] {
        let head = bytes.len() - canned.body.len();
        let whole_at = canned.whole_at.map(|at| head + at);
        let answers = cuts(bytes, &request).await;
        let last = answers.last().unwrap();
        println!("interrupted at each of {} bytes", answers.len());
        for (cut, answer) in answers.iter().enumerate() {
            let is_whole = whole_at.is_some_and(|whole| cut >= whole);
            assert_eq!(answer.end.as_ref().unwrap().is_ok(), is_whole, "cut at {cut}: {answer:?}");
            if is_whole {
                assert_eq!(answer.usage(), last.usage(), "cut at {cut}");
            } else {
                assert_eq!(answer.failure().class, FailureClass::Network, "cut at {cut}: {answer:?}");
            }
            check_begins(answer, last, cut);
        }
    }
}

/// The interrupted answer is the beginning of the complete one.
fn check_begins(answer: &Answer, whole: &Answer, cut: usize) {
    assert!(whole.text.starts_with(&answer.text), "cut at {cut}");
    assert!(whole.reasoning.starts_with(&answer.reasoning), "cut at {cut}");
    assert!(answer.calls.len() <= whole.calls.len() && answer.blocks.len() <= whole.blocks.len(), "cut at {cut}");
    for (call, whole) in answer.calls.iter().zip(&whole.calls) {
        assert!((&call.0, &call.1) == (&whole.0, &whole.1) && whole.2.starts_with(&call.2), "cut at {cut}");
    }
    for (block, whole) in answer.blocks.iter().zip(&whole.blocks) {
        assert!(block.signature.is_none() || block.signature == whole.signature, "cut at {cut}");
    }
}

/// An answer is the same in pieces of any size.
pub(crate) async fn check_pieces(body: &str, request: impl Fn(&str) -> Request) {
    let ask = async |bytes: Vec<u8>| {
        let server = serve(move |_| Reply::Keep(bytes.clone())).await;
        read(ModelSet::new().stream(request(&server.base_url))).await
    };
    let whole = ask(sized(body.as_bytes())).await;
    for body in [body.to_owned(), body.replace('\n', "\r\n")] {
        for size in [1, 2, 3, 7, 64, 1000, body.len()] {
            assert_eq!(ask(chunked(body.as_bytes(), size)).await, whole, "pieces of {size}");
        }
    }
}
