//! What an error answer means: from status and body to a [`FailureClass`]. One table of words, one order of rules.

use engine::FailureClass;
use serde_json::Value;

use crate::limits::{BODY_BYTES, RETRY_AFTER_MS};

/// What an error body says, whatever its shape.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ErrorBody {
    /// For people; empty if there is nothing to read.
    pub(crate) message: String,
    /// The provider's own code, else its type.
    pub(crate) code: Option<String>,
    /// A number in the place of the code: relays put the status of the server behind them there.
    pub(crate) status: Option<u16>,
    /// How long to wait before the next try, milliseconds, where it says so (Google's `retryDelay`).
    pub(crate) retry_after_ms: Option<u64>,
    /// Everything that words are searched in, lower case.
    words: String,
    /// It is a web page: not the API answered, but something before it.
    page: bool,
}

impl ErrorBody {
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        let bytes = &bytes[..bytes.len().min(BODY_BYTES)];
        if let Ok(value) = serde_json::from_slice::<Value>(bytes) {
            return Self::of_json(&value);
        }
        let text = String::from_utf8_lossy(bytes);
        if text.trim_start().starts_with('<') {
            return Self { message: "a web page".to_owned(), page: true, ..Self::default() };
        }
        Self { message: text.trim().to_owned(), words: text.to_lowercase(), ..Self::default() }
    }

    /// `{"error": {…}}`, `{"error": "…"}`, `[{"error": …}]`, `{"message": …}`, `{"detail": …}`.
    pub(crate) fn of_json(value: &Value) -> Self {
        let value = value.get(0).unwrap_or(value);
        let error = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
        let field = |names: &[&str]| names.iter().find_map(|name| plain(error.get(name)?));
        let message = plain(error).or_else(|| field(&["message", "detail", "msg"])).unwrap_or_default();
        let kind = [field(&["code"]), field(&["type"]), field(&["status"])];
        // A wrong value is at times said without the name of what it is of.
        let of = field(&["param"]);
        let behind = error.pointer("/metadata/raw").and_then(plain);
        let words = kind
            .iter()
            .flatten()
            .chain([&message])
            .chain(&of)
            .chain(&behind)
            .fold(String::new(), |words, next| words + next + "\n");
        let status = kind.iter().flatten().find_map(|code| code.parse().ok()).filter(|code| (400..600).contains(code));
        let code = kind.into_iter().flatten().next();
        let details = error.get("details").and_then(Value::as_array);
        let retry_after_ms = details.into_iter().flatten().find_map(retry_delay_ms);
        Self { message, code, status, retry_after_ms, words: words.to_lowercase(), page: false }
    }

    /// The class of an answer with this status; none = inside a stream that began well.
    pub(crate) fn class(&self, status: Option<u16>) -> FailureClass {
        let status = status.or(self.status);
        if self.page && status.is_some_and(|status| status < 500 && ![404, 413, 429].contains(&status)) {
            return FailureClass::Malformed;
        }
        self.class_by_words(status).unwrap_or_else(|| class_by_status(status))
    }

    /// Words outweigh the status where providers use one status for several things.
    fn class_by_words(&self, status: Option<u16>) -> Option<FailureClass> {
        let refused = status.is_none_or(|status| status < 500);
        let rule = RULES.iter().find(|rule| {
            let fits = match rule.statuses {
                Statuses::Refused => refused,
                Statuses::Only(statuses) => status.is_none_or(|status| statuses.contains(&status)),
                Statuses::InStream => status.is_none(),
                Statuses::Any => true,
            };
            fits && rule.all.iter().all(|any| any.iter().any(|word| self.words.contains(word)))
        });
        rule.map(|rule| rule.class)
    }
}

/// Seconds with an `s`: `34.5s`.
fn retry_delay_ms(detail: &Value) -> Option<u64> {
    let seconds: f64 = detail.get("retryDelay")?.as_str()?.strip_suffix('s')?.parse().ok()?;
    (seconds >= 0.0).then_some(((seconds * 1000.0).ceil() as u64).min(RETRY_AFTER_MS))
}

/// Strings and numbers as text.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn class_by_status(status: Option<u16>) -> FailureClass {
    match status {
        Some(401) => FailureClass::Auth,
        Some(402) => FailureClass::Billing,
        Some(403) => FailureClass::AuthPermanent,
        Some(408) => FailureClass::Timeout,
        Some(413) => FailureClass::ContextOverflow,
        Some(429) => FailureClass::RateLimit,
        Some(503 | 529) => FailureClass::Overloaded,
        // 409 and 425 are states of the server's that pass; an error in mid-stream without words that are known is its own.
        Some(409 | 425 | 500..) | None => FailureClass::Server,
        Some(200..300) => FailureClass::Malformed,
        Some(_) => FailureClass::InvalidRequest,
    }
}

enum Statuses {
    Any,
    /// Below 500, or none.
    Refused,
    /// These, or none.
    Only(&'static [u16]),
    /// None: the error came inside a stream.
    InStream,
}

struct Rule {
    class: FailureClass,
    statuses: Statuses,
    /// One word of each must be there.
    all: &'static [&'static [&'static str]],
}

/// The first rule that fits decides. Wordings are those of OpenAI, Anthropic, Azure, OpenRouter, Mistral, Groq, DeepSeek, Moonshot,
/// Gemini and its compatible API, vLLM, llama.cpp, Ollama and LiteLLM.
const RULES: &[Rule] = &[
    // Gemini says "check your plan and billing details" of limits a minute long.
    Rule { class: FailureClass::RateLimit, statuses: Statuses::Only(&[429]), all: &[&["resource_exhausted"]] },
    Rule { class: FailureClass::Billing, statuses: Statuses::Refused, all: &[BILLING] },
    Rule { class: FailureClass::RateLimit, statuses: Statuses::Refused, all: &[RATE] },
    Rule { class: FailureClass::ContextOverflow, statuses: Statuses::Any, all: &[OVERFLOW] },
    Rule {
        class: FailureClass::ThinkingUnsupported,
        statuses: Statuses::Only(&[400, 422]),
        all: &[
            &["reasoning_effort", "reasoning effort", "reasoning.effort", "effort parameter", "thinking"],
            &["not support", "unsupported", "invalid value", "is invalid"],
        ],
    },
    Rule { class: FailureClass::ModelNotFound, statuses: Statuses::Only(&[400, 403, 404]), all: &[MODEL_CODES] },
    Rule {
        class: FailureClass::ModelNotFound,
        statuses: Statuses::Only(&[400, 403, 404, 422]),
        all: &[
            &["model"],
            &[
                "not found",
                "not_found_error",
                "not exist",
                "not a valid",
                "unknown",
                "no such",
                "have access",
                "decommissioned",
            ],
        ],
    },
    Rule { class: FailureClass::AuthPermanent, statuses: Statuses::Only(&[400, 401, 403]), all: &[REVOKED] },
    // Some say 400 or 403 of a wrong or expired key.
    Rule { class: FailureClass::Auth, statuses: Statuses::Only(&[400, 401, 403]), all: &[KEY] },
    Rule {
        class: FailureClass::Overloaded,
        statuses: Statuses::Any,
        all: &[&["overloaded", "no capacity", "at capacity"]],
    },
    Rule { class: FailureClass::Timeout, statuses: Statuses::InStream, all: &[&["timeout", "timed out"]] },
    Rule { class: FailureClass::AuthPermanent, statuses: Statuses::InStream, all: &[&["permission"]] },
    Rule {
        class: FailureClass::InvalidRequest,
        statuses: Statuses::InStream,
        all: &[&["invalid_request", "bad request"]],
    },
];

const BILLING: &[&str] = &[
    "insufficient_quota",
    "insufficient quota",
    "exceeded your current quota",
    "insufficient credit",
    "insufficient balance",
    "insufficient funds",
    "credit balance",
    "more credits",
    "out of credits",
    "payment required",
    "billing",
    "arrears",
];
const RATE: &[&str] =
    &["rate_limit", "rate limit", "ratelimit", "too many requests", "tokens per min", "requests per min"];
const OVERFLOW: &[&str] = &[
    "context_length_exceeded",
    "context length",
    "context window",
    "maximum context",
    "context size",
    "exceed_context",
    "exceed context",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "too many tokens",
    "input token count",
    "token limit exceeded",
    "request_too_large",
    "request too large",
    "maximum prompt length",
    "上下文长度",
    "超出最大长度",
];
const MODEL_CODES: &[&str] =
    &["model_not_found", "model_not_exist", "unknown_model", "invalid_model", "deploymentnotfound"];
const REVOKED: &[&str] = &["deactivated", "revoked", "suspended", "disabled", "banned", "key has been deleted"];
const KEY: &[&str] = &["api key", "api_key", "apikey", "expired", "authentication", "unauthorized", "invalid token"];

#[cfg(test)]
mod tests {
    use FailureClass as C;

    use super::*;

    fn check(status: Option<u16>, body: &str, class: FailureClass) {
        assert_eq!(ErrorBody::of_bytes(body.as_bytes()).class(status), class, "{status:?} {body}");
    }

    #[test]
    fn f7_every_status_has_its_class_without_a_body() {
        let table = [
            (301, C::InvalidRequest),
            (400, C::InvalidRequest),
            (401, C::Auth),
            (402, C::Billing),
            (403, C::AuthPermanent),
            (404, C::InvalidRequest),
            (405, C::InvalidRequest),
            (408, C::Timeout),
            (409, C::Server),
            (413, C::ContextOverflow),
            (422, C::InvalidRequest),
            (429, C::RateLimit),
            (500, C::Server),
            (502, C::Server),
            (503, C::Overloaded),
            (504, C::Server),
            (524, C::Server),
            (529, C::Overloaded),
        ];
        for (status, class) in table {
            check(Some(status), "", class);
        }
    }

    #[test]
    fn f7_words_outweigh_the_status() {
        let table = [
            (
                429,
                r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
                C::Billing,
            ),
            (
                429,
                r#"[{"error":{"code":429,"message":"check your plan and billing details","status":"RESOURCE_EXHAUSTED"}}]"#,
                C::RateLimit,
            ),
            (
                429,
                r#"{"error":{"message":"Request too large for x on tokens per min (TPM): Limit 10000","code":"rate_limit_exceeded"}}"#,
                C::RateLimit,
            ),
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 128000 tokens.","code":"context_length_exceeded"}}"#,
                C::ContextOverflow,
            ),
            (
                400,
                r#"{"object":"error","message":"This model's maximum context length is 4096 tokens","code":400}"#,
                C::ContextOverflow,
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#,
                C::ContextOverflow,
            ),
            (422, r#"{"detail":"prompt is too long: 210000 tokens"}"#, C::ContextOverflow),
            (400, r#"{"error":"输入超出最大长度"}"#, C::ContextOverflow),
            (
                404,
                r#"{"error":{"message":"The model `x` does not exist or you do not have access to it.","code":"model_not_found"}}"#,
                C::ModelNotFound,
            ),
            (404, r#"{"error":{"message":"model 'x' not found"}}"#, C::ModelNotFound),
            (400, r#"{"error":{"message":"x is not a valid model ID","code":400}}"#, C::ModelNotFound),
            (404, "404 page not found", C::InvalidRequest),
            (401, r#"{"error":{"message":"This account has been deactivated"}}"#, C::AuthPermanent),
            (400, r#"{"error":{"message":"API key not valid. Please pass a valid API key."}}"#, C::Auth),
            (403, r#"{"error":{"message":"The token has expired"}}"#, C::Auth),
            (403, r#"{"error":{"message":"Insufficient balance"}}"#, C::Billing),
            (
                400,
                r#"{"error":{"message":"Unsupported value: 'reasoning_effort' does not support 'none'"}}"#,
                C::ThinkingUnsupported,
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"Budget 0 is invalid. This model only works in thinking mode.","status":"INVALID_ARGUMENT"}}"#,
                C::ThinkingUnsupported,
            ),
            (500, r#"{"error":{"message":"The server is overloaded"}}"#, C::Overloaded),
            (500, r#"{"error":{"message":"billing service is down"}}"#, C::Server),
            (403, "<html><title>Just a moment…</title>", C::Malformed),
            (502, "<html>bad gateway</html>", C::Server),
        ];
        for (status, body, class) in table {
            check(Some(status), body, class);
        }
    }

    #[test]
    fn f7_the_words_of_anthropic_are_known() {
        let table = [
            (404, r#"{"type":"error","error":{"type":"not_found_error","message":"model: m1"}}"#, C::ModelNotFound),
            (
                400,
                r#"{"error":{"message":"input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"}}"#,
                C::ContextOverflow,
            ),
            (
                400,
                r#"{"error":{"message":"This model does not support the effort parameter."}}"#,
                C::ThinkingUnsupported,
            ),
            (
                400,
                r#"{"error":{"message":"\"thinking.type.enabled\" is not supported for this model."}}"#,
                C::ThinkingUnsupported,
            ),
            (400, r#"{"error":{"message":"Your credit balance is too low to access the Anthropic API."}}"#, C::Billing),
        ];
        for (status, body, class) in table {
            check(Some(status), body, class);
        }
    }

    #[test]
    fn c5_an_error_inside_a_stream_is_classed_by_its_body() {
        let table = [
            (r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, C::Overloaded),
            (r#"{"error":{"code":429,"message":"Provider returned error"}}"#, C::RateLimit),
            (r#"{"error":{"code":"502","message":"Provider disconnected"}}"#, C::Server),
            (
                r#"{"error":{"message":"Provider returned error","metadata":{"raw":"prompt is too long"}}}"#,
                C::ContextOverflow,
            ),
            (r#"{"error":{"type":"rate_limit_exceeded","message":"slow down"}}"#, C::RateLimit),
            (r#"{"error":{"type":"invalid_request_error","message":"tool schema"}}"#, C::InvalidRequest),
            (r#"{"error":{"type":"server_error","message":"The server had an error"}}"#, C::Server),
            (r#"{"error":"upstream timed out"}"#, C::Timeout),
            (r#"{"error":{}}"#, C::Server),
            ("", C::Server),
        ];
        for (body, class) in table {
            check(None, body, class);
        }
    }

    #[test]
    fn message_code_and_status_are_found_in_every_shape() {
        let body = ErrorBody::of_bytes(br#"{"error":{"message":"m","type":"t","code":null}}"#);
        assert_eq!((body.message.as_str(), body.code.as_deref(), body.status), ("m", Some("t"), None));
        let body = ErrorBody::of_bytes(br#"{"object":"error","message":"m","code":404}"#);
        assert_eq!((body.message.as_str(), body.code.as_deref(), body.status), ("m", Some("404"), Some(404)));
        assert_eq!(ErrorBody::of_bytes(br#"{"error":"text"}"#).message, "text");
        assert_eq!(ErrorBody::of_bytes(b"plain\n").message, "plain");
        let delay = |delay: &str| {
            let body = format!(r#"[{{"error":{{"details":[{{"reason":"x"}},{{"retryDelay":{delay}}}]}}}}]"#);
            ErrorBody::of_bytes(body.as_bytes()).retry_after_ms
        };
        assert_eq!([delay(r#""34.0705s""#), delay(r#""0s""#)], [Some(34_071), Some(0)]);
        assert_eq!([delay(r#""soon""#), delay(r#""-1s""#), delay("7")], [None; 3]);
    }
}
