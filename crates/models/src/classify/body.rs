//! What an error body says, whatever its shape: each server has its own, and relays put one into another.

use serde_json::Value;

use crate::limits::BODY_BYTES;
use crate::wait;

/// An error body, read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ErrorBody {
    /// For people; empty if there is nothing to read.
    pub(crate) message: String,
    /// The provider's own code, else its type, else its status; one in words rather than a number.
    pub(crate) code: Option<String>,
    /// A number in the place of the code: relays put the status of the server behind them there.
    pub(crate) status: Option<u16>,
    /// How long to wait before the next try, milliseconds, where it says so.
    pub(crate) retry_after_ms: Option<u64>,
    /// Everything that words are searched in, lower case.
    pub(super) words: String,
    /// It is a web page: not the API answered, but something before it.
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
        // Beside an error that is a text alone, the other fields are where it is.
        let place = if error.is_object() { error } else { value };
        let field = |name: &str| place.get(name).and_then(plain);
        let mut message = said(error).unwrap_or_default();
        let kinds = [field("code"), field("type").or_else(|| field("error_type")), field("status")];
        // What a server behind a relay said: without it the relay's words are "Provider returned error".
        let behind = error.pointer("/metadata/raw").and_then(Value::as_str).map(inner);
        if let Some(behind) = &behind {
            message = format!("{message}: {behind}");
        }
        // Token servers (RFC 6749) have the code where others have their words, and these beside it.
        let named = error.as_str().filter(|code| code.contains('_') && !code.contains(char::is_whitespace));
        if let (Some(code), Some(description)) = (named, value.get("error_description").and_then(plain)) {
            message = format!("{code}: {description}");
        }
        let mut words = String::new();
        // A wrong value is at times said without the name of what it is of.
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

/// The words of an error for people; those of an error inside it, where a relay has put one there as text.
fn said(error: &Value) -> Option<String> {
    let names = ["message", "detail", "msg", "Message", "error", "upstream_error"];
    match error {
        Value::Object(_) => names.iter().find_map(|name| said(error.get(name)?)),
        Value::Array(list) => list.iter().find_map(said),
        _ => plain(error).map(|text| inner(&text)),
    }
}

/// The words of an error that stands as JSON in a text, else the text.
fn inner(text: &str) -> String {
    let json = if text.trim_start().starts_with(['{', '[']) { serde_json::from_str::<Value>(text).ok() } else { None };
    let Some(json) = json else { return text.to_owned() };
    let json = json.get(0).unwrap_or(&json);
    let code = ["/error/code", "/error/type", "/error/status", "/code", "/type"];
    let code = code.iter().find_map(|at| json.pointer(at)?.as_str());
    match said(json.get("error").unwrap_or(json)) {
        Some(said) => code.map(|code| format!("{code}: {said}")).unwrap_or(said),
        None => text.to_owned(),
    }
}

/// Strings and numbers as text; an empty string is as good as none.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// What a web page is called.
fn title(page: &str) -> Option<&str> {
    let from = page.find("<title>")? + "<title>".len();
    let title = page[from..].split_once('<')?.0.trim();
    Some(title).filter(|title| !title.is_empty())
}
