//! The conversation of a session: what was said in it, and what is being said. Another one may take its place.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::is_zero;
use super::plan::ConversationPlan;
use super::queue::Queued;
use super::run::Run;
use super::session::Lifecycle;
use super::transcript::Transcript;
use crate::body::Body;
use crate::ids::{Hash, Timestamp};

/// The half of a session that begins anew after a deletion, and that a rewind will take back to a checkpoint. Its title is
/// in it: it names what was said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Conversation {
    /// The lifecycle of the session, with the run in it.
    pub lifecycle: Lifecycle,
    /// The run between two lifecycle edges of one batch; `None` after the batch.
    #[serde(rename = "held")]
    pub(crate) run_in_transition: Option<Box<Run>>,
    /// The waiting legs, in order. A message with two legs is in it twice.
    pub queue: VecDeque<Queued>,
    /// Dropped messages that the next run receives in short.
    pub dropped: Vec<Body>,
    pub transcript: Transcript,
    /// The title that somebody gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Body>,
    /// The title that a model wrote; one that somebody gave comes before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_title: Option<Body>,
    /// How often a model was asked for its title. Enough if somebody gave it one, or took it back.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub title_asks: u32,
    /// The plan of the model; none if it has set none, or one without steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<ConversationPlan>,
    /// The note with the facts that the model received last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<Hash>,
    /// When the one before it was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_at: Option<Timestamp>,
}

impl Conversation {
    /// An empty conversation of a session in this lifecycle.
    pub(super) fn new(lifecycle: Lifecycle) -> Self {
        Self {
            lifecycle,
            run_in_transition: None,
            queue: [].into(),
            dropped: vec![],
            transcript: Transcript::default(),
            title: None,
            model_title: None,
            title_asks: 0,
            plan: None,
            facts: None,
            begun_at: None,
        }
    }

    /// The conversation that begins when this one is deleted. It goes on in the same lifecycle with the same queue, which a
    /// deletion requires to be empty, and nothing else of this one is in it.
    pub(super) fn after_deletion(self, at: Timestamp) -> Self {
        let Self { lifecycle, run_in_transition, queue, mut transcript, .. } = self;
        transcript.reset();
        Self { run_in_transition, queue, transcript, begun_at: Some(at), ..Self::new(lifecycle) }
    }
}
