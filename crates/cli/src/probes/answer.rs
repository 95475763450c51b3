//! Asks for a short answer: is the server reachable, does it accept the key, stream, and report its usage?

use engine::{Failure, FailureClass};

use super::ask::{Asker, Observed, ProbeRequest};
use super::{Finding, Verdict};
use crate::show::human::tokens;

pub(super) async fn probe(asker: &Asker) -> Vec<Finding> {
    let observed = asker.ask(ProbeRequest { text: "Answer with the word OK.", ..ProbeRequest::default() }).await;
    let has_key = asker.has_key();
    vec![reachable(&observed), key(&observed, has_key), streaming(&observed), usage(&observed)]
}

/// What came of a short question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// An answer, after this time.
    Came { ms: u64 },
    /// None, for this reason, with what to do about it.
    Refused { why: String, hint: Option<String> },
}

impl Asker {
    /// Asks for a short answer.
    pub(crate) async fn answers(&self) -> Answer {
        let observed = self.ask(ProbeRequest { text: "Answer with the word OK.", ..ProbeRequest::default() }).await;
        match observed.refusal() {
            None => Answer::Came { ms: observed.ms },
            Some(why) => Answer::Refused {
                why,
                hint: observed.failure.and_then(|failure| failure.message.lines().nth(1).map(str::to_owned)),
            },
        }
    }
}

/// The failure, if no response arrived at all.
fn is_unreached(observed: &Observed) -> Option<&Failure> {
    let failure = observed.failure.as_ref()?;
    let is_silent = matches!(failure.class, FailureClass::Network | FailureClass::Timeout) && failure.status.is_none();
    (is_silent && observed.first_ms.is_none()).then_some(failure)
}

fn reachable(observed: &Observed) -> Finding {
    let finding = |verdict, says: String| Finding::essential("reachable", verdict, says, observed.ms);
    match (is_unreached(observed), observed.failure.as_ref().and_then(|failure| failure.status)) {
        (Some(_), _) => finding(Verdict::Fails, observed.refusal().unwrap_or_default()).of(observed),
        (None, Some(status)) => finding(Verdict::Works, format!("it answers, with HTTP {status}")),
        (None, None) => finding(Verdict::Works, "it answers".to_owned()),
    }
}

fn key(observed: &Observed, has_key: bool) -> Finding {
    let finding = |verdict, says: &str| Finding::essential("key", verdict, says, 0);
    match &observed.failure {
        _ if is_unreached(observed).is_some() => finding(Verdict::Unclear, "not tried"),
        Some(failure) if matches!(failure.class, FailureClass::Auth | FailureClass::AuthPermanent) => {
            finding(Verdict::Fails, &observed.refusal().unwrap_or_default()).of(observed)
        }
        // The server may have refused the request before it checked the key.
        Some(_) => finding(Verdict::Unclear, "the request was refused for another reason"),
        None if has_key => finding(Verdict::Works, "accepted"),
        None => finding(Verdict::Works, "none is needed"),
    }
}

fn streaming(observed: &Observed) -> Finding {
    let finding = |verdict, says: String| Finding::essential("streaming", verdict, says, observed.ms);
    if let Some(refusal) = observed.refusal() {
        return finding(Verdict::Fails, refusal).of(observed);
    }
    let first = observed.first_ms.unwrap_or(observed.ms);
    let pieces = crate::show::human::count(observed.pieces, "piece");
    finding(Verdict::Works, format!("{} in {pieces}, the first after {first} ms", observed.quoted()))
}

fn usage(observed: &Observed) -> Finding {
    let finding = |verdict, says: String| Finding::optional("usage", verdict, says, 0);
    match (&observed.failure, observed.is_counted) {
        (Some(_), _) => finding(Verdict::Unclear, "not tried".to_owned()),
        (None, true) => finding(Verdict::Works, tokens(&observed.usage)),
        (None, false) => {
            finding(Verdict::Unclear, "not reported; costs are estimated at four bytes a token".to_owned())
        }
    }
}
