//! Limits that are not settings: each with its unit and its reason.

/// Bytes of one message. More belongs into a file that the agent can read.
pub const MESSAGE_BYTES: u64 = 4 << 20;

/// How often a model is asked for the title of one conversation: a run may end before the title comes.
pub const TITLE_ASKS: u32 = 3;

/// Tokens of the answer with a title: a line, and what a model that always thinks needs before it.
pub const TITLE_TOKENS: u64 = 1_024;

/// Characters of the message that a model is asked to name.
pub const TITLE_INPUT: usize = 2_000;

/// Milliseconds that a title may take.
pub const TITLE_MS: u64 = 20_000;

/// Bytes of one part of an address, such as the id of a group: the ids of all known channels are shorter.
pub const ADDRESS_BYTES: usize = 256;

/// Deliveries that may wait in one session: each is held in the state.
pub const OUTBOX: usize = 1_000;

/// The newest deliveries of a session that stay listed although they did not arrive.
pub const UNDELIVERED: usize = 20;

/// Milliseconds after which a failed delivery is tried again, one for each try: OpenClaw's four, and two more for a night in
/// which the other end is down.
pub const DELIVERY_RETRIES_MS: [u64; 6] = [5_000, 25_000, 120_000, 600_000, 3_600_000, 6 * 3_600_000];

/// Milliseconds that text which is too short for a block waits for more.
pub const BLOCK_IDLE_MS: u64 = 1_000;

/// Messages that may wait in one session where nothing else is configured: more are a flood, not a conversation.
pub const QUEUE_CAP: u32 = 20;

/// Messages that may wait in one session, whatever is configured: each is held in the state.
pub const QUEUED_MESSAGES: usize = 1_000;

/// Bytes of one open stream (text, reasoning and calls together): far above any model's output limit, so that a
/// provider that never stops cannot fill the memory.
pub const STREAM_BYTES: u64 = 8 << 20;

/// Calls in one message of a model; more means that the model malfunctions.
pub const CALLS_PER_MESSAGE: usize = 128;

/// Milliseconds that calls get to end after an abort, before the run ends without them.
pub const END_GRACE_MS: u64 = 5_000;

/// Milliseconds after which a held session tries again by itself (`runs.recover = "auto"`), one for each attempt: long
/// enough for an outage to end, and few, because each attempt may cost a request.
pub const RECOVERIES_MS: [u64; 3] = [60_000, 5 * 60_000, 25 * 60_000];

/// Milliseconds that a command in the background may run: a day, so that a forgotten one ends.
pub const PROCESS_MS: u64 = 24 * 3_600_000;

/// Commands that may run in the background of one session.
pub const RUNNING_PROCESSES: usize = 16;

/// The newest ended processes that stay listed: each keeps up to 8 MiB of output on disk.
pub const ENDED_PROCESSES: usize = 8;

/// First backoff, milliseconds; doubled at each try.
pub const BACKOFF_BASE_MS: u64 = 1_000;

/// The maximum backoff, milliseconds.
pub const BACKOFF_MOST_MS: u64 = 60_000;

/// The cooldowns of a candidate without capacity whose provider names no time, milliseconds: the next one each time.
pub const COOLDOWNS_MS: [u64; 4] = [60_000, 5 * 60_000, 25 * 60_000, 60 * 60_000];

/// The cooldown of a profile whose key is refused permanently or that has no credit, milliseconds; doubled each time.
pub const DISABLED_MS: u64 = 5 * 60 * 60_000;

/// The longest such cooldown, milliseconds.
pub const DISABLED_MOST_MS: u64 = 24 * 60 * 60_000;

/// How long a refused thinking level is not asked for again, milliseconds: a week, so that a provider that begins to
/// accept it is noticed.
pub const REFUSED_LEVEL_MS: u64 = 7 * 24 * 60 * 60_000;

/// The last failures that the ledger knows to be counted: a session reports one twice only if its process died before
/// it knew of the first report, and then when it is next opened.
pub const COUNTED_REPORTS: usize = 1_024;

/// How often in a run a summary follows a provider's report that a request is too long: more would loop.
pub const OVERFLOW_SUMMARIES: u32 = 3;

/// The maximum tokens of a user's message that stays unchanged beside a summary while its run continues: a longer one
/// is summarised too.
pub const PINNED_TOKENS: u64 = 4_000;

/// Tokens from which a call's result is long: a compaction keeps only its beginning and its end.
pub const LONG_RESULT_TOKENS: u64 = 1_000;

/// Maximum tokens of the request to the model to write down what must not be lost.
pub const FLUSH_TOKENS: u64 = 200;

/// The number of different calls with results of which a run remembers whether they came before.
pub const REPEATS_REMEMBERED: usize = 16;

/// The estimated tokens of an image of any size: models scale large ones down.
pub const IMAGE_TOKENS: u64 = 1_600;

/// The tokens of a message's frame: its role and its delimiters.
pub const MESSAGE_TOKENS: u64 = 8;

/// The minimum window of a model, tokens: instructions, tools and one result fill a smaller one.
pub const WINDOW_LEAST: u64 = 16_000;

/// Tokens below which the user is warned that a model's window is small.
pub const WINDOW_SMALL: u64 = 32_000;

const _: () = assert!(MESSAGE_BYTES <= STREAM_BYTES, "an echoed message must fit into a stream");
const _: () = assert!(BACKOFF_BASE_MS < BACKOFF_MOST_MS, "backoff grows");
const _: () = assert!(END_GRACE_MS > 3_000, "SIGTERM, the wait for it, SIGKILL and the record of it need their time");

/// Refused answers of a session that are recorded between two starts of runs: a command that tries again and again fills no journal.
pub const REFUSED_ANSWERS: u32 = 16;

/// Bytes of edited arguments that the model is shown.
pub const EDITED_SHOWN: usize = 2_000;
