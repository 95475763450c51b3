//! Requests that the responses API refuses.

use serde_json::{Value, json};

use super::Mutant;

/// Items: a question, reasoning, a text, two calls, two outputs, a text, a question.
pub(super) const MUTANTS: &[Mutant] = &[
    ("items_are_known", |body| input(body)[0]["type"] = json!("question")),
    ("the_last_item_is_not_the_models", |body| drop(input(body).pop())),
    ("each_call_has_one_output_behind_it", |body| drop(input(body).remove(6))),
    ("outputs_stand_together", |body| {
        let question = input(body)[8].clone();
        input(body).insert(6, question);
    }),
    ("call_ids_fit", |body| name_call(body, 0, &"x".repeat(65))),
    ("call_ids_are_unique", |body| {
        name_call(body, 0, "a");
        name_call(body, 1, "a");
    }),
    ("names_are_plain", |body| input(body)[3]["name"] = json!("a.b")),
    ("arguments_are_an_object", |body| input(body)[3]["arguments"] = json!("")),
    ("item_ids_fit_and_are_unique", |body| input(body)[3]["id"] = input(body)[4]["id"].clone()),
    ("reasoning_is_followed_by_its_item", |body| {
        let reasoning = input(body).remove(1);
        input(body).push(reasoning);
    }),
    ("items_of_reasoning_follow_it", |body| drop(input(body).remove(1))),
    ("reasoning_is_readable_and_its_own", |body| drop(fields(&mut input(body)[1]).remove("encrypted_content"))),
    ("no_content_is_empty", |body| input(body)[2]["content"][0]["text"] = json!("")),
    ("content_is_of_its_role", |body| input(body)[2]["content"][0]["type"] = json!("input_text")),
    ("images_are_of_known_types", |body| {
        input(body)[0]["content"][1]["image_url"] = json!("data:image/bmp;base64,Ym1w");
    }),
    ("files_are_pdf", |body| input(body)[0]["content"][2]["filename"] = json!("")),
    ("nothing_is_kept_by_the_server", |body| body["store"] = json!(true)),
    ("the_output_limit_is_at_least_16", |body| body["max_output_tokens"] = json!(15)),
    ("tools_are_named_once", |body| body["tools"][1]["name"] = body["tools"][0]["name"].clone()),
];

fn input(body: &mut Value) -> &mut Vec<Value> {
    body["input"].as_array_mut().expect("a list")
}

fn fields(item: &mut Value) -> &mut serde_json::Map<String, Value> {
    item.as_object_mut().expect("an object")
}

fn name_call(body: &mut Value, call: usize, id: &str) {
    input(body)[3 + call]["call_id"] = json!(id);
    input(body)[5 + call]["call_id"] = json!(id);
}
