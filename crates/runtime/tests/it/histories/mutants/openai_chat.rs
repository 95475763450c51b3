//! Requests that chat completions refuse.

use serde_json::{Value, json};

use super::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    ("the_system_prompt_comes_first_and_once", |body| {
        let system = messages(body).remove(0);
        messages(body).push(system);
    }),
    ("the_last_message_is_not_the_models", |body| drop(messages(body).pop())),
    ("calls_are_answered_next", |body| drop(messages(body).remove(4))),
    ("ids_fit", |body| name_call(body, 0, &"x".repeat(41))),
    ("ids_are_unique", |body| {
        name_call(body, 0, "a");
        name_call(body, 1, "a");
    }),
    ("names_are_plain", |body| messages(body)[2]["tool_calls"][0]["function"]["name"] = json!("a.b")),
    ("arguments_are_an_object", |body| {
        messages(body)[2]["tool_calls"][0]["function"]["arguments"] = json!("{\"pa");
    }),
    ("no_message_is_empty", |body| messages(body)[5]["content"] = Value::Null),
    ("no_part_is_empty", |body| messages(body)[1]["content"][0]["text"] = json!("")),
    ("images_are_of_known_types", |body| {
        messages(body)[1]["content"][1]["image_url"]["url"] = json!("data:image/bmp;base64,Ym1w");
    }),
    ("files_are_pdf", |body| messages(body)[1]["content"][2]["file"]["file_data"] = json!("JVBERg==")),
    ("the_output_is_limited_once", |body| body["max_tokens"] = json!(5)),
    ("usage_is_asked_of_a_stream", |body| body["stream"] = json!(false)),
    ("reasoning_goes_where_it_is_wanted", |body| messages(body)[2]["reasoning_content"] = json!("hm")),
    ("tools_are_named_once", |body| {
        body["tools"][1]["function"]["name"] = body["tools"][0]["function"]["name"].clone();
    }),
];

fn messages(body: &mut Value) -> &mut Vec<Value> {
    body["messages"].as_array_mut().expect("a list")
}

fn name_call(body: &mut Value, call: usize, id: &str) {
    messages(body)[2]["tool_calls"][call]["id"] = json!(id);
    messages(body)[3 + call]["tool_call_id"] = json!(id);
}
