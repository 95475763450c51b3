//! Every limit of the tools and of the supervisor, with its unit and its reason. Limits that a user may set are in the
//! run's settings, not here.

/// Lines that `read` gives at once: more drowns the rest of a request.
pub(crate) const READ_LINES: u64 = 2_000;

/// Bytes that `read` gives at once, about 12,000 tokens.
pub(crate) const READ_BYTES: usize = 50 << 10;

/// Bytes at the start of a file that decide whether it is text.
pub(crate) const SNIFF_BYTES: usize = 8 << 10;

/// Bytes of a piece of an output's line: a longer line is given as several, so that every page of it has room for one.
pub(crate) const PIECE_BYTES: usize = 16 << 10;

/// Pixels of the longer side of an image that a model is shown, tried in this order until the bytes suffice. More than
/// 2,000 is refused by Anthropic where a request has more than 20 images, and scaled down by all.
pub(crate) const IMAGE_SIDES: &[u32] = &[2_000, 1_500, 1_000];

/// Bytes of an image that a model is shown. Providers take 5 MB of base64 each and 20 to 32 MB a request, and all that was
/// shown is sent with every later request.
pub(crate) const IMAGE_BYTES: usize = 3 << 19;

/// Bytes of the file of an image: a camera's largest JPEG has 30 MB.
pub(crate) const IMAGE_FILE_BYTES: u64 = 32 << 20;

/// Pixels of an image that is decoded: a camera's largest. A file of a few bytes can claim any number.
pub(crate) const IMAGE_PIXELS: u64 = 64_000_000;

/// Bytes that a decoded image may take in memory: one image at a time is.
pub(crate) const IMAGE_MEMORY: u64 = 256 << 20;

/// From 0 to 100: below 80 small text begins to blur.
pub(crate) const JPEG_QUALITY: u8 = 85;

/// Pixels of a side of the squares that models see an image as, each about a token (Anthropic's figure; others are near it).
pub(crate) const IMAGE_TOKEN_SIDE: u32 = 28;

/// Bytes of a PDF document: with base64 it must fit into a request.
pub(crate) const PDF_BYTES: u64 = 10 << 20;

/// Bytes of a text that is sent with a message, about 64,000 tokens: half of what a model sees that is not known. The agent
/// reads a longer one from the workspace, piece by piece.
pub(crate) const ATTACHED_TEXT_BYTES: u64 = 256 << 10;

/// Files that one message may have.
pub(crate) const ATTACHED_FILES: usize = 20;

/// Bytes of all files of one message: with base64 less than the 20 MB that a request to Gemini may have, and no more than a
/// request shows of a conversation.
pub(crate) const ATTACHED_BYTES: u64 = 12 << 20;

/// Bytes of a page of the web that are read: past them it is no page to be read.
pub(crate) const FETCH_BYTES: usize = 2 << 20;

/// Bytes of its text that the model is told at once.
pub(crate) const FETCH_SHOWN_BYTES: usize = 24 << 10;

/// Milliseconds that a fetch may take, redirects included.
pub(crate) const FETCH_MS: u64 = 30_000;

/// Redirects that a fetch follows.
pub(crate) const REDIRECTS: u32 = 5;

/// Entries that `ls` shows.
pub(crate) const LIST_ENTRIES: usize = 500;

/// Matches that `grep` shows: past them a narrower pattern serves better.
pub(crate) const GREP_MATCHES: usize = 200;

/// Bytes of one matching line, so that one minified file does not fill the answer.
pub(crate) const GREP_LINE_BYTES: usize = 500;

/// Bytes that a line may have before `grep` gives that file up: it bounds the memory of a search.
pub(crate) const GREP_HEAP_BYTES: usize = 16 << 20;

/// Paths that `find` shows.
pub(crate) const FOUND_PATHS: usize = 500;

/// Bytes of a file that `edit` and `apply_patch` change: they hold it whole, twice.
pub(crate) const CHANGED_BYTES: u64 = 16 << 20;

/// Lines of a file that are shown as the nearest to what was not found in it.
pub(crate) const NEAREST_LINES: usize = 6;

/// Characters of a line that are compared for likeness: it bounds the search for the nearest one.
pub(crate) const ALIKE_CHARS: usize = 120;

/// Line numbers that an error lists.
pub(crate) const LISTED_LINES: usize = 10;

/// Links that one path may lead through, as the kernel has it.
pub(crate) const LINKS: u32 = 40;

/// Tries to open a path while others rename what is on the way: past them it is theirs to settle first.
pub(crate) const OPEN_TRIES: u32 = 32;

/// Bytes from the start of a command's output that the model is told.
pub(crate) const SHOWN_HEAD_BYTES: usize = 16 << 10;

/// Bytes from the end of a command's output that the model is told: errors are there.
pub(crate) const SHOWN_TAIL_BYTES: usize = 8 << 10;

/// Bytes from the start of a command's output that are kept on disk.
pub(crate) const KEPT_HEAD_BYTES: u64 = 4 << 20;

/// Bytes from the end of a command's output that are kept on disk.
pub(crate) const KEPT_TAIL_BYTES: u64 = 4 << 20;

/// Bytes of a command's output that are reported while it runs: it is for an eye, and it goes through the journal.
pub(crate) const LIVE_BYTES: u64 = 64 << 10;

/// Bytes that the supervisor takes from the pipe at once: what a pipe holds.
pub(crate) const PIPE_BYTES: usize = 64 << 10;

/// Bytes that may be taken from the pipe after the command's processes are gone. Only one that could not be ended still
/// writes, and it must not hold the record up.
pub(crate) const DRAIN_BYTES: u64 = 1 << 20;

/// Milliseconds between SIGTERM and SIGKILL.
pub(crate) const TERM_MS: u64 = 1_500;

/// Milliseconds that processes get to vanish after SIGKILL; what is left then cannot be ended by us.
pub(crate) const KILL_MS: u64 = 2_000;

/// Milliseconds between two looks at processes that are being ended.
pub(crate) const ENDING_TICK_MS: u64 = 5;

/// How often processes are looked for again that came to be while their command was being frozen.
pub(crate) const FREEZE_LOOKS: u32 = 3;

/// Milliseconds after which a quiet supervisor wakes to reap what its command orphaned.
pub(crate) const REAP_TICK_MS: u64 = 5_000;

/// Milliseconds past the call's own limit after which the supervisor ends the command by itself: the runtime, if there is
/// one, comes first.
pub(crate) const SLACK_MS: u64 = 10_000;

/// Milliseconds between two looks at a call that another process started.
pub(crate) const ATTACHED_TICK_MS: u64 = 10;

/// Milliseconds between two looks at a call that reports its news itself: only in case a word of it got lost.
pub(crate) const FOLLOWED_TICK_MS: u64 = 1_000;

/// Milliseconds between two looks at a command in the background where the system does not tell of its end.
pub(crate) const HELD_TICK_MS: u64 = 1_000;

/// Milliseconds after which a command is put into the background, where no other time is asked for: what fails at once
/// fails in its own call.
pub(crate) const BACKGROUND_MS: u64 = 500;

/// Bytes of the output of a process that the model is told at once.
pub(crate) const POLLED_BYTES: u64 = 24 << 10;

/// Bytes from the end of it where no place is asked for.
pub(crate) const POLLED_TAIL_BYTES: u64 = 8 << 10;

/// The longest that a poll may wait for something new, milliseconds.
pub(crate) const POLL_WAIT_MS: u64 = 60_000;

/// Milliseconds between two looks while a poll waits, or a process does not read its input.
pub(crate) const POLL_TICK_MS: u64 = 20;

/// Milliseconds that a process gets to read its input before the rest of it is given up.
pub(crate) const INPUT_MS: u64 = 2_000;

/// Milliseconds that a process gets to end before the model is told that it could not be ended.
pub(crate) const PROCESS_END_MS: u64 = 4_000;

/// Bytes of a command in a list.
pub(crate) const LISTED_BYTES: usize = 200;

/// Bytes of the supervisor's word on why it could not begin.
pub(crate) const REASON_BYTES: usize = 1 << 10;

/// Bytes below which a secret is not masked: it would blacken ordinary text and is none.
pub(crate) const SECRET_BYTES: usize = 6;

/// Bytes of a command that a question quotes: whoever allows it must have seen it.
pub(crate) const QUOTED_BYTES: usize = 8 << 10;

const _: () = assert!(SHOWN_HEAD_BYTES + SHOWN_TAIL_BYTES < KEPT_HEAD_BYTES as usize, "what is shown is kept");
const _: () =
    assert!(PDF_BYTES <= ATTACHED_BYTES && ATTACHED_BYTES / 3 * 4 < 20_000_000, "what is attached can be sent");
const _: () = assert!(IMAGE_BYTES / 3 * 4 < 5_000_000, "an image that was made anew can be sent");
const _: () =
    assert!(PDF_BYTES < IMAGE_FILE_BYTES && ATTACHED_TEXT_BYTES < IMAGE_FILE_BYTES, "no more is read of a file");
const _: () = assert!(POLLED_BYTES <= KEPT_TAIL_BYTES, "what is told at once is kept in one piece");
const _: () = assert!(TERM_MS + KILL_MS < PROCESS_END_MS, "a process is ended before that is given up");
const _: () = assert!(LIVE_BYTES < KEPT_HEAD_BYTES, "live output is read from the part that is never overwritten");
const _: () = assert!(
    TERM_MS + KILL_MS < engine::tables::limits::END_GRACE_MS,
    "the tree is ended, and that is recorded, before the run ends without it"
);
