//! The differences between the generations of Gemini models.

use engine::{Candidate, Thinking};
use serde::Serialize;

use crate::model::Request;
use crate::normalize::model_of;

/// How a request is written for one model at one address.
#[derive(Debug)]
pub(super) struct SchemaDialect {
    /// The model, `PROVIDER/MODEL`; only its own signatures are sent back.
    pub(super) model: String,
    pub(super) generation: Generation,
    /// Whether calls and results are also paired by id, not only by name and order.
    pub(super) with_ids: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Generation {
    /// Gemini 1 to 2.5: takes a thinking budget, accepts calls without signature, and no images inside a result.
    ByBudget,
    /// Gemini 3 and later: takes a thinking level, and refuses its own calls without signature.
    ByLevel,
    /// Other families, such as Gemma: thinking levels, no signatures.
    Other,
}

/// Names of the first generations. A name without a number (`gemini-flash-latest`) means the newest.
const BY_BUDGET: &[&str] = &["gemini-1", "gemini-2"];

impl SchemaDialect {
    pub(super) fn of(request: &Request) -> Self {
        let generation = generation(&request.candidate.model);
        // Vertex AI refuses an id in a call that is sent back.
        let with_ids = generation == Generation::ByLevel && !request.endpoint.base_url.contains("aiplatform");
        Self { model: model_of(&request.candidate), generation, with_ids }
    }
}

fn generation(model: &str) -> Generation {
    let name = model.rsplit('/').next().unwrap_or(model);
    match name {
        name if BY_BUDGET.iter().any(|known| name.starts_with(known)) => Generation::ByBudget,
        name if name.starts_with("gemini") => Generation::ByLevel,
        _ => Generation::Other,
    }
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThinkingConfig {
    include_thoughts: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<&'static str>,
}

/// The parameters of a thinking level; none if no level was chosen.
pub(super) fn thinking(candidate: &Candidate) -> Option<ThinkingConfig> {
    let level = candidate.thinking?;
    let by_budget = generation(&candidate.model) == Generation::ByBudget;
    Some(ThinkingConfig {
        include_thoughts: level != Thinking::Off,
        thinking_budget: by_budget.then(|| budget(candidate, level)),
        thinking_level: (!by_budget).then(|| level_name(&candidate.model, level)),
    })
}

/// Tokens, within what the 2.5 models take (ai.google.dev/gemini-api/docs/thinking). They count towards the output limit,
/// so half of that stays for the answer.
fn budget(candidate: &Candidate, level: Thinking) -> u64 {
    let is_pro = candidate.model.contains("-pro");
    // The thinking of Pro cannot be switched off.
    let (least, most) = if is_pro { (128, 32_768) } else { (0, 24_576) };
    let tokens: u64 = match level {
        Thinking::Off => 0,
        Thinking::Minimal => 512,
        Thinking::Low => 2_048,
        Thinking::Medium => 8_192,
        Thinking::High => 24_576,
        Thinking::Xhigh => most,
    };
    tokens.min(candidate.max_output / 2).max(least)
}

/// Thinking cannot be switched off, so the lowest level is used; Pro has another name for it.
fn level_name(model: &str, level: Thinking) -> &'static str {
    match level {
        Thinking::Off | Thinking::Minimal if !model.contains("-pro") => "minimal",
        Thinking::Off | Thinking::Minimal | Thinking::Low => "low",
        Thinking::Medium => "medium",
        Thinking::High | Thinking::Xhigh => "high",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(model: &str, max_output: u64, level: Option<Thinking>, expected: &serde_json::Value) {
        let candidate = Candidate {
            provider: "gemini".to_owned(),
            model: model.to_owned(),
            profile: None,
            context_window: 1_000_000,
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
        assert_eq!(&json!(thinking(&candidate)), expected, "{model} {level:?}");
    }

    #[test]
    fn r69_a_thinking_level_is_a_budget_or_a_level_by_generation() {
        let budget = |tokens: u64| json!({ "includeThoughts": true, "thinkingBudget": tokens });
        let level = |name: &str| json!({ "includeThoughts": true, "thinkingLevel": name });
        let without = |name: &str, value: serde_json::Value| json!({ "includeThoughts": false, name: value });
        let (flash, pro) = ("gemini-2.5-flash", "gemini-2.5-pro");
        check(flash, 65_536, None, &json!(null));
        check(flash, 65_536, Some(Thinking::Off), &without("thinkingBudget", json!(0)));
        check(pro, 65_536, Some(Thinking::Off), &without("thinkingBudget", json!(128)));
        check(flash, 65_536, Some(Thinking::Minimal), &budget(512));
        check(pro, 65_536, Some(Thinking::Xhigh), &budget(32_768));
        check(flash, 65_536, Some(Thinking::Xhigh), &budget(24_576));
        check(flash, 4_096, Some(Thinking::High), &budget(2_048));
        check("gemini-3.5-flash", 65_536, Some(Thinking::Off), &without("thinkingLevel", json!("minimal")));
        check("gemini-3.1-pro-preview", 65_536, Some(Thinking::Minimal), &level("low"));
        check("models/gemini-3-flash", 65_536, Some(Thinking::Medium), &level("medium"));
        check("gemini-flash-latest", 65_536, Some(Thinking::Xhigh), &level("high"));
    }
}
