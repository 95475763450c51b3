//! The faults that a script requests.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::time::Duration;

use model_server::ModelServer;
use serde_json::{Value, json};

use crate::{Client, text, user};

/// The response to a script, up to the end of the body or of the connection.
fn response(script: &str) -> (Vec<u8>, Option<ErrorKind>) {
    let server = ModelServer::start().unwrap();
    let mut client = Client::of(&server);
    client.send(&json!([user(script)]));
    client.bytes_to("0\r\n\r\n")
}

/// The chunks of a body, and the bytes after the last complete one.
fn unchunked(answer: &[u8]) -> (Vec<Vec<u8>>, Vec<u8>) {
    let find = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).position(|window| window == what);
    let mut rest = &answer[find(answer, b"\r\n\r\n").unwrap() + 4..];
    let mut chunks = vec![];
    while let Some(end) = find(rest, b"\r\n") {
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        let Some(chunk) = rest.get(end + 2..end + 2 + length) else { break };
        chunks.push(chunk.to_vec());
        rest = &rest[end + 4 + length..];
    }
    (chunks, rest.to_vec())
}

/// The pieces of a complete answer, and the same as a text.
fn pieces(script: &str) -> (Vec<Vec<u8>>, String) {
    let (bytes, broken) = response(script);
    assert!(broken.is_none(), "{script}: {broken:?}");
    let pieces = unchunked(&bytes).0;
    let text = String::from_utf8(pieces.concat()).unwrap();
    (pieces, text)
}

#[test]
fn r51_a_refusal_has_a_retry_after_header_and_the_body_of_a_real_server() {
    let server = ModelServer::start().unwrap();
    let mut client = Client::of(&server);
    let mut refused = |script: &str| {
        client.send(&json!([user(script)]));
        client.read_to("}")
    };
    for (script, line) in [
        ("fail=429x1 retry_after=soon", "retry-after: soon\r\n"),
        ("fail=429x1 retry_after=1000000000", "retry-after: 1000000000\r\n"),
        ("fail=429x1 retry_after_ms=300", "retry-after-ms: 300\r\n"),
        ("fail=429x1 retry_after=date+1", " GMT\r\n"),
    ] {
        let refusal = refused(script);
        assert!(refusal.starts_with("HTTP/1.1 429 ") && refusal.contains(line), "{script}: {refusal}");
    }
    let worded = refused("fail=400x1 wording=vllm_overflow");
    assert!(worded.starts_with("HTTP/1.1 400 ") && worded.contains("maximum context length"), "{worded}");
}

#[test]
fn a_fault_can_wait_for_results_and_is_counted_by_script() {
    let server = ModelServer::start().unwrap();
    let script = "fail=500x1 after=1 rounds=1 tokens=1";
    let mut client = Client::of(&server);
    assert!(client.ask(&json!([user(script)])).contains("tool_calls"));
    assert_eq!(server.fault_count(script), 0);
    let call = json!({ "role": "assistant", "tool_calls": [{ "id": "call_0_0" }] });
    let with_result = json!([user(script), call, { "role": "tool", "tool_call_id": "call_0_0", "content": "x" }]);
    client.send(&with_result);
    assert!(client.read_to("}}").starts_with("HTTP/1.1 500 "));
    assert_eq!(text(&client.ask(&with_result)), "word0");
    assert_eq!(server.fault_count(script), 1, "and not once more");
}

#[test]
fn c2_p09_an_answer_breaks_off_in_the_middle_of_a_frame_or_is_reset() {
    let (bytes, broken) = response("odd=cut_framex1");
    let (chunks, rest) = unchunked(&bytes);
    let last = String::from_utf8(rest).unwrap();
    assert!(broken.is_none() && chunks.len() == 1 && last.contains("data: {") && !last.contains("\n\n"), "{last}");
    let (bytes, broken) = response("odd=resetx1");
    assert_eq!((unchunked(&bytes).0.len(), broken), (1, Some(ErrorKind::ConnectionReset)));
}

#[test]
fn c5_p10_a_normal_answer_has_odd_pieces_and_odd_line_ends() {
    let script = "vowel=潮 tokens=2";
    let (_, expected) = pieces(script);
    let (bytes, split) = pieces(&format!("odd=split_utf8x1 {script}"));
    assert!(bytes.iter().all(|piece| piece.len() <= 1) && bytes.iter().any(|piece| piece == b"\xe6"));
    assert_eq!(split, expected);
    let (_, with_cr) = pieces(&format!("odd=cr_endsx1 {script}"));
    assert!(!with_cr.contains('\n'));
    assert_eq!(with_cr.replace('\r', "\n"), expected);
    let (_, open) = pieces(&format!("odd=no_blankx1 {script}"));
    assert!(open.ends_with("}\n") && !open.ends_with("\n\n") && expected.starts_with(&open), "{open}");
    assert_eq!(text(&open), "w潮rd0 w潮rd1");
}

#[test]
fn c5_p10_a_line_is_longer_than_any_and_a_compressed_answer_is_cut() {
    let (bytes, _) = response("odd=giant_linex1");
    assert!(unchunked(&bytes).0.iter().any(|chunk| chunk.len() > 13 << 20));
    let (bytes, broken) = response("odd=gzip_cutx1");
    let head = b"content-encoding: gzip\r\n";
    assert!(broken.is_none() && bytes.windows(head.len()).any(|window| window == head));
    let block = bytes.windows(2).position(|window| window == b"\x1f\x8b").unwrap() + 11;
    let length = usize::from(u16::from_le_bytes([bytes[block], bytes[block + 1]]));
    assert!(length > 100 && bytes.len() - block - 4 == length / 2, "{length}");
}

#[test]
fn c4_p12_a_server_sends_nothing_or_only_pings() {
    let table = [
        ("odd=headx1", "\r\n\r\n", 0),
        ("odd=pingsx1", ": ping\n\n\r\n8\r\n: ping\n\n\r\n", 0),
        ("odd=word_pingsx1", ": ping\n\n\r\n8\r\n: ping\n\n\r\n", 1),
        ("odd=tricklex1", "1\r\nx\r\n1\r\nx\r\n1\r\nx\r\n", 0),
    ];
    for (script, ends, words) in table {
        let server = ModelServer::start().unwrap();
        let mut client = Client::of(&server);
        client.send(&json!([user(script)]));
        let response = client.read_to(ends);
        assert!(response.starts_with("HTTP/1.1 200 ") && !response.contains("[DONE]"), "{script}: {response}");
        assert_eq!(response.matches("\"delta\"").count(), words, "{script}: {response}");
        if script == "odd=headx1" {
            client.0.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
            assert!(client.0.read(&mut [0; 16]).is_err(), "nothing more comes");
        }
    }
}

#[test]
fn h7_p13_a_client_that_follows_a_redirect_is_recorded() {
    let server = ModelServer::start().unwrap();
    let mut client = Client::of(&server);
    client.send(&json!([user("odd=redirectx1")]));
    let redirect = client.read_to("\r\n\r\n");
    assert!(redirect.starts_with("HTTP/1.1 302 "), "{redirect}");
    let target = redirect.lines().find_map(|line| line.strip_prefix("location: ")).unwrap().to_owned();
    assert!(server.violations().is_empty());
    write!(client.0, "GET {target} HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    assert!(client.read_to("}}").starts_with("HTTP/1.1 404 "));
    assert_eq!(server.violations(), ["a redirect was followed"]);
}

#[test]
fn c3_p13_an_answer_comes_twice_and_the_connection_stays() {
    let server = ModelServer::start().unwrap();
    let script = json!([user("odd=twicex1 tokens=2")]);
    let mut client = Client::of(&server);
    let once = Client::of(&ModelServer::start().unwrap()).ask(&json!([user("tokens=2")]));
    let twice = client.ask(&script);
    let twice = if twice.len() > once.len() { twice } else { twice + &client.read_to("0\r\n\r\n") };
    assert_eq!(twice, [once.as_str(), &once].concat());
    assert_eq!(client.ask(&script), once, "the next request is answered");
}

#[test]
fn c4_p13_an_answer_arrives_after_its_client_gave_up() {
    let server = ModelServer::start().unwrap();
    let script: Value = json!([user("odd=latex1 tokens=2")]);
    let mut client = Client::of(&server);
    client.send(&script);
    client.0.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(client.0.read(&mut [0; 16]).is_err(), "nothing comes before");
    client.0.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    client.0.shutdown(Shutdown::Write).unwrap();
    assert_eq!(text(&client.read_to("0\r\n\r\n")), "word0 word1");
}
