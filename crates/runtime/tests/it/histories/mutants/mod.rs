//! For each rule a request that breaks it: a valid one, as an adapter writes it, and the change that breaks the rule.
//! Rules do not belong here.

mod anthropic;
mod gemini;
mod ollama;
mod openai_chat;
mod openai_responses;

use engine::ResumeMode;
use models::{Api, Cached};
use serde_json::Value;

use crate::histories::case::{Case, Decision, SampleFile, ScriptedCall, ScriptedResponse, UserMessage};
use crate::histories::served::{SERVED, Sent};
use crate::histories::speaker::{Id, Piece};
use crate::histories::world::play;

/// The name of a rule, and the change that makes a valid request break it.
pub(crate) type Mutant = (&'static str, fn(&mut Value));

/// A request that breaks a rule.
pub(crate) struct Bad {
    pub(crate) rule: &'static str,
    pub(crate) sent: Sent,
}

/// Returns, for every rule of a format, a request that breaks it.
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

/// The model of a format to which most rules apply.
fn model(api: Api) -> usize {
    match api {
        Api::Anthropic => 1,
        Api::Gemini => 7,
        _ => SERVED.iter().position(|served| served.api == api).expect("every format has a model"),
    }
}

/// A message that is answered with three concurrent calls, and the request with their results.
pub(crate) fn three_calls(picks: Vec<usize>) -> Case {
    let call = Piece::Call { id: Id::Own, tool: "ls", arguments: "{}" };
    Case {
        messages: vec![UserMessage { text: "look", files: vec![], model: 0 }],
        responses: vec![ScriptedResponse { pieces: vec![call; 3], failure: None }],
        picks,
        request: 2,
        ..quiet()
    }
}

/// An empty case without failures.
fn quiet() -> Case {
    Case {
        resume: ResumeMode::Restart,
        system: "be brief",
        messages: vec![],
        responses: vec![],
        calls: vec![ScriptedCall { decision: Decision::Allowed, fails: false, output: "a.rs", files: vec![] }],
        picks: vec![0],
        disturbances: vec![],
        request: 1,
    }
}

/// A message with an image and a document; reasoning, text and two calls; their results; an answer; another message.
pub(crate) fn good(model: usize) -> Sent {
    let message = |text, files| UserMessage { text, files, model };
    let file = |media_type, bytes| SampleFile { media_type, bytes };
    let call = |tool| Piece::Call { id: Id::Own, tool, arguments: "{\"path\":\"a\"}" };
    let answer = |text| Piece::Text { text, is_signed: true };
    let first =
        vec![Piece::Reasoning { text: "Two places.", is_signed: true }, answer("I look."), call("ls"), call("read")];
    let case = Case {
        messages: vec![
            message("look", vec![file("image/png", b"png"), file("application/pdf", b"%PDF")]),
            message("thanks", vec![]),
        ],
        responses: vec![
            ScriptedResponse { pieces: first, failure: None },
            ScriptedResponse { pieces: vec![answer("Done.")], failure: None },
        ],
        request: 3,
        ..quiet()
    };
    let history = play(&case).expect("it sends three requests");
    SERVED[model].sent(case.system, &history.messages, &Cached::from(tools::specs()))
}
