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
    },
    /// What the model said.
    Assistant {
        /// Its text, if there was any.
        text: Option<Arc<str>>,
        /// Its reasoning, sent back only to providers that ask for it.
        reasoning: Option<Arc<str>>,
        /// The calls that it asked for, in order.
        calls: Vec<CallOf>,
    },
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
    },
}

impl Message {
    /// Bytes of its texts, but for reasoning.
    pub fn bytes(&self) -> usize {
        match self {
            Self::User { text } | Self::Result { text, .. } => text.len(),
            Self::Assistant { text, calls, .. } => {
                let calls: usize = calls.iter().map(|call| call.tool.len() + call.arguments.len()).sum();
                text.as_ref().map_or(0, |text| text.len()) + calls
            }
        }
    }
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
    pub tools: Cached<Vec<ToolSpec>>,
    /// Where it is served and with which key, resolved when the request is sent.
    pub endpoint: Endpoint,
}

/// What comes out of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// The first piece of the answer is there. Comes once, before any part; pings do not count.
    Opened,
    /// A piece of the answer. A call's id and name come once, with its first part.
    Part(Part),
    /// The provider's own end mark came: the answer is whole. The last item.
    Ended {
        /// What it cost: the provider's figures, or an estimate of four bytes a token if it gave none.
        usage: Usage,
    },
}

/// The stream of an answer. It ends after [`Said::Ended`] or after an `Err`; dropping it cancels the request.
pub type SaidStream = BoxStream<'static, Result<Said, Failure>>;

/// A model API.
pub trait Model: Send + Sync {
    /// Begins to answer. Nothing is sent before the stream is polled; it must be polled in a tokio runtime with time
    /// and network on. Limits on silence and on the first byte are the caller's.
    fn stream(&self, request: Request) -> SaidStream;
}
