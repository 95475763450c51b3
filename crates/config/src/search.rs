//! What the tool `web_search` asks, with its key, which is read when a call needs it.

use std::sync::Arc;

use tools::{SearchApi, SearchProvider};

use super::Config;
use super::concealed;
use super::declared::{SearchService, WebSearch};
use super::error::ConfigError;

const KEY_EXPECTED: &str = "the key of the provider: env:NAME, file:PATH, cmd:COMMAND or the key itself, as text";

impl WebSearch {
    /// The keys that its provider needs and that are missing, each with the value that it takes.
    pub(super) fn missing(&self) -> Option<(&'static str, &'static str)> {
        let is_searxng = self.provider? == SearchService::Searxng;
        if is_searxng && self.url.is_none() {
            return Some(("tools.web_search.url", "the address of the searxng, such as \"http://127.0.0.1:8080\""));
        }
        (!is_searxng && self.key.is_none()).then_some(("tools.web_search.key", KEY_EXPECTED))
    }
}

impl Config {
    /// The provider without its key.
    fn search(&self) -> Option<SearchProvider> {
        let configured = &self.values.tools.web_search;
        let api = match configured.provider? {
            SearchService::Brave => SearchApi::Brave,
            SearchService::Tavily => SearchApi::Tavily,
            SearchService::Searxng => SearchApi::Searxng,
        };
        if configured.missing().is_some() {
            return None;
        }
        let url = configured.url.as_deref().or(api.address())?;
        Some(SearchProvider::new(api, url, &concealed::address(url)))
    }

    /// The address that searches are sent to, without what may be a secret in it; none if no provider is configured.
    pub(super) fn search_address(&self) -> Option<String> {
        self.search().map(|provider| provider.address().to_owned())
    }

    /// What `web_search` asks.
    pub(super) fn search_provider(self: &Arc<Self>) -> Option<SearchProvider> {
        let provider = self.search()?;
        if !provider.needs_key() {
            return Some(provider);
        }
        let config = Arc::clone(self);
        Some(provider.with_key(move |is_awaited| {
            config.search_key(is_awaited).map_err(|error| format!("{error} ({})", error.hint()))
        }))
    }

    fn search_key(&self, is_awaited: &dyn Fn() -> bool) -> Result<String, ConfigError> {
        let source = self.values.tools.web_search.key.as_ref();
        let source = source.ok_or_else(|| ConfigError::Missing {
            key: "tools.web_search.key".to_owned(),
            expected: KEY_EXPECTED.to_owned(),
        })?;
        let key = self.read_key_while(source, is_awaited);
        let key = key.map_err(|detail| ConfigError::SearchKey { place: source.place(), detail })?;
        Ok(key.reveal().to_owned())
    }

    /// Why the key cannot be read now, without running a command.
    pub(super) fn unreadable_search_key(&self) -> Option<ConfigError> {
        let source = self.values.tools.web_search.key.as_ref()?;
        let detail = self.known_key(source).err()?;
        Some(ConfigError::SearchKey { place: source.place(), detail })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Environment, FILE, FlagValues};
    use super::*;

    fn load(file: &str) -> Result<Config, ConfigError> {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(FILE), file).unwrap();
        let environment = Environment::of(&[("BRAVE_KEY", "brave-key-0123456789"), ("HOME", "/u")], "/now");
        Config::load(home.path(), &environment, FlagValues::default())
    }

    /// R13: what a provider needs and does not have is named.
    #[test]
    fn r13_a_search_without_its_key_or_address_names_what_is_missing() {
        for (section, key) in [
            ("provider = \"brave\"", "tools.web_search.key"),
            ("provider = \"tavily\"\nurl = \"http://127.0.0.1:1\"", "tools.web_search.key"),
            ("provider = \"searxng\"\nkey = \"env:BRAVE_KEY\"", "tools.web_search.url"),
        ] {
            let error = load(&format!("[tools.web_search]\n{section}\n")).unwrap_err();
            assert_eq!(error.to_string(), format!("`{key}` is missing"), "{section}");
            assert!(error.hint().contains("add it to config.toml"), "{}", error.hint());
        }
        let error = load("[tools.web_search]\nprovider = \"bing\"\n").unwrap_err();
        assert!(error.hint().contains("one of brave, tavily, searxng"), "{}", error.hint());
    }

    /// R13, R50: the address is known without the key and without what is secret in it; without a provider there is none.
    #[test]
    fn r13_r50_a_search_has_an_address_without_secrets() {
        for (section, address) in [
            ("", None),
            ("key = \"env:BRAVE_KEY\"", None),
            ("provider = \"brave\"\nkey = \"env:BRAVE_KEY\"", Some("https://api.search.brave.com/res/v1/web/search")),
            ("provider = \"tavily\"\nkey = \"env:BRAVE_KEY\"", Some("https://api.tavily.com/search")),
            (
                "provider = \"searxng\"\nurl = \"http://me:pass-of-me@10.0.0.1:8080/x/?token=abcdefgh\"",
                Some("http://10.0.0.1:8080/x/search"),
            ),
        ] {
            let config = load(&format!("[tools.web_search]\n{section}\n")).unwrap();
            assert_eq!(config.search_address().as_deref(), address, "{section}");
            let secrets = config.secrets();
            if section.contains("BRAVE_KEY") {
                assert!(secrets.iter().any(|secret| secret == "brave-key-0123456789"), "{secrets:?}");
                assert!(config.secret_env().contains(&"BRAVE_KEY".to_owned()));
            }
            if section.contains("searxng") {
                assert!(["pass-of-me", "abcdefgh"].iter().all(|part| secrets.iter().any(|secret| secret == part)));
            }
        }
    }

    /// R50: a key that cannot be read is a warning, and nothing shows a key that stands in the file.
    #[test]
    fn r50_a_key_of_a_search_is_not_shown() {
        let config = load("[tools.web_search]\nprovider = \"brave\"\nkey = \"env:NO_SUCH_KEY\"\n").unwrap();
        let error = config.unreadable_search_key().unwrap();
        assert!(error.to_string().contains("NO_SUCH_KEY is not set"), "{error}");
        let config = load("[tools.web_search]\nprovider = \"brave\"\nkey = \"literal-key-0123456789\"\n").unwrap();
        let provider = Arc::new(config).search_provider();
        assert!(!format!("{provider:?}").contains("literal-key"), "{provider:?}");
    }
}
