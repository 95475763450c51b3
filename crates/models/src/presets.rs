//! The providers that are known by name. The data is `providers.toml`, which is parsed at its first use.

use std::sync::LazyLock;

use serde::{Deserialize, Deserializer};

use crate::endpoint::Api;

/// A provider that is known by name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderPreset {
    /// Its name in the configuration and before the `/` of a model.
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// The wire format.
    #[serde(deserialize_with = "by_name")]
    pub api: Api,
    /// The address of the API; none if each user has another one.
    pub base_url: Option<String>,
    /// The form of such an address.
    pub example: Option<String>,
    /// The variable of the key; none if a server like it needs no key as a rule.
    pub key: Option<String>,
    /// The page that gives out keys.
    pub keys_at: Option<String>,
    /// The model that a key without a configuration stands for.
    pub model: Option<String>,
}

fn by_name<'de, D: Deserializer<'de>>(name: D) -> Result<Api, D::Error> {
    let name = String::deserialize(name)?;
    Api::from_name(&name).ok_or_else(|| serde::de::Error::custom(format!("no wire format `{name}`")))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Providers {
    provider: Vec<ProviderPreset>,
}

static PROVIDERS: LazyLock<Vec<ProviderPreset>> = LazyLock::new(|| {
    let providers: Providers = toml::from_str(include_str!("providers.toml"))
        .expect("the list of providers is part of the program and a test reads it");
    providers.provider
});

/// Every provider that is known by name, in the order in which they are listed and tried.
pub fn provider_presets() -> &'static [ProviderPreset] {
    &PROVIDERS
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
        let names: BTreeSet<&str> = PROVIDERS.iter().map(|preset| preset.name.as_str()).collect();
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
            let has_model = preset.key.is_some() && preset.base_url.is_some() && name != "openai-responses";
            assert_eq!(preset.model.is_some(), has_model, "{name}: a key alone is enough");
            if let Some(model) = &preset.model {
                assert_eq!(lookup(name, model).origin, catalogue::Origin::Catalogue, "{name}/{model}");
            }
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
