//! Where a model is served, and with which key.

use std::fmt;
use std::sync::Arc;

use crate::login::Login;

/// The wire formats that there is an adapter for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Api {
    /// The built-in offline model: no wire at all.
    Offline,
    /// OpenAI chat completions, which many other servers speak too.
    OpenAiChat,
    /// Anthropic Messages.
    Anthropic,
    /// Google Gemini.
    Gemini,
    /// Ollama's own.
    Ollama,
    /// OpenAI responses.
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

/// A key. Its value is neither shown by `Debug` nor serialisable.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Takes the value without the blanks around it (a file of a key often ends with a newline).
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

/// Bytes below which the value of a header is no secret: it may be a word of any text.
pub const SECRET_HEADER_BYTES: usize = 8;

/// Where a model is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// What is spoken there.
    pub api: Api,
    /// The address without the path of the call, such as `https://api.openai.com/v1`; empty for the offline model.
    pub base_url: String,
    /// The key, if the server wants one.
    pub key: Option<Secret>,
    /// Headers beside those of the format, name and value. They may hold secrets.
    pub headers: Vec<(String, Secret)>,
    /// The address of an HTTP proxy; none = as the environment says (`HTTPS_PROXY`, `NO_PROXY`).
    pub proxy: Option<String>,
    /// How an access token is got that stands for the key; none = the key is one.
    pub login: Option<Login>,
}

impl Endpoint {
    /// The endpoint of the built-in model.
    pub fn offline() -> Self {
        Self::new(Api::Offline, String::new(), None)
    }

    /// An endpoint without headers of its own.
    pub fn new(api: Api, base_url: impl Into<String>, key: Option<Secret>) -> Self {
        Self { api, base_url: base_url.into(), key, headers: vec![], proxy: None, login: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
