//! The faults of an answer, as data.

use jiff::fmt::rfc2822::DateTimePrinter;
use jiff::{SignedDuration, Timestamp};

use super::odd_calls::OddCalls;

/// The fault of the first requests of a script.
#[allow(missing_docs, reason = "the names of the fields say it: `times` counts requests, `words` words of text")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The server refuses the request with this status.
    Status { status: u16, times: u32 },
    /// The server never sends a byte.
    Hang { times: u32 },
    /// The server closes the connection after this many words.
    Cut { words: u32, times: u32 },
    /// The server sends nothing more after this many words, and keeps the connection open.
    Stall { words: u32, times: u32 },
    /// The server sends an abnormal answer, mostly with status 200.
    Odd { odd: Odd, times: u32 },
}

impl Fault {
    /// The number of requests that have this fault.
    pub fn times(self) -> u32 {
        match self {
            Self::Status { times, .. }
            | Self::Hang { times }
            | Self::Cut { times, .. }
            | Self::Stall { times, .. }
            | Self::Odd { times, .. } => times,
        }
    }
}

/// An abnormal answer, or a normal one in an abnormal form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Odd {
    /// The page of a captive portal.
    Html,
    /// A JSON body instead of a stream.
    Json,
    /// A redirect to another path of this server, which no client may request.
    Redirect,
    /// The whole answer twice in a row; the connection stays open for the next request.
    Twice,
    /// Nothing until the client gives up, then the whole answer.
    Late,
    /// The head, then the connection is closed.
    Headers,
    /// A piece of text and half of a frame, then the connection is closed.
    CutFrame,
    /// A piece of text, then the connection is reset.
    Reset,
    /// An error inside the stream, after a piece of text.
    ErrorEvent,
    /// A frame that is not JSON, after a piece of text.
    BrokenFrame,
    /// Text that is not UTF-8, after a piece of text.
    BadUtf8,
    /// A line longer than any real one, after a piece of text.
    GiantLine,
    /// A compressed answer that was not requested as such, and is truncated.
    GzipCut,
    /// The whole text without an end mark.
    NoEnd,
    /// The whole answer, but no blank line closes its last frame, which is the end mark.
    NoBlank,
    /// The whole answer, byte by byte, so that characters are split.
    SplitUtf8,
    /// The whole answer; its lines end with CR alone.
    CrEnds,
    /// The whole answer with a byte order mark, comments, CR LF, unknown events, and more text after its end.
    Noise,
    /// The head, then nothing; the connection stays open.
    Head,
    /// The head, then comments without end.
    Pings,
    /// A piece of text, then comments without end.
    WordPings,
    /// A frame without end, byte by byte.
    Trickle,
    /// An answer with invalid calls.
    Calls(OddCalls),
}

impl Odd {
    /// All variants with their names in scripts.
    pub const ALL: [(&'static str, Self); 33] = [
        ("html", Self::Html),
        ("json", Self::Json),
        ("redirect", Self::Redirect),
        ("twice", Self::Twice),
        ("late", Self::Late),
        ("headers", Self::Headers),
        ("cut_frame", Self::CutFrame),
        ("reset", Self::Reset),
        ("error_event", Self::ErrorEvent),
        ("broken_frame", Self::BrokenFrame),
        ("bad_utf8", Self::BadUtf8),
        ("giant_line", Self::GiantLine),
        ("gzip_cut", Self::GzipCut),
        ("no_end", Self::NoEnd),
        ("no_blank", Self::NoBlank),
        ("split_utf8", Self::SplitUtf8),
        ("cr_ends", Self::CrEnds),
        ("noise", Self::Noise),
        ("head", Self::Head),
        ("pings", Self::Pings),
        ("word_pings", Self::WordPings),
        ("trickle", Self::Trickle),
        ("call_broken", Self::Calls(OddCalls::Broken)),
        ("call_no_object", Self::Calls(OddCalls::NoObject)),
        ("call_schema", Self::Calls(OddCalls::Schema)),
        ("call_unknown", Self::Calls(OddCalls::Unknown)),
        ("call_no_id", Self::Calls(OddCalls::NoId)),
        ("call_same_id", Self::Calls(OddCalls::SameId)),
        ("call_same_index", Self::Calls(OddCalls::SameIndex)),
        ("call_interleaved", Self::Calls(OddCalls::Interleaved)),
        ("call_nameless", Self::Calls(OddCalls::Nameless)),
        ("call_none", Self::Calls(OddCalls::NoCall)),
        ("call_too_many", Self::Calls(OddCalls::TooMany)),
    ];
}

/// The header of a refusal that says when to retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetryAfter {
    /// `retry-after` with this value, which need not be a number of seconds.
    Text(String),
    /// `retry-after` with the date this many seconds from now; negative = in the past.
    Date(i64),
    /// `retry-after-ms` with this value, which need not be a number.
    Ms(String),
}

impl RetryAfter {
    /// Parses a value: `date+1` and `date-60` are dates, all other values are sent unchanged.
    pub(super) fn of(value: &str) -> Option<Self> {
        match value.strip_prefix("date") {
            Some(seconds) => seconds.parse().ok().map(Self::Date),
            None => Some(Self::Text(value.to_owned())),
        }
    }

    /// The header as a line with its line end.
    pub(super) fn line(&self) -> String {
        match self {
            Self::Text(value) => format!("retry-after: {value}\r\n"),
            Self::Ms(value) => format!("retry-after-ms: {value}\r\n"),
            Self::Date(seconds) => {
                let then = Timestamp::now() + SignedDuration::from_secs(*seconds);
                let date = DateTimePrinter::new().timestamp_to_rfc9110_string(&then);
                format!("retry-after: {}\r\n", date.expect("a year of four digits has this format"))
            }
        }
    }
}

/// The bodies of refusals, by the name that a script uses: real ones from the table of `models`' failures.
pub(super) const WORDINGS: [(&str, &str); 7] = [
    (
        "openai_overflow",
        r#"{"error": {"message": "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 477469 tokens. Please reduce the length of the messages.", "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}}"#,
    ),
    (
        "vllm_overflow",
        r#"{"object": "error", "message": "This model's maximum context length is 10000 tokens. However, you requested 10515 tokens (2323 in the messages, 8192 in the completion). Please reduce the length of the messages or completion.", "type": "BadRequestError", "param": null, "code": 400}"#,
    ),
    (
        "llama_cpp_overflow",
        r#"{"error":{"code":400,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"exceed_context_size_error","n_prompt_tokens":14429,"n_ctx":8192}}"#,
    ),
    (
        "dashscope_overflow",
        r#"{"error": {"code": "invalid_parameter_error", "message": "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 983616]", "param": null, "type": "invalid_request_error"}, "request_id": "xxx"}"#,
    ),
    (
        "lm_studio_overflow",
        r#"{"error":"The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 13055>= n_ctx: 4096). Try to load the model with a larger context length, or provide a shorter input."}"#,
    ),
    (
        "quota",
        r#"{"error": {"message": "You exceeded your current quota, please check your plan and billing details.", "type": "insufficient_quota", "param": null, "code": null}}"#,
    ),
    (
        "hard_limit",
        r#"{"error": {"code": "billing_hard_limit_reached", "message": "Billing hard limit has been reached", "param": null, "type": "invalid_request_error"}}"#,
    ),
];
