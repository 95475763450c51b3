//! Requests that Gemini refuses.

use serde_json::{Value, json};

use super::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    ("roles_alternate", |body| {
        let last = contents(body)[4].clone();
        contents(body).push(last);
    }),
    ("the_user_begins_and_ends", |body| drop(contents(body).pop())),
    ("each_call_has_its_response_in_the_next_content", |body| drop(parts(body, 2).pop())),
    ("responses_keep_the_order_of_their_calls", |body| parts(body, 2).swap(0, 1)),
    ("no_content_is_empty", |body| parts(body, 3).clear()),
    ("each_part_is_one_thing", |body| parts(body, 1).last_mut().expect("a call")["text"] = json!("so")),
    ("no_text_is_empty", |body| parts(body, 4)[0]["text"] = json!("")),
    ("names_fit", |body| {
        call(body)["name"] = json!("9 lives");
        parts(body, 2)[0]["functionResponse"]["name"] = json!("9 lives");
    }),
    ("arguments_and_responses_are_objects", |body| call(body)["args"] = json!("{}")),
    ("the_first_call_is_signed", |body| {
        let at = first_call(body);
        parts(body, 1)[at].as_object_mut().expect("a part").remove("thoughtSignature");
    }),
    ("signatures_are_the_models_own", |body| {
        let at = first_call(body);
        parts(body, 1)[at]["thoughtSignature"] = json!("google/gemini-3-pro#1");
    }),
    ("files_are_of_known_types", |body| parts(body, 0)[1]["inlineData"]["mimeType"] = json!("image/gif")),
    ("ids_pair", |body| call(body)["id"] = json!("other")),
    ("thinking_is_set_in_one_way", |body| {
        body["generationConfig"]["thinkingConfig"]["thinkingBudget"] = json!(1_024);
    }),
    ("the_output_is_limited", |body| body["generationConfig"]["maxOutputTokens"] = json!(0)),
    ("tools_are_named_once", |body| {
        let declared = &mut body["tools"][0]["functionDeclarations"];
        declared[1]["name"] = declared[0]["name"].clone();
    }),
];

fn contents(body: &mut Value) -> &mut Vec<Value> {
    body["contents"].as_array_mut().expect("a list")
}

fn parts(body: &mut Value, content: usize) -> &mut Vec<Value> {
    contents(body)[content]["parts"].as_array_mut().expect("a list")
}

fn first_call(body: &mut Value) -> usize {
    parts(body, 1).iter().position(|part| !part["functionCall"].is_null()).expect("a call")
}

fn call(body: &mut Value) -> &mut Value {
    let at = first_call(body);
    &mut parts(body, 1)[at]["functionCall"]
}
