//! What the reply of a run consists of, and in which order (R46).

use super::{is_repetition, is_silent};

/// What is known of a run that has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplyParts {
    /// Its calls, one line each; empty unless the reply names them.
    pub summaries: Vec<String>,
    /// The reasoning before the answer; empty unless the reply has it.
    pub reasoning: Vec<String>,
    /// The answer.
    pub answer: String,
    /// How many images the model made.
    pub images: usize,
    /// Why the run did not complete.
    pub failure: Option<String>,
    /// The call that failed last, if no later one of its kind succeeded.
    pub failed_call: Option<String>,
    /// The messages that the model has sent to the recipient of the reply.
    pub sent: Vec<String>,
    /// Whether the recipient has the answer already, in blocks.
    pub has_blocks: bool,
}

/// A part of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyPart {
    /// A call in one line.
    ToolSummary(String),
    /// The reasoning of the model.
    Reasoning(String),
    /// The answer.
    Text(String),
    /// The image with this number, from 0.
    Media(usize),
    /// Why the run did not complete; or that a tool failed, if there is nothing else to say.
    Error(String),
}

/// The parts of a reply in their order: calls, reasoning, the answer, images, the error. Nothing is said twice, and a failed call is
/// reported only if the recipient would have nothing else.
pub fn payloads(parts: ReplyParts) -> Vec<ReplyPart> {
    let ReplyParts { summaries, reasoning, answer, images, failure, failed_call, sent, has_blocks } = parts;
    let is_known = has_blocks || sent.iter().any(|sent| is_repetition(&answer, sent));
    let says_something = !answer.trim().is_empty() && !is_silent(&answer);
    let answer = (says_something && !is_known).then_some(answer);
    let nothing_else = answer.is_none() && images == 0 && failure.is_none() && sent.is_empty() && !has_blocks;
    let error = failure.or(failed_call.filter(|_| nothing_else));
    let text = |text: String| (!text.trim().is_empty()).then_some(text);
    let mut payloads: Vec<ReplyPart> = summaries.into_iter().map(ReplyPart::ToolSummary).collect();
    payloads.extend(reasoning.into_iter().filter_map(text).map(ReplyPart::Reasoning));
    payloads.extend(answer.map(ReplyPart::Text));
    payloads.extend((0..images).map(ReplyPart::Media));
    payloads.extend(error.map(ReplyPart::Error));
    payloads
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(answer: &str) -> ReplyParts {
        ReplyParts { answer: answer.to_owned(), ..ReplyParts::default() }
    }

    #[test]
    fn r46_what_a_message_has_said_is_not_said_again() {
        let sent = vec!["The build is green.".to_owned()];
        let of = |answer: &str| payloads(ReplyParts { sent: sent.clone(), ..parts(answer) });
        assert_eq!(of("The build is green."), []);
        assert_eq!(of("Sent: the build is green."), []);
        let more = "The build is green. But the tests of the west wing fail.";
        assert_eq!(of(more), [ReplyPart::Text(more.to_owned())], "it says more");
        assert_eq!(of("Two tests fail."), [ReplyPart::Text("Two tests fail.".to_owned())]);
    }

    #[test]
    fn r46_a_failed_call_is_reported_only_if_there_is_nothing_else() {
        let failed_call = Some("`exec` failed".to_owned());
        let of = |parts: ReplyParts| payloads(ReplyParts { failed_call: failed_call.clone(), ..parts });
        assert_eq!(of(parts("NO_REPLY")), [ReplyPart::Error("`exec` failed".to_owned())]);
        assert_eq!(of(parts("Done.")), [ReplyPart::Text("Done.".to_owned())]);
        assert_eq!(of(ReplyParts { sent: vec!["hi".to_owned()], ..parts("") }), [], "the user saw something");
        assert_eq!(of(ReplyParts { has_blocks: true, ..parts("Done.") }), []);
        let failure = Some("no credit".to_owned());
        assert_eq!(of(ReplyParts { failure, ..parts("") }), [ReplyPart::Error("no credit".to_owned())]);
    }

    fn place(part: &ReplyPart) -> u8 {
        match part {
            ReplyPart::ToolSummary(_) => 0,
            ReplyPart::Reasoning(_) => 1,
            ReplyPart::Text(_) => 2,
            ReplyPart::Media(_) => 3,
            ReplyPart::Error(_) => 4,
        }
    }

    fn some_parts() -> impl Strategy<Value = ReplyParts> {
        let texts = || prop::collection::vec("[a-c ]{0,14}", 0..3);
        let answer = prop_oneof!["[a-c ]{0,14}", Just("NO_REPLY".to_owned())];
        let failures = (prop::option::of("[a-c]{1,9}"), prop::option::of("[a-c]{1,9}"));
        (texts(), texts(), answer, 0..3_usize, failures, texts(), any::<bool>()).prop_map(
            |(summaries, reasoning, answer, images, (failure, failed_call), sent, has_blocks)| ReplyParts {
                summaries,
                reasoning,
                answer,
                images,
                failure,
                failed_call,
                sent,
                has_blocks,
            },
        )
    }

    proptest! {
        #[test]
        fn r46_the_parts_of_a_reply_have_one_order(parts in some_parts()) {
            let payloads = payloads(parts.clone());
            prop_assert!(payloads.is_sorted_by_key(place), "{:?}", payloads);
            prop_assert!(payloads.iter().filter(|part| place(part) == 2).count() <= 1);
            prop_assert!(payloads.iter().filter(|part| place(part) == 4).count() <= 1);
            prop_assert_eq!(payloads.iter().filter(|part| place(part) == 3).count(), parts.images);
            prop_assert!(!payloads.contains(&ReplyPart::Text("NO_REPLY".to_owned())));
            prop_assert!(parts.failure.is_none() || place(payloads.last().expect("the failure")) == 4, "a failure is never silent");
            prop_assert!(!parts.has_blocks || payloads.iter().all(|part| place(part) != 2));
        }
    }
}
