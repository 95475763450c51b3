//! The address of a sender or a recipient in a channel.

use serde::{Deserialize, Serialize};

use crate::tables::limits::ADDRESS_BYTES;

/// A place in a channel: where a message came from, or where its answer goes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Address {
    /// The name of the channel, such as `telegram`.
    pub channel: String,
    /// The account of Limulus in that channel, if it has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// The person or the group at the other end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// The thread or the topic within it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
}

impl Address {
    /// Checks each part: 1 to [`ADDRESS_BYTES`] bytes without control characters. The error names the part.
    pub fn check(&self) -> Result<(), String> {
        let Self { channel, account, peer, thread } = self;
        let parts = [("account", account), ("peer", peer), ("thread", thread)];
        let parts = parts.into_iter().filter_map(|(name, part)| Some((name, part.as_deref()?)));
        for (name, part) in std::iter::once(("channel", channel.as_str())).chain(parts) {
            if part.is_empty() {
                return Err(format!("`{name}` is empty"));
            }
            if part.len() > ADDRESS_BYTES {
                return Err(format!("`{name}` has {} bytes, at most {ADDRESS_BYTES} are allowed", part.len()));
            }
            if part.contains(char::is_control) {
                return Err(format!("`{name}` contains a control character"));
            }
        }
        Ok(())
    }
}

impl std::fmt::Display for Address {
    /// `CHANNEL`, and the other parts by their names.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { channel, account, peer, thread } = self;
        f.write_str(channel)?;
        for (name, part) in [("account", account), ("peer", peer), ("thread", thread)] {
            if let Some(part) = part {
                write!(f, ", {name} {part}")?;
            }
        }
        Ok(())
    }
}
