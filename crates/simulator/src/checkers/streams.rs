//! Compares what the model sent with what was recorded of it.

use engine::{EffectId, Event, Next, Note, Outcome, RunEnded, StopReason, Timestamp};

use super::{Evidence, SLACK_MS};
use crate::invariant::{Invariant, Violation};
use crate::world::{only_begins, only_closes, text_of};

/// The final text is that of the messages of the last step, and for a completed run what the script says. If the model
/// was cut, and the request for the rest failed or was not allowed, the run is completed with what came, and says so.
pub(super) fn answers_are_whole(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let journal = evidence.outside.disk.journal();
    let (mut step, mut before, mut is_raised, mut closes) = (vec![], vec![], false, false);
    let mut is_part = false;
    for event in evidence.events() {
        match event {
            Event::RunStarted(_) => (step, before, is_part) = (vec![], vec![], false),
            // A run that has made its closing report, or then waited for more budget, only has to close. So does one whose
            // answer does not fit.
            Event::Noted(e) if matches!(e.note, Note::Raised | Note::SchemaMismatch) => is_raised = true,
            Event::Noted(e) if e.note == Note::Closing => closes = true,
            Event::StepBegun(_) => {
                is_part = false;
                let said = std::mem::take(&mut step);
                before = if std::mem::take(&mut is_raised) { [before, said].concat() } else { vec![] };
            }
            Event::MessageSealed(e) => {
                is_raised |= std::mem::take(&mut closes) && e.next == Next::Steer;
                step.extend(e.text);
                is_part = match e.next {
                    Next::Continue => evidence.outside.model.cut.contains(&e.request),
                    Next::Cut => is_part,
                    Next::Calls | Next::Steer | Next::Finish => false,
                };
            }
            Event::RunEnded(e) => {
                Invariant::Answer
                    .holds(e.text == step, || format!("run {} names {:?}, not {step:?}", e.run, e.text))?;
                let text =
                    before.iter().chain(&e.text).map(|body| text_of(journal, body)).collect::<Result<String, _>>()?;
                let plan = &evidence.outside.plan;
                let answer = plan.script_of(e.run).map(|run| plan.answer(run)).unwrap_or_default();
                let (says, may) = match e.outcome {
                    Outcome::Completed if is_part => (is_incomplete(e), only_begins(&answer, &text)),
                    Outcome::Completed => (!is_incomplete(e), only_closes(&answer, &text)),
                    Outcome::Failed => (!is_part, true),
                    Outcome::Aborted | Outcome::Interrupted | Outcome::TimedOut | Outcome::Stalled => (true, true),
                };
                Invariant::Answer.holds(says && may, || {
                    let (is, why, run) = (e.outcome.name(), &e.failure, e.run);
                    format!("run {run} is {is} ({why:?}) and answers `{text}`, the model said `{answer}`")
                })?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether the run says that its answer lacks its rest, and why.
fn is_incomplete(e: &RunEnded) -> bool {
    e.stop_reason == Some(StopReason::Length) && e.failure.is_some()
}

/// A message after which the run continues is the answer to a request whose end mark came.
pub(super) fn complete_means_an_end_mark(evidence: &Evidence<'_>) -> Result<(), Violation> {
    evidence.events().try_for_each(|event| match event {
        Event::MessageSealed(e) if e.next != Next::Cut => {
            let whole = evidence.outside.model.whole.contains(&e.request);
            Invariant::EndMark.holds(whole, || format!("{} is complete, and its end mark never came", e.request))
        }
        _ => Ok(()),
    })
}

/// A silent stream is closed within its limit. If time did not pass evenly, this checks nothing.
pub(super) fn silence_has_a_limit(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let outside = evidence.outside;
    if outside.past.gaps > 0 {
        return Ok(());
    }
    let limits = outside.plan.limits();
    let most = limits.idle_timeout_ms.max(limits.first_byte_timeout_ms) + SLACK_MS;
    outside.model.silent.iter().try_for_each(|(request, since)| {
        let closed = closed_at(evidence, *request);
        let late = closed.filter(|at| at.since(*since) > most);
        Invariant::Stall
            .holds(late.is_none(), || format!("{request} was silent since {}, and was closed at {late:?}", since.0))
    })
}

/// When an entry closed this request.
fn closed_at(evidence: &Evidence<'_>, request: EffectId) -> Option<Timestamp> {
    evidence.entries.iter().find(|entry| entry.event.seals() == Some(request)).map(|entry| entry.at)
}
