//! What goes wrong with an answer. Data.

use jiff::fmt::rfc2822::DateTimePrinter;
use jiff::{SignedDuration, Timestamp};

use super::odd_calls::OddCalls;

/// What goes wrong with the first requests of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// They are refused.
    Status {
        /// With this status.
        status: u16,
        /// So many of them.
        times: u32,
    },
    /// They never get a byte.
    Hang {
        /// So many of them.
        times: u32,
    },
    /// Their answers break off.
    Cut {
        /// After this many words.
        words: u32,
        /// So many of them.
        times: u32,
    },
    /// Their answers never come to an end.
    Stall {
        /// After this many words.
        words: u32,
        /// So many of them.
        times: u32,
    },
    /// They are answered with status 200, and not in order.
    Odd {
        /// In this way.
        odd: Odd,
        /// So many of them.
        times: u32,
    },
}

impl Fault {
    /// How many requests it strikes.
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

/// What comes in place of an answer in order, or around one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Odd {
    /// The page of a captive portal.
    Html,
    /// JSON that is no stream.
    Json,
    /// A redirect to another place of this server, where nobody may ever ask.
    Redirect,
    /// The whole answer twice at once; the connection stays for the next request.
    Twice,
    /// Nothing until the client has given up, then the whole answer.
    Late,
    /// The head, then the end of the connection.
    Headers,
    /// A piece of text, half of a frame, the end of the connection.
    CutFrame,
    /// A piece of text, then the connection is reset.
    Reset,
    /// An error inside the stream, after a piece of text.
    ErrorEvent,
    /// A frame that is no JSON, after a piece of text.
    BrokenFrame,
    /// Text that is not UTF-8, after a piece of text.
    BadUtf8,
    /// A line longer than any real one, after a piece of text.
    GiantLine,
    /// An answer that is compressed, which nobody asked for, and cut.
    GzipCut,
    /// The whole text, and no end mark.
    NoEnd,
    /// The whole answer; no blank line closes its last frame, which is the end mark.
    NoBlank,
    /// The whole answer, byte by byte: characters are split.
    SplitUtf8,
    /// The whole answer with lines that end with CR alone.
    CrEnds,
    /// The whole answer with a byte order mark, comments, CR LF, events nobody knows, and more after its end.
    Noise,
    /// The head, then silence.
    Head,
    /// The head, then comments for ever.
    Pings,
    /// A piece of text, then comments for ever.
    WordPings,
    /// A frame, byte by byte, that never ends.
    Trickle,
    /// An answer that asks for calls in a way that is none.
    Calls(OddCalls),
}

impl Odd {
    /// All of them, by name.
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

/// How a refusal says when to come again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetryAfter {
    /// `retry-after` with this, seconds or not.
    Said(String),
    /// `retry-after` with the date so many seconds from now, or ago.
    Date(i64),
    /// `retry-after-ms` with this.
    Ms(String),
}

impl RetryAfter {
    /// `date+1` and `date-60` are dates, all else goes out as it is.
    pub(super) fn of(value: &str) -> Option<Self> {
        match value.strip_prefix("date") {
            Some(seconds) => seconds.parse().ok().map(Self::Date),
            None => Some(Self::Said(value.to_owned())),
        }
    }

    /// The header's line.
    pub(super) fn line(&self) -> String {
        match self {
            Self::Said(value) => format!("retry-after: {value}\r\n"),
            Self::Ms(value) => format!("retry-after-ms: {value}\r\n"),
            Self::Date(seconds) => {
                let then = Timestamp::now() + SignedDuration::from_secs(*seconds);
                let date = DateTimePrinter::new().timestamp_to_rfc9110_string(&then);
                format!("retry-after: {}\r\n", date.expect("years of four digits can be told"))
            }
        }
    }
}

/// What a refusal says where the script names it: bodies that servers really sent, of those in the table of `models`' failures.
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
