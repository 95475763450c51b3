//! The words of OpenAI's two APIs for a thinking level, and which models take one.

use engine::Thinking;

/// What `off` and `minimal` are called by the models whose name begins so, the first that fits: not every one can be
/// switched off, and not every one has a word below `low`.
const LEAST_EFFORTS: &[(&str, [&str; 2])] = &[
    ("o1", ["low", "low"]),
    ("o3", ["low", "low"]),
    ("o4", ["low", "low"]),
    ("gpt-oss", ["low", "low"]),
    ("gpt-5.", ["none", "low"]),
    ("gpt-5", ["minimal", "minimal"]),
    ("gpt-", ["none", "low"]),
    ("", ["none", "minimal"]),
];

/// Where OpenAI itself serves chat completions.
const OPENAI: &str = "api.openai.com";

/// The model's name without that of a relay's provider.
pub(crate) fn name(model: &str) -> &str {
    model.rsplit('/').next().unwrap_or(model)
}

/// The word for a level, for the model of this name.
pub(crate) fn word(name: &str, thinking: Thinking) -> &'static str {
    let least = LEAST_EFFORTS.iter().find(|(prefix, _)| name.starts_with(prefix));
    let [off, minimal] = least.map_or(["none", "minimal"], |(_, words)| *words);
    match thinking {
        Thinking::Off => off,
        Thinking::Minimal => minimal,
        Thinking::Low => "low",
        Thinking::Medium => "medium",
        Thinking::High => "high",
        Thinking::Xhigh => "xhigh",
    }
}

/// Whether chat completions at this address take a level for this model beside tools. From gpt-5.2 on those of OpenAI
/// refuse it ("Function tools with reasoning_effort are not supported", <https://github.com/openai/openai-openapi/issues/541>).
pub fn chat_takes_effort(base_url: &str, model: &str) -> bool {
    let name = name(model);
    let is_refused = name.starts_with("gpt-5.") && !name.starts_with("gpt-5.1");
    !(is_refused && base_url.contains(OPENAI))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r53_openai_takes_a_level_beside_tools_for_some_models_and_others_for_all() {
        let (openai, relay) = ("https://api.openai.com/v1", "https://relay.example/v1");
        for (model, takes) in [("gpt-5-mini", true), ("gpt-5.1", true), ("o4-mini", true), ("gpt-5.4", false)] {
            assert_eq!(chat_takes_effort(openai, model), takes, "{model}");
            assert!(chat_takes_effort(relay, &format!("openai/{model}")));
        }
    }
}
