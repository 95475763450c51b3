//! The contract between the runtime and a model: requests and answers.

use std::sync::Arc;

use engine::{Candidate, Failure, Part, StopReason, ToolSpec, Usage};
use futures_util::stream::BoxStream;

use crate::endpoint::Endpoint;
use crate::rendering::Cached;

/// One message of the conversation, as it is rendered from the transcript.
///
/// Pairing is the caller's duty: each call of an `Assistant` has exactly one `Result` after it, before the next
/// `Assistant`, with the same `provider_id`, which is never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A message of the user.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    User { text: Arc<str>, files: Vec<File> },
    /// A message of the model.
    Assistant(AssistantMessage),
    /// The result of a call.
    Result {
        /// The id of the call.
        provider_id: Arc<str>,
        /// The name of the called tool, also if no such tool exists.
        tool: Arc<str>,
        /// The output for the model.
        text: Arc<str>,
        /// Whether the call failed, was refused or was not run.
        is_error: bool,
        /// The images and files of the result.
        files: Vec<File>,
    },
}

impl Message {
    /// A message of the user that is only text.
    pub fn user(text: impl Into<Arc<str>>) -> Self {
        Self::User { text: text.into(), files: vec![] }
    }

    /// Bytes of its texts and files, without reasoning and images of the model.
    pub fn bytes(&self) -> usize {
        match self {
            Self::User { text, files } | Self::Result { text, files, .. } => {
                text.len() + files.iter().map(|file| file.bytes.len()).sum::<usize>()
            }
            Self::Assistant(answer) => {
                answer.text().len() + answer.calls().map(|call| call.tool.len() + call.arguments.len()).sum::<usize>()
            }
        }
    }
}

/// A message of a model: its blocks in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AssistantMessage {
    /// The model, `PROVIDER/MODEL`: only it can read the signatures. Empty if no block is signed.
    pub model: Arc<str>,
    /// The blocks in order.
    pub blocks: Vec<ContentBlock>,
}

/// A block of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentBlock {
    /// The content, without the signature.
    pub held: BlockContent,
    /// The provider's signature, in the form of the adapter.
    pub signature: Option<Arc<str>>,
}

/// The content of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockContent {
    /// Text for the user.
    Text(Arc<str>),
    /// Reasoning, sent back only to providers that require it; empty if only its signature is known.
    Reasoning(Arc<str>),
    /// A call that the model makes.
    Call(CallOf),
    /// An image that the model made.
    Image(File),
}

impl AssistantMessage {
    /// An answer without signatures: reasoning, text, calls.
    pub fn plain(reasoning: Option<Arc<str>>, text: Option<Arc<str>>, calls: Vec<CallOf>) -> Self {
        let reasoning = reasoning.map(BlockContent::Reasoning);
        let held =
            reasoning.into_iter().chain(text.map(BlockContent::Text)).chain(calls.into_iter().map(BlockContent::Call));
        Self { model: "".into(), blocks: held.map(|held| ContentBlock { held, signature: None }).collect() }
    }

    /// Whether its rest can become one message with it: no block of either is signed.
    pub fn joins(&self, rest: &Self) -> bool {
        self.blocks.iter().chain(&rest.blocks).all(|block| block.signature.is_none())
    }

    /// Adds the rest of an answer that was cut.
    pub fn append(&mut self, rest: Self) {
        self.blocks.extend(rest.blocks);
    }

    /// Its calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = &CallOf> {
        self.blocks.iter().filter_map(|block| match &block.held {
            BlockContent::Call(call) => Some(call),
            BlockContent::Text(_) | BlockContent::Reasoning(_) | BlockContent::Image(_) => None,
        })
    }

    /// Its text, one block after the other.
    pub fn text(&self) -> String {
        self.joined(|held| if let BlockContent::Text(text) = held { Some(text) } else { None })
    }

    /// Its reasoning, one block after the other.
    pub fn reasoning(&self) -> String {
        self.joined(|held| if let BlockContent::Reasoning(text) = held { Some(text) } else { None })
    }

    fn joined<'a>(&'a self, part: impl Fn(&'a BlockContent) -> Option<&'a Arc<str>>) -> String {
        self.blocks.iter().filter_map(|block| part(&block.held)).map(|text| &**text).collect()
    }
}

/// An image or a file in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// The media type, for example `image/png`.
    pub media_type: Arc<str>,
    /// Its name, without folders.
    pub name: Arc<str>,
    /// The content, not encoded.
    pub bytes: Arc<[u8]>,
}

/// A call in an assistant's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallOf {
    /// The provider's id, or a generated one.
    pub provider_id: Arc<str>,
    /// The tool's name as the model wrote it; the tool need not exist.
    pub tool: Arc<str>,
    /// The arguments as the model wrote them; normally JSON.
    pub arguments: Arc<str>,
}

/// One request to a model. Cheap to clone: clones share texts and their renderings. For the next request of a
/// conversation, keep the parts that do not change.
#[derive(Debug, Clone)]
pub struct Request {
    /// The model; its `max_output` is always sent.
    pub candidate: Candidate,
    /// The system prompt; left out when empty.
    pub system: Cached<Arc<str>>,
    /// The conversation, oldest first.
    pub messages: Vec<Cached<Message>>,
    /// The tools that it may call, in the order of the request.
    pub tools: Cached<Arc<[ToolSpec]>>,
    /// The address and the key, resolved when the request is sent.
    pub endpoint: Endpoint,
    /// Whether the conversation ends with an answer that was cut at its output limit and is to be continued. If that
    /// answer was whole, there is nothing to add: an answer without content is then no failure.
    pub continues: bool,
    /// The key of the provider's prompt cache: the same for all requests that begin alike. At most 64 letters and
    /// digits, without personal data.
    pub cache_key: Option<Arc<str>>,
    /// The JSON schema of the answer. The system prompt has it too: it is only sent where the format has a place for it and the
    /// candidate takes it there.
    pub output_schema: Option<Arc<serde_json::Value>>,
}

/// An item in the stream of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelEvent {
    /// The answer begins. Sent once, before any part; pings do not count.
    Opened,
    /// A piece of the answer. A call's id and name come once, with its first part.
    Part(Part),
    /// The provider's end mark arrived: the answer is complete. The last item.
    Ended {
        /// The token usage: the provider's figures, or an estimate of four bytes a token if it sent none.
        usage: Usage,
        /// Whether these are the provider's figures.
        is_counted: bool,
        /// Why the answer ended early; none = the model was done.
        stop_reason: Option<StopReason>,
    },
}

/// The stream of an answer. It ends after [`ModelEvent::Ended`] or after an `Err`; dropping it cancels the request.
pub type ResponseStream = BoxStream<'static, Result<ModelEvent, Failure>>;

/// A client of model APIs.
pub trait Model: Send + Sync {
    /// Sends the request when the stream is first polled, within a Tokio runtime with time and I/O enabled. The caller
    /// enforces the timeouts for the first byte and for silence.
    fn stream(&self, request: Request) -> ResponseStream;
}
