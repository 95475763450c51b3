//! What must have become of calls that the provider asked for out of order: each is answered, once, and the run goes on.
//!
//! That the answer of the run is whole, that no call has two results and that every request pairs is checked for every case.

use model_server::{Fault, Meant, ODD_CALLS, Odd};
use serde_json::Value;

use super::checks::{Aftermath, text};

/// Whether a case met them, and what became of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum OddMet {
    /// The provider was not to ask for any.
    #[default]
    NotDrawn,
    /// A kill came before they were recorded: they were asked for anew, in order.
    Missed,
    /// So many were answered with what is wrong about them.
    Denied(usize),
    /// So many could be told apart, and ran.
    Done(usize),
    /// The answer was none.
    AskedAgain,
}

/// What became of them.
pub(super) fn met(aftermath: &Aftermath<'_>) -> OddMet {
    let calls = rounds(aftermath).iter().map(|step| calls(step).len()).sum();
    match meant(aftermath) {
        None => OddMet::NotDrawn,
        Some(Meant::AskedAgain) if !aftermath.truth.failures.is_empty() => OddMet::AskedAgain,
        Some(Meant::Denied(_)) if calls > 0 => OddMet::Denied(calls),
        Some(Meant::Done(_)) if calls > 0 => OddMet::Done(calls),
        Some(_) => OddMet::Missed,
    }
}

/// What is wrong with their rounds.
pub(super) fn violations(aftermath: &Aftermath<'_>) -> Vec<String> {
    let Some(meant) = meant(aftermath) else { return vec![] };
    let rounds = rounds(aftermath);
    let (most, count, outcome) = match meant {
        Meant::Denied(count) => (1, count, "denied"),
        Meant::Done(count) => (1, count, "done"),
        Meant::AskedAgain => (0, 0, ""),
    };
    let mut wrong = vec![];
    if rounds.len() > most {
        wrong.push(format!("{} rounds of odd calls are kept, not {most}", rounds.len()));
    }
    for calls in rounds.iter().take(most).map(|step| calls(step)) {
        if calls.len() != count {
            wrong.push(format!("{} odd calls are kept, not {count}", calls.len()));
        }
        for call in
            calls.iter().filter(|call| call["outcome"] != outcome || call["output"].as_str().is_none_or(str::is_empty))
        {
            wrong
                .push(format!("the odd call {} is {}, not {outcome}: {}", call["id"], call["outcome"], call["output"]));
        }
    }
    wrong
}

fn meant(aftermath: &Aftermath<'_>) -> Option<Meant> {
    match aftermath.script.fault {
        Some(Fault::Odd { odd: Odd::Calls(odd), .. }) => Some(odd.meant()),
        _ => None,
    }
}

/// The steps of the case's run whose message asks for them.
fn rounds<'a>(aftermath: &Aftermath<'a>) -> Vec<&'a Value> {
    let steps = aftermath.first().and_then(|run| run["steps"].as_array()).into_iter().flatten();
    steps.filter(|step| text(step) == ODD_CALLS && !calls(step).is_empty()).collect()
}

fn calls(step: &Value) -> &[Value] {
    step["calls"].as_array().map_or(&[], Vec::as_slice)
}
