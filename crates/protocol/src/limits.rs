//! What a connection may ask for, in one place.

/// Bytes of a frame before the handshake: nobody is trusted with memory yet.
pub const FIRST_FRAME_BYTES: usize = 64 << 10;
/// Bytes of a frame after it: a message with its attachments, which are images and files in base64.
pub const FRAME_BYTES: usize = 32 << 20;
/// Bytes that may wait for a client that does not read; past them it is dropped with its cursor.
pub const BUFFERED_BYTES: usize = 4 << 20;
/// Bytes of events that a client keeps and its program has not read; past them it takes nothing more from the connection.
pub const UNREAD_BYTES: usize = 4 << 20;
/// How long the handshake may take, milliseconds.
pub const HANDSHAKE_MS: u64 = 10_000;
/// How often a `tick` is sent, so that a dead connection is noticed, milliseconds.
pub const TICK_MS: u64 = 30_000;
/// Connections to one home at once.
pub const CONNECTIONS: usize = 1_024;
/// Requests of one connection that may be under way at once.
pub const REQUESTS: usize = 1_024;
/// How long `agent.wait` waits unless it says otherwise, milliseconds.
pub const WAIT_MS: u64 = 30_000;

const _: () = assert!(FIRST_FRAME_BYTES < BUFFERED_BYTES && BUFFERED_BYTES < FRAME_BYTES);
