//! One conversation with reasoning and a tool on each wire format, through the real program and a real local server. What was
//! signed goes through the journal: the last request is of another process.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};

use serde_json::Value;

use crate::support::Home;

/// What a provider of one format says, and what it must be sent back.
struct Case {
    api: &'static str,
    /// Thinks, and asks for `ls`.
    calls: &'static str,
    /// `There is one file.`
    answers: &'static str,
    /// A field of the later requests, and what stands in it.
    sent_back: (&'static str, &'static str),
}

const CASES: [Case; 4] = [
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

/// A server that gives these answers, one a request. Gives its address and the bodies that it was sent.
fn serve(answers: [&'static str; 3]) -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}/v1", listener.local_addr().expect("bound"));
    let (send, bodies) = mpsc::channel();
    std::thread::spawn(move || {
        for answer in answers {
            let (stream, _) = listener.accept().expect("a connection");
            send.send(exchange(stream, answer)).expect("the test waits for it");
        }
    });
    (address, bodies)
}

fn exchange(stream: TcpStream, answer: &str) -> Value {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line of the head");
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a number");
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", answer.len());
    let mut stream = reader.into_inner();
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(answer.as_bytes())).expect("it is read");
    serde_json::from_slice(&body).expect("JSON")
}

/// All that stands in a field of this name, wherever it is.
fn all(value: &Value, name: &str) -> Vec<Value> {
    match value {
        Value::Object(fields) => {
            let own = fields.get(name).cloned();
            own.into_iter().chain(fields.values().flat_map(|value| all(value, name))).collect()
        }
        Value::Array(values) => values.iter().flat_map(|value| all(value, name)).collect(),
        _ => vec![],
    }
}

#[test]
fn r45_r66_a_conversation_with_reasoning_and_a_tool_on_each_wire_format() {
    for Case { api, calls, answers, sent_back } in CASES {
        let (address, bodies) = serve([calls, answers, answers]);
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
