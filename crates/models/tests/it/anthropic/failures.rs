//! Failures before and in an answer, as the runtime receives them.

use engine::{Failure, FailureClass};

use super::{OVERLOADED, REFUSAL, TEXT, answer_to, ask};
use crate::support::{Reply, answer};

async fn refused(status: u16, headers: &str, body: &str) -> Failure {
    let headers = format!("{headers}content-length: {}\r\n", body.len());
    let bytes = answer(status, &headers, body.as_bytes());
    let answer = ask(move || Reply::Close(bytes.clone())).await;
    assert!(!answer.opened);
    answer.failure().clone()
}

/// Kinds and statuses of the provider's page "Errors".
#[tokio::test]
async fn r51_every_kind_of_refusal_is_classified() {
    let table = [
        (400, "invalid_request_error", "max_tokens: field required", FailureClass::InvalidRequest),
        (
            400,
            "invalid_request_error",
            "prompt is too long: 210000 tokens > 200000 maximum",
            FailureClass::ContextOverflow,
        ),
        (401, "authentication_error", "invalid x-api-key canary-key-1234", FailureClass::Auth),
        (402, "billing_error", "There is an issue with your payment", FailureClass::Billing),
        (403, "permission_error", "Your key may not use this", FailureClass::AuthPermanent),
        (404, "not_found_error", "model: m1", FailureClass::ModelNotFound),
        (413, "request_too_large", "Request exceeds the maximum size", FailureClass::ContextOverflow),
        (429, "rate_limit_error", "This request would exceed your limit", FailureClass::RateLimit),
        (500, "api_error", "Internal server error", FailureClass::Server),
        (529, "overloaded_error", "Overloaded", FailureClass::Overloaded),
    ];
    for (status, kind, message, class) in table {
        let body = format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"}},"request_id":"r"}}"#);
        let failure = refused(status, "retry-after: 7\r\n", &body).await;
        assert_eq!((failure.class, failure.status), (class, Some(status)), "{body}");
        assert_eq!((failure.code.as_deref(), failure.retry_after_ms), (Some(kind), Some(7_000)));
        assert!(!format!("{failure:?}").contains("canary"), "{failure:?}");
    }
}

#[tokio::test]
async fn c5_an_error_in_the_stream_is_classified_by_its_kind() {
    let overloaded = answer_to(OVERLOADED).await;
    assert_eq!((overloaded.text.as_str(), overloaded.failure().class), ("So far", FailureClass::Overloaded));
    let table = [
        ("api_error", FailureClass::Server),
        ("rate_limit_error", FailureClass::RateLimit),
        ("invalid_request_error", FailureClass::InvalidRequest),
        ("authentication_error", FailureClass::Auth),
        ("permission_error", FailureClass::AuthPermanent),
        ("timeout_error", FailureClass::Timeout),
    ];
    for (kind, class) in table {
        assert_eq!(
            answer_to(&OVERLOADED.replace("overloaded_error", kind).replace("Overloaded", "words"))
                .await
                .failure()
                .class,
            class,
            "{kind}"
        );
    }
}

#[tokio::test]
async fn a_refused_answer_is_a_failure_also_after_text() {
    let answer = answer_to(REFUSAL).await;
    assert_eq!((answer.text.as_str(), answer.failure().class), ("First you", FailureClass::InvalidRequest));
    assert!(answer.failure().message.starts_with("acme refused to answer: It could enable harm.\n"));
}

#[tokio::test]
async fn c3_pings_do_not_count_as_an_answer() {
    let answer = answer_to(&"event: ping\ndata: {\"type\":\"ping\"}\n\n".repeat(3)).await;
    assert_eq!((answer.opened, answer.failure().class), (false, FailureClass::Network));
    assert!(answer.failure().message.starts_with("acme ended the stream before its end mark\n"));
}

#[tokio::test]
async fn c7_every_stop_reason_has_its_outcome() {
    let ended = |reason: &str| TEXT.replace("end_turn", reason);
    for reason in ["end_turn", "stop_sequence", "tool_use", "pause_turn", "max_tokens", "model_context_window_exceeded"]
    {
        answer_to(&ended(reason)).await.usage();
    }
    let table = [
        ("end_turn", FailureClass::Malformed),
        ("max_tokens", FailureClass::InvalidRequest),
        ("model_context_window_exceeded", FailureClass::ContextOverflow),
        ("refusal", FailureClass::InvalidRequest),
    ];
    for (reason, class) in table {
        // Only the thinking of the answer is left.
        let body = ended(reason)
            .replace("text_delta", "unknown_delta")
            .replace(r#""delta":{"type":"unknown_delta","text""#, r#""delta":{"type":"unknown_delta","was""#);
        assert_eq!(answer_to(&body).await.failure().class, class, "{reason}");
    }
}

#[tokio::test]
async fn c5_a_frame_that_is_not_json_and_a_call_without_a_name_are_malformed() {
    let start = TEXT.split_inclusive("\n\n").next().unwrap();
    let call = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","input":{}}}"#;
    for frame in ["{\"type\":}", "7", call] {
        let answer = answer_to(&format!("{start}data: {frame}\n\n")).await;
        assert_eq!(answer.failure().class, FailureClass::Malformed, "{frame}");
    }
}
