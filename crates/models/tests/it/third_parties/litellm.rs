//! The proxy of `litellm`, which speaks three formats to its clients. It translates the answers of the model server of
//! [`super::aimock`], and sends its own.
//!
//! `LITELLM` names a virtual environment with `litellm/requirements.txt`, which is too large to be a part of the proof.

use std::fs;
use std::path::Path;
use std::process::Command;

use engine::FailureClass;
use models::Api;

use super::aimock::{self, ask, converse, request};
use super::server::{Server, installed};

/// Both servers, the proxy last. It has three models: aimock's, one with its own answer, and one with its own failure.
fn servers() -> Option<(Server, Server)> {
    const PROGRAM: &str = "bin/litellm";
    let program = Path::new(&installed("LITELLM", PROGRAM)?).join(PROGRAM);
    let behind = aimock::server()?;
    let model = |name: &str, how: &str| {
        format!("  - model_name: {name}\n    litellm_params: {{ model: openai/m1, api_key: none, {how} }}\n")
    };
    let models = [
        model("m1", &format!("api_base: \"{}/v1\"", behind.address)),
        model("own", "mock_response: \"Twice a day, 潮.\""),
        model("limited", "mock_response: litellm.RateLimitError"),
    ];
    let settings = "general_settings: { dangerously_permit_weak_or_unset_master_key: true }\n";
    let name = behind.address.rsplit(':').next().expect("an address has a port");
    let config = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("litellm-{name}.yaml"));
    fs::write(&config, format!("model_list:\n{}{settings}", models.concat())).unwrap();
    // It prints its address on stderr.
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$0\" --config \"$1\" --host 127.0.0.1 --port 0 2>&1"]).arg(program).arg(config);
    shell.env("LITELLM_LOCAL_MODEL_COST_MAP", "True").env("NO_PROXY", "127.0.0.1");
    Some((behind, Server::start(&mut shell, "Uvicorn running on ")))
}

/// R69: a conversation through a proxy that translates formats, in each of its formats.
#[tokio::test]
async fn r69_third_party_litellm_forwards_conversations() {
    let Some((_behind, proxy)) = servers() else { return };
    for api in [Api::OpenAiChat, Api::Anthropic, Api::OpenAiResponses] {
        converse(&proxy, api, "/v1", "Two places.").await;
    }
}

/// R51: its own answer is complete if it streams it, and otherwise a failure with its class.
#[tokio::test]
async fn r51_third_party_litellms_own_answers_are_complete_or_failures() {
    let Some((_behind, proxy)) = servers() else { return };
    let asked = |api, model: &str| {
        let mut request = request(&proxy, api, "/v1", "hi");
        model.clone_into(&mut request.candidate.model);
        async move { ask(&request).await }
    };
    let own = asked(Api::OpenAiChat, "own").await;
    assert_eq!(own.text, "Twice a day, 潮.");
    assert!(own.usage().input > 0 && own.usage().output > 0, "{:?}", own.usage());
    let failures = [
        // In this format it sends its answer in one piece, although a stream was requested.
        (Api::Anthropic, "own", FailureClass::Malformed),
        // In this format its own answer fails inside a stream.
        (Api::OpenAiResponses, "own", FailureClass::Server),
        (Api::OpenAiChat, "limited", FailureClass::RateLimit),
        (Api::Anthropic, "limited", FailureClass::RateLimit),
    ];
    for (api, model, class) in failures {
        let answer = asked(api, model).await;
        assert_eq!((answer.failure().class, answer.text.as_str()), (class, ""), "{api:?} {model}: {answer:?}");
    }
}
