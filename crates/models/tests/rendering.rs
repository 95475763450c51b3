//! Requests of one conversation, each with what the one before it has rendered, are the bytes that they would be alone.

use std::sync::Arc;

use engine::{Candidate, ToolClass, ToolSpec};
use models::{Answer, Api, Cached, CallOf, Endpoint, Message, ModelSet, Request};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

/// The wire formats.
fn formats() -> impl Iterator<Item = Api> {
    Api::ALL.into_iter().map(|(api, _)| api).filter(|api| *api != Api::Offline)
}

/// Servers between which a format writes a message differently.
const SERVERS: [&str; 2] = ["http://localhost/v1", "https://api.deepseek.com/v1"];

fn text() -> impl Strategy<Value = Arc<str>> {
    prop_oneof![Just(String::new()), ".{0,40}", r#"[a-z\\"\n\u{1}-\u{1f}潮🦀]{0,20}"#].prop_map(Arc::from)
}

fn call() -> impl Strategy<Value = CallOf> {
    let arguments = prop_oneof![Just(Arc::from(r#"{"path":"a"}"#)), Just(Arc::from(r#"{"pa"#)), text()];
    (text(), text(), arguments).prop_map(|(provider_id, tool, arguments)| CallOf { provider_id, tool, arguments })
}

fn message() -> impl Strategy<Value = Message> {
    let assistant = (prop::option::of(text()), prop::option::of(text()), vec(call(), 0..3));
    prop_oneof![
        text().prop_map(Message::user),
        assistant.prop_map(|(text, reasoning, calls)| Message::Assistant(Answer::plain(reasoning, text, calls))),
        (text(), text(), text(), any::<bool>()).prop_map(|(provider_id, tool, text, is_error)| Message::Result {
            provider_id,
            tool,
            text,
            is_error,
            files: vec![],
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

fn request(system: &Arc<str>, tools: usize) -> Request {
    Request {
        candidate: Candidate {
            provider: "acme".to_owned(),
            model: "m".to_owned(),
            profile: None,
            context_window: 1_000,
            max_output: 77,
            thinking: None,
        },
        system: Cached::from(Arc::clone(system)),
        messages: vec![],
        tools: Cached::from(["ls", "read"].iter().take(tools).map(|name| tool(name)).collect::<Vec<_>>()),
        endpoint: Endpoint::new(Api::OpenAiChat, String::new(), None),
    }
}

/// The same request, of which nothing was rendered.
fn alone(request: &Request) -> Request {
    Request {
        system: Cached::from(Arc::clone(&request.system)),
        messages: request.messages.iter().map(|message| Cached::from(Message::clone(message))).collect(),
        tools: Cached::from(Vec::clone(&request.tools)),
        ..request.clone()
    }
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
        steps in vec((message(), 0..SERVERS.len()), 0..30),
    ) {
        let mut request = request(&system, tools);
        for (message, server) in steps {
            request.messages.push(Cached::from(message));
            SERVERS[server].clone_into(&mut request.endpoint.base_url);
            for api in formats() {
                request.endpoint.api = api;
                let bytes = ModelSet::body(&request);
                prop_assert_eq!(&bytes, &ModelSet::body(&alone(&request)));
                prop_assert!(serde_json::from_slice::<serde_json::Value>(&bytes).is_ok());
            }
        }
    }
}
