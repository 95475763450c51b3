//! The story of a run: a line for each entry, from accepted to ended, with ownership changes in between.

use engine::tables::lifecycle::LifecycleCause;
use engine::tables::transitions::RunState;
use engine::{Event, Failure, MessageId, Phase, PrepareStage, ReceiptState, RunId, Session};
use journal::{Read, StoredLineage};
use protocol::show::{Node, TraceLine};

use super::Texts;
use super::fold::{Left, Transition, fold, removed_to};
use super::lookup::FoundRun;
use super::sentence::{Narrator, settings_of};
use crate::error::Error;

/// Reads a run's branch and traces it.
pub fn trace(read: &dyn Read, found: &FoundRun, texts: Texts<'_>) -> Result<Vec<TraceLine>, Error> {
    let branch = found.row.as_ref().map_or(found.session.branch, |row| row.branch);
    let line = read.history(branch)?;
    let settings_of = settings_of(read);
    let lines = project(found.run, &line, Narrator::new(&settings_of, texts))?;
    match removed_to(&line).filter(|_| lines.is_empty()) {
        Some(at) => Err(Error::not_found(
            format!("the entries of run {} were removed: no entry up to {at} is left", found.run),
            "`limulus runs show` shows what is left of it",
        )),
        None => Ok(lines),
    }
}

/// The trace of a run in a lineage.
fn project(run: RunId, line: &StoredLineage, mut narrator: Narrator<'_>) -> Result<Vec<TraceLine>, Error> {
    let start = line.start.as_ref().map(|start| &start.session);
    if let Some(session) = start {
        narrator.learn(session);
    }
    let stage = start.map_or(Stage::Before, |session| stage(run, session));
    let mut tracer = Tracer { run, inputs: inputs(run, line), stage, lines: vec![], failed: None };
    fold(line, |transition| {
        // The narrator must see every entry, because it learns names on the way.
        let sentence = narrator.notify(transition);
        if tracer.belongs(transition) {
            match sentence {
                Ok(detail) => tracer.add(transition, detail),
                Err(error) => tracer.failed = tracer.failed.take().or(Some(error)),
            }
        }
    })?;
    match tracer.failed {
        Some(error) => Err(error),
        None => Ok(tracer.lines),
    }
}

/// The messages that the run answers: its own as long as it has not started.
fn inputs(run: RunId, line: &StoredLineage) -> Vec<MessageId> {
    let under_way = line.start.as_ref().and_then(|start| start.session.run()).filter(|known| known.id == run);
    let started = line.entries().find_map(|(_, entry)| match &entry.event {
        Event::RunStarted(e) if e.run == run => Some(e.inputs.clone()),
        _ => None,
    });
    under_way.map(|run| run.inputs.clone()).or(started).unwrap_or_else(|| vec![run.into()])
}

/// The stage of the run in the state at which the entries start.
fn stage(run: RunId, session: &Session) -> Stage {
    match session.account.messages.get(&run.into()).map(|message| message.state) {
        None => Stage::Before,
        Some(ReceiptState::Ended) => Stage::Ended,
        Some(_) => Stage::Accepted,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Before,
    Accepted,
    Ended,
}

struct Tracer {
    run: RunId,
    inputs: Vec<MessageId>,
    stage: Stage,
    lines: Vec<TraceLine>,
    failed: Option<Error>,
}

impl Tracer {
    fn belongs(&mut self, transition: &Transition<'_>) -> bool {
        match &transition.entry.event {
            Event::MessageAccepted(e) => {
                let ours = self.inputs.contains(&e.message);
                if ours && self.stage == Stage::Before {
                    self.stage = Stage::Accepted;
                }
                ours
            }
            Event::MessageSettled(e) => self.inputs.contains(&e.message),
            // The owners of the home while the run waits are part of its story.
            Event::Opened(_) | Event::Closed(_) => self.stage == Stage::Accepted,
            Event::RunEnded(e) => {
                let ours = e.run == self.run;
                if ours {
                    self.stage = Stage::Ended;
                }
                ours
            }
            // The end is recorded first, the lifecycle that follows from it next.
            Event::LifecycleChanged(e) if e.cause == LifecycleCause::RunEnded => self
                .lines
                .last()
                .is_some_and(|line| line.to == RunState::Completed && line.seq.0 + 1 == transition.entry.seq.0),
            _ => transition.run == Some(self.run) && self.stage != Stage::Ended,
        }
    }

    fn add(&mut self, transition: &Transition<'_>, detail: Option<String>) {
        let Transition { entry, from, to, session, .. } = transition;
        let first = self.lines.first().map_or(entry.at, |line| line.at);
        // While another run is active, this one has not begun.
        let ours = |state: RunState| if transition.run == Some(self.run) { state } else { RunState::Idle };
        let (from, to) = (ours(*from), ours(*to));
        let echo = match &entry.event {
            Event::LifecycleChanged(e) => matches!(e.cause, LifecycleCause::Task | LifecycleCause::RunEnded),
            _ => false,
        };
        self.lines.push(TraceLine {
            run: self.run,
            seq: entry.seq,
            position: entry.position,
            epoch: entry.epoch,
            at: entry.at,
            ms: entry.at.since(first),
            from,
            to,
            node: node(to, session),
            event: entry.event.kind().to_owned(),
            trigger: entry.event.trigger(),
            crash: matches!(entry.event, Event::Opened(_)) && transition.owner.1 == Left::Not,
            detail,
            category: failure(&entry.event).map(Failure::category),
            fields: serde_json::from_slice(&entry.event.payload()).unwrap_or_default(),
            echo,
        });
    }
}

/// The failure that an entry records.
fn failure(event: &Event) -> Option<&Failure> {
    match event {
        Event::Failed(e) => Some(&e.failure),
        Event::CompactionFailed(e) => Some(&e.failure),
        Event::RunEnded(e) => e.failure.as_ref(),
        Event::LifecycleChanged(e) => e.failure.as_ref(),
        _ => None,
    }
}

/// The node of the graph that a run is in.
fn node(state: RunState, session: &Session) -> Option<Node> {
    let sent = session.run().is_some_and(|run| matches!(run.phase, Phase::Preparing { stage: PrepareStage::Sent(_) }));
    match state {
        RunState::Preparing if sent => Some(Node::CallModel),
        RunState::Preparing => Some(Node::Prepare),
        RunState::Streaming => Some(Node::ProcessStream),
        RunState::ToolExec => Some(Node::ExecuteTools),
        RunState::Compacting => Some(Node::Compact),
        RunState::Error => Some(Node::Error),
        RunState::Completed => Some(Node::End),
        RunState::Idle | RunState::Retry | RunState::Awaiting | RunState::Paused => None,
    }
}
