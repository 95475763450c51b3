//! A whole conversation, streamed and sent back, compared with the documentation of the API.

use std::sync::Arc;

use engine::{Thinking, ToolClass, ToolSpec};
use models::{Api, AssistantMessage, Cached, CallOf, File, Message, Model, ModelSet, Request};
use serde_json::{Value, json};

use super::{CALLS, TEXT};
use crate::support::{Reply, chunked, read, request_of, serve};

fn file(media_type: &str, name: &str, bytes: &[u8]) -> File {
    File { media_type: media_type.into(), name: name.into(), bytes: bytes.into() }
}

fn result(id: &str, text: &str, is_error: bool, files: Vec<File>) -> Cached<Message> {
    Message::Result { provider_id: id.into(), tool: "ls".into(), text: text.into(), is_error, files }.into()
}

fn first_request(base_url: &str) -> Request {
    let mut request = request_of(Api::Anthropic, base_url);
    "claude-sonnet-5".clone_into(&mut request.candidate.model);
    request.candidate.thinking = Some(Thinking::Medium);
    request.tools = Cached::from(["ls", "look"].map(tool).to_vec());
    let files = vec![
        file("image/png", "a.png", b"PNG"),
        file("image/svg+xml", "b.svg", b"<svg/>"),
        file("application/pdf", "c.pdf", b"%PDF"),
        file("text/plain", "d.txt", b"text"),
    ];
    request.messages = vec![Message::User { text: "look".into(), files }.into()];
    request
}

fn tool(name: &str) -> ToolSpec {
    let schema = json!({ "type": "object", "properties": {} });
    ToolSpec { name: name.to_owned(), class: ToolClass::ReadOnly, description: name.to_uppercase(), schema }
}

fn asked() -> Value {
    let image = json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "UE5H" } });
    let pdf = json!({ "type": "base64", "media_type": "application/pdf", "data": "JVBERg==" });
    json!({ "role": "user", "content": [
        image,
        { "type": "text", "text": "[image/svg+xml b.svg, 6 bytes: this API cannot show it]" },
        { "type": "document", "source": pdf, "title": "c.pdf" },
        { "type": "text", "text": "<file name=\"d.txt\">\ntext\n</file>" },
        { "type": "text", "text": "look" },
    ] })
}

fn answered() -> Value {
    json!({ "role": "assistant", "content": [
        { "type": "thinking", "thinking": "Two places to look: 潮.", "signature": "EqQBCgIYAhIMfirst+/==" },
        { "type": "text", "text": "I look at both." },
        { "type": "tool_use", "id": "toolu_01A", "name": "ls", "input": { "path": "src", "x": 1.0 } },
        { "type": "redacted_thinking", "data": "EmwKAhgBEgyhidden==" },
        { "type": "thinking", "thinking": "", "signature": "EuYBCgIYunseen==" },
        { "type": "tool_use", "id": "toolu_01B", "name": "look", "input": {} },
    ] })
}

/// Results come first, regardless of the messages between them.
fn results() -> Value {
    let image =
        json!({ "type": "image", "source": { "type": "base64", "media_type": "image/webp", "data": "V0VCUA==" } });
    json!({ "role": "user", "content": [
        { "type": "tool_result", "tool_use_id": "toolu_01A", "is_error": true, "content": [
            { "type": "text", "text": "gone" },
        ] },
        { "type": "tool_result", "tool_use_id": "toolu_01B", "content": [image] },
        { "type": "text", "text": "and hurry" },
    ] })
}

fn marked(mut message: Value) -> Value {
    let last = message["content"].as_array_mut().unwrap().last_mut().unwrap();
    last["cache_control"] = json!({ "type": "ephemeral" });
    message
}

fn body(messages: &[Value]) -> Value {
    let tool = |name: &str, description: &str| json!({ "name": name, "description": description, "input_schema": { "type": "object", "properties": {} } });
    let mut last = tool("look", "LOOK");
    last["cache_control"] = json!({ "type": "ephemeral" });
    json!({
        "model": "claude-sonnet-5", "max_tokens": 4096, "stream": true,
        "thinking": { "type": "adaptive", "display": "summarized" }, "output_config": { "effort": "medium" },
        "tools": [tool("ls", "LS"), last],
        "system": [{ "type": "text", "text": "be brief", "cache_control": { "type": "ephemeral" } }],
        "messages": messages,
    })
}

fn sent(request: &Request) -> Value {
    serde_json::from_slice(&ModelSet::body(request)).unwrap()
}

#[tokio::test]
async fn r41_r66_a_conversation_is_sent_back_as_it_was_streamed() {
    let server = serve(|number| {
        let answer = if number == 0 { CALLS } else { TEXT };
        Reply::Keep(chunked(answer.as_bytes(), 40))
    })
    .await;
    let model = ModelSet::new();
    let mut request = first_request(&server.base_url);
    let first = read(model.stream(request.clone())).await;
    request.messages.extend([
        first.sealed("acme/claude-sonnet-5").into(),
        result("toolu_01A", "gone", true, vec![]),
        Message::user("and hurry").into(),
        result("toolu_01B", "", false, vec![file("image/webp", "e.webp", b"WEBP")]),
    ]);
    let second = read(model.stream(request.clone())).await;
    request.messages.push(second.sealed("acme/claude-sonnet-5").into());
    request.messages.push(Message::user("thanks").into());
    read(model.stream(request)).await.usage();

    let requests = server.seen.requests.lock().unwrap().clone();
    let bodies =
        requests.iter().map(|request| serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap());
    let last = json!({ "role": "assistant", "content": [
        { "type": "thinking", "thinking": "Ten legs.", "signature": "EsecondSig==" },
        { "type": "text", "text": super::ANSWER },
    ] });
    let thanks = json!({ "role": "user", "content": [{ "type": "text", "text": "thanks" }] });
    let expected = [
        body(&[marked(asked())]),
        body(&[marked(asked()), answered(), marked(results())]),
        body(&[asked(), answered(), marked(results()), last, marked(thanks)]),
    ];
    assert_eq!(bodies.collect::<Vec<Value>>(), expected);

    let head = requests[0].split_once("\r\n\r\n").unwrap().0.to_lowercase();
    assert!(head.starts_with("post /v1/messages http/1.1"), "{head}");
    assert!(head.contains("x-api-key: canary-key-1234") && head.contains("anthropic-version: 2023-06-01"), "{head}");
    assert!(!head.contains("authorization"), "{head}");
}

#[tokio::test]
async fn r41_another_model_is_sent_no_signatures() {
    let answer = super::answer_to(CALLS).await;
    let mut request = first_request("http://localhost/v1");
    request.messages.push(answer.sealed("other/claude-sonnet-5").into());
    let mut expected = answered();
    expected["content"].as_array_mut().unwrap().retain(|block| !block["type"].as_str().unwrap().contains("thinking"));
    assert_eq!(sent(&request)["messages"][1], expected);
}

#[test]
fn r41_blocks_that_the_api_refuses_are_not_sent() {
    let mut request = first_request("http://localhost/v1");
    let signed = |text: &str| models::ContentBlock {
        held: models::BlockContent::Reasoning(text.into()),
        signature: Some("sig".into()),
    };
    let text = |text: &str| models::ContentBlock { held: models::BlockContent::Text(text.into()), signature: None };
    let answer = |blocks| Message::Assistant(models::AssistantMessage { model: "acme/claude-sonnet-5".into(), blocks });
    request.tools = Cached::from(vec![]);
    request.system = Cached::from(Arc::from(" \n"));
    request.candidate.thinking = None;
    request.messages = [
        answer(vec![signed("only thought"), text(" ")]),
        Message::user("\n"),
        answer(vec![signed("a"), text("said"), signed("then nothing")]),
    ]
    .map(Cached::from)
    .to_vec();
    let go_on = json!({ "type": "text", "text": "Go on.", "cache_control": { "type": "ephemeral" } });
    let expected = json!({
        "model": "claude-sonnet-5", "max_tokens": 4096, "stream": true,
        "messages": [
            { "role": "user", "content": [go_on] },
            { "role": "assistant", "content": [
                { "type": "thinking", "thinking": "a", "signature": "sig" },
                { "type": "text", "text": "said" },
            ] },
            { "role": "user", "content": [go_on] },
        ],
    });
    assert_eq!(sent(&request), expected);
}

#[test]
fn r41_ids_of_other_providers_are_normalised_and_stay_paired() {
    let calls = ["functions.ls:0", "call_1_0"].map(|id| models::CallOf {
        provider_id: id.into(),
        tool: "no such tool!".into(),
        arguments: "{\"pa".into(),
    });
    let asking = Message::Assistant(models::AssistantMessage::plain(None, None, calls.to_vec()));
    let mut request = first_request("http://localhost/v1");
    // The same ids twice, as from a provider that counts within an answer.
    for _ in 0..2 {
        request.messages.push(asking.clone().into());
        request.messages.extend(["functions.ls:0", "call_1_0"].map(|id| result(id, "done", false, vec![])));
    }
    let body = sent(&request);
    let ids = |at: usize, key: &str| {
        let blocks = body["messages"][at]["content"].as_array().unwrap().clone();
        blocks.iter().map(|block| block[key].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((ids(1, "id"), ids(3, "id")), (ids(2, "tool_use_id"), ids(4, "tool_use_id")));
    assert_eq!(ids(1, "id")[1], "call_1_0");
    let mut all = [ids(1, "id"), ids(3, "id")].concat();
    assert!(all.iter().flat_map(|id| id.chars()).all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'), "{all:?}");
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 4);
    let block = &body["messages"][1]["content"][0];
    assert_eq!((&block["name"], &block["input"]), (&json!("no_such_tool_"), &json!({})));
}

/// "Extended thinking", on tool use: if thinking is enabled, a continued turn must begin with thinking.
#[tokio::test]
async fn no_budget_is_set_in_the_middle_of_a_turn_that_began_without_thinking() {
    let answer = super::answer_to(CALLS).await;
    for (model, expected) in [("acme/claude-haiku-4-5", json!("enabled")), ("other/m", json!("disabled"))] {
        let mut request = first_request("http://localhost/v1");
        "claude-haiku-4-5".clone_into(&mut request.candidate.model);
        assert_eq!(sent(&request)["thinking"], json!({ "type": "enabled", "budget_tokens": 2048 }));
        request.messages.push(answer.sealed(model).into());
        request.messages.extend(["toolu_01A", "toolu_01B"].map(|id| result(id, "done", false, vec![])));
        assert_eq!(sent(&request)["thinking"]["type"], expected, "{model}");
        // After results, the text is in the same message, and the turn continues.
        request.messages.push(Message::user("next").into());
        assert_eq!(sent(&request)["thinking"]["type"], expected, "{model}");
        request.messages.push(Message::Assistant(AssistantMessage::plain(None, Some("so".into()), vec![])).into());
        request.messages.push(Message::user("thanks").into());
        assert_eq!(sent(&request)["thinking"]["type"], "enabled");
    }
}

/// The API accepts an error only with text, and only as text.
#[test]
fn r41_the_result_of_a_failed_call_is_never_empty() {
    let mut request = request_of(Api::Anthropic, "http://h/v1");
    let asking = |id: &str| CallOf { provider_id: id.into(), tool: "ls".into(), arguments: "{}".into() };
    let calls = ["a", "b", "c"].map(asking).to_vec();
    request.messages.extend([
        Message::Assistant(AssistantMessage::plain(None, None, calls)).into(),
        result("a", " \n", true, vec![]),
        result("b", "seen", true, vec![file("image/png", "b.png", b"PNG")]),
        result("c", "gone", true, vec![file("text/plain", "c.txt", b"text")]),
    ]);
    let body = sent(&request);
    let text = |text: &str| json!({ "type": "text", "text": text });
    let image = json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "UE5H" } });
    let results = [
        json!({ "type": "tool_result", "tool_use_id": "a", "is_error": true, "content": [text("The call failed.")] }),
        json!({ "type": "tool_result", "tool_use_id": "b", "content": [text("The call failed."), text("seen"), image] }),
        json!({ "type": "tool_result", "tool_use_id": "c", "is_error": true,
                "content": [text("gone"), text("<file name=\"c.txt\">\ntext\n</file>")],
                "cache_control": { "type": "ephemeral" } }),
    ];
    assert_eq!(body["messages"][2]["content"], json!(results));
}
