//! What a client receives in place of a result, in the shape that SDKs of the API of OpenAI read.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use protocol::{ClientError, ErrorCode, ErrorShape};
use serde_json::{Value, json};

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) status: StatusCode,
    /// A word for programs.
    pub(super) code: &'static str,
    /// What is wrong, for people.
    pub(super) message: String,
    /// What to do.
    pub(super) hint: Option<String>,
    /// After how many seconds to try again.
    pub(super) retry_after_s: Option<u64>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), hint: None, retry_after_s: None }
    }

    /// A request that makes no sense.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    pub(super) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// What the client receives.
    pub(super) fn body(&self) -> Value {
        let kind = if self.status.is_server_error() { "api_error" } else { "invalid_request_error" };
        let mut error = json!({ "message": self.message, "type": kind, "code": self.code, "param": null });
        if let Some(hint) = &self.hint {
            error["hint"] = hint.as_str().into();
        }
        json!({ "error": error })
    }
}

impl From<ErrorShape> for Problem {
    fn from(error: ErrorShape) -> Self {
        let (status, code) = match error.code {
            ErrorCode::InvalidRequest => (StatusCode::BAD_REQUEST, "invalid_request"),
            ErrorCode::NotFound => (StatusCode::NOT_FOUND, "not_found"),
            ErrorCode::Conflict => (StatusCode::CONFLICT, "conflict"),
            ErrorCode::Refused => (StatusCode::CONFLICT, "refused"),
            ErrorCode::Forbidden => (StatusCode::FORBIDDEN, "forbidden"),
            ErrorCode::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
            ErrorCode::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            ErrorCode::Config => (StatusCode::INTERNAL_SERVER_ERROR, "config"),
            ErrorCode::Damaged => (StatusCode::INTERNAL_SERVER_ERROR, "damaged"),
            ErrorCode::Store => (StatusCode::INTERNAL_SERVER_ERROR, "store"),
            ErrorCode::Bug => (StatusCode::INTERNAL_SERVER_ERROR, "bug"),
        };
        Self {
            status,
            code,
            message: error.message,
            hint: error.details.map(|details| details.hint),
            retry_after_s: error.retry_after_ms.map(|ms| ms.div_ceil(1_000)),
        }
    }
}

impl From<ClientError> for Problem {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Answered(shape) => shape.into(),
            ClientError::Gone => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "the service is shutting down")
            }
            ClientError::Frame(_) | ClientError::Unreadable { .. } => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "bug", error.to_string())
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        // SDKs send a failed request again by themselves, as a message of its own: the run would be paid for twice.
        headers.insert("x-should-retry", HeaderValue::from_static("false"));
        response
    }
}
