//! How much a model is to think, in the words that it takes. Newer models take an effort and think as they need (adaptive);
//! older ones take a budget of tokens, and so do other servers of this format.

use engine::{Candidate, Thinking as Level};
use serde::Serialize;

/// The part of a request that says it.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Asked {
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Thinking {
    Disabled,
    /// The newest models show nothing of it unless they are asked to.
    Adaptive {
        display: &'static str,
    },
    Enabled {
        budget_tokens: u64,
    },
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct OutputConfig {
    effort: &'static str,
}

/// The least budget that is taken.
const LEAST_BUDGET: u64 = 1024;

/// Models that take a budget, by the beginnings of their names.
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

/// Models that refuse not to think.
const ALWAYS: &[&str] = &["claude-fable", "claude-mythos"];

/// Models that take an effort but not `xhigh`.
const UP_TO_HIGH: &[&str] = &["claude-opus-4-6", "claude-sonnet-4-6", "claude-mythos-preview"];

/// What to ask for. `can_begin` says that the turn that is gone on with began with thinking, or is a new one: with a budget
/// it cannot be switched on in the middle of a turn.
pub(super) fn asked(candidate: &Candidate, can_begin: bool) -> Asked {
    let Some(level) = candidate.thinking else { return Asked::default() };
    // Gateways put a name of their own before it: `anthropic/claude-…`.
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
    Asked { thinking, output_config: Some(OutputConfig { effort }) }
}

/// At most half of the output, which the budget is a part of.
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
    use serde_json::{Value, json};

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
            token_rate: 1_000,
            can_refresh: false,
            levels: vec![],
            price: None,
        };
        let asked = serde_json::to_value(asked(&candidate, true)).unwrap();
        assert_eq!(asked, *expected, "{model} {level:?} {max_output}");
    }

    #[test]
    fn every_level_is_told_in_the_words_of_its_model() {
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
