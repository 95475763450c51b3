//! A generated history: the messages of the user, the responses of models, the results of calls, and the disturbances
//! in between. Numbers choose among what exists at the time, so that shrinking keeps a case valid.

use engine::{FailureClass, ResumeMode};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::served::SERVED;
use super::speaker::{Id, Piece};

/// One history.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// How a run resumes an interrupted stream.
    pub(crate) resume: ResumeMode,
    /// The system prompt of every run.
    pub(crate) system: &'static str,
    /// The messages of the user. Each is sent when the run before has ended, or earlier by a disturbance.
    pub(crate) messages: Vec<UserMessage>,
    /// The response to each request; repeated from the first.
    pub(crate) responses: Vec<ScriptedResponse>,
    /// The result of each call; repeated from the first.
    pub(crate) calls: Vec<ScriptedCall>,
    /// Which of the running effects reports next; repeated from the first.
    pub(crate) picks: Vec<usize>,
    /// The disturbances, and the steps after which they occur.
    pub(crate) disturbances: Vec<(usize, Disturbance)>,
    /// The number of the request that is checked. The history may have fewer.
    pub(crate) request: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct UserMessage {
    pub(crate) text: &'static str,
    pub(crate) files: Vec<SampleFile>,
    /// The model that answers: an index into [`SERVED`].
    pub(crate) model: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct ScriptedResponse {
    pub(crate) pieces: Vec<Piece>,
    /// How the response ends; `None` = complete.
    pub(crate) failure: Option<FailureClass>,
}

#[derive(Debug, Clone)]
pub(crate) struct ScriptedCall {
    pub(crate) decision: Decision,
    pub(crate) fails: bool,
    pub(crate) output: &'static str,
    pub(crate) files: Vec<SampleFile>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Decision {
    Allowed,
    Denied,
    AskedAndAllowed,
    AskedAndDenied,
}

/// A file that is attached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SampleFile {
    pub(crate) media_type: &'static str,
    pub(crate) bytes: &'static [u8],
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Disturbance {
    Message,
    Abort,
    Pause,
    /// A pause, after which the run is ended.
    Drop,
    /// The process is killed, and the next one opens.
    Crash,
    /// The process shuts down in order, and the next one opens.
    HandOver,
    /// A timer is due: the run's limit, or another one.
    Late,
}

const TEXTS: &[&str] = &["hi", "so:\n", " \n", "潮 🦀 \"\\\u{1}", "a\u{0}b", "It is done.", "{\"a\":1}", "  "];
const TOOLS: &[&str] = &["ls", "read", "write", "exec", "fly", "a b.c", "9lives", "x.y:z", "工具"];
const ARGUMENTS: &[&str] = &[
    "{}",
    "",
    r#"{"path":"a"}"#,
    r#"{"b":1.0,"a":{"c":[null,"潮"]}}"#,
    r#"{"pa"#,
    "[]",
    "\"a\"",
    "null",
    r#"{"a":"\ud800"}"#,
    " {} ",
];
const FILES: &[(&str, &[u8])] = &[
    ("image/png", b"png"),
    ("image/jpeg", b"jpeg"),
    ("image/gif", b"gif"),
    ("image/webp", b"webp"),
    ("image/bmp", b"bmp"),
    ("image/svg+xml", b"<svg/>"),
    ("application/pdf", b"%PDF"),
    ("text/plain", b"text"),
    ("text/plain", b""),
    ("audio/wav", b"\xff\xfe"),
];

fn text() -> impl Strategy<Value = &'static str> {
    select(TEXTS)
}

fn files() -> impl Strategy<Value = Vec<SampleFile>> {
    let file = select(FILES).prop_map(|(media_type, bytes)| SampleFile { media_type, bytes });
    prop_oneof![4 => Just(vec![]), 1 => vec(file, 1..4)]
}

fn asked() -> impl Strategy<Value = UserMessage> {
    // A message without files has text.
    let message = (text(), files()).prop_map(|(text, files)| {
        let is_blank = text.trim().is_empty() && files.is_empty();
        (if is_blank { "go on" } else { text }, files)
    });
    (message, 0..SERVED.len()).prop_map(|((text, files), model)| UserMessage { text, files, model })
}

fn piece() -> impl Strategy<Value = Piece> {
    let id = select(vec![Id::Own, Id::Own, Id::Own, Id::Missing, Id::ByIndex, Id::Odd, Id::Long, Id::Same]);
    prop_oneof![
        4 => (text(), any::<bool>()).prop_map(|(text, is_signed)| Piece::Text { text, is_signed }),
        3 => (text(), any::<bool>()).prop_map(|(text, is_signed)| Piece::Reasoning { text, is_signed }),
        1 => Just(Piece::Hidden),
        6 => (id, select(TOOLS), select(ARGUMENTS))
            .prop_map(|(id, tool, arguments)| Piece::Call { id, tool, arguments }),
        1 => select(vec!["image/png", "image/bmp"]).prop_map(|media_type| Piece::Image { media_type }),
    ]
}

fn response() -> impl Strategy<Value = ScriptedResponse> {
    let failure = prop_oneof![
        8 => Just(None),
        1 => select(vec![
            FailureClass::Network,
            FailureClass::Stalled,
            FailureClass::Malformed,
            FailureClass::RateLimit,
            FailureClass::InvalidRequest,
        ])
        .prop_map(Some),
    ];
    let pieces = prop_oneof![8 => vec(piece(), 1..6), 1 => vec(piece(), 6..14)];
    (pieces, failure).prop_map(|(pieces, failure)| ScriptedResponse { pieces, failure })
}

fn called() -> impl Strategy<Value = ScriptedCall> {
    let decision = prop_oneof![
        6 => Just(Decision::Allowed),
        1 => Just(Decision::Denied),
        1 => Just(Decision::AskedAndAllowed),
        1 => Just(Decision::AskedAndDenied),
    ];
    let output = prop_oneof![1 => Just(""), 4 => text()];
    (decision, prop::bool::weighted(0.3), output, files()).prop_map(|(decision, fails, output, files)| ScriptedCall {
        decision,
        fails,
        output,
        files,
    })
}

fn disturbance() -> impl Strategy<Value = Disturbance> {
    prop_oneof![
        3 => Just(Disturbance::Message),
        3 => Just(Disturbance::Abort),
        2 => Just(Disturbance::Pause),
        1 => Just(Disturbance::Drop),
        3 => Just(Disturbance::Crash),
        2 => Just(Disturbance::HandOver),
        1 => Just(Disturbance::Late),
    ]
}

/// Generates histories.
pub(crate) fn case() -> impl Strategy<Value = Case> {
    let dialogue = (vec(asked(), 1..5), vec(response(), 1..6), vec(called(), 1..6));
    let order = (vec(0..8_usize, 1..12), vec((0..80_usize, disturbance()), 0..5), 1..10_usize);
    let resume = select(vec![ResumeMode::Restart, ResumeMode::Continue]);
    let system = select(vec!["", "be brief", " \n"]);
    (resume, system, dialogue, order).prop_map(|(resume, system, dialogue, order)| {
        let ((messages, responses, calls), (picks, disturbances, request)) = (dialogue, order);
        Case { resume, system, messages, responses, calls, picks, disturbances, request }
    })
}
