//! The conversation: what the model received and answered, by reference. Every call has exactly one result.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::compaction::Flush;
use crate::body::{Attachment, Body, BodyKind};
use crate::ids::{CallId, EffectId, Hash, MessageId, Seq};
use crate::mutant;
use crate::settings::Settings;
use crate::tables::limits::{IMAGE_TOKENS, LONG_RESULT_TOKENS, MESSAGE_TOKENS, PINNED_TOKENS};

/// One item of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Item {
    /// A message of the user.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    User {
        message: MessageId,
        body: Body,
        /// Images and files that came with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
        /// Whether it arrived during the run, so that the model receives it with a prefix.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        steer: bool,
        /// Messages that were dropped before it: the model receives them in short.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        dropped: Vec<Body>,
    },
    /// A message of the model. Two in a row mean that the first was interrupted and the model was asked to continue.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Assistant {
        /// The request that it answers.
        request: EffectId,
        text: Option<Body>,
        reasoning: Option<Body>,
        /// Its calls, in source order.
        calls: Vec<ItemCall>,
        /// Its blocks, if their order or their signatures matter.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blocks: Option<Body>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<Attachment>,
    },
    /// A summary that replaces the earlier items.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Summary {
        /// The compaction that made it.
        compaction: EffectId,
        body: Body,
    },
    /// A note from limulus to the model.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Note { body: Body },
    /// The result of a call.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Result {
        call: CallId,
        /// What the model receives.
        output: Body,
        /// Whether the model receives it as an error.
        is_error: bool,
        /// Images and files that the model receives with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
    },
}

impl Item {
    /// All bodies that the model receives with it.
    pub fn bodies(&self) -> Vec<&Body> {
        match self {
            Self::User { body, attachments, dropped, .. } => {
                let attached = attachments.iter().map(|attachment| &attachment.body);
                [body].into_iter().chain(dropped).chain(attached).collect()
            }
            Self::Assistant { text, reasoning, calls, blocks, images, .. } => {
                let images = images.iter().map(|image| &image.body);
                let own = [text, reasoning, blocks].into_iter().flatten();
                own.chain(calls.iter().map(|call| &call.arguments)).chain(images).collect()
            }
            Self::Summary { body, .. } | Self::Note { body } => vec![body],
            Self::Result { output, attachments, .. } => {
                [output].into_iter().chain(attachments.iter().map(|attachment| &attachment.body)).collect()
            }
        }
    }

    /// The estimated tokens of what the model receives.
    pub fn tokens(&self) -> u64 {
        let of = |body: &Body| match body.kind {
            BodyKind::File => body.tokens.min(IMAGE_TOKENS),
            // Blocks only order the other texts.
            BodyKind::Blocks => 0,
            BodyKind::Message
            | BodyKind::Reasoning
            | BodyKind::Arguments
            | BodyKind::Output
            | BodyKind::Prompt
            | BodyKind::Settings => body.tokens,
        };
        let calls = match self {
            Self::Assistant { calls, .. } => calls.len() as u64,
            Self::User { .. } | Self::Summary { .. } | Self::Note { .. } | Self::Result { .. } => 0,
        };
        self.bodies().into_iter().map(of).sum::<u64>() + (1 + calls) * MESSAGE_TOKENS
    }
}

impl Item {
    /// The call and the output of a result that is long.
    pub fn long_result(&self) -> Option<(CallId, Body)> {
        let Self::Result { call, output, .. } = self else { return None };
        (output.tokens > LONG_RESULT_TOKENS).then_some((*call, *output))
    }
}

/// A call as the model made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct ItemCall {
    pub id: CallId,
    pub provider_id: String,
    pub tool: String,
    pub arguments: Body,
}

/// An item, with the entry that it came with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct ItemAt {
    pub seq: Seq,
    pub item: Item,
}

/// The conversation since the last compaction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transcript {
    items: Vec<Item>,
    /// The entry that each item came with.
    seqs: Vec<Seq>,
    /// The estimated tokens of the items.
    tokens: u64,
    /// How many items the last request held; these are known to be paired.
    sent: usize,
    /// The estimated tokens of those.
    sent_tokens: u64,
    /// The provider's token count of the last answered request.
    counted: Option<Counted>,
    /// How often the history was replaced.
    resets: u32,
    /// The state of the memory flush.
    flush: Flush,
}

/// A provider's token count of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Tokens of the whole request.
    pub tokens: u64,
    /// The estimate of its items, as part of that count.
    pub items: u64,
    /// The hash of the settings that it was sent under.
    pub settings: Hash,
    /// The index of its candidate in them.
    pub candidate: u32,
}

/// A call without its result, or a result without its call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unpaired {
    /// A call has no result before the next message.
    #[error("call {call} has no result")]
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Call { call: CallId },
    /// A result has no call before it, or is the second one for its call.
    #[error("a result for call {call} has no call")]
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Result { call: CallId },
}

impl Transcript {
    /// The items, oldest first.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The entry that each item came with.
    pub fn seqs(&self) -> &[Seq] {
        &self.seqs
    }

    /// The estimated tokens of the items.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// The provider's count of the last answered request; none if the history was replaced since.
    pub fn counted(&self) -> Option<Counted> {
        self.counted
    }

    /// The oldest turns among the first `items` items, which a request leaves out if it may hold only `turns` turns. A
    /// turn begins with a message of the user and has everything up to the next one, so calls keep their results; a
    /// summary before the turns stays.
    ///
    /// A quarter of the turns leaves at a time: until then what providers have cached stays the beginning of the next
    /// requests.
    pub fn left_out(&self, turns: Option<u32>, items: usize) -> Range<usize> {
        let items = &self.items[..items.min(self.items.len())];
        let first = usize::from(matches!(items.first(), Some(Item::Summary { .. })));
        let Some(most) = turns.map(|turns| turns.max(1) as usize) else { return first..first };
        let asks = |at: usize| matches!(items[at], Item::User { steer: false, .. });
        let turns = || (first..items.len()).filter(|at| asks(*at) && (*at == first || !asks(*at - 1)));
        let Some(more) = turns().count().checked_sub(most).filter(|more| *more > 0) else { return first..first };
        let step = (most / 4).max(1);
        first..turns().nth(more.div_ceil(step) * step).unwrap_or(first)
    }

    /// Whether the next request has such an item. The newest are looked at first.
    pub(crate) fn sends(&self, settings: &Settings, is_it: impl Fn(&Item) -> bool) -> bool {
        let left_out = self.left_out(settings.history_turns, self.items.len());
        (0..self.items.len()).rev().filter(|at| !left_out.contains(at)).any(|at| is_it(&self.items[at]))
    }

    /// The estimated tokens of what a request with these first items leaves out.
    fn left_out_tokens(&self, settings: &Settings, items: usize) -> u64 {
        self.items[self.left_out(settings.history_turns, items)].iter().map(Item::tokens).sum()
    }

    /// The estimated tokens of a request: the provider's count of the last request plus an estimate of the newer items,
    /// less what left it since; without such a count, an estimate of everything.
    pub fn request_tokens(&self, (hash, settings): (Hash, &Settings), candidate: u32, prompt: Option<&Body>) -> u64 {
        let left_out = self.left_out_tokens(settings, self.items.len());
        let rated = |tokens: u64| settings.rated(candidate, tokens);
        let known = |counted: &Counted| (counted.settings, counted.candidate) == (hash, candidate);
        if let Some(counted) = self.counted.filter(known) {
            let left = left_out.saturating_sub(self.left_out_tokens(settings, self.sent));
            return (counted.tokens + rated(self.tokens.saturating_sub(counted.items))).saturating_sub(rated(left));
        }
        let items = self.tokens.saturating_sub(left_out);
        rated(items + prompt.map_or(0, |prompt| prompt.tokens) + settings.tool_tokens())
    }

    pub(crate) fn push(&mut self, item: Item, seq: Seq) {
        self.tokens += item.tokens();
        self.items.push(item);
        self.seqs.push(seq);
        debug_assert_eq!(self.items.len(), self.seqs.len());
    }

    /// The state of the memory flush.
    pub fn flush(&self) -> Flush {
        self.flush
    }

    pub(crate) fn ask_flush(&mut self) {
        self.flush = Flush::Asked;
    }

    /// A complete answer came.
    pub(crate) fn answer_flush(&mut self) {
        if self.flush == Flush::Asked {
            self.flush = Flush::Answered;
        }
    }

    /// How often the history was replaced: cached renderings of an earlier history are invalid.
    pub fn resets(&self) -> u32 {
        self.resets
    }

    pub(crate) fn reset(&mut self) {
        self.replace(vec![]);
    }

    /// Replaces all items; each comes with its entry.
    fn replace(&mut self, items: Vec<(Seq, Item)>) {
        let tokens = items.iter().map(|(_, item)| item.tokens()).sum();
        let (seqs, items) = items.into_iter().unzip();
        *self = Self { items, seqs, tokens, resets: self.resets + 1, ..Self::default() };
        debug_assert_eq!(self.items.len(), self.seqs.len());
    }

    fn take(&mut self) -> impl Iterator<Item = (Seq, Item)> + use<> {
        std::mem::take(&mut self.seqs).into_iter().zip(std::mem::take(&mut self.items))
    }

    /// The index at which the history may be split so that the newest part of about `keep` tokens stays unchanged:
    /// never between a call and its result, and never within one entry. The nearest such index is taken, first towards
    /// the end; none if there is none.
    pub(crate) fn cut(&self, keep: u64) -> Option<usize> {
        let is_place = |at: &usize| {
            let begins = matches!(self.items[*at], Item::User { .. } | Item::Assistant { .. });
            begins && self.seqs[*at] != self.seqs[*at - 1] || mutant!(CompactionSplitsCall)
        };
        let mut kept = 0;
        let fits = |at: &usize| {
            kept += self.items[*at].tokens();
            kept <= keep
        };
        let from = (1..self.items.len()).rev().take_while(fits).last().unwrap_or(self.items.len());
        (from..self.items.len()).find(is_place).or_else(|| (1..from).rev().find(is_place))
    }

    /// The first entry whose messages are kept if the history is split there; `next` is the number of the next entry.
    pub(crate) fn kept_from(&self, cut: usize, next: Seq) -> Seq {
        self.seqs.get(cut).copied().unwrap_or(next)
    }

    /// Those of these messages that are kept although they are before the split.
    pub(crate) fn pinned(&self, cut: usize, inputs: &[MessageId]) -> Vec<MessageId> {
        let stays = |item: &Item| {
            let Item::User { message, .. } = item else { return None };
            (inputs.contains(message) && item.tokens() <= PINNED_TOKENS).then_some(*message)
        };
        self.items[..cut.min(self.items.len())].iter().filter_map(stays).collect()
    }

    /// The estimated tokens before the split that are not kept.
    pub(crate) fn dropped(&self, cut: usize, pinned: &[MessageId]) -> u64 {
        let goes = |item: &&Item| !matches!(item, Item::User { message, .. } if pinned.contains(message));
        self.items[..cut.min(self.items.len())].iter().filter(goes).map(Item::tokens).sum()
    }

    /// Whether a call's result could be truncated.
    pub(crate) fn has_long_results(&self) -> bool {
        self.items.iter().any(|item| item.long_result().is_some())
    }

    /// Replaces the items of all earlier entries by a summary, except for pinned messages.
    pub(crate) fn compact(&mut self, summary: Item, kept_from: Seq, pinned: &[MessageId], seq: Seq) {
        let stays = |(at, item): &(Seq, Item)| match item {
            Item::Summary { .. } => false,
            Item::User { message, .. } => *at >= kept_from || pinned.contains(message),
            Item::Assistant { .. } | Item::Note { .. } | Item::Result { .. } => *at >= kept_from,
        };
        let mut kept: Vec<_> = self.take().filter(stays).collect();
        if mutant!(CompactionTellsTwice) {
            let again = kept.iter().find(|(_, item)| matches!(item, Item::User { .. })).cloned();
            kept.extend(again);
        }
        self.replace([(seq, summary)].into_iter().chain(kept).collect());
    }

    /// The items that a summary replaces if it keeps the items from this entry on.
    pub fn before(&self, kept_from: Seq) -> Vec<ItemAt> {
        let goes = |(seq, item): &(&Seq, &Item)| matches!(item, Item::Summary { .. }) || **seq < kept_from;
        self.seqs
            .iter()
            .zip(&self.items)
            .filter(goes)
            .map(|(seq, item)| ItemAt { seq: *seq, item: item.clone() })
            .collect()
    }

    /// Replaces the summary by the items that it stood for.
    pub(crate) fn uncompact(&mut self, of: EffectId, restored: &[ItemAt]) {
        if self.compaction() != Some(of) {
            return;
        }
        // Two notes may say the same: only with its entry an item is the one that stayed.
        let stayed = |(seq, item): &(Seq, Item)| restored.iter().any(|of| of.seq == *seq && of.item == *item);
        let kept: Vec<_> = self.take().skip(1).filter(|kept| !stayed(kept)).collect();
        let restored = restored.iter().map(|of| (of.seq, of.item.clone()));
        self.replace(restored.chain(kept).collect());
    }

    /// The compaction whose summary it begins with.
    pub fn compaction(&self) -> Option<EffectId> {
        let Item::Summary { compaction, .. } = self.items.first()? else { return None };
        Some(*compaction)
    }

    /// Replaces these results by their truncated form.
    pub(crate) fn truncate_results(&mut self, results: &[(CallId, Body)]) {
        let truncate = |(seq, mut item): (Seq, Item)| {
            if let Item::Result { call, output, .. } = &mut item
                && let Some((_, truncated)) = results.iter().find(|(of, _)| of == call)
            {
                *output = *truncated;
            }
            (seq, item)
        };
        let items = self.take().map(truncate).collect();
        self.replace(items);
    }

    pub(crate) fn set_sent(&mut self, items: usize) {
        self.sent = items.min(self.items.len());
        self.sent_tokens = self.tokens;
    }

    /// Records the provider's count of the last request, which was estimated at `expected` tokens. A count that is off
    /// by more than a factor of 8 is ignored.
    pub(crate) fn count(&mut self, tokens: u64, expected: u64, settings: Hash, candidate: u32) {
        let is_likely = tokens > 0 && tokens <= expected.saturating_mul(8) && expected <= tokens.saturating_mul(8);
        if is_likely {
            self.counted = Some(Counted { tokens, items: self.sent_tokens, settings, candidate });
        }
    }

    /// Checks the items since the last request; the earlier ones were checked then.
    pub fn check_new(&self) -> Result<(), Unpaired> {
        check(&self.items[self.sent..])
    }

    /// Checks that every call has its result.
    pub fn check(&self) -> Result<(), Unpaired> {
        check(&self.items)
    }
}

/// Each call of a message has exactly one result before the next message, and no result stands alone.
fn check(items: &[Item]) -> Result<(), Unpaired> {
    let mut open: Vec<CallId> = vec![];
    for item in items {
        match item {
            Item::Result { call, .. } => match open.iter().position(|o| o == call) {
                Some(at) => {
                    open.remove(at);
                }
                None => return Err(Unpaired::Result { call: *call }),
            },
            Item::User { .. } | Item::Assistant { .. } | Item::Summary { .. } | Item::Note { .. } => {
                if let Some(call) = open.first() {
                    return Err(Unpaired::Call { call: *call });
                }
                if let Item::Assistant { calls, .. } = item {
                    open.extend(calls.iter().map(|call| call.id));
                }
            }
        }
    }
    open.first().map_or(Ok(()), |call| Err(Unpaired::Call { call: *call }))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::ids::{EffectKind, RunId};

    fn body() -> Body {
        Body { hash: Hash::of(b"text"), bytes: 4, tokens: 10, kind: BodyKind::Message }
    }

    fn user(number: u128, steer: bool) -> Item {
        let message = MessageId(Uuid::from_u128(number));
        Item::User { message, body: body(), attachments: vec![], steer, dropped: vec![] }
    }

    /// Five items: a message, a call, its result, a steer, an answer.
    fn turn(transcript: &mut Transcript, number: u128) {
        let run = RunId(Uuid::from_u128(number));
        let call = CallId { run, step: 1, index: 0 };
        let request = EffectId { run, kind: EffectKind::Request, ordinal: 1, try_no: 1 };
        let answer = |calls| Item::Assistant {
            request,
            text: Some(body()),
            reasoning: None,
            calls,
            blocks: None,
            images: vec![],
        };
        let asked = ItemCall { id: call, provider_id: "1".into(), tool: "ls".into(), arguments: body() };
        let result = Item::Result { call, output: body(), is_error: false, attachments: vec![] };
        for item in [user(number, false), answer(vec![asked]), result, user(number + 1_000, true), answer(vec![])] {
            transcript.push(item, Seq(number as u64));
        }
    }

    #[test]
    fn r41_whole_turns_leave_a_request_a_quarter_of_them_at_a_time() {
        let mut transcript = Transcript::default();
        let compaction = EffectId { run: RunId(Uuid::nil()), kind: EffectKind::Compact, ordinal: 1, try_no: 1 };
        transcript.push(Item::Summary { compaction, body: body() }, Seq(1));
        let mut begins = vec![];
        for number in 1..=20 {
            turn(&mut transcript, number);
            let items = transcript.items.len();
            assert!(transcript.left_out(None, items).is_empty());
            let left_out = transcript.left_out(Some(8), items);
            assert_eq!(left_out.start, 1, "the summary stays");
            let sent = &transcript.items[left_out.end..];
            assert!(matches!(sent[0], Item::User { steer: false, .. }) && check(sent).is_ok());
            let kept = sent.len() / 5;
            assert!(kept == number as usize || (7..=8).contains(&kept), "{kept} of {number}");
            begins.push(left_out.end);
        }
        begins.dedup();
        assert_eq!(begins, [1, 11, 21, 31, 41, 51, 61], "two turns leave together");
        let last = transcript.left_out(Some(1), transcript.items.len());
        assert_eq!(last.end, 1 + 19 * 5, "the turn in progress stays");
    }

    #[test]
    fn r13_r41_a_request_does_not_show_what_it_leaves_out() {
        let mut transcript = Transcript::default();
        (1..=8).for_each(|number| turn(&mut transcript, number));
        let newest = Settings { history_turns: Some(4), ..Settings::default() };
        let shows = |number: u128, settings: &Settings| {
            let run = RunId(Uuid::from_u128(number));
            transcript.sends(settings, |item| matches!(item, Item::Result { call, .. } if call.run == run))
        };
        assert_eq!([1, 4, 5, 8].map(|number| shows(number, &newest)), [false, false, true, true]);
        assert!(shows(1, &Settings::default()) && !shows(9, &Settings::default()));
    }

    #[test]
    fn r41_what_a_request_leaves_out_does_not_count() {
        let mut transcript = Transcript::default();
        (1..=8).for_each(|number| turn(&mut transcript, number));
        let all = Settings::default();
        let newest = Settings { history_turns: Some(4), ..Settings::default() };
        let hash = Hash::of(b"settings");
        let tokens = |transcript: &Transcript, settings| transcript.request_tokens((hash, settings), 0, None);
        let whole = tokens(&transcript, &all);
        assert_eq!(tokens(&transcript, &newest) - newest.tool_tokens(), (whole - all.tool_tokens()) / 2);
        // The provider counted the request; then one more turn comes, and one leaves.
        transcript.set_sent(transcript.items.len());
        transcript.count(1_000, 1_000, hash, 0);
        turn(&mut transcript, 9);
        assert_eq!(tokens(&transcript, &newest), 1_000);
    }
}
