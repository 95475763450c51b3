//! Approvals and questions of the model: how each is answered, by a person, by a message, by nobody, or by time. An answer is
//! valid for the very call that asks, once.

use super::Machine;
use super::commands::{RECOVERING, no_session, state_refusal};
use super::model_notices::{
    NOBODY_TO_ANSWER, UNATTENDED_QUESTION, denied, expired, expired_question, nobody, skipped_question,
};
use crate::approval::{AnswerForm, Decision, EditedCall, OnExpiry, Unattended};
use crate::event::{
    AnswerRefusal, AnswerRefused, AskAnswered, AskExpired, CallOutcome, EditedArguments, MessageSettled, ReceiptState,
};
use crate::ids::{CallId, Hash, MessageId, Moment};
use crate::input::{Acknowledgement, Refusal};
use crate::mutant;
use crate::state::{Lifecycle, Stage};
use crate::tables::limits::{EDITED_SHOWN, REFUSED_ANSWERS};

impl Machine {
    pub(super) fn answer(
        &mut self,
        (call, fingerprint): (CallId, Hash),
        decision: Decision,
        by: String,
        moment: Moment,
    ) -> Result<Acknowledgement, Refusal> {
        let session = self.session.as_ref().ok_or_else(no_session)?;
        if matches!(session.conversation.lifecycle, Lifecycle::Error { .. }) {
            return Err(state_refusal(session, "its run needs a human; `limulus resume KEY --force` resumes it"));
        }
        if session.is_recovering() {
            return Err(state_refusal(session, RECOVERING));
        }
        let asked = self.call(call);
        let refused = match asked.filter(|asked| asked.stage == Stage::Asking) {
            Some(asked) if asked.fingerprint == Some(fingerprint) || mutant!(ApprovalUnbound) => None,
            Some(_) => Some(AnswerRefusal::Fingerprint),
            None => Some(AnswerRefusal::Closed),
        };
        if let Some(why) = refused {
            self.refuse_answer(call, by, why, moment);
            return Err(Refusal::Stale);
        }
        // An answer may come before the timer, if nobody owned the home at that time.
        let approvals = self.approvals();
        let expires_at = asked.and_then(|asked| asked.expires_at(&approvals));
        if approvals.on_expiry == OnExpiry::Deny && expires_at.is_some_and(|at| at <= moment.now) {
            self.approval_expired(call, moment);
            self.advance(moment);
            return Err(Refusal::Stale);
        }
        let is_question = asked.is_some_and(|asked| asked.takes.is_some());
        let answer = self.answer_of(call, is_question, decision, by)?;
        self.answered(answer, moment);
        self.advance(moment);
        Ok(Acknowledgement::Done)
    }

    /// Records that an answer was refused: somebody may have tried what is not theirs to do.
    pub(super) fn refuse_answer(&mut self, call: CallId, by: String, why: AnswerRefusal, moment: Moment) {
        let Some(session) = &self.session else { return };
        let is_over = matches!(session.conversation.lifecycle, Lifecycle::Terminated);
        if !is_over && session.account.refused_answers < REFUSED_ANSWERS {
            self.emit(AnswerRefused { call, by, why }, moment.now);
        }
    }

    fn answer_of(
        &mut self,
        call: CallId,
        is_question: bool,
        decision: Decision,
        by: String,
    ) -> Result<AskAnswered, Refusal> {
        let given = AskAnswered { allow: true, ..no_answer(call, by) };
        Ok(match decision {
            Decision::Answered { text } if is_question => AskAnswered { answer: Some(self.keep(text)), ..given },
            Decision::Deny { reason } => AskAnswered { allow: false, reason, skipped: is_question, ..given },
            Decision::Once { edited: None } if !is_question => given,
            Decision::Once { edited: Some(edited) } if !is_question => {
                let EditedCall { arguments, shown } = edited;
                let edited = EditedArguments { body: self.keep(arguments), shown: beginning(&shown) };
                AskAnswered { edited: Some(edited), ..given }
            }
            Decision::Always { grant } if !is_question => AskAnswered { grant: Some(grant), ..given },
            Decision::Answered { .. } | Decision::Once { .. } | Decision::Always { .. } => {
                let session = self.session.as_ref().ok_or_else(no_session)?;
                return Err(state_refusal(session, if is_question { QUESTION } else { REQUEST }));
            }
        })
    }

    fn answered(&mut self, answer: AskAnswered, moment: Moment) {
        let AskAnswered { call, allow, answer: body, skipped, .. } = answer;
        let (denied, left) = (denied(&answer.by, answer.reason.as_deref()), skipped_question(answer.reason.as_deref()));
        self.emit(answer, moment.now);
        match body {
            Some(body) => self.settle_question(call, body, moment),
            None if skipped => self.settle_with(call, CallOutcome::Skipped, &left, moment),
            None if allow => {}
            None => self.settle_with(call, CallOutcome::Denied, &denied, moment),
        }
    }

    /// A message is the answer to the question that was asked first, if that takes a text. Files are none.
    pub(super) fn answer_with(&mut self, message: MessageId, moment: Moment) {
        let Some(session) = &self.session else { return };
        let Some(run) = session.run() else { return };
        let Some(known) = session.account.messages.get(&message).filter(|known| known.attachments.is_empty()) else {
            return;
        };
        let questions = run.step.calls.iter().filter(|call| call.stage == Stage::Asking && call.takes.is_some());
        let Some(call) = questions.min_by_key(|call| (call.asked_at, call.ordinal)) else { return };
        if call.takes != Some(AnswerForm::Text) {
            return;
        }
        let (call, run, body) = (call.id, Some(run.id), known.body);
        let given =
            AskAnswered { allow: true, answer: Some(body), message: Some(message), ..no_answer(call, sender()) };
        self.answered(given, moment);
        self.emit(
            MessageSettled { message, state: ReceiptState::Merged, run, leg: None, in_next_run: false },
            moment.now,
        );
    }

    /// Denies what needs approval and skips questions, if nobody is to be waited for. A run that stopped before such a call
    /// has its breakpoint first.
    pub(super) fn deny_unattended(&mut self, moment: Moment) {
        if self.approvals().unattended == Unattended::Wait {
            return;
        }
        for call in self.call_ids(|call| call.stage == Stage::Asking) {
            let is_question = self.call(call).is_some_and(|call| call.takes.is_some());
            let by = if is_question { NOBODY_TO_ANSWER.to_owned() } else { nobody() };
            let reason = is_question.then(|| UNATTENDED_QUESTION.to_owned());
            self.answered(AskAnswered { reason, skipped: is_question, ..no_answer(call, by) }, moment);
        }
    }

    /// Nobody has answered in time.
    pub(super) fn approval_expired(&mut self, call: CallId, moment: Moment) {
        let approvals = self.approvals();
        let kept = approvals.on_expiry == OnExpiry::Keep;
        let is_question = self.call(call).is_some_and(|call| call.takes.is_some());
        self.emit(AskExpired { call, kept }, moment.now);
        let waited_ms = approvals.expires_ms.unwrap_or_default();
        if !kept && mutant!(ExpiryAllows) {
            return self.answered(AskAnswered { allow: true, ..no_answer(call, nobody()) }, moment);
        }
        if !kept && is_question {
            self.settle_with(call, CallOutcome::Skipped, &expired_question(waited_ms), moment);
        } else if !kept {
            self.settle_with(call, CallOutcome::Denied, &expired(waited_ms), moment);
        }
    }
}

const QUESTION: &str = "the model asks a question there; `limulus answer ID TEXT` answers it";
const REQUEST: &str =
    "a call waits there for approval; `limulus approvals approve ID` or `limulus approvals deny ID` answers it";

fn no_answer(call: CallId, by: String) -> AskAnswered {
    AskAnswered {
        call,
        allow: false,
        by,
        reason: None,
        edited: None,
        grant: None,
        answer: None,
        message: None,
        skipped: false,
    }
}

/// Who has answered with a message.
fn sender() -> String {
    "the user, with a message".to_owned()
}

/// What the model receives of the arguments that somebody has changed.
fn beginning(text: &str) -> String {
    let shown = &text[..text.floor_char_boundary(EDITED_SHOWN)];
    if shown.len() == text.len() { text.to_owned() } else { format!("{shown}… ({} bytes)", text.len()) }
}
