//! One conversation with reasoning and a tool on each wire format, through the real program and a local server. Signatures
//! go through the journal: another process sends the last request.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image::{ImageFormat, Rgb, RgbImage};
use serde_json::{Value, json};

use crate::support::{Home, all, answered, refused, serve, serve_whole};

/// The responses of a provider of one format, and what later requests must contain.
struct Case {
    api: &'static str,
    /// Thinks, and asks for `ls`.
    calls: &'static str,
    /// `There is one file.`
    answers: &'static str,
    /// A field of the later requests and its content.
    sent_back: (&'static str, &'static str),
}

const CASES: [Case; 5] = [
    Case {
        api: "openai-chat",
        calls: r#"data: {"choices":[{"index":0,"delta":{"role":"assistant","reasoning_content":"I should look."}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"ls","arguments":"{\"path\": \".\"}"}}]}}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":10,"completion_tokens":9}}

data: [DONE]

"#,
        answers: r#"data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"There is one file."}}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5}}

data: [DONE]

"#,
        sent_back: ("tool_call_id", "call_1"),
    },
    Case {
        api: "anthropic",
        calls: r#"data: {"type":"message_start","message":{"id":"m","role":"assistant","content":[],"usage":{"input_tokens":10,"output_tokens":1}}}

data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"I should look."}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2lnbmVk"}}

data: {"type":"content_block_stop","index":0}

data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"ls","input":{}}}

data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"path\": \".\"}"}}

data: {"type":"content_block_stop","index":1}

data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":20}}

data: {"type":"message_stop"}

"#,
        answers: r#"data: {"type":"message_start","message":{"id":"m","role":"assistant","content":[],"usage":{"input_tokens":10,"output_tokens":1}}}

data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"There is one file."}}

data: {"type":"content_block_stop","index":0}

data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":6}}

data: {"type":"message_stop"}

"#,
        sent_back: ("signature", "c2lnbmVk"),
    },
    Case {
        api: "openai-responses",
        calls: r#"data: {"type":"response.created","response":{"id":"r","status":"in_progress","output":[]}}

data: {"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[]}}

data: {"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":0,"delta":"I should look."}

data: {"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"I should look."}],"encrypted_content":"c2lnbmVk"}}

data: {"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"ls","arguments":""}}

data: {"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":1,"delta":"{\"path\": \".\"}"}

data: {"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"ls","arguments":"{\"path\": \".\"}","status":"completed"}}

data: {"type":"response.completed","response":{"id":"r","status":"completed","output":[],"usage":{"input_tokens":10,"output_tokens":9}}}

"#,
        answers: r#"data: {"type":"response.created","response":{"id":"r","status":"in_progress","output":[]}}

data: {"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","content":[]}}

data: {"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":"There is one file."}

data: {"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"There is one file."}],"status":"completed"}}

data: {"type":"response.completed","response":{"id":"r","status":"completed","output":[],"usage":{"input_tokens":10,"output_tokens":9}}}

"#,
        sent_back: ("encrypted_content", "c2lnbmVk"),
    },
    Case {
        api: "gemini",
        calls: r#"data: {"candidates":[{"content":{"role":"model","parts":[{"text":"I should look.","thought":true}]}}]}

data: {"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"ls","args":{"path":"."}},"thoughtSignature":"c2lnbmVk"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5}}

"#,
        answers: r#"data: {"candidates":[{"content":{"role":"model","parts":[{"text":"There is one file."}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5}}

"#,
        sent_back: ("thoughtSignature", "c2lnbmVk"),
    },
    Case {
        api: "ollama",
        calls: r#"{"message":{"role":"assistant","content":"","thinking":"I should look."},"done":false}
{"message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"ls","arguments":{"path":"."}}}]},"done":false}
{"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":10,"eval_count":5}
"#,
        answers: r#"{"message":{"role":"assistant","content":"There is one file."},"done":false}
{"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":10,"eval_count":5}
"#,
        sent_back: ("tool_name", "ls"),
    },
];

/// The body of an answer of each format with this text, which is whole or cut at its output limit.
pub(crate) fn bodies_with(text: &str, is_cut: bool) -> [(&'static str, String); 5] {
    let cut = [
        ("\"finish_reason\":\"stop\"", "\"finish_reason\":\"length\""),
        ("end_turn", "max_tokens"),
        ("\"type\":\"response.completed\"", "\"type\":\"response.incomplete\""),
        ("\"finishReason\":\"STOP\"", "\"finishReason\":\"MAX_TOKENS\""),
        ("\"done_reason\":\"stop\"", "\"done_reason\":\"length\""),
    ];
    let body = |case: &Case| {
        let body = case.answers.replace("There is one file.", text);
        let cut = cut.iter().filter(|_| is_cut);
        (case.api, cut.fold(body, |body, (end, limit)| body.replace(end, limit)))
    };
    CASES.each_ref().map(body)
}

/// An answer of one format: `There is one file.`
pub(crate) fn answer_of(api: &str) -> String {
    let case = CASES.iter().find(|case| case.api == api).expect("a format");
    answered(case.answers)
}

#[test]
pub(crate) fn r45_r66_a_conversation_with_reasoning_and_a_tool_on_each_wire_format() {
    for Case { api, calls, answers, sent_back } in CASES {
        let (address, bodies) = serve([calls, answers, answers].map(str::to_owned));
        let home = Home::new().served_at(&address).with("LIMULUS_PROVIDERS__ACME__API", api);
        let home = home.with("LIMULUS_AGENTS__MAIN__THINKING", "medium");
        home.put("only.txt", "");
        let first = home.run(&["agent", "-m", "What is here?"]).expect_code(0);
        assert!(first.out.contains("There is one file."), "{api}: {first:?}");
        home.run(&["agent", "-m", "And now?"]).expect_code(0);
        let bodies: Vec<Value> = bodies.iter().collect();
        assert_eq!(all(&bodies[0], sent_back.0), [Value::Null; 0], "{api}");
        for later in &bodies[1..] {
            assert_eq!(all(later, sent_back.0), [sent_back.1], "{api}: {later}");
            assert!(later.to_string().contains("only.txt"), "{api}: the result of the call is sent: {later}");
        }
        assert_eq!(bodies.len(), 3, "{api}");
    }
}

/// R41, R65: the trace says how many answers another model signed, which receives them without the signatures.
#[test]
pub(crate) fn r41_r65_the_trace_counts_the_answers_that_another_model_signed() {
    let Case { api, calls, answers, sent_back: (name, signature) } = CASES[1];
    let (address, bodies) = serve([calls, answers, answers, answers].map(str::to_owned));
    let home = Home::new().served_at(&address).with("LIMULUS_PROVIDERS__ACME__API", api);
    let home = home.with("LIMULUS_AGENTS__MAIN__THINKING", "medium");
    let history = |args: &[&str]| {
        home.run(&[&["agent", "-m", "What is here?"], args].concat()).expect_code(0);
        let trace = home.run(&["runs", "trace"]).expect_code(0).out;
        let said = trace.lines().filter_map(|line| line.split_once("; history: "));
        said.map(|(_, said)| said.trim_end().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(history(&[]), [""; 0]);
    assert_eq!(history(&["--model", "acme/other"]), ["signatures 1"]);
    assert_eq!(history(&[]), [""; 0]);
    let sent: Vec<bool> = bodies.iter().map(|body| all(&body, name).contains(&json!(signature))).collect();
    assert_eq!(sent, [false, true, false, true]);
}

/// A provider of each format, which all refuse but the last: each format is the last once, and at each place of the chain.
#[test]
pub(crate) fn r50_r51_a_chain_goes_through_every_wire_format() {
    let refusals = [(401, "invalid key"), (500, "failed"), (429, "too many requests"), (402, "no credit")];
    for first in 0..CASES.len() {
        let order: Vec<&Case> = CASES.iter().cycle().skip(first).take(CASES.len()).collect();
        let refusal = |at: usize| refused(refusals[at].0, &json!({ "error": { "message": refusals[at].1 } }));
        let last = order[CASES.len() - 1];
        let (address, bodies) = serve_whole([refusal(0), refusal(1), refusal(2), refusal(3), answered(last.answers)]);
        let models: Vec<String> = order.iter().map(|case| format!("{}/scripted", name_of(case))).collect();
        let mut home = Home::new()
            .with("LIMULUS_AGENTS__MAIN__MODEL", &models[0])
            .with("LIMULUS_AGENTS__MAIN__FALLBACKS", &models[1..].join(","))
            .with("LIMULUS_REQUESTS__RETRIES", "0");
        for case in &order {
            let provider = format!("LIMULUS_PROVIDERS__{}", name_of(case).to_uppercase());
            home = home.with(&format!("{provider}__API"), case.api).with(&format!("{provider}__BASE_URL"), &address);
        }
        let answer = home.run(&["agent", "-m", "What is here?"]).expect_code(0);
        assert_eq!(answer.out, "There is one file.\n", "{}: {answer:?}", last.api);
        let trace = home.run(&["runs", "trace"]).expect_code(0).out;
        let sent = trace.lines().filter(|line| line.contains("request_sent"));
        let to: Vec<&str> = sent.filter_map(|line| line.split_once(" to ")?.1.split([',', ' ']).next()).collect();
        assert_eq!(to, models, "{trace}");
        assert_eq!(bodies.iter().count(), CASES.len());
    }
}

/// What its provider is called.
fn name_of(case: &Case) -> String {
    format!("of{}", case.api.replace('-', ""))
}

/// A file with an image of one colour in it, and what a model is shown of it, in base64.
pub(crate) fn put_image(home: &Home, name: &str, colour: [u8; 3]) -> String {
    let mut bytes = std::io::Cursor::new(vec![]);
    RgbImage::from_pixel(30, 20, Rgb(colour)).write_to(&mut bytes, ImageFormat::Png).expect("it can be encoded");
    home.put(name, bytes.into_inner());
    let attached = tools::attach(&[home.file(name)], &tools::Secrets::default()).expect("an image").remove(0);
    STANDARD.encode(&attached.content.bytes)
}

/// One image comes with the message, another is read; both are in what the server is sent.
#[test]
pub(crate) fn r45_an_image_that_is_attached_and_one_that_is_read_are_sent_on_each_wire_format() {
    for Case { api, calls, answers, .. } in CASES {
        // The same conversation, with `read` of a file in the place of `ls`.
        let calls = calls.replace("\"ls\"", "\"read\"").replace("\".\"", "\"there.png\"");
        let calls = calls.replace(r#"\".\""#, r#"\"there.png\""#);
        let (address, bodies) = serve([calls, answers.to_owned()]);
        let home = Home::new().served_at(&address).with("LIMULUS_PROVIDERS__ACME__API", api);
        let home = home.with("LIMULUS_MODELS__ACME/SCRIPTED__IMAGES", "true");
        let (sent, there) = (put_image(&home, "sent.png", [200, 0, 0]), put_image(&home, "there.png", [0, 0, 200]));
        home.run(&["agent", "-m", "What is this?", "--attach", "sent.png"]).expect_code(0);
        let bodies: Vec<String> = bodies.iter().map(|body| body.to_string()).collect();
        assert!(bodies[0].contains(&sent) && !bodies[0].contains(&there), "{api}: {}", bodies[0]);
        assert!(bodies[1].contains(&sent) && bodies[1].contains(&there), "{api}: {}", bodies[1]);
        assert!(bodies[1].contains("there.png: image/png, 30×20"), "{api}: {}", bodies[1]);

        let transcript = home.json(&["sessions", "show"])["transcript"].clone();
        for (item, name) in [(1, "sent.png"), (3, "there.png")] {
            let file = &transcript[item]["attachments"][0];
            assert_eq!(
                (&file["name"], &file["media_type"]),
                (&name.into(), &"image/png".into()),
                "{api}: {transcript}"
            );
        }
        let shown = home.run(&["sessions", "show"]).expect_code(0).out;
        assert!(shown.contains("  + sent.png (image/png, "), "{shown}");
    }
}

#[test]
pub(crate) fn r45_a_model_without_image_support_receives_their_names_and_the_user_a_note() {
    let (address, bodies) = serve([CASES[0].answers.to_owned()]);
    let home = Home::new().served_at(&address);
    let sent = put_image(&home, "sent.png", [200, 0, 0]);
    let answer = home.run(&["agent", "-m", "What is this?", "--attach", "sent.png"]).expect_code(0);
    assert!(answer.err.contains("set images = true in [models.\"acme/scripted\"]"), "{answer:?}");
    let body = bodies.recv().expect("a request").to_string();
    assert!(body.contains("an image that you cannot see: sent.png") && !body.contains(&sent), "{body}");
}

#[test]
fn r45_a_file_that_cannot_be_attached_sends_nothing() {
    let home = Home::new();
    home.put("a.zip", b"PK\x03\x04\0\0");
    let refused = home.run(&["agent", "-m", "hello", "--attach", "a.zip"]).expect_code(2);
    let verdict = refused.verdict();
    assert!(verdict.contains("a.zip is binary") && verdict.contains("PNG, JPEG, GIF and WebP"), "{verdict}");
    home.run(&["agent", "-m", "hello", "--attach", "gone.png"]).expect_code(2).expect_err("cannot read gone.png");
    home.run(&["sessions", "list"]).expect_code(4);
}
