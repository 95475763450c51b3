//! What the model has been told and has said, by reference, and the rule that every call has its result.

use serde::{Deserialize, Serialize};

use crate::body::{Attachment, Body};
use crate::ids::{CallId, EffectId, MessageId};

/// One item of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Item {
    /// A message of the user.
    User {
        /// Which.
        message: MessageId,
        /// Its text.
        body: Body,
        /// What came with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
        /// Whether it came while the run was under way, and is told with a mark.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        steer: bool,
        /// Messages that gave way to others before it: it is told of them in short.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        dropped: Vec<Body>,
    },
    /// A message of the model. Two in a row mean that the first was cut off and the model was asked to go on.
    Assistant {
        /// The request that it answers.
        request: EffectId,
        /// Its text.
        text: Option<Body>,
        /// Its reasoning.
        reasoning: Option<Body>,
        /// Its calls, in source order.
        calls: Vec<ItemCall>,
        /// Its blocks, where their order or their signatures matter.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blocks: Option<Body>,
        /// Its images.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<Attachment>,
    },
    /// The result of a call.
    Result {
        /// Which.
        call: CallId,
        /// What the model is told.
        output: Body,
        /// Whether it is told as an error.
        is_error: bool,
        /// What the model is shown with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
    },
}

impl Item {
    /// All that it is told with.
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
            Self::Result { output, attachments, .. } => {
                [output].into_iter().chain(attachments.iter().map(|attachment| &attachment.body)).collect()
            }
        }
    }
}

/// A call as the model made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemCall {
    /// Our id.
    pub id: CallId,
    /// The provider's id.
    pub provider_id: String,
    /// The tool's name.
    pub tool: String,
    /// Its arguments.
    pub arguments: Body,
}

/// The conversation since the last compaction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transcript {
    items: Vec<Item>,
    /// How many items the last request held; these are known to be paired.
    sent: usize,
    /// How often it began anew: what was rendered of an older one is of no use.
    resets: u32,
}

/// A call without its result, or a result without its call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unpaired {
    /// A call has no result before the next message.
    #[error("call {call} has no result")]
    Call {
        /// Which.
        call: CallId,
    },
    /// A result follows no message that asked for it, or is the second one.
    #[error("a result for call {call} has no call")]
    Result {
        /// Which.
        call: CallId,
    },
}

impl Transcript {
    /// The items, oldest first.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    pub(crate) fn push(&mut self, item: Item) {
        self.items.push(item);
    }

    /// How often it began anew.
    pub fn resets(&self) -> u32 {
        self.resets
    }

    pub(crate) fn reset(&mut self) {
        *self = Self { resets: self.resets + 1, ..Self::default() };
    }

    pub(crate) fn set_sent(&mut self, items: usize) {
        self.sent = items.min(self.items.len());
    }

    /// Checks what has come since the last request; what that held was checked then.
    pub fn check_new(&self) -> Result<(), Unpaired> {
        check(&self.items[self.sent..])
    }

    /// Checks everything.
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
            Item::User { .. } | Item::Assistant { .. } => {
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
