//! Renders the transcript for a model. It is append-only, so a step costs only what is new.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use engine::{
    Attachment, BlockOf, Blocks, Body, BodyKind, Content, Hash, Item, ItemCall, Settings, ToolSpec, Transcript,
};
use journal::Read;
use models::{AssistantMessage, BlockContent, Cached, CallOf, ContentBlock, File, Message};

use crate::latest::Latest;
use crate::summary::OPENING;

/// The first `items` items of a transcript as messages, exactly as in the request that contains them; `turns` as in
/// [`Settings::history_turns`].
pub fn conversation(
    transcript: &Transcript,
    (items, turns): (usize, Option<u32>),
    store: &dyn Read,
) -> Result<Vec<Cached<Message>>, journal::Error> {
    let left_out = transcript.left_out(turns, items);
    Conversation::default().render(transcript, (items, left_out), STEER_MARK, store)
}

/// The default prefix of a message that arrived during a run.
pub(crate) const STEER_MARK: &str = "[STEER] ";

/// Characters of the first line of a dropped message that the model receives.
const DROPPED_CHARS: usize = 160;

/// The request to the model after its last message was interrupted.
pub(crate) const CONTINUE_PROMPT: &str = "Your last message was cut off. Go on exactly where it stopped.";

/// Texts that are about to be rendered, and the rendered messages.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    fresh: HashMap<Hash, Arc<[u8]>>,
    head: Option<Head>,
    rendered: Vec<Cached<Message>>,
    /// Where the messages of each item begin.
    begins: Vec<usize>,
    /// The bytes of the texts in the messages.
    bytes: usize,
    items: usize,
    /// The compaction count of the conversation that they belong to.
    resets: u32,
    last_was_interrupted: bool,
}

/// What all requests of a run have in common.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    prompt: Hash,
    settings: Arc<Settings>,
    pub(crate) system: Cached<Arc<str>>,
    pub(crate) tools: Cached<Arc<[ToolSpec]>>,
}

impl Conversation {
    /// Bytes of the texts that it holds, rendered or not.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.fresh.values().map(|text| text.len()).sum::<usize>()
    }

    /// Leaves out texts of over `most` bytes that are not rendered yet: whoever renders them reads them again.
    pub(crate) fn leave_out_large(&mut self, most: usize) {
        self.fresh.retain(|_, text| text.len() <= most);
    }

    /// Continues from the messages that were cached while the session was idle, unless the conversation has started
    /// anew.
    pub(crate) fn resume_from(&mut self, cached: impl FnOnce() -> Option<Self>) {
        if self.items == 0
            && let Some(cached) = cached()
        {
            let fresh = std::mem::replace(self, cached).fresh;
            self.fresh.extend(fresh);
        }
    }

    /// The system prompt and the tools of a run: read once, shared by its requests.
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

    /// Keeps the bytes of a batch until they are rendered.
    pub(crate) fn keep(&mut self, bodies: &[Content]) {
        let texts = bodies.iter().filter(|content| content.body.kind != BodyKind::Settings);
        self.fresh.extend(texts.map(|content| (content.body.hash, Arc::clone(&content.bytes))));
    }

    /// The text of a body.
    pub(crate) fn text(&self, body: &Body, store: &dyn Read) -> Result<Arc<str>, journal::Error> {
        Ok(String::from_utf8_lossy(&self.content(body, store)?).into())
    }

    /// The same; none if it was erased.
    pub(crate) fn text_unless_erased(&self, body: &Body, store: &dyn Read) -> Result<Option<Arc<str>>, journal::Error> {
        Ok(self.content_unless_erased(body, store)?.map(|content| String::from_utf8_lossy(&content).into()))
    }

    fn content(&self, body: &Body, store: &dyn Read) -> Result<Arc<[u8]>, journal::Error> {
        let bytes = self.content_unless_erased(body, store)?;
        bytes.ok_or_else(|| damaged(format!("the body {} is not there", body.hash)))
    }

    fn content_unless_erased(&self, body: &Body, store: &dyn Read) -> Result<Option<Arc<[u8]>>, journal::Error> {
        match self.fresh.get(&body.hash) {
            Some(bytes) => Ok(Some(Arc::clone(bytes))),
            None => store.body(&body.hash),
        }
    }

    /// The messages of the first `items` items without those of `left_out`; `mark` is the prefix of those that arrived
    /// during a run.
    pub(crate) fn render(
        &mut self,
        transcript: &Transcript,
        (items, left_out): (usize, Range<usize>),
        mark: &str,
        store: &dyn Read,
    ) -> Result<Vec<Cached<Message>>, journal::Error> {
        if transcript.resets() != self.resets {
            self.rendered.clear();
            self.begins.clear();
            (self.items, self.bytes, self.last_was_interrupted) = (0, 0, false);
            self.resets = transcript.resets();
        }
        self.fetch(transcript.items().iter().take(items).skip(self.items), store)?;
        for (at, item) in transcript.items().iter().enumerate().take(items).skip(self.items) {
            let message = self.message(item, &transcript.items()[..at], mark, store)?;
            self.begins.push(self.rendered.len());
            let message = if self.last_was_interrupted { self.after_interrupted(message) } else { message };
            self.last_was_interrupted =
                matches!(&message, Message::Assistant(answer) if answer.calls().next().is_none());
            self.bytes += message.bytes();
            self.rendered.push(message.into());
            self.items += 1;
        }
        self.fresh.clear();
        let begin = |at: usize| self.begins.get(at).copied().unwrap_or(self.rendered.len());
        let mut messages = self.rendered[..begin(left_out.start)].to_vec();
        messages.extend_from_slice(&self.rendered[begin(left_out.end)..]);
        if self.last_was_interrupted {
            messages.push(continue_message());
        }
        Ok(messages)
    }

    /// Places a message behind an interrupted one: the rest of an answer becomes one message with its beginning. With
    /// signatures the two stay apart, since providers take signed blocks back only as they were.
    fn after_interrupted(&mut self, message: Message) -> Message {
        let Message::Assistant(rest) = message else { return message };
        let beginning = self.rendered.last().map(|last| (**last).clone());
        if let Some(Message::Assistant(mut answer)) = beginning
            && answer.joins(&rest)
        {
            self.rendered.pop();
            self.bytes = self.bytes.saturating_sub(answer.text().len());
            answer.append(rest);
            return Message::Assistant(answer);
        }
        self.rendered.push(continue_message());
        Message::Assistant(rest)
    }

    /// Reads the missing bodies of these items together, each of them once.
    fn fetch<'a>(&mut self, items: impl Iterator<Item = &'a Item>, store: &dyn Read) -> Result<(), journal::Error> {
        let mut hashes: Vec<Hash> = items.flat_map(Item::bodies).map(|body| body.hash).collect();
        hashes.sort_unstable();
        hashes.dedup();
        hashes.retain(|hash| !self.fresh.contains_key(hash));
        if !hashes.is_empty() {
            let found = hashes.iter().zip(store.bodies(&hashes)?);
            self.fresh.extend(found.filter_map(|(hash, bytes)| Some((*hash, bytes?))));
        }
        Ok(())
    }

    /// Renders a message; `before` are the items before it.
    fn message(&self, item: &Item, before: &[Item], mark: &str, store: &dyn Read) -> Result<Message, journal::Error> {
        let optional = |body: &Option<Body>| body.as_ref().map(|body| self.text(body, store)).transpose();
        Ok(match item {
            Item::User { body, attachments, steer, dropped, .. } => {
                let text = self.text(body, store)?;
                let text = if *steer { format!("{mark}{text}").into() } else { text };
                let text =
                    if dropped.is_empty() { text } else { format!("{}{text}", self.in_short(dropped, store)?).into() };
                Message::User { text, files: self.files(attachments, store)? }
            }
            Item::Summary { body, .. } => Message::user(format!("{OPENING}{}", self.text(body, store)?)),
            Item::Note { body } => Message::user(self.text(body, store)?),
            Item::Assistant { text, reasoning, calls, blocks, images, .. } => {
                let calls = calls.iter().map(|call| self.call(call, store)).collect::<Result<_, _>>()?;
                let plain = AssistantMessage::plain(optional(reasoning)?, optional(text)?, calls);
                let mut answer = match blocks {
                    Some(blocks) => in_order(&plain, &self.content(blocks, store)?, blocks)?,
                    None => plain,
                };
                let images = self.files(images, store)?.into_iter();
                answer
                    .blocks
                    .extend(images.map(|image| ContentBlock { held: BlockContent::Image(image), signature: None }));
                Message::Assistant(answer)
            }
            Item::Result { call, output, is_error, attachments } => {
                let asked = asked(before, *call);
                Message::Result {
                    provider_id: asked.map(|asked| asked.provider_id.as_str().into()).unwrap_or_default(),
                    tool: asked.map(|asked| asked.tool.as_str().into()).unwrap_or_default(),
                    text: self.text(output, store)?,
                    is_error: *is_error,
                    files: self.files(attachments, store)?,
                }
            }
        })
    }

    /// The note about dropped messages: the first line of each.
    fn in_short(&self, dropped: &[Body], store: &dyn Read) -> Result<String, journal::Error> {
        let mut note = format!("[{} earlier messages were not run because the queue was full:\n", dropped.len());
        for body in dropped {
            let text = self.text(body, store)?;
            let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            note.extend(["- ".to_owned(), line.trim().chars().take(DROPPED_CHARS).collect(), "\n".to_owned()]);
        }
        note.push_str("]\n\n");
        Ok(note)
    }

    fn files(&self, attachments: &[Attachment], store: &dyn Read) -> Result<Vec<File>, journal::Error> {
        let file = |attachment: &Attachment| {
            let Attachment { body, media_type, name } = attachment;
            let bytes = self.content(body, store)?;
            Ok(File { media_type: media_type.as_str().into(), name: name.as_str().into(), bytes })
        };
        attachments.iter().map(file).collect()
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
    /// One of which half the text is not rendered yet, if that is little.
    pub(crate) fn with_bytes(bytes: usize) -> Self {
        let fresh = (bytes / 2).min(1 << 10);
        Self { bytes: bytes - fresh, ..Self::with_fresh(fresh) }
    }

    /// One of a text that is not rendered yet.
    pub(crate) fn with_fresh(bytes: usize) -> Self {
        Self { fresh: [(Hash::of(&[]), vec![0; bytes].into())].into(), ..Self::default() }
    }
}

fn continue_message() -> Cached<Message> {
    Message::user(CONTINUE_PROMPT).into()
}

fn damaged(detail: String) -> journal::Error {
    journal::Error::Damaged { path: std::path::PathBuf::new(), detail }
}

/// The same response in the order of its blocks, with their signatures.
fn in_order(plain: &AssistantMessage, bytes: &[u8], body: &Body) -> Result<AssistantMessage, journal::Error> {
    let Blocks { model, blocks } =
        Blocks::from_bytes(bytes).map_err(|error| damaged(format!("the blocks {} do not read: {error}", body.hash)))?;
    let calls: Vec<_> = plain.calls().cloned().collect();
    let (text, reasoning) = (plain.text(), plain.reasoning());
    let (mut text, mut reasoning) = (text.as_str(), reasoning.as_str());
    let content = |block: &engine::Block| {
        Some(match block.of {
            BlockOf::Text => BlockContent::Text(taken(&mut text, block.bytes)?.into()),
            BlockOf::Reasoning => BlockContent::Reasoning(taken(&mut reasoning, block.bytes)?.into()),
            BlockOf::Call(place) => BlockContent::Call(calls.get(place as usize)?.clone()),
        })
    };
    let contents: Option<Vec<BlockContent>> = blocks.iter().map(content).collect();
    let contents = contents.ok_or_else(|| damaged(format!("the blocks {} do not fit their message", body.hash)))?;
    let signatures = blocks.into_iter().map(|block| block.signature.map(Arc::from));
    let blocks = contents.into_iter().zip(signatures).map(|(held, signature)| ContentBlock { held, signature });
    Ok(AssistantMessage { model: model.into(), blocks: blocks.collect() })
}

/// Splits off the first `length` bytes of a text; `None` if it is shorter.
fn taken<'a>(text: &mut &'a str, bytes: u64) -> Option<&'a str> {
    let (taken, rest) = text.split_at_checked(usize::try_from(bytes).ok()?)?;
    *text = rest;
    Some(taken)
}

/// The call that a result answers: in the nearest message before it, so the search is short.
fn asked(before: &[Item], id: engine::CallId) -> Option<&ItemCall> {
    before.iter().rev().find_map(|item| match item {
        Item::Assistant { calls, .. } => calls.iter().find(|call| call.id == id),
        _ => None,
    })
}
