//! A whole conversation: streamed answers are sent back unchanged, as the API requires it for each model.

use std::sync::Arc;

use engine::{Thinking, ToolClass, ToolSpec};
use models::{Api, Cached, File, Message, Model, ModelSet, Request};
use serde_json::{Value, json};

use super::{CALLS, IMAGE, INTERLEAVED, request};
use crate::support::{Reply, read, serve, sized};

const MODEL: &str = "acme/gemini-3-flash-preview";

fn file(media_type: &str, name: &str, bytes: &[u8]) -> File {
    File { media_type: media_type.into(), name: name.into(), bytes: bytes.into() }
}

fn result(id: &str, tool: &str, text: &str, is_error: bool, files: Vec<File>) -> Message {
    Message::Result { provider_id: id.into(), tool: tool.into(), text: text.into(), is_error, files }
}

fn push(request: &mut Request, messages: impl IntoIterator<Item = Message>) {
    request.messages.extend(messages.into_iter().map(Cached::from));
}

/// The four requests of the conversation, each with all earlier messages, and their bodies as the server received them.
async fn conversation() -> (Request, Vec<Value>) {
    let answers = [CALLS, INTERLEAVED, IMAGE];
    let server = serve(move |number| Reply::Keep(sized(answers[number].as_bytes()))).await;
    let mut request = request(&server.base_url);
    request.candidate.thinking = Some(Thinking::Low);
    request.tools = Cached::from(vec![ToolSpec {
        name: "ls".to_owned(),
        class: ToolClass::ReadOnly,
        description: "lists".to_owned(),
        schema: json!({ "type": "object", "additionalProperties": false }),
    }]);
    let files = vec![file("image/png", "a.png", b"\x89PNG"), file("text/plain", "b.txt", b"legs")];
    request.messages = vec![Cached::from(Message::User { text: "look".into(), files })];
    let results = [
        vec![
            result("q1w2e3", "ls", "a.rs", false, vec![]),
            result("r4t5y6", "grep", "no such file", true, vec![]),
            Message::user("and the pictures"),
        ],
        vec![result("u7i8o9", "read", "shown", false, vec![file("image/webp", "c.webp", b"RIFF")])],
        vec![Message::user("thanks")],
    ];
    let model = ModelSet::new();
    for results in results {
        let answer = read(model.stream(request.clone())).await;
        answer.usage();
        push(&mut request, [answer.sealed(MODEL)].into_iter().chain(results));
    }
    let sent = server.seen.requests.lock().unwrap().clone();
    let bodies = sent.iter().map(|sent| {
        let (head, body) = sent.split_once("\r\n\r\n").unwrap();
        let head = head.to_lowercase();
        let path = "post /v1/models/gemini-3-flash-preview:streamgeneratecontent?alt=sse http/1.1";
        assert!(head.starts_with(path) && head.contains("x-goog-api-key: canary-key-1234"), "{head}");
        assert!(!head.contains("authorization"), "{head}");
        serde_json::from_str(body).unwrap()
    });
    let bodies = bodies.collect();
    (request, bodies)
}

fn rendered(request: &Request) -> Value {
    serde_json::from_slice(&ModelSet::body(request)).unwrap()
}

fn user() -> Value {
    json!({ "role": "user", "parts": [
        { "text": "look" },
        { "inlineData": { "mimeType": "image/png", "data": "iVBORw==" } },
        { "text": "<file name=\"b.txt\">\nlegs\n</file>" },
    ] })
}

#[tokio::test]
async fn r41_r69_a_streamed_answer_is_sent_back_in_order_with_its_signatures() {
    let (request, bodies) = conversation().await;
    let head = json!({
        "systemInstruction": { "parts": [{ "text": "be brief" }] },
        "generationConfig": { "maxOutputTokens": 4096,
                              "thinkingConfig": { "includeThoughts": true, "thinkingLevel": "low" } },
        "tools": [{ "functionDeclarations": [{ "name": "ls", "description": "lists",
                    "parametersJsonSchema": { "type": "object", "additionalProperties": false } }] }],
    });
    let contents = json!([
        user(),
        { "role": "model", "parts": [
            { "text": "I look into both." },
            { "functionCall": { "id": "q1w2e3", "name": "ls", "args": { "path": "src", "deep": 1.0 } },
              "thoughtSignature": "c2lnbmVkLW9uZQ==" },
            { "functionCall": { "id": "r4t5y6", "name": "grep", "args": { "pattern": "TODO" } } },
        ] },
        { "role": "user", "parts": [
            { "functionResponse": { "id": "q1w2e3", "name": "ls", "response": { "output": "a.rs" } } },
            { "functionResponse": { "id": "r4t5y6", "name": "grep", "response": { "error": "no such file" } } },
            { "text": "and the pictures" },
        ] },
        { "role": "model", "parts": [
            { "text": "Read it.", "thought": true, "thoughtSignature": "dGhvdWdodA==" },
            { "text": "One " },
            { "text": "more: ", "thoughtSignature": "dGV4dA==" },
            { "functionCall": { "id": "u7i8o9", "name": "read", "args": {} }, "thoughtSignature": "c2lnbmVkLXR3bw==" },
            { "text": "and that." },
        ] },
        { "role": "user", "parts": [
            { "functionResponse": { "id": "u7i8o9", "name": "read", "response": { "output": "shown" },
                                    "parts": [{ "inlineData": { "mimeType": "image/webp", "data": "UklGRg==" } }] } },
        ] },
        { "role": "model", "parts": [
            { "text": "Here 🦀 it is.\n" },
            { "inlineData": { "mimeType": "image/png", "data": PNG }, "thoughtSignature": "aW1hZ2U=" },
            { "text": "", "thoughtSignature": "bGFzdA==" },
        ] },
        { "role": "user", "parts": [{ "text": "thanks" }] },
    ]);
    let whole = |contents: &[Value]| {
        let mut body = head.clone();
        body["contents"] = contents.into();
        body
    };
    let contents = contents.as_array().unwrap();
    for (body, count) in bodies.iter().zip([1, 3, 5]) {
        assert_eq!(body, &whole(&contents[..count]));
    }
    assert_eq!(rendered(&request), whole(contents));
}

const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// The answers and results as they are sent to another model.
fn without(ids: [Option<&str>; 3], missing: Option<&str>) -> Value {
    let call = |id: usize, name: &str, args: Value| {
        let mut call = json!({ "functionCall": { "name": name, "args": args } });
        ids[id].inspect(|id| call["functionCall"]["id"] = json!(id));
        call
    };
    let first = |mut part: Value| {
        missing.inspect(|missing| part["thoughtSignature"] = json!(missing));
        part
    };
    json!([
        [{ "text": "I look into both." }, first(call(0, "ls", json!({ "path": "src", "deep": 1.0 }))),
         call(1, "grep", json!({ "pattern": "TODO" }))],
        [{ "text": "One more: " }, first(call(2, "read", json!({}))), { "text": "and that." }],
        [{ "text": "Here 🦀 it is.\n" }, { "inlineData": { "mimeType": "image/png", "data": PNG } }],
    ])
}

#[tokio::test]
async fn r41_another_model_gets_no_foreign_signature() {
    let (mut request, _) = conversation().await;
    let ids = [Some("q1w2e3"), Some("r4t5y6"), Some("u7i8o9")];
    let table = [
        ("gemini-3-pro-preview", without(ids, Some("skip_thought_signature_validator"))),
        ("gemini-2.5-flash", without([None; 3], None)),
        ("gemma-4-31b-it", without([None; 3], None)),
    ];
    for (model, expected) in table {
        model.clone_into(&mut request.candidate.model);
        let body = rendered(&request);
        let parts: Vec<_> = [1, 3, 5].iter().map(|at| body["contents"][at]["parts"].clone()).collect();
        assert_eq!(json!(parts), expected, "{model}");
    }
    // For this model, images are next to the result.
    let result = json!([
        { "functionResponse": { "name": "read", "response": { "output": "shown" } } },
        { "inlineData": { "mimeType": "image/webp", "data": "UklGRg==" } },
    ]);
    assert_eq!(rendered(&request)["contents"][4]["parts"], result);
}

#[test]
fn r41_a_conversation_that_the_api_would_refuse_is_normalised() {
    let mut request = request("http://localhost/v1beta");
    request.system = Cached::from(Arc::from(""));
    request.messages.clear();
    let call = |arguments: &str| models::CallOf {
        provider_id: "c".into(),
        tool: "9 lives!".into(),
        arguments: arguments.into(),
    };
    let answer =
        |text: &str, calls| Message::Assistant(models::AssistantMessage::plain(None, Some(text.into()), calls));
    push(
        &mut request,
        [
            Message::user(""),
            answer("first", vec![]),
            Message::user(""),
            answer("", vec![]),
            answer("", vec![call("{\"pa")]),
            result("c", "9 lives!", "not JSON", true, vec![file("image/gif", "a.gif", b"GIF")]),
            answer("done", vec![]),
        ],
    );
    let id = "skip_thought_signature_validator";
    let expected = json!([
        { "role": "user", "parts": [{ "text": "Go on." }] },
        { "role": "model", "parts": [
            { "text": "first" },
            { "functionCall": { "id": "c", "name": "_9_lives_", "args": {} }, "thoughtSignature": id },
        ] },
        { "role": "user", "parts": [{ "functionResponse": { "id": "c", "name": "_9_lives_", "response": {
            "error": "not JSON\n[image/gif a.gif, 3 bytes: this API cannot show it]" } } }] },
        { "role": "model", "parts": [{ "text": "done" }] },
        { "role": "user", "parts": [{ "text": "Go on." }] },
    ]);
    let body = rendered(&request);
    assert_eq!(body["contents"], expected);
    assert!(body.get("tools").is_none() && body.get("systemInstruction").is_none(), "{body}");
}

#[test]
fn ids_are_omitted_for_apis_that_refuse_them_and_a_folder_is_kept() {
    let mut request = request("https://aiplatform.googleapis.com/v1/publishers/google");
    assert_eq!(request.endpoint.api, Api::Gemini);
    push(&mut request, [result("c", "ls", "a", false, vec![])]);
    let parts = &rendered(&request)["contents"][0]["parts"];
    assert_eq!(parts[1], json!({ "functionResponse": { "name": "ls", "response": { "output": "a" } } }));
}
