//! Whether the key of a provider is there, and where it is looked for. What may not live here: the key.

use std::fmt;

use serde::Serialize;

use super::Config;
use super::endpoints::built_in;

/// How it is with the key of a provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(crate) enum KeyStatus {
    /// The provider is asked without one.
    NotNeeded,
    /// It can be had.
    There {
        /// Where it is: `env:NAME`, `file:PATH`, or that it stands in the configuration.
        source: String,
    },
    /// It cannot be had.
    Missing {
        /// Where it is looked for.
        source: String,
        /// Why there is none.
        why: String,
    },
    /// Nobody says where the provider is.
    NotConfigured,
}

impl fmt::Display for KeyStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotNeeded => f.write_str("none needed"),
            Self::There { source } => write!(f, "✓ {source}"),
            Self::Missing { source, .. } => write!(f, "✗ {source}"),
            Self::NotConfigured => f.write_str("not configured"),
        }
    }
}

impl Config {
    /// How it is with the key that a provider is asked with.
    pub(crate) fn key_status(&self, provider: &str) -> KeyStatus {
        let Some(route) = self.route(provider) else {
            return match built_in(provider).and_then(|known| known.key) {
                Some(name) => {
                    KeyStatus::Missing { source: format!("env:{name}"), why: format!("the variable {name} is not set") }
                }
                None => KeyStatus::NotConfigured,
            };
        };
        let Some((_, credential)) = route.profiles.first() else { return KeyStatus::NotNeeded };
        let source = credential.source();
        let shown = if source.is_reference() { format!("{source:?}") } else { "in the configuration".to_owned() };
        match self.read_key(source) {
            Ok(_) => KeyStatus::There { source: shown },
            Err(why) => KeyStatus::Missing { source: shown, why },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Environment, FILE, Flags};
    use super::*;

    #[test]
    fn r50_where_a_key_is_is_said_and_never_the_key() {
        let home = tempfile::tempdir().unwrap();
        let file = "[providers.a]\napi = \"gemini\"\nbase_url = \"http://h\"\n[[providers.a.profiles]]\nkey = \"sk-literal\"\n\
                    [providers.b]\napi = \"gemini\"\nbase_url = \"http://h\"\n[[providers.b.profiles]]\nkey = \"file:/nowhere\"\n\
                    [providers.c]\napi = \"gemini\"\nbase_url = \"http://h\"\n";
        std::fs::write(home.path().join(FILE), file).unwrap();
        let environment = Environment::of(&[("OPENAI_API_KEY", "sk-of-openai")], "/now");
        let config = Config::load(home.path(), &environment, Flags::default()).unwrap();
        for (provider, expected) in [
            ("a", "✓ in the configuration"),
            ("b", "✗ file:/nowhere"),
            ("c", "none needed"),
            ("openai", "✓ env:OPENAI_API_KEY"),
            ("anthropic", "✗ env:ANTHROPIC_API_KEY"),
            ("ollama", "none needed"),
            ("offline", "none needed"),
            ("deepseek", "not configured"),
        ] {
            let status = config.key_status(provider);
            assert_eq!(status.to_string(), expected, "{provider}");
            assert!(!format!("{status:?}").contains("sk-"));
        }
    }
}
