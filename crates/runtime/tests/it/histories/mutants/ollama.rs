//! Requests that Ollama refuses, or does not read as they are meant.

use serde_json::{Value, json};

use super::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    ("roles_are_known", |body| messages(body)[1]["role"] = json!("human")),
    ("the_last_message_is_not_the_models", |body| drop(messages(body).pop())),
    ("calls_are_answered_next_in_their_order", |body| messages(body).swap(3, 4)),
    ("ids_are_unique", |body| {
        messages(body)[2]["tool_calls"][1]["id"] = messages(body)[2]["tool_calls"][0]["id"].clone();
    }),
    ("arguments_are_an_object", |body| messages(body)[2]["tool_calls"][0]["function"]["arguments"] = json!("{}")),
    ("no_message_is_empty", |body| messages(body)[5]["content"] = json!("")),
    ("content_is_text", |body| messages(body)[6]["content"] = json!([{ "type": "text", "text": "thanks" }])),
    ("images_are_of_known_types", |body| messages(body)[1]["images"][0] = json!("Ym1w")),
    ("thinking_is_a_switch_or_a_level", |body| body["think"] = json!("xhigh")),
    ("the_window_and_the_output_are_limited", |body| body["options"]["num_ctx"] = json!(0)),
    ("nothing_is_dropped_in_silence", |body| body["truncate"] = json!(true)),
    ("tools_are_named_once", |body| {
        body["tools"][1]["function"]["name"] = body["tools"][0]["function"]["name"].clone();
    }),
];

fn messages(body: &mut Value) -> &mut Vec<Value> {
    body["messages"].as_array_mut().expect("a list")
}
