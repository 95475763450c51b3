//! What counts as old in a journal, and the result of erasing it.

use std::collections::BTreeSet;

use engine::{BranchId, EffectId, Hash, Seq, SessionId, Timestamp};

/// The result of a collection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Collected {
    /// The number of bodies that nothing named.
    pub bodies: u64,
    /// Their size as stored, in bytes.
    pub bytes: u64,
    /// Pieces of progress that an entry had sealed, or whose run had ended.
    pub progress: u64,
}

/// Which content is old: bodies named only by entries before a time, and needed by no state.
#[derive(Debug, Clone)]
pub struct Old<'a> {
    /// The limit: bodies that an entry of this time or later names stay.
    pub before: Timestamp,
    /// The serialized states of all sessions that may continue. Bodies that they name stay.
    pub states: &'a [Vec<u8>],
}

/// A conversation that was deleted: all of a session up to an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeletedConversation {
    /// The session.
    pub session: SessionId,
    /// The branch of the entry.
    pub branch: BranchId,
    /// The last entry that belongs to the conversation.
    pub until: Seq,
}

/// What was erased of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErasedConversation {
    /// Its texts and outputs that nothing else names.
    pub collected: Collected,
    /// The contents of files that only its entries name. The journal does not hold them.
    pub files: Vec<Hash>,
    /// Its calls, whose records the journal does not hold.
    pub calls: BTreeSet<EffectId>,
}
