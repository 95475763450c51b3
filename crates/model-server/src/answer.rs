//! Derives the answer from the request. This is pure, so equal requests get equal answers.

use serde_json::{Value, json};

use super::markdown;
use super::odd_calls::ODD_CALLS;
use super::pairing;
use super::script::{Call, Script};
use crate::prose::Prose;

/// Bytes of one piece of prose.
const PIECE_BYTES: usize = 80;

/// A parsed request and the answer to it.
#[derive(Debug)]
pub(super) struct Asked {
    /// The message that holds the script; empty if no message does.
    pub(super) text: String,
    pub(super) script: Script,
    /// The number of messages in it.
    pub(super) messages: usize,
    /// How many of these are results of calls.
    pub(super) results: usize,
    pub(super) reply: Reply,
    /// The id of the next call, also of an invalid one.
    pub(super) call_id: String,
    /// Whether the stream ends with the usage.
    pub(super) usage: bool,
    pub(super) model: String,
}

/// The content of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reply {
    /// The text, in pieces.
    pub(super) text: Vec<String>,
    /// The call, after the id that the server gives it.
    pub(super) call: Option<(String, Call)>,
}

/// Parses a request.
///
/// # Errors
/// A message for an answer with status 400, if the request is invalid.
pub(super) fn read(body: &[u8]) -> Result<Asked, String> {
    let request: Value = serde_json::from_slice(body).map_err(|e| format!("the request is not JSON: {e}"))?;
    let messages = request["messages"].as_array().ok_or("`messages` is missing")?;
    if request["stream"] != true {
        return Err("only streams are answered: set `stream`".to_owned());
    }
    pairing::check(messages)?;
    let (at, text, mut script) = script_of(messages);
    let step = messages[at..].iter().filter(|message| is_step(message)).count();
    let call_id = format!("call_{at}_{step}");
    let call = script.steps.get(step).cloned().or_else(|| next_read(&script, body));
    let title = script.title.clone().filter(|_| request["tools"].is_null());
    if title.is_some() {
        (script.fault, script.delay_ms, script.first_byte_timeout_ms) = (None, 0, script.title_ms);
    }
    let reply = match call {
        _ if title.is_some() => Reply { text: title.into_iter().collect(), call: None },
        _ if script.reads > 0 && request["tools"].is_null() => Reply { text: vec![summary(body)], call: None },
        Some(call) => Reply { text: script.words(script.preamble), call: Some((call_id.clone(), call)) },
        None => Reply { text: said(&script, &messages[at..]).unwrap_or_else(|| finally(&script, &text)), call: None },
    };
    Ok(Asked {
        text,
        script,
        messages: messages.len(),
        results: messages.iter().filter(|message| message["role"] == "tool").count(),
        reply,
        call_id,
        usage: request["stream_options"]["include_usage"] == true,
        model: request["model"].as_str().unwrap_or("scripted").to_owned(),
    })
}

/// A read of the file after the last one that the request names anywhere, in a call or in a summary.
fn next_read(script: &Script, body: &[u8]) -> Option<Call> {
    let next = last_read(body) + 1;
    let arguments = json!({ "path": format!("step-{next}.txt") }).to_string();
    (next <= script.reads).then(|| Call { tool: "read".to_owned(), arguments })
}

fn last_read(body: &[u8]) -> u32 {
    let body = String::from_utf8_lossy(body);
    let named = body.split("step-").skip(1).filter_map(|behind| behind.split_once(".txt")?.0.parse().ok());
    named.max().unwrap_or_default()
}

/// The answer to a request for a summary.
fn summary(body: &[u8]) -> String {
    format!("## Goal\nRead the files in order.\n## Done\nAll up to step-{}.txt were read.", last_read(body))
}

/// Whether a message makes a call of the script, not an invalid one.
fn is_step(message: &Value) -> bool {
    pairing::calls(message).next().is_some() && !content(message).starts_with(ODD_CALLS)
}

/// The text that the script has for this answer, if it has one; `since` begins with the message of the script.
fn said(script: &Script, since: &[Value]) -> Option<Vec<String>> {
    let is_answer = |message: &Value| message["role"] == "assistant" && pairing::calls(message).next().is_none();
    let again = script.say_again.as_ref().filter(|_| since.iter().any(is_answer));
    again.or(script.say.as_ref()).map(|text| vec![text.clone()])
}

/// The pieces of the final answer.
fn finally(script: &Script, text: &str) -> Vec<String> {
    let seed = text.bytes().fold(0_u64, |seed, byte| seed.rotate_left(5) ^ u64::from(byte));
    if let Some(tokens) = script.markdown {
        return markdown::pieces(seed, tokens);
    }
    let Some(bytes) = script.prose else { return script.words(script.tokens) };
    let prose = Prose::new(seed).text(bytes);
    prose.as_bytes().chunks(PIECE_BYTES).map(|piece| String::from_utf8_lossy(piece).into_owned()).collect()
}

/// The last user message that holds a script, and its index. A message that only asks the model to continue holds none.
fn script_of(messages: &[Value]) -> (usize, String, Script) {
    let user = messages.iter().enumerate().rev().filter(|(_, message)| message["role"] == "user");
    let mut scripts = user.filter_map(|(at, message)| {
        let text = content(message);
        Script::parse(&text).map(|script| (at, text, script))
    });
    scripts.next().unwrap_or_default()
}

/// The text of a message: a string, or an array of parts.
fn content(message: &Value) -> String {
    match &message["content"] {
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        other => other.as_str().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(messages: &Value) -> Reply {
        let request = json!({ "model": "m", "stream": true, "messages": messages });
        read(request.to_string().as_bytes()).expect("a request in order").reply
    }

    #[test]
    fn the_next_step_depends_on_the_request_alone() {
        let user = json!({ "role": "user", "content": "rounds=2 tokens=1" });
        let first = json!({ "role": "assistant", "tool_calls": [{ "id": "a" }] });
        let result = json!({ "role": "tool", "tool_call_id": "a", "content": "x" });
        let go_on = json!({ "role": "user", "content": "Go on." });
        assert!(reply(&json!([user])).call.is_some());
        assert!(reply(&json!([user, first, result])).call.is_some());
        assert_eq!(reply(&json!([user, first, result, first, result])).text, ["word0"]);
        assert_eq!(reply(&json!([user, first, result, first, result, go_on])).call, None);
    }

    #[test]
    fn files_are_read_in_order_also_behind_a_summary() {
        let asked = |request: Value| read(request.to_string().as_bytes()).expect("a request in order").reply;
        let next = |history: &str| {
            let messages = json!([{ "role": "user", "content": history }, { "role": "user", "content": "reads=12" }]);
            asked(json!({ "stream": true, "tools": [], "messages": messages })).call.map(|(_, call)| call.arguments)
        };
        assert_eq!(next("hello").as_deref(), Some(r#"{"path":"step-1.txt"}"#));
        assert_eq!(next("step-9.txt and step-10.txt were read").as_deref(), Some(r#"{"path":"step-11.txt"}"#));
        assert_eq!(next("step-12.txt was read"), None);
        let messages = json!([{ "role": "user", "content": "reads=12\nstep-7.txt" }]);
        let summary = asked(json!({ "stream": true, "messages": messages }));
        assert!(summary.call.is_none() && summary.text[0].contains("step-7.txt"), "{summary:?}");
    }

    #[test]
    fn prose_is_as_long_as_asked_and_differs_with_the_message() {
        let of = |content: &str| reply(&json!([{ "role": "user", "content": content }])).text.concat();
        assert_eq!(of("one prose=500").len(), 500);
        assert_ne!(of("one prose=500"), of("two prose=500"));
        assert_eq!(of("one markdown=500").len(), 2_000);
        assert_ne!(of("one markdown=500"), of("two markdown=500"));
    }

    #[test]
    fn a_later_script_begins_anew() {
        let messages = json!([
            { "role": "user", "content": "rounds=1" },
            { "role": "assistant", "tool_calls": [{ "id": "a" }] },
            { "role": "tool", "tool_call_id": "a", "content": "x" },
            { "role": "assistant", "content": "done" },
            { "role": "user", "content": [{ "type": "text", "text": "rounds=1" }] },
        ]);
        assert_eq!(reply(&messages).call.map(|(id, _)| id).as_deref(), Some("call_4_0"));
    }
}
