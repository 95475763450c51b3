//! The wire adapter for OpenAI responses against canned bytes, through real sockets. They are written after the pages
//! "Streaming events" and "Reasoning models" of OpenAI's API reference and guides (platform.openai.com/docs).

mod failures;
mod requests;

use engine::FailureClass;
use models::{Api, BlockContent, CallOf, ContentBlock, File, ModelSet, Request};
use serde_json::{Value, json};

use crate::support::cuts::{Canned, check_cuts, check_pieces, cuts};
use crate::support::{Answer, Reply, read, request_of, serve, sized, until_close};

/// Reasoning in two parts, a comment, a call, reasoning without a summary, a call.
const CALLS: &str = include_str!("../wire/responses_calls.txt");
/// An image with a preview of it, and an answer.
const IMAGE: &str = include_str!("../wire/responses_image.txt");
/// An answer that reached its output limit.
const LENGTH: &str = include_str!("../wire/responses_length.txt");
const FAILED: &str = include_str!("../wire/responses_failed.txt");
const OVERLOADED: &str = include_str!("../wire/responses_overloaded.txt");

fn request_to(base_url: &str) -> Request {
    request_of(Api::OpenAiResponses, base_url)
}

async fn ask(reply: impl Fn() -> Reply + Send + Sync + 'static) -> Answer {
    use models::Model;

    let server = serve(move |_| reply()).await;
    read(ModelSet::new().stream(request_to(&server.base_url))).await
}

async fn answer_to(body: &str) -> Answer {
    let bytes = sized(body.as_bytes());
    ask(move || Reply::Close(bytes.clone())).await
}

/// The answer to these events, which have their type only in their data.
async fn answer_to_events(events: &[Value]) -> Answer {
    answer_to(&events.iter().fold(String::new(), |body, event| body + &format!("data: {event}\n\n"))).await
}

fn completed() -> Value {
    json!({ "type": "response.completed", "response": {} })
}

fn block(held: BlockContent, signature: Option<&str>) -> ContentBlock {
    ContentBlock { held, signature: signature.map(Into::into) }
}

fn call(id: &str, tool: &str, arguments: &str) -> BlockContent {
    BlockContent::Call(CallOf { provider_id: id.into(), tool: tool.into(), arguments: arguments.into() })
}

#[tokio::test]
async fn r66_r69_blocks_arrive_in_order_with_their_signatures() {
    let answer = answer_to(CALLS).await;
    let first = r#"{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"**Looking** 潮"},{"type":"summary_text","text":"Then grep."}],"encrypted_content":"gAAAA-first=="}"#;
    let second = r#"{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"gAAAA-second=="}"#;
    let expected = [
        block(BlockContent::Reasoning("**Looking** 潮\n\nThen grep.".into()), Some(first)),
        block(BlockContent::Text("I look at the 🦀s.\n".into()), Some(r#"{"id":"msg_1","phase":"commentary"}"#)),
        block(call("call_a1", "ls", r#"{"path":"src"}"#), Some(r#"{"id":"fc_1"}"#)),
        block(BlockContent::Reasoning("".into()), Some(second)),
        block(call("call_b2", "grep", r#"{"pattern":"TODO","x":1.0}"#), Some(r#"{"id":"fc_2"}"#)),
    ];
    assert_eq!(answer.blocks, expected);
    let usage = answer.usage();
    assert_eq!((usage.input, usage.cached, usage.output, usage.reasoning), (176, 1024, 310, 256));
}

#[tokio::test]
async fn r69_an_image_is_complete_and_its_previews_are_skipped() {
    let answer = answer_to(IMAGE).await;
    let BlockContent::Image(File { media_type, name, bytes }) = &answer.blocks[0].held else {
        panic!("{:?}", answer.blocks)
    };
    assert_eq!((&**media_type, &**name), ("image/png", "image.png"));
    assert!(bytes.starts_with(b"\x89PNG") && bytes.len() == 70, "{bytes:?}");
    let text = block(BlockContent::Text("A crab.".into()), Some(r#"{"id":"msg_2","phase":"final_answer"}"#));
    assert_eq!(answer.blocks[1..], [text]);
}

#[tokio::test]
async fn r69_an_answer_at_its_output_limit_is_kept() {
    let answer = answer_to(LENGTH).await;
    assert_eq!((answer.text.as_str(), answer.usage().output), ("Half a crab", 4096));
}

/// The last event counts once its line is complete, also without a blank line after it.
fn end_of_last_line(body: &str) -> usize {
    body.trim_end().len() + 1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c2_c3_an_interrupted_answer_is_complete_or_a_network_failure() {
    for body in [CALLS, IMAGE, LENGTH] {
        check_cuts(&Canned { body, whole_at: Some(end_of_last_line(body)) }, request_to).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c5_an_interrupted_error_is_that_error_or_a_network_failure() {
    for (body, class) in [(FAILED, FailureClass::Server), (OVERLOADED, FailureClass::Overloaded)] {
        let bytes = until_close(body.as_bytes());
        let whole_at = bytes.len() - body.len() + end_of_last_line(body);
        for (cut, answer) in cuts(bytes, request_to).await.iter().enumerate() {
            let expected = if cut >= whole_at { class } else { FailureClass::Network };
            assert_eq!(answer.failure().class, expected, "cut at {cut}: {:?}", answer.failure());
        }
    }
}

#[tokio::test]
async fn c5_pieces_of_any_size_give_the_same() {
    check_pieces(CALLS, request_to).await;
    check_pieces(IMAGE, request_to).await;
}

#[tokio::test]
async fn items_that_are_not_streamed_are_emitted_at_their_end() {
    let done = |at: u64, item: Value| json!({ "type": "response.output_item.done", "output_index": at, "item": item });
    let answer = answer_to_events(&[
        done(0, json!({ "type": "reasoning", "summary": [], "content": [{ "type": "reasoning_text", "text": "Hm." }] })),
        done(1, json!({ "type": "message", "content": [{ "type": "output_text", "text": "So." }, { "type": "refusal", "refusal": "No." }] })),
        done(2, json!({ "type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{}" })),
        completed(),
    ])
    .await;
    let reasoning = r#"{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"Hm."}]}"#;
    let expected = [
        block(BlockContent::Reasoning("Hm.".into()), Some(reasoning)),
        block(BlockContent::Text("So.No.".into()), Some("{}")),
        block(call("c1", "ls", "{}"), Some("{}")),
    ];
    assert_eq!(answer.blocks, expected);
    answer.usage();
}

#[tokio::test]
async fn a_call_is_emitted_when_its_name_is_known_and_parallel_calls_are_distinguished() {
    let added =
        |at: u64, item: Value| json!({ "type": "response.output_item.added", "output_index": at, "item": item });
    let delta = |at: u64, delta: &str| json!({ "type": "response.function_call_arguments.delta", "output_index": at, "delta": delta });
    let done = |at: u64, item: Value| json!({ "type": "response.output_item.done", "output_index": at, "item": item });
    let answer = answer_to_events(&[
        added(0, json!({ "type": "function_call", "call_id": "c1" })),
        added(1, json!({ "type": "function_call", "call_id": "c2", "name": "read", "arguments": "" })),
        delta(0, "{\"a\""),
        delta(1, "{\"b\""),
        delta(0, ":1}"),
        delta(1, ":2}"),
        done(1, json!({ "type": "function_call", "call_id": "c2", "name": "read", "arguments": "{\"b\":2}" })),
        done(0, json!({ "type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{\"a\":1}" })),
        completed(),
    ])
    .await;
    let expected =
        [block(call("c2", "read", r#"{"b":2}"#), Some("{}")), block(call("c1", "ls", r#"{"a":1}"#), Some("{}"))];
    assert_eq!(answer.blocks, expected);
}

#[tokio::test]
async fn reasoning_with_only_an_id_is_not_signed() {
    let item = json!({ "id": "rs_1", "type": "reasoning", "summary": [{ "type": "summary_text", "text": "Hm." }], "encrypted_content": null });
    let answer = answer_to_events(&[
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
        json!({ "type": "response.output_text.delta", "output_index": 1, "delta": "So." }),
        completed(),
    ])
    .await;
    assert_eq!(
        answer.blocks,
        [block(BlockContent::Reasoning("Hm.".into()), None), block(BlockContent::Text("So.".into()), None)]
    );
}

#[tokio::test]
async fn unknown_events_are_skipped() {
    let answer = answer_to_events(&[
        json!({ "type": "keepalive" }),
        json!({ "type": "response.new_thing.delta", "delta": { "not": "text" }, "output_index": "first" }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": { "type": "web_search_call", "id": "ws_1", "action": {} } }),
        json!({ "type": "response.output_text.delta", "output_index": 1, "delta": "So.", "new": [1] }),
        completed(),
    ])
    .await;
    assert_eq!(answer.text, "So.");
    answer.usage();
}
