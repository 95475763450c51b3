//! Follows what the messages of a session show, entry by entry (R36): the session's own fold, without its conversation.
//! `queue_states` decides what a message shows.

use std::collections::BTreeMap;

use super::queue_states::QueueState;
use super::session::{Lifecycle, Session};
use super::transcript::Transcript;
use crate::event::{Created, Event, QueueMode};
use crate::ids::{BranchId, MessageId, SessionId, Timestamp};

/// A message that shows something else from an entry on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct MessageShows {
    pub message: MessageId,
    /// The mode that it was accepted with.
    pub mode: QueueMode,
    /// What it shows, if that is what changed.
    pub queue_state: Option<QueueState>,
    /// What its other leg shows, if that is what changed.
    pub steer_state: Option<QueueState>,
}

/// What a message shows, and its other leg.
type Shown = (Option<QueueState>, Option<QueueState>);

/// The part of a session that decides what its messages show. Its cost depends on what waits and runs, never on the
/// history.
#[derive(Debug, Clone)]
pub struct QueueWatch {
    session: Session,
    /// The messages that will show something else yet, with what they show.
    open: BTreeMap<MessageId, Shown>,
}

impl QueueWatch {
    /// For a session without waiting messages and without an active run.
    pub fn at_rest() -> Self {
        let (session, branch) = (SessionId(uuid::Uuid::nil()), BranchId(uuid::Uuid::nil()));
        let created = Created { session, key: String::new(), agent: String::new(), branch };
        let mut session = Session::created(&created, Timestamp(0));
        session.conversation.lifecycle = Lifecycle::Idle;
        Self { session, open: BTreeMap::new() }
    }

    /// Follows this session.
    pub fn of(session: Session) -> Self {
        let waits = session.conversation.queue.iter().map(|queued| queued.message);
        let runs = session.run().map(|run| run.inputs.clone()).unwrap_or_default();
        let open = waits.chain(runs).map(|id| (id, (session.queue_state(id), session.steer_state(id))));
        let open = open.filter(|(_, shown)| !is_over(*shown)).collect();
        let mut watch = Self { session, open };
        watch.forget();
        watch
    }

    /// Advances past an event. Returns the messages that show something else from there on.
    pub fn see(&mut self, event: &Event, at: Timestamp) -> Vec<MessageShows> {
        if event.progress().is_some() {
            return vec![];
        }
        self.session.apply(event, at);
        if let Event::MessageAccepted(accepted) = event {
            self.open.insert(accepted.message, (None, None));
        }
        let mut changes = vec![];
        for (id, before) in &mut self.open {
            let now = (self.session.queue_state(*id), self.session.steer_state(*id));
            let (queue_state, steer_state) = (now.0.filter(|_| now.0 != before.0), now.1.filter(|_| now.1 != before.1));
            *before = now;
            let Some(message) = self.session.account.messages.get(id) else { continue };
            if queue_state.is_some() || steer_state.is_some() {
                changes.push(MessageShows { message: *id, mode: message.mode, queue_state, steer_state });
            }
        }
        self.open.retain(|_, shown| !is_over(*shown));
        self.forget();
        changes
    }

    /// Whether nothing waits and no run is active.
    pub fn is_idle(&self) -> bool {
        let rests = matches!(self.session.conversation.lifecycle, Lifecycle::Ready | Lifecycle::Idle);
        rests && self.open.is_empty() && self.session.conversation.run_in_transition.is_none()
    }

    /// What shows nothing is not kept.
    fn forget(&mut self) {
        let Self { session, open } = self;
        if session.account.messages.len() > open.len() {
            session.account.messages.retain(|id, _| open.contains_key(id));
        }
        session.conversation.transcript = Transcript::default();
        session.account.keys.clear();
        session.conversation.dropped.clear();
        session.account.processes.clear();
    }
}

/// Whether neither leg will show anything else.
fn is_over((queue_state, steer_state): Shown) -> bool {
    let is_last = |state: Option<QueueState>| match state {
        None | Some(QueueState::Delivered | QueueState::Completed | QueueState::Merged) => true,
        Some(
            QueueState::Waiting
            | QueueState::Steering
            | QueueState::Interrupted
            | QueueState::Blocked
            | QueueState::Executing
            | QueueState::Collecting
            | QueueState::Validating,
        ) => false,
    };
    is_last(queue_state) && is_last(steer_state)
}
