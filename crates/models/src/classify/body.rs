//! Parses error bodies of any shape: each server has its own, and relays put one into another.

use serde_json::Value;

use crate::limits::BODY_BYTES;
use crate::wait;

/// A parsed error body.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ErrorBody {
    /// The message for people; empty if the body has none.
    pub(crate) message: String,
    /// The provider's own code, else its type, else its status; a code in words takes precedence over a number.
    pub(crate) code: Option<String>,
    /// A number in the field of the code, where relays put the status of the server behind them.
    pub(crate) status: Option<u16>,
    /// The wait before the next attempt, milliseconds; none if the body names none.
    pub(crate) retry_after_ms: Option<u64>,
    /// All texts in which the rules search for words, in lower case.
    pub(super) words: String,
    /// Whether it is a web page: then not the API answered, but a server in front of it.
    pub(super) is_page: bool,
}

impl ErrorBody {
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        let bytes = &bytes[..bytes.len().min(BODY_BYTES)];
        if let Ok(value) = serde_json::from_slice::<Value>(bytes) {
            return Self::of_json(&value);
        }
        let text = String::from_utf8_lossy(bytes);
        if text.trim_start().starts_with('<') {
            let title = title(&text).map(|title| format!(": {title}"));
            let message = format!("a web page{}", title.unwrap_or_default());
            return Self { message, is_page: true, ..Self::default() };
        }
        let words = text.to_lowercase();
        Self { message: text.trim().to_owned(), retry_after_ms: wait::of_text(&words), words, ..Self::default() }
    }

    /// `{"error": {…}}`, `{"error": "…"}`, `[{"error": …}]`, `{"errors": [{…}]}`, `{"message": …}`, `{"detail": …}`.
    pub(crate) fn of_json(value: &Value) -> Self {
        let value = value.get(0).unwrap_or(value);
        let error = value.get("error").or_else(|| value.pointer("/errors/0")).filter(|error| !error.is_null());
        let error = error.unwrap_or(value);
        // If the error is only a text, the other fields are next to it.
        let place = if error.is_object() { error } else { value };
        let field = |name: &str| place.get(name).and_then(plain);
        let mut message = message_of(error).unwrap_or_default();
        let kinds = [field("code"), field("type").or_else(|| field("error_type")), field("status")];
        // The message of the server behind a relay; the relay itself only says "Provider returned error".
        let behind = error.pointer("/metadata/raw").and_then(Value::as_str).map(inner);
        if let Some(behind) = &behind {
            message = format!("{message}: {behind}");
        }
        // Token servers (RFC 6749) have the code where others have the message, and the message next to it.
        let named = error.as_str().filter(|code| code.contains('_') && !code.contains(char::is_whitespace));
        if let (Some(code), Some(description)) = (named, value.get("error_description").and_then(plain)) {
            message = format!("{code}: {description}");
        }
        let mut words = String::new();
        // Some messages about a wrong value do not name its parameter.
        for word in kinds.iter().flatten().chain([&message]).chain(&field("param")) {
            words.push_str(&word.to_lowercase());
            words.push('\n');
        }
        let status = kinds.iter().flatten().find_map(|code| code.parse().ok()).filter(|code| (400..600).contains(code));
        let is_number = |code: &&String| code.parse::<u64>().is_ok();
        let code = kinds.iter().flatten().find(|code| !is_number(code)).or(kinds.iter().flatten().next()).cloned();
        let code = code.or_else(|| named.map(str::to_owned));
        let retry_after_ms = wait::of_body(error, &words);
        Self { message, code, status, retry_after_ms, words, is_page: false }
    }
}

/// The message of an error for people; if a relay put another error into it as text, the message of that one.
fn message_of(error: &Value) -> Option<String> {
    let names = ["message", "detail", "msg", "Message", "error", "upstream_error"];
    match error {
        Value::Object(_) => names.iter().find_map(|name| message_of(error.get(name)?)),
        Value::Array(list) => list.iter().find_map(message_of),
        _ => plain(error).map(|text| inner(&text)),
    }
}

/// The message of an error that is JSON in a text, else the text.
fn inner(text: &str) -> String {
    let json = if text.trim_start().starts_with(['{', '[']) { serde_json::from_str::<Value>(text).ok() } else { None };
    let Some(json) = json else { return text.to_owned() };
    let json = json.get(0).unwrap_or(&json);
    let code = ["/error/code", "/error/type", "/error/status", "/code", "/type"];
    let code = code.iter().find_map(|at| json.pointer(at)?.as_str());
    match message_of(json.get("error").unwrap_or(json)) {
        Some(message) => code.map(|code| format!("{code}: {message}")).unwrap_or(message),
        None => text.to_owned(),
    }
}

/// A string or a number as text; none for an empty string.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The title of a web page.
fn title(page: &str) -> Option<&str> {
    let from = page.find("<title>")? + "<title>".len();
    let title = page[from..].split_once('<')?.0.trim();
    Some(title).filter(|title| !title.is_empty())
}
