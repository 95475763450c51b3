//! The transcript rendered for a model: append-only, so that a step costs what is new.

use std::collections::HashMap;
use std::sync::Arc;

use engine::{Batch, Body, BodyKind, Hash, Item, ItemCall, Settings, ToolSpec, Transcript};
use journal::Read;
use models::{Cached, CallOf, Message};

use crate::latest::Latest;

/// What the model is asked after a message of its own that was cut off.
const GO_ON: &str = "Your last message was cut off. Go on exactly where it stopped.";

/// Texts that are about to be rendered, and the messages that were.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    fresh: HashMap<Hash, Arc<[u8]>>,
    head: Option<Head>,
    rendered: Vec<Cached<Message>>,
    /// Of the texts in them.
    bytes: usize,
    items: usize,
    last_was_cut: bool,
}

/// What all requests of a run have in common.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    prompt: Hash,
    settings: Arc<Settings>,
    pub(crate) system: Cached<Arc<str>>,
    pub(crate) tools: Cached<Vec<ToolSpec>>,
}

impl Conversation {
    /// Bytes of the texts that it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Goes on from what was kept while the session rested, unless it has begun anew.
    pub(crate) fn go_on_from(&mut self, rested: impl FnOnce() -> Option<Self>) {
        if self.items == 0
            && let Some(rested) = rested()
        {
            let fresh = std::mem::replace(self, rested).fresh;
            self.fresh.extend(fresh);
        }
    }

    /// The system prompt and the tools of a run: looked up once, shared by its requests.
    pub(crate) fn head(
        &mut self,
        prompt: &Body,
        settings: &Arc<Settings>,
        latest: &Latest,
        store: &dyn Read,
    ) -> Result<&Head, journal::Error> {
        let same = |head: &Head| head.prompt == prompt.hash && Arc::ptr_eq(&head.settings, settings);
        let head = match self.head.take().filter(same) {
            Some(head) => head,
            None => Head {
                prompt: prompt.hash,
                system: self.text(prompt, store)?.into(),
                settings: Arc::clone(settings),
                tools: latest.tools(settings),
            },
        };
        Ok(self.head.insert(head))
    }

    /// Keeps the bytes of a committed batch until they are rendered.
    pub(crate) fn keep(&mut self, batch: &Batch) {
        let texts = batch.bodies.iter().filter(|content| content.body.kind != BodyKind::Settings);
        self.fresh.extend(texts.map(|content| (content.body.hash, Arc::clone(&content.bytes))));
    }

    /// The text of a body.
    pub(crate) fn text(&self, body: &Body, store: &dyn Read) -> Result<Arc<str>, journal::Error> {
        let bytes = match self.fresh.get(&body.hash) {
            Some(bytes) => Some(Arc::clone(bytes)),
            None => store.body(&body.hash)?,
        };
        let bytes = bytes.ok_or_else(|| journal::Error::Damaged {
            path: std::path::PathBuf::new(),
            detail: format!("the body {} is not there", body.hash),
        })?;
        Ok(String::from_utf8_lossy(&bytes).into())
    }

    /// The messages of the first `items` items.
    pub(crate) fn render(
        &mut self,
        transcript: &Transcript,
        items: usize,
        store: &dyn Read,
    ) -> Result<Vec<Cached<Message>>, journal::Error> {
        for item in transcript.items().iter().take(items).skip(self.items) {
            let message = self.message(item, transcript, store)?;
            if self.last_was_cut && matches!(message, Message::Assistant { .. }) {
                self.rendered.push(go_on());
            }
            self.last_was_cut = matches!(&message, Message::Assistant { calls, .. } if calls.is_empty());
            self.bytes += message.bytes();
            self.rendered.push(message.into());
            self.items += 1;
        }
        self.fresh.clear();
        let mut messages = self.rendered.clone();
        if self.last_was_cut {
            messages.push(go_on());
        }
        Ok(messages)
    }

    fn message(&self, item: &Item, transcript: &Transcript, store: &dyn Read) -> Result<Message, journal::Error> {
        let optional = |body: &Option<Body>| body.as_ref().map(|body| self.text(body, store)).transpose();
        Ok(match item {
            Item::User { body, .. } => Message::User { text: self.text(body, store)? },
            Item::Assistant { text, reasoning, calls, .. } => Message::Assistant {
                text: optional(text)?,
                reasoning: optional(reasoning)?,
                calls: calls.iter().map(|call| self.call(call, store)).collect::<Result<_, _>>()?,
            },
            Item::Result { call, output, is_error, .. } => {
                let asked = asked(transcript, *call);
                Message::Result {
                    provider_id: asked.map(|asked| asked.provider_id.as_str().into()).unwrap_or_default(),
                    tool: asked.map(|asked| asked.tool.as_str().into()).unwrap_or_default(),
                    text: self.text(output, store)?,
                    is_error: *is_error,
                }
            }
        })
    }

    fn call(&self, call: &ItemCall, store: &dyn Read) -> Result<CallOf, journal::Error> {
        Ok(CallOf {
            provider_id: call.provider_id.as_str().into(),
            tool: call.tool.as_str().into(),
            arguments: self.text(&call.arguments, store)?,
        })
    }
}

#[cfg(test)]
impl Conversation {
    pub(crate) fn with_bytes(bytes: usize) -> Self {
        Self { bytes, ..Self::default() }
    }
}

fn go_on() -> Cached<Message> {
    Message::User { text: GO_ON.into() }.into()
}

/// The call that a result answers: in the nearest message before it, so the search is short.
fn asked(transcript: &Transcript, id: engine::CallId) -> Option<&ItemCall> {
    transcript.items().iter().rev().find_map(|item| match item {
        Item::Assistant { calls, .. } => calls.iter().find(|call| call.id == id),
        Item::User { .. } | Item::Result { .. } => None,
    })
}
