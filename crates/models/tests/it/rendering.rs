//! Requests of one conversation, each with what the one before it has rendered, are the bytes that they would be alone.

use std::sync::Arc;

use engine::{Candidate, ToolClass, ToolSpec};
use models::{
    Api, AssistantMessage, BlockContent, Cached, CallOf, ContentBlock, Endpoint, File, Message, ModelSet, Request,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};
use serde_json::Value;

/// The wire formats.
pub(crate) fn formats() -> impl Iterator<Item = Api> {
    Api::ALL.into_iter().map(|(api, _)| api).filter(|api| *api != Api::Offline)
}

/// Servers between which a format writes a message differently.
const SERVERS: [&str; 3] =
    ["http://localhost/v1", "https://api.deepseek.com/v1", "https://aiplatform.googleapis.com/v1"];

/// Models between which a format does.
const MODELS: [&str; 4] = ["m", "gemini-2.5-pro", "gemini-3-flash", "gemini-3-pro"];

fn text() -> impl Strategy<Value = Arc<str>> {
    prop_oneof![Just(String::new()), ".{0,40}", r#"[a-z\\"\n\u{1}-\u{1f}潮🦀]{0,20}"#].prop_map(Arc::from)
}

fn call() -> impl Strategy<Value = CallOf> {
    let arguments = prop_oneof![Just(Arc::from(r#"{"path":"a"}"#)), Just(Arc::from(r#"{"pa"#)), text()];
    (text(), text(), arguments).prop_map(|(provider_id, tool, arguments)| CallOf { provider_id, tool, arguments })
}

fn file() -> impl Strategy<Value = File> {
    let media_type = prop::sample::select(vec!["image/png", "image/bmp", "application/pdf", "text/plain", "audio/wav"]);
    (media_type, text(), vec(any::<u8>(), 0..9)).prop_map(|(media_type, name, bytes)| File {
        media_type: media_type.into(),
        name,
        bytes: bytes.into(),
    })
}

fn block() -> impl Strategy<Value = ContentBlock> {
    let held = prop_oneof![
        text().prop_map(BlockContent::Text),
        text().prop_map(BlockContent::Reasoning),
        call().prop_map(BlockContent::Call),
        file().prop_map(BlockContent::Image),
    ];
    (held, prop::option::of("([0-9] |image )?[a-z]{1,9}")).prop_map(|(held, signature)| {
        let signature = signature.map(Arc::from);
        ContentBlock { held, signature }
    })
}

fn message() -> impl Strategy<Value = Message> {
    let model = prop::sample::select(vec!["acme/m", "acme/gemini-3-flash", "acme/other"]);
    let signed =
        (model, vec(block(), 0..5)).prop_map(|(model, blocks)| AssistantMessage { model: model.into(), blocks });
    let plain = (prop::option::of(text()), prop::option::of(text()), vec(call(), 0..3));
    let plain = plain.prop_map(|(text, reasoning, calls)| AssistantMessage::plain(reasoning, text, calls));
    let result = (text(), text(), text(), any::<bool>(), vec(file(), 0..2));
    prop_oneof![
        (text(), vec(file(), 0..2)).prop_map(|(text, files)| Message::User { text, files }),
        prop_oneof![signed, plain].prop_map(Message::Assistant),
        result.prop_map(|(provider_id, tool, text, is_error, files)| Message::Result {
            provider_id,
            tool,
            text,
            is_error,
            files,
        }),
    ]
}

fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        class: ToolClass::ReadOnly,
        description: name.to_uppercase(),
        schema: serde_json::json!({ "type": "object", "properties": { "path": { "type": "string" } } }),
    }
}

pub(crate) fn request(system: &Arc<str>, tools: usize) -> Request {
    Request {
        candidate: Candidate {
            provider: "acme".to_owned(),
            model: "m".to_owned(),
            profile: None,
            context_window: 1_000,
            max_output: 77,
            thinking: None,
            images: true,
            structured_output: false,
            sampling: engine::Sampling::default(),
            token_rate: 1_000,
            can_refresh: false,
            levels: vec![],
            price: None,
        },
        system: Cached::from(Arc::clone(system)),
        messages: vec![],
        tools: Cached::from(["ls", "read"].iter().take(tools).map(|name| tool(name)).collect::<Vec<_>>()),
        endpoint: Endpoint::new(Api::OpenAiChat, String::new(), None),
        continues: false,
        cache_key: None,
        output_schema: None,
    }
}

/// The same request, of which nothing was rendered.
fn alone(request: &Request) -> Request {
    Request {
        system: Cached::from(Arc::clone(&request.system)),
        messages: request.messages.iter().map(|message| Cached::from(Message::clone(message))).collect(),
        tools: Cached::from(Arc::clone(&request.tools)),
        ..request.clone()
    }
}

/// What Anthropic Messages refuses, by the provider's pages "Messages", "Extended thinking", "Tool use" and its errors.
fn refused_by_anthropic(body: &Value) -> Option<&'static str> {
    let messages = body["messages"].as_array().unwrap();
    let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    let kind = |block: &Value| block["type"].as_str().unwrap().to_owned();
    let blocks: Vec<_> = messages.iter().map(|message| message["content"].as_array().unwrap()).collect();
    let inner = blocks.iter().copied().flatten().filter_map(|block| block["content"].as_array()).flatten();
    let texts = blocks.iter().copied().flatten().chain(inner).filter_map(|block| block["text"].as_str());
    let ids = blocks.iter().copied().flatten().flat_map(|block| [&block["id"], &block["tool_use_id"]]);
    let is_id = |id: &str| !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let marks = body.to_string().matches("cache_control").count();
    let kept = [
        (roles.first() == Some(&"user") && roles.last() == Some(&"user"), "the first and the last are the user's"),
        (roles.windows(2).all(|pair| pair[0] != pair[1]), "turns alternate"),
        (blocks.iter().all(|blocks| !blocks.is_empty()), "no empty message"),
        (texts.into_iter().all(|text| !text.trim().is_empty()), "no blank text"),
        (ids.filter_map(Value::as_str).all(is_id), "ids of few characters"),
        (blocks.iter().all(|blocks| blocks.is_sorted_by_key(|block| kind(block) != "tool_result")), "results first"),
        (blocks.iter().all(|blocks| !kind(blocks.last().unwrap()).contains("thinking")), "no thinking at the end"),
        (marks <= 4, "four breakpoints"),
    ];
    kept.into_iter().find(|(kept, _)| !kept).map(|(_, rule)| rule)
}

proptest! {
    #![proptest_config(Config {
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..Config::with_cases(500)
    })]

    #[test]
    fn r66_a_request_is_the_same_bytes_whatever_was_rendered_before(
        system in text(),
        tools in 0..3_usize,
        steps in vec((message(), 0..SERVERS.len(), 0..MODELS.len()), 0..30),
    ) {
        let mut request = request(&system, tools);
        for (message, server, model) in steps {
            request.messages.push(Cached::from(message));
            SERVERS[server].clone_into(&mut request.endpoint.base_url);
            MODELS[model].clone_into(&mut request.candidate.model);
            for api in formats() {
                request.endpoint.api = api;
                let bytes = ModelSet::body(&request);
                prop_assert_eq!(&bytes, &ModelSet::body(&alone(&request)));
                prop_assert!(serde_json::from_slice::<Value>(&bytes).is_ok());
            }
        }
    }

    #[test]
    fn r41_no_conversation_makes_a_request_that_anthropic_refuses(
        system in text(),
        tools in 0..3_usize,
        messages in vec(message(), 0..12),
    ) {
        let mut request = request(&system, tools);
        request.endpoint.api = Api::Anthropic;
        request.messages = messages.into_iter().map(Cached::from).collect();
        let body: Value = serde_json::from_slice(&ModelSet::body(&request)).unwrap();
        prop_assert_eq!(refused_by_anthropic(&body), None);
    }
}

/// A conversation with everything that formats write differently.
fn rich_conversation() -> Vec<Message> {
    let file = |media_type: &str, name: &str, bytes: &[u8]| File {
        media_type: media_type.into(),
        name: name.into(),
        bytes: bytes.into(),
    };
    let call = |id: &str, tool: &str, arguments: &str| CallOf {
        provider_id: id.into(),
        tool: tool.into(),
        arguments: arguments.into(),
    };
    let result = |id: &str, text: &str, is_error, files| Message::Result {
        provider_id: id.into(),
        tool: "ls".into(),
        text: text.into(),
        is_error,
        files,
    };
    let block = |held, signature: Option<&str>| ContentBlock { held, signature: signature.map(Arc::from) };
    let signed = |model: &str| AssistantMessage {
        model: model.into(),
        blocks: vec![
            block(BlockContent::Reasoning("hm".into()), Some("2 c2ln")),
            block(BlockContent::Text("I look.".into()), Some(r#"{"id":"msg_1","phase":"commentary"}"#)),
            block(BlockContent::Image(file("image/png", "drawn.png", b"png")), Some("image aW1n")),
            block(BlockContent::Call(call("call_1", "ls", r#"{"z":1.0,"a":"b"}"#)), Some(r#"{"id":"fc_1"}"#)),
            block(BlockContent::Call(call("call 2", "a.b", r#"{"pa"#)), None),
        ],
    };
    let files = [
        file("image/png", "a.png", b"png"),
        file("image/bmp", "b.bmp", b"bmp"),
        file("application/pdf", "c.pdf", b"pdf"),
        file("text/plain", "d.txt", "潮".as_bytes()),
        file("audio/wav", "e.wav", b"\xff"),
    ];
    vec![
        Message::User { text: "Look.".into(), files: files.to_vec() },
        Message::Assistant(signed("acme/m")),
        result("call_1", "a\n", false, files.to_vec()),
        result("call 2", "", true, vec![]),
        Message::Assistant(AssistantMessage::plain(Some("hm".into()), None, vec![])),
        Message::Assistant(signed("acme/other")),
        result("call_1", "no", true, files[..1].to_vec()),
        result("call 2", "b", false, vec![]),
        Message::user("and?"),
        Message::user(""),
        Message::Assistant(AssistantMessage::plain(None, Some("Done.".into()), vec![])),
    ]
}

/// `UPDATE=1` writes the files anew: what is sent to a provider changes then, and with it what its cache knows.
#[test]
fn r41_a_request_of_each_format_is_written_as_recorded() {
    let mut request = request(&Arc::from("Be brief."), 2);
    request.messages = rich_conversation().into_iter().map(Cached::from).collect();
    for (api, name) in Api::ALL.into_iter().filter(|(api, _)| *api != Api::Offline) {
        request.endpoint.api = api;
        let mut recorded = String::new();
        for (model, server) in [(MODELS[0], SERVERS[0]), (MODELS[2], SERVERS[0]), (MODELS[1], SERVERS[1])] {
            model.clone_into(&mut request.candidate.model);
            server.clone_into(&mut request.endpoint.base_url);
            recorded += &String::from_utf8(ModelSet::body(&request)).unwrap();
            recorded.push('\n');
        }
        let path = format!("{}/tests/it/bodies/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &recorded).unwrap();
        }
        assert_eq!(recorded, std::fs::read_to_string(&path).unwrap(), "{path}");
    }
}

/// R60: how words are chosen is written where each format has it, and nothing is written of what is left to the model.
#[test]
fn r60_sampling_is_in_its_place_in_each_format() {
    let mut request = request(&Arc::from("Be brief."), 0);
    request.messages = rich_conversation().into_iter().map(Cached::from).collect();
    let body = |request: &Request| serde_json::from_slice::<serde_json::Value>(&ModelSet::body(request)).unwrap();
    for (api, _) in Api::ALL.into_iter().filter(|(api, _)| *api != Api::Offline) {
        request.endpoint.api = api;
        request.candidate.thinking = None;
        request.candidate.sampling = engine::Sampling::default();
        let usual = body(&request).to_string();
        assert!(!usual.contains("temperature") && !usual.contains("top_p") && !usual.contains("topP"), "{api:?}");
        request.candidate.sampling = engine::Sampling { temperature: Some(700), top_p: Some(250) };
        let written = body(&request);
        let place = match api {
            Api::Gemini => &written["generationConfig"],
            Api::Ollama => &written["options"],
            _ => &written,
        };
        let top_p = if api == Api::Gemini { "topP" } else { "top_p" };
        assert_eq!((place["temperature"].as_f64(), place[top_p].as_f64()), (Some(0.7), Some(0.25)), "{api:?}");
        if api == Api::Anthropic {
            request.candidate.thinking = Some(engine::Thinking::High);
            assert_eq!(body(&request)["temperature"], serde_json::Value::Null, "thinking allows none");
        }
    }
}
