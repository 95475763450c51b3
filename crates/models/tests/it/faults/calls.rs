//! P11: calls that are invalid on the wire, or easily misread. The engine decides about arguments that are not JSON; it
//! receives them unchanged.

use engine::FailureClass;
use models::Api;

use super::{WIRES, Wire};
use crate::support::sized;

/// A call: id, tool, arguments.
type SentCall<'a> = (&'a str, &'a str, &'a str);

/// An answer with these calls in the frames of a format; ids and arguments are as on the wire.
fn answer_of(wire: &Wire, calls: &[SentCall<'_>]) -> String {
    let mut frames = vec![];
    for (at, (id, tool, arguments)) in calls.iter().enumerate() {
        let quoted = serde_json::Value::from(*arguments);
        match wire.api {
            Api::OpenAiChat => frames.push(format!(
                r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":{at},"id":"{id}","function":{{"name":"{tool}","arguments":{quoted}}}}}]}}}}]}}"#
            )),
            Api::OpenAiResponses => frames.extend([
                format!(
                    r#"{{"type":"response.output_item.added","output_index":{at},"item":{{"type":"function_call","id":"fc","call_id":"{id}","name":"{tool}","arguments":""}}}}"#
                ),
                format!(
                    r#"{{"type":"response.function_call_arguments.delta","output_index":{at},"delta":{quoted}}}"#
                ),
            ]),
            Api::Anthropic => frames.extend([
                format!(
                    r#"{{"type":"content_block_start","index":{at},"content_block":{{"type":"tool_use","id":"{id}","name":"{tool}","input":{{}}}}}}"#
                ),
                format!(
                    r#"{{"type":"content_block_delta","index":{at},"delta":{{"type":"input_json_delta","partial_json":{quoted}}}}}"#
                ),
                format!(r#"{{"type":"content_block_stop","index":{at}}}"#),
            ]),
            Api::Gemini => frames.push(format!(
                r#"{{"candidates":[{{"content":{{"parts":[{{"functionCall":{{"id":"{id}","name":"{tool}","args":{arguments}}}}}]}}}}]}}"#
            )),
            Api::Ollama => frames.push(format!(
                r#"{{"message":{{"tool_calls":[{{"id":"{id}","function":{{"name":"{tool}","arguments":{arguments}}}}}]}}}}"#
            )),
            Api::Offline => unreachable!("it has no wire"),
        }
    }
    frames.extend(ended(wire.api).map(str::to_owned));
    if wire.api == Api::Anthropic {
        frames.insert(0, r#"{"type":"message_start","message":{}}"#.to_owned());
    }
    let data = if wire.is_events() { "data: " } else { "" };
    frames.iter().map(|frame| format!("{data}{frame}{}", wire.gap)).collect::<Vec<_>>().concat()
}

/// The end of an answer with calls.
fn ended(api: Api) -> impl Iterator<Item = &'static str> {
    let frames: &[&str] = match api {
        Api::OpenAiChat => &[r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#, "[DONE]"],
        Api::OpenAiResponses => &[r#"{"type":"response.completed","response":{}}"#],
        Api::Anthropic => {
            &[r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#, r#"{"type":"message_stop"}"#]
        }
        Api::Gemini => &[r#"{"candidates":[{"content":{"parts":[]},"finishReason":"STOP"}]}"#],
        Api::Ollama => &[r#"{"message":{"content":""},"done":true,"done_reason":"stop"}"#],
        Api::Offline => &[],
    };
    frames.iter().copied()
}

/// Checks the events of an answer with these calls.
async fn check(calls: &[SentCall<'_>], is: Result<(), FailureClass>) {
    for wire in &WIRES {
        let answer = wire.sent(sized(answer_of(wire, calls).as_bytes())).await;
        let of = format!("{:?}: {calls:.200?}: {answer:.600?}", wire.api);
        let end = answer.end.as_ref().unwrap().as_ref().map(|_| ()).map_err(|failure| failure.class);
        assert_eq!(end, is, "{of}");
        if is.is_ok() {
            let received: Vec<SentCall<'_>> =
                answer.calls.iter().map(|(a, b, c)| (a.as_str(), b.as_str(), c.as_str())).collect();
            assert_eq!(received, calls, "{of}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d5_p11_missing_and_repeated_ids_are_separate_calls() {
    check(&[("a", "ls", "{}"), ("a", "ls", "{}")], Ok(())).await;
    check(&[("a", "ls", r#"{"path":"x"}"#), ("b", "ls", r#"{"path":"x"}"#)], Ok(())).await;
    check(&[("", "ls", "{}"), ("", "grep", r#"{"pattern":"x"}"#)], Ok(())).await;
    check(&[("a", "ls", "{}"), ("", "grep", "{}"), ("a", "nobody_has_this", "{}")], Ok(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d4_p11_arguments_are_emitted_as_received() {
    for arguments in ["[1]", "7", r#"{"path":7,"path":8}"#, r#"{"a":{"b":{"c":[]}}}"#] {
        // Formats that send arguments as a JSON value cannot send these unchanged.
        check(&[("a", "ls", arguments)], Ok(())).await;
    }
    let cut = [("a", "ls", r#"{"path": "#)];
    for wire in &WIRES {
        let answer = wire.sent(sized(answer_of(wire, &cut).as_bytes())).await;
        match wire.api {
            // In these formats a call is a value of the frame, so the frame cannot be parsed.
            Api::Gemini | Api::Ollama => assert_eq!(answer.failure().class, FailureClass::Malformed),
            _ => assert_eq!(answer.calls[0].2, r#"{"path": "#, "{:?}: {answer:?}", wire.api),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c7_p11_tool_calls_without_a_call_and_a_call_without_a_name_are_malformed() {
    check(&[], Err(FailureClass::Malformed)).await;
    check(&[("a", "", "{}")], Err(FailureClass::Malformed)).await;
    check(&[("a", "ls", "{}"), ("b", "", "{}")], Err(FailureClass::Malformed)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d5_p11_the_maximum_number_of_calls_and_one_more() {
    let ids: Vec<String> = (0..200).map(|at| format!("call_{at}")).collect();
    let calls: Vec<SentCall<'_>> = ids.iter().map(|id| (id.as_str(), "ls", "{}")).collect();
    check(&calls[..128], Ok(())).await;
    check(&calls, Err(FailureClass::Malformed)).await;
}

/// Interleaved parts of two calls are added to their own calls.
#[tokio::test]
async fn d5_p11_interleaved_parts_are_added_to_their_own_calls() {
    let chat = |at: usize, part: &str| {
        format!(
            r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":{at},"function":{{"arguments":"{part}"}}}}]}}}}]}}"#
        )
    };
    let responses = |at: usize, part: &str| {
        format!(r#"{{"type":"response.function_call_arguments.delta","output_index":{at},"delta":"{part}"}}"#)
    };
    let anthropic = |at: usize, part: &str| {
        format!(
            r#"{{"type":"content_block_delta","index":{at},"delta":{{"type":"input_json_delta","partial_json":"{part}"}}}}"#
        )
    };
    for wire in &WIRES {
        let part = |at, part| match wire.api {
            Api::OpenAiChat => Some(chat(at, part)),
            Api::OpenAiResponses => Some(responses(at, part)),
            Api::Anthropic => Some(anthropic(at, part)),
            // Calls arrive complete.
            Api::Gemini | Api::Ollama | Api::Offline => None,
        };
        let Some(parts) = [(0, "[1"), (1, "[3"), (0, ",2]"), (1, ",4]")]
            .map(|(at, text)| part(at, text))
            .into_iter()
            .collect::<Option<Vec<_>>>()
        else {
            continue;
        };
        let parts = parts.iter().map(|part| format!("data: {part}\n\n")).collect::<Vec<_>>().concat();
        let mut calls = answer_of(wire, &[("a", "ls", ""), ("b", "grep", "")]);
        // Anthropic's blocks must stay open until their parts have arrived.
        let close = "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n";
        calls = calls.replace(close, "").replace(&close.replace(":0", ":1"), "");
        let first_end = format!("data: {}", ended(wire.api).next().unwrap());
        let body = calls.replace(&first_end, &format!("{parts}{first_end}"));
        let answer = wire.sent(sized(body.as_bytes())).await;
        let received: Vec<SentCall<'_>> =
            answer.calls.iter().map(|(a, b, c)| (a.as_str(), b.as_str(), c.as_str())).collect();
        assert_eq!(received, [("a", "ls", "[1,2]"), ("b", "grep", "[3,4]")], "{:?}: {answer:?}", wire.api);
        assert!(answer.end.unwrap().is_ok());
    }
}
