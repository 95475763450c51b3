//! The limits on data from and to a model server, each with its unit and reason.

use std::time::Duration;

/// Bytes of one line and of one event of a stream. Real ones have a few hundred bytes; the largest are images, which
/// base64 makes a third longer than the answer that they are.
pub(crate) const EVENT_BYTES: usize = 12 << 20;

/// Bytes kept of a response that is not a stream: enough for every known error body.
pub(crate) const BODY_BYTES: usize = 64 << 10;

/// Bytes of text, reasoning, arguments and images in one answer. 128,000 tokens, the largest limit in the catalogue,
/// have about 0.5 MiB and an image one or two; a server that sends more ignores its own limit.
pub(crate) const ANSWER_BYTES: usize = 8 << 20;

/// Bytes of one piece of an answer. Each piece is one event and one line, which is sent to every client: with every byte
/// escaped it takes six times as many.
pub(crate) const PART_BYTES: usize = 256 << 10;

/// Bytes of the images and documents of one request; as base64 they must fit into the 20 MB that Gemini accepts. Older
/// files are replaced by a line of text.
pub(crate) const FILES_BYTES: usize = 12 << 20;

/// The step, in bytes, in which further files are replaced: each change invalidates the provider's cache of the
/// conversation.
pub(crate) const FILES_STEP_BYTES: usize = 4 << 20;

/// Bytes of a tool's name, and of the provider's id of a call. Providers allow 64 characters of a name; some gateways put more
/// than an id into an id.
pub(crate) const NAME_BYTES: usize = 256;
pub(crate) const ID_BYTES: usize = 16 << 10;

/// Calls in one answer. Providers stop at 128.
pub(crate) const CALLS: usize = 128;

/// Characters of a provider's message in a failure.
pub(crate) const DETAIL_CHARS: usize = 300;

/// The timeout of a connection attempt.
pub(crate) const CONNECT: Duration = Duration::from_secs(10);

/// How long to wait for the rest of an error body; the status alone suffices.
pub(crate) const ERROR_BODY: Duration = Duration::from_secs(5);

/// How long to wait after the finish reason for the usage or the end mark. Without either, the answer still counts as
/// ended.
pub(crate) const TAIL: Duration = Duration::from_secs(2);

/// How long to wait after the end mark for the end of the body, so that the connection can be reused.
pub(crate) const DRAIN: Duration = Duration::from_millis(50);

/// How long before its expiry an access token is no longer used: the time that an answer usually takes to begin.
pub(crate) const TOKEN_EARLY: Duration = Duration::from_mins(1);

/// The longest wait that a provider may ask for, milliseconds: a day. More means a wrong clock.
pub(crate) const RETRY_AFTER_MS: u64 = 24 * 60 * 60 * 1000;

const _: () = assert!(BODY_BYTES < EVENT_BYTES && ANSWER_BYTES / 3 * 4 < EVENT_BYTES);
const _: () = assert!(DRAIN.as_millis() < TAIL.as_millis());

/// The most tokens that a provider may say it has counted, far above any window: a sum over all requests of a home fits a number of
/// 64 bits.
pub(crate) const MOST_TOKENS: u64 = 1_000_000_000_000;
