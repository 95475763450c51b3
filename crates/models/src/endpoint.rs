//! The address of a model, and its key.

use std::fmt;
use std::sync::Arc;

use engine::Hash;
use reqwest::Url;

use crate::login::Login;

/// The wire formats with an adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Api {
    /// The built-in offline model, which uses no network.
    Offline,
    /// OpenAI chat completions, also offered by many other servers.
    OpenAiChat,
    /// The Messages API of Anthropic.
    Anthropic,
    /// The Gemini API of Google.
    Gemini,
    /// Ollama's own API, not the one compatible with OpenAI.
    Ollama,
    /// The Responses API of OpenAI.
    OpenAiResponses,
}

impl Api {
    /// Every format with its name in the configuration.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::Offline, "offline"),
        (Self::OpenAiChat, "openai-chat"),
        (Self::Anthropic, "anthropic"),
        (Self::Gemini, "gemini"),
        (Self::Ollama, "ollama"),
        (Self::OpenAiResponses, "openai-responses"),
    ];

    /// The format of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(api, _)| *api)
    }

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// An API key. `Debug` does not show its value, and it cannot be serialised.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Takes the value without surrounding white space (a key file often ends with a newline).
    pub fn new(value: &str) -> Self {
        Self(value.trim().into())
    }

    /// The value, for the one place that sends it and the one that masks it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Bytes below which the value of a header does not count as a secret: it may be an ordinary word.
pub const SECRET_HEADER_BYTES: usize = 8;

/// Where a model is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The wire format of the server.
    pub api: Api,
    /// The address without the path of the call, such as `https://api.openai.com/v1`; empty for the offline model.
    pub base_url: String,
    /// The key, if the server wants one.
    pub key: Option<Secret>,
    /// Where that key is, such as `env:NAME`, for messages; none if it is in the configuration itself.
    pub key_source: Option<String>,
    /// Additional headers, name and value. They may contain secrets.
    pub headers: Vec<(String, Secret)>,
    /// The address of an HTTP proxy; none means that the environment decides (`HTTPS_PROXY`, `NO_PROXY`).
    pub proxy: Option<String>,
    /// How to get an access token to use instead of the key; none if the key itself is used.
    pub login: Option<Login>,
}

impl Endpoint {
    /// The endpoint of the built-in model.
    pub fn offline() -> Self {
        Self::new(Api::Offline, String::new(), None)
    }

    /// An endpoint without headers of its own.
    pub fn new(api: Api, base_url: impl Into<String>, key: Option<Secret>) -> Self {
        let base_url = base_url.into();
        Self { api, base_url, key, key_source: None, headers: vec![], proxy: None, login: None }
    }

    /// Identifies the hosts that receive what is sent: that of the API, the proxy, and the token server. Paths on them do
    /// not count.
    pub fn address(&self) -> Hash {
        let token_url = self.login.as_ref().map(|login| &login.token_url);
        let hosts = [Some(&self.base_url), self.proxy.as_ref(), token_url];
        let hosts: Vec<String> =
            hosts.iter().map(|address| address.map(|address| origin(address)).unwrap_or_default()).collect();
        Hash::of(hosts.join("\n").as_bytes())
    }

    /// Whether requests to it hold anything that only it may receive.
    pub fn has_credentials(&self) -> bool {
        self.key.is_some() || self.login.is_some() || !self.headers.is_empty()
    }

    /// The host of the API for a message, without anything secret.
    pub fn host(&self) -> String {
        Url::parse(self.base_url.trim())
            .map_or_else(|_| "an invalid address".to_owned(), |url| url.origin().ascii_serialization())
    }
}

/// Scheme, host and port.
fn origin(address: &str) -> String {
    Url::parse(address.trim()).map_or_else(|_| address.to_owned(), |url| url.origin().ascii_serialization())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r50_an_address_is_its_hosts() {
        let endpoint = |base_url: &str| Endpoint::new(Api::OpenAiChat, base_url, None);
        let address = |base_url: &str| endpoint(base_url).address();
        let same = address("https://h/v1");
        for base_url in ["https://h:443/v2", "https://H/v1/", " https://me:pass@h?x=y"] {
            assert_eq!(address(base_url), same, "{base_url}");
        }
        for base_url in ["http://h/v1", "https://h:444/v1", "https://h.evil.dev/v1", "https://h@evil.dev/v1", "h"] {
            assert_ne!(address(base_url), same, "{base_url}");
        }
        let proxied = Endpoint { proxy: Some("http://p:1".to_owned()), ..endpoint("https://h/v1") };
        assert_ne!(proxied.address(), same);
        assert!(!proxied.has_credentials());
    }

    #[test]
    fn every_name_leads_back_to_its_format() {
        for (api, name) in Api::ALL {
            assert_eq!((Api::from_name(name), api.name()), (Some(api), name));
        }
        assert_eq!(Api::from_name("telepathy"), None);
    }

    #[test]
    fn a_secret_is_not_shown() {
        let key = Some(Secret::new(" sk-very-secret\n"));
        let endpoint = Endpoint::new(Api::OpenAiChat, "http://localhost", key);
        assert!(!format!("{endpoint:?}").contains("very-secret"));
        assert_eq!(endpoint.key.unwrap().reveal(), "sk-very-secret");
    }
}
