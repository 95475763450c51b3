//! What of a model works: each probe is one or two small real requests, and a function in a file of its own. What may not live
//! here: the journal; a probe records nothing.

mod answer;
mod ask;
mod cache;
mod images;
mod thinking;
mod tools;

use serde::Serialize;

use ask::Heard;

pub(crate) use ask::Asker;

/// What a probe found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// What was looked at.
    pub(crate) what: &'static str,
    pub(crate) verdict: Verdict,
    /// Whether an agent cannot work without it.
    pub(crate) essential: bool,
    /// What was seen, or what the server answered; one line.
    pub(crate) says: String,
    /// How long it took.
    pub(crate) ms: u64,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
}

/// Whether it works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// It was seen to.
    Works,
    /// It was seen not to.
    Fails,
    /// It was not seen: not tried, or the model did not do as it was asked.
    Unclear,
}

impl Verdict {
    /// Its mark at the beginning of a line.
    pub(crate) fn mark(self) -> &'static str {
        match self {
            Self::Works => "✓",
            Self::Fails => "✗",
            Self::Unclear => "–",
        }
    }
}

impl Finding {
    /// Something that an agent cannot do without.
    fn essential(what: &'static str, verdict: Verdict, says: impl Into<String>, ms: u64) -> Self {
        Self { what, verdict, essential: true, says: says.into(), ms, hint: None }
    }

    /// Something that it can do without.
    fn optional(what: &'static str, verdict: Verdict, says: impl Into<String>, ms: u64) -> Self {
        Self { what, verdict, essential: false, says: says.into(), ms, hint: None }
    }

    /// The same, where a request failed: with what its failure says is to be done.
    fn of(self, observed: &Heard) -> Self {
        let hint = observed.failure.as_ref().and_then(|failure| failure.message.lines().nth(1)).map(str::to_owned);
        Self { hint, ..self }
    }

    /// Whether nothing can be done with the model as it is.
    pub(crate) fn is_fatal(&self) -> bool {
        self.essential && self.verdict == Verdict::Fails
    }
}

/// Tries everything in order, telling each name before and each finding after. Where there is no answer at all, the rest is
/// not tried.
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
