//! OpenAI responses, by the provider's documentation (platform.openai.com/docs) and by the words with which the API
//! refuses.

use serde_json::Value;

use super::shape::{are_unique, is, is_data_url, is_object_text, is_plain, list, text};
use super::{Rule, rules};
use crate::histories::served::Sent;

pub(super) const RULES: &[Rule] = rules![
    items_are_known,
    the_last_item_is_not_the_models,
    each_call_has_one_output_behind_it,
    outputs_stand_together,
    call_ids_fit,
    call_ids_are_unique,
    names_are_plain,
    arguments_are_an_object,
    item_ids_fit_and_are_unique,
    reasoning_is_followed_by_its_item,
    items_of_reasoning_follow_it,
    reasoning_is_readable_and_its_own,
    no_content_is_empty,
    content_is_of_its_role,
    images_are_of_known_types,
    files_are_pdf,
    nothing_is_kept_by_the_server,
    the_output_limit_is_at_least_16,
    tools_are_named_once,
];

fn items(sent: &Sent) -> &[Value] {
    list(&sent.body["input"])
}

fn of<'a>(sent: &'a Sent, kind: &'static str) -> impl Iterator<Item = &'a Value> {
    items(sent).iter().filter(move |item| is(item, kind))
}

/// Parts of messages and of outputs.
fn parts(sent: &Sent) -> impl Iterator<Item = &Value> {
    items(sent).iter().flat_map(|item| list(&item["content"]).iter().chain(list(&item["output"])))
}

/// Whether the model made it.
fn is_models(item: &Value) -> bool {
    is(item, "reasoning") || is(item, "function_call") || (is(item, "message") && item["role"] == "assistant")
}

/// `/docs/api-reference/responses/create`, `input`: of the kinds of items four are what a conversation is made of here.
fn items_are_known(sent: &Sent) -> bool {
    let known = ["message", "reasoning", "function_call", "function_call_output"];
    items(sent).iter().all(|item| known.contains(&text(&item["type"])))
}

/// `/docs/guides/conversation-state`: what is asked comes last.
fn the_last_item_is_not_the_models(sent: &Sent) -> bool {
    items(sent).last().is_some_and(|last| !is_models(last))
}

/// `/docs/guides/function-calling`: an output names its call by `call_id`; the API refuses a call without ("No tool
/// output found for function call") and an output without ("No tool call found for function call output").
fn each_call_has_one_output_behind_it(sent: &Sent) -> bool {
    let mut open: Vec<&str> = vec![];
    for item in items(sent) {
        let id = text(&item["call_id"]);
        if is(item, "function_call") {
            open.push(id);
        } else if is(item, "function_call_output") {
            let Some(at) = open.iter().position(|known| *known == id) else { return false };
            open.remove(at);
        }
    }
    open.is_empty()
}

/// `/docs/guides/function-calling`: outputs follow the model's items directly; servers that make messages of the items
/// (vLLM, llama.cpp) refuse a user between a call and its output.
fn outputs_stand_together(sent: &Sent) -> bool {
    let is_output = |item: &Value| is(item, "function_call_output");
    items(sent).windows(2).all(|pair| !is_output(&pair[1]) || is_output(&pair[0]) || is_models(&pair[0]))
}

/// The API: "string too long. Expected a string with maximum length 64"; relays want letters, digits, `_` and `-`.
fn call_ids_fit(sent: &Sent) -> bool {
    of(sent, "function_call").all(|call| is_plain(text(&call["call_id"]), 64))
}

/// `/docs/guides/function-calling`: the id tells which call an output is of.
fn call_ids_are_unique(sent: &Sent) -> bool {
    are_unique(of(sent, "function_call").map(|call| text(&call["call_id"])))
}

/// The API: "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'", at most 64.
fn names_are_plain(sent: &Sent) -> bool {
    let named = list(&sent.body["tools"]).iter().chain(of(sent, "function_call"));
    named.into_iter().all(|named| is_plain(text(&named["name"]), 64))
}

/// `/docs/api-reference/responses/create`, `function_call.arguments`: JSON. Servers that make messages of the items
/// fail where it is no object.
fn arguments_are_an_object(sent: &Sent) -> bool {
    of(sent, "function_call").all(|call| is_object_text(&call["arguments"]))
}

/// The API: "Expected an ID that begins with 'msg'" (`fc`, `rs`), at most 64 long, and "Duplicate item found with id".
fn item_ids_fit_and_are_unique(sent: &Sent) -> bool {
    let known = |item: &&Value| item["id"].is_string();
    let fits = |item: &Value| {
        let prefixes = [("message", "msg"), ("function_call", "fc"), ("reasoning", "rs")];
        let prefix = prefixes.iter().find(|(kind, _)| is(item, kind)).map(|(_, prefix)| *prefix);
        prefix.is_some_and(|prefix| text(&item["id"]).starts_with(prefix)) && text(&item["id"]).len() <= 64
    };
    items(sent).iter().filter(known).all(fits)
        && are_unique(items(sent).iter().filter(known).map(|item| text(&item["id"])))
}

/// `/docs/guides/reasoning`: reasoning goes back with what came after it; the API: "was provided without its required
/// following item".
fn reasoning_is_followed_by_its_item(sent: &Sent) -> bool {
    let rest = |at: usize| items(sent)[at + 1..].iter().find(|item| !is(item, "reasoning"));
    let is_followed = |at: usize| rest(at).is_some_and(|next| is_models(next) && next["id"].is_string());
    (0..items(sent).len()).all(|at| !is(&items(sent)[at], "reasoning") || is_followed(at))
}

/// The same: "was provided without its required 'reasoning' item". Items of these tests say in their ids that they
/// reasoned.
fn items_of_reasoning_follow_it(sent: &Sent) -> bool {
    (0..items(sent).len()).all(|at| {
        let has_reasoned = text(&items(sent)[at]["id"]).ends_with("_reasoned");
        !has_reasoned || at.checked_sub(1).is_some_and(|before| is(&items(sent)[before], "reasoning"))
    })
}

/// `/docs/guides/reasoning`: where nothing is stored, reasoning is its `encrypted_content`, which only its model can
/// read.
fn reasoning_is_readable_and_its_own(sent: &Sent) -> bool {
    let own = format!("{}#", sent.served.name());
    of(sent, "reasoning").all(|item| item["summary"].is_array() && text(&item["encrypted_content"]).starts_with(&own))
}

/// `/docs/api-reference/responses/create`: a message has content, and a text is not empty.
fn no_content_is_empty(sent: &Sent) -> bool {
    let has_text = |part: &Value| part["text"].is_null() || !text(&part["text"]).is_empty();
    let says = |content: &Value| !list(content).is_empty() || !text(content).is_empty();
    of(sent, "message").all(|message| says(&message["content"]))
        && of(sent, "function_call_output").all(|item| item["output"].is_string() || !list(&item["output"]).is_empty())
        && parts(sent).all(has_text)
}

/// `/docs/api-reference/responses/create`: the model's message is of `output_text` if it has its id and status, else a
/// text; a user's and an output are of `input_…`.
fn content_is_of_its_role(sent: &Sent) -> bool {
    let is_input = |part: &Value| ["input_text", "input_image", "input_file"].contains(&text(&part["type"]));
    items(sent).iter().all(|item| {
        let mut parts = list(&item["content"]).iter().chain(list(&item["output"]));
        match text(&item["role"]) {
            "assistant" if item["id"].is_string() && item["status"] == "completed" => {
                parts.all(|part| is(part, "output_text") && part["annotations"].is_array())
            }
            "assistant" => item["content"].is_string() && item["id"].is_null(),
            "user" | "" => is(item, "reasoning") || parts.all(is_input),
            _ => false,
        }
    })
}

/// `/docs/guides/images-vision`: PNG, JPEG, WebP and GIF.
fn images_are_of_known_types(sent: &Sent) -> bool {
    let known = ["image/png", "image/jpeg", "image/webp", "image/gif"];
    parts(sent).filter(|part| is(part, "input_image")).all(|part| is_data_url(&part["image_url"], &known))
}

/// `/docs/guides/pdf-files`: PDF, with its name.
fn files_are_pdf(sent: &Sent) -> bool {
    let fits =
        |part: &Value| is_data_url(&part["file_data"], &["application/pdf"]) && !text(&part["filename"]).is_empty();
    parts(sent).filter(|part| is(part, "input_file")).all(fits)
}

/// `/docs/guides/reasoning`: without `store` all that is needed is in the request; nothing in it refers to what the
/// server has.
fn nothing_is_kept_by_the_server(sent: &Sent) -> bool {
    let refers = ["previous_response_id", "conversation"].iter().any(|name| !sent.body[*name].is_null());
    sent.body["store"] == false && !refers
}

/// The API: "Expected a value >= 16" for `max_output_tokens`.
fn the_output_limit_is_at_least_16(sent: &Sent) -> bool {
    sent.body["max_output_tokens"].as_u64() >= Some(16)
}

/// `/docs/guides/function-calling`: a tool is a function with its schema; a name is there once.
fn tools_are_named_once(sent: &Sent) -> bool {
    let tools = list(&sent.body["tools"]);
    tools.iter().all(|tool| is(tool, "function") && is(&tool["parameters"], "object"))
        && are_unique(tools.iter().map(|tool| text(&tool["name"])))
}
