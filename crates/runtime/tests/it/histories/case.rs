//! A history as it is drawn: who says what, how calls end, and what comes in between. Numbers choose among what there
//! is when it happens, so that shrinking keeps a case valid.

use engine::{FailureClass, ResumeMode};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::says::{Id, Piece};
use super::served::SERVED;

/// One history.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// What becomes of a cut stream.
    pub(crate) resume: ResumeMode,
    /// The system prompt.
    pub(crate) system: &'static str,
    /// The messages of the user, each sent when the run before has ended or something sends it earlier.
    pub(crate) messages: Vec<Asked>,
    /// What is said, request by request, over again.
    pub(crate) turns: Vec<Turn>,
    /// How calls go, one after the other, over again.
    pub(crate) calls: Vec<Called>,
    /// Which of the effects that run goes on next, over again.
    pub(crate) picks: Vec<usize>,
    /// What comes in between, and after how many steps.
    pub(crate) disturbances: Vec<(usize, Disturbance)>,
    /// The request that is judged; fewer may come.
    pub(crate) request: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) text: &'static str,
    pub(crate) files: Vec<Shown>,
    /// Who answers: a place in [`SERVED`].
    pub(crate) model: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct Turn {
    pub(crate) pieces: Vec<Piece>,
    /// None: whole.
    pub(crate) failure: Option<FailureClass>,
}

#[derive(Debug, Clone)]
pub(crate) struct Called {
    pub(crate) decision: Decision,
    pub(crate) fails: bool,
    pub(crate) output: &'static str,
    pub(crate) files: Vec<Shown>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Decision {
    Allowed,
    Denied,
    AskedAndAllowed,
    AskedAndDenied,
}

/// A file that is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown {
    pub(crate) media_type: &'static str,
    pub(crate) bytes: &'static [u8],
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Disturbance {
    Message,
    Abort,
    Pause,
    /// A pause, and its run is ended.
    Drop,
    /// The process is killed, and the next one opens.
    Crash,
    /// The process leaves in order, and the next one opens.
    HandOver,
    /// The run's own limit, or another that is due.
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

fn files() -> impl Strategy<Value = Vec<Shown>> {
    let file = select(FILES).prop_map(|(media_type, bytes)| Shown { media_type, bytes });
    prop_oneof![4 => Just(vec![]), 1 => vec(file, 1..4)]
}

fn asked() -> impl Strategy<Value = Asked> {
    // A message of the command line has text; one that comes with files may have none.
    let message = (text(), files()).prop_map(|(text, files)| {
        let says_nothing = text.trim().is_empty() && files.is_empty();
        (if says_nothing { "go on" } else { text }, files)
    });
    (message, 0..SERVED.len()).prop_map(|((text, files), model)| Asked { text, files, model })
}

fn piece() -> impl Strategy<Value = Piece> {
    let id = select(vec![Id::Own, Id::Own, Id::Own, Id::Missing, Id::ByPlace, Id::Odd, Id::Long, Id::Same]);
    prop_oneof![
        4 => (text(), any::<bool>()).prop_map(|(text, is_signed)| Piece::Text { text, is_signed }),
        3 => (text(), any::<bool>()).prop_map(|(text, is_signed)| Piece::Reasoning { text, is_signed }),
        1 => Just(Piece::Hidden),
        6 => (id, select(TOOLS), select(ARGUMENTS))
            .prop_map(|(id, tool, arguments)| Piece::Call { id, tool, arguments }),
        1 => select(vec!["image/png", "image/bmp"]).prop_map(|media_type| Piece::Image { media_type }),
    ]
}

fn turn() -> impl Strategy<Value = Turn> {
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
    (pieces, failure).prop_map(|(pieces, failure)| Turn { pieces, failure })
}

fn called() -> impl Strategy<Value = Called> {
    let decision = prop_oneof![
        6 => Just(Decision::Allowed),
        1 => Just(Decision::Denied),
        1 => Just(Decision::AskedAndAllowed),
        1 => Just(Decision::AskedAndDenied),
    ];
    let output = prop_oneof![1 => Just(""), 4 => text()];
    (decision, prop::bool::weighted(0.3), output, files()).prop_map(|(decision, fails, output, files)| Called {
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

/// A drawn history.
pub(crate) fn case() -> impl Strategy<Value = Case> {
    let said = (vec(asked(), 1..5), vec(turn(), 1..6), vec(called(), 1..6));
    let order = (vec(0..8_usize, 1..12), vec((0..80_usize, disturbance()), 0..5), 1..10_usize);
    let resume = select(vec![ResumeMode::Restart, ResumeMode::Continue]);
    let system = select(vec!["", "be brief", " \n"]);
    (resume, system, said, order).prop_map(|(resume, system, said, order)| {
        let ((messages, turns, calls), (picks, disturbances, request)) = (said, order);
        Case { resume, system, messages, turns, calls, picks, disturbances, request }
    })
}
