//! Approvals: how a question is answered, by a person, by nobody, or by time. An answer is valid for the very call that was
//! asked about, once.

use super::Machine;
use super::commands::{RECOVERING, no_session, state_refusal};
use super::model_notices::{denied, expired, nobody};
use crate::approval::{Decision, OnExpiry, Unattended};
use crate::body::{BodyKind, Content};
use crate::event::{AskAnswered, AskExpired, CallOutcome, EditedArguments};
use crate::ids::{CallId, Hash, Moment};
use crate::input::{Acknowledgement, Refusal, ToolResult};
use crate::mutant;
use crate::state::{Lifecycle, Stage};
use crate::tables::limits::EDITED_SHOWN;

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
        if !asked.is_some_and(|asked| {
            asked.stage == Stage::Asking && (asked.fingerprint == Some(fingerprint) || mutant!(ApprovalUnbound))
        }) {
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
        let (allow, reason, edited, grant) = match decision {
            Decision::Once { edited } => (true, None, edited, None),
            Decision::Always { grant } => (true, None, None, Some(grant)),
            Decision::Deny { reason } => (false, reason, None, None),
        };
        let edited =
            edited.map(|edited| EditedArguments { body: self.keep(edited.arguments), shown: beginning(&edited.shown) });
        self.answered(AskAnswered { call, allow, by, reason, edited, grant }, moment);
        self.advance(moment);
        Ok(Acknowledgement::Done)
    }

    fn answered(&mut self, answer: AskAnswered, moment: Moment) {
        let (call, allow, notice) = (answer.call, answer.allow, denied(&answer.by, answer.reason.as_deref()));
        self.emit(answer, moment.now);
        if !allow {
            self.deny(call, &notice, moment);
        }
    }

    fn deny(&mut self, call: CallId, notice: &str, moment: Moment) {
        let output = Content::text(BodyKind::Output, notice);
        self.settle_call(call, ToolResult::new(CallOutcome::Denied, output), moment);
    }

    /// Denies what needs approval, if nobody is to be waited for. A run that stopped before such a call has its breakpoint
    /// first.
    pub(super) fn deny_unattended(&mut self, moment: Moment) {
        if self.approvals().unattended == Unattended::Wait {
            return;
        }
        for call in self.call_ids(|call| call.stage == Stage::Asking) {
            let answer = AskAnswered { call, allow: false, by: nobody(), reason: None, edited: None, grant: None };
            self.answered(answer, moment);
        }
    }

    /// Nobody has answered in time.
    pub(super) fn approval_expired(&mut self, call: CallId, moment: Moment) {
        let approvals = self.approvals();
        let kept = approvals.on_expiry == OnExpiry::Keep;
        self.emit(AskExpired { call, kept }, moment.now);
        if !kept {
            self.deny(call, &expired(approvals.expires_ms.unwrap_or_default()), moment);
        }
    }
}

/// What the model receives of the arguments that somebody has changed.
fn beginning(text: &str) -> String {
    let shown = &text[..text.floor_char_boundary(EDITED_SHOWN)];
    if shown.len() == text.len() { text.to_owned() } else { format!("{shown}… ({} bytes)", text.len()) }
}
