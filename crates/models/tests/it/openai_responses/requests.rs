//! Compares complete request bodies.

use std::sync::Arc;

use engine::{Thinking, ToolClass, ToolSpec};
use models::{AssistantMessage, BlockContent, Cached, CallOf, ContentBlock, File, Message, Model, ModelSet, Request};
use serde_json::{Value, json};

use super::{CALLS, IMAGE, answer_to, request_to};
use crate::support::{Reply, read, serve, sized};

fn body(request: &Request) -> Value {
    serde_json::from_slice(&ModelSet::body(request)).unwrap()
}

fn input_of(messages: Vec<Message>) -> Value {
    body(&Request { messages: messages.into_iter().map(Cached::from).collect(), ..request_to("http://h/v1") })["input"]
        .take()
}

fn file(media_type: &str, name: &str, bytes: &[u8]) -> File {
    File { media_type: media_type.into(), name: name.into(), bytes: bytes.into() }
}

fn result(id: &str, text: &str, files: Vec<File>) -> Message {
    Message::Result { provider_id: id.into(), tool: "ls".into(), text: text.into(), is_error: false, files }
}

fn text(role: &str, text: &str) -> Value {
    let part = json!([{ "type": "input_text", "text": text }]);
    json!({ "type": "message", "role": role, "content": if role == "assistant" { json!(text) } else { part } })
}

fn held(held: BlockContent) -> ContentBlock {
    ContentBlock { held, signature: None }
}

fn call(id: &str, arguments: &str) -> CallOf {
    CallOf { provider_id: id.into(), tool: "ls".into(), arguments: arguments.into() }
}

#[test]
fn r69_the_request_is_complete_and_the_server_stores_nothing() {
    let mut request = request_to("http://h/v1");
    request.tools = Cached::from(vec![ToolSpec {
        name: "ls".to_owned(),
        class: ToolClass::ReadOnly,
        description: "lists".to_owned(),
        schema: json!({ "type": "object" }),
    }]);
    request.candidate.thinking = Some(Thinking::High);
    request.cache_key = Some("the-same".into());
    let expected = json!({
        "prompt_cache_key": "the-same",
        "model": "m1", "stream": true, "store": false, "instructions": "be brief", "max_output_tokens": 4096,
        "include": ["reasoning.encrypted_content"], "reasoning": { "effort": "high", "summary": "auto" },
        "tools": [{ "type": "function", "name": "ls", "description": "lists", "parameters": { "type": "object" }, "strict": false }],
        "input": [text("user", "hi")],
    });
    assert_eq!(body(&request), expected);

    request.tools = Cached::from(vec![]);
    request.candidate.thinking = None;
    request.cache_key = None;
    request.candidate.max_output = 1;
    request.system = Cached::from(Arc::from(""));
    let expected = json!({
        "model": "m1", "stream": true, "store": false, "max_output_tokens": 16,
        "include": ["reasoning.encrypted_content"], "input": [text("user", "hi")],
    });
    assert_eq!(body(&request), expected);
}

#[test]
fn r53_each_level_of_thinking_has_the_name_that_its_model_uses() {
    let none = Value::Null;
    let table = [
        ("gpt-5.4-mini", Thinking::Off, json!({ "effort": "none" })),
        ("gpt-5.4-mini", Thinking::Minimal, json!({ "effort": "low", "summary": "auto" })),
        ("openai/gpt-5.6", Thinking::Xhigh, json!({ "effort": "xhigh", "summary": "auto" })),
        ("gpt-5-mini", Thinking::Off, json!({ "effort": "minimal", "summary": "auto" })),
        ("o4-mini", Thinking::Minimal, json!({ "effort": "low", "summary": "auto" })),
        ("gpt-4.1", Thinking::Off, none.clone()),
        // According to the provider, this model cannot.
        ("gpt-4.1", Thinking::Medium, json!({ "effort": "medium", "summary": "auto" })),
    ];
    for (model, thinking, expected) in table {
        let mut request = request_to("http://h/v1");
        request.candidate.model = model.to_owned();
        request.candidate.thinking = Some(thinking);
        assert_eq!(body(&request)["reasoning"], expected, "{model} {thinking:?}");
        let include = if model == "gpt-4.1" { none.clone() } else { json!(["reasoning.encrypted_content"]) };
        assert_eq!(body(&request)["include"], include, "{model}");
    }
}

#[test]
fn r41_answers_of_other_models_and_broken_answers_are_normalised() {
    let long = "x".repeat(65);
    let input = input_of(vec![
        Message::user(""),
        Message::user("hi"),
        Message::Assistant(AssistantMessage::plain(Some("hm".into()), Some("".into()), vec![])),
        Message::Assistant(AssistantMessage::plain(
            Some("hm".into()),
            None,
            vec![call(&long, "{\"pa"), call("a.b:1", "[1]")],
        )),
        result(&long, "not JSON", vec![]),
        result("a.b:1", "", vec![]),
        Message::Assistant(AssistantMessage::plain(None, Some("done".into()), vec![])),
    ]);
    let ids: Vec<_> = input.as_array().unwrap().iter().filter_map(|item| item["call_id"].as_str()).collect();
    assert_eq!((ids[0], ids[1]), (ids[2], ids[3]));
    assert_ne!(ids[0], ids[1]);
    assert!(
        ids.iter().all(|id| id.len() <= 64 && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')),
        "{ids:?}"
    );
    let expected = json!([
        text("user", "hi"),
        { "type": "function_call", "call_id": ids[0], "name": "ls", "arguments": "{}" },
        { "type": "function_call", "call_id": ids[1], "name": "ls", "arguments": "{}" },
        { "type": "function_call_output", "call_id": ids[0], "output": "not JSON" },
        { "type": "function_call_output", "call_id": ids[1], "output": "" },
        text("assistant", "done"),
    ]);
    assert_eq!(input, expected);
}

#[test]
fn r69_messages_and_results_contain_images_documents_and_texts() {
    let files = vec![
        file("image/png", "a.png", b"png"),
        file("application/pdf", "a.pdf", b"%PDF"),
        file("text/plain", "a.txt", b"tide"),
        file("image/bmp", "a.bmp", b"BM"),
    ];
    let shown = json!([
        { "type": "input_text", "text": "look" },
        { "type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,cG5n" },
        { "type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg==" },
        { "type": "input_text", "text": "<file name=\"a.txt\">\ntide\n</file>" },
        { "type": "input_text", "text": "[image/bmp a.bmp, 2 bytes: this API cannot show it]" },
    ]);
    let input = input_of(vec![
        Message::User { text: "look".into(), files: files.clone() },
        Message::Assistant(AssistantMessage::plain(None, None, vec![call("c", "{}")])),
        result("c", "look", files),
    ]);
    let expected = json!([
        { "type": "message", "role": "user", "content": shown },
        { "type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}" },
        { "type": "function_call_output", "call_id": "c", "output": shown },
    ]);
    assert_eq!(input, expected);
}

#[test]
fn an_image_that_a_model_made_is_never_between_a_call_and_its_result() {
    let image = || held(BlockContent::Image(file("image/png", "a.png", b"png")));
    let made = json!({ "type": "message", "role": "user", "content": [
        { "type": "input_text", "text": "What you have made:" },
        { "type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,cG5n" },
    ] });
    let message = AssistantMessage { model: "".into(), blocks: vec![held(BlockContent::Text("so".into())), image()] };
    assert_eq!(input_of(vec![Message::Assistant(message)]), json!([text("assistant", "so"), made]));
    let called =
        AssistantMessage { model: "".into(), blocks: vec![held(BlockContent::Call(call("c", "{}"))), image()] };
    let called = input_of(vec![Message::Assistant(called), result("c", "a", vec![])]);
    assert_eq!(called[0], made);
    assert_eq!(called[1]["type"], "function_call");
}

#[test]
fn r41_a_repeated_id_is_replaced_for_its_call_and_its_result() {
    let calls = || Message::Assistant(AssistantMessage::plain(None, None, vec![call("call_0", "{}")]));
    let input = input_of(vec![calls(), result("call_0", "a", vec![]), calls(), result("call_0", "b", vec![])]);
    let ids: Vec<_> = input.as_array().unwrap().iter().filter_map(|item| item["call_id"].as_str()).collect();
    assert_eq!((ids[0], ids[1]), ("call_0", "call_0"));
    assert!(ids[2] != "call_0" && ids[2] == ids[3], "{ids:?}");
}

/// The items of [`CALLS`] as they are sent back to their model.
fn sent_back() -> Value {
    let summary = [
        json!({ "type": "summary_text", "text": "**Looking** 潮" }),
        json!({ "type": "summary_text", "text": "Then grep." }),
    ];
    json!([
        { "type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "gAAAA-first==" },
        { "type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "phase": "commentary",
          "content": [{ "type": "output_text", "text": "I look at the 🦀s.\n", "annotations": [] }] },
        { "type": "function_call", "id": "fc_1", "call_id": "call_a1", "name": "ls", "arguments": "{\"path\":\"src\"}" },
        { "type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "gAAAA-second==" },
        { "type": "function_call", "id": "fc_2", "call_id": "call_b2", "name": "grep", "arguments": "{\"pattern\":\"TODO\",\"x\":1.0}" },
    ])
}

#[tokio::test]
async fn r69_a_conversation_is_sent_back_in_order_with_its_signatures() {
    let replies = [CALLS, IMAGE];
    let server = serve(move |number| Reply::Keep(sized(replies[number].as_bytes()))).await;
    let (model, mut request) = (ModelSet::new(), request_to(&server.base_url));
    let first = read(model.stream(request.clone())).await;
    request.messages.push(first.sealed("acme/m1").into());
    request.messages.push(result("call_a1", "main.rs", vec![]).into());
    request.messages.push(result("call_b2", "2", vec![]).into());
    read(model.stream(request)).await.usage();

    let request = server.seen.requests.lock().unwrap()[1].clone();
    let (head, sent) = request.split_once("\r\n\r\n").unwrap();
    let head = head.to_lowercase();
    assert!(head.starts_with("post /v1/responses http/1.1"), "{head}");
    assert!(head.contains("authorization: bearer canary-key-1234"), "{head}");
    let mut expected = vec![text("user", "hi")];
    expected.extend(sent_back().as_array().unwrap().clone());
    expected.push(json!({ "type": "function_call_output", "call_id": "call_a1", "output": "main.rs" }));
    expected.push(json!({ "type": "function_call_output", "call_id": "call_b2", "output": "2" }));
    assert_eq!(serde_json::from_str::<Value>(sent).unwrap()["input"], Value::Array(expected));
}

#[tokio::test]
async fn r41_another_model_gets_nothing_that_it_cannot_read() {
    let answer = answer_to(CALLS).await;
    let expected = json!([
        text("assistant", "I look at the 🦀s.\n"),
        { "type": "function_call", "call_id": "call_a1", "name": "ls", "arguments": "{\"path\":\"src\"}" },
        { "type": "function_call", "call_id": "call_b2", "name": "grep", "arguments": "{\"pattern\":\"TODO\",\"x\":1.0}" },
    ]);
    let mut request = Request { messages: vec![answer.sealed("acme/m1").into()], ..request_to("http://h/v1") };
    assert_eq!(body(&request)["input"], sent_back());
    "m2".clone_into(&mut request.candidate.model);
    assert_eq!(body(&request)["input"], expected);
    "m1".clone_into(&mut request.candidate.model);
    "other".clone_into(&mut request.candidate.provider);
    assert_eq!(body(&request)["input"], expected);
}

#[tokio::test]
async fn r41_reasoning_is_sent_back_only_with_the_complete_item_after_it() {
    let Message::Assistant(mut answer) = answer_to(CALLS).await.sealed("acme/m1") else { unreachable!() };
    answer.blocks.pop();
    assert_eq!(input_of(vec![Message::Assistant(answer.clone())]), json!(sent_back().as_array().unwrap()[..3]));
    answer.blocks.truncate(2);
    answer.blocks[1] = held(BlockContent::Text("I look".into()));
    assert_eq!(input_of(vec![Message::Assistant(answer)]), json!([text("assistant", "I look")]));
}

#[test]
fn r41_a_signature_of_another_format_is_skipped() {
    let signed = |held: BlockContent| ContentBlock { held, signature: Some("EqQBCgIYAhIM".into()) };
    let blocks = vec![
        signed(BlockContent::Reasoning("hm".into())),
        signed(BlockContent::Text("so".into())),
        signed(BlockContent::Call(call("c", "{}"))),
    ];
    let expected = json!([
        text("assistant", "so"),
        { "type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}" },
    ]);
    assert_eq!(input_of(vec![Message::Assistant(AssistantMessage { model: "acme/m1".into(), blocks })]), expected);
}
