//! Whether the key of a provider is available, and where it is looked up. Never holds the key itself.

use std::fmt;

use models::provider_preset;
use serde::Serialize;

use super::Config;

/// The availability of a provider's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum KeyStatus {
    /// Requests to the provider need no key.
    NotNeeded,
    /// The key can be read.
    There {
        /// Where it is: `env:NAME`, `file:PATH`, `cmd:COMMAND`, or `in the configuration`.
        source: String,
    },
    /// A command prints it when a request is sent; whether it does is not known before.
    AtRequest {
        /// The command: `cmd:COMMAND`.
        source: String,
    },
    /// The key cannot be read.
    Missing {
        /// Where it is looked up, as in `There`.
        source: String,
        /// The error.
        why: String,
    },
    /// The provider is not configured.
    NotConfigured,
}

impl fmt::Display for KeyStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotNeeded => f.write_str("none needed"),
            Self::There { source } => write!(f, "✓ {source}"),
            Self::AtRequest { source } => write!(f, "? {source}"),
            Self::Missing { source, .. } => write!(f, "✗ {source}"),
            Self::NotConfigured => f.write_str("not configured"),
        }
    }
}

impl Config {
    /// The availability of the key of a provider's first profile.
    pub fn key_status(&self, provider: &str) -> KeyStatus {
        let Some(route) = self.route(provider) else {
            return match provider_preset(provider).and_then(|known| known.key) {
                Some(name) => {
                    KeyStatus::Missing { source: format!("env:{name}"), why: format!("the variable {name} is not set") }
                }
                None => KeyStatus::NotConfigured,
            };
        };
        let Some((_, credential)) = route.profiles.first() else { return KeyStatus::NotNeeded };
        let source = credential.source();
        let shown = if source.is_reference() { source.shown() } else { "in the configuration".to_owned() };
        match self.known_key(source) {
            Ok(Some(_)) => KeyStatus::There { source: shown },
            Ok(None) => KeyStatus::AtRequest { source: shown },
            Err(why) => KeyStatus::Missing { source: shown, why },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Environment, FILE, FlagValues};
    use super::*;

    #[test]
    fn r50_the_source_of_a_key_is_shown_and_never_the_key() {
        let home = tempfile::tempdir().unwrap();
        let file = "[providers.a]\napi = \"gemini\"\nbase_url = \"http://h\"\n[[providers.a.profiles]]\nkey = \"sk-literal\"\n\
                    [providers.b]\napi = \"gemini\"\nbase_url = \"http://h\"\n[[providers.b.profiles]]\nkey = \"file:/nowhere\"\n\
                    [providers.c]\napi = \"gemini\"\nbase_url = \"http://h\"\n\
                    [providers.d]\napi = \"gemini\"\nbase_url = \"http://h\"\n[[providers.d.profiles]]\nkey = \"cmd:pass show d\"\n";
        std::fs::write(home.path().join(FILE), file).unwrap();
        let environment = Environment::of(&[("OPENAI_API_KEY", "sk-of-openai")], "/now");
        let config = Config::load(home.path(), &environment, FlagValues::default()).unwrap();
        for (provider, expected) in [
            ("a", "✓ in the configuration"),
            ("b", "✗ file:/nowhere"),
            ("c", "none needed"),
            ("d", "? cmd:pass show d"),
            ("openai", "✓ env:OPENAI_API_KEY"),
            ("anthropic", "✗ env:ANTHROPIC_API_KEY"),
            ("ollama", "none needed"),
            ("offline", "none needed"),
            ("deepseek", "✗ env:DEEPSEEK_API_KEY"),
            ("lmstudio", "none needed"),
            ("custom", "not configured"),
        ] {
            let status = config.key_status(provider);
            assert_eq!(status.to_string(), expected, "{provider}");
            assert!(!format!("{status:?}").contains("sk-"));
        }
    }

    #[test]
    fn r50_the_programs_of_the_users_own_commands_are_protected() {
        let user = tempfile::tempdir().unwrap();
        let at = |name: &str| user.path().join(name);
        std::fs::create_dir_all(at("bin")).unwrap();
        for name in ["bin/key", "script", "bin/call", "other"] {
            std::fs::write(at(name), "").unwrap();
        }
        let file = "[notify]\ncommand = [\"call\"]\n[providers.a]\napi = \"gemini\"\nbase_url = \"http://h\"\n\
                    [[providers.a.profiles]]\nkey = \"cmd:bin/key\"\n[providers.b]\napi = \"gemini\"\nbase_url = \"http://h\"\n\
                    [[providers.b.profiles]]\nkey = \"cmd:sh script --flag\"\n";
        std::fs::write(at(FILE), file).unwrap();
        let (folder, path) = (user.path().display().to_string(), at("bin").display().to_string());
        let environment = Environment::of(&[("HOME", &folder), ("PATH", &path)], "/now");
        let protected = Config::load(user.path(), &environment, FlagValues::default()).unwrap().protected_files();
        for (name, is_protected) in [("bin/key", true), ("script", true), ("bin/call", true), ("other", false)] {
            assert_eq!(protected.contains(&at(name)), is_protected, "{name}");
        }
    }
}
