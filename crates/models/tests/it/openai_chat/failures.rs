//! Failures before and in an answer, as the runtime receives them.

use engine::FailureClass;
use models::{Model, ModelSet};

use super::{ERROR_IN_STREAM, HTML, OVERLOADED, TEXT, answer_to};
use crate::support::{Answer, CLOSED, Reply, answer, ask, read, request_to, sized, until_close};

async fn replied(bytes: Vec<u8>) -> Answer {
    ask(&ModelSet::new(), move || Reply::Close(bytes.clone())).await
}

async fn refused(status: u16, headers: &str, body: &str) -> engine::Failure {
    let headers = format!("{headers}content-length: {}\r\n", body.len());
    let answer = replied(answer(status, &headers, body.as_bytes())).await;
    assert!(!answer.opened);
    answer.failure().clone()
}

#[tokio::test]
async fn r51_a_refusal_has_status_code_wait_and_message() {
    let body = r#"{"error":{"message":"Rate limit reached for m1","type":"requests","code":"rate_limit_exceeded"}}"#;
    let failure = refused(429, "retry-after: 7\r\n", body).await;
    assert_eq!(
        (failure.class, failure.status, failure.retry_after_ms),
        (FailureClass::RateLimit, Some(429), Some(7_000))
    );
    assert_eq!(failure.code.as_deref(), Some("rate_limit_exceeded"));
    assert!(failure.message.starts_with("acme answered HTTP 429: Rate limit reached for m1\n"), "{}", failure.message);
    assert_eq!((failure.provider.as_deref(), failure.model.as_deref()), (Some("acme"), Some("m1")));
    assert_eq!(failure.profile.as_deref(), Some("first"));
}

#[tokio::test]
async fn r51_every_kind_of_refusal_is_classified() {
    let table = [
        (401, r#"{"error":{"message":"Incorrect API key provided: canary-key-1234."}}"#, FailureClass::Auth),
        (402, "", FailureClass::Billing),
        (403, "", FailureClass::AuthPermanent),
        (
            404,
            r#"{"error":{"message":"The model `m1` does not exist","code":"model_not_found"}}"#,
            FailureClass::ModelNotFound,
        ),
        (408, "", FailureClass::Timeout),
        (400, r#"{"error":{"message":"maximum context length is 8192 tokens"}}"#, FailureClass::ContextOverflow),
        (400, r#"{"error":{"message":"bad field"}}"#, FailureClass::InvalidRequest),
        (500, HTML, FailureClass::Server),
        (529, "", FailureClass::Overloaded),
    ];
    for (status, body, class) in table {
        let failure = refused(status, "", body).await;
        assert_eq!((failure.class, failure.status), (class, Some(status)), "{body}");
        assert!(!format!("{failure:?}").contains("canary"), "{failure:?}");
    }
}

#[tokio::test]
async fn h7_p13_a_redirect_is_not_followed_and_its_error_does_not_contain_the_request() {
    let failure = refused(307, "location: http://elsewhere/v1\r\n", "").await;
    // A captive portal redirects every request; the same request may succeed later, or at another address.
    assert_eq!((failure.class, failure.status), (FailureClass::Malformed, Some(307)));
    assert!(failure.message.contains("http://elsewhere/v1"), "{}", failure.message);
}

#[tokio::test]
async fn c5_an_endless_error_body_is_read_up_to_the_limit() {
    let body = "x".repeat(10 << 20);
    let answer = replied(answer(500, "connection: close\r\n", body.as_bytes())).await;
    assert_eq!(answer.failure().class, FailureClass::Server);
    assert!(answer.failure().message.len() < 1_000);
}

#[tokio::test]
async fn c5_an_endless_line_is_malformed() {
    let line = format!("data: {}", "x".repeat(15 << 20));
    let answer = replied(until_close(line.as_bytes())).await;
    assert_eq!(answer.failure().class, FailureClass::Malformed);
}

#[tokio::test]
async fn an_unreachable_server_is_a_network_failure_that_names_it() {
    let answer = read(ModelSet::new().stream(request_to(&format!("http://{CLOSED}/v1")))).await;
    let failure = answer.failure();
    assert_eq!(failure.class, FailureClass::Network);
    let expected = format!("acme could not be reached at http://{CLOSED}/v1/chat/completions: Connection refused");
    assert!(failure.message.starts_with(&expected), "{}", failure.message);
    assert!(failure.message.contains("`base_url` in [providers.acme]"), "{}", failure.message);
}

#[tokio::test]
async fn h5_an_unreachable_proxy_is_named_without_its_password() {
    let mut request = request_to("http://127.0.0.1:9/v1");
    request.endpoint.proxy = Some(format!("http://me:pass@{CLOSED}"));
    let answer = read(ModelSet::new().stream(request)).await;
    let expected =
        format!("at http://127.0.0.1:9/v1/chat/completions through the proxy http://{CLOSED}/: Connection refused");
    assert!(answer.failure().message.contains(&expected), "{}", answer.failure().message);
}

#[tokio::test]
async fn an_invalid_address_is_reported_as_such() {
    for base_url in ["", "localhost:1/v1", "ftp://localhost/v1"] {
        let answer = read(ModelSet::new().stream(request_to(base_url))).await;
        assert_eq!(answer.failure().class, FailureClass::InvalidRequest, "{base_url}");
        assert!(answer.failure().message.contains("base_url"), "{}", answer.failure().message);
    }
}

#[tokio::test]
async fn c5_an_error_inside_a_200_stream_is_classified_by_its_body() {
    let answer = answer_to(ERROR_IN_STREAM).await;
    assert_eq!((answer.text.as_str(), answer.failure().class), ("So far", FailureClass::Server));
    assert!(answer.failure().message.contains("Sorry about that!"));
    let answer = answer_to(OVERLOADED).await;
    assert_eq!((answer.opened, answer.failure().class), (false, FailureClass::Overloaded));
}

#[tokio::test]
async fn c5_a_success_that_is_not_a_stream_is_malformed_or_its_own_error() {
    let json = "content-type: application/json\r\nconnection: close\r\n";
    let table = [
        (HTML, FailureClass::Malformed, "a web page"),
        (r#"{"choices":[{"message":{"content":"hi"}}]}"#, FailureClass::Malformed, "in one piece"),
        (r#"{"error":{"message":"quota","code":"insufficient_quota"}}"#, FailureClass::Billing, "quota"),
        ("pong", FailureClass::Malformed, "pong"),
        ("", FailureClass::Network, "before its end mark"),
    ];
    for (body, class, words) in table {
        let answer = replied(answer(200, json, body.as_bytes())).await;
        assert_eq!(answer.failure().class, class, "{body}");
        assert!(answer.failure().message.contains(words), "{}", answer.failure().message);
    }
}

#[tokio::test]
async fn c5_a_frame_that_is_not_json_or_not_utf8_is_malformed() {
    for frame in [
        b"data: {\"choices\":[}\n\n".as_slice(),
        b"data: {\"choices\":[{\"delta\":{\"content\":\"\xff\"}}]}\n\n",
        b"data: 7\n\n",
    ] {
        let answer = replied(sized(&[TEXT.split_inclusive("\n\n").next().unwrap().as_bytes(), frame].concat())).await;
        assert_eq!(answer.failure().class, FailureClass::Malformed, "{:?}", answer.failure());
    }
}

#[tokio::test]
async fn c7_an_empty_answer_is_a_failure() {
    let table = [
        (r#"{"choices":[{"delta":{"content":""},"finish_reason":"stop"}]}"#, FailureClass::Malformed),
        (r#"{"choices":[{"delta":{"reasoning":"hm"},"finish_reason":"length"}]}"#, FailureClass::InvalidRequest),
        (r#"{"choices":[{"delta":{},"finish_reason":"content_filter"}]}"#, FailureClass::InvalidRequest),
        (r#"{"choices":[{"delta":{},"finish_reason":"sensitive"}]}"#, FailureClass::InvalidRequest),
        (
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a"}]},"finish_reason":"tool_calls"}]}"#,
            FailureClass::Malformed,
        ),
    ];
    for (frame, class) in table {
        let answer = answer_to(&format!("data: {frame}\n\ndata: [DONE]\n\n")).await;
        assert_eq!(answer.failure().class, class, "{frame}");
    }
}
