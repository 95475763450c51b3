//! One line of the stream (docs.ollama.com/api/chat). Unneeded fields are skipped, and `null` counts as absent.

use engine::Usage;
use serde::Deserialize;
use serde_json::Value;

use crate::wire::Json;
use crate::wire::usage::count;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Frame {
    pub(super) message: Option<Message>,
    /// Whether this is the last line.
    pub(super) done: Option<bool>,
    pub(super) done_reason: Option<String>,
    /// A float or a negative number must not fail the answer.
    prompt_eval_count: Option<f64>,
    eval_count: Option<f64>,
    pub(super) error: Option<Value>,
}

impl Frame {
    /// The counts; none if the server sent none. Input from the server's cache counts as not cached.
    pub(super) fn usage(&self) -> Option<Usage> {
        let input = count(Some(self.prompt_eval_count?));
        Some(Usage { input, output: count(self.eval_count), ..Usage::default() })
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Message {
    pub(super) content: Option<String>,
    pub(super) thinking: Option<String>,
    pub(super) tool_calls: Option<Vec<Call>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Call {
    /// Newer servers give one.
    pub(super) id: Option<String>,
    pub(super) function: Function,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) arguments: Json,
}
