//! Interrupts every recorded answer at every byte: the result always has a type, never a false end, and never another
//! text.

use engine::FailureClass;
use models::{Model, ModelSet};

use super::{CALLS, ERROR_IN_STREAM, HTML, NO_DONE, OVERLOADED, REASONING, TEXT};
use crate::support::{Answer, Reply, read, request_to, serve, sized, until_close};

/// Serves the first n bytes of an answer to request n; returns the result of each request.
async fn cuts(bytes: Vec<u8>) -> Vec<Answer> {
    let count = bytes.len() + 1;
    let server = serve(move |number| Reply::Close(bytes[..number].to_vec())).await;
    let model = ModelSet::new();
    let mut answers = Vec::with_capacity(count);
    for _ in 0..count {
        answers.push(read(model.stream(request_to(&server.base_url))).await);
    }
    answers
}

/// The byte at which the answer is complete: after the line with the finish reason.
fn whole_at(bytes: &[u8]) -> Option<usize> {
    let text = str::from_utf8(bytes).unwrap();
    let finish =
        [r#""finish_reason":"stop""#, r#""finish_reason":"tool_calls""#].iter().find_map(|mark| text.find(mark))?;
    Some(finish + text[finish..].find('\n').unwrap() + 1)
}

async fn check(body: &str, bytes: Vec<u8>) {
    let whole_at = whole_at(&bytes);
    let answers = cuts(bytes).await;
    let last = answers.last().unwrap();
    for (cut, answer) in answers.iter().enumerate() {
        let begin = &body[..40];
        let ended = answer.end.as_ref().unwrap().is_ok();
        assert_eq!(ended, whole_at.is_some_and(|whole| cut >= whole), "{begin} cut at {cut}: {answer:?}");
        assert!(last.text.starts_with(&answer.text), "{begin} cut at {cut}");
        assert!(last.reasoning.starts_with(&answer.reasoning), "{begin} cut at {cut}");
        for (call, whole) in answer.calls.iter().zip(&last.calls) {
            assert!((&call.0, &call.1) == (&whole.0, &whole.1) && whole.2.starts_with(&call.2), "{begin} cut at {cut}");
        }
        assert!(answer.calls.len() <= last.calls.len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c2_c3_p09_an_answer_without_length_interrupted_at_every_byte() {
    for body in [TEXT, CALLS, REASONING, NO_DONE] {
        check(body, until_close(body.as_bytes())).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c2_c3_p09_an_answer_with_length_interrupted_at_every_byte() {
    for body in [TEXT, CALLS] {
        check(body, sized(body.as_bytes())).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c5_an_error_interrupted_at_every_byte() {
    for (body, class) in [
        (ERROR_IN_STREAM, FailureClass::Server),
        (OVERLOADED, FailureClass::Overloaded),
        (HTML, FailureClass::Malformed),
    ] {
        let answers = cuts(until_close(body.as_bytes())).await;
        for answer in &answers {
            assert!([class, FailureClass::Network].contains(&answer.failure().class), "{:?}", answer.failure());
        }
        assert_eq!(answers.last().unwrap().failure().class, class);
    }
}
