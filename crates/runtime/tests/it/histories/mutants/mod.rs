//! For each rule a request that breaks it: a good one, as an adapter writes it, and what is changed in it. What may not
//! live here: rules.

mod anthropic;
mod gemini;
mod ollama;
mod openai_chat;
mod openai_responses;

use engine::ResumeMode;
use models::{Api, Cached};
use serde_json::Value;

use crate::histories::case::{Asked, Called, Case, Decision, Shown, Turn};
use crate::histories::says::{Id, Piece};
use crate::histories::served::{SERVED, Sent};
use crate::histories::world::play;

/// The rule, and how a good request is made to break it.
pub(crate) type Mutant = (&'static str, fn(&mut Value));

/// A request that breaks a rule.
pub(crate) struct Bad {
    pub(crate) rule: &'static str,
    pub(crate) sent: Sent,
}

/// For every rule of a format a request that breaks it.
pub(crate) fn bad(api: Api) -> Vec<Bad> {
    let mutants = match api {
        Api::Offline => &[],
        Api::Anthropic => anthropic::MUTANTS,
        Api::OpenAiChat => openai_chat::MUTANTS,
        Api::OpenAiResponses => openai_responses::MUTANTS,
        Api::Gemini => gemini::MUTANTS,
        Api::Ollama => ollama::MUTANTS,
    };
    let bad = |(rule, change): &Mutant| {
        let mut sent = good(model(api));
        change(&mut sent.body);
        Bad { rule, sent }
    };
    mutants.iter().map(bad).collect()
}

/// The model of a format that most is asked of.
fn model(api: Api) -> usize {
    match api {
        Api::Anthropic => 1,
        Api::Gemini => 7,
        _ => SERVED.iter().position(|served| served.api == api).expect("every format has a model"),
    }
}

/// A question that is answered with three calls that run beside each other, and the request with their results.
pub(crate) fn three_calls(picks: Vec<usize>) -> Case {
    let call = Piece::Call { id: Id::Own, tool: "ls", arguments: "{}" };
    Case {
        messages: vec![Asked { text: "look", files: vec![], model: 0 }],
        turns: vec![Turn { pieces: vec![call; 3], failure: None }],
        picks,
        request: 2,
        ..quiet()
    }
}

/// A case of nothing yet, in which all goes well.
fn quiet() -> Case {
    Case {
        resume: ResumeMode::Restart,
        system: "be brief",
        messages: vec![],
        turns: vec![],
        calls: vec![Called { decision: Decision::Allowed, fails: false, output: "a.rs", files: vec![] }],
        picks: vec![0],
        disturbances: vec![],
        request: 1,
    }
}

/// A question with an image and a document; reasoning, text and two calls; their results; an answer; another question.
pub(crate) fn good(model: usize) -> Sent {
    let asked = |text, files| Asked { text, files, model };
    let shown = |media_type, bytes| Shown { media_type, bytes };
    let call = |tool| Piece::Call { id: Id::Own, tool, arguments: "{\"path\":\"a\"}" };
    let said = |text| Piece::Text { text, is_signed: true };
    let first =
        vec![Piece::Reasoning { text: "Two places.", is_signed: true }, said("I look."), call("ls"), call("read")];
    let case = Case {
        messages: vec![
            asked("look", vec![shown("image/png", b"png"), shown("application/pdf", b"%PDF")]),
            asked("thanks", vec![]),
        ],
        turns: vec![Turn { pieces: first, failure: None }, Turn { pieces: vec![said("Done.")], failure: None }],
        request: 3,
        ..quiet()
    };
    let history = play(&case).expect("it sends three requests");
    SERVED[model].sent(case.system, &history.messages, &Cached::from(tools::specs()))
}
