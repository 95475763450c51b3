//! A short answer: whether the server is reached, takes the key, streams, and says what it cost.

use engine::{Failure, FailureClass};

use super::ask::{Asker, Heard, Question};
use super::{Finding, Verdict};
use crate::show::human::tokens;

pub(super) async fn probe(asker: &Asker) -> Vec<Finding> {
    let heard = asker.ask(Question { text: "Answer with the word OK.", ..Question::default() }).await;
    let has_key = asker.has_key();
    vec![reachable(&heard), key(&heard, has_key), streaming(&heard), usage(&heard)]
}

/// Whether nothing at all came back.
fn is_unreached(heard: &Heard) -> Option<&Failure> {
    let failure = heard.failure.as_ref()?;
    let is_silent = matches!(failure.class, FailureClass::Network | FailureClass::Timeout) && failure.status.is_none();
    (is_silent && heard.first_ms.is_none()).then_some(failure)
}

fn reachable(heard: &Heard) -> Finding {
    let finding = |verdict, says: String| Finding::essential("reachable", verdict, says, heard.ms);
    match (is_unreached(heard), heard.failure.as_ref().and_then(|failure| failure.status)) {
        (Some(_), _) => finding(Verdict::Fails, heard.refusal().unwrap_or_default()).of(heard),
        (None, Some(status)) => finding(Verdict::Works, format!("it answers, with HTTP {status}")),
        (None, None) => finding(Verdict::Works, "it answers".to_owned()),
    }
}

fn key(heard: &Heard, has_key: bool) -> Finding {
    let finding = |verdict, says: &str| Finding::essential("key", verdict, says, 0);
    match &heard.failure {
        _ if is_unreached(heard).is_some() => finding(Verdict::Unclear, "not tried"),
        Some(failure) if matches!(failure.class, FailureClass::Auth | FailureClass::AuthPermanent) => {
            finding(Verdict::Fails, &heard.refusal().unwrap_or_default()).of(heard)
        }
        // Another refusal may have come before the key was looked at.
        Some(_) => finding(Verdict::Unclear, "the request was refused for another reason"),
        None if has_key => finding(Verdict::Works, "accepted"),
        None => finding(Verdict::Works, "none is needed"),
    }
}

fn streaming(heard: &Heard) -> Finding {
    let finding = |verdict, says: String| Finding::essential("streaming", verdict, says, heard.ms);
    if let Some(refusal) = heard.refusal() {
        return finding(Verdict::Fails, refusal).of(heard);
    }
    let first = heard.first_ms.unwrap_or(heard.ms);
    let pieces = crate::show::human::count(heard.pieces, "piece");
    finding(Verdict::Works, format!("{} in {pieces}, the first after {first} ms", heard.quoted()))
}

fn usage(heard: &Heard) -> Finding {
    let finding = |verdict, says: String| Finding::optional("usage", verdict, says, 0);
    match (&heard.failure, heard.is_counted) {
        (Some(_), _) => finding(Verdict::Unclear, "not tried".to_owned()),
        (None, true) => finding(Verdict::Works, tokens(&heard.usage)),
        (None, false) => {
            finding(Verdict::Unclear, "not reported; costs are estimated at four bytes a token".to_owned())
        }
    }
}
