//! Google Gemini, by the provider's documentation (ai.google.dev) and by the words with which the API refuses.

use serde_json::Value;

use super::shape::{are_unique, is_base64, list, text};
use super::{Rule, rules};
use crate::histories::served::Sent;

pub(super) const RULES: &[Rule] = rules![
    roles_alternate,
    the_user_begins_and_ends,
    each_call_has_its_response_in_the_next_content,
    responses_keep_the_order_of_their_calls,
    no_content_is_empty,
    each_part_is_one_thing,
    no_text_is_empty,
    names_fit,
    arguments_and_responses_are_objects,
    the_first_call_is_signed,
    signatures_are_the_models_own,
    files_are_of_known_types,
    ids_pair,
    thinking_is_set_in_one_way,
    the_output_is_limited,
    tools_are_named_once,
];

fn contents(sent: &Sent) -> &[Value] {
    list(&sent.body["contents"])
}

fn parts(sent: &Sent) -> impl Iterator<Item = &Value> {
    contents(sent).iter().flat_map(|content| list(&content["parts"]))
}

/// Parts of contents and of the responses in them.
fn inner_parts(sent: &Sent) -> impl Iterator<Item = &Value> {
    parts(sent).flat_map(|part| std::iter::once(part).chain(list(&part["functionResponse"]["parts"])))
}

fn parts_of<'a>(content: &'a Value, kind: &'static str) -> impl Iterator<Item = &'a Value> {
    list(&content["parts"]).iter().map(move |part| &part[kind]).filter(|part| !part.is_null())
}

fn names<'a>(content: &'a Value, kind: &'static str) -> Vec<&'a str> {
    parts_of(content, kind).map(|part| text(&part["name"])).collect()
}

/// Whether the model signs its calls.
fn is_by_level(sent: &Sent) -> bool {
    sent.served.model.starts_with("gemini-3")
}

/// `/api/caching#Content`, `role`: `user` or `model`; `/gemini-api/docs/text-generation`: turns of both in a
/// conversation.
fn roles_alternate(sent: &Sent) -> bool {
    let known = |content: &Value| content["role"] == "user" || content["role"] == "model";
    contents(sent).iter().all(known) && contents(sent).windows(2).all(|pair| pair[0]["role"] != pair[1]["role"])
}

/// The API: "ensure that multiturn requests alternate between user and model", and end with the user's.
fn the_user_begins_and_ends(sent: &Sent) -> bool {
    [contents(sent).first(), contents(sent).last()].iter().flatten().filter(|content| content["role"] == "user").count()
        == 2
}

/// The API: "the number of function response parts is equal to the number of function call parts of the function call
/// turn", which comes directly before it.
fn each_call_has_its_response_in_the_next_content(sent: &Sent) -> bool {
    let nothing = Value::Null;
    let next = contents(sent).iter().skip(1).chain([&nothing]);
    let count = |content: &Value, kind| parts_of(content, kind).count();
    contents(sent).first().is_none_or(|content| count(content, "functionResponse") == 0)
        && contents(sent)
            .iter()
            .zip(next)
            .all(|(content, next)| count(content, "functionCall") == count(next, "functionResponse"))
}

/// `/gemini-api/docs/function-calling`: a response names its function; without ids their order tells the calls of one
/// name apart.
fn responses_keep_the_order_of_their_calls(sent: &Sent) -> bool {
    contents(sent).windows(2).all(|pair| names(&pair[0], "functionCall") == names(&pair[1], "functionResponse"))
}

/// The API: "contents.parts must not be empty".
fn no_content_is_empty(sent: &Sent) -> bool {
    !contents(sent).is_empty() && contents(sent).iter().all(|content| !list(&content["parts"]).is_empty())
}

/// The API: "required oneof field 'data' must have one initialized field".
fn each_part_is_one_thing(sent: &Sent) -> bool {
    let kinds = ["text", "inlineData", "functionCall", "functionResponse"];
    inner_parts(sent).all(|part| kinds.iter().filter(|kind| !part[**kind].is_null()).count() == 1)
}

/// `/gemini-api/docs/thought-signatures`: a text may be empty where it carries a signature; the API refuses others.
fn no_text_is_empty(sent: &Sent) -> bool {
    let system = list(&sent.body["systemInstruction"]["parts"]).iter();
    system.chain(inner_parts(sent)).all(|part| part["text"] != "" || part["thoughtSignature"].is_string())
}

/// `/api/caching#FunctionDeclaration`, `name`: begins with a letter or `_`, then letters, digits, `_`, `-`, `.` and
/// `:`, at most 64.
fn names_fit(sent: &Sent) -> bool {
    let called = parts(sent).flat_map(|part| [&part["functionCall"], &part["functionResponse"]]);
    let declared = list(&sent.body["tools"]).iter().flat_map(|tool| list(&tool["functionDeclarations"]));
    called.filter(|part| !part.is_null()).chain(declared).all(|named| {
        let name = text(&named["name"]);
        let rest = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.len() <= 64 && name.chars().all(rest)
    })
}

/// `/api/caching#FunctionCall`, `args`, and `#FunctionResponse`, `response`: objects.
fn arguments_and_responses_are_objects(sent: &Sent) -> bool {
    contents(sent).iter().all(|content| {
        parts_of(content, "functionCall").all(|call| call["args"].is_object())
            && parts_of(content, "functionResponse").all(|response| response["response"].is_object())
    })
}

/// `/gemini-api/docs/thought-signatures`: Gemini 3 refuses a call of a step whose first call has no signature.
fn the_first_call_is_signed(sent: &Sent) -> bool {
    let first = |content: &'_ Value| {
        let call = list(&content["parts"]).iter().find(|part| !part["functionCall"].is_null());
        call.is_none_or(|part| !text(&part["thoughtSignature"]).is_empty())
    };
    !is_by_level(sent) || contents(sent).iter().all(first)
}

/// `/gemini-api/docs/thought-signatures`: a signature goes back to the model that gave it; one text stands for none.
fn signatures_are_the_models_own(sent: &Sent) -> bool {
    let own = format!("{}#", sent.served.name());
    let known = |signature: &str| signature.starts_with(&own) || signature == "skip_thought_signature_validator";
    parts(sent).all(|part| part["thoughtSignature"].as_str().is_none_or(known))
}

/// `/gemini-api/docs/image-understanding` and `/gemini-api/docs/document-processing`: PNG, JPEG, WebP, HEIC, HEIF and
/// PDF. `/gemini-api/docs/function-calling`: only Gemini 3 looks into a response.
fn files_are_of_known_types(sent: &Sent) -> bool {
    let known = ["image/png", "image/jpeg", "image/webp", "image/heic", "image/heif", "application/pdf"];
    let fits = |file: &Value| known.contains(&text(&file["mimeType"])) && is_base64(&file["data"]);
    let has_inner = parts(sent).any(|part| !part["functionResponse"]["parts"].is_null());
    (is_by_level(sent) || !has_inner)
        && inner_parts(sent).map(|part| &part["inlineData"]).filter(|file| !file.is_null()).all(fits)
}

/// `/api/caching#FunctionResponse`, `id`: that of its call, where the call has one.
fn ids_pair(sent: &Sent) -> bool {
    let ids = |content: &'_ Value, kind| {
        parts_of(content, kind).map(|part| part["id"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    contents(sent).windows(2).all(|pair| ids(&pair[0], "functionCall") == ids(&pair[1], "functionResponse"))
        && contents(sent)
            .iter()
            .all(|content| are_unique(ids(content, "functionCall").iter().flatten().map(|id| &**id)))
}

/// `/gemini-api/docs/thinking`: a budget or a level, not both; Gemini 3 takes a level.
fn thinking_is_set_in_one_way(sent: &Sent) -> bool {
    let thinking = &sent.body["generationConfig"]["thinkingConfig"];
    let (budget, level) = (!thinking["thinkingBudget"].is_null(), !thinking["thinkingLevel"].is_null());
    thinking.is_null() || (budget != level && level == is_by_level(sent))
}

/// `/api/generate-content#generationconfig`, `maxOutputTokens`.
fn the_output_is_limited(sent: &Sent) -> bool {
    sent.body["generationConfig"]["maxOutputTokens"].as_u64() >= Some(1)
}

/// `/gemini-api/docs/function-calling`: declarations, each name once.
fn tools_are_named_once(sent: &Sent) -> bool {
    let declared = |tool: &'_ Value| !list(&tool["functionDeclarations"]).is_empty();
    let names = list(&sent.body["tools"]).iter().flat_map(|tool| list(&tool["functionDeclarations"]));
    list(&sent.body["tools"]).iter().all(declared) && are_unique(names.map(|tool| text(&tool["name"])))
}
