//! How the reply of a run goes out (R46–R48): to which routes, in which pieces, and what of it.

pub mod blocks;
pub mod payloads;

use serde::{Deserialize, Serialize};

use crate::event::Address;
use crate::settings::Policy;

/// An answer that is exactly this, but for blanks around it, says nothing.
pub const SILENT: &str = "NO_REPLY";

/// Bytes of it that no other answer begins with: `NO_`.
const SILENT_BEGINS: usize = 3;

/// The fewest characters of texts that are compared: shorter ones are alike by chance.
const COMPARED_CHARS: usize = 10;

/// Whether an answer is to stay silent.
pub fn is_silent(answer: &str) -> bool {
    answer.trim() == SILENT
}

/// Whether an answer that has come so far may be one that is to stay silent.
pub(crate) fn may_be_silent(answer: &str, is_whole: bool) -> bool {
    let answer = answer.trim();
    answer == SILENT || !is_whole && answer.len() >= SILENT_BEGINS && SILENT.starts_with(answer)
}

/// Whether an answer repeats what was sent: blanks and the case of letters aside, it is a part of that, or hardly more than it.
pub fn is_repetition(answer: &str, sent: &str) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    let (answer, sent) = (plain(answer), plain(sent));
    let length = |text: &str| text.chars().count();
    let says_more = length(&answer) >= length(&sent) + COMPARED_CHARS;
    length(&answer).min(length(&sent)) >= COMPARED_CHARS
        && (sent.contains(&answer) || !says_more && answer.contains(&sent))
}

/// When text of a running answer goes out in blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockMode {
    /// Never: the whole reply goes out when the run has ended.
    #[default]
    Off,
    /// As soon as a block is full.
    TextEnd,
    /// When the message of the model has ended.
    MessageEnd,
}

/// Where a block ends best.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockBreak {
    /// At a blank line, else at the end of a line, else of a sentence.
    #[default]
    Paragraph,
    /// At the end of a line, else between words.
    Newline,
    /// At the end of a sentence, else between words.
    Sentence,
}

/// How the text of an answer is divided into blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct BlockSettings {
    pub mode: BlockMode,
    /// Characters that a block has at least, unless the text ends.
    pub min_chars: u32,
    /// Characters that it has at most.
    pub max_chars: u32,
    pub break_at: BlockBreak,
}

impl Default for BlockSettings {
    /// The figures of OpenClaw.
    fn default() -> Self {
        Self { mode: BlockMode::Off, min_chars: 800, max_chars: 1_200, break_at: BlockBreak::Paragraph }
    }
}

/// Whether a reply has the reasoning of the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningMode {
    /// It has not.
    #[default]
    Off,
    /// Before the answer.
    Block,
    /// Clients that show a growing answer receive it as it comes; the reply does not have it.
    Stream,
}

/// A route that is configured: a place outside where replies go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplyRoute {
    /// Its name: the channel of addresses that it serves.
    pub name: String,
    /// Whether what arrives twice under the same key counts once there: only then may a delivery whose outcome is unknown be
    /// tried again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_keys: bool,
    /// How the text of its replies is divided.
    #[serde(default)]
    pub blocks: BlockSettings,
    /// What is decided about messages of the model to it; none = what the table of defaults says, and allow for a run whose reply goes
    /// there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
}

/// How the reply of a run goes out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReplySettings {
    /// The routes that are configured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<ReplyRoute>,
    /// Whether it has the reasoning of the model.
    #[serde(skip_serializing_if = "is_off")]
    pub reasoning: ReasoningMode,
    /// Whether it names the calls of the run; none = as the session says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verbose: Option<bool>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_off(reasoning: &ReasoningMode) -> bool {
    *reasoning == ReasoningMode::Off
}

impl ReplySettings {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The route of this name.
    pub fn route(&self, name: &str) -> Option<&ReplyRoute> {
        self.routes.iter().find(|route| route.name == name)
    }

    /// The route that serves this address.
    pub fn route_to(&self, address: &Address) -> Option<&ReplyRoute> {
        self.route(&address.channel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r46_only_an_answer_that_is_nothing_else_stays_silent() {
        assert!(is_silent("NO_REPLY") && is_silent(" NO_REPLY\n"));
        for answer in ["NO_REPLY.", "Answer: NO_REPLY", "no_reply", "", "NO_REPLY NO_REPLY"] {
            assert!(!is_silent(answer), "{answer}");
        }
    }

    #[test]
    fn r46_a_text_that_was_sent_is_known_again() {
        assert!(is_repetition("The build is  green.", "the build is green."));
        assert!(is_repetition("The build is green.", "Done! The build is green. Bye"));
        assert!(!is_repetition("The build is green.", "The build is red again."));
        assert!(!is_repetition("yes", "yes"), "short texts are alike by chance");
        assert!(!is_repetition("", "The build is green."));
    }
}
