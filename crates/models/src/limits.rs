//! The limits of what an adapter takes from a server, each with its unit and reason.

use std::time::Duration;

/// Bytes of one line, and of one event, of a stream. Real ones have a few hundred; the largest are images, in base64 a third
/// longer than the answer that they are.
pub(crate) const EVENT_BYTES: usize = 12 << 20;

/// Bytes kept of an answer that is not a stream: enough for every error body seen, and for what it begins with.
pub(crate) const BODY_BYTES: usize = 64 << 10;

/// Bytes of text, reasoning, arguments and images in one answer. 128,000 tokens, the largest limit in the catalogue, have
/// about 0.5 MiB, a picture has one or two; more than this is a server that ignores its own limit.
pub(crate) const ANSWER_BYTES: usize = 8 << 20;

/// Bytes of the images and documents of one request; with base64 they must fit into the 20 MB that Gemini takes. Older ones
/// are told in words.
pub(crate) const SHOWN_BYTES: usize = 12 << 20;

/// How many bytes more are left out at once: each time costs what the provider has kept of the conversation.
pub(crate) const SHOWN_STEP_BYTES: usize = 4 << 20;

/// Calls in one answer. Providers stop at 128.
pub(crate) const CALLS: usize = 128;

/// Characters of a provider's own words in a failure.
pub(crate) const DETAIL_CHARS: usize = 300;

/// How long a connection may take to be made.
pub(crate) const CONNECT: Duration = Duration::from_secs(10);

/// How long the rest of an error's body may take; the status alone tells enough.
pub(crate) const ERROR_BODY: Duration = Duration::from_secs(5);

/// From the finish reason to the usage or the end mark. A server that sends neither has ended all the same.
pub(crate) const TAIL: Duration = Duration::from_secs(2);

/// From the end mark to the end of the body, so that the connection can be used again.
pub(crate) const DRAIN: Duration = Duration::from_millis(50);

/// How long before its end an access token is used no more: as long as an answer may begin to take, mostly.
pub(crate) const TOKEN_EARLY: Duration = Duration::from_mins(1);

/// The longest wait that a provider may ask for, milliseconds: a day. More is an error of its clock.
pub(crate) const RETRY_AFTER_MS: u64 = 24 * 60 * 60 * 1000;

const _: () = assert!(BODY_BYTES < EVENT_BYTES && ANSWER_BYTES / 3 * 4 < EVENT_BYTES);
const _: () = assert!(DRAIN.as_millis() < TAIL.as_millis());
