//! Anthropic Messages, by the provider's documentation (platform.claude.com/docs) and, where that is silent, by the
//! words with which the API refuses.

use serde_json::Value;

use super::shape::{are_the_same, are_unique, is, is_base64, is_plain, list, text};
use super::{Rule, rules};
use crate::histories::served::Sent;

pub(super) const RULES: &[Rule] = rules![
    the_first_message_is_the_users,
    roles_alternate,
    the_last_message_is_the_users,
    calls_are_answered_in_the_next_message,
    results_come_first,
    ids_are_plain,
    ids_are_unique,
    names_are_plain,
    input_is_an_object,
    no_message_is_empty,
    no_text_is_blank,
    an_error_is_text,
    images_are_of_known_types,
    documents_are_pdf,
    signatures_are_the_models_own,
    no_turn_ends_with_thinking,
    a_turn_with_a_budget_begins_with_thinking,
    a_budget_fits,
    at_most_four_breakpoints,
    thinking_is_not_marked,
    tools_are_named_once_and_have_a_schema,
    the_output_is_limited,
];

fn messages(sent: &Sent) -> &[Value] {
    list(&sent.body["messages"])
}

fn blocks(message: &Value) -> &[Value] {
    list(&message["content"])
}

fn all_blocks(sent: &Sent) -> impl Iterator<Item = &Value> {
    messages(sent).iter().flat_map(blocks)
}

/// Blocks of messages and of the results in them.
fn inner_blocks(sent: &Sent) -> impl Iterator<Item = &Value> {
    all_blocks(sent).flat_map(|block| std::iter::once(block).chain(blocks(block)))
}

fn ids<'a>(message: &'a Value, kind: &'static str, field: &'static str) -> impl Iterator<Item = &'a str> {
    blocks(message).iter().filter(move |block| is(block, kind)).map(move |block| text(&block[field]))
}

fn is_thinking(block: &Value) -> bool {
    is(block, "thinking") || is(block, "redacted_thinking")
}

/// `/docs/en/api/messages`, `messages`: the first is the user's.
fn the_first_message_is_the_users(sent: &Sent) -> bool {
    messages(sent).first().is_some_and(|message| message["role"] == "user")
}

/// `/docs/en/api/messages`, `messages`: models are trained on turns of user and assistant that alternate; there is no
/// other role.
fn roles_alternate(sent: &Sent) -> bool {
    let known = |message: &Value| message["role"] == "user" || message["role"] == "assistant";
    messages(sent).iter().all(known) && messages(sent).windows(2).all(|pair| pair[0]["role"] != pair[1]["role"])
}

/// `/docs/en/build-with-claude/working-with-messages`: newer models refuse a prefilled answer.
fn the_last_message_is_the_users(sent: &Sent) -> bool {
    messages(sent).last().is_some_and(|message| message["role"] == "user")
}

/// `/docs/en/agents-and-tools/tool-use/handle-tool-calls`: the message after the one with `tool_use` blocks has the
/// `tool_result` of each, and no others.
fn calls_are_answered_in_the_next_message(sent: &Sent) -> bool {
    let nothing = Value::Null;
    let next = messages(sent).iter().skip(1).chain([&nothing]);
    let begins = messages(sent).first().is_none_or(|message| ids(message, "tool_result", "tool_use_id").count() == 0);
    let paired = |(message, next): (&Value, &Value)| {
        are_the_same(ids(message, "tool_use", "id"), ids(next, "tool_result", "tool_use_id"))
    };
    begins && messages(sent).iter().zip(next).all(paired)
}

/// `/docs/en/agents-and-tools/tool-use/handle-tool-calls`: in a message with results, these come before any text.
fn results_come_first(sent: &Sent) -> bool {
    messages(sent).iter().all(|message| blocks(message).is_sorted_by_key(|block| !is(block, "tool_result")))
}

/// `/docs/en/api/messages`, `tool_use.id`: `^[a-zA-Z0-9_-]+$`. Other clouds that serve the models take at most 64.
fn ids_are_plain(sent: &Sent) -> bool {
    all_blocks(sent).all(|block| match text(&block["type"]) {
        "tool_use" => is_plain(text(&block["id"]), 64),
        "tool_result" => is_plain(text(&block["tool_use_id"]), 64),
        _ => true,
    })
}

/// The API: "`tool_use` ids must be unique".
fn ids_are_unique(sent: &Sent) -> bool {
    are_unique(messages(sent).iter().flat_map(|message| ids(message, "tool_use", "id")))
}

/// `/docs/en/agents-and-tools/tool-use/define-tools`: a name is of letters, digits, `_` and `-`, at most 64.
fn names_are_plain(sent: &Sent) -> bool {
    let tools = list(&sent.body["tools"]).iter();
    let calls = all_blocks(sent).filter(|block| is(block, "tool_use"));
    tools.chain(calls).all(|named| is_plain(text(&named["name"]), 64))
}

/// `/docs/en/api/messages`, `tool_use.input`: an object.
fn input_is_an_object(sent: &Sent) -> bool {
    all_blocks(sent).filter(|block| is(block, "tool_use")).all(|call| call["input"].is_object())
}

/// The API: "all messages must have non-empty content".
fn no_message_is_empty(sent: &Sent) -> bool {
    messages(sent).iter().all(|message| !blocks(message).is_empty())
}

/// The API: "text content blocks must contain non-whitespace text"; the system prompt's too.
fn no_text_is_blank(sent: &Sent) -> bool {
    let system = list(&sent.body["system"]).iter();
    system.chain(inner_blocks(sent)).all(|block| !is(block, "text") || !text(&block["text"]).trim().is_empty())
}

/// The API: "content cannot be empty if `is_error` is true", and "all content must be type `text` if `is_error` is
/// true".
fn an_error_is_text(sent: &Sent) -> bool {
    let mut errors = all_blocks(sent).filter(|block| is(block, "tool_result") && block["is_error"] == true);
    errors.all(|result| !blocks(result).is_empty() && blocks(result).iter().all(|block| is(block, "text")))
}

/// `/docs/en/build-with-claude/vision`: JPEG, PNG, GIF and WebP.
fn images_are_of_known_types(sent: &Sent) -> bool {
    let known = ["image/jpeg", "image/png", "image/gif", "image/webp"];
    let fits = |source: &Value| known.contains(&text(&source["media_type"])) && is_base64(&source["data"]);
    inner_blocks(sent).filter(|block| is(block, "image")).all(|image| fits(&image["source"]))
}

/// `/docs/en/build-with-claude/pdf-support`: in base64 a document is `application/pdf`.
fn documents_are_pdf(sent: &Sent) -> bool {
    let fits = |source: &Value| source["media_type"] == "application/pdf" && is_base64(&source["data"]);
    inner_blocks(sent).filter(|block| is(block, "document")).all(|document| fits(&document["source"]))
}

/// `/docs/en/build-with-claude/extended-thinking`: thinking goes back as it came, with its signature, to the model that
/// made it.
fn signatures_are_the_models_own(sent: &Sent) -> bool {
    let own = format!("{}#", sent.served.name());
    all_blocks(sent).filter(|block| is_thinking(block)).all(|block| {
        let field = if is(block, "thinking") { "signature" } else { "data" };
        text(&block[field]).starts_with(&own) && (is(block, "redacted_thinking") || block["thinking"].is_string())
    })
}

/// The API: "The final block in an assistant message cannot be `thinking`".
fn no_turn_ends_with_thinking(sent: &Sent) -> bool {
    messages(sent).iter().all(|message| !blocks(message).last().is_some_and(is_thinking))
}

/// `/docs/en/build-with-claude/extended-thinking`: with a budget, the turn that is continued, up to the results that
/// come last, begins with thinking.
fn a_turn_with_a_budget_begins_with_thinking(sent: &Sent) -> bool {
    let has_results = |message: &Value| blocks(message).iter().any(|block| is(block, "tool_result"));
    let turn = messages(sent).iter().rev().take_while(|message| message["role"] == "assistant" || has_results(message));
    let first = turn.filter(|message| message["role"] == "assistant").last();
    !is(&sent.body["thinking"], "enabled")
        || first.is_none_or(|message| blocks(message).first().is_some_and(is_thinking))
}

/// `/docs/en/build-with-claude/extended-thinking`: a budget is at least 1,024 tokens and less than `max_tokens`.
fn a_budget_fits(sent: &Sent) -> bool {
    let budget = sent.body["thinking"]["budget_tokens"].as_u64();
    is(&sent.body["thinking"], "enabled") == budget.is_some()
        && budget.is_none_or(|budget| budget >= 1_024 && Some(budget) < sent.body["max_tokens"].as_u64())
}

/// `/docs/en/build-with-claude/prompt-caching`: at most four breakpoints.
fn at_most_four_breakpoints(sent: &Sent) -> bool {
    let system = list(&sent.body["system"]).iter();
    let marked = list(&sent.body["tools"]).iter().chain(system).chain(inner_blocks(sent));
    marked.filter(|marked| !marked["cache_control"].is_null()).count() <= 4
}

/// `/docs/en/build-with-claude/prompt-caching`: a thinking block takes no mark.
fn thinking_is_not_marked(sent: &Sent) -> bool {
    all_blocks(sent).all(|block| !is_thinking(block) || block["cache_control"].is_null())
}

/// `/docs/en/agents-and-tools/tool-use/define-tools`: the schema of the input is one of an object; a name is there
/// once.
fn tools_are_named_once_and_have_a_schema(sent: &Sent) -> bool {
    let tools = list(&sent.body["tools"]);
    are_unique(tools.iter().map(|tool| text(&tool["name"])))
        && tools.iter().all(|tool| is(&tool["input_schema"], "object"))
}

/// `/docs/en/api/messages`, `max_tokens`: required, at least 1.
fn the_output_is_limited(sent: &Sent) -> bool {
    sent.body["max_tokens"].as_u64() >= Some(1)
}
