//! Ollama's own API, by its documentation (docs.ollama.com) and its server's words.

use serde_json::Value;

use super::shape::{are_the_same, are_unique, is, is_base64, list, text};
use super::{Rule, rules};
use crate::histories::served::Sent;

pub(super) const RULES: &[Rule] = rules![
    roles_are_known,
    the_last_message_is_not_the_models,
    calls_are_answered_next_in_their_order,
    ids_are_unique,
    arguments_are_an_object,
    no_message_is_empty,
    content_is_text,
    images_are_of_known_types,
    thinking_is_a_switch_or_a_level,
    the_window_and_the_output_are_limited,
    nothing_is_dropped_in_silence,
    tools_are_named_once,
];

fn messages(sent: &Sent) -> &[Value] {
    list(&sent.body["messages"])
}

/// `/api/chat`, `messages.role`.
fn roles_are_known(sent: &Sent) -> bool {
    let known = ["system", "user", "assistant", "tool"];
    messages(sent).iter().all(|message| known.contains(&text(&message["role"])))
}

/// `/api/chat`: a message of the assistant at the end is continued as the beginning of the answer.
fn the_last_message_is_not_the_models(sent: &Sent) -> bool {
    messages(sent).last().is_some_and(|last| last["role"] != "assistant")
}

/// `/capabilities/tool-calling`: behind a message with calls there is a message of the role `tool` for each, with its
/// name; the templates of most models pair them by their order.
fn calls_are_answered_next_in_their_order(sent: &Sent) -> bool {
    let mut rest = messages(sent);
    while let Some((message, behind)) = rest.split_first() {
        let (answers, others) = behind.split_at(behind.iter().take_while(|next| next["role"] == "tool").count());
        let calls = list(&message["tool_calls"]);
        let names =
            calls.iter().map(|call| &call["function"]["name"]).eq(answers.iter().map(|next| &next["tool_name"]));
        let asked = calls.iter().map(|call| text(&call["id"]));
        let ids = are_the_same(asked, answers.iter().map(|next| text(&next["tool_call_id"])));
        if message["role"] == "tool" || !names || !ids {
            return false;
        }
        rest = others;
    }
    true
}

/// `/api/chat`, `tool_call_id`: it names the call.
fn ids_are_unique(sent: &Sent) -> bool {
    are_unique(messages(sent).iter().flat_map(|message| list(&message["tool_calls"])).map(|call| text(&call["id"])))
}

/// `/api/chat`, `tool_calls.function.arguments`: an object, where OpenAI has a text.
fn arguments_are_an_object(sent: &Sent) -> bool {
    let mut calls = messages(sent).iter().flat_map(|message| list(&message["tool_calls"]));
    calls.all(|call| call["function"]["arguments"].is_object() && !text(&call["function"]["name"]).is_empty())
}

/// `/api/chat`: an empty message only loads the model.
fn no_message_is_empty(sent: &Sent) -> bool {
    let says = |message: &Value| {
        ["images", "tool_calls"].iter().any(|name| !list(&message[*name]).is_empty())
            || !text(&message["content"]).is_empty()
            || message["role"] == "tool"
    };
    !messages(sent).is_empty() && messages(sent).iter().all(says)
}

/// `/api/chat`, `messages.content`: a text; the server cannot read a list of parts.
fn content_is_text(sent: &Sent) -> bool {
    messages(sent).iter().all(|message| message["content"].is_string())
}

/// `/capabilities/vision`: base64 without a `data:` address. The server: "image: unknown format" for what is not JPEG,
/// PNG or WebP; these tests' images say what they are.
fn images_are_of_known_types(sent: &Sent) -> bool {
    let known = ["cG5n", "anBlZw==", "d2VicA=="];
    let mut images = messages(sent).iter().flat_map(|message| list(&message["images"]));
    images.all(|image| is_base64(image) && known.contains(&text(image)))
}

/// `/capabilities/thinking`: true, false, or a level for models that take only these.
fn thinking_is_a_switch_or_a_level(sent: &Sent) -> bool {
    let think = &sent.body["think"];
    think.is_null() || think.is_boolean() || ["low", "medium", "high"].contains(&text(think))
}

/// `/api/chat`, `options`: `num_ctx` and `num_predict`.
fn the_window_and_the_output_are_limited(sent: &Sent) -> bool {
    ["num_ctx", "num_predict"].iter().all(|name| sent.body["options"][*name].as_u64() >= Some(1))
}

/// `/api/chat`, `truncate`: by itself the server drops the oldest messages of a conversation that is too long.
fn nothing_is_dropped_in_silence(sent: &Sent) -> bool {
    sent.body["truncate"] == false
}

/// `/capabilities/tool-calling`: functions with a schema, each name once.
fn tools_are_named_once(sent: &Sent) -> bool {
    let tools = list(&sent.body["tools"]);
    tools.iter().all(|tool| is(tool, "function") && is(&tool["function"]["parameters"], "object"))
        && are_unique(tools.iter().map(|tool| text(&tool["function"]["name"])))
}
