//! Probes that find out what works with a model: each is one or two small real requests, with a function in a file of
//! its own. Probes record nothing.

mod answer;
mod ask;
mod cache;
mod images;
mod thinking;
mod tools;

use serde::Serialize;

use ask::Observed;

pub(crate) use answer::Answer;
pub(crate) use ask::Asker;

/// The result of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// What the probe checked.
    pub(crate) what: &'static str,
    pub(crate) verdict: Verdict,
    /// Whether an agent needs it.
    pub(crate) essential: bool,
    /// The observation, or the answer of the server; one line.
    pub(crate) says: String,
    /// How long it took.
    pub(crate) ms: u64,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
}

/// The verdict of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// The probe saw it work.
    Works,
    /// The probe saw it fail.
    Fails,
    /// Unknown: not tried, or the model did not follow the instruction.
    Unclear,
}

impl Verdict {
    /// The mark at the beginning of a line.
    pub(crate) fn mark(self) -> &'static str {
        match self {
            Self::Works => "✓",
            Self::Fails => "✗",
            Self::Unclear => "–",
        }
    }
}

impl Finding {
    /// A finding that an agent needs.
    fn essential(what: &'static str, verdict: Verdict, says: impl Into<String>, ms: u64) -> Self {
        Self { what, verdict, essential: true, says: says.into(), ms, hint: None }
    }

    /// A finding that an agent does not need.
    fn optional(what: &'static str, verdict: Verdict, says: impl Into<String>, ms: u64) -> Self {
        Self { what, verdict, essential: false, says: says.into(), ms, hint: None }
    }

    /// The finding of a failed request, with the remedy of its failure as the hint.
    fn of(self, observed: &Observed) -> Self {
        let hint = observed.failure.as_ref().and_then(|failure| failure.message.lines().nth(1)).map(str::to_owned);
        Self { hint, ..self }
    }

    /// Whether the model is unusable: an essential probe failed.
    pub(crate) fn is_fatal(&self) -> bool {
        self.essential && self.verdict == Verdict::Fails
    }
}

/// Runs all probes in order and reports each before it starts and after it ends. If the server does not answer at all, the
/// remaining probes are not tried.
pub(crate) async fn probe(asker: &Asker, mut trying: impl FnMut(&str), mut found: impl FnMut(Finding)) {
    trying("a short answer");
    let findings = answer::probe(asker).await;
    let answers = !findings.iter().any(Finding::is_fatal);
    findings.into_iter().for_each(&mut found);
    if !answers {
        for (what, essential) in [("tools", true), ("images", false), ("cache", false), ("thinking", false)] {
            found(Finding {
                what,
                verdict: Verdict::Unclear,
                essential,
                says: "not tried".to_owned(),
                ms: 0,
                hint: None,
            });
        }
        return;
    }
    trying("a call of a tool");
    found(tools::probe(asker).await);
    trying("an image");
    found(images::probe(asker).await);
    trying("the same long beginning twice");
    found(cache::probe(asker).await);
    trying("thinking");
    found(thinking::probe(asker).await);
}
