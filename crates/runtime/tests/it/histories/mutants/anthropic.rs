//! Requests that Anthropic Messages refuses.

use serde_json::{Value, json};

use super::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    ("the_first_message_is_the_users", |body| drop(messages(body).remove(0))),
    ("roles_alternate", |body| messages(body).push(json!({ "role": "user", "content": [text("and")] }))),
    ("the_last_message_is_the_users", |body| drop(messages(body).pop())),
    ("calls_are_answered_in_the_next_message", |body| drop(content(body, 2).pop())),
    ("results_come_first", |body| content(body, 2).insert(0, text("so"))),
    ("ids_are_plain", |body| name_call(body, 0, "a b")),
    ("ids_are_unique", |body| {
        name_call(body, 0, "a");
        name_call(body, 1, "a");
    }),
    ("names_are_plain", |body| content(body, 1)[2]["name"] = json!("a b")),
    ("input_is_an_object", |body| content(body, 1)[2]["input"] = json!("{}")),
    ("no_message_is_empty", |body| content(body, 3).clear()),
    ("no_text_is_blank", |body| content(body, 3)[0] = text(" \n")),
    ("an_error_is_text", |body| {
        content(body, 2)[0]["is_error"] = json!(true);
        content(body, 2)[0]["content"] = json!([]);
    }),
    ("images_are_of_known_types", |body| content(body, 0)[0]["source"]["media_type"] = json!("image/bmp")),
    ("documents_are_pdf", |body| content(body, 0)[1]["source"]["media_type"] = json!("text/html")),
    ("signatures_are_the_models_own", |body| content(body, 1)[0]["signature"] = json!("openai/gpt-5.4#1")),
    ("no_turn_ends_with_thinking", |body| {
        let thought = content(body, 1)[0].clone();
        content(body, 3).push(thought);
    }),
    ("a_turn_with_a_budget_begins_with_thinking", |body| {
        messages(body).truncate(3);
        content(body, 1).remove(0);
    }),
    ("a_budget_fits", |body| body["thinking"]["budget_tokens"] = body["max_tokens"].clone()),
    ("at_most_four_breakpoints", |body| {
        for block in content(body, 0) {
            block["cache_control"] = json!({ "type": "ephemeral" });
        }
    }),
    ("thinking_is_not_marked", |body| content(body, 1)[0]["cache_control"] = json!({ "type": "ephemeral" })),
    ("tools_are_named_once_and_have_a_schema", |body| body["tools"][1]["name"] = body["tools"][0]["name"].clone()),
    ("the_output_is_limited", |body| body["max_tokens"] = json!(0)),
];

fn messages(body: &mut Value) -> &mut Vec<Value> {
    body["messages"].as_array_mut().expect("a list")
}

fn content(body: &mut Value, message: usize) -> &mut Vec<Value> {
    messages(body)[message]["content"].as_array_mut().expect("a list")
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn name_call(body: &mut Value, call: usize, id: &str) {
    content(body, 1)[2 + call]["id"] = json!(id);
    content(body, 2)[call]["tool_use_id"] = json!(id);
}
