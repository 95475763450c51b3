//! The title of a session, where it is shown, and the deletion of its conversation.

use super::Machine;
use super::commands::{no_session, state_refusal};
use crate::body::Content;
use crate::event::{SessionLabelled, Visibility};
use crate::ids::Moment;
use crate::input::{Acknowledgement, Refusal};
use crate::state::{Lifecycle, Process};

impl Machine {
    /// Records the title, and whether the session is archived. A session that was deleted stays so until a message comes.
    pub(super) fn label(
        &mut self,
        title: Option<Content>,
        archived: Option<bool>,
        moment: Moment,
    ) -> Result<Acknowledgement, Refusal> {
        let session = self.session.as_ref().ok_or_else(no_session)?;
        if session.visibility == Visibility::Deleted {
            return Err(state_refusal(session, "its conversation was deleted; the next message begins a new one"));
        }
        let title = title.map(|title| self.keep(title));
        let visibility = archived.map(|archived| if archived { Visibility::Archived } else { Visibility::Listed });
        self.emit(SessionLabelled { title, visibility }, moment.now);
        Ok(Acknowledgement::Done)
    }

    /// Begins a new conversation and shows the session nowhere. The content is erased by whoever asked.
    pub(super) fn delete(&mut self, moment: Moment) -> Result<Acknowledgement, Refusal> {
        let session = self.session.as_ref().ok_or_else(no_session)?;
        let key = &session.key;
        let rests = matches!(session.lifecycle, Lifecycle::Ready | Lifecycle::Idle | Lifecycle::Terminated);
        let reason = if !rests {
            format!("a run of it is unfinished; wait for its end, or `limulus runs abort --session {key}` ends it")
        } else if !session.queue.is_empty() {
            format!("a message waits in it; `limulus queue clear {key}` cancels it")
        } else if !session.processes.iter().all(Process::is_ended) {
            format!("a command of it runs in the background; `limulus sessions show {key}` shows it")
        } else if session.undo.is_some() {
            "its files are being restored; try again in a moment".to_owned()
        } else {
            self.emit(SessionLabelled { title: None, visibility: Some(Visibility::Deleted) }, moment.now);
            return Ok(Acknowledgement::Done);
        };
        Err(state_refusal(session, &reason))
    }
}
