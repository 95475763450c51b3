//! The contract between the runtime and a model: what is asked, and what is said.

use std::sync::Arc;

use engine::{Candidate, Failure, Part, ToolSpec, Usage};
use futures_util::stream::BoxStream;

use crate::endpoint::Endpoint;
use crate::rendering::Cached;

/// One message of the conversation, as it is rendered from the transcript.
///
/// Pairing is the caller's duty: each call of an `Assistant` has exactly one `Result` after it, before the next
/// `Assistant`, with the same `provider_id`, which is never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// What a person said.
    User {
        /// UTF-8.
        text: Arc<str>,
        /// What came with it.
        files: Vec<File>,
    },
    /// What the model said.
    Assistant(AssistantMessage),
    /// What a call gave back.
    Result {
        /// The id of the call.
        provider_id: Arc<str>,
        /// The tool's name.
        tool: Arc<str>,
        /// What the model is told.
        text: Arc<str>,
        /// Whether the call failed, was refused or was not run.
        is_error: bool,
        /// What the model is shown with it.
        files: Vec<File>,
    },
}

impl Message {
    /// A message of a person that is text alone.
    pub fn user(text: impl Into<Arc<str>>) -> Self {
        Self::User { text: text.into(), files: vec![] }
    }

    /// Bytes of its texts and files, but for reasoning and images of the model.
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

/// What a model said: blocks in the order in which it said them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AssistantMessage {
    /// The model, `PROVIDER/MODEL`: no other can read the signatures. Empty where none is signed.
    pub model: Arc<str>,
    /// In order.
    pub blocks: Vec<ContentBlock>,
}

/// A block of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentBlock {
    /// What it holds.
    pub held: BlockContent,
    /// The provider's own text for it, in the adapter's form.
    pub signature: Option<Arc<str>>,
}

/// What a block holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockContent {
    /// Text.
    Text(Arc<str>),
    /// Reasoning, sent back only to providers that ask for it; empty where only its signature is known.
    Reasoning(Arc<str>),
    /// A call.
    Call(CallOf),
    /// An image.
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
    /// What its bytes are: `image/png`.
    pub media_type: Arc<str>,
    /// Its name, without folders.
    pub name: Arc<str>,
    /// Its bytes.
    pub bytes: Arc<[u8]>,
}

/// A call in an assistant's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallOf {
    /// The provider's id, or one that was made for it.
    pub provider_id: Arc<str>,
    /// The tool's name.
    pub tool: Arc<str>,
    /// The arguments as the model wrote them; JSON, if it kept to it.
    pub arguments: Arc<str>,
}

/// One request to a model. Cheap to clone: texts are shared, and so is how they are written. Whoever sends the next request
/// of a conversation keeps what is the same in it.
#[derive(Debug, Clone)]
pub struct Request {
    /// Which model; its `max_output` is always sent.
    pub candidate: Candidate,
    /// The system prompt; left out when empty.
    pub system: Cached<Arc<str>>,
    /// The conversation, oldest first.
    pub messages: Vec<Cached<Message>>,
    /// The tools that it may call, in the order in which it sees them.
    pub tools: Cached<Arc<[ToolSpec]>>,
    /// Where it is served and with which key, resolved when the request is sent.
    pub endpoint: Endpoint,
    /// The same for all requests that begin alike, for providers that keep what they have read by such a name; at most 64
    /// letters and digits, and nothing that says whose they are.
    pub cache_key: Option<Arc<str>>,
}

/// What comes out of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelEvent {
    /// The first piece of the answer is there. Comes once, before any part; pings do not count.
    Opened,
    /// A piece of the answer. A call's id and name come once, with its first part.
    Part(Part),
    /// The provider's own end mark came: the answer is whole. The last item.
    Ended {
        /// What it cost: the provider's figures, or an estimate of four bytes a token if it gave none.
        usage: Usage,
        /// Whether these are the provider's figures.
        is_counted: bool,
    },
}

/// The stream of an answer. It ends after [`ModelEvent::Ended`] or after an `Err`; dropping it cancels the request.
pub type ResponseStream = BoxStream<'static, Result<ModelEvent, Failure>>;

/// A model API.
pub trait Model: Send + Sync {
    /// Begins to answer. Nothing is sent before the stream is polled; it must be polled in a tokio runtime with time
    /// and network on. Limits on silence and on the first byte are the caller's.
    fn stream(&self, request: Request) -> ResponseStream;
}
