//! What is to be set up: a provider with its address, key and model.

use std::path::Path;

use config::{Environment, is_reference};
use models::{ProviderPreset, Secret};

/// The folder of the home with the keys that were typed, one file for each provider.
const KEYS: &str = "keys";

/// A provider, its model, and what the configuration lacks of it.
#[derive(Debug, Clone)]
pub(super) struct Choice {
    /// The name of the provider.
    pub(super) provider: String,
    /// The model, without its provider.
    pub(super) model: String,
    /// Its address; none = that of the configuration, else that of the preset.
    pub(super) base_url: Option<String>,
    /// Its key; none = that of the configuration, or it needs none.
    pub(super) key: Option<Key>,
}

/// Where a key comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    /// `env:NAME`, `file:PATH` or `cmd:COMMAND`.
    Reference(String),
    /// The key itself, which goes into a file of the home.
    Typed(Secret),
}

impl Key {
    /// What was typed in the place of a key: it may be a reference to one.
    pub(super) fn typed(text: &str) -> Self {
        let text = text.trim();
        if is_reference(text) { Self::Reference(text.to_owned()) } else { Self::Typed(Secret::new(text)) }
    }
}

impl Choice {
    /// `PROVIDER/MODEL`.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.provider, self.model)
    }

    /// The file for a typed key, with the key; none if the key is elsewhere.
    pub(super) fn key_file(&self, home: &Path) -> Option<(std::path::PathBuf, &Secret)> {
        match self.key.as_ref()? {
            Key::Typed(key) => Some((home.join(KEYS).join(&self.provider), key)),
            Key::Reference(_) => None,
        }
    }

    /// The key as the configuration names it.
    pub(super) fn reference(&self, home: &Path) -> Option<String> {
        match self.key.as_ref()? {
            Key::Reference(reference) => Some(reference.clone()),
            Key::Typed(_) => self.key_file(home).map(|(path, _)| format!("file:{}", path.display())),
        }
    }

    /// The environment in which the configuration is as if this were written.
    pub(super) fn environment(&self, environment: &Environment) -> Environment {
        let variable = |key: &str| format!("LIMULUS_PROVIDERS__{}__{key}", self.provider.to_uppercase());
        let mut changed = environment.clone();
        if let Some(base_url) = &self.base_url {
            changed = changed.with(&variable("BASE_URL"), base_url);
        }
        match &self.key {
            Some(Key::Reference(reference)) => changed.with(&variable("PROFILES__0__KEY"), reference),
            Some(Key::Typed(key)) => changed.with(&variable("PROFILES__0__KEY"), key.reveal()),
            None => changed,
        }
    }
}

/// What is known of a choice before anything is asked.
#[derive(Debug, Clone)]
pub(super) struct Given {
    pub(super) preset: &'static ProviderPreset,
    /// What was given, or was tried and failed.
    pub(super) base_url: Option<String>,
    pub(super) key: Option<Key>,
    pub(super) model: Option<String>,
    /// Whether what is given is to be asked for again.
    pub(super) is_retry: bool,
}

impl Given {
    pub(super) fn nothing(preset: &'static ProviderPreset) -> Self {
        Self { preset, base_url: None, key: None, model: None, is_retry: false }
    }

    /// What was tried, for another try with other values.
    pub(super) fn again(preset: &'static ProviderPreset, choice: &Choice) -> Self {
        let Choice { model, base_url, key, .. } = choice.clone();
        Self { preset, base_url, key, model: Some(model), is_retry: true }
    }
}
