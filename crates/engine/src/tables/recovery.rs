//! The error strategy: what follows a failure. One table, one decision.

use crate::failure::{Failure, FailureClass};
use crate::ids::Moment;
use crate::settings::Limits;
use crate::tables::limits::{BACKOFF_BASE_MS, BACKOFF_MOST_MS};

/// What is done about a class of failure first. Rotation and fallback will stand between this and the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The same candidate again, after what the provider asks for, else after a backoff.
    Retry,
    /// The run ends with it.
    Fail,
}

use FailureClass as Class;

/// The table: each class once, in the order of its enum.
pub const RULES: &[(FailureClass, Rule)] = &[
    (Class::RateLimit, Rule::Retry),
    (Class::Overloaded, Rule::Retry),
    (Class::Auth, Rule::Fail),
    (Class::AuthPermanent, Rule::Fail),
    (Class::Billing, Rule::Fail),
    (Class::Timeout, Rule::Retry),
    (Class::Stalled, Rule::Retry),
    (Class::Network, Rule::Retry),
    (Class::Server, Rule::Retry),
    (Class::Malformed, Rule::Retry),
    (Class::ContextOverflow, Rule::Fail),
    (Class::ThinkingUnsupported, Rule::Fail),
    (Class::ModelNotFound, Rule::Fail),
    (Class::InvalidRequest, Rule::Fail),
    (Class::Refused, Rule::Fail),
    (Class::Tool, Rule::Fail),
    (Class::Deadline, Rule::Fail),
    (Class::Aborted, Rule::Fail),
    (Class::Budget, Rule::Fail),
    (Class::Store, Rule::Fail),
    (Class::Unknown, Rule::Fail),
];

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// The same request again after so many milliseconds.
    Retry {
        /// From now.
        delay_ms: u64,
    },
    /// The run ends with this failure.
    Fail,
}

/// Decides what follows a failure, when `failed` requests of this step have failed in a row (this one included).
pub fn recover(failure: &Failure, failed: u32, limits: &Limits, moment: Moment) -> Strategy {
    let (_, rule) = RULES[failure.class as usize];
    if rule == Rule::Fail || failed > limits.retries {
        return Strategy::Fail;
    }
    let delay_ms = failure.retry_after_ms.unwrap_or_else(|| backoff_ms(failed, moment.draw));
    if delay_ms > limits.max_wait_ms { Strategy::Fail } else { Strategy::Retry { delay_ms } }
}

/// Full jitter: anywhere between nothing and 1 s · 2^(n−1), at most 60 s.
fn backoff_ms(failed: u32, draw: u64) -> u64 {
    let doublings = failed.saturating_sub(1).min(16);
    let most = (BACKOFF_BASE_MS << doublings).min(BACKOFF_MOST_MS);
    draw % (most + 1)
}
