//! Tests the order of the rules and every shape of a body. Real errors of servers are in `tests/it/failures`.

use FailureClass as C;
use engine::FailureClass;

use super::*;

fn check(status: Option<u16>, body: &str, class: FailureClass) {
    assert_eq!(ErrorBody::of_bytes(body.as_bytes()).class(status), class, "{status:?} {body}");
}

#[test]
fn f7_every_status_has_its_class_without_a_body() {
    let table = [
        (301, C::InvalidRequest),
        (400, C::InvalidRequest),
        (401, C::Auth),
        (402, C::Billing),
        (403, C::AuthPermanent),
        (404, C::ModelNotFound),
        (405, C::ModelNotFound),
        (408, C::Timeout),
        (409, C::Server),
        (413, C::ContextOverflow),
        (422, C::InvalidRequest),
        (429, C::RateLimit),
        (500, C::Server),
        (502, C::Server),
        (503, C::Overloaded),
        (504, C::Server),
        (524, C::Server),
        (529, C::Overloaded),
    ];
    for (status, class) in table {
        check(Some(status), "", class);
    }
}

/// Statuses whose words say something else.
const WORDS: &[(u16, &str, C)] = &[
    (
        429,
        r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
        C::Billing,
    ),
    (
        429,
        r#"[{"error":{"code":429,"message":"check your plan and billing details","status":"RESOURCE_EXHAUSTED"}}]"#,
        C::RateLimit,
    ),
    (
        429,
        r#"{"error":{"message":"Request too large for x on tokens per min (TPM): Limit 10000","code":"rate_limit_exceeded"}}"#,
        C::RateLimit,
    ),
    (
        400,
        r#"{"error":{"message":"This model's maximum context length is 128000 tokens.","code":"context_length_exceeded"}}"#,
        C::ContextOverflow,
    ),
    (
        400,
        r#"{"object":"error","message":"This model's maximum context length is 4096 tokens","code":400}"#,
        C::ContextOverflow,
    ),
    (
        400,
        r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#,
        C::ContextOverflow,
    ),
    (
        429,
        r#"{"error":{"message":"Request too large for x on tokens per min (TPM): Limit: 10,000, Requested: 10,001"}}"#,
        C::ContextOverflow,
    ),
    (
        429,
        r#"{"error":{"message":"Rate limit reached on tokens per min (TPM): Limit 10000, Used 9000, Requested 10000"}}"#,
        C::RateLimit,
    ),
    (400, r#"{"error":{"message":"max_tokens: limit 4096, requested 8192"}}"#, C::InvalidRequest),
    (400, r#"{"error":"the prompt does not fit into n_ctx (4096)"}"#, C::ContextOverflow),
    (502, r#"{"error":{"message":"zai: insufficient balance"}}"#, C::Server),
    (422, r#"{"detail":"prompt is too long: 210000 tokens"}"#, C::ContextOverflow),
    (400, r#"{"error":"输入超出最大长度"}"#, C::ContextOverflow),
    (
        404,
        r#"{"error":{"message":"The model `x` does not exist or you do not have access to it.","code":"model_not_found"}}"#,
        C::ModelNotFound,
    ),
    (404, r#"{"error":{"message":"model 'x' not found"}}"#, C::ModelNotFound),
    (400, r#"{"error":{"message":"x is not a valid model ID","code":400}}"#, C::ModelNotFound),
    (404, "404 page not found", C::ModelNotFound),
    (401, r#"{"error":{"message":"This account has been deactivated"}}"#, C::AuthPermanent),
    (400, r#"{"error":{"message":"API key not valid. Please pass a valid API key."}}"#, C::Auth),
    (403, r#"{"error":{"message":"The token has expired"}}"#, C::Auth),
    (403, r#"{"error":{"message":"Insufficient balance"}}"#, C::Billing),
    (
        400,
        r#"{"error":{"message":"Unsupported value: 'reasoning_effort' does not support 'none'"}}"#,
        C::ThinkingUnsupported,
    ),
    (
        400,
        r#"{"error":{"code":400,"message":"Budget 0 is invalid. This model only works in thinking mode.","status":"INVALID_ARGUMENT"}}"#,
        C::ThinkingUnsupported,
    ),
    (500, r#"{"error":{"message":"The server is overloaded"}}"#, C::Overloaded),
    (500, r#"{"error":{"message":"billing service is down"}}"#, C::Server),
    (403, "<html><title>Just a moment…</title>", C::Malformed),
    (502, "<html>bad gateway</html>", C::Server),
];

#[test]
fn f7_words_outweigh_the_status() {
    for (status, body, class) in WORDS {
        check(Some(*status), body, *class);
    }
}

#[test]
fn f7_the_words_of_anthropic_are_classified() {
    let table = [
        (404, r#"{"type":"error","error":{"type":"not_found_error","message":"model: m1"}}"#, C::ModelNotFound),
        (
            400,
            r#"{"error":{"message":"input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"}}"#,
            C::ContextOverflow,
        ),
        (400, r#"{"error":{"message":"This model does not support the effort parameter."}}"#, C::ThinkingUnsupported),
        (
            400,
            r#"{"error":{"message":"\"thinking.type.enabled\" is not supported for this model."}}"#,
            C::ThinkingUnsupported,
        ),
        (400, r#"{"error":{"message":"Your credit balance is too low to access the Anthropic API."}}"#, C::Billing),
    ];
    for (status, body, class) in table {
        check(Some(status), body, class);
    }
}

#[test]
fn c5_an_error_inside_a_stream_is_classified_by_its_body() {
    let table = [
        (r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, C::Overloaded),
        (r#"{"error":{"code":429,"message":"Provider returned error"}}"#, C::RateLimit),
        (r#"{"error":{"code":"502","message":"Provider disconnected"}}"#, C::Server),
        (
            r#"{"error":{"message":"Provider returned error","metadata":{"raw":"prompt is too long"}}}"#,
            C::ContextOverflow,
        ),
        (r#"{"error":{"type":"rate_limit_exceeded","message":"slow down"}}"#, C::RateLimit),
        (r#"{"error":{"type":"invalid_request_error","message":"tool schema"}}"#, C::InvalidRequest),
        (r#"{"error":{"type":"server_error","message":"The server had an error"}}"#, C::Server),
        (r#"{"error":"upstream timed out"}"#, C::Timeout),
        (r#"{"error":"[invalid_request_error] no such field"}"#, C::InvalidRequest),
        (r#"{"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}"#, C::Billing),
        (r#"{"error":{"message":"m"},"status_code":429}"#, C::RateLimit),
        (r#"{"error":{}}"#, C::Server),
        ("", C::Server),
    ];
    for (body, class) in table {
        check(None, body, class);
    }
}

#[test]
fn c5_a_part_of_an_answer_and_a_report_of_progress_are_no_errors() {
    let is_error = |frame: &str| ErrorBody::of_frame(frame.as_bytes()).is_some();
    for frame in [
        r#"{"error":null,"choices":[]}"#,
        r#"{"id":"1","base_resp":{"status_code":0,"status_msg":""}}"#,
        r#"{"status":"loading","message":"the model is loading"}"#,
        r#"{"message":{"role":"assistant","content":"error"}}"#,
        r#"{"type":"ping"}"#,
        "[]",
        "7",
        r#""error""#,
        "error",
    ] {
        assert!(!is_error(frame), "{frame}");
    }
    for frame in [
        r#"{"code":"Arrearage","message":"m"}"#,
        r#"[{"error":{"message":"m"}}]"#,
        r#"{"detail":"m"}"#,
        r#"{"id":"1","base_resp":{"status_code":1008,"status_msg":"m"}}"#,
    ] {
        assert!(is_error(frame), "{frame}");
    }
}

#[test]
fn message_code_and_status_are_found_in_every_shape() {
    let body = ErrorBody::of_bytes(br#"{"error":{"message":"m","type":"t","code":null}}"#);
    assert_eq!((body.message.as_str(), body.code.as_deref(), body.status), ("m", Some("t"), None));
    let body = ErrorBody::of_bytes(br#"{"object":"error","message":"m","code":404}"#);
    assert_eq!((body.message.as_str(), body.code.as_deref(), body.status), ("m", Some("404"), Some(404)));
    assert_eq!(ErrorBody::of_bytes(br#"{"error":"text"}"#).message, "text");
    assert_eq!(ErrorBody::of_bytes(b"plain\n").message, "plain");
}
