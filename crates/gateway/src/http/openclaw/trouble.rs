//! The errors of requests, as OpenClaw's clients read them.

use protocol::{ClientError, ErrorCode, ErrorShape};
use serde_json::{Value, json};

use crate::http::problem::Problem;

/// The codes that its clients know.
pub(super) const INVALID: &str = "INVALID_REQUEST";
pub(super) const UNAVAILABLE: &str = "UNAVAILABLE";
const FORBIDDEN: &str = "FORBIDDEN";

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Trouble {
    code: &'static str,
    pub(super) message: String,
    details: Value,
    retryable: bool,
    /// The payload that the response has besides the error.
    pub(super) payload: Value,
}

impl Trouble {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: Value::Null, retryable: false, payload: Value::Null }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(INVALID, message)
    }

    /// What it lacks to use a method.
    pub(super) fn missing_scope(scope: &str) -> Self {
        let details = json!({ "code": "MISSING_SCOPE", "missingScope": scope, "requiredScopes": [scope] });
        Self { details, ..Self::new(FORBIDDEN, format!("missing scope: {scope}")) }
    }

    pub(super) fn with_details(self, details: Value) -> Self {
        Self { details, ..self }
    }

    /// What the response has besides the error.
    pub(super) fn with_payload(self, payload: Value) -> Self {
        Self { payload, ..self }
    }

    pub(super) fn retryable(self) -> Self {
        Self { retryable: true, ..self }
    }

    /// The error of a response.
    pub(super) fn shape(&self) -> Value {
        let mut shape = json!({ "code": self.code, "message": self.message, "retryable": self.retryable });
        if !self.details.is_null() {
            shape["details"] = self.details.clone();
        }
        shape
    }
}

impl From<ErrorShape> for Trouble {
    fn from(error: ErrorShape) -> Self {
        let code = match error.code {
            ErrorCode::InvalidRequest | ErrorCode::NotFound | ErrorCode::Conflict => INVALID,
            ErrorCode::Forbidden => FORBIDDEN,
            ErrorCode::Refused
            | ErrorCode::TooLarge
            | ErrorCode::Unavailable
            | ErrorCode::Config
            | ErrorCode::Damaged
            | ErrorCode::Store
            | ErrorCode::Bug => UNAVAILABLE,
        };
        // Its clients show the message alone.
        let message = match &error.details {
            Some(details) if !details.hint.is_empty() => format!("{}; {}", error.message, details.hint),
            _ => error.message,
        };
        let details = json!({ "code": error.code });
        Self { details, retryable: error.retryable == Some(true), ..Self::new(code, message) }
    }
}

impl From<ClientError> for Trouble {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Answered(shape) => shape.into(),
            ClientError::Gone => Self::new(UNAVAILABLE, "the service is shutting down").retryable(),
            ClientError::Frame(_) | ClientError::Unreadable { .. } => Self::new(UNAVAILABLE, error.to_string()),
        }
    }
}

impl From<Problem> for Trouble {
    fn from(problem: Problem) -> Self {
        let message = match &problem.hint {
            Some(hint) => format!("{}; {hint}", problem.message),
            None => problem.message,
        };
        Self::new(INVALID, message).with_details(json!({ "code": problem.code }))
    }
}
