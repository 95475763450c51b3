//! One event of a stream. Parsing is lenient, since servers of this format differ: unneeded fields are skipped and
//! `null` counts as absent.

use engine::Usage;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::wire::usage::count;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Event {
    pub(super) r#type: Option<String>,
    pub(super) index: Option<u64>,
    pub(super) message: Option<Message>,
    pub(super) content_block: Option<ContentBlock>,
    pub(super) delta: Option<Delta>,
    pub(super) usage: Option<WireUsage>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Message {
    pub(super) usage: Option<WireUsage>,
}

/// A block at its start; its text is mostly empty.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ContentBlock {
    pub(super) r#type: Option<String>,
    pub(super) text: Option<String>,
    pub(super) thinking: Option<String>,
    pub(super) signature: Option<String>,
    /// The data of redacted thinking.
    pub(super) data: Option<String>,
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    /// An empty object; some servers send the whole input here.
    pub(super) input: Option<Map<String, Value>>,
}

/// An addition to a block, or to the message at its end.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta {
    pub(super) text: Option<String>,
    pub(super) thinking: Option<String>,
    pub(super) signature: Option<String>,
    pub(super) partial_json: Option<String>,
    pub(super) stop_reason: Option<String>,
    pub(super) stop_details: Option<StopDetails>,
}

/// Why an answer was refused.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StopDetails {
    pub(super) category: Option<String>,
    pub(super) explanation: Option<String>,
}

/// The counts so far. A missing count keeps its last value. A float from a faulty server must not fail the answer.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
pub(super) struct WireUsage {
    input_tokens: Option<f64>,
    cache_read_input_tokens: Option<f64>,
    cache_creation_input_tokens: Option<f64>,
    output_tokens: Option<f64>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
struct OutputDetails {
    thinking_tokens: Option<f64>,
}

impl WireUsage {
    /// Merges with the earlier counts: the larger figure of each, since counts only grow.
    pub(super) fn with(&self, known: Usage) -> Usage {
        let larger = |now: Option<f64>, known: u64| count(now).max(known);
        let output = larger(self.output_tokens, known.output);
        let thought = self.output_tokens_details.and_then(|details| details.thinking_tokens);
        Usage {
            input: larger(self.input_tokens, known.input),
            cached: larger(self.cache_read_input_tokens, known.cached),
            cache_written: larger(self.cache_creation_input_tokens, known.cache_written),
            output,
            reasoning: larger(thought, known.reasoning).min(output),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c6_figures_of_the_beginning_and_the_end_are_put_together() {
        let usage = |json: &str| serde_json::from_str::<WireUsage>(json).unwrap();
        let begun = usage(
            r#"{"input_tokens":12,"cache_read_input_tokens":900,"cache_creation_input_tokens":30,"output_tokens":1}"#,
        );
        let begun = begun.with(Usage::default());
        assert_eq!(begun, Usage { input: 12, cached: 900, cache_written: 30, output: 1, reasoning: 0 });
        let ended =
            usage(r#"{"input_tokens":0,"output_tokens":40,"output_tokens_details":{"thinking_tokens":25},"x":null}"#);
        assert_eq!(ended.with(begun), Usage { input: 12, cached: 900, cache_written: 30, output: 40, reasoning: 25 });
        assert_eq!(usage(r#"{"output_tokens":-2.5,"input_tokens":null}"#).with(begun), begun);
    }
}
