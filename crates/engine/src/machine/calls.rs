//! Calls: their states from requested to settled.

use super::Machine;
use super::model_notices::{INTERRUPTED, NOTHING_LEFT, UNENDED, with_edited};
use crate::approval::UserQuestion;
use crate::body::{Body, BodyKind, Content};
use crate::event::{
    CallAsked, CallChecked, CallEnding, CallFound, CallLost, CallOutcome, CallSettled, CallStarted, EndingCause,
    FilesChanged, Found, LineDiff, WaitBegan, WaitFor,
};
use crate::ids::{CallId, EffectId, EffectKind, Moment};
use crate::input::{ChangedFile, ChangedLines, ToolResult};
use crate::mutant;
use crate::settings::{Policy, ToolClass};
use crate::state::{Call, Phase, Session, Stage};

impl Machine {
    pub(super) fn call(&self, id: CallId) -> Option<&Call> {
        self.session.as_ref().and_then(Session::run).and_then(|run| run.call(id))
    }

    pub(super) fn call_ids(&self, which: impl Fn(&Call) -> bool) -> Vec<CallId> {
        let calls = self.session.as_ref().and_then(Session::run).map(|run| &run.step.calls);
        calls.into_iter().flatten().filter(|call| which(call)).map(|call| call.id).collect()
    }

    /// A call was checked: it may start, waits for approval or for its answer, or has its result.
    pub(super) fn call_checked(&mut self, mut checked: CallChecked, asked: Option<UserQuestion>, moment: Moment) {
        if mutant!(DeniedCallRuns) && checked.decision == Policy::Deny {
            checked.decision = Policy::Allow;
        }
        // Whoever wrote other arguments has approved them.
        if checked.decision == Policy::Ask && self.call(checked.call).is_some_and(|call| call.edited.is_some()) {
            checked.decision = Policy::Allow;
        }
        let (call, decision, fingerprint) = (checked.call, checked.decision, checked.fingerprint);
        let reason = checked.reason.clone().unwrap_or_else(|| "it needs approval".to_owned());
        self.emit(checked, moment.now);
        let (question, takes) = match (decision, asked) {
            (Policy::Allow, None) => return,
            (Policy::Allow | Policy::Ask, Some(UserQuestion { text, takes })) => (text, Some(takes)),
            (Policy::Ask, None) => (reason, None),
            (Policy::Deny, _) => {
                let output = Content::text(BodyKind::Output, &reason);
                return self.settle_call(call, ToolResult::new(CallOutcome::Denied, output), moment);
            }
        };
        self.emit(CallAsked { call, fingerprint, question, takes }, moment.now);
        self.stop_before_question(call, moment);
    }

    /// Advances every call as far as the state allows: starts those that are next, and waits if only questions are
    /// open.
    pub(super) fn advance_calls(&mut self, moment: Moment) {
        self.deny_unattended(moment);
        let mut left = self.calls_left(moment);
        // A call that starts once more has been counted.
        let is_new = |call: &Call| call.try_no == 1;
        let unpaid = self.call_ids(|call| left == 0 && is_new(call) && !call.is_out() && !call.is_settled());
        for call in &unpaid {
            self.settle_with(*call, CallOutcome::Skipped, NOTHING_LEFT, moment);
        }
        let Some(session) = &self.session else { return };
        let Some(run) = session.run() else { return };
        let epoch = session.account.epoch;
        let calls = &run.step.calls;
        if !unpaid.is_empty() && !calls.iter().any(|call| call.stage == Stage::Ready) {
            return;
        }
        let ready = calls.iter().enumerate().filter(|(at, call)| call.stage == Stage::Ready && has_turn(calls, *at));
        let ready: Vec<&Call> = ready.map(|(_, call)| call).collect();
        let stop = ready.iter().position(|call| self.stops_before(call));
        let stop_before = stop.map(|at| ready[at].id);
        let start: Vec<CallStarted> = ready
            .into_iter()
            .take(stop.unwrap_or(usize::MAX))
            .take_while(|call| {
                let pays = u64::from(is_new(call));
                let fits = pays <= left;
                left = left.saturating_sub(pays);
                fits
            })
            .map(|call| CallStarted {
                call: call.id,
                effect: call.effect(EffectKind::RunCall),
                epoch,
                class: call.class,
            })
            .collect();
        for started in start {
            self.emit(started, moment.now);
        }
        if let Some(call) = stop_before {
            return self.stop_before_call(call, moment);
        }
        let Some(run) = self.session.as_ref().and_then(Session::run) else { return };
        let calls = &run.step.calls;
        let moving = |(at, call): (usize, &Call)| call.is_out() || call.stage == Stage::Guarding && has_turn(calls, at);
        let asks = calls.iter().any(|call| call.stage == Stage::Asking);
        if asks && matches!(run.phase, Phase::ToolExec) && !calls.iter().enumerate().any(moving) {
            // A message may be the answer to a question, also while another call waits for approval.
            let on = if run.asks_user() { WaitFor::Answer } else { WaitFor::Approval };
            self.emit(WaitBegan { on, until: None, limit: None }, moment.now);
        }
    }

    /// A call has its one result.
    pub(super) fn settle_call(&mut self, id: CallId, given: ToolResult, moment: Moment) {
        let Some(call) = self.call(id) else { return };
        // If this try has not started, the output of the previous try is sealed as well.
        let tried = call.started_at.map_or(call.try_no - 1, |_| call.try_no);
        let effect = (tried > 0).then(|| EffectId { try_no: tried, ..call.effect(EffectKind::RunCall) });
        let output = match &call.edited {
            Some(shown) => with_edited(shown, &given.output),
            None => given.output,
        };
        let (outcome, output) = (given.outcome, self.keep(output));
        if given.in_background {
            self.adopt(id, moment);
        }
        let whole = given.whole.map(|whole| self.keep(whole));
        let attachments = self.keep_attached(given.attachments);
        self.record_changes(id, given.changes, moment);
        if let Some(items) = given.plan {
            self.set_plan(id, &items, moment);
        }
        if let Some(outgoing) = given.sends.filter(|_| given.outcome == CallOutcome::Done) {
            self.send_message(id, outgoing, moment);
        }
        self.emit(CallSettled { call: id, effect, outcome, output, whole, attachments }, moment.now);
    }

    /// A question has its answer, which is kept already.
    pub(super) fn settle_question(&mut self, call: CallId, output: Body, moment: Moment) {
        let settled =
            CallSettled { call, effect: None, outcome: CallOutcome::Done, output, whole: None, attachments: vec![] };
        self.emit(settled, moment.now);
    }

    /// Records what a call, or the command that it left in the background, changed in files.
    pub(super) fn record_changes(&mut self, call: CallId, changes: Vec<ChangedFile>, moment: Moment) {
        for ChangedFile { path, before, after, mode, not_kept, attribution, diff, linked } in changes {
            let diff =
                diff.map(|ChangedLines { added, removed, text }| LineDiff { added, removed, text: self.keep(text) });
            self.emit(
                FilesChanged { call, path, before, after, mode, not_kept, attribution, diff, linked },
                moment.now,
            );
        }
    }

    pub(super) fn settle_with(&mut self, id: CallId, outcome: CallOutcome, sentence: &str, moment: Moment) {
        self.settle_call(id, ToolResult::new(outcome, Content::text(BodyKind::Output, sentence)), moment);
    }

    /// The result of a call that was run or ended.
    pub(super) fn call_ended(&mut self, id: CallId, given: ToolResult, moment: Moment) {
        let why =
            if let Some(Stage::Ending { why }) = self.call(id).map(|call| &call.stage) { Some(*why) } else { None };
        let outcome = match (given.outcome, why) {
            (CallOutcome::Unended, _) | (_, None) => given.outcome,
            (_, Some(EndingCause::Limit)) => CallOutcome::TimedOut,
            (_, Some(EndingCause::Run)) => CallOutcome::Aborted,
        };
        self.settle_call(id, ToolResult { outcome, ..given }, moment);
    }

    /// The result of looking up a lost call.
    pub(super) fn call_found(&mut self, id: CallId, found: Found, ended: Option<ToolResult>, moment: Moment) {
        self.emit(CallFound { call: id, found }, moment.now);
        match (found, ended) {
            // A running call has a result if it was put into the background.
            (Found::Ended | Found::Running, Some(given)) => self.settle_call(id, given, moment),
            (Found::Running, None) => self.reopen(id, moment),
            (Found::Unknown | Found::Ended, given) => {
                // The outcome is unknown, but what it changed may be known in part.
                let changes = given.map(|given| given.changes).unwrap_or_default();
                let output = Content::text(BodyKind::Output, INTERRUPTED);
                let given = ToolResult { changes, ..ToolResult::new(CallOutcome::Interrupted, output) };
                self.settle_call(id, given, moment);
            }
            (Found::NeverStarted, _) => {}
        }
    }

    /// A command that outlived its runtime belongs to this owner now.
    fn reopen(&mut self, id: CallId, moment: Moment) {
        let Some(epoch) = self.session.as_ref().map(|session| session.account.epoch) else { return };
        let Some(call) = self.call(id) else { return };
        let (effect, class) = (call.effect(EffectKind::RunCall), call.class);
        self.emit(CallStarted { call: id, effect, epoch, class }, moment.now);
    }

    /// What an earlier owner started and did not finish is looked up before anything else is done with it.
    pub(super) fn lose_calls(&mut self, moment: Moment) {
        for call in
            self.call_ids(|call| matches!(call.stage, Stage::Started { .. }) && call.class != ToolClass::ReadOnly)
        {
            if mutant!(LostCallRunAgain) {
                self.reopen(call, moment);
            } else {
                self.emit(CallLost { call }, moment.now);
            }
        }
    }

    pub(super) fn end_call(&mut self, call: CallId, why: EndingCause, moment: Moment) {
        self.emit(CallEnding { call, why }, moment.now);
    }

    /// Calls that could not be ended in time: the run ends without them, and reports that.
    pub(super) fn give_up_calls(&mut self, moment: Moment) {
        for call in self.call_ids(|call| !call.is_settled()) {
            self.settle_with(call, CallOutcome::Unended, UNENDED, moment);
        }
    }
}

/// Whether a call may start: every earlier call is settled, or it and all unsettled earlier calls are read-only.
pub(super) fn has_turn(calls: &[Call], at: usize) -> bool {
    let read_only = |call: &Call| call.class == ToolClass::ReadOnly;
    calls[..at].iter().all(|before| before.is_settled() || read_only(before) && read_only(&calls[at]))
}
