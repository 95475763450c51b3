//! OpenAI chat completions, by the provider's documentation (platform.openai.com/docs) and by the words with which it,
//! and the strictest of those that speak the same, refuse.

use serde_json::Value;

use super::shape::{are_the_same, are_unique, is, is_data_url, is_object_text, is_plain, list, text};
use super::{Rule, rules};
use crate::histories::served::Sent;

pub(super) const RULES: &[Rule] = rules![
    the_system_prompt_comes_first_and_once,
    the_last_message_is_not_the_models,
    calls_are_answered_next,
    ids_fit,
    ids_are_unique,
    names_are_plain,
    arguments_are_an_object,
    no_message_is_empty,
    no_part_is_empty,
    images_are_of_known_types,
    files_are_pdf,
    the_output_is_limited_once,
    usage_is_asked_of_a_stream,
    reasoning_goes_where_it_is_wanted,
    tools_are_named_once,
];

fn messages(sent: &Sent) -> &[Value] {
    list(&sent.body["messages"])
}

fn calls(sent: &Sent) -> impl Iterator<Item = &Value> {
    messages(sent).iter().flat_map(|message| list(&message["tool_calls"]))
}

fn parts(sent: &Sent) -> impl Iterator<Item = &Value> {
    messages(sent).iter().flat_map(|message| list(&message["content"]))
}

/// `/docs/api-reference/chat/create`, `messages`: roles. Servers with a template of their own (vLLM, llama.cpp) refuse
/// a system message that is not the first.
fn the_system_prompt_comes_first_and_once(sent: &Sent) -> bool {
    let known = ["system", "user", "assistant", "tool"];
    messages(sent).iter().all(|message| known.contains(&text(&message["role"])))
        && messages(sent).iter().skip(1).all(|message| message["role"] != "system")
}

/// Mistral (docs.mistral.ai, chat completions): the last message is a user's or a tool's, unless it is marked as a
/// prefix.
fn the_last_message_is_not_the_models(sent: &Sent) -> bool {
    messages(sent).last().is_some_and(|last| last["role"] == "user" || last["role"] == "tool")
}

/// `/docs/guides/function-calling`: behind a message with `tool_calls` there is one tool message for each id, before
/// anything else, and nowhere else is there one.
fn calls_are_answered_next(sent: &Sent) -> bool {
    let mut rest = messages(sent);
    while let Some((message, behind)) = rest.split_first() {
        let results = behind.iter().take_while(|next| next["role"] == "tool").count();
        let (answers, others) = behind.split_at(results);
        let asked = list(&message["tool_calls"]).iter().map(|call| text(&call["id"]));
        if message["role"] == "tool" || !are_the_same(asked, answers.iter().map(|next| text(&next["tool_call_id"]))) {
            return false;
        }
        rest = others;
    }
    true
}

/// The API: "string too long. Expected a string with maximum length 40". Relays to other providers refuse characters
/// beside letters, digits, `_` and `-`.
fn ids_fit(sent: &Sent) -> bool {
    calls(sent).all(|call| is_plain(text(&call["id"]), 40))
}

/// `/docs/api-reference/chat/create`: a tool message names the call that it answers, so no two calls have one id.
fn ids_are_unique(sent: &Sent) -> bool {
    are_unique(calls(sent).map(|call| text(&call["id"])))
}

/// `/docs/api-reference/chat/create`, `function.name`: letters, digits, `_` and `-`, at most 64.
fn names_are_plain(sent: &Sent) -> bool {
    let named = list(&sent.body["tools"]).iter().chain(calls(sent));
    named.into_iter().all(|named| is_plain(text(&named["function"]["name"]), 64))
}

/// `/docs/api-reference/chat/create`, `function.arguments`: JSON. Servers with a template of their own read it, and
/// fail where it is no object.
fn arguments_are_an_object(sent: &Sent) -> bool {
    calls(sent).all(|call| is_object_text(&call["function"]["arguments"]))
}

/// `/docs/api-reference/chat/create`, `messages`: content is required but for an assistant that calls. The API takes an
/// empty text, others (Moonshot, relays to Anthropic) do not; the result of a call may be one.
fn no_message_is_empty(sent: &Sent) -> bool {
    messages(sent).iter().all(|message| {
        let says = !text(&message["content"]).is_empty() || !list(&message["content"]).is_empty();
        let calls = !list(&message["tool_calls"]).is_empty();
        match text(&message["role"]) {
            "tool" => message["content"].is_string(),
            "assistant" => says || (calls && message["content"].is_null()),
            _ => says,
        }
    })
}

/// `/docs/api-reference/chat/create`: a part is a text, an image or a file.
fn no_part_is_empty(sent: &Sent) -> bool {
    parts(sent).all(|part| match text(&part["type"]) {
        "text" => !text(&part["text"]).is_empty(),
        "image_url" => part["image_url"].is_object(),
        "file" => part["file"].is_object(),
        _ => false,
    })
}

/// `/docs/guides/images-vision`: PNG, JPEG, WebP and GIF.
fn images_are_of_known_types(sent: &Sent) -> bool {
    let known = ["image/png", "image/jpeg", "image/webp", "image/gif"];
    parts(sent).filter(|part| is(part, "image_url")).all(|part| is_data_url(&part["image_url"]["url"], &known))
}

/// `/docs/guides/pdf-files`: PDF, with its name.
fn files_are_pdf(sent: &Sent) -> bool {
    let fits =
        |file: &Value| is_data_url(&file["file_data"], &["application/pdf"]) && !text(&file["filename"]).is_empty();
    parts(sent).filter(|part| is(part, "file")).all(|part| fits(&part["file"]))
}

/// `/docs/api-reference/chat/create`: `max_completion_tokens`, which newer models want, or `max_tokens`, never both.
fn the_output_is_limited_once(sent: &Sent) -> bool {
    let limits = ["max_tokens", "max_completion_tokens"].map(|name| sent.body[name].as_u64());
    limits.iter().flatten().count() == 1 && limits.iter().flatten().all(|limit| *limit > 0)
}

/// `/docs/api-reference/chat/create`, `stream_options`: only where `stream` is true.
fn usage_is_asked_of_a_stream(sent: &Sent) -> bool {
    sent.body["stream_options"].is_null() || sent.body["stream"] == true
}

/// DeepSeek (api-docs.deepseek.com/guides/thinking_mode): the reasoning of a message with calls goes back with it, or
/// the request is refused, also where it is empty. OpenAI knows no such field.
fn reasoning_goes_where_it_is_wanted(sent: &Sent) -> bool {
    let is_wanted = sent.served.base_url.contains("api.deepseek.com");
    messages(sent).iter().all(|message| {
        let calls = !list(&message["tool_calls"]).is_empty();
        text(&message["reasoning_content"]).is_empty() != (is_wanted && calls)
    })
}

/// `/docs/guides/function-calling`: a list of tools is not empty, and a name is there once.
fn tools_are_named_once(sent: &Sent) -> bool {
    let tools = list(&sent.body["tools"]);
    (sent.body["tools"].is_null() || !tools.is_empty())
        && tools.iter().all(|tool| is(tool, "function") && is(&tool["function"]["parameters"], "object"))
        && are_unique(tools.iter().map(|tool| text(&tool["function"]["name"])))
}
