//! P10, and the frames of P13: line ends, marks, and frames that are too long, unknown, repeated or of another format.

use std::fmt::Write as _;

use engine::FailureClass;

use super::{Fault, Is, MALFORMED, NETWORK, Wire, check};
use crate::support::{answer, chunked, sized, until_close};

/// The length of a frame that is longer than any real one, bytes.
const GIANT: usize = 13 << 20;

fn case(body: &str, is: Is) -> (Vec<u8>, Is) {
    (sized(body.as_bytes()), is)
}

/// The answer with a frame after the first text.
fn amid(wire: &Wire, frame: &str, is: Is) -> (Vec<u8>, Is) {
    let (before, after) = wire.halves();
    case(&format!("{before}{frame}{after}"), is)
}

/// The answer with these line ends, which alternate from event to event.
fn ended(wire: &Wire, ends: &[&str]) -> Option<(Vec<u8>, Is)> {
    if !wire.is_events() && ends.contains(&"\r") {
        return None;
    }
    let events = wire.body.split_inclusive(wire.gap).enumerate();
    let body: String = events.map(|(at, event)| event.replace('\n', ends[at % ends.len()])).collect();
    Some(case(&body, Is::Whole))
}

/// The answer in gzip's format, truncated before its checksum.
fn gzipped(body: &str) -> Vec<u8> {
    let mut bytes = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03".to_vec();
    for piece in body.as_bytes().chunks(u16::MAX as usize) {
        let length = piece.len() as u16;
        bytes.push(0);
        bytes.extend(length.to_le_bytes());
        bytes.extend((!length).to_le_bytes());
        bytes.extend(piece);
    }
    bytes
}

const LINES: &[Fault] = &[
    ("lines that end with CRLF", |wire| ended(wire, &["\r\n"])),
    ("lines that end with CR", |wire| ended(wire, &["\r"])),
    ("line ends that alternate", |wire| ended(wire, &["\r", "\n", "\r\n"])),
    ("pieces of a byte: characters and line ends are split", |wire| {
        Some((chunked(wire.body.replace('\n', "\r\n").as_bytes(), 1), Is::Whole))
    }),
    ("no empty line after the last frame", |wire| Some(case(&format!("{}\n", wire.body.trim_end()), Is::Whole))),
    ("a byte order mark", |wire| {
        Some(case(&format!("\u{feff}{}", wire.body), if wire.is_events() { Is::Whole } else { MALFORMED }))
    }),
    ("an endless line in the middle", |wire| {
        let begin = if wire.is_events() { "data: " } else { "" };
        Some(amid(wire, &format!("{begin}{}", "x".repeat(GIANT)), MALFORMED))
    }),
    ("an endless comment", |wire| wire.is_events().then(|| amid(wire, &format!(":{}", "x".repeat(GIANT)), MALFORMED))),
    ("an event of endless lines", |wire| {
        let mut lines = String::new();
        while wire.is_events() && lines.len() < GIANT {
            let _ = writeln!(lines, "data: {}", "x".repeat(64 << 10));
        }
        wire.is_events().then(|| amid(wire, &lines, MALFORMED))
    }),
    ("half of a frame", |wire| {
        Some(amid(
            wire,
            &format!("{}{{\"choices\":[{}", if wire.is_events() { "data: " } else { "" }, wire.gap),
            MALFORMED,
        ))
    }),
    ("bytes that are not UTF-8", |wire| {
        let (before, after) = wire.halves();
        let begin = if wire.is_events() { "data: " } else { "" };
        let frame = [begin.as_bytes(), b"{\"error_\xff\":\"\xfe\"}", wire.gap.as_bytes()].concat();
        Some((sized(&[before.as_bytes(), &frame, after.as_bytes()].concat()), MALFORMED))
    }),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c5_p10_lines_of_any_form() {
    check(LINES).await;
}

const EVENTS: &[Fault] = &[
    ("a frame of an unknown kind", |wire| Some(amid(wire, wire.unknown, Is::Whole))),
    ("comments and pings", |wire| {
        wire.is_events().then(|| amid(wire, ": ping\n\n:\n\nid: 7\nretry: 1\n\n", Is::Whole))
    }),
    ("an event with a name and no data", |wire| wire.is_events().then(|| amid(wire, "event: error\n\n", Is::Whole))),
    ("an error in the middle, with status 200", |wire| {
        Some(amid(wire, wire.error, Is::Failed(FailureClass::Overloaded)))
    }),
    ("an error before everything, with status 200", |wire| {
        Some(case(wire.error, Is::Failed(FailureClass::Overloaded)))
    }),
    ("an error after the end", |wire| {
        wire.has_end_mark.then(|| case(&format!("{}{}", wire.body, wire.error), Is::Whole))
    }),
    ("the whole answer again", |wire| wire.has_end_mark.then(|| case(&format!("{0}{0}", wire.body), Is::Whole))),
    ("the end again", |wire| {
        let end = wire.body.trim_end().rfind(wire.gap).unwrap() + wire.gap.len();
        wire.has_end_mark.then(|| case(&format!("{}{}", wire.body, &wire.body[end..]), Is::Whole))
    }),
    ("another format after the end", |wire| {
        wire.has_end_mark.then(|| case(&format!("{}data: <html>\n\n<html>\n", wire.body), Is::Whole))
    }),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c3_c5_p10_p13_frames_of_any_kind() {
    check(EVENTS).await;
}

const ENCODED: &[Fault] = &[
    ("compressed, which was not requested, and truncated", |wire| {
        let headers = "content-type: text/event-stream\r\ncontent-encoding: gzip\r\nconnection: close\r\n";
        Some((answer(200, headers, &gzipped(wire.body)), MALFORMED))
    }),
    ("an error that is compressed", |wire| {
        let headers = "content-type: application/json\r\ncontent-encoding: gzip\r\nconnection: close\r\n";
        Some((answer(503, headers, &gzipped(wire.error)), Is::Failed(FailureClass::Overloaded)))
    }),
    ("declared as not encoded", |wire| {
        let headers = "content-type: text/event-stream\r\ncontent-encoding: identity\r\nconnection: close\r\n";
        Some((answer(200, headers, wire.body.as_bytes()), Is::Whole))
    }),
    ("nothing at all", |_| Some((until_close(b""), NETWORK))),
    ("nothing but line ends", |_| Some((until_close(b"\n\r\n\r\n\n"), NETWORK))),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c5_p10_encodings_that_were_not_requested() {
    check(ENCODED).await;
}
