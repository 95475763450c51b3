//! The effects that must be in flight, derived from the state. Nothing here remembers anything.

use super::Machine;
use super::calls::has_turn;
use super::deliveries::under_way;
use crate::effect::Effect;
use crate::event::WaitFor;
use crate::ids::{EffectId, EffectKind};
use crate::settings::ToolClass;
use crate::state::{
    Asked, Call, Compacting, Counters, Erasure, Lifecycle, Phase, PrepareStage, Process, ProcessState, Run, Session,
    Stage,
};

impl Machine {
    /// All wanted effects, each with a stable id.
    pub(super) fn wanted(&self) -> Vec<Effect> {
        let Some(session) = self.session.as_ref().filter(|session| !session.account.closed) else { return vec![] };
        let mut wanted: Vec<Effect> = session.next_up().map(|head| Effect::lane(head.message)).into_iter().collect();
        match &session.conversation.lifecycle {
            Lifecycle::Active(run) => {
                wanted.extend(request(session, run));
                wanted.extend(calls(session, run, !run.waits_for_lane()));
            }
            Lifecycle::Suspended(run) => {
                wanted.extend(calls(session, run, false));
                wanted.extend(frozen(session, run));
            }
            Lifecycle::Recovering { run: Some(run) } => wanted.extend(calls(session, run, false)),
            Lifecycle::Initializing
            | Lifecycle::Ready
            | Lifecycle::Idle
            | Lifecycle::Error { .. }
            | Lifecycle::Recovering { run: None }
            | Lifecycle::Terminated => {}
        }
        wanted.extend(session.run().and_then(|run| title(session, run)));
        wanted.extend(session.account.processes.iter().filter_map(process));
        wanted.extend(session.account.undo.map(|undo| Effect::Undo { id: undo.effect, plan: undo.plan }));
        wanted.extend(under_way(session).map(|id| Effect::Deliver { id }));
        wanted.extend(erasure(session));
        wanted.extend(session.account.pending_reports.iter().cloned().map(Effect::report));
        wanted
    }

    /// The wanted effects that change nothing. While an answer streams there are none, and it is asked with each piece.
    pub(super) fn wanted_early(&self) -> Vec<Effect> {
        match self.phase() {
            Some(Phase::Preparing { .. } | Phase::ToolExec | Phase::Awaiting { .. }) => {
                self.wanted().into_iter().filter(|effect| self.changes_nothing(effect)).collect()
            }
            Some(Phase::Streaming(_) | Phase::Compacting(_) | Phase::Error { .. } | Phase::Retry { .. }) | None => {
                vec![]
            }
        }
    }

    /// Whether carrying out this effect changes nothing in the world: a prompt is rendered, a call is checked, or a call
    /// that is read-only and needed no approval runs. An approval is recorded before anything happens because of it.
    fn changes_nothing(&self, effect: &Effect) -> bool {
        match effect {
            Effect::Prepare { .. } | Effect::CheckCall { .. } => true,
            Effect::RunCall { call, .. } => self.call(*call).is_some_and(starts_early),
            Effect::Lane { .. }
            | Effect::Reserve { .. }
            | Effect::Request { .. }
            | Effect::Compact { .. }
            | Effect::Title { .. }
            | Effect::FindCall { .. }
            | Effect::EndCall { .. }
            | Effect::FreezeCall { .. }
            | Effect::Report { .. }
            | Effect::HoldProcess { .. }
            | Effect::EndProcess { .. }
            | Effect::Deliver { .. }
            | Effect::Undo { .. }
            | Effect::Erase { .. } => false,
        }
    }

    /// Whether this effect is wanted. The streaming request, asked for with each piece, is answered without building a
    /// list.
    pub(super) fn wants(&self, effect: EffectId) -> bool {
        let is_it = |phase: &Phase| matches!(phase, Phase::Streaming(stream) if stream.sent.request == effect);
        let streaming = self.phase().is_some_and(is_it);
        let active = self.session.as_ref().is_some_and(|session| session.is_active() && !session.account.closed);
        active && streaming || self.wanted().iter().any(|wanted| wanted.id() == effect)
    }
}

fn request(session: &Session, run: &Run) -> Option<Effect> {
    if run.ending.is_some() {
        return None;
    }
    let sent = match &run.phase {
        Phase::Preparing { stage: PrepareStage::Gathering }
            if run.prompt.is_none() && !run.counts.candidates.compaction.alone =>
        {
            return Some(Effect::Prepare { id: run.effect(EffectKind::Prepare, 1, run.counts.attempt) });
        }
        Phase::Preparing { stage: PrepareStage::Reserving } | Phase::Awaiting { on: WaitFor::Budget, .. } => {
            let Asked { reserve: id, expected, closing } = run.budget.asked?;
            return Some(Effect::Reserve { id, expected, closing });
        }
        Phase::Awaiting { on: WaitFor::Lane, .. } => return Some(Effect::lane_again(run.id, run.counts.lane_waits)),
        Phase::Preparing { stage: PrepareStage::Sent(sent) } => sent,
        Phase::Streaming(stream) => &stream.sent,
        Phase::Compacting(Some(Compacting { effect, compaction_step, items, focus, .. })) => {
            let (id, compaction_step, items, focus, candidate) =
                (*effect, *compaction_step, *items, *focus, run.counts.candidates.candidate);
            return Some(Effect::Compact { id, compaction_step, items, focus, candidate });
        }
        Phase::Preparing { stage: PrepareStage::Gathering }
        | Phase::ToolExec
        | Phase::Awaiting { .. }
        | Phase::Compacting(None)
        | Phase::Error { .. }
        | Phase::Retry { .. } => return None,
    };
    let prompt = run.prompt.filter(|_| sent.epoch == session.account.epoch)?;
    let Counters { candidate, lowered: thinking, .. } = run.counts.candidates;
    Some(Effect::Request { id: sent.request, candidate, thinking, prompt, items: sent.items })
}

/// A title is asked for beside everything else that the run does, also while it is paused.
fn title(session: &Session, run: &Run) -> Option<Effect> {
    let message = session.account.messages.get(run.inputs.first()?)?.body;
    Some(Effect::Title { id: run.title?.effect, message, candidate: run.counts.candidates.candidate })
}

/// A call that starts once more waits for its record: that holds how often the session was opened, without which a call
/// that ends its process would be made for ever.
fn starts_early(call: &Call) -> bool {
    call.class == ToolClass::ReadOnly && call.question.is_none() && call.try_no == 1
}

/// A process is followed, or ended, in any state of the session.
fn process(process: &Process) -> Option<Effect> {
    let of = process.effect;
    match process.state {
        ProcessState::Running => Some(Effect::HoldProcess { id: process.effect(EffectKind::HoldProcess), process: of }),
        ProcessState::Ending { .. } => {
            Some(Effect::EndProcess { id: process.effect(EffectKind::EndProcess), process: of })
        }
        ProcessState::Ended { .. } => None,
    }
}

/// An erasure is never carried out beside a run: what the run streams is not told from what the old conversation did. Nor
/// beside an undo, which may need what it removes.
fn erasure(session: &Session) -> Option<Effect> {
    let Erasure { effect: id, branch, until, .. } =
        session.due_erasure().filter(|_| session.run().is_none() && session.account.undo.is_none())?;
    Some(Effect::Erase { id: *id, branch: *branch, until: *until })
}

/// The calls that are frozen while the run is paused.
fn frozen<'a>(session: &'a Session, run: &'a Run) -> impl Iterator<Item = Effect> + 'a {
    let freezes = run.pause.is_some_and(|pause| pause.freeze);
    let started = |call: &&Call| matches!(call.stage, Stage::Started { epoch } if epoch == session.account.epoch);
    let started = move |call: &&Call| freezes && started(call);
    run.step.calls.iter().filter(started).map(|call| Effect::FreezeCall {
        id: call.effect(EffectKind::FreezeCall),
        call: call.id,
        started: call.effect(EffectKind::RunCall),
    })
}

/// The effects of calls. A run that is paused, recovered or queues for its lane starts and checks nothing, but effects in flight continue.
fn calls(session: &Session, run: &Run, active: bool) -> Vec<Effect> {
    let calls = &run.step.calls;
    let wanted = |(at, call): (usize, &Call)| {
        let id = call.id;
        let started = call.effect(EffectKind::RunCall);
        match &call.stage {
            Stage::Guarding if active && has_turn(calls, at) => {
                Some(Effect::CheckCall { id: call.effect(EffectKind::CheckCall), call: id })
            }
            Stage::Started { epoch } if *epoch == session.account.epoch => {
                Some(Effect::RunCall { id: started, call: id })
            }
            Stage::Ending { why } => {
                Some(Effect::EndCall { id: call.effect(EffectKind::EndCall), call: id, started, why: *why })
            }
            Stage::Lost => Some(Effect::FindCall { id: call.effect(EffectKind::FindCall), call: id, started }),
            Stage::Guarding | Stage::Asking | Stage::Ready | Stage::Started { .. } | Stage::Settled { .. } => None,
        }
    };
    calls.iter().enumerate().filter_map(wanted).collect()
}
