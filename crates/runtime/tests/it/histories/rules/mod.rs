//! What each provider refuses, one file for each provider: each rule is a function, with the page that it comes from. A
//! rule reads only the request that is sent; code of this program does not belong here.

mod anthropic;
mod gemini;
mod ollama;
mod openai_chat;
mod openai_responses;
mod shape;

use models::Api;

use crate::histories::served::Sent;

/// A rule: its name, and whether a request follows it.
pub(crate) type Rule = (&'static str, fn(&Sent) -> bool);

/// Lists functions as rules, with their names.
macro_rules! rules {
    ($($rule:ident,)*) => { &[$((stringify!($rule), $rule)),*] };
}
pub(crate) use rules;

/// The rules of a format.
pub(crate) fn of(api: Api) -> &'static [Rule] {
    match api {
        Api::Offline => &[],
        Api::Anthropic => anthropic::RULES,
        Api::OpenAiChat => openai_chat::RULES,
        Api::OpenAiResponses => openai_responses::RULES,
        Api::Gemini => gemini::RULES,
        Api::Ollama => ollama::RULES,
    }
}

/// The rules that this request breaks.
pub(crate) fn broken(sent: &Sent) -> Vec<&'static str> {
    of(sent.served.api).iter().filter(|(_, holds)| !holds(sent)).map(|(name, _)| *name).collect()
}
