//! What the system prompt of a run is made of.

use serde::{Deserialize, Serialize};

/// How much of the system prompt a run has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptProfile {
    /// Every part.
    #[default]
    Full,
    /// Without skills, and of the bootstrap files only instructions (`AGENTS.md`) and `TOOLS.md`.
    Minimal,
    /// Only who the agent is.
    None,
}

/// What the system prompt of a run is made of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PromptSettings {
    /// How much of it there is.
    pub profile: PromptProfile,
    /// What stands in it for who the agent is and how it works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The names of the skills that the run may have; none = all that there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skills: Option<Vec<String>>,
    /// What is added to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub append: Option<String>,
}

/// Bytes of a prompt that a message brings: every request of its run has it.
pub const PROMPT_BYTES: usize = 64 << 10;

/// Whether a message may bring this prompt; else why not.
pub fn check_prompt(text: &str) -> Result<(), String> {
    if text.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    if text.len() > PROMPT_BYTES {
        return Err(format!("it has {} bytes, at most {PROMPT_BYTES} are taken", text.len()));
    }
    if text.contains('\0') {
        return Err("it is no text".to_owned());
    }
    Ok(())
}

impl PromptSettings {
    /// Whether it is the whole prompt, and no other.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
