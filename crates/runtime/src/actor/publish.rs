//! The consequences of a committed batch: subscribers are notified, and the runtime releases what the session no longer
//! needs.

use std::sync::Arc;

use engine::{Batch, CallOutcome, Event, Phase};

use super::Actor;
use crate::crashpoint;
use crate::runtime::Published;

impl Actor<'_> {
    pub(super) fn publish(&mut self, batch: Arc<Batch>) {
        self.effects.conversation.keep(&batch.bodies);
        self.journal.unsaved.add(&batch);
        let Some(session) = self.pump.session() else { return };
        if matches!(session.run().map(|run| &run.phase), Some(Phase::Streaming(stream)) if stream.bytes > 0) {
            crashpoint::hit("mid_stream");
        }
        if batch.records.iter().any(|record| matches!(record.event, Event::MessageSealed(_))) {
            crashpoint::hit("sealed");
        }
        for record in &batch.records {
            self.release(&record.event);
        }
        let Some(session) = self.pump.session() else { return };
        if let Some(settings) = self.pump.settings().filter(|settings| settings.budget != self.budget) {
            self.budget.clone_from(&settings.budget);
        }
        self.shared.budget_pool.saw(session, &batch, self.shared.clock.now());
        let is_opening = batch.records.iter().any(|record| matches!(record.event, Event::Opened(_)));
        let calls = session.run().filter(|_| is_opening).into_iter().flat_map(|run| &run.step.calls);
        let found = calls.map(|call| (call.id, call.tool.clone())).collect();
        self.shared.publish(Published {
            session: session.account.id,
            key: session.account.key.as_str().into(),
            batch,
            epoch: self.journal.epoch,
            position: self.journal.position,
            lifecycle: session.conversation.lifecycle.kind(),
            run_state: session.run_state(),
            flags: session.flags(),
            passed: self.pump.machine().passed().to_vec(),
            resources: session.resources(&self.budget),
            settings: self.pump.machine().settings().cloned(),
            found,
            commit: self.journal.commit_time,
        });
    }

    /// Releases what the runtime holds for a run, a call or a process that has ended.
    fn release(&mut self, event: &Event) {
        let Some(session) = self.pump.session() else { return };
        match event {
            Event::RunEnded(ended) => {
                self.shared.lanes.end(ended.run);
                self.shared.conversations.put(session.account.branch, std::mem::take(&mut self.effects.conversation));
            }
            // A background process keeps its record.
            Event::CallSettled(e) if e.effect.is_some_and(|effect| session.process(effect).is_some()) => {}
            Event::CallSettled(settled) => self.shared.forget(settled),
            Event::LifecycleChanged(changed) => self.move_in_lane(changed),
            Event::ProcessEnded(ended) if ended.outcome != CallOutcome::Unended => {
                self.shared.process_recorded(ended.process);
            }
            Event::ProcessForgotten(forgotten) => self.shared.forget_process(forgotten.process),
            _ => {}
        }
    }
}
