//! Damages answers of every wire format anywhere: bytes are changed, lost, doubled, or copied from another format. The
//! end always has a type, no answer is complete without the provider's own end mark, and memory stays bounded.

#![allow(clippy::print_stdout, reason = "which case it was, when one fails")]

use models::{Api, Model, ModelSet};

use crate::support::{Answer, Reply, read, request_of, serve, sized};

/// Damaged answers of each format.
const CASES: u64 = 2_000;

/// A format with recorded answers, and marks; every complete answer of the format contains one of these.
struct Recorded {
    api: Api,
    answers: &'static [&'static str],
    marks: &'static [&'static str],
}

const RECORDED: &[Recorded] = &[
    Recorded {
        api: Api::OpenAiChat,
        answers: &[include_str!("../wire/calls.txt"), include_str!("../wire/reasoning.txt")],
        marks: &["finish_reason"],
    },
    Recorded {
        api: Api::OpenAiResponses,
        answers: &[include_str!("../wire/responses_calls.txt"), include_str!("../wire/responses_image.txt")],
        marks: &["response.completed", "response.incomplete"],
    },
    Recorded {
        api: Api::Anthropic,
        answers: &[include_str!("../wire/anthropic/calls.txt"), include_str!("../wire/anthropic/text.txt")],
        marks: &["stop_reason", "message_stop"],
    },
    Recorded {
        api: Api::Gemini,
        answers: &[include_str!("../gemini/calls.txt"), include_str!("../gemini/interleaved.txt")],
        marks: &["finishReason"],
    },
    Recorded {
        api: Api::Ollama,
        answers: &[include_str!("../ollama/calls.txt"), include_str!("../ollama/text.txt")],
        marks: &["done"],
    },
];

/// A random number generator (splitmix64).
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// One to four damages to an answer.
fn damaged(answer: &str, rng: &mut Rng) -> Vec<u8> {
    let mut bytes = answer.as_bytes().to_vec();
    for _ in 0..=rng.below(4) {
        if bytes.is_empty() {
            break;
        }
        let at = rng.below(bytes.len());
        let end = (at + 1 + rng.below(64)).min(bytes.len());
        match rng.below(6) {
            0 => bytes[at] = rng.next() as u8,
            1 => _ = bytes.drain(at..end),
            2 => {
                let again = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, again));
            }
            3 => bytes[at..end].reverse(),
            4 => bytes.truncate(at),
            _ => {
                // A piece of another answer, of any format.
                let other = &RECORDED[rng.below(RECORDED.len())];
                let other = other.answers[rng.below(other.answers.len())].as_bytes();
                let from = rng.below(other.len());
                let piece = other[from..(from + 200).min(other.len())].to_vec();
                drop(bytes.splice(at..end, piece));
            }
        }
    }
    bytes
}

/// Checks the invariants of the result of these bytes; returns whether the answer was complete.
fn check(answer: &Answer, bytes: &[u8], marks: &[&str]) -> bool {
    let is_whole = answer.end.as_ref().unwrap().is_ok();
    let has = |mark: &&str| bytes.windows(mark.len()).any(|window| window == mark.as_bytes());
    assert!(!is_whole || marks.iter().any(has), "whole without any of {marks:?}");
    let arguments: usize = answer.calls.iter().map(|(_, _, arguments)| arguments.len()).sum();
    let emitted = answer.text.len() + answer.reasoning.len() + arguments;
    assert!(emitted <= bytes.len(), "{emitted} bytes came out of {}", bytes.len());
    is_whole
}

#[tokio::test]
async fn r69_any_bytes_give_a_typed_end_and_nothing_whole_without_an_end_mark() {
    for Recorded { api, answers, marks } in RECORDED {
        let bytes = |number: usize| {
            let mut rng = Rng(number as u64);
            let answer = answers[rng.below(answers.len())];
            damaged(answer, &mut rng)
        };
        let server = serve(move |number| Reply::Close(sized(&bytes(number)))).await;
        let model = ModelSet::new();
        let mut whole = 0;
        for number in 0..CASES as usize {
            // Printed only if the case fails.
            println!("{} case {number}", api.name());
            let answer = read(model.stream(request_of(*api, &server.base_url))).await;
            whole += usize::from(check(&answer, &bytes(number), marks));
        }
        println!("{}: {CASES} damaged answers, {whole} of them whole all the same", api.name());
        // Otherwise the damage would be too great or too small for a useful test.
        assert!((1..CASES as usize).contains(&whole), "{whole}");
    }
}
