//! How much of an answer has gone out in blocks. The text itself is that of the open stream.

use serde::{Deserialize, Serialize};

use super::is_zero;

/// How much of the answer that came last has gone out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextBlocks {
    /// Bytes of its text that blocks stand for. Such an answer cannot be taken back any more.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub taken: u32,
    /// What the rest of its text begins with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reopened: Option<String>,
}

impl TextBlocks {
    /// The part of this text that is in no block.
    pub(crate) fn rest(&self, text: &str) -> String {
        let taken = text.floor_char_boundary(self.taken as usize);
        [self.reopened.as_deref().unwrap_or_default(), &text[taken..]].concat()
    }

    /// A block stands for so many bytes more.
    pub(super) fn take(&mut self, bytes: u32, reopened: Option<&str>) {
        self.taken = self.taken.saturating_add(bytes);
        self.reopened = reopened.map(str::to_owned);
    }
}
