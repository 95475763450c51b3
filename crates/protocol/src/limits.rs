//! The limits of a connection.

/// Bytes of a frame before the handshake: an unknown peer must not use much memory.
pub const FIRST_FRAME_BYTES: usize = 64 << 10;
/// Bytes of a frame after the handshake: a message with attachments, which are images and files in base64.
pub const FRAME_BYTES: usize = 32 << 20;
/// Bytes that may be buffered for a client that does not read. Beyond them the owner sends the cursors and disconnects.
pub const BUFFERED_BYTES: usize = 4 << 20;
/// Bytes that may be buffered for all clients together. Beyond them the client with the most is disconnected.
pub const ALL_BUFFERED_BYTES: usize = 64 << 20;
/// Bytes of unread events that a client buffers. Beyond them it stops reading from the connection.
pub const UNREAD_BYTES: usize = 4 << 20;
/// How long the handshake may take, milliseconds.
pub const HANDSHAKE_MS: u64 = 10_000;
/// How often a `tick` is sent, so that a dead connection is noticed, milliseconds.
pub const TICK_MS: u64 = 30_000;
/// Concurrent connections to one home.
pub const CONNECTIONS: usize = 1_024;
/// Concurrent requests of one connection.
pub const REQUESTS: usize = 1_024;
/// The default timeout of `agent.wait`, milliseconds.
pub const WAIT_MS: u64 = 30_000;

/// Bytes of an answer that a response may hold twice, as the text and in its reply: with every byte escaped it takes six
/// times as many, and both copies fit into a frame.
pub const TEXT_TWICE_BYTES: usize = 1 << 20;

/// Bytes of one piece of a text that travels in parts, before it is escaped.
pub const PART_BYTES: usize = 256 << 10;
/// Bytes of a diff in the response to a chat command.
pub const CHAT_DIFF_BYTES: usize = 128 << 10;
/// Characters of the title of a session.
pub const TITLE_CHARS: usize = 200;
/// Bytes of such a title as a client sends it, with blanks that are left out: it is put on one line on an async thread.
pub const TITLE_BYTES: usize = 16 << 10;
/// Bytes of all parts of one frame, which a client joins: the texts of a run whose answer was continued many times.
pub const JOINED_BYTES: usize = 256 << 20;
/// Bytes from which a frame is parsed or encoded on a thread that may block.
pub const OFF_THREAD_BYTES: usize = 256 << 10;

const _: () = assert!(2 * FRAME_BYTES <= ALL_BUFFERED_BYTES, "two clients may read a large session at once");
const _: () = assert!(6 * PART_BYTES < BUFFERED_BYTES, "whatever is escaped");
const _: () = assert!(4 * TITLE_CHARS < TITLE_BYTES && TITLE_BYTES < OFF_THREAD_BYTES);
const _: () = assert!(2 * 6 * TEXT_TWICE_BYTES < FRAME_BYTES);
const _: () = assert!(FIRST_FRAME_BYTES < BUFFERED_BYTES && BUFFERED_BYTES < FRAME_BYTES);
