//! What is shown beside the flags (R21): what a session, or one of its runs, has used, its limits and its times.

use serde::{Deserialize, Serialize};

use super::session::Session;
use crate::ids::Timestamp;
use crate::tables::budget::{Allowance, Budget, Reserve, Resource, Spent};

/// The resources of a session or of one run. Times are milliseconds since 1970 UTC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// Tokens spent, with the reservation of a request in flight.
    pub token_usage: u64,
    /// The limit of tokens; none = no limit.
    pub token_limit: Option<u64>,
    /// The part of the limit that is kept for recovery.
    pub token_reserved: u64,
    /// Resident bytes of the owner of the home; none without an owner, and in lines of events.
    pub memory_usage: Option<u64>,
    /// The limit of those bytes; none = no limit.
    pub memory_limit: Option<u64>,
    /// Bytes of content that the journal keeps of the session.
    pub session_bytes: u64,
    /// When the session was created.
    pub created_at: Timestamp,
    /// When the active, else the last, run started.
    pub started_at: Option<Timestamp>,
    /// When something last happened.
    pub last_activity_at: Timestamp,
}

impl Resources {
    /// The same with this use and these limits of tokens.
    #[must_use]
    pub fn with_tokens(self, spent: &Spent, allowance: &Allowance, reserve: &Reserve) -> Self {
        let token_limit = allowance.of(Resource::Tokens);
        let token_reserved = allowance.reserved(Resource::Tokens, reserve);
        Self { token_usage: spent.tokens, token_limit, token_reserved, ..self }
    }
}

impl Session {
    /// The resources of the session. `configured` holds the limits of its active, else its last, run.
    pub fn resources(&self, configured: &Budget) -> Resources {
        let run = self.run();
        let spent = run.map_or(self.account.spent, |run| self.account.spent.and(&run.taken()));
        let resources = Resources {
            memory_limit: configured.memory,
            session_bytes: spent.bytes,
            created_at: self.account.created_at,
            started_at: run.map(|run| run.started_at),
            last_activity_at: self.account.last_activity,
            ..Resources::default()
        };
        resources.with_tokens(&spent, &self.account.allowance.or(configured.session), &configured.reserves.session)
    }
}
