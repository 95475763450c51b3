//! The wire adapter for OpenAI chat completions against recorded bytes, through real sockets.

mod cuts;
mod failures;

use std::sync::atomic::Ordering;

use engine::FailureClass;
use futures_util::StreamExt;
use models::{Model, ModelEvent, ModelSet};

use crate::support::{Answer, Reply, ask, chunked, read, request_to, serve, sized, until_close};

const TEXT: &str = include_str!("../wire/text.txt");
const CALLS: &str = include_str!("../wire/calls.txt");
const REASONING: &str = include_str!("../wire/reasoning.txt");
const NO_DONE: &str = include_str!("../wire/no_done.txt");
const ERROR_IN_STREAM: &str = include_str!("../wire/error_in_stream.txt");
const OVERLOADED: &str = include_str!("../wire/overloaded.txt");
const HTML: &str = include_str!("../wire/html.txt");

const ANSWER: &str = "The tide is 潮汐 and 🦀s come.\nLine \"two\".";

async fn answer_to(body: &str) -> Answer {
    let bytes = sized(body.as_bytes());
    ask(&ModelSet::new(), move || Reply::Close(bytes.clone())).await
}

#[tokio::test]
async fn r12_text_streams_and_ends_with_normalised_usage() {
    let answer = answer_to(TEXT).await;
    assert_eq!(answer.text, ANSWER);
    let usage = answer.usage();
    assert_eq!((usage.input, usage.cached, usage.output), (56, 64, 9));
}

#[tokio::test]
async fn parallel_calls_are_assembled_by_index() {
    let answer = answer_to(CALLS).await;
    let call = |id: &str, name: &str, arguments: &str| (id.to_owned(), name.to_owned(), arguments.to_owned());
    assert_eq!(
        answer.calls,
        [call("call_a1", "ls", r#"{"path":"src"}"#), call("call_b2", "grep", r#"{"pattern":"TODO","x":1.0}"#)]
    );
    assert_eq!((answer.usage().input, answer.usage().output), (200, 31));
}

#[tokio::test]
async fn reasoning_is_separate_from_text() {
    let answer = answer_to(REASONING).await;
    assert_eq!((answer.reasoning.as_str(), answer.text.as_str()), ("Count the legs.", "Ten legs."));
    let usage = answer.usage();
    assert_eq!((usage.input, usage.cached, usage.output, usage.reasoning), (2, 48, 20, 15));
}

#[tokio::test]
async fn c3_a_finish_reason_ends_the_answer_without_the_end_mark() {
    let answer = answer_to(NO_DONE).await;
    assert_eq!(answer.text, "Half a crab");
    let usage = answer.usage();
    assert!(usage.input > 0 && usage.output == 3, "estimated from the request and the answer: {usage:?}");
}

#[tokio::test]
async fn c3_neither_finish_reason_nor_end_mark_is_a_network_failure() {
    let cut = TEXT.split_inclusive("\n\n").take(4).collect::<String>();
    let answer = answer_to(&cut).await;
    assert_eq!(answer.text, "The tide is 潮汐 and 🦀");
    assert_eq!(answer.failure().class, FailureClass::Network);
    assert!(answer.failure().message.starts_with("acme ended the stream before its end mark\n"));
}

#[tokio::test]
async fn c3_a_server_that_never_closes_after_its_finish_reason_has_ended() {
    let head = until_close(NO_DONE.as_bytes());
    let answer = ask(&ModelSet::new(), move || Reply::Hang(head.clone())).await;
    assert_eq!(answer.text, "Half a crab");
    answer.usage();
}

#[tokio::test]
async fn c5_line_ends_chunks_and_content_types_make_no_difference() {
    let whole = answer_to(TEXT).await;
    for body in [TEXT.to_owned(), TEXT.replace('\n', "\r\n"), TEXT.replace('\n', "\r"), format!("\u{feff}{TEXT}")] {
        for size in [1, 2, 3, 7, 64, body.len()] {
            let bytes = chunked(body.as_bytes(), size);
            assert_eq!(ask(&ModelSet::new(), move || Reply::Keep(bytes.clone())).await, whole, "chunks of {size}");
        }
    }
    for content_type in ["application/json", "text/plain", "application/octet-stream"] {
        let bytes = crate::support::answer(
            200,
            &format!("content-type: {content_type}\r\nconnection: close\r\n"),
            TEXT.as_bytes(),
        );
        assert_eq!(ask(&ModelSet::new(), move || Reply::Close(bytes.clone())).await, whole, "{content_type}");
    }
}

#[tokio::test]
async fn frames_of_other_servers_are_decoded() {
    let frames = [
        // No index; the whole call in one frame; arguments as an object; the same id and name again.
        (
            r#"{"choices":[{"delta":{"tool_calls":[{"id":"x","function":{"name":"ls","arguments":{"a":1}}}]},"finish_reason":"stop"}]}"#,
            vec![("x", "ls", r#"{"a":1}"#)],
        ),
        // All calls have index 0 and are distinguished by their ids.
        (
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"ls","arguments":"{}"}},{"index":0,"id":"y","function":{"name":"ls","arguments":"[]"}}]},"finish_reason":"stop"}]}"#,
            vec![("x", "ls", "{}"), ("y", "ls", "[]")],
        ),
        // A large index, no id.
        (
            r#"{"choices":[{"delta":{"tool_calls":[{"index":4000000000,"function":{"name":"ls","arguments":null}}]},"finish_reason":"stop"}]}"#,
            vec![("", "ls", "")],
        ),
    ];
    for (frame, calls) in frames {
        let answer = answer_to(&format!("data: {frame}\n\n")).await;
        let found: Vec<_> = answer.calls.iter().map(|(id, name, a)| (id.as_str(), name.as_str(), a.as_str())).collect();
        assert_eq!(found, calls);
        answer.usage();
    }
}

#[tokio::test]
async fn the_request_is_as_the_api_requires_and_the_connection_is_reused() {
    let server =
        serve(|number| Reply::Keep(if number == 0 { chunked(TEXT.as_bytes(), 50) } else { sized(NO_DONE.as_bytes()) }))
            .await;
    let model = ModelSet::new();
    for text in [ANSWER, "Half a crab", "Half a crab"] {
        assert_eq!(read(model.stream(request_to(&server.base_url))).await.text, text);
    }
    assert_eq!(server.seen.connections.load(Ordering::SeqCst), 1);
    let request = server.seen.requests.lock().unwrap()[0].clone();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let head = head.to_lowercase();
    assert!(head.starts_with("post /v1/chat/completions http/1.1"), "{head}");
    assert!(head.contains("authorization: bearer canary-key-1234") && head.contains("user-agent: limulus/"), "{head}");
    assert!(body.contains(r#""max_tokens":4096"#) && body.contains(r#""include_usage":true"#), "{body}");
}

#[tokio::test]
async fn r15_dropping_the_stream_closes_the_connection() {
    let begin: String = TEXT.split_inclusive("\n\n").take(2).collect();
    let server = serve(move |_| Reply::Hang(until_close(begin.as_bytes()))).await;
    let mut stream = ModelSet::new().stream(request_to(&server.base_url));
    assert_eq!(stream.next().await, Some(Ok(ModelEvent::Opened)));
    assert!(matches!(stream.next().await, Some(Ok(ModelEvent::Part(_)))));
    drop(stream);
    server.seen.gone.notified().await;
}
