//! The providers that are known by name. The data is the table in `table.rs`.

mod table;

use table::PROVIDERS;

use crate::endpoint::Api;

/// A provider that is known by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProviderPreset {
    /// Its name in the configuration and before the `/` of a model.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// The wire format.
    pub api: Api,
    /// The address of the API; none if each user has another one.
    pub base_url: Option<&'static str>,
    /// The form of such an address.
    pub example: Option<&'static str>,
    /// The variable of the key; none if a server like it needs no key as a rule.
    pub key: Option<&'static str>,
    /// The page that gives out keys.
    pub keys_at: Option<&'static str>,
    /// The model that a key without a configuration stands for.
    pub model: Option<&'static str>,
    /// Whether its API takes the schema of an answer beside tools, with any model but those whose names begin as `older` ones do.
    pub structured_output: bool,
    /// How the names of models begin that do not.
    older: &'static [&'static str],
}

impl ProviderPreset {
    /// Whether a model takes the schema of an answer beside tools.
    pub(crate) fn takes_schema(&self, model: &str) -> bool {
        let is_older = |older: &&str| model.starts_with(older) || model == older.trim_end_matches('-');
        self.structured_output && !self.older.iter().any(is_older)
    }
}

/// Every provider that is known by name, in the order in which they are listed and tried.
pub fn provider_presets() -> &'static [ProviderPreset] {
    PROVIDERS
}

/// The provider of this name.
pub fn provider_preset(name: &str) -> Option<&'static ProviderPreset> {
    PROVIDERS.iter().find(|preset| preset.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{catalogue, lookup};

    #[test]
    fn r61_every_preset_has_what_a_request_needs_or_says_what_it_looks_like() {
        let names: BTreeSet<&str> = PROVIDERS.iter().map(|preset| preset.name).collect();
        assert_eq!(names.len(), PROVIDERS.len(), "each name is there once");
        for preset in provider_presets() {
            let name = &preset.name;
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{name}");
            assert_ne!(preset.base_url.is_some(), preset.example.is_some(), "{name}: one address, or the form of one");
            let address = preset.base_url.iter().chain(&preset.example);
            for address in address.chain(&preset.keys_at) {
                let is_local = address.starts_with("http://127.0.0.1:");
                assert!(is_local || address.starts_with("https://"), "{name}: {address}");
                assert!(!address.ends_with('/'), "{name}: {address}");
            }
            assert_eq!(preset.key.is_some(), preset.keys_at.is_some(), "{name}: a key comes from somewhere");
            let has_model = preset.key.is_some() && preset.base_url.is_some() && *name != "openai-responses";
            assert_eq!(preset.model.is_some(), has_model, "{name}: a key alone is enough");
            if let Some(model) = &preset.model {
                assert_eq!(lookup(name, model).origin, catalogue::Origin::Catalogue, "{name}/{model}");
            }
        }
    }

    /// R61: a schema is sent where the API is known to take it beside tools, and nowhere else.
    #[test]
    fn r61_a_schema_is_sent_to_models_that_are_known_to_take_it() {
        for (provider, model, takes) in [
            ("openai", "gpt-5.4-mini", true),
            ("openai", "gpt-4o", true),
            ("openai", "gpt-4-turbo", false),
            ("openai", "gpt-4", false),
            ("openai-responses", "gpt-5.4", true),
            ("openai-responses", "gpt-3.5-turbo", false),
            ("anthropic", "claude-sonnet-5", true),
            ("anthropic", "claude-sonnet-4-5-20250929", true),
            ("anthropic", "claude-sonnet-4-20250514", false),
            ("anthropic", "claude-3-7-sonnet-latest", false),
            ("gemini", "gemini-3.5-flash", true),
            ("gemini", "gemini-2.5-flash", false),
            ("gemini", "gemma-4", false),
            ("groq", "openai/gpt-oss-120b", false),
            ("openrouter", "openai/gpt-5.4", false),
            ("vllm", "any", false),
            ("ollama", "qwen3", false),
            ("acme", "m", false),
            ("offline", "offline", false),
        ] {
            assert_eq!(lookup(provider, model).structured_output, takes, "{provider}/{model}");
        }
    }

    #[test]
    fn r61_the_providers_that_people_ask_for_are_there() {
        for name in [
            "openai",
            "anthropic",
            "gemini",
            "openrouter",
            "deepseek",
            "groq",
            "mistral",
            "xai",
            "together",
            "fireworks",
            "moonshot",
            "qwen",
            "zhipu",
            "minimax",
            "azure",
            "bedrock",
            "vllm",
            "lmstudio",
            "llamacpp",
            "ollama",
            "custom",
        ] {
            assert!(provider_preset(name).is_some(), "{name}");
        }
        assert_eq!(provider_preset("acme"), None);
    }
}
