//! The fold: how each event changes the state. Total: an event that does not fit changes nothing, so a journal can
//! always be read. Used by live decisions, recovery and replay alike.

mod queue;
mod run;

use super::account::SessionAccount;
use super::call::{Call, Stage};
use super::conversation::Conversation;
use super::run::{Phase, PrepareStage, Run, Sent};
use super::session::{Lifecycle, RecoveryAttempt, Session};
use super::transcript::{Item, ItemCall};
use crate::event::{
    BudgetSet, CallOutcome, CallSettled, CandidateCooldownSet, Compacted, Created, Event, LifecycleChanged,
    MessageSealed, Next, Note, Noted, Opened, OverrideSet, Paused, RequestOpened, RequestSent, ResultsTruncated,
};
use crate::failure::{Failure, FailureClass};
use crate::ids::{BranchId, Seq, Timestamp};
use crate::ledger::FailureReport;
use crate::mutant;
use crate::state::counters::Cooling;
use crate::tables::budget::{Scope, Spent};
use crate::tables::lifecycle::LifecycleKind;
use crate::tables::transitions::RunState;

impl Session {
    /// The state that `Created` makes; every journal begins with it.
    pub fn created(event: &Created, at: Timestamp) -> Self {
        Self { account: SessionAccount::created(event, at), conversation: Conversation::new(Lifecycle::Initializing) }
    }

    /// Switches to a branch that begins here; its `forked` is the next entry.
    pub fn enter(&mut self, branch: BranchId) {
        (self.account.branch, self.account.head) = (branch, Seq(0));
    }

    /// Folds one event that was decided at `at`.
    pub fn apply(&mut self, event: &Event, at: Timestamp) {
        if event.progress().is_some() {
            self.fold(event, at);
            self.account.last_activity = self.account.last_activity.max(at);
            return;
        }
        self.account.head.0 += 1;
        self.weigh(event);
        // Opening or closing an idle session is no activity.
        let rests = self.run().is_none() && self.conversation.queue.is_empty() && self.account.head.0 > 1;
        self.fold(event, at);
        if !(rests && matches!(event, Event::Opened(_) | Event::Closed(_))) {
            self.account.last_activity = self.account.last_activity.max(at);
        }
        let running = matches!(
            self.run_state(),
            RunState::Preparing | RunState::Streaming | RunState::ToolExec | RunState::Compacting | RunState::Error
        ) && self.is_active()
            && !self.account.closed;
        if let Some(run) = self.run_mut() {
            run.clock.set_running(running, at);
            run.breakpoints.passed = run.breakpoints.passed.filter(|passed| *passed == run.state());
        }
    }

    /// Counts the bytes of content that an entry adds. Content that was named before is not counted again.
    fn weigh(&mut self, event: &Event) {
        let is_known = if let Event::StepBegun(e) = event {
            self.run().is_some_and(|run| run.prompt == Some(e.prompt))
        } else {
            // Content that the next entry seals, or that was sealed before.
            matches!(event, Event::StreamInterrupted(_) | Event::Failed(_) | Event::ImageMade(_))
                || matches!(event, Event::RunEnded(_) | Event::Uncompacted(_))
                || matches!(event, Event::Noted(Noted { note: Note::Plan, .. }))
        };
        let bytes = if is_known { 0 } else { event.bodies().iter().map(|body| body.bytes).sum() };
        let spent = self.run_mut().map(|run| &mut run.budget.spent);
        match spent {
            Some(spent) => spent.bytes += bytes,
            None => self.account.spent.bytes += bytes,
        }
    }

    #[expect(clippy::too_many_lines, reason = "a line for each kind of event")]
    fn fold(&mut self, event: &Event, at: Timestamp) {
        match event {
            Event::Opened(e) => self.opened(e, at),
            Event::Closed(_) => self.closed(),
            Event::MessageAccepted(e) => self.message_accepted(e, at),
            Event::MessageSettled(e) => self.message_settled(e),
            Event::RunStarted(e) => self.run_started(e, at),
            Event::RunEnded(_) => self.run_ended(at),
            Event::Gathered(e) => self.gathered(e),
            Event::Paused(e) => self.paused(e, at),
            Event::Resumed(_) => self.resumed(at),
            Event::Reset(_) => self.reset(),
            Event::LifecycleChanged(e) => self.lifecycle_changed(e, at),
            Event::OverrideSet(e) => self.override_set(e),
            Event::SessionLabelled(e) => self.session_labelled(e, at),
            Event::RequestSent(e) => self.request_sent(e, at),
            Event::MessageSealed(e) => self.message_sealed(e, at),
            Event::Compacted(e) => self.compacted(e),
            Event::ResultsTruncated(e) => self.results_truncated(e),
            Event::Uncompacted(e) => self.conversation.transcript.uncompact(e.compaction, &e.restored),
            Event::Noted(e) => self.noted(e),
            Event::BudgetSet(e) => self.budget_set(e),
            Event::CandidateCooldownSet(e) => self.candidate_cooled(e, at),
            Event::Reported(e) => {
                self.account.pending_reports.retain(|failure_report| failure_report.request != e.request);
            }
            Event::ProcessAdopted(e) => self.process_adopted(e),
            Event::ProcessEnding(e) => self.process_ending(e),
            Event::ProcessEnded(e) => self.process_ended(e, at),
            Event::ProcessForgotten(e) => self.account.processes.retain(|process| process.effect != e.process),
            Event::UndoStarted(e) => self.undo_started(e),
            Event::UndoEnded(e) => self.account.undo = self.account.undo.filter(|undo| undo.effect != e.undo),
            Event::ErasureEnded(e) => self.erasure_ended(e),
            Event::TitleAsked(e) => self.title_asked(e, at),
            Event::TitleEnded(e) => self.title_ended(e),
            Event::PlanSet(e) => self.plan_set(e),
            Event::DeliveryWanted(e) => self.delivery_wanted(e, at),
            Event::DeliveryStarted(e) => self.delivery_started(e),
            Event::DeliveryFailed(e) => self.delivery_failed(e),
            Event::DeliveryEnded(e) => self.delivery_ended(e, at),
            Event::RequestOpened(e) => self.request_opened(e, at),
            Event::StepBegun(e) => self.in_run(|run| run.step_begun(e)),
            Event::StreamInterrupted(e) => self.in_run(|run| run.stream_cut(e)),
            Event::ImageMade(e) => self.in_run(|run| run.image_made(e)),
            Event::TextRetracted(_) => self.in_run(|run| run.step.kept.clear()),
            Event::Failed(e) => self.in_run(|run| run.failed(e)),
            Event::RetryScheduled(e) => self.in_run(|run| run.retry_scheduled(e)),
            Event::WaitBegan(e) => self.in_run(|run| run.wait_began(e, at)),
            Event::WaitEnded(e) => self.in_run(|run| run.wait_ended(e, at)),
            Event::CandidateCooldownLifted(e) => self.in_run(|run| run.candidate_cleared(e, at)),
            Event::BudgetAsked(e) => self.in_run(|run| run.budget_asked(e)),
            Event::CompactionBegun(e) => self.in_run(|run| run.compaction_begun(e, at)),
            Event::CompactionAsked(e) => self.in_run(|run| run.compaction_asked(e)),
            Event::CompactionFailed(e) => self.in_run(|run| run.compaction_failed(e)),
            Event::EndingSet(e) => self.in_run(|run| run.ending_set(e, at)),
            Event::BreakpointSet(e) => self.in_run(|run| run.breakpoint_set(e)),
            Event::CallChecked(e) => self.in_run(|run| run.call_checked(e)),
            Event::CallAsked(e) => self.in_run(|run| run.call_asked(e, at)),
            Event::AskAnswered(e) => self.in_run(|run| run.ask_answered(e)),
            Event::AskExpired(e) => self.in_run(|run| run.ask_expired(e)),
            Event::AnswerRefused(_) => self.account.refused_answers += 1,
            Event::CallStarted(e) => self.in_run(|run| run.call_started(e, at)),
            Event::CallEnding(e) => self.in_run(|run| run.set_stage(e.call, Stage::Ending { why: e.why })),
            Event::CallLost(e) => self.in_run(|run| run.call_lost(e.call)),
            Event::CallFound(e) => self.in_run(|run| run.call_found(e)),
            Event::CallSettled(e) => self.call_settled(e),
            Event::TextAdded(e) => self.in_run(|run| run.text_added(e, at)),
            Event::ReasoningAdded(e) => self.in_run(|run| run.reasoning_added(e, at)),
            Event::CallPartAdded(e) => self.in_run(|run| run.call_part_added(e, at)),
            Event::BlockSigned(e) => self.in_run(|run| run.block_signed(e, at)),
            Event::OutputAdded(e) => self.in_run(|run| run.output_added(e)),
            Event::Created(_)
            | Event::Forked(_)
            | Event::FilesChanged(_)
            | Event::LedgerBegun(_)
            | Event::ProfileCooldownSet(_)
            | Event::ProfileAnswered(_)
            | Event::ThinkingLowered(_)
            | Event::ProfilePreferred(_)
            | Event::ProfileCooldownLifted(_)
            | Event::AllowanceSet(_)
            | Event::GrantGiven(_)
            | Event::GrantRevoked(_) => {}
        }
    }

    fn in_run(&mut self, change: impl FnOnce(&mut Run)) {
        if let Some(run) = self.run_mut() {
            change(run);
        }
    }

    fn closed(&mut self) {
        self.account.closed = true;
        if mutant!(QueueDroppedAtClosing) {
            self.conversation.queue.clear();
        }
    }

    fn reset(&mut self) {
        self.conversation.transcript.reset();
        (self.conversation.model_title, self.conversation.title_asks) = (None, 0);
        self.conversation.plan = None;
        if mutant!(ResetDrops) {
            self.conversation.queue.clear();
        }
    }

    fn request_opened(&mut self, e: &RequestOpened, at: Timestamp) {
        self.in_run(|run| run.request_opened(e.request, at));
        self.delivered();
    }

    fn call_settled(&mut self, e: &CallSettled) {
        self.in_run(|run| run.call_settled(e));
        self.take_results();
    }

    fn opened(&mut self, e: &Opened, at: Timestamp) {
        // A run that only waits, for a human or a time, is no suspect for the crash.
        let waits = matches!(self.run_state(), RunState::Awaiting | RunState::Paused | RunState::Retry);
        let is_active = self.is_active();
        let suspect = !self.account.closed && !waits;
        self.account.epoch = e.epoch;
        self.account.closed = false;
        // The last activity may have been progress, which is gone once it is sealed.
        self.account.last_activity = self.account.last_activity.max(e.last_activity);
        let Some(run) = self.run_mut() else { return };
        run.counts.openings += u32::from(suspect);
        if mutant!(TriesReset) {
            run.counts.candidates.failed = 0;
        }
        if mutant!(BudgetForgotten) {
            run.budget.spent = Spent::default();
        }
        run.forget_chain(at);
        // The time since the old owner's last activity does not count for the run.
        if run.clock.since.is_some() {
            run.clock.set_running(false, e.last_activity);
            run.clock.set_running(true, at);
        }
        run.reopened(at);
        if is_active {
            run.lose_summary();
        }
        if mutant!(CompactionHalf) {
            self.lose_half();
        }
    }

    /// Mutant: the history is dropped before there is a summary.
    fn lose_half(&mut self) {
        let Some(run) = self.run() else { return };
        let (Phase::Compacting(Some(compacting)), Some(body)) = (&run.phase, run.prompt) else { return };
        let (from, inputs) =
            (self.conversation.transcript.kept_from(compacting.items as usize, self.account.head), run.inputs.clone());
        self.conversation.transcript.compact(Item::Note { body }, from, &inputs, self.account.head);
    }

    fn override_set(&mut self, e: &OverrideSet) {
        self.account.model.clone_from(&e.model);
        (self.account.thinking, self.account.verbose, self.account.queue_mode) = (e.thinking, e.verbose, e.queue_mode);
        self.account.interrupt = e.interrupt;
    }

    fn paused(&mut self, e: &Paused, at: Timestamp) {
        if let Some(run) = self.run_mut() {
            run.paused(e, at);
        }
        let before = std::mem::replace(&mut self.conversation.lifecycle, Lifecycle::Idle);
        self.conversation.lifecycle =
            if let Lifecycle::Active(run) = before { Lifecycle::Suspended(run) } else { before };
    }

    fn resumed(&mut self, at: Timestamp) {
        if let Some(run) = self.run_mut() {
            run.resumed(at);
        }
        let before = std::mem::replace(&mut self.conversation.lifecycle, Lifecycle::Idle);
        self.conversation.lifecycle =
            if let Lifecycle::Suspended(run) = before { Lifecycle::Active(run) } else { before };
    }

    /// Applies the edges that no other event takes; for the others this entry only records what was applied.
    fn lifecycle_changed(&mut self, e: &LifecycleChanged, at: Timestamp) {
        if self.conversation.lifecycle.kind() == e.to {
            return;
        }
        let run = match std::mem::replace(&mut self.conversation.lifecycle, Lifecycle::Idle) {
            Lifecycle::Active(run) | Lifecycle::Suspended(run) => Some(run),
            Lifecycle::Error { run, .. } | Lifecycle::Recovering { run } => run,
            Lifecycle::Initializing | Lifecycle::Ready | Lifecycle::Idle | Lifecycle::Terminated => {
                self.conversation.run_in_transition.take()
            }
        };
        self.conversation.lifecycle = match (e.to, run) {
            (LifecycleKind::Active, Some(mut run)) => {
                run.counts.openings = 0;
                run.reopened(at);
                run.lose_summary();
                Lifecycle::Active(run)
            }
            (LifecycleKind::Suspended, Some(run)) => Lifecycle::Suspended(run),
            (LifecycleKind::Error, run) => Lifecycle::Error {
                failure: e
                    .failure
                    .clone()
                    .unwrap_or_else(|| Failure::new(FailureClass::Unknown, "no reason was recorded")),
                remedy: e.remedy.clone().unwrap_or_default(),
                run,
                next: e.attempt.zip(e.retry_at).map(|(no, at)| RecoveryAttempt { no, at }),
            },
            (LifecycleKind::Recovering, mut run) => {
                if let Some(run) = &mut run {
                    run.counts.recoveries = e.attempt.unwrap_or(0);
                    run.counts.openings = 0;
                    run.reopened(at);
                }
                Lifecycle::Recovering { run }
            }
            (LifecycleKind::Ready, run) => {
                self.conversation.run_in_transition = run;
                Lifecycle::Ready
            }
            (LifecycleKind::Terminated, _) => Lifecycle::Terminated,
            (LifecycleKind::Initializing, _) => Lifecycle::Initializing,
            (LifecycleKind::Idle | LifecycleKind::Active | LifecycleKind::Suspended, _) => Lifecycle::Idle,
        };
    }

    fn request_sent(&mut self, e: &RequestSent, at: Timestamp) {
        self.conversation.transcript.set_sent(e.items as usize);
        let Some(run) = self.run_mut() else { return };
        run.counts.request = (e.request.ordinal, e.request.try_no, e.items);
        run.counts.candidates.ask(e.candidate);
        (run.budget.asked, run.budget.home_reached) = (None, false);
        let (tokens, reserved) = (e.tokens, e.reserved);
        run.spend_reserved();
        let sent = Sent { request: e.request, epoch: e.epoch, at, items: e.items, tokens, reserved };
        run.phase = Phase::Preparing { stage: PrepareStage::Sent(sent) };
    }

    /// Replaces the history: from this entry on the new one is current.
    fn compacted(&mut self, e: &Compacted) {
        let summary = Item::Summary { compaction: e.compaction, body: e.summary };
        self.conversation.transcript.compact(summary, e.kept_from, &e.pinned, self.account.head);
        if mutant!(CompactionDropsQueue) {
            self.conversation.queue.clear();
        }
        if let Some(run) = self.run_mut() {
            run.usage.add(&e.usage);
            run.take_reserved();
            run.budget.spent.add(&Spent::on_request(&e.usage, e.cost));
            run.history_replaced(e.goes_on);
        }
    }

    fn results_truncated(&mut self, e: &ResultsTruncated) {
        let results: Vec<_> = e.results.iter().map(|result| (result.call, result.output)).collect();
        self.conversation.transcript.truncate_results(&results);
        if let Some(run) = self.run_mut() {
            run.history_replaced(true);
        }
    }

    /// The model receives the note behind all earlier items.
    fn noted(&mut self, e: &Noted) {
        self.conversation.transcript.push(Item::Note { body: e.body }, self.account.head);
        match e.note {
            Note::MemoryFlush => self.conversation.transcript.ask_flush(),
            Note::Facts => self.conversation.facts = Some(e.body.hash),
            Note::Repeats | Note::WrapUp | Note::Closing | Note::Raised | Note::SchemaMismatch | Note::Plan => {}
        }
        if let Some(run) = self.run_mut() {
            run.noted(e);
        }
    }

    fn budget_set(&mut self, e: &BudgetSet) {
        let allowance = match e.scope {
            Scope::Session => Some(&mut self.account.allowance),
            Scope::Run => self.run_mut().map(|run| &mut run.budget.allowance),
            Scope::Agent | Scope::Day | Scope::Home | Scope::Process => None,
        };
        if let Some(allowance) = allowance {
            *allowance = e.allowance;
        }
    }

    /// The report to the ledger names what the failure names.
    fn candidate_cooled(&mut self, e: &CandidateCooldownSet, at: Timestamp) {
        let Some(run) = self.run_mut() else { return };
        let probe = run.counts.candidates.was_probe(e.candidate);
        let asked = e.request.is_none() && run.sent().is_some() && run.counts.candidates.candidate == e.candidate;
        let of = Cooling { candidate: e.candidate, until: e.until, failures: 0, class: e.class, since: at };
        run.counts.candidates.cool(of, asked);
        let failed = e.request.zip(run.trace.last());
        let failure_report = failed.and_then(|(request, failure)| FailureReport::of(request, failure, e.until, probe));
        self.account.pending_reports.extend(failure_report);
    }

    fn message_sealed(&mut self, e: &MessageSealed, at: Timestamp) {
        let calls = e.calls.iter();
        let item_calls = calls.clone().map(|call| ItemCall {
            id: call.id,
            provider_id: call.provider_id.clone(),
            tool: call.tool.clone(),
            arguments: call.arguments,
        });
        let sent = self
            .run()
            .and_then(|run| run.sent().map(|sent| (sent.tokens, run.settings, run.counts.candidates.candidate)));
        if let Some((expected, settings, candidate)) = sent.filter(|_| e.next != Next::Cut) {
            self.conversation.transcript.count(e.usage.prompt(), expected, settings, candidate);
            self.conversation.transcript.answer_flush();
        }
        let item = Item::Assistant {
            request: e.request,
            text: e.text,
            reasoning: e.reasoning,
            calls: item_calls.collect(),
            blocks: e.blocks,
            images: e.images.clone(),
        };
        // The continuation of an answer that turned out to be whole says nothing.
        if e.text.is_some() || !e.calls.is_empty() || !e.images.is_empty() {
            self.conversation.transcript.push(item, self.account.head);
        }
        for call in calls {
            if let Some(output) = call.answer {
                let item = Item::Result { call: call.id, output, is_error: true, attachments: vec![] };
                self.conversation.transcript.push(item, self.account.head);
            }
        }
        if let Some(run) = self.run_mut() {
            run.message_sealed(e, at);
        }
    }

    /// Once every call of the step is settled, its results go into the transcript in source order.
    fn take_results(&mut self) {
        let Some(run) = self.run_mut() else { return };
        if run.step.calls.is_empty() || !run.step.calls.iter().all(Call::is_settled) {
            return;
        }
        let calls = std::mem::take(&mut run.step.calls);
        for call in &calls {
            run.repeats.see(call);
        }
        // A run without a slot of its lane goes on when it has one.
        if !run.waits_for_lane() {
            run.phase = Phase::Preparing { stage: PrepareStage::Gathering };
        }
        for call in calls {
            if let Stage::Settled { outcome, output, attachments } = call.stage {
                let is_error = outcome != CallOutcome::Done;
                self.conversation
                    .transcript
                    .push(Item::Result { call: call.id, output, is_error, attachments }, self.account.head);
            }
        }
    }
}
