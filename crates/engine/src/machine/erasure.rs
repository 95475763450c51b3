//! The deletion of a conversation. One entry ends the conversation, lists the session nowhere and says that its content is
//! to be erased; another says that it is done. In between the state owes the effect `erase`, which can be carried out again
//! after a crash, and no run begins.

use super::Machine;
use super::commands::{no_session, state_refusal};
use crate::event::{ErasureEnded, ProcessForgotten, SessionLabelled, Visibility};
use crate::ids::{EffectId, EffectKind, Moment, RunId};
use crate::input::{Acknowledgement, Erased, Refusal};
use crate::state::{Lifecycle, Process};

impl Machine {
    /// Begins a new conversation, shows the session nowhere, and has what was said erased. A deletion that is under way is
    /// not begun again; one that failed is.
    pub(super) fn delete(&mut self, moment: Moment) -> Result<Acknowledgement, Refusal> {
        let session = self.session.as_ref().ok_or_else(no_session)?;
        let key = &session.account.key;
        let rests =
            matches!(session.conversation.lifecycle, Lifecycle::Ready | Lifecycle::Idle | Lifecycle::Terminated);
        let reason = if !rests {
            format!("a run of it is unfinished; wait for its end, or `limulus runs abort --session {key}` ends it")
        } else if !session.conversation.queue.is_empty() {
            format!("a message waits in it; `limulus queue clear {key}` cancels it")
        } else if !session.account.processes.iter().all(Process::is_ended) {
            format!("a command of it runs in the background; `limulus sessions show {key}` shows it")
        } else if session.account.outbox.pending().next().is_some() {
            format!("something of it is to be delivered; `limulus deliveries list --session {key}` shows it")
        } else if session.account.undo.is_some() {
            "its files are being restored; try again in a moment".to_owned()
        } else if session.due_erasure().is_some() {
            return Ok(Acknowledgement::Done);
        } else {
            let commands: Vec<EffectId> = session.account.processes.iter().map(|process| process.effect).collect();
            let ordinal = session.account.erasures + 1;
            let erasure = EffectId { run: RunId(session.account.id.0), kind: EffectKind::Erase, ordinal, try_no: 1 };
            let deleted =
                SessionLabelled { title: None, visibility: Some(Visibility::Deleted), erasure: Some(erasure) };
            // What they were asked and what they printed is a part of the conversation.
            for process in commands {
                self.emit(ProcessForgotten { process }, moment.now);
            }
            self.emit(deleted, moment.now);
            return Ok(Acknowledgement::Done);
        };
        Err(state_refusal(session, &reason))
    }

    /// The content is erased, or this owner cannot: then the next one tries, and meanwhile runs may begin.
    pub(super) fn erased(&mut self, erasure: EffectId, result: Result<Erased, String>, moment: Moment) {
        let (Erased { bodies, bytes, files }, failure) = match result {
            Ok(erased) => (erased, None),
            Err(why) => (Erased::default(), Some(why)),
        };
        self.emit(ErasureEnded { erasure, bodies, bytes, files, failure }, moment.now);
    }
}
