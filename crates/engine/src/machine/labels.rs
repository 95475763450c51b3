//! The title of a session, and where it is shown.

use super::Machine;
use super::commands::{no_session, state_refusal};
use crate::body::Content;
use crate::event::{SessionLabelled, Visibility};
use crate::ids::Moment;
use crate::input::{Acknowledgement, Refusal};

impl Machine {
    /// Records the title, and whether the session is archived. A session that was deleted stays so until a message comes.
    pub(super) fn label(
        &mut self,
        title: Option<Content>,
        archived: Option<bool>,
        moment: Moment,
    ) -> Result<Acknowledgement, Refusal> {
        let session = self.session.as_ref().ok_or_else(no_session)?;
        if session.account.visibility == Visibility::Deleted {
            return Err(state_refusal(session, "its conversation was deleted; the next message begins a new one"));
        }
        if title.is_some() {
            self.give_up_title("somebody named the conversation meanwhile", moment);
        }
        let title = title.map(|title| self.keep(title));
        let visibility = archived.map(|archived| if archived { Visibility::Archived } else { Visibility::Listed });
        self.emit(SessionLabelled { title, visibility, erasure: None }, moment.now);
        Ok(Acknowledgement::Done)
    }
}
