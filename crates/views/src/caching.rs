//! What a request could have had from its provider's cache, and why it had not: what it has in common with the request before it to
//! the same model.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::{Body, Item, RequestSent, Session, Settings, Timestamp, Usage};
use runtime::prompt;

use super::Texts;
use super::vocabulary::count;
use crate::error::Error;

/// For how long a request is compared with the one before it, ms: the shortest time for which a provider says that it keeps a cache.
const CACHE_LIFETIME_MS: u64 = 5 * 60 * 1_000;
/// The tokens from which on every provider caches by itself the beginning of a request.
const CACHED_FROM_TOKENS: u64 = 4_096;

/// What a provider reads of a request, in this order.
struct Sent {
    settings: Arc<Settings>,
    candidate: u32,
    prompt: Option<Body>,
    items: Vec<Arc<Item>>,
    at: Timestamp,
}

/// The requests of a conversation, as far as a provider may have them in its cache.
#[derive(Default)]
pub(crate) struct CacheWatch {
    /// The last answered request to each model, with its usage.
    answered: BTreeMap<String, (Sent, Usage)>,
    /// The request that is not answered yet, and its model.
    sent: Option<(String, Sent)>,
    /// The items of the conversation since it was last replaced: requests share them.
    items: Vec<Arc<Item>>,
    resets: u32,
}

impl CacheWatch {
    /// A request goes out. `session` is the state after that.
    pub(crate) fn sent(
        &mut self,
        (event, at): (&RequestSent, Timestamp),
        session: &Session,
        settings: &Arc<Settings>,
        prompt: Option<Body>,
    ) {
        let (transcript, items) = (&session.conversation.transcript, event.items as usize);
        if transcript.resets() != self.resets {
            self.items.clear();
            self.resets = transcript.resets();
        }
        self.items.extend(transcript.items().iter().skip(self.items.len()).cloned().map(Arc::new));
        let candidate = settings.candidate(event.candidate);
        self.sent = candidate.map(|candidate| {
            let left_out = transcript.left_out(settings.history_turns, items);
            let sent = self.items.iter().take(items).enumerate().filter(|(at, _)| !left_out.contains(at));
            let items = sent.map(|(_, item)| Arc::clone(item)).collect();
            let settings = Arc::clone(settings);
            (candidate.to_string(), Sent { settings, candidate: event.candidate, prompt, items, at })
        });
    }

    /// The answer of the request is there. Returns what is to be said of the cache, if the request had little from it although
    /// much was read a short time ago. Nothing, if a text that it compares cannot be read.
    pub(crate) fn sealed(&mut self, usage: Usage, texts: Texts<'_>) -> Option<String> {
        let (model, sent) = self.sent.take()?;
        let before = self.answered.get(&model);
        let said = before.and_then(|(before, of_before)| before.missed(*of_before, &sent, usage, texts));
        self.answered.insert(model, (sent, usage));
        said
    }
}

impl Sent {
    /// Why `now`, with this usage, had less from the cache than half of what it could have had; none if it had that.
    fn missed(&self, usage: Usage, now: &Self, of_now: Usage, texts: Texts<'_>) -> Option<String> {
        let (reusable, ms) = (self.reusable(usage), now.at.since(self.at));
        if ms > CACHE_LIFETIME_MS || of_now.cached >= reusable.div_ceil(2) {
            return None;
        }
        let why = self.first_difference(now, texts).ok()?;
        let why = why.unwrap_or_else(|| {
            let seconds = count(ms.div_ceil(1_000).max(1) as usize, "second");
            format!("it begins with all of the request {seconds} before it, which the provider did not have any more")
        });
        Some(format!("only {} of about {reusable} tokens came from the cache: {why}", of_now.cached))
    }

    /// The tokens of this request that the next one may have from the cache: those that the provider says it keeps, or all, if it
    /// keeps long ones by itself.
    fn reusable(&self, usage: Usage) -> u64 {
        let price = self.settings.candidate(self.candidate).and_then(|candidate| candidate.price);
        let keeps = usage.prompt() >= CACHED_FROM_TOKENS && price.is_some_and(|price| price.cached < price.input);
        if keeps { usage.prompt() } else { usage.cached.saturating_add(usage.cache_written) }
    }

    /// The first of what a provider reads that differs in a later request; none if that begins with all of this one.
    fn first_difference(&self, now: &Self, texts: Texts<'_>) -> Result<Option<String>, Error> {
        let tools = |sent: &Self| Arc::clone(&sent.settings.tools);
        let (of_before, of_now) = (tools(self), tools(now));
        if of_before != of_now {
            let same = of_before.iter().zip(of_now.iter()).take_while(|(before, now)| before == now).count();
            let name = of_now.get(same).or_else(|| of_before.get(same)).map_or("", |tool| tool.name.as_str());
            return Ok(Some(format!("the list of tools differs from `{name}` on")));
        }
        if self.prompt.map(|body| body.hash) != now.prompt.map(|body| body.hash) {
            let text = |prompt: Option<Body>| prompt.as_ref().map_or_else(|| Ok(String::new()), texts);
            let (before, now) = (text(self.prompt)?, text(now.prompt)?);
            let parts = prompt::changes(&before, &now).join(", ");
            return Ok(Some(format!("the system prompt differs from byte {} on ({parts})", common(&before, &now))));
        }
        let is_same = |(before, now): &(&Arc<Item>, &Arc<Item>)| Arc::ptr_eq(before, now) || before == now;
        let same = self.items.iter().zip(&now.items).take_while(is_same).count();
        let Some(before) = self.items.get(same) else { return Ok(None) };
        let Some(after) = now.items.get(same) else {
            return Ok(Some(format!("the conversation ends before item {}", same + 1)));
        };
        let (is, was) = (kind(after), kind(before));
        let at = common(&text(before, texts)?, &text(after, texts)?);
        Ok(Some(if is == was {
            format!("item {} of the conversation, {is}, differs from byte {at} on", same + 1)
        } else {
            format!("item {} of the conversation, {is} where {was} was, differs from byte {at} on", same + 1)
        }))
    }
}

/// The number of bytes with which both begin.
fn common(one: &str, other: &str) -> usize {
    one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count()
}

/// All texts of an item.
fn text(item: &Item, texts: Texts<'_>) -> Result<String, Error> {
    item.bodies().into_iter().map(texts).collect()
}

fn kind(item: &Item) -> &'static str {
    match item {
        Item::User { .. } => "a message",
        Item::Assistant { .. } => "an answer",
        Item::Result { .. } => "a result",
        Item::Summary { .. } => "a summary",
        Item::Note { .. } => "a note",
    }
}

#[cfg(test)]
mod tests {
    use engine::{BodyKind, Candidate, Content, EffectId, EffectKind, Hash, Price, RunId, ToolSpec};
    use uuid::Uuid;

    use super::*;
    use crate::scene;

    const TEXTS: [&str; 5] = ["You are a test.", "You are a tester.", "high at noon", "high at nine", "low"];

    fn body(text: &str) -> Body {
        assert!(TEXTS.contains(&text), "{text}");
        Content::text(BodyKind::Message, text).body
    }

    fn texts(of: &Body) -> Result<String, Error> {
        let found = TEXTS.iter().find(|text| Hash::of(text.as_bytes()) == of.hash);
        found.map(|text| (*text).to_owned()).ok_or(Error::TooLarge)
    }

    fn note(text: &str) -> Item {
        Item::Note { body: body(text) }
    }

    fn summary(text: &str) -> Item {
        let (run, kind) = (RunId(Uuid::from_u128(1)), EffectKind::Compact);
        Item::Summary { compaction: EffectId { run, kind, ordinal: 1, try_no: 1 }, body: body(text) }
    }

    fn sent(prompt: &str, items: &[Item], seconds: i64) -> Sent {
        let settings = Arc::new(Settings { tools: tools::specs(), ..Settings::default() });
        let at = Timestamp(seconds * 1_000);
        Sent {
            settings,
            candidate: 0,
            prompt: Some(body(prompt)),
            items: items.iter().cloned().map(Arc::new).collect(),
            at,
        }
    }

    fn usage(input: u64, cached: u64, cache_written: u64) -> Usage {
        Usage { input, cached, cache_written, ..Usage::default() }
    }

    /// R66: what differs first is named with its first byte, in the order in which a provider reads it.
    #[test]
    fn r66_the_first_byte_that_differs_is_named() {
        let prompt = "You are a test.";
        let items = [note("high at noon"), note("low")];
        let before = sent(prompt, &items, 0);
        let differs = |now: &Sent| before.first_difference(now, &texts).unwrap().unwrap_or_default();
        assert_eq!(differs(&sent(prompt, &items, 9)), "");
        assert_eq!(differs(&sent(prompt, &[&items[..], &[note("low")]].concat(), 9)), "", "it begins with all of it");
        let now = sent("You are a tester.", &items, 9);
        assert_eq!(differs(&now), "the system prompt differs from byte 14 on (identity)");
        let other = [note("high at nine"), note("low")];
        assert_eq!(differs(&sent(prompt, &other, 9)), "item 1 of the conversation, a note, differs from byte 9 on");
        let compacted = [summary("low"), note("low")];
        assert_eq!(
            differs(&sent(prompt, &compacted, 9)),
            "item 1 of the conversation, a summary where a note was, differs from byte 0 on"
        );
        assert_eq!(differs(&sent(prompt, &items[..1], 9)), "the conversation ends before item 2");
        let mut fewer = sent("You are a tester.", &other, 9);
        let tools: Vec<ToolSpec> = tools::specs().iter().skip(1).cloned().collect();
        fewer.settings = Arc::new(Settings { tools: tools.into(), ..Settings::default() });
        assert_eq!(differs(&fewer), format!("the list of tools differs from `{}` on", tools::specs()[1].name));
    }

    /// R66: a request is named only if little came from a cache that a short time ago had much.
    #[test]
    fn r66_only_a_cache_that_was_not_used_is_named() {
        let prompt = "You are a test.";
        let items = [note("low")];
        let said = |before: Usage, seconds: i64, cached: u64| {
            let now = sent(prompt, &items, seconds);
            sent(prompt, &items, 0).missed(before, &now, usage(6_000 - cached, cached, 0), &texts)
        };
        let written = usage(100, 0, 5_900);
        let missed = "only 2949 of about 5900 tokens came from the cache: it begins with all of the request 300 seconds before it, which \
                      the provider did not have any more";
        assert_eq!(said(written, 300, 2_949).as_deref(), Some(missed));
        assert_eq!(said(written, 300, 2_950), None, "half of it came from there");
        assert_eq!(said(written, 301, 0), None, "it was too long ago");
        assert_eq!(said(usage(50_000, 0, 0), 9, 0), None, "nobody knows that the provider keeps anything");
        // R10: what an earlier request held may be damaged, which is no reason to show nothing of this one.
        let damaged = |_: &Body| Err(Error::TooLarge);
        let other = sent("You are a tester.", &items, 9);
        assert_eq!(sent(prompt, &items, 0).missed(written, &other, usage(6_000, 0, 0), &damaged), None);
        // A lower price says so.
        let mut before = sent(prompt, &items, 0);
        let price = Price { input: 3, cached: 1, cache_written: 3, output: 9 };
        let candidate = Candidate { price: Some(price), ..scene::candidate() };
        before.settings = Arc::new(Settings { candidates: vec![candidate], ..Settings::default() });
        assert_eq!((before.reusable(usage(4_095, 0, 0)), before.reusable(usage(4_096, 0, 0))), (0, 4_096));
    }
}
