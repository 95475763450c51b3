//! The wire adapter for Ollama's own API against canned bytes, through real sockets. The lines are written after the
//! pages docs.ollama.com/api/chat (fields, ends, figures), docs.ollama.com/capabilities/tool-calling and
//! docs.ollama.com/capabilities/thinking.

use engine::{FailureClass, Thinking, ToolClass, ToolSpec, Usage};
use models::{Api, BlockContent, Cached, CallOf, ContentBlock, File, Message, Model, ModelSet, Request};
use serde_json::{Value, json};

use crate::support::cuts::{Canned, check_cuts, check_pieces};

use crate::support::{Answer, Reply, answer, read, request_of, serve, sized};

const CALLS: &str = include_str!("calls.txt");
const TEXT: &str = include_str!("text.txt");

fn request(base_url: &str) -> Request {
    let mut request = request_of(Api::Ollama, base_url.trim_end_matches("/v1"));
    "qwen3:8b".clone_into(&mut request.candidate.model);
    request
}

async fn replied(bytes: Vec<u8>) -> Answer {
    let server = serve(move |_| Reply::Close(bytes.clone())).await;
    read(ModelSet::new().stream(request(&server.base_url))).await
}

async fn answer_to(body: &str) -> Answer {
    replied(sized(body.as_bytes())).await
}

fn block(held: BlockContent) -> ContentBlock {
    ContentBlock { held, signature: None }
}

fn call(id: &str, tool: &str, arguments: &str) -> BlockContent {
    BlockContent::Call(CallOf { provider_id: id.into(), tool: tool.into(), arguments: arguments.into() })
}

#[tokio::test]
async fn r69_reasoning_text_and_parallel_calls_come_in_order_with_usage() {
    let answer = answer_to(CALLS).await;
    let expected = [
        BlockContent::Reasoning("Two folders, 潮汐.\n".into()),
        BlockContent::Text("I look into both.".into()),
        call("call_x1", "ls", r#"{"path":"src","deep":1.0}"#),
        call("", "grep", r#"{"pattern":"TODO"}"#),
    ];
    assert_eq!(answer.blocks, expected.map(block));
    assert_eq!(answer.usage(), Usage { input: 326, output: 48, ..Usage::default() });
}

/// The line with `done` is the end.
fn canned(body: &str) -> Canned<'_> {
    Canned { body, whole_at: Some(body.trim_end().len()) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c2_c3_p09_an_answer_interrupted_at_every_byte() {
    for body in [CALLS, TEXT] {
        check_cuts(&canned(body), request).await;
    }
}

#[tokio::test]
async fn c5_pieces_of_any_size_give_the_same_answer() {
    for body in [CALLS, TEXT] {
        check_pieces(body, request).await;
    }
}

#[tokio::test]
async fn r51_a_refusal_is_classified_by_status_and_words() {
    let table = [
        (404, r#"{"error":"model 'qwen3:8b' not found"}"#, FailureClass::ModelNotFound),
        (400, r#"{"error":"\"qwen3:8b\" does not support thinking"}"#, FailureClass::ThinkingUnsupported),
        (400, r#"{"error":"the input length exceeds the context length"}"#, FailureClass::ContextOverflow),
        (400, r#"{"error":"registry.ollama.ai/library/x does not support tools"}"#, FailureClass::ModelNotFound),
        (401, r#"{"error":"unauthorized"}"#, FailureClass::Auth),
        (429, r#"{"error":"too many requests"}"#, FailureClass::RateLimit),
        (500, r#"{"error":"llama runner process has terminated"}"#, FailureClass::Server),
        (503, r#"{"error":"server busy, please try again"}"#, FailureClass::Overloaded),
    ];
    for (status, body, class) in table {
        let headers = format!("retry-after: 7\r\ncontent-length: {}\r\n", body.len());
        let answer = replied(answer(status, &headers, body.as_bytes())).await;
        let failure = answer.failure();
        assert_eq!(
            (failure.class, failure.status, failure.retry_after_ms),
            (class, Some(status), Some(7_000)),
            "{body}"
        );
    }
}

#[tokio::test]
async fn c5_an_error_inside_a_200_stream_is_classified_by_its_body() {
    let begin: String = TEXT.split_inclusive('\n').take(1).collect();
    let answer =
        answer_to(&format!("{begin}{{\"error\":\"an error was encountered while running the model\"}}\n")).await;
    assert_eq!((answer.text.as_str(), answer.failure().class), ("Ten 🦀 ", FailureClass::Server));
    let answer = answer_to("{\"error\":\"model is overloaded\"}\n").await;
    assert_eq!((answer.opened, answer.failure().class), (false, FailureClass::Overloaded));
}

#[tokio::test]
async fn c7_an_empty_answer_or_another_format_is_a_failure() {
    let table = [
        (r#"{"message":{"content":""},"done":true,"done_reason":"stop"}"#, FailureClass::Malformed),
        (r#"{"message":{"thinking":"hm"},"done":true,"done_reason":"length"}"#, FailureClass::InvalidRequest),
        (r#"{"message":{"tool_calls":[{"function":{"arguments":{}}}]},"done":true}"#, FailureClass::Malformed),
        ("<html>", FailureClass::Malformed),
        ("7", FailureClass::Malformed),
    ];
    for (line, class) in table {
        assert_eq!(answer_to(&format!("{line}\n")).await.failure().class, class, "{line}");
    }
    let answer = answer_to("{\"message\":{\"content\":\"a\",\"new\":[]},\"news\":1,\"done\":true}\n").await;
    assert_eq!((answer.text.as_str(), answer.usage().input > 0), ("a", true), "estimated");
}

fn file(media_type: &str, name: &str, bytes: &[u8]) -> File {
    File { media_type: media_type.into(), name: name.into(), bytes: bytes.into() }
}

fn result(id: &str, tool: &str, text: &str, files: Vec<File>) -> Message {
    Message::Result { provider_id: id.into(), tool: tool.into(), text: text.into(), is_error: false, files }
}

#[tokio::test]
async fn r41_r69_a_streamed_answer_is_sent_back_as_the_api_requires() {
    let server = serve(|number| Reply::Keep(sized([CALLS, TEXT][number].as_bytes()))).await;
    let mut request = request(&server.base_url);
    request.candidate.thinking = Some(Thinking::High);
    request.tools = Cached::from(vec![ToolSpec {
        name: "ls".to_owned(),
        class: ToolClass::ReadOnly,
        description: "lists".to_owned(),
        schema: json!({ "type": "object" }),
    }]);
    let files = vec![file("image/png", "a.png", b"\x89PNG"), file("application/pdf", "b.pdf", b"%PDF")];
    request.messages = vec![Cached::from(Message::User { text: "look".into(), files })];
    let model = ModelSet::new();
    let answer = read(model.stream(request.clone())).await;
    let results = [
        answer.sealed(""),
        result("call_x1", "ls", "a.rs", vec![file("image/png", "c.png", b"\x89PNG")]),
        result("", "grep", "nothing", vec![]),
    ];
    request.messages.extend(results.map(Cached::from));
    read(model.stream(request)).await.usage();
    let sent = server.seen.requests.lock().unwrap().clone();
    let (head, body) = sent[1].split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /api/chat HTTP/1.1"), "{head}");
    let body = serde_json::from_str::<Value>(body).unwrap();
    let made = &body["messages"][2]["tool_calls"][1]["id"];
    assert!(made.as_str().is_some_and(|id| id.starts_with("call_")), "{made}");
    assert_eq!(
        body,
        json!({
            "model": "qwen3:8b", "stream": true, "truncate": false, "think": true,
            "options": { "num_ctx": 100_000, "num_predict": 4096 },
            "tools": [{ "type": "function",
                        "function": { "name": "ls", "description": "lists", "parameters": { "type": "object" } } }],
            "messages": [
                { "role": "system", "content": "be brief" },
                { "role": "user", "content": "look\n[application/pdf b.pdf, 4 bytes: this API cannot show it]",
                  "images": ["iVBORw=="] },
                { "role": "assistant", "content": "I look into both.", "thinking": "Two folders, 潮汐.\n", "tool_calls": [
                    { "id": "call_x1", "function": { "name": "ls", "arguments": { "path": "src", "deep": 1.0 } } },
                    { "id": made, "function": { "name": "grep", "arguments": { "pattern": "TODO" } } },
                ] },
                { "role": "tool", "content": "a.rs", "tool_name": "ls", "tool_call_id": "call_x1" },
                { "role": "tool", "content": "nothing", "tool_name": "grep", "tool_call_id": made },
                { "role": "user", "content": "What the tools have shown:", "images": ["iVBORw=="] },
            ],
        })
    );
}

#[test]
fn r41_ids_are_distinguished_and_an_unreadable_image_is_noted() {
    let mut request = request("http://localhost");
    let call = || CallOf { provider_id: "call_0".into(), tool: "ls".into(), arguments: "{}".into() };
    let asking = || Message::Assistant(models::AssistantMessage::plain(None, None, vec![call()]));
    let files = vec![file("image/gif", "a.gif", b"GIF"), file("image/webp", "a.webp", b"WEBP")];
    let look = Message::User { text: "look".into(), files };
    request.messages =
        [look, asking(), result("call_0", "ls", "a", vec![]), asking(), result("call_0", "ls", "b", vec![])]
            .map(Cached::from)
            .into();
    let body: Value = serde_json::from_slice(&ModelSet::body(&request)).unwrap();
    let note = "look\n[image/gif a.gif, 3 bytes: this API cannot show it]";
    assert_eq!(body["messages"][1], json!({ "role": "user", "content": note, "images": ["V0VCUA=="] }));
    let ids =
        [2, 4].map(|at| (&body["messages"][at]["tool_calls"][0]["id"], &body["messages"][at + 1]["tool_call_id"]));
    assert!(ids.iter().all(|(call, result)| call == result) && ids[0] != ids[1], "{ids:?}");
}

#[test]
fn r41_no_empty_text_is_sent_and_the_window_is_bounded() {
    let mut request = request("http://localhost");
    request.candidate.context_window = 10_000_000;
    let broken = CallOf { provider_id: "c".into(), tool: "ls".into(), arguments: "{\"pa".into() };
    request.messages = [
        Message::user(""),
        Message::Assistant(models::AssistantMessage::plain(Some("hm".into()), None, vec![])),
        Message::Assistant(models::AssistantMessage::plain(None, None, vec![broken])),
        result("c", "ls", "", vec![]),
    ]
    .map(Cached::from)
    .into();
    let body: Value = serde_json::from_slice(&ModelSet::body(&request)).unwrap();
    assert_eq!(body["options"]["num_ctx"], 262_144);
    assert!(body.get("think").is_none() && body.get("tools").is_none(), "{body}");
    let calls = json!([{ "id": "c", "function": { "name": "ls", "arguments": {} } }]);
    assert_eq!(
        body["messages"],
        json!([
            { "role": "system", "content": "be brief" },
            { "role": "assistant", "content": "", "tool_calls": calls },
            { "role": "tool", "content": "", "tool_name": "ls", "tool_call_id": "c" },
        ])
    );
}
