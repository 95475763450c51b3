//! An undo that is under way.

use serde::{Deserialize, Serialize};

use super::session::Session;
use crate::body::Body;
use crate::event::UndoStarted;
use crate::ids::EffectId;

/// An undo, or a redo, that has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Undo {
    pub effect: EffectId,
    /// Every file with what was there and what is to be there.
    pub plan: Body,
}

impl Session {
    pub(super) fn undo_started(&mut self, e: &UndoStarted) {
        self.account.undos = self.account.undos.max(e.undo.ordinal);
        self.account.undo = Some(Undo { effect: e.undo, plan: e.plan });
    }
}
