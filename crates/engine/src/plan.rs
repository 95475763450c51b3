//! The plan of a conversation: the steps that the model means to take, and how far each has come. The model sets it, and
//! each time the whole of it.

use serde::{Deserialize, Serialize};

use crate::body::{BodyKind, Content};

/// How far a step of a plan has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanStatus {
    /// Not begun.
    Pending,
    /// Being done. One step of a plan at most is.
    InProgress,
    /// Done.
    Done,
}

/// A step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanItem {
    /// What is to be done, on one line.
    pub step: String,
    /// How far it has come.
    pub status: PlanStatus,
}

impl PlanItem {
    /// Whether it is still to be done.
    pub fn is_open(&self) -> bool {
        self.status != PlanStatus::Done
    }
}

impl PlanStatus {
    /// The mark before a step in a text for a model.
    pub fn mark(self) -> &'static str {
        match self {
            Self::Pending => "[ ]",
            Self::InProgress => "[>]",
            Self::Done => "[x]",
        }
    }
}

/// A plan as content: a JSON array of its items.
pub(crate) fn content(items: &[PlanItem]) -> Content {
    Content::new(BodyKind::Output, serde_json::to_vec(items).expect("a plan is plain data"))
}

/// The plan in a body; empty if the body is no plan, or was erased.
pub fn plan_items(bytes: &[u8]) -> Vec<PlanItem> {
    serde_json::from_slice(bytes).unwrap_or_default()
}
