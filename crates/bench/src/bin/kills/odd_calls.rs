//! Checks the outcome of invalid calls of the provider: each has one result, and the run continues.
//!
//! Every case also checks that the answer of the run is complete, that no call has two results, and that every request
//! is paired.

use model_server::{Expected, Fault, ODD_CALLS, Odd};
use serde_json::Value;

use super::checks::{Aftermath, text};

/// Whether a case had such calls, and their outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum OddMet {
    /// The provider should not make any.
    #[default]
    NotPlanned,
    /// A kill came before they were recorded, and the model then made valid calls.
    Missed,
    /// This many got a result that says what is wrong.
    Denied(usize),
    /// This many could be distinguished, and ran.
    Done(usize),
    /// The answer was invalid and was requested again.
    AskedAgain,
}

/// The outcome of these calls.
pub(super) fn met(aftermath: &Aftermath<'_>) -> OddMet {
    let calls = rounds(aftermath).iter().map(|step| calls(step).len()).sum();
    match expected(aftermath) {
        None => OddMet::NotPlanned,
        Some(Expected::AskedAgain) if !aftermath.truth.failures.is_empty() => OddMet::AskedAgain,
        Some(Expected::Denied(_)) if calls > 0 => OddMet::Denied(calls),
        Some(Expected::Done(_)) if calls > 0 => OddMet::Done(calls),
        Some(_) => OddMet::Missed,
    }
}

/// The violations in their rounds.
pub(super) fn violations(aftermath: &Aftermath<'_>) -> Vec<String> {
    let Some(expected) = expected(aftermath) else { return vec![] };
    let rounds = rounds(aftermath);
    let (most, count, outcome) = match expected {
        Expected::Denied(count) => (1, count, "denied"),
        Expected::Done(count) => (1, count, "done"),
        Expected::AskedAgain => (0, 0, ""),
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

fn expected(aftermath: &Aftermath<'_>) -> Option<Expected> {
    match aftermath.script.fault {
        Some(Fault::Odd { odd: Odd::Calls(odd), .. }) => Some(odd.expected()),
        _ => None,
    }
}

/// The steps of the case's run whose message makes them.
fn rounds<'a>(aftermath: &Aftermath<'a>) -> Vec<&'a Value> {
    let steps = aftermath.first().and_then(|run| run["steps"].as_array()).into_iter().flatten();
    steps.filter(|step| text(step) == ODD_CALLS && !calls(step).is_empty()).collect()
}

fn calls(step: &Value) -> &[Value] {
    step["calls"].as_array().map_or(&[], Vec::as_slice)
}
