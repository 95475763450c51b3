//! The answer of a model without the secrets of the configuration. It is masked before it is reported, so no event, body
//! or subscriber ever receives one, and a replay sees what was recorded.

use std::collections::VecDeque;
use std::sync::Arc;

use engine::{BlockOf, Failure, Part};
use futures_util::StreamExt as _;
use futures_util::stream::Fuse;
use models::{Model as _, ModelEvent, Request, ResponseStream};
use tools::{MaskEnd, MaskedText, Secrets};

use crate::runtime::Shared;

/// An item of the stream.
pub(super) type StreamEvent = Result<ModelEvent, Failure>;

/// The stream of an answer, masked.
pub(super) struct MaskedAnswer {
    shared: Arc<Shared>,
    stream: Fuse<ResponseStream>,
    /// Made when the first item comes: the request may have been sent with an access token that is newer than itself.
    mask: Option<Mask>,
    ready: VecDeque<StreamEvent>,
}

impl MaskedAnswer {
    /// Sends the request when the answer is first polled.
    pub(super) fn new(shared: &Arc<Shared>, request: Request) -> Self {
        let stream = shared.models.stream(request).fuse();
        Self { shared: Arc::clone(shared), stream, mask: None, ready: VecDeque::new() }
    }

    /// The next item; nothing is lost if the future is dropped.
    pub(super) async fn next(&mut self) -> Option<StreamEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let event = self.stream.next().await?;
            let mask = self.mask.get_or_insert_with(|| Mask::new(self.shared.resolver.secrets()));
            // Nearly every item is a piece of the block that is being written.
            match event {
                Ok(ModelEvent::Part(Part::Text(text))) if mask.block == Block::Text => {
                    let text = mask.block_text.push(text);
                    if !text.is_empty() {
                        return Some(Ok(ModelEvent::Part(Part::Text(text))));
                    }
                }
                event => mask.take(event, &mut self.ready),
            }
        }
    }
}

/// What of the answer is held back, because a secret may begin with it.
struct Mask {
    secrets: Secrets,
    /// The text or the reasoning that is being written.
    block: Block,
    block_text: MaskedText,
    /// The arguments of the calls, by their index.
    arguments: Vec<(u32, MaskedText)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    Text,
    Reasoning,
}

impl Block {
    fn part(self, text: String) -> Part {
        match self {
            Self::Text => Part::Text(text),
            Self::Reasoning => Part::Reasoning(text),
        }
    }
}

impl Mask {
    fn new(secrets: Secrets) -> Self {
        let block_text = MaskedText::new(&secrets);
        Self { secrets, block: Block::Text, block_text, arguments: vec![] }
    }

    /// Takes an item, and adds what is decided to `ready`.
    fn take(&mut self, event: StreamEvent, ready: &mut VecDeque<StreamEvent>) {
        let mut put = |part| ready.push_back(Ok(ModelEvent::Part(part)));
        match event {
            Ok(ModelEvent::Part(Part::Text(text))) => self.write(Block::Text, text, &mut put),
            Ok(ModelEvent::Part(Part::Reasoning(text))) => self.write(Block::Reasoning, text, &mut put),
            Ok(ModelEvent::Part(Part::Call { index, provider_id, name, arguments })) => {
                self.end_block(MaskEnd::Ended, &mut put);
                let masked = |text: String| self.secrets.mask_counted(&text).map_or(text, |(masked, _)| masked);
                let (provider_id, name) = (provider_id.map(masked), name.map(masked));
                let arguments = self.arguments_of(index).push(arguments);
                if name.is_some() || provider_id.is_some() || !arguments.is_empty() {
                    put(Part::Call { index, provider_id, name, arguments });
                }
            }
            Ok(ModelEvent::Part(Part::Signature { block, signature })) => {
                let is_of_reasoning = block == BlockOf::Reasoning && self.block == Block::Reasoning;
                let was_masked = self.end(MaskEnd::Ended, &mut put);
                // A provider refuses a signature of other reasoning than it was made for.
                if !(is_of_reasoning && was_masked || self.secrets.are_in(&signature)) {
                    put(Part::Signature { block, signature });
                }
            }
            Ok(ModelEvent::Part(part @ Part::Image(_))) => {
                self.end_block(MaskEnd::Ended, &mut put);
                put(part);
            }
            Ok(ModelEvent::Opened) => ready.push_back(Ok(ModelEvent::Opened)),
            Ok(ended @ ModelEvent::Ended { .. }) => {
                self.end(MaskEnd::Ended, &mut put);
                ready.push_back(Ok(ended));
            }
            Err(failure) => {
                self.end(MaskEnd::Broken, &mut put);
                ready.push_back(Err(self.masked(failure)));
            }
        }
    }

    fn write(&mut self, block: Block, text: String, put: &mut impl FnMut(Part)) {
        if block != self.block {
            self.end_block(MaskEnd::Ended, put);
            self.block = block;
        }
        let text = self.block_text.push(text);
        if !text.is_empty() {
            put(block.part(text));
        }
    }

    fn arguments_of(&mut self, index: u32) -> &mut MaskedText {
        let known = self.arguments.iter().position(|(known, _)| *known == index);
        let at = known.unwrap_or_else(|| {
            self.arguments.push((index, MaskedText::new(&self.secrets)));
            self.arguments.len() - 1
        });
        &mut self.arguments[at].1
    }

    /// Ends the text or the reasoning that is being written; whether something in it was masked.
    fn end_block(&mut self, flush: MaskEnd, put: &mut impl FnMut(Part)) -> bool {
        let rest = self.block_text.flush(flush);
        if !rest.is_empty() {
            put(self.block.part(rest));
        }
        let was_masked = self.block_text.count() > 0;
        if was_masked {
            self.block_text = MaskedText::new(&self.secrets);
        }
        was_masked
    }

    /// Ends everything; whether something in the last text or reasoning was masked.
    fn end(&mut self, flush: MaskEnd, put: &mut impl FnMut(Part)) -> bool {
        let was_masked = self.end_block(flush, put);
        for (index, text) in &mut self.arguments {
            let arguments = text.flush(flush);
            if !arguments.is_empty() {
                put(Part::Call { index: *index, provider_id: None, name: None, arguments });
            }
        }
        was_masked
    }

    fn masked(&self, failure: Failure) -> Failure {
        let mask = |text: String| self.secrets.mask_counted(&text).map_or(text, |(masked, _)| masked);
        Failure { message: mask(failure.message), code: failure.code.map(mask), ..failure }
    }
}

#[cfg(test)]
mod tests {
    use engine::{FailureClass, Usage};
    use proptest::prelude::*;

    use super::*;

    const KEYS: [&str; 3] = ["sk-9fA/3c+77Qz1", "hunter2-tide", "tok_潮-0123456789"];

    fn call(index: u32, name: Option<&str>, arguments: &str) -> Part {
        let (provider_id, name) = (name.map(|name| format!("id-{name}")), name.map(str::to_owned));
        Part::Call { index, provider_id, name, arguments: arguments.to_owned() }
    }

    fn signature(block: BlockOf, signature: &str) -> Part {
        Part::Signature { block, signature: signature.to_owned() }
    }

    fn text(text: &str) -> Part {
        Part::Text(text.to_owned())
    }

    fn reasoning(text: &str) -> Part {
        Part::Reasoning(text.to_owned())
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the stream gives it")]
    fn ended() -> StreamEvent {
        Ok(ModelEvent::Ended { usage: Usage::default(), is_counted: false, stop_reason: None })
    }

    /// The answer of these parts and this end, masked; pieces of one block are joined.
    fn masked(parts: impl IntoIterator<Item = Part>, end: StreamEvent) -> (Vec<Part>, StreamEvent) {
        let (mut mask, mut ready) = (Mask::new(Secrets::new(KEYS)), VecDeque::new());
        for part in parts {
            mask.take(Ok(ModelEvent::Part(part)), &mut ready);
        }
        mask.take(end, &mut ready);
        let end = ready.pop_back().unwrap();
        let mut joined: Vec<Part> = vec![];
        for event in ready {
            let Ok(ModelEvent::Part(part)) = event else { panic!("{event:?}") };
            match (joined.last_mut(), part) {
                (Some(Part::Text(before)), Part::Text(more))
                | (Some(Part::Reasoning(before)), Part::Reasoning(more)) => *before += &more,
                (_, part) => joined.push(part),
            }
        }
        (joined, end)
    }

    fn check(parts: &[Part], expected: &[Part]) {
        assert_eq!(masked(parts.iter().cloned(), ended()), (expected.to_vec(), ended()));
    }

    #[test]
    fn r50_every_part_of_an_answer_is_masked() {
        check(&[text("a sk-9f"), text("A/3c+7"), text("7Qz1 b")], &[text("a [secret] b")]);
        check(&[reasoning("hunter2"), reasoning("-tide"), text("hunter2")], &[reasoning("[secret]"), text("hunter2")]);
        // The name and the id of a call come whole, its arguments in pieces, also between those of other calls.
        let name = "f-hunter2-tide";
        let mut parts = vec![call(0, Some(name), r#"{"a":"hunt"#), call(1, Some("g"), r#"{"b":"sk-9fA\/3c"#)];
        parts.extend([call(0, None, r#"er2-tide"}"#), call(1, None, r#"+77Qz1"}"#)]);
        let mut expected = vec![Part::Call {
            index: 0,
            provider_id: Some("id-f-[secret]".to_owned()),
            name: Some("f-[secret]".to_owned()),
            arguments: r#"{"a":""#.to_owned(),
        }];
        expected.extend([call(1, Some("g"), r#"{"b":""#), call(0, None, r#"[secret]"}"#)]);
        expected.push(call(1, None, r#"[secret]"}"#));
        check(&parts, &expected);
        // Reversed, in base64, in hex.
        check(
            &[text("edit-2retnuh aHVudGVyMi10aWRl 68756e746572322d74696465.")],
            &[text("[secret] [secret] [secret].")],
        );
    }

    #[test]
    fn r50_a_signature_of_what_was_masked_is_left_out() {
        let of = BlockOf::Reasoning;
        check(&[reasoning("quiet"), signature(of, "s")], &[reasoning("quiet"), signature(of, "s")]);
        check(&[reasoning("hunter2-tide"), signature(of, "s"), text("x")], &[reasoning("[secret]"), text("x")]);
        check(&[reasoning("quiet"), signature(of, "hunter2-tide")], &[reasoning("quiet")]);
        // That of another block stays.
        check(&[text("hunter2-tide"), signature(of, "s")], &[text("[secret]"), signature(of, "s")]);
        let call_of = call(0, Some("f"), "{}");
        check(&[call_of.clone(), signature(BlockOf::Call(0), "s")], &[call_of, signature(BlockOf::Call(0), "s")]);
    }

    #[test]
    fn r50_the_end_of_a_block_shows_what_was_held_back_and_a_broken_stream_no_half_of_a_key() {
        check(&[text("a h"), reasoning("b sk-"), text("c")], &[text("a h"), reasoning("b sk-"), text("c")]);
        check(&[text("a sk-9fA/3c+77Qz")], &[text("a [secret]")]);
        let failure = |message: &str| Err(Failure::new(FailureClass::Network, message));
        let broken = masked([text("a hunter2-tid"), call(0, Some("f"), "sk-9fA/3c+77Qz")], failure("of hunter2-tide"));
        assert_eq!(broken, (vec![text("a [secret]"), call(0, Some("f"), "")], failure("of [secret]")));
        assert_eq!(masked([text("a hunter2-tid")], failure("x")).0, [text("a ")]);
        assert_eq!(masked([text("a hu")], failure("x")).0, [text("a hu")]);
    }

    /// Text with keys in it or without, and where it is split.
    fn pieces(with_keys: bool) -> impl Strategy<Value = Vec<String>> {
        let word = if with_keys {
            prop_oneof![2 => "[ -~潮\n]{0,6}", 1 => "[a-z]{1,3}", 2 => prop::sample::select(&KEYS[..]).prop_map(str::to_owned)]
                .boxed()
        } else {
            // Beginnings of keys, but never a whole one.
            prop_oneof![
                "[ -~潮\n]{0,6}",
                prop::sample::select(&["sk-", "sk-9fA", "hun", "h", "tok_潮-0"][..]).prop_map(str::to_owned)
            ]
            .boxed()
        };
        let words = prop::collection::vec(word, 0..12).prop_map(|words| words.join(""));
        (words, prop::collection::vec(1_usize..9, 1..6)).prop_map(|(text, sizes)| {
            let (mut pieces, mut rest) = (vec![], text.as_str());
            for size in sizes.into_iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let at = rest.char_indices().nth(size).map_or(rest.len(), |(at, _)| at);
                pieces.push(rest[..at].to_owned());
                rest = &rest[at..];
            }
            pieces
        })
    }

    /// Everything that the parts show.
    fn shown(parts: &[Part]) -> String {
        let text = |part: &Part| match part {
            Part::Text(text) | Part::Reasoning(text) => text.clone(),
            Part::Call { name, arguments, .. } => name.clone().unwrap_or_default() + arguments,
            Part::Signature { signature, .. } => signature.clone(),
            Part::Image(_) => String::new(),
        };
        parts.iter().map(text).collect()
    }

    proptest! {
        #[test]
        fn fuzz_r50_no_key_leaves_an_answer_however_it_is_split(pieces in pieces(true), kind in 0..3) {
            let part = |piece: &String| match kind {
                0 => text(piece),
                1 => reasoning(piece),
                _ => call(0, None, piece),
            };
            let (parts, _) = masked(pieces.iter().map(part), ended());
            let (whole, shown) = (pieces.concat(), shown(&parts));
            for key in KEYS {
                prop_assert!(!shown.contains(key), "{shown}");
            }
            // Split anyhow, the text is masked as one piece is.
            prop_assert_eq!(shown, self::shown(&masked([part(&whole)], ended()).0));
        }

        #[test]
        fn fuzz_r50_an_answer_without_keys_comes_out_as_it_came(pieces in pieces(false), kind in 0..3) {
            let whole = pieces.concat();
            prop_assume!(!Secrets::new(KEYS).are_in(&whole));
            // Half a key at the very end is no ordinary text.
            let whole = whole + " .";
            let part = |piece: &String| match kind {
                0 => text(piece),
                1 => reasoning(piece),
                _ => call(0, None, piece),
            };
            let (parts, _) = masked(pieces.iter().chain([&" .".to_owned()]).map(part), ended());
            prop_assert_eq!(shown(&parts), whole);
        }
    }
}
