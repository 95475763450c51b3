//! Requests a thinking level, and an answer that fits a schema, with the parameters of the model. Newer models take an effort and
//! think adaptively; older
//! ones and other servers of this format take a budget of tokens.

use engine::{Candidate, Thinking as Level};
use serde::Serialize;
use serde_json::Value;

use crate::structured::{self, ANTHROPIC};

/// The thinking parameters of a request.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Asked<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'a>>,
}

impl<'a> Asked<'a> {
    /// The same, with the schema of the answer, if the API takes it.
    pub(super) fn with_schema(mut self, schema: Option<&'a Value>) -> Self {
        if let Some(schema) = schema.filter(|schema| structured::fits(schema, &ANTHROPIC)) {
            let effort = self.output_config.and_then(|config| config.effort);
            self.output_config = Some(OutputConfig { effort, format: Some(Format { r#type: "json_schema", schema }) });
        }
        self
    }
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Thinking {
    Disabled,
    /// The newest models do not send their thinking unless this is requested.
    Adaptive {
        display: &'static str,
    },
    Enabled {
        budget_tokens: u64,
    },
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct OutputConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<Format<'a>>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Format<'a> {
    r#type: &'static str,
    schema: &'a Value,
}

/// The smallest budget that the API accepts, tokens.
const LEAST_BUDGET: u64 = 1024;

/// Models that take a budget, by prefixes of their names.
const WITH_BUDGET: &[&str] = &[
    "claude-2",
    "claude-3",
    "claude-haiku-4",
    "claude-opus-4-0",
    "claude-opus-4-1",
    "claude-opus-4-2",
    "claude-opus-4-5",
    "claude-sonnet-4-0",
    "claude-sonnet-4-2",
    "claude-sonnet-4-5",
];

/// Models whose thinking cannot be switched off.
const ALWAYS: &[&str] = &["claude-fable", "claude-mythos"];

/// Models that take an effort but not `xhigh`.
const UP_TO_HIGH: &[&str] = &["claude-opus-4-6", "claude-sonnet-4-6", "claude-mythos-preview"];

/// The parameters for a request. `can_begin` says that the turn is new or began with thinking: with a budget, thinking
/// cannot be switched on in the middle of a turn.
pub(super) fn asked(candidate: &Candidate, can_begin: bool) -> Asked<'static> {
    let Some(level) = candidate.thinking else { return Asked::default() };
    // Gateways add a prefix: `anthropic/claude-…`.
    let name = candidate.model.find("claude").map_or("", |at| &candidate.model[at..]);
    let is_one_of = |names: &[&str]| names.iter().any(|known| name.starts_with(known));
    if name.is_empty() || is_one_of(WITH_BUDGET) {
        return Asked { thinking: Some(budget(level, candidate.max_output, can_begin)), output_config: None };
    }
    if level == Level::Off && !is_one_of(ALWAYS) {
        return Asked { thinking: Some(Thinking::Disabled), output_config: None };
    }
    let effort = match level {
        Level::Off | Level::Minimal | Level::Low => "low",
        Level::Medium => "medium",
        Level::High => "high",
        Level::Xhigh => {
            if is_one_of(UP_TO_HIGH) {
                "high"
            } else {
                "xhigh"
            }
        }
    };
    let thinking = Some(Thinking::Adaptive { display: "summarized" });
    Asked { thinking, output_config: Some(OutputConfig { effort: Some(effort), format: None }) }
}

/// At most half of the output limit, since the budget counts towards it.
fn budget(level: Level, max_output: u64, can_begin: bool) -> Thinking {
    let wanted = match level {
        Level::Off => return Thinking::Disabled,
        Level::Minimal => LEAST_BUDGET,
        Level::Low => 4_096,
        Level::Medium => 8_192,
        Level::High => 16_384,
        Level::Xhigh => 32_768,
    };
    let budget_tokens = wanted.min(max_output / 2).max(LEAST_BUDGET);
    let fits = can_begin && budget_tokens < max_output;
    if fits { Thinking::Enabled { budget_tokens } } else { Thinking::Disabled }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(model: &str, level: Option<Level>, max_output: u64, expected: &Value) {
        let candidate = Candidate {
            provider: "anthropic".to_owned(),
            model: model.to_owned(),
            profile: None,
            context_window: 200_000,
            max_output,
            thinking: level,
            images: true,
            structured_output: false,
            sampling: engine::Sampling::default(),
            token_rate: 1_000,
            can_refresh: false,
            levels: vec![],
            price: None,
        };
        let asked = serde_json::to_value(asked(&candidate, true)).unwrap();
        assert_eq!(asked, *expected, "{model} {level:?} {max_output}");
    }

    #[test]
    fn every_level_becomes_the_parameters_of_its_model() {
        let adaptive = |effort: &str| json!({ "thinking": { "type": "adaptive", "display": "summarized" }, "output_config": { "effort": effort } });
        let budget = |tokens: u64| json!({ "thinking": { "type": "enabled", "budget_tokens": tokens } });
        let disabled = json!({ "thinking": { "type": "disabled" } });
        let table = [
            ("claude-sonnet-5", None, 64_000, json!({})),
            ("claude-sonnet-5", Some(Level::Off), 64_000, disabled.clone()),
            ("claude-sonnet-5", Some(Level::Minimal), 64_000, adaptive("low")),
            ("claude-opus-5", Some(Level::Medium), 64_000, adaptive("medium")),
            ("anthropic/claude-opus-4-8", Some(Level::Xhigh), 64_000, adaptive("xhigh")),
            ("claude-sonnet-4-6", Some(Level::Xhigh), 64_000, adaptive("high")),
            ("claude-fable-5", Some(Level::Off), 64_000, adaptive("low")),
            ("claude-haiku-4-5", None, 64_000, json!({})),
            ("claude-haiku-4-5", Some(Level::Off), 64_000, disabled.clone()),
            ("claude-haiku-4-5-20251001", Some(Level::High), 64_000, budget(16_384)),
            ("claude-sonnet-4-20250514", Some(Level::Xhigh), 8_192, budget(4_096)),
            ("claude-haiku-4-5", Some(Level::Low), 1_500, budget(1_024)),
            ("claude-haiku-4-5", Some(Level::Low), 1_024, disabled),
            ("some-model", Some(Level::Minimal), 64_000, budget(1_024)),
        ];
        for (model, level, max_output, expected) in table {
            check(model, level, max_output, &expected);
        }
    }
}
