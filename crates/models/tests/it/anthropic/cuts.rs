//! Interrupts every recorded answer at every byte: the result always has a type, never a false end, and never another
//! answer.

use engine::FailureClass;
use models::{Api, BlockContent, ContentBlock, Model, ModelSet};

use super::{CALLS, OVERLOADED, REFUSAL, TEXT};
use crate::support::{Answer, Reply, read, request_of, serve, sized, until_close};

/// Serves the first n bytes of an answer to request n; returns the result of each request.
async fn cuts(bytes: Vec<u8>) -> Vec<Answer> {
    let count = bytes.len() + 1;
    let server = serve(move |number| Reply::Close(bytes[..number].to_vec())).await;
    let model = ModelSet::new();
    let mut answers = Vec::with_capacity(count);
    for _ in 0..count {
        answers.push(read(model.stream(request_of(Api::Anthropic, &server.base_url))).await);
    }
    answers
}

/// The byte at which the answer is complete: after the line with the stop reason.
fn whole_at(bytes: &[u8]) -> usize {
    let text = str::from_utf8(bytes).unwrap();
    let stop = text.find("data: {\"type\":\"message_delta\"").unwrap();
    stop + text[stop..].find('\n').unwrap() + 1
}

/// Whether a block is a beginning of the complete block.
fn begins(block: &ContentBlock, whole: &ContentBlock) -> bool {
    let held = match (&block.held, &whole.held) {
        (BlockContent::Text(part), BlockContent::Text(all))
        | (BlockContent::Reasoning(part), BlockContent::Reasoning(all)) => all.starts_with(&**part),
        (BlockContent::Call(part), BlockContent::Call(all)) => {
            (&part.provider_id, &part.tool) == (&all.provider_id, &all.tool)
                && all.arguments.starts_with(&*part.arguments)
        }
        (part, all) => part == all,
    };
    held && (block.signature.is_none() || block == whole)
}

async fn check(name: &str, bytes: Vec<u8>) {
    let whole_at = whole_at(&bytes);
    let answers = cuts(bytes).await;
    let last = answers.last().unwrap();
    for (cut, answer) in answers.iter().enumerate() {
        if cut >= whole_at {
            assert_eq!(answer, last, "{name} cut at {cut}");
            continue;
        }
        assert_eq!(answer.failure().class, FailureClass::Network, "{name} cut at {cut}: {answer:?}");
        let (Some((open, finished)), at) = (answer.blocks.split_last(), answer.blocks.len()) else { continue };
        assert_eq!(finished, &last.blocks[..at - 1], "{name} cut at {cut}");
        assert!(begins(open, &last.blocks[at - 1]), "{name} cut at {cut}: {open:?}");
    }
    last.usage();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c2_c3_p09_an_answer_without_length_interrupted_at_every_byte() {
    check("calls", until_close(CALLS.as_bytes())).await;
    check("text", until_close(TEXT.as_bytes())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c2_c3_p09_an_answer_with_length_interrupted_at_every_byte() {
    check("text", sized(TEXT.as_bytes())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c5_an_error_interrupted_at_every_byte() {
    for (body, class) in [(OVERLOADED, FailureClass::Overloaded), (REFUSAL, FailureClass::InvalidRequest)] {
        let answers = cuts(until_close(body.as_bytes())).await;
        for answer in &answers {
            assert!([class, FailureClass::Network].contains(&answer.failure().class), "{:?}", answer.failure());
        }
        assert_eq!(answers.last().unwrap().failure().class, class);
    }
}
