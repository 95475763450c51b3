//! Prompt caching: each request begins with what the request before it to the same model had, marks for the cache aside.

use std::sync::Arc;

use models::{Api, AssistantMessage, BlockContent, Cached, CallOf, ContentBlock, Message, ModelSet, Request};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};
use serde_json::Value;

use crate::rendering::{formats, request};

/// What happens in a conversation.
#[derive(Debug, Clone)]
enum Step {
    /// The model calls tools and receives their results; then perhaps a message comes before the next request.
    Calls { text: Option<String>, reasons: bool, calls: usize, steer: Option<String> },
    /// The model answers, and the user goes on, with a note before the message or without.
    Answer { text: String, note: bool, user: String },
}

fn word() -> impl Strategy<Value = String> {
    "[a-z\"\\\\ \n潮🦀]{0,12}"
}

fn step() -> impl Strategy<Value = Step> {
    let calls = (prop::option::of(word()), any::<bool>(), 1..3_usize, prop::option::of(word()));
    let answer = (word(), any::<bool>(), word());
    prop_oneof![
        calls.prop_map(|(text, reasons, calls, steer)| Step::Calls { text, reasons, calls, steer }),
        answer.prop_map(|(text, note, user)| Step::Answer { text, note, user }),
    ]
}

/// The messages of a step, which the model `model` answers.
fn messages(step: Step, at: usize, model: &str) -> Vec<Message> {
    let block = |held, signature: Option<&str>| ContentBlock { held, signature: signature.map(Arc::from) };
    let said = |blocks| Message::Assistant(AssistantMessage { model: format!("acme/{model}").into(), blocks });
    match step {
        Step::Calls { text, reasons, calls, steer } => {
            let id = |call: usize| -> Arc<str> { format!("call_{at}_{call}").into() };
            let reasoning = reasons.then(|| block(BlockContent::Reasoning("hm".into()), Some("2 c2ln")));
            let text = text.map(|text| block(BlockContent::Text(text.into()), None));
            let call = |call| CallOf { provider_id: id(call), tool: "ls".into(), arguments: r#"{"path":"a"}"#.into() };
            let asked = (0..calls).map(|at| block(BlockContent::Call(call(at)), None));
            let result = |at: usize| Message::Result {
                provider_id: id(at),
                tool: "ls".into(),
                text: format!("result {at}").into(),
                is_error: at == 1,
                files: vec![],
            };
            let answer = said(reasoning.into_iter().chain(text).chain(asked).collect());
            let steer = steer.map(|text| Message::user(format!("[STEER] {text}")));
            std::iter::once(answer).chain((0..calls).map(result)).chain(steer).collect()
        }
        Step::Answer { text, note, user } => {
            let note = note.then(|| Message::user(format!("Note from limulus: today is day {at}.")));
            let answer = said(vec![block(BlockContent::Text(format!("It is {text}.").into()), None)]);
            std::iter::once(answer).chain(note).chain([Message::user(format!("And {user}?"))]).collect()
        }
    }
}

/// The body without marks for the cache: what a provider reads before its answer, in parts.
fn body(request: &Request) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.remove("cache_control");
                fields.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut body = serde_json::from_slice(&ModelSet::body(request)).expect("JSON");
    strip(&mut body);
    body
}

/// The first place at which a body does not begin with the one before it. The last message may have more parts.
fn differs(before: &Value, now: &Value) -> Option<String> {
    let list = ["messages", "input", "contents"].into_iter().find(|name| before[name].is_array()).expect("messages");
    let fields = before.as_object().expect("an object").iter().filter(|(name, _)| *name != list);
    if let Some((name, _)) = fields.into_iter().find(|(name, value)| now[name.as_str()] != **value) {
        return Some(name.clone());
    }
    let (before, now) = (before[list].as_array().expect("a list"), now[list].as_array().expect("a list"));
    let at = before.iter().zip(now).position(|(before, now)| before != now).unwrap_or(before.len().min(now.len()));
    if at == before.len() {
        return None;
    }
    let longer = |before: &Value, now: &Value| {
        let parts =
            ["content", "parts"].into_iter().find_map(|name| Some((before[name].as_array()?, now[name].as_array()?)));
        before["role"] == now["role"] && parts.is_some_and(|(before, now)| now.starts_with(before))
    };
    let is_longer = at + 1 == before.len() && now.get(at).is_some_and(|now| longer(&before[at], now));
    (!is_longer).then(|| format!("{list}[{at}]: {} is now {:?}", before[at], now.get(at)))
}

proptest! {
    #![proptest_config(Config {
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..Config::with_cases(10_000)
    })]

    /// R66: with steers, notes, and failovers to another model and back. A model that took over reads what it can read of the
    /// other one's answers, and when the first one goes on, it finds its own.
    #[test]
    fn r66_each_request_begins_with_the_one_before_it_to_the_same_model(
        steps in vec((step(), any::<bool>()), 1..7),
        format in 0..8_usize,
    ) {
        let formats: Vec<Api> = formats().collect();
        let mut request = request(&Arc::from("Be brief."), 2);
        request.endpoint.api = formats[format % formats.len()];
        request.messages.push(Cached::from(Message::user("Begin.")));
        let mut before: [Option<Value>; 2] = [None, None];
        for (at, (step, fails_over)) in steps.into_iter().enumerate() {
            let model = usize::from(fails_over);
            ["m", "other"][model].clone_into(&mut request.candidate.model);
            let now = body(&request);
            if let Some(wrong) = before[model].as_ref().and_then(|before| differs(before, &now)) {
                prop_assert!(false, "{:?}: {wrong}", request.endpoint.api);
            }
            before[model] = Some(now);
            let model = request.candidate.model.clone();
            request.messages.extend(messages(step, at, &model).into_iter().map(Cached::from));
        }
    }

    /// R66: a message is written the same way with a mark for the cache and without.
    #[test]
    fn r66_a_mark_for_the_cache_changes_nothing_else(steps in vec(step(), 0..5)) {
        let mut request = request(&Arc::from("Be brief."), 2);
        request.endpoint.api = Api::Anthropic;
        request.messages.push(Cached::from(Message::user("Begin.")));
        for (at, step) in steps.into_iter().enumerate() {
            request.messages.extend(messages(step, at, "m").into_iter().map(Cached::from));
        }
        let text = String::from_utf8(ModelSet::body(&request)).expect("UTF-8");
        let mark = r#","cache_control":{"type":"ephemeral"}"#;
        let marks = text.matches(mark).count();
        prop_assert!((3..=4).contains(&marks), "tools, system prompt, and one or two turns of the user: {marks}");
        let bare: Value = serde_json::from_str(&text.replace(mark, "")).expect("JSON without the marks");
        prop_assert_eq!(bare, body(&request));
    }
}
