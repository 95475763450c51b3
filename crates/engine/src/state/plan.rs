//! The plan of a conversation, as the model last set it.

use serde::{Deserialize, Serialize};

use super::session::Session;
use super::transcript::Item;
use crate::body::Body;
use crate::event::PlanSet;
use crate::ids::CallId;

/// The plan of a conversation. One without steps is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct ConversationPlan {
    /// The call that set it.
    pub call: CallId,
    /// Its items, as JSON.
    pub items: Body,
    /// What the model receives if it does not see that call any more; none if every step is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reminder: Option<Body>,
}

impl ConversationPlan {
    /// Whether the model receives it with this item of the conversation.
    pub(crate) fn is_in(&self, item: &Item) -> bool {
        match item {
            Item::Result { call, .. } => *call == self.call,
            Item::Note { body } => self.reminder.is_some_and(|reminder| reminder.hash == body.hash),
            Item::User { .. } | Item::Assistant { .. } | Item::Summary { .. } => false,
        }
    }
}

impl Session {
    pub(super) fn plan_set(&mut self, e: &PlanSet) {
        let plan = ConversationPlan { call: e.call, items: e.items, reminder: e.reminder };
        self.conversation.plan = (e.steps > 0).then_some(plan);
    }
}
