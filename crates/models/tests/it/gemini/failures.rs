//! Failures before and in an answer, as the runtime receives them.

use engine::{Failure, FailureClass};

use super::{CALLS, answer_to, replied};
use crate::support::answer;

async fn refused(status: u16, headers: &str, body: &str) -> Failure {
    let headers = format!("{headers}content-length: {}\r\n", body.len());
    let answer = replied(answer(status, &headers, body.as_bytes())).await;
    assert!(!answer.opened);
    answer.failure().clone()
}

#[tokio::test]
async fn r51_a_refusal_is_classified_by_status_and_words() {
    let error = |code: u16, status: &str, message: &str| {
        format!(r#"{{"error":{{"code":{code},"message":"{message}","status":"{status}"}}}}"#)
    };
    let table = [
        (400, error(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."), FailureClass::Auth),
        (401, error(401, "UNAUTHENTICATED", "Request had invalid authentication credentials."), FailureClass::Auth),
        (403, error(403, "PERMISSION_DENIED", "Permission denied."), FailureClass::AuthPermanent),
        (
            404,
            error(404, "NOT_FOUND", "models/gemini-9 is not found for API version v1beta"),
            FailureClass::ModelNotFound,
        ),
        (
            400,
            error(400, "INVALID_ARGUMENT", "The input token count (2000000) exceeds the maximum"),
            FailureClass::ContextOverflow,
        ),
        (
            400,
            error(400, "INVALID_ARGUMENT", "Function call is missing a thought_signature in functionCall parts."),
            FailureClass::InvalidRequest,
        ),
        (
            429,
            error(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota, see billing"),
            FailureClass::RateLimit,
        ),
        (500, error(500, "INTERNAL", "An internal error has occurred."), FailureClass::Server),
        (503, error(503, "UNAVAILABLE", "The model is overloaded."), FailureClass::Overloaded),
    ];
    for (status, body, class) in table {
        let failure = refused(status, "", &body).await;
        assert_eq!((failure.class, failure.status), (class, Some(status)), "{body}");
        assert!(!format!("{failure:?}").contains("canary"), "{failure:?}");
    }
}

#[tokio::test]
async fn f2_the_wait_is_in_the_header_or_in_the_body() {
    let body = r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}]}}"#;
    assert_eq!(refused(429, "", body).await.retry_after_ms, Some(34_500));
    assert_eq!(refused(429, "retry-after: 7\r\n", body).await.retry_after_ms, Some(7_000));
}

#[tokio::test]
async fn c5_an_error_inside_a_stream_is_classified_by_its_body() {
    let begin: String = CALLS.split_inclusive("\n\n").take(3).collect();
    let error = r#"data: {"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}"#;
    let answer = answer_to(&format!("{begin}{error}\n\n")).await;
    assert_eq!((answer.text.as_str(), answer.failure().class), ("I look ", FailureClass::Overloaded));
}

#[tokio::test]
async fn c7_every_finish_reason_has_its_outcome() {
    let text = r#""content":{"parts":[{"text":"So far"}]},"#;
    let table = [
        ("STOP", text, None),
        ("MAX_TOKENS", text, None),
        ("SAFETY", text, None),
        ("OTHER", text, None),
        ("STOP", "", Some((FailureClass::Malformed, "empty answer"))),
        ("MAX_TOKENS", "", Some((FailureClass::InvalidRequest, "whole output limit"))),
        ("SAFETY", "", Some((FailureClass::InvalidRequest, "content filter"))),
        ("RECITATION", "", Some((FailureClass::InvalidRequest, "content filter"))),
        ("IMAGE_SAFETY", "", Some((FailureClass::InvalidRequest, "content filter"))),
        ("MALFORMED_FUNCTION_CALL", text, Some((FailureClass::Server, "(MALFORMED_FUNCTION_CALL): print(ls)"))),
        ("UNEXPECTED_TOOL_CALL", "", Some((FailureClass::Server, "(UNEXPECTED_TOOL_CALL)"))),
        ("MISSING_THOUGHT_SIGNATURE", "", Some((FailureClass::InvalidRequest, "a signature"))),
    ];
    for (reason, content, expected) in table {
        let frame = format!(r#"{{"candidates":[{{{content}"finishReason":"{reason}","finishMessage":"print(ls)"}}]}}"#);
        let answer = answer_to(&format!("data: {frame}\n\n")).await;
        match expected {
            None => assert_eq!((answer.text.as_str(), answer.usage().output > 0), ("So far", true), "{reason}"),
            Some((class, words)) => {
                let failure = answer.failure();
                assert_eq!(failure.class, class, "{reason}");
                assert!(failure.message.contains(words), "{}", failure.message);
            }
        }
    }
}

#[tokio::test]
async fn c7_a_refused_request_names_the_filter() {
    let answer = answer_to("data: {\"promptFeedback\":{\"blockReason\":\"PROHIBITED_CONTENT\"}}\n\n").await;
    assert_eq!(answer.failure().class, FailureClass::InvalidRequest);
    assert!(answer.failure().message.contains("content filter: PROHIBITED_CONTENT"), "{}", answer.failure().message);
}

#[tokio::test]
async fn c5_another_format_is_malformed() {
    let part = |part: &str| format!(r#"{{"candidates":[{{"content":{{"parts":[{part}]}}}}]}}"#);
    for frame in [
        "{\"candidates\":[}".to_owned(),
        "7".to_owned(),
        part(r#"{"functionCall":{"args":{}}}"#),
        part(r#"{"inlineData":{"mimeType":"image/png","data":"%"}}"#),
    ] {
        let answer = answer_to(&format!("data: {frame}\n\n")).await;
        assert_eq!(answer.failure().class, FailureClass::Malformed, "{frame}");
    }
}
