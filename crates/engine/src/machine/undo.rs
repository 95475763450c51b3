//! Taking back what a run changed in files. The plan says for each file what is there and what is to be there, so the
//! effect can be carried out again after a crash. No run begins until it has ended.

use super::Machine;
use super::commands::{no_session, state_refusal};
use crate::body::Content;
use crate::event::{LeftFile, UndoEnded, UndoStarted};
use crate::ids::{EffectId, EffectKind, Moment, RunId};
use crate::input::{Acknowledgement, Refusal};
use crate::sandbox::CopyAct;
use crate::state::Lifecycle;

impl Machine {
    /// Begins to take back what a run changed, to make it once more, or to take it over from a copy.
    pub(super) fn undo(
        &mut self,
        run: RunId,
        (redo, copy): (bool, Option<CopyAct>),
        plan: Content,
        moment: Moment,
    ) -> Result<Acknowledgement, Refusal> {
        let session = self.session.as_ref().ok_or_else(no_session)?;
        if session.account.undo.is_some() {
            return Err(state_refusal(session, "its files are being restored already; try again in a moment"));
        }
        if session.due_erasure().is_some() {
            return Err(state_refusal(session, "its conversation is being erased; the next message begins a new one"));
        }
        let rests =
            matches!(session.conversation.lifecycle, Lifecycle::Ready | Lifecycle::Idle | Lifecycle::Terminated);
        if !rests || session.head().is_some() {
            let reason = "a run of it is unfinished; wait for its end, or `limulus runs abort` it";
            return Err(state_refusal(session, reason));
        }
        let undo = EffectId { run, kind: EffectKind::Undo, ordinal: session.account.undos + 1, try_no: 1 };
        let plan = self.keep(plan);
        self.emit(UndoStarted { undo, run, redo, copy, plan }, moment.now);
        Ok(Acknowledgement::Done)
    }

    /// The files are restored: a message that came meanwhile starts its run.
    pub(super) fn undone(&mut self, undo: EffectId, left: Vec<LeftFile>, moment: Moment) {
        self.emit(UndoEnded { undo, left }, moment.now);
    }
}
