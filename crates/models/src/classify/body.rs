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

    /// The error that a frame is, although it does not have the form of its stream: some servers put the body of a
    /// refusal into a stream as it stands. None if the frame is no error.
    pub(crate) fn of_frame(data: &[u8]) -> Option<Self> {
        let value = serde_json::from_slice::<Value>(data).ok()?;
        Self::is_error(&value).then(|| Self::of_json(&value))
    }

    /// The same of an event with this type. An error of another format has none, or one like `invalid_request_error`.
    pub(crate) fn of_event(kind: Option<&str>, data: &[u8]) -> Option<Self> {
        let is_other = kind.is_none_or(|kind| kind.to_ascii_lowercase().ends_with("error"));
        if is_other { Self::of_frame(data) } else { None }
    }

    /// Whether this JSON is an error, and neither a part of an answer nor a report of progress.
    pub(crate) fn is_error(value: &Value) -> bool {
        let value = value.get(0).unwrap_or(value);
        let is_message = || message_of(value).is_some() && PROGRESS.iter().all(|field| value.get(field).is_none());
        error_in(value).is_some() || (value.is_object() && is_message())
    }

    /// `{"error": {…}}`, `{"error": "…"}`, `[{"error": …}]`, `{"errors": [{…}]}`, `{"message": …}`, `{"detail": …}`,
    /// `{"base_resp": {…}}`.
    pub(crate) fn of_json(value: &Value) -> Self {
        let value = value.get(0).unwrap_or(value);
        let error = error_in(value).unwrap_or(value);
        // If the error is only a text, the other fields are next to it.
        let place = if error.is_object() { error } else { value };
        let field = |name: &str| place.get(name).and_then(plain);
        let mut message = message_of(error).unwrap_or_default();
        let status = ["status", "status_code", "http_code"].iter().find_map(|name| field(name));
        let kinds = [field("code"), field("type").or_else(|| field("error_type")), status];
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
        for word in kinds.iter().flatten().chain([&message]).chain(&field("param")).chain(&reasons(error)) {
            words.push_str(&word.to_lowercase());
            words.push('\n');
        }
        // Relays of web sockets have the status next to the error.
        let outside = value.get("status_code").and_then(plain);
        let mut statuses = kinds.iter().flatten().chain(&outside).filter_map(|code| code.parse().ok());
        let status = statuses.find(|code| (400..600).contains(code));
        let is_number = |code: &&String| code.parse::<u64>().is_ok();
        let code = kinds.iter().flatten().find(|code| !is_number(code)).or(kinds.iter().flatten().next()).cloned();
        let code = code.or_else(|| named.map(str::to_owned));
        let retry_after_ms = wait::of_body(error, &words);
        Self { message, code, status, retry_after_ms, words, is_page: false }
    }
}

/// Fields of answers and of reports of progress, which also have a `message`.
const PROGRESS: &[&str] = &["id", "choices", "created", "model", "status"];

/// The error inside a body; none if the body itself is the error, or is none.
fn error_in(value: &Value) -> Option<&Value> {
    // MiniMax reports its failures, and its successes as 0, beside the answer.
    let base = || value.get("base_resp").filter(|base| base.get("status_code").is_some_and(|code| *code != 0));
    let error = value.get("error").or_else(|| value.pointer("/errors/0")).filter(|error| !error.is_null());
    error.or_else(base)
}

/// Google's reasons, such as `INSUFFICIENT_G1_CREDITS_BALANCE`, which its message does not always tell.
fn reasons(error: &Value) -> Vec<String> {
    let details = error.get("details").and_then(Value::as_array).into_iter().flatten();
    details.filter_map(|detail| plain(detail.get("reason")?)).collect()
}

/// The message of an error for people; if a relay put another error into it as text, the message of that one.
fn message_of(error: &Value) -> Option<String> {
    let names = ["message", "detail", "msg", "status_msg", "Message", "error", "upstream_error"];
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
