//! Failures before and in an answer, as the runtime receives them.

use engine::FailureClass;
use serde_json::json;

use super::{FAILED, OVERLOADED, answer_to, answer_to_events, ask, completed};
use crate::support::{Answer, Reply, answer};

async fn refused(status: u16, headers: &str, body: &str) -> Answer {
    let headers = format!("{headers}content-length: {}\r\n", body.len());
    let bytes = answer(status, &headers, body.as_bytes());
    ask(move || Reply::Close(bytes.clone())).await
}

#[tokio::test]
async fn r51_refusals_are_classified_without_the_key() {
    let table = [
        (
            401,
            r#"{"error":{"message":"Incorrect API key provided: canary-key-1234.","type":"invalid_request_error","code":"invalid_api_key"}}"#,
            FailureClass::Auth,
        ),
        (
            400,
            r#"{"error":{"message":"Your input exceeds the context window of this model.","code":"context_length_exceeded","param":"input"}}"#,
            FailureClass::ContextOverflow,
        ),
        (
            400,
            r#"{"error":{"message":"Unsupported value: 'xhigh' is not supported with this model.","param":"reasoning.effort","code":"unsupported_value"}}"#,
            FailureClass::ThinkingUnsupported,
        ),
        (
            400,
            r#"{"error":{"message":"Unsupported parameter: 'reasoning.effort' is not supported with this model.","param":"reasoning.effort"}}"#,
            FailureClass::ThinkingUnsupported,
        ),
        (
            404,
            r#"{"error":{"message":"The model `m1` does not exist or you do not have access to it.","code":"model_not_found"}}"#,
            FailureClass::ModelNotFound,
        ),
        (
            429,
            r#"{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}"#,
            FailureClass::Billing,
        ),
        (
            500,
            r#"{"error":{"message":"An error occurred while processing your request.","type":"server_error"}}"#,
            FailureClass::Server,
        ),
        (503, "", FailureClass::Overloaded),
    ];
    for (status, body, class) in table {
        let answer = refused(status, "", body).await;
        let failure = answer.failure();
        assert_eq!((failure.class, failure.status, answer.opened), (class, Some(status), false), "{body}");
        assert!(!format!("{failure:?}").contains("canary"), "{failure:?}");
    }
}

#[tokio::test]
async fn r51_a_rate_limit_has_its_wait() {
    let body = r#"{"error":{"message":"Rate limit reached for m1","type":"tokens","code":"rate_limit_exceeded"}}"#;
    let answer = refused(429, "retry-after: 7\r\n", body).await;
    let failure = answer.failure();
    assert_eq!((failure.class, failure.retry_after_ms), (FailureClass::RateLimit, Some(7_000)));
}

#[tokio::test]
async fn c5_errors_inside_a_stream_are_classified_by_their_bodies() {
    let answer = answer_to(FAILED).await;
    assert_eq!((answer.text.as_str(), answer.failure().class), ("So far", FailureClass::Server));
    assert!(answer.failure().message.contains("Sorry about that!"), "{}", answer.failure().message);
    let answer = answer_to(OVERLOADED).await;
    assert_eq!((answer.opened, answer.failure().class), (false, FailureClass::Overloaded));
    let failed =
        |code: &str| json!({ "type": "response.failed", "response": { "error": { "code": code, "message": "m" } } });
    let table = [
        (failed("rate_limit_exceeded"), FailureClass::RateLimit),
        (failed("context_length_exceeded"), FailureClass::ContextOverflow),
        (failed("insufficient_quota"), FailureClass::Billing),
        (json!({ "type": "response.failed", "response": {} }), FailureClass::Server),
        (
            json!({ "type": "error", "error": { "type": "invalid_request_error", "message": "m" } }),
            FailureClass::InvalidRequest,
        ),
        // An error of a relay, without a type.
        (json!({ "error": { "code": 429, "message": "m" } }), FailureClass::RateLimit),
        (json!({ "choices": [{ "delta": { "content": "hi" } }] }), FailureClass::Malformed),
        (json!({ "type": "response.output_text.delta", "delta": 7 }), FailureClass::Malformed),
    ];
    for (event, class) in table {
        let answer = answer_to_events(std::slice::from_ref(&event)).await;
        assert_eq!(answer.failure().class, class, "{event}");
    }
}

#[tokio::test]
async fn r69_a_refusal_of_the_model_is_text() {
    let answer = answer_to_events(&[
        json!({ "type": "response.refusal.delta", "output_index": 0, "delta": "I cannot " }),
        json!({ "type": "response.refusal.delta", "output_index": 0, "delta": "do that." }),
        completed(),
    ])
    .await;
    assert_eq!(answer.text, "I cannot do that.");
    answer.usage();
}

#[tokio::test]
async fn c7_an_empty_answer_is_a_failure() {
    let incomplete = |reason: &str| json!({ "type": "response.incomplete", "response": { "incomplete_details": { "reason": reason } } });
    let nameless = json!({ "type": "response.output_item.added", "output_index": 0, "item": { "type": "function_call", "call_id": "c" } });
    let table = [
        (vec![completed()], FailureClass::Malformed),
        (vec![incomplete("max_output_tokens")], FailureClass::InvalidRequest),
        (vec![incomplete("content_filter")], FailureClass::InvalidRequest),
        (vec![nameless.clone(), completed()], FailureClass::Malformed),
        (
            vec![json!({ "type": "response.output_text.delta", "delta": "a" }), nameless, completed()],
            FailureClass::Malformed,
        ),
        (
            vec![json!({ "type": "response.output_item.done", "item": { "type": "function_call" } }), completed()],
            FailureClass::Malformed,
        ),
        (
            vec![
                json!({ "type": "response.output_item.done", "item": { "type": "image_generation_call", "result": "?" } }),
            ],
            FailureClass::Malformed,
        ),
    ];
    for (events, class) in table {
        assert_eq!(answer_to_events(&events).await.failure().class, class, "{events:?}");
    }
    let filtered = answer_to_events(&[incomplete("content_filter")]).await;
    assert!(filtered.failure().message.contains("content filter"), "{}", filtered.failure().message);
}
