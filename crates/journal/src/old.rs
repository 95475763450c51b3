//! What is old in a journal, and what came of its erasure. What may not live here: how content is erased.

use engine::Timestamp;

/// What was collected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Collected {
    /// Bodies that nothing named.
    pub bodies: u64,
    /// Their bytes, as they were stored.
    pub bytes: u64,
    /// Pieces of progress that an entry had sealed, or whose run had ended.
    pub progress: u64,
}

/// What is old: entries before a time, where no state needs what they name.
#[derive(Debug, Clone)]
pub struct Old<'a> {
    /// The time. What is named by an entry of this time or later stays.
    pub before: Timestamp,
    /// The states of all sessions that may go on, as text. What they name stays.
    pub states: &'a [Vec<u8>],
}
