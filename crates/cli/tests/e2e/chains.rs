//! A chain of failures on each wire format, through the real program: a refused key, an unsupported thinking level, a quota,
//! a missing model; then another model answers.

use serde_json::{Value, json};

use crate::failover::asked;
use crate::formats::answer_of;
use crate::support::{Does, Home, Planned, all, refused, serve_whole, whole};

/// The responses of a provider of one format.
struct Case {
    api: &'static str,
    /// The field for the thinking level.
    level: &'static str,
    key: fn() -> Value,
    thinking: fn() -> Value,
    quota: fn() -> Value,
    model: fn() -> Value,
}

const fn openai(api: &'static str, level: &'static str) -> Case {
    Case {
        api,
        level,
        key: || json!({ "error": { "message": "Incorrect API key provided", "code": "invalid_api_key" } }),
        thinking: || json!({ "error": { "message": "Unsupported value: 'medium'", "param": "reasoning.effort" } }),
        quota: || json!({ "error": { "message": "Rate limit reached", "code": "rate_limit_exceeded" } }),
        model: || json!({ "error": { "message": "The model does not exist", "code": "model_not_found" } }),
    }
}

const CASES: [Case; 5] = [
    openai("openai-chat", "reasoning_effort"),
    openai("openai-responses", "effort"),
    Case {
        api: "anthropic",
        level: "budget_tokens",
        key: || json!({ "type": "error", "error": { "type": "authentication_error", "message": "invalid x-api-key" } }),
        thinking: || {
            let message = "This model does not support the effort parameter.";
            json!({ "type": "error", "error": { "type": "invalid_request_error", "message": message } })
        },
        quota: || json!({ "type": "error", "error": { "type": "rate_limit_error", "message": "slow down" } }),
        model: || json!({ "type": "error", "error": { "type": "not_found_error", "message": "model: scripted" } }),
    },
    Case {
        api: "gemini",
        level: "thinkingLevel",
        key: || json!({ "error": { "code": 401, "status": "UNAUTHENTICATED", "message": "no valid key" } }),
        thinking: || {
            let message = "Thinking level is not supported for this model.";
            json!({ "error": { "code": 400, "status": "INVALID_ARGUMENT", "message": message } })
        },
        quota: || json!({ "error": { "code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow down" } }),
        model: || json!({ "error": { "code": 404, "status": "NOT_FOUND", "message": "models/scripted is not found" } }),
    },
    Case {
        api: "ollama",
        level: "think",
        key: || json!({ "error": "unauthorized" }),
        thinking: || json!({ "error": "\"scripted\" does not support thinking" }),
        quota: || json!({ "error": "too many requests" }),
        model: || json!({ "error": "model 'scripted' not found" }),
    },
];

/// A model that refuses each level but low: the next run begins with low, until the model is configured otherwise.
#[test]
pub(crate) fn r53_a_level_that_a_model_refused_is_not_asked_for_again() {
    let server = Planned::start(|_, asked| {
        let refusal = json!({ "error": { "message": "Unsupported value", "param": "reasoning_effort" } });
        Does::Answer(match asked.body["reasoning_effort"].as_str() {
            Some("low") => whole(&["Done."]),
            _ => refused(400, &refusal),
        })
    });
    let home = Home::new()
        .served_at(&server.base_url)
        .with("LIMULUS_MODELS__ACME/SCRIPTED__THINKING_LEVELS", "off,low,medium,high")
        .with("LIMULUS_AGENTS__MAIN__THINKING", "high");
    let asked = |home: &Home| {
        let before = server.seen().len();
        home.run(&["agent", "-m", "What is here?"]).expect_code(0);
        let levels = server.seen().into_iter().skip(before).map(|asked| asked.body["reasoning_effort"].clone());
        levels.map(|level| level.as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(asked(&home), ["high", "medium", "low"]);
    assert_eq!(asked(&home), ["low"]);
    let listed = home.run(&["profiles", "list"]).expect_code(0).out;
    assert!(listed.contains("scripted refused thinking high, so low is requested until "), "{listed}");
    assert_eq!(home.json(&["profiles", "list"])[0]["lowered"][0]["accepted"], "low");
    let home = home.with("LIMULUS_MODELS__ACME/SCRIPTED__THINKING_LEVELS", "low,high");
    assert_eq!(asked(&home), ["high", "low"]);
}

/// Refusals with a wait of 0.
fn at_once(refusal: &str) -> String {
    refusal.replacen("\r\n", "\r\nretry-after: 0\r\n", 1)
}

#[test]
pub(crate) fn r50_r51_r53_a_chain_of_keys_levels_and_models_on_each_wire_format() {
    for Case { api, level, key, thinking, quota, model } in CASES {
        let [key, thinking, quota, model] = [(401, key()), (400, thinking()), (429, quota()), (404, model())]
            .map(|(status, body)| at_once(&refused(status, &body)));
        let answers = vec![key, thinking, quota, model, answer_of(api)];
        let expected = answers.len();
        let (address, bodies) = serve_whole(answers);
        // Other servers than those whose models are known to think refuse the parameter.
        let known = ["SCRIPTED", "OTHER"].map(|model| format!("LIMULUS_MODELS__ACME/{model}__THINKING_LEVELS"));
        let home = if api == "openai-chat" {
            known.iter().fold(Home::new(), |home, key| home.with(key, "off,low,medium,high"))
        } else {
            Home::new()
        };
        let home = home
            .served_at(&address)
            .with("LIMULUS_PROVIDERS__ACME__API", api)
            .with("LIMULUS_PROVIDERS__ACME__PROFILES__0__NAME", "first")
            .with("LIMULUS_PROVIDERS__ACME__PROFILES__0__KEY", "not-a-secret")
            .with("LIMULUS_PROVIDERS__ACME__PROFILES__1__NAME", "second")
            .with("LIMULUS_PROVIDERS__ACME__PROFILES__1__KEY", "nor-is-this")
            .with("LIMULUS_AGENTS__MAIN__FALLBACKS", "acme/other")
            .with("LIMULUS_AGENTS__MAIN__THINKING", "medium")
            // Half of it is more than any budget of these levels.
            .with("LIMULUS_MODELS__ACME/SCRIPTED__MAX_OUTPUT", "32000")
            .with("LIMULUS_MODELS__ACME/OTHER__MAX_OUTPUT", "32000");
        let answer = home.run(&["agent", "-m", "What is here?"]).expect_code(0);
        assert_eq!(answer.out, "There is one file.\n", "{api}: {answer:?}");
        let mut chain = vec!["acme/scripted (second)"; expected];
        (chain[0], chain[expected - 1]) = ("acme/scripted (first)", "acme/other (second)");
        assert_eq!(asked(&home, "main"), chain, "{api}");
        assert!(answer.err.contains("switches to acme/other (second)"), "{api}: {answer:?}");
        let bodies: Vec<Value> = bodies.iter().take(expected).collect();
        let levels: Vec<Vec<Value>> = bodies.iter().map(|body| all(body, level)).collect();
        let [first, refused, lowered, again, other] = &levels[..] else { panic!("{api}: {levels:?}") };
        assert!(first == refused && refused != lowered && lowered == again && other == first, "{api}: {levels:?}");
    }
}
