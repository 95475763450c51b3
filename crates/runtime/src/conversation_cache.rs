//! A bounded cache of the conversations of idle sessions. An evicted conversation is read from the journal when its
//! session resumes.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::BranchId;

use crate::conversation::Conversation;

/// How many conversations are kept: more sessions than take turns at once. One that is not kept is read and rendered anew in
/// each of its turns.
const CONVERSATIONS: usize = 64;
/// Bytes of all cached texts; a rendered text takes as much again.
const TEXT_BYTES: usize = 8 << 20;
/// Bytes of the texts of a single conversation, which is kept alone then: more than fit into any model's window. A larger
/// one is read again when its session goes on.
const LAST_TEXT_BYTES: usize = 2 * TEXT_BYTES;

/// Bytes of a text that is kept before it is rendered: a larger one, such as the last answer of a session that may never go on,
/// is read again.
const FRESH_BYTES: usize = 1 << 20;

/// The conversations, the one that became idle last in front.
#[derive(Debug, Default)]
pub(crate) struct ConversationCache(Mutex<Cached>);

#[derive(Debug, Default)]
struct Cached {
    conversations: VecDeque<CachedConversation>,
    /// Bytes of all texts.
    bytes: usize,
}

#[derive(Debug)]
struct CachedConversation {
    branch: BranchId,
    conversation: Conversation,
    bytes: usize,
}

impl ConversationCache {
    /// Keeps the conversation of a session whose run has ended.
    pub(crate) fn put(&self, branch: BranchId, mut conversation: Conversation) {
        conversation.leave_out_large(FRESH_BYTES);
        let bytes = conversation.bytes();
        let mut cached = self.lock();
        cached.take(branch);
        if bytes > LAST_TEXT_BYTES {
            return;
        }
        cached.bytes += bytes;
        cached.conversations.push_front(CachedConversation { branch, conversation, bytes });
        while cached.conversations.len() > CONVERSATIONS
            || (cached.conversations.len() > 1 && cached.bytes > TEXT_BYTES)
        {
            let last = cached.conversations.pop_back().expect("there is more than one");
            cached.bytes -= last.bytes;
        }
    }

    /// Evicts all conversations, to release memory.
    pub(crate) fn clear(&self) {
        *self.lock() = Cached::default();
    }

    /// Takes the conversation out of the cache, if it is still there.
    pub(crate) fn take(&self, branch: BranchId) -> Option<Conversation> {
        self.lock().take(branch)
    }

    fn lock(&self) -> MutexGuard<'_, Cached> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cached {
    fn take(&mut self, branch: BranchId) -> Option<Conversation> {
        let at = self.conversations.iter().position(|cached| cached.branch == branch)?;
        let taken = self.conversations.remove(at)?;
        self.bytes -= taken.bytes;
        Some(taken.conversation)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn kept(conversations: &ConversationCache, sessions: std::ops::Range<u128>) -> Vec<u128> {
        sessions.filter(|session| conversations.take(BranchId(Uuid::from_u128(*session))).is_some()).collect()
    }

    /// R43: an answer of megabytes is not kept for a session that may never go on.
    #[test]
    fn r43_a_large_text_that_is_not_rendered_is_not_kept() {
        let conversations = ConversationCache::default();
        let branch = BranchId(Uuid::from_u128(1));
        for (bytes, kept) in [(FRESH_BYTES, FRESH_BYTES), (FRESH_BYTES + 1, 0)] {
            conversations.put(branch, Conversation::with_fresh(bytes));
            assert_eq!(conversations.take(branch).unwrap().bytes(), kept);
        }
    }

    #[test]
    fn r20_the_latest_are_kept_within_the_bounds() {
        let (conversations, many) = (ConversationCache::default(), CONVERSATIONS as u128);
        let put =
            |session, bytes| conversations.put(BranchId(Uuid::from_u128(session)), Conversation::with_bytes(bytes));
        (0..many + 2).for_each(|session| put(session, 1));
        assert_eq!(kept(&conversations, 0..many + 2), (2..many + 2).collect::<Vec<_>>());
        (0..3).for_each(|session| put(session, TEXT_BYTES / 2));
        assert_eq!(kept(&conversations, 0..3), [1, 2]);
        put(0, 1);
        put(1, TEXT_BYTES * 2);
        assert_eq!(kept(&conversations, 0..2), [1], "the last one may have more");
        put(0, 1);
        put(1, LAST_TEXT_BYTES + 1);
        assert_eq!(kept(&conversations, 0..2), [0], "but not any amount");
        put(0, 1);
        put(0, 1);
        assert_eq!((kept(&conversations, 0..1), kept(&conversations, 0..1)), (vec![0], vec![]), "one of a session");
    }
}
