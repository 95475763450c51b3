//! What can go wrong, normalised: whatever a provider, a socket or a tool says becomes a [`Failure`].

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::tables::failover::FailureCategory;

/// The classes that the error strategy decides by (design: failures).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// Too many requests or tokens for now.
    RateLimit,
    /// The provider has no capacity for now.
    Overloaded,
    /// The key was not accepted; a refresh may help.
    Auth,
    /// The key will never be accepted.
    AuthPermanent,
    /// The account has no credit.
    Billing,
    /// No first byte within the limit.
    Timeout,
    /// A stream that went idle.
    Stalled,
    /// The connection could not be made, or broke; a stream that ended without its end mark.
    Network,
    /// A fault of the provider's server.
    Server,
    /// An answer that does not keep to the format, or an empty one.
    Malformed,
    /// The request is larger than the model's window.
    ContextOverflow,
    /// The model refuses this thinking level.
    ThinkingUnsupported,
    /// The provider does not have the model, or not for requests with tools.
    ModelNotFound,
    /// The provider refuses the request as it stands.
    InvalidRequest,
    /// The request was refused before it was sent.
    Refused,
    /// A tool failed; the model receives the error.
    Tool,
    /// The run exceeded its time limit. Reserved (R49): its outcome says so today.
    Deadline,
    /// The user aborted the run. Reserved (R15): its outcome says so today.
    Aborted,
    /// The limit of a budget was reached.
    Budget,
    /// The same call came with the same result too often.
    Loop,
    /// The journal cannot be written.
    Store,
    /// A failure that no other class describes.
    Unknown,
}

impl FailureClass {
    /// Its name in records.
    pub fn name(self) -> String {
        let name = serde_json::to_value(self).ok();
        name.and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// Whether the provider may have processed a request that failed like this, so that its usage is unknown.
    pub(crate) fn is_outcome_unknown(self) -> bool {
        matches!(self, Self::Timeout | Self::Stalled | Self::Network | Self::Malformed | Self::Unknown)
    }
}

/// One failure, as it is kept in the trace of a run and shown to the user. Secrets are masked before it is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The class that the strategy decides by.
    pub class: FailureClass,
    /// HTTP status, when there was one.
    pub status: Option<u16>,
    /// The provider's own code, when there was one.
    pub code: Option<String>,
    /// One or two lines for a person: what happened, and what to do.
    pub message: String,
    /// The provider's name in the configuration.
    pub provider: Option<String>,
    /// The model's name at the provider.
    pub model: Option<String>,
    /// The auth profile's name.
    pub profile: Option<String>,
    /// How long the provider asks to wait, milliseconds.
    pub retry_after_ms: Option<u64>,
}

impl Failure {
    /// What R24 says of it.
    pub fn category(&self) -> FailureCategory {
        FailureCategory::of(self.class)
    }

    /// A failure of this class with this message and nothing else known.
    pub fn new(class: FailureClass, message: impl Into<String>) -> Self {
        Self {
            class,
            status: None,
            code: None,
            message: message.into(),
            provider: None,
            model: None,
            profile: None,
            retry_after_ms: None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
