//! Rows of the views, made from the state: what lists and a restart need without folding a branch.

use crate::batch::{ApprovalRow, ReceiptRow, RunRow, SessionRow, SessionTotals, Views};
use crate::event::{AskAnswered, AskExpired, CallAsked, CallChecked, Event, ReceiptState, RunEnded};
use crate::ids::{CallId, MessageId, Timestamp};
use crate::settings::Settings;
use crate::state::{Lifecycle, Process, Run, Session, Stage};
use crate::tables::budget::Spent;
use crate::tables::transitions::RunState;

/// Which rows change with entries that are recorded together, or folded one by one to rebuild the views.
#[derive(Debug, Default)]
pub struct Touched {
    ended: Vec<RunRow>,
    messages: Vec<MessageId>,
    approvals: Vec<ApprovalRow>,
}

impl Touched {
    /// Takes note of an event. `session` is the state before it.
    #[expect(clippy::too_many_lines, reason = "a line for each kind of event")]
    pub fn note(&mut self, session: &Session, settings: Option<&Settings>, event: &Event, at: Timestamp) {
        match event {
            Event::MessageAccepted(e) => self.messages.push(e.message),
            Event::MessageSettled(e) => self.messages.push(e.message),
            Event::RunStarted(e) => self.messages.extend(&e.inputs),
            // What was steered into it is delivered with its first byte.
            Event::RequestOpened(_) => self.messages.extend(steered(session)),
            Event::RunEnded(e) => self.ended(session, settings, e, at),
            Event::CallAsked(e) => self.asked((session, settings), e, at),
            Event::CallChecked(e) => self.checked(session, e, at),
            Event::AskAnswered(e) => self.answered(session, e, at),
            Event::AskExpired(e) => self.expired(session, e, at),
            Event::CallSettled(e) => self.settled(session, e.call, at),
            Event::Created(_)
            | Event::Forked(_)
            | Event::Opened(_)
            | Event::Closed(_)
            | Event::Gathered(_)
            | Event::StepBegun(_)
            | Event::RequestSent(_)
            | Event::StreamInterrupted(_)
            | Event::TextRetracted(_)
            | Event::ImageMade(_)
            | Event::MessageSealed(_)
            | Event::AnswerRefused(_)
            | Event::CallStarted(_)
            | Event::CallEnding(_)
            | Event::CallLost(_)
            | Event::CallFound(_)
            | Event::CompactionAsked(_)
            | Event::CompactionBegun(_)
            | Event::Compacted(_)
            | Event::ResultsTruncated(_)
            | Event::Uncompacted(_)
            | Event::CompactionFailed(_)
            | Event::Noted(_)
            | Event::BudgetSet(_)
            | Event::BudgetAsked(_)
            | Event::Failed(_)
            | Event::WaitBegan(_)
            | Event::WaitEnded(_)
            | Event::RetryScheduled(_)
            | Event::CandidateCooldownSet(_)
            | Event::CandidateCooldownLifted(_)
            | Event::Reported(_)
            | Event::EndingSet(_)
            | Event::BreakpointSet(_)
            | Event::Reset(_)
            | Event::Paused(_)
            | Event::Resumed(_)
            | Event::LifecycleChanged(_)
            | Event::OverrideSet(_)
            | Event::SessionLabelled(_)
            | Event::DeliveryWanted(_)
            | Event::DeliveryStarted(_)
            | Event::DeliveryFailed(_)
            | Event::DeliveryEnded(_)
            | Event::ProcessAdopted(_)
            | Event::ProcessEnding(_)
            | Event::ProcessEnded(_)
            | Event::ProcessForgotten(_)
            | Event::FilesChanged(_)
            | Event::UndoStarted(_)
            | Event::UndoEnded(_)
            | Event::ErasureEnded(_)
            | Event::TitleAsked(_)
            | Event::TitleEnded(_)
            | Event::PlanSet(_)
            | Event::LedgerBegun(_)
            | Event::ProfileCooldownSet(_)
            | Event::ProfileAnswered(_)
            | Event::ThinkingLowered(_)
            | Event::ProfilePreferred(_)
            | Event::ProfileCooldownLifted(_)
            | Event::AllowanceSet(_)
            | Event::GrantGiven(_)
            | Event::GrantRevoked(_)
            | Event::TextAdded(_)
            | Event::ReasoningAdded(_)
            | Event::CallPartAdded(_)
            | Event::BlockSigned(_)
            | Event::OutputAdded(_) => {}
        }
    }

    fn ended(&mut self, session: &Session, settings: Option<&Settings>, e: &RunEnded, at: Timestamp) {
        let Some(run) = session.run() else { return };
        self.messages.extend(&run.inputs);
        let mut row = run_row(session, run, settings, &run.spent_by(at));
        row.state = RunState::Completed;
        row.outcome = Some(e.outcome);
        row.ended_at = Some(at);
        row.stop_reason = e.stop_reason;
        row.checkpoint = e.checkpoint;
        row.error = e.failure.as_ref().map(ToString::to_string);
        self.ended.push(row);
    }

    /// An approval request is closed when its call is settled otherwise.
    fn settled(&mut self, session: &Session, call: CallId, at: Timestamp) {
        let asks = |run: &Run| run.call(call).is_some_and(|call| call.stage == Stage::Asking);
        if session.run().is_some_and(asks) {
            self.approvals.extend(approval_row(session, call).map(|row| row.closed(false, at)));
        }
    }

    fn asked(&mut self, (session, settings): (&Session, Option<&Settings>), e: &CallAsked, at: Timestamp) {
        let expires_ms = settings.and_then(|settings| settings.approvals.expires_ms);
        let (question, fingerprint) = (e.question.clone(), Some(e.fingerprint));
        let row = approval_row(session, e.call);
        let expires_at = expires_ms.map(|ms| at.plus(ms));
        let takes = e.takes;
        self.approvals.extend(row.map(|row| ApprovalRow {
            question,
            takes,
            fingerprint,
            asked_at: at,
            expires_at,
            ..row
        }));
    }

    /// A call that a grant allows counts as a use of that grant.
    fn checked(&mut self, session: &Session, e: &CallChecked, at: Timestamp) {
        let is_answered = session.run().and_then(|run| run.call(e.call)).is_some_and(|call| call.edited.is_some());
        if e.grant.is_some() && !is_answered {
            let row = approval_row(session, e.call).map(|row| row.closed(true, at));
            self.approvals.extend(row.map(|row| ApprovalRow { grant: e.grant, asked_at: at, ..row }));
        }
    }

    fn answered(&mut self, session: &Session, e: &AskAnswered, at: Timestamp) {
        let row = approval_row(session, e.call).map(|row| row.closed(e.allow, at));
        self.approvals.extend(row.map(|row| ApprovalRow { by: Some(e.by.clone()), ..row }));
    }

    fn expired(&mut self, session: &Session, e: &AskExpired, at: Timestamp) {
        if !e.kept {
            self.approvals.extend(approval_row(session, e.call).map(|row| row.closed(false, at)));
        }
    }

    /// The rows of the current state. `recorded` is the last recorded row of the active run.
    pub fn rows(self, session: &Session, settings: Option<&Settings>, recorded: &mut Option<RunRow>) -> Views {
        let mut runs = self.ended;
        // Its calls and its time are updated with its answers, not each time one of them changes. A reservation is
        // stored with its request, so a later process knows what that request may have cost.
        let spent = |run: &Run| {
            let Spent { calls, wall_ms, .. } = run.budget.at_answer;
            Spent { calls, wall_ms, ..run.taken() }
        };
        let now = session.run().map(|run| run_row(session, run, settings, &spent(run)));
        if let Some((recorded, now)) = recorded.as_mut().zip(now.as_ref()) {
            recorded.state = now.state;
        }
        if *recorded != now {
            runs.extend(now.clone());
            *recorded = now;
        }
        let receipts = self.messages.iter().filter_map(|id| receipt_row(session, *id)).collect();
        Views { session: Some(session_row(session)), runs, receipts, approvals: self.approvals }
    }
}

/// What is known of a call that asks for approval, or has asked.
fn approval_row(session: &Session, call: CallId) -> Option<ApprovalRow> {
    let call = session.run()?.call(call)?;
    let (question, asked_at) = (call.question.clone().unwrap_or_default(), call.asked_at.unwrap_or(Timestamp(0)));
    let row = ApprovalRow::open(call.id, session.account.id, question, asked_at);
    let (tool, arguments) = (Some(call.tool.clone()), Some(call.arguments));
    Some(ApprovalRow { tool, arguments, takes: call.takes, fingerprint: call.fingerprint, ..row })
}

fn steered(session: &Session) -> impl Iterator<Item = MessageId> {
    let inputs = session.run().map(|run| (run.id, &run.inputs)).into_iter();
    inputs.flat_map(|(run, inputs)| inputs.iter().map(move |input| (run, *input))).filter_map(|(run, input)| {
        let message = session.account.messages.get(&input)?;
        (message.leg(message.leg_in(input, run)).state == ReceiptState::Steered).then_some(input)
    })
}

fn session_row(session: &Session) -> SessionRow {
    let trouble = match &session.conversation.lifecycle {
        Lifecycle::Error { failure, remedy, .. } => Some(format!("{failure}; repair it with `{remedy}`")),
        Lifecycle::Initializing
        | Lifecycle::Ready
        | Lifecycle::Active(_)
        | Lifecycle::Idle
        | Lifecycle::Suspended(_)
        | Lifecycle::Recovering { .. }
        | Lifecycle::Terminated => {
            let erasure = session.failed_erasure();
            let erasure = erasure.map(|why| format!("its deleted conversation could not be erased: {why}"));
            erasure.or_else(|| undelivered(session))
        }
    };
    let recovers = session.is_recovering() || session.next_recovery().is_some();
    let goes_on = session.is_active() || session.head().is_some() || recovers;
    let ends = session.account.processes.iter().any(Process::is_ending);
    let owes = session.account.undo.is_some()
        || session.account.erasure.is_some()
        || session.account.outbox.pending().next().is_some()
        || !session.account.pending_reports.is_empty();
    SessionRow {
        session: session.account.id,
        key: session.account.key.clone(),
        agent: session.account.agent.clone(),
        branch: session.account.branch,
        created_at: session.account.created_at,
        last_activity: session.account.last_activity,
        lifecycle: session.conversation.lifecycle.kind(),
        run_state: session.run_state(),
        run: session.run().map(|run| run.id),
        queued: session.conversation.queue.iter().filter(|queued| !queued.is_extra()).count() as u32,
        unfinished: goes_on || ends || owes,
        trouble,
        totals: Some(SessionTotals { spent: session.account.spent, allowance: session.account.allowance }),
        title: session.conversation.title,
        model_title: session.conversation.model_title,
        visibility: session.account.visibility,
        begun_at: session.conversation.begun_at,
    }
}

fn undelivered(session: &Session) -> Option<String> {
    match session.account.outbox.deliveries.iter().filter(|delivery| !delivery.is_pending()).count() {
        0 => None,
        1 => Some("a delivery of it did not arrive; `limulus deliveries list` shows it".to_owned()),
        more => Some(format!("{more} deliveries of it did not arrive; `limulus deliveries list` shows them")),
    }
}

fn run_row(session: &Session, run: &Run, settings: Option<&Settings>, spent: &Spent) -> RunRow {
    let candidate = settings.and_then(|settings| settings.candidates.get(run.counts.candidates.candidate as usize));
    RunRow {
        run: run.id,
        session: session.account.id,
        branch: session.account.branch,
        state: session.run_state(),
        outcome: None,
        started_at: run.started_at,
        ended_at: None,
        settings: run.settings,
        model: candidate.map(|c| format!("{}/{}", c.provider, c.model)).unwrap_or_default(),
        usage: run.usage,
        cost: spent.cost,
        tokens: spent.tokens,
        calls: spent.calls,
        wall_ms: spent.wall_ms,
        first_seq: run.first_seq,
        error: run.trace.last().map(ToString::to_string),
        stop_reason: None,
        checkpoint: None,
    }
}

fn receipt_row(session: &Session, id: MessageId) -> Option<ReceiptRow> {
    let message = session.account.messages.get(&id)?;
    Some(ReceiptRow {
        message: id,
        session: session.account.id,
        key: message.key.clone(),
        body: message.body,
        mode: message.mode,
        state: message.state,
        run: message.run,
        steer: message.steer,
        accepted_at: message.accepted_at,
    })
}
