//! A run in the shapes of `runs.list` and `runs.show`.

use engine::tables::failover::FailureCategory;
use engine::tables::transitions::RunState;
use engine::{
    Body, CallId, CallOutcome, EffectId, Event, Failure, MessageSealed, Phase, Resources, RunRow, SealedCall, Session,
    Usage,
};
use journal::StoredLineage;
use protocol::show::{CallStage, CallStory, RunStory, RunSummary, StepStory};

use super::beside::{Beside, last_outcome};
use super::fold::{Transition, fold, removed_to};
use super::lookup::FoundRun;
use super::{Source, Texts, budget, fold_branch, reply};
use crate::error::Error;

/// A run from its row.
pub fn of_row(row: &RunRow, key: &str) -> RunSummary {
    RunSummary {
        run: row.run,
        session: row.session,
        key: key.to_owned(),
        branch: row.branch,
        state: row.state,
        outcome: row.outcome,
        started_at: Some(row.started_at),
        ended_at: row.ended_at,
        model: row.model.clone(),
        usage: row.usage,
        error: row.error.clone(),
        stop_reason: row.stop_reason,
        checkpoint: row.checkpoint(),
        lane_wait: None,
    }
}

/// A run that was found; it may still be queued.
pub fn of(found: &FoundRun) -> RunSummary {
    let key = &found.session.key;
    if let Some(row) = &found.row {
        return of_row(row, key);
    }
    RunSummary {
        run: found.run,
        session: found.session.session,
        key: key.clone(),
        branch: found.session.branch,
        state: RunState::Idle,
        outcome: None,
        started_at: None,
        ended_at: None,
        model: String::new(),
        usage: Usage::default(),
        error: None,
        stop_reason: None,
        checkpoint: None,
        lane_wait: None,
    }
}

/// Reads a run's branch and collects its story.
pub fn story(source: &Source<'_>, found: &FoundRun, texts: Texts<'_>) -> Result<RunStory, Error> {
    let line = source.read.history(of(found).branch)?;
    let budget = if found.session.run == Some(found.run) {
        budget::limited(source, &fold_branch(source.read, &found.session)?)?
    } else {
        vec![]
    };
    let story = project(&Beside::new(source), found, &line, texts)?;
    // Its texts are in the story, so they are counted already.
    let texts = super::texts(source.read);
    let reply = found.row.as_ref().map(|row| reply::reply(source.read, row, &texts)).transpose()?.flatten();
    let reply = reply.map(|reply| reply.beside(&story.text));
    Ok(RunStory { budget, reply, ..story })
}

/// The story of a run in its branch.
pub fn project(
    beside: &Beside<'_>,
    found: &FoundRun,
    line: &StoredLineage,
    texts: Texts<'_>,
) -> Result<RunStory, Error> {
    let source = beside.source;
    let summary = RunSummary { lane_wait: source.lane_wait(found.run), ..of(found) };
    let mut gathered = Gathered::new(summary);
    let session = fold(line, |transition| gathered.visit(transition))?;
    let has_begun = gathered.summary.started_at.is_some();
    let removed_to = removed_to(line).filter(|_| has_begun && !gathered.is_whole);
    let is_current = session.run().is_some_and(|run| run.id == found.run);
    Ok(RunStory {
        removed_to,
        last_outcome: last_outcome(source.read, found.session.session)?,
        can_abort: is_current && session.flags().can_abort(session.conversation.lifecycle.kind()),
        resources: beside.of_run(found, &session)?,
        ..gathered.finish(&session, texts)?
    })
}

/// What a walk through the branch collects for one run.
struct Gathered {
    summary: RunSummary,
    steps: Vec<GatheredStep>,
    answer: Vec<Body>,
    category: Option<FailureCategory>,
    /// Whether its first entry was found.
    is_whole: bool,
}

/// A message of the model; its text is not read yet.
struct GatheredStep {
    request: EffectId,
    text: Option<Body>,
    calls: Vec<GatheredCall>,
}

struct GatheredCall {
    asked: SealedCall,
    stage: CallStage,
    outcome: Option<CallOutcome>,
    output: Option<Body>,
}

impl Gathered {
    fn new(summary: RunSummary) -> Self {
        Self { summary, steps: vec![], answer: vec![], category: None, is_whole: false }
    }

    fn visit(&mut self, transition: &Transition<'_>) {
        if transition.run != Some(self.summary.run) {
            return;
        }
        match &transition.entry.event {
            Event::RunStarted(_) => {
                (self.summary.started_at, self.is_whole) = (Some(transition.entry.at), true);
            }
            Event::MessageSealed(sealed) => self.sealed(sealed),
            Event::CallSettled(e) => {
                if let Some(call) = self.call(e.call) {
                    (call.stage, call.outcome, call.output) = (CallStage::Settled, Some(e.outcome), Some(e.output));
                }
            }
            Event::RunEnded(e) => {
                self.summary.state = RunState::Completed;
                self.summary.outcome = Some(e.outcome);
                self.summary.ended_at = Some(transition.entry.at);
                self.summary.usage = e.usage;
                self.summary.error = e.failure.as_ref().map(ToString::to_string);
                self.summary.stop_reason = e.stop_reason;
                self.summary.checkpoint = e.checkpoint.map(|seq| format!("{}@{seq}", self.summary.branch));
                self.category = e.failure.as_ref().map(Failure::category);
                self.answer.clone_from(&e.text);
            }
            _ => {}
        }
    }

    fn sealed(&mut self, sealed: &MessageSealed) {
        let calls = sealed.calls.iter().map(|call| GatheredCall {
            asked: call.clone(),
            // A call that was sealed with its answer will never run.
            stage: if call.answer.is_some() { CallStage::Settled } else { CallStage::Guarding },
            outcome: call.answer.map(|_| CallOutcome::Skipped),
            output: call.answer,
        });
        self.steps.push(GatheredStep { request: sealed.request, text: sealed.text, calls: calls.collect() });
    }

    fn call(&mut self, id: CallId) -> Option<&mut GatheredCall> {
        self.steps.iter_mut().flat_map(|step| &mut step.calls).find(|call| call.asked.id == id)
    }

    fn finish(mut self, session: &Session, texts: Texts<'_>) -> Result<RunStory, Error> {
        let mut open = None;
        if let Some(run) = session.run().filter(|run| run.id == self.summary.run) {
            self.summary.state = session.run_state();
            self.summary.usage = run.usage;
            self.category = run.trace.last().map(Failure::category);
            self.answer = run.step.segments.iter().chain(&run.step.kept).copied().collect();
            for call in run.step.calls.iter().filter(|call| !call.is_settled()) {
                let stage = CallStage::from(&call.stage);
                if let Some(call) = self.call(call.id) {
                    call.stage = stage;
                }
            }
            if let Phase::Streaming(stream) = &run.phase {
                open = Some((stream.sent.request, stream.text.clone()));
            }
        }
        let text = self.answer.iter().map(texts).collect::<Result<String, _>>()?;
        let steps = self.steps.into_iter().map(|step| step.read(texts)).collect::<Result<Vec<_>, _>>()?;
        let first = session.account.messages.get(&self.summary.run.into());
        let (origin, reply_to) = first.map(super::session::addresses).unwrap_or_default();
        let (open_request, open_text) = open.unzip();
        let (summary, open_text) = (self.summary, open_text.unwrap_or_default());
        Ok(RunStory {
            summary,
            removed_to: None,
            budget: vec![],
            last_outcome: None,
            can_abort: false,
            resources: Resources::default(),
            category: self.category,
            text,
            open_request,
            open_text,
            steps,
            origin,
            reply_to,
            reply: None,
        })
    }
}

impl GatheredStep {
    fn read(self, texts: Texts<'_>) -> Result<StepStory, Error> {
        let text = self.text.as_ref().map(texts).transpose()?.unwrap_or_default();
        let calls = self.calls.into_iter().map(|call| call.read(texts)).collect::<Result<Vec<_>, _>>()?;
        Ok(StepStory { request: self.request, text, calls })
    }
}

impl GatheredCall {
    fn read(self, texts: Texts<'_>) -> Result<CallStory, Error> {
        let SealedCall { id, tool, class, arguments, .. } = self.asked;
        let output = self.output.as_ref().map(texts).transpose()?;
        let arguments = texts(&arguments)?;
        Ok(CallStory { id, tool, class, stage: self.stage, outcome: self.outcome, arguments, output })
    }
}
