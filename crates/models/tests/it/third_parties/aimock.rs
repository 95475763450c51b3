//! `@copilotkit/aimock`, a model server for tests: all of its APIs that have an adapter, and its failures. It counts no
//! tokens and accepts any signature, so these tests check neither.
//!
//! `AIMOCK` names the folder in which `aimock/package.json` is installed.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use engine::{FailureClass, ToolClass, ToolSpec};
use models::{Api, Cached, Message, Model as _, ModelSet, Request};
use serde_json::{Value, json};

use super::server::{Server, installed};
use crate::support::{Answer, read, request_of};

/// Its APIs: the format, and the path below the address.
const SURFACES: [(Api, &str); 5] = [
    (Api::OpenAiChat, "/v1"),
    (Api::OpenAiResponses, "/v1"),
    (Api::Anthropic, "/v1"),
    (Api::Gemini, "/v1beta"),
    (Api::Ollama, ""),
];

/// Longer than any answer takes: a request that takes longer hangs.
const HANGS: Duration = Duration::from_mins(1);

/// The server, if it is installed.
pub(crate) fn server() -> Option<Server> {
    const PROGRAM: &str = "node_modules/@copilotkit/aimock/dist/cli.js";
    let program = Path::new(&installed("AIMOCK", PROGRAM)?).join(PROGRAM);
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/third_parties/aimock/fixtures.json");
    let mut node = Command::new("node");
    node.arg(program).args(["--port", "0", "--strict", "--fixtures"]).arg(fixtures);
    Some(Server::start(&mut node, "listening on "))
}

/// A request with two tools.
pub(crate) fn request(server: &Server, api: Api, path: &str, message: &str) -> Request {
    let mut request = request_of(api, &format!("{}{path}", server.address));
    let tool = |name: &str| ToolSpec {
        name: name.to_owned(),
        class: ToolClass::ReadOnly,
        description: name.to_uppercase(),
        schema: json!({ "type": "object", "properties": { "path": { "type": "string" } } }),
    };
    request.tools = Cached::from(["ls", "read"].map(tool).to_vec());
    request.messages = vec![Message::user(message).into()];
    request
}

/// Sends a request and reads the whole answer.
pub(crate) async fn ask(request: &Request) -> Answer {
    let answer = read(ModelSet::new().stream(request.clone()));
    tokio::time::timeout(HANGS, answer).await.unwrap_or_else(|_| panic!("{:?} hangs", request.endpoint.api))
}

/// An answer with reasoning and two calls, and the answer to their results.
pub(crate) async fn converse(server: &Server, api: Api, path: &str, reasoning: &str) {
    let mut request = request(server, api, path, "look");
    let first = ask(&request).await;
    first.usage();
    assert_eq!((first.text.as_str(), first.reasoning.as_str()), ("I look into both.", reasoning), "{api:?}");
    let calls = first.calls.iter().map(|(_, name, arguments)| (&**name, serde_json::from_str(arguments).unwrap()));
    let expected = [("ls", json!({ "path": "src" })), ("read", json!({ "path": "a.rs" }))];
    assert_eq!(calls.collect::<Vec<(&str, Value)>>(), expected, "{api:?}");

    request.messages.push(first.sealed("acme/m1").into());
    let results = first.calls.iter().map(|(id, name, _)| Message::Result {
        provider_id: id.as_str().into(),
        tool: name.as_str().into(),
        text: "a.rs".into(),
        is_error: false,
        files: vec![],
    });
    request.messages.extend(results.map(Cached::from));
    let second = ask(&request).await;
    second.usage();
    assert_eq!((second.text.as_str(), second.calls.len()), ("There is a.rs, 潮.", 0), "{api:?}");
}

/// R69: a conversation with every API.
#[tokio::test]
async fn r69_third_party_aimock_works_with_each_of_its_apis() {
    let Some(server) = server() else { return };
    for (api, path) in SURFACES {
        // Its Ollama API sends reasoning in a field that Ollama does not have.
        let reasoning = if api == Api::Ollama { "" } else { "Two places." };
        converse(&server, api, path, reasoning).await;
    }
}

/// R51: every failure of the server has its class, nothing hangs, and no answer counts as complete.
#[tokio::test]
async fn r51_third_party_each_failure_of_aimock_has_its_class() {
    let Some(server) = server() else { return };
    let ways = [
        ("drop", FailureClass::Server),
        ("malformed", FailureClass::Malformed),
        ("disconnect", FailureClass::Network),
        ("rate limit", FailureClass::RateLimit),
        ("cut", FailureClass::Network),
    ];
    for (api, path) in SURFACES {
        for (way, class) in ways {
            // An incomplete line counts as truncated in Ollama's framing.
            let is_part_of_line = (api, way) == (Api::Ollama, "malformed");
            let class = if is_part_of_line { FailureClass::Network } else { class };
            let answer = ask(&request(&server, api, path, way)).await;
            assert_eq!(answer.failure().class, class, "{api:?} {way}: {answer:?}");
            let whole = "The tide comes in twice a day, and twice a day it goes out again.";
            assert!(whole.starts_with(&answer.text) && answer.text != whole, "{api:?} {way}: {}", answer.text);
            assert_eq!(answer.opened, !answer.text.is_empty(), "{api:?} {way}");
        }
    }
}
