//! Turns an error of the wire into the [`Failure`] that a person reads: who failed, what happened, what to do. Only
//! this file builds failures, and it masks keys in them.

use engine::{Candidate, Failure, FailureClass};

use crate::classify::ErrorBody;
use crate::endpoint::{Endpoint, SECRET_HEADER_BYTES, Secret};
use crate::limits::DETAIL_CHARS;
use crate::secret_parts::{secrets_of_address, secrets_of_header};
use crate::wait::Asked;

/// An error before the endpoint that it concerns is known.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub(crate) class: FailureClass,
    pub(crate) status: Option<u16>,
    pub(crate) code: Option<String>,
    pub(crate) retry_after_ms: Option<u64>,
    /// The rest of a sentence that begins with the provider's name: `answered HTTP 401`.
    what: String,
    /// The message of the provider or of the system.
    detail: String,
    /// What to do, if the class alone does not say it.
    remedy: Option<String>,
}

impl Fault {
    pub(crate) fn new(class: FailureClass, what: impl Into<String>) -> Self {
        let (what, detail) = (what.into(), String::new());
        Self { class, status: None, code: None, retry_after_ms: None, what, detail, remedy: None }
    }

    pub(crate) fn with_detail(self, detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), ..self }
    }

    /// Whether the sender used this error code.
    pub(crate) fn says(&self, word: &str) -> bool {
        self.code.as_deref() == Some(word) || self.detail.contains(word)
    }

    /// The same, with what to do about it.
    pub(crate) fn with_remedy(self, remedy: String) -> Self {
        Self { remedy: Some(remedy), ..self }
    }

    /// The same about a server other than the provider.
    pub(crate) fn behind(self, lead: &str) -> Self {
        Self { what: format!("{lead} {}", self.what), ..self }
    }

    /// The same with every occurrence of this secret masked.
    pub(crate) fn without(mut self, secret: &Secret) -> Self {
        for text in [&mut self.what, &mut self.detail].into_iter().chain(&mut self.code) {
            *text = text.replace(secret.reveal(), "[key]");
        }
        self
    }

    /// A response whose status is an error; `asked` is the wait that its headers ask for.
    pub(crate) fn of_status(status: u16, body: &[u8], asked: Asked) -> Self {
        let body = ErrorBody::of_bytes(body);
        let class = body.class(Some(status));
        let fault = Self::new(class, format!("answered HTTP {status}")).with_detail(body.message);
        let reset_ms = asked.reset_ms.filter(|_| status == 429);
        let retry_after_ms = asked.retry_after_ms.or(body.retry_after_ms).or(reset_ms);
        Self { status: Some(status), code: body.code, retry_after_ms, ..fault }
    }

    /// An error inside an answer that began well.
    pub(crate) fn in_stream(body: ErrorBody) -> Self {
        let fault = Self::new(body.class(None), "sent an error in its answer").with_detail(body.message);
        Self { status: body.status, code: body.code, retry_after_ms: body.retry_after_ms, ..fault }
    }

    /// A frame that does not match the format: an error as it stands, or garbage.
    pub(crate) fn not_a_frame(data: &[u8]) -> Self {
        if let Some(body) = ErrorBody::of_frame(data) {
            return Self::in_stream(body);
        }
        let begins = String::from_utf8_lossy(&data[..data.len().min(80)]).into_owned();
        Self::new(FailureClass::Malformed, "sent something that is not its format").with_detail(begins)
    }

    /// A stream that ends without an end mark.
    pub(crate) fn interrupted() -> Self {
        Self::new(FailureClass::Network, "ended the stream before its end mark")
    }
}

/// The server that a fault concerns.
#[derive(Debug)]
pub(crate) struct Subject {
    candidate: Candidate,
    endpoint: Endpoint,
}

impl Subject {
    pub(crate) fn new(candidate: Candidate, endpoint: Endpoint) -> Self {
        Self { candidate, endpoint }
    }

    pub(crate) fn candidate(&self) -> &Candidate {
        &self.candidate
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Sets the token with which the request is sent.
    pub(crate) fn set_key(&mut self, key: Secret) {
        self.endpoint.key = Some(key);
    }

    pub(crate) fn failure(&self, fault: Fault) -> Failure {
        let provider = &self.candidate.provider;
        let detail = shorten(&self.mask(&fault.detail));
        let remedy = fault.remedy.unwrap_or_else(|| self.remedy(fault.class));
        let colon = if detail.is_empty() { "" } else { ": " };
        Failure {
            class: fault.class,
            status: fault.status,
            code: fault.code.map(|code| shorten(&self.mask(&code))),
            message: format!("{provider} {}{colon}{detail}\n{remedy}", self.mask(&fault.what)),
            provider: Some(provider.clone()),
            model: Some(self.candidate.model.clone()),
            profile: self.candidate.profile.clone(),
            retry_after_ms: fault.retry_after_ms,
        }
    }

    /// One line on what to do.
    fn remedy(&self, class: FailureClass) -> String {
        let Candidate { provider, model, .. } = &self.candidate;
        let profile = match (&self.candidate.profile, &self.endpoint.key_source) {
            (Some(profile), Some(source)) => format!("profile `{profile}` of {provider}, which is {source}"),
            (Some(profile), None) => format!("profile `{profile}` in [[providers.{provider}.profiles]]"),
            (None, _) => format!("a profile in [[providers.{provider}.profiles]]"),
        };
        match class {
            FailureClass::Auth if let Some(login) = &self.endpoint.login => login.remedy_of_token(),
            FailureClass::AuthPermanent if let Some(login) = &self.endpoint.login => login.remedy(),
            FailureClass::Auth if self.endpoint.key.is_none() => format!("No key was sent: give {profile} one."),
            FailureClass::Auth => format!("Check the key of {profile}."),
            FailureClass::AuthPermanent => format!("Not allowed with the key of {profile}: use another one."),
            FailureClass::Billing => {
                "Add credit or raise the limit at the provider, or use another profile or model.".to_owned()
            }
            FailureClass::RateLimit => "Wait a little, or use another profile or model.".to_owned(),
            FailureClass::Overloaded => {
                "It has no capacity right now: try again later, or use another model.".to_owned()
            }
            FailureClass::Network => {
                format!("Is the server running? Check the network, and `base_url` in [providers.{provider}].")
            }
            FailureClass::Malformed => {
                format!(
                    "Check that `base_url` in [providers.{provider}] speaks `{}`, its `api` (most addresses end in /v1).",
                    self.endpoint.api.name()
                )
            }
            FailureClass::ContextOverflow => {
                format!(
                    "Start a new session, or set `context_window` in [models.\"{provider}/{model}\"] to what the model has."
                )
            }
            FailureClass::ModelNotFound => {
                format!(
                    "Check with the provider that it has `{model}`, and for requests with tools, and that `base_url` in \
                     [providers.{provider}] is its API (most addresses end in /v1)."
                )
            }
            FailureClass::ThinkingUnsupported => {
                format!(
                    "`{model}` does not have this thinking level: choose another, or `thinking_levels` in [models.\"{provider}/{model}\"]."
                )
            }
            FailureClass::InvalidRequest => {
                format!("It is not sent again as it is. Check the model and `base_url` in [providers.{provider}].")
            }
            _ => "The fault is not on this side: try again later, or use another model.".to_owned(),
        }
    }

    /// Masks the key and everything that looks like one, since some providers repeat it.
    fn mask(&self, text: &str) -> String {
        let headers = self.endpoint.headers.iter().map(|(_, value)| value);
        let headers = headers.filter(|value| value.reveal().len() >= SECRET_HEADER_BYTES);
        let sent: Vec<&str> = self.endpoint.key.iter().chain(headers).map(Secret::reveal).collect();
        let parts = sent.iter().flat_map(|value| secrets_of_header(value));
        let addresses = [Some(&self.endpoint.base_url), self.endpoint.proxy.as_ref()].into_iter().flatten();
        let parts: Vec<String> = parts.chain(addresses.flat_map(|address| secrets_of_address(address))).collect();
        let secrets = sent.into_iter().chain(parts.iter().map(String::as_str)).filter(|secret| !secret.is_empty());
        let text = secrets.fold(text.to_owned(), |text, secret| text.replace(secret, "[key]"));
        let mut masked = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(from) = KEY_MARKS.iter().filter_map(|mark| rest.find(mark)).min() {
            masked.push_str(&rest[..from]);
            rest = &rest[from..];
            let word = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "-_*.".contains(c))).unwrap_or(rest.len());
            masked.push_str(if word > KEY_MARK_CHARS { "[key]" } else { &rest[..word] });
            rest = &rest[word..];
        }
        masked + rest
    }
}

/// Prefixes of keys: OpenAI's and many others', Google's, Groq's, xAI's.
const KEY_MARKS: &[&str] = &["sk-", "AIza", "gsk_", "xai-"];

/// Words with such a prefix up to this length are not keys: `sk-1`, `xai-grok`.
const KEY_MARK_CHARS: usize = 8;

/// One line without control characters (they could steer a terminal), at most [`DETAIL_CHARS`] long.
fn shorten(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let words = clean.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(DETAIL_CHARS) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::{Api, Secret};

    fn subject(key: Option<&str>) -> Subject {
        let candidate = Candidate {
            provider: "acme".to_owned(),
            model: "m1".to_owned(),
            profile: Some("first".to_owned()),
            context_window: 1000,
            max_output: 100,
            thinking: None,
            images: true,
            structured_output: false,
            sampling: engine::Sampling::default(),
            token_rate: 1_000,
            can_refresh: false,
            levels: vec![],
            price: None,
        };
        Subject::new(
            candidate,
            Endpoint::new(Api::OpenAiChat, "http://127.0.0.1:1/v1".to_owned(), key.map(Secret::new)),
        )
    }

    #[test]
    fn h5_a_key_that_the_provider_repeats_is_masked() {
        let body = br#"{"error":{"message":"Incorrect key top-secret-1 or sk-abcdefgh1234 or sk-proj****wxyz, AIzaSyB-1234567 or gsk_abcdef12, see sk-1","code":"top-secret-1"}}"#;
        let failure = subject(Some("top-secret-1")).failure(Fault::of_status(401, body, Asked::default()));
        assert_eq!(
            failure.message,
            "acme answered HTTP 401: Incorrect key [key] or [key] or [key], [key] or [key], see sk-1\n\
             Check the key of profile `first` in [[providers.acme.profiles]]."
        );
        assert_eq!(failure.code.as_deref(), Some("[key]"));
        assert!(!format!("{failure:?}").contains("top-secret"));
    }

    #[test]
    fn r50_the_parts_of_a_secret_that_a_provider_repeats_are_masked() {
        let mut subject = subject(None);
        let header = |name: &str, value: &str| (name.to_owned(), Secret::new(value));
        subject.endpoint.headers = vec![header("authorization", "Bearer tok-12345"), header("cookie", "s=cookie-1")];
        subject.endpoint.base_url = "http://me:hunter2@h/v1?api_key=query-key".to_owned();
        subject.endpoint.proxy = Some("http://me:proxy-pass@h".to_owned());
        let body = b"tok-12345 cookie-1 hunter2 query-key proxy-pass Bearer";
        let failure = subject.failure(Fault::of_status(400, body, Asked::default()));
        assert!(
            failure.message.starts_with("acme answered HTTP 400: [key] [key] [key] [key] [key] Bearer\n"),
            "{failure}"
        );
    }

    #[test]
    fn a_key_truncated_by_the_limit_of_the_text_is_masked_too() {
        let body = format!(r#"{{"error":"{} top-secret-key-of-acme"}}"#, "x".repeat(DETAIL_CHARS - 6));
        let failure =
            subject(Some("top-secret-key-of-acme")).failure(Fault::of_status(400, body.as_bytes(), Asked::default()));
        assert!(!failure.message.contains("top-"), "{}", failure.message);
    }

    #[test]
    fn a_failure_says_what_to_do_in_one_more_line() {
        let failure = subject(None).failure(Fault::of_status(401, b"", Asked::default()));
        assert_eq!(failure.message.lines().count(), 2);
        assert!(failure.message.ends_with("No key was sent: give profile `first` in [[providers.acme.profiles]] one."));
        assert_eq!(failure.profile.as_deref(), Some("first"));
    }

    #[test]
    fn a_terminal_cannot_be_steered_by_a_provider() {
        let failure = subject(None).failure(Fault::of_status(500, b"a\x1b[2Jb\r\n\tc", Asked::default()));
        assert!(failure.message.starts_with("acme answered HTTP 500: a [2Jb c\n"), "{:?}", failure.message);
    }
}
