//! The error strategy: one row for each class of failure. `machine/failover.rs` decides by it.

use serde::{Deserialize, Serialize};

use crate::failure::FailureClass;
use crate::tables::limits::{COOLDOWNS_MS, DISABLED_MOST_MS, DISABLED_MS};

/// Whether a failure can pass (R24).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recoverability {
    /// It can pass with time, with a shorter history or with a larger budget: the run tries again or waits.
    Recoverable,
    /// The same request would fail the same way: it is never sent again unchanged. If no other candidate, token or
    /// thinking level is left, the run fails.
    Unrecoverable,
    /// Nothing can be said of it: the run waits for a human.
    Escalate,
}

impl Recoverability {
    /// All of them, in the order of the enum.
    pub const ALL: &[Self] = &[Self::Recoverable, Self::Unrecoverable, Self::Escalate];

    /// The name on the wire and in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Recoverable => "recoverable",
            Self::Unrecoverable => "unrecoverable",
            Self::Escalate => "escalate",
        }
    }
}

/// The kinds of errors of R24, to which every class of failure belongs. The kind alone says whether a failure can pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// Something did not come in time.
    Timeout,
    /// Too many requests or tokens for now.
    RateLimit,
    /// A fault of the connection or of the server at its other end, which passes.
    NetworkError,
    /// Capacity, the context window or a budget is used up.
    ResourceExhausted,
    /// The account, the user or a limit of the user does not allow it.
    PermissionDenied,
    /// The request or the call cannot be carried out as it is.
    InvalidInput,
    /// What was named does not exist.
    NotFound,
    /// The key was not accepted.
    AuthenticationFailed,
    /// Any other error.
    Other,
}

impl ErrorKind {
    /// All of them, in the order of the enum.
    pub const ALL: &[Self] = &[
        Self::Timeout,
        Self::RateLimit,
        Self::NetworkError,
        Self::ResourceExhausted,
        Self::PermissionDenied,
        Self::InvalidInput,
        Self::NotFound,
        Self::AuthenticationFailed,
        Self::Other,
    ];

    /// The name on the wire and in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::RateLimit => "rate_limit",
            Self::NetworkError => "network_error",
            Self::ResourceExhausted => "resource_exhausted",
            Self::PermissionDenied => "permission_denied",
            Self::InvalidInput => "invalid_input",
            Self::NotFound => "not_found",
            Self::AuthenticationFailed => "authentication_failed",
            Self::Other => "other",
        }
    }

    /// Whether an error of this kind can pass.
    pub fn recoverability(self) -> Recoverability {
        match self {
            Self::Timeout | Self::RateLimit | Self::NetworkError | Self::ResourceExhausted => {
                Recoverability::Recoverable
            }
            Self::PermissionDenied | Self::InvalidInput | Self::NotFound | Self::AuthenticationFailed => {
                Recoverability::Unrecoverable
            }
            Self::Other => Recoverability::Escalate,
        }
    }
}

/// What R24 says of a failure; shown wherever a failure is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct FailureCategory {
    pub kind: ErrorKind,
    pub recoverability: Recoverability,
}

impl FailureCategory {
    /// The category of a class of failure.
    pub fn of(class: FailureClass) -> Self {
        let kind = rule_of(class).kind;
        Self { kind, recoverability: kind.recoverability() }
    }
}

/// What is tried first, with the same candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// The same request once more, after the time that the provider asks for, else after a backoff.
    RetryOnce,
    /// The same request up to `requests.retries` times.
    Retry,
    /// The same request at once with a new access token; once, and only if the key is an access token.
    RefreshOnce,
    /// The same request at each lower thinking level, once each.
    LowerThinking,
    /// The same conversation with a compacted history, step by step.
    Compact,
    /// Nothing: the same request would fail the same way.
    Nothing,
}

impl First {
    /// The name for people; empty for nothing.
    pub fn name(self) -> &'static str {
        match self {
            Self::RetryOnce => "retry once",
            Self::Retry => "retry",
            Self::RefreshOnce => "refresh once",
            Self::LowerThinking => "lower thinking",
            // `failover --json` prints it: it stays.
            Self::Compact => "make room",
            Self::Nothing => "",
        }
    }
}

/// Which candidate is tried then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// The model's next profile; when it has none left, the next model.
    NextProfile,
    /// The next model: no other key would help.
    NextModel,
    /// No other candidate is tried.
    Nothing,
}

impl Then {
    /// The name for people; empty for none.
    pub fn name(self) -> &'static str {
        match self {
            Self::NextProfile => "next profile",
            Self::NextModel => "next model",
            Self::Nothing => "",
        }
    }
}

/// The cooldown that a failure begins for all sessions of the home.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cools {
    /// None: the failure says nothing about other requests.
    Nothing,
    /// The model with this profile, for 1, 5, 25 and 60 minutes.
    Pair,
    /// The profile with all models, for 1, 5, 25 and 60 minutes.
    Profile,
    /// The profile with all models, for 5 hours and twice as long each time, at most a day.
    Disables,
}

impl Cools {
    /// The name for people; empty for nothing.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Pair => "model with this profile: 1, 5, 25, 60 min",
            Self::Profile => "profile: 1, 5, 25, 60 min",
            Self::Disables => "profile: 5 h, doubling to 24 h",
        }
    }

    /// The length of the `failures`-th cooldown in a row (from 1), in milliseconds. An answer, or the end of a cooldown,
    /// starts the count again.
    pub fn cooldown_ms(self, failures: u32) -> u64 {
        let before = failures.saturating_sub(1);
        match self {
            Self::Nothing => 0,
            Self::Pair | Self::Profile => COOLDOWNS_MS[(before as usize).min(COOLDOWNS_MS.len() - 1)],
            Self::Disables => (DISABLED_MS << before.min(8)).min(DISABLED_MOST_MS),
        }
    }
}

/// What happens when nothing is left to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtEnd {
    /// The run waits for the first candidate that can be tried again, within `requests.max_wait_s`; else it ends.
    Wait,
    /// The run ends with the failure, unless it can wait for the cooldown of another candidate.
    Fail,
    /// The run ends with the failure, whatever the state of the other candidates.
    End,
    /// The run waits until a human resumes it.
    Hold,
}

impl AtEnd {
    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Fail => "fail",
            Self::End => "end",
            Self::Hold => "hold",
        }
    }
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Rule {
    pub class: FailureClass,
    /// The kind of error (R24); it says whether the failure can pass.
    pub kind: ErrorKind,
    /// The action with the same candidate.
    pub first: First,
    /// The candidate that is tried next.
    pub then: Then,
    /// What happens when no candidate is left.
    pub at_end: AtEnd,
    /// The cooldown for all sessions of the home.
    pub cools: Cools,
}

use AtEnd::{End, Fail, Hold, Wait};
use ErrorKind as Kind;
use FailureClass as Class;

const fn rule(class: FailureClass, kind: ErrorKind, first: First, then: Then, at_end: AtEnd) -> Rule {
    Rule { class, kind, first, then, at_end, cools: Cools::Nothing }
}

impl Rule {
    const fn cools(mut self, cools: Cools) -> Self {
        self.cools = cools;
        self
    }
}

/// The table: each class once, in the order of its enum.
pub const RULES: &[Rule] = &[
    rule(Class::RateLimit, Kind::RateLimit, First::RetryOnce, Then::NextProfile, Wait).cools(Cools::Pair),
    rule(Class::Overloaded, Kind::ResourceExhausted, First::RetryOnce, Then::NextProfile, Wait).cools(Cools::Pair),
    rule(Class::Auth, Kind::AuthenticationFailed, First::RefreshOnce, Then::NextProfile, Fail).cools(Cools::Profile),
    rule(Class::AuthPermanent, Kind::PermissionDenied, First::Nothing, Then::NextProfile, Fail).cools(Cools::Disables),
    rule(Class::Billing, Kind::PermissionDenied, First::Nothing, Then::NextProfile, Fail).cools(Cools::Disables),
    rule(Class::Timeout, Kind::Timeout, First::Retry, Then::NextProfile, Fail),
    rule(Class::Stalled, Kind::Timeout, First::Retry, Then::NextProfile, Fail),
    rule(Class::Network, Kind::NetworkError, First::Retry, Then::NextProfile, Fail),
    rule(Class::Server, Kind::NetworkError, First::Retry, Then::NextProfile, Fail),
    rule(Class::Malformed, Kind::NetworkError, First::Retry, Then::NextProfile, Fail),
    rule(Class::ContextOverflow, Kind::ResourceExhausted, First::Compact, Then::Nothing, End),
    rule(Class::ThinkingUnsupported, Kind::InvalidInput, First::LowerThinking, Then::Nothing, End),
    rule(Class::ModelNotFound, Kind::NotFound, First::Nothing, Then::NextModel, Fail),
    rule(Class::InvalidRequest, Kind::InvalidInput, First::Nothing, Then::Nothing, End),
    rule(Class::Refused, Kind::InvalidInput, First::Nothing, Then::Nothing, End),
    rule(Class::Tool, Kind::InvalidInput, First::Nothing, Then::Nothing, End),
    rule(Class::Deadline, Kind::PermissionDenied, First::Nothing, Then::Nothing, End),
    rule(Class::Aborted, Kind::PermissionDenied, First::Nothing, Then::Nothing, End),
    rule(Class::Budget, Kind::ResourceExhausted, First::Nothing, Then::Nothing, End),
    rule(Class::Loop, Kind::InvalidInput, First::Nothing, Then::Nothing, End),
    rule(Class::Store, Kind::Other, First::Nothing, Then::Nothing, Hold),
    rule(Class::Unknown, Kind::Other, First::Nothing, Then::Nothing, Hold),
];

/// The row of a class.
pub fn rule_of(class: FailureClass) -> Rule {
    RULES[class as usize]
}
