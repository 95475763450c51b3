//! The queue, and the state of every message. A message has one leg, or two if it is both steered and a followup; each
//! leg ends by itself.

use serde::{Deserialize, Serialize};

use super::session::{Lifecycle, Session};
use super::transcript::Item;
use crate::body::{Attachment, Body};
use crate::event::{Address, Leg, ModeSource, Overrides, QueueMode, ReceiptState};
use crate::ids::{MessageId, RunId, Timestamp};
use crate::mutant;
use crate::settings::Settings;

/// A waiting leg of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Queued {
    pub message: MessageId,
    pub body: Body,
    /// The overrides for its run.
    pub overrides: Overrides,
    /// The mode that it was accepted with.
    pub mode: QueueMode,
    /// What it waits for.
    pub leg: Leg,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// For a collected message: the quiet time after which its group is complete, in milliseconds.
    pub debounce_ms: u64,
    /// Its group is complete.
    pub is_gathered: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// The state of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Message {
    pub body: Body,
    /// What came with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// The idempotency key of the sender.
    pub key: Option<String>,
    /// The mode that it was accepted with.
    pub mode: QueueMode,
    /// What decided its mode; none for a message of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode_by: Option<ModeSource>,
    /// Its state: of one that has two legs, that of its followup.
    pub state: ReceiptState,
    /// The run that answers it.
    pub run: RunId,
    /// The run that ends as interrupted for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<RunId>,
    /// Where it came from, if its sender said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Box<Address>>,
    /// Where its answer goes, if not to its origin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<Box<Address>>,
    /// How many secrets were masked in it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub masked: u32,
    /// The other leg of one that is steered and follows up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steer: Option<LegState>,
    /// Whether its run only compacts the history.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub compacts: bool,
    /// When it was accepted.
    pub accepted_at: Timestamp,
}

/// The state of one leg.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct LegState {
    pub state: ReceiptState,
    /// The run that takes it.
    pub run: RunId,
}

impl LegState {
    /// For the steer leg of this message: whether its followup leg took over, because no request of another run held
    /// the message.
    pub fn is_taken_over(self, message: MessageId) -> bool {
        self.run == message.into() && matches!(self.state, ReceiptState::Merged | ReceiptState::Ended)
    }
}

impl Queued {
    /// Whether the message has another leg, which is the one that can start a run.
    pub fn is_extra(&self) -> bool {
        self.leg == Leg::Steer && self.mode == QueueMode::SteerBacklog
    }
}

impl Message {
    /// The final state of a leg.
    pub fn leg(&self, leg: Leg) -> LegState {
        match (self.steer, leg) {
            (Some(steer), Leg::Steer) => steer,
            (None, Leg::Steer) | (_, Leg::Followup | Leg::Collect) => LegState { state: self.state, run: self.run },
        }
    }

    /// The leg that is in this run: the run of its own id is that of its followup.
    pub(crate) fn leg_in(&self, id: MessageId, run: RunId) -> Leg {
        if self.steer.is_some() && run != id.into() { Leg::Steer } else { Leg::Followup }
    }

    /// Advances a leg. A steer that was merged into the followup of its own message advances with it.
    pub(crate) fn settle(&mut self, leg: Leg, state: ReceiptState, run: Option<RunId>) {
        let run = run.unwrap_or(self.leg(leg).run);
        let settled = LegState { state, run };
        match (&mut self.steer, leg) {
            (Some(steer), Leg::Steer) => *steer = settled,
            (steer, Leg::Steer | Leg::Followup | Leg::Collect) => {
                let merged = steer.filter(|steer| steer.state == ReceiptState::Merged && steer.run == self.run);
                (self.state, self.run) = (state, run);
                if merged.is_some() && state.is_over() {
                    *steer = Some(settled);
                }
            }
        }
    }

    pub(crate) fn item(&self, message: MessageId, steer: bool, dropped: Vec<Body>) -> Item {
        Item::User { message, body: self.body, attachments: self.attachments.clone(), steer, dropped }
    }
}

impl Session {
    /// The next run's start, whether it may start yet or not; none while a run is unfinished.
    pub fn head(&self) -> Option<&Queued> {
        let is_free = matches!(self.conversation.lifecycle, Lifecycle::Ready | Lifecycle::Idle)
            && self.conversation.run_in_transition.is_none();
        self.conversation.queue.iter().find(|queued| is_free && !queued.is_extra())
    }

    /// The message that starts the next run, when one can start; none while files are restored or a conversation is erased.
    pub fn next_up(&self) -> Option<&Queued> {
        let is_free = self.may_begin_run();
        self.head().filter(|head| is_free && (head.leg != Leg::Collect || head.is_gathered))
    }

    /// The run that needs a slot of the lane: the active one, or the one that the next message starts.
    pub fn next_run(&self) -> Option<RunId> {
        let active = self.run().filter(|_| self.is_active()).map(|run| run.id);
        active.or_else(|| self.next_up().map(|next| next.message.into()))
    }

    /// Whether this run is unfinished, or belongs to a waiting message.
    pub fn knows_run(&self, run: RunId) -> bool {
        let queued = self.conversation.queue.iter().any(|queued| RunId::from(queued.message) == run);
        queued || self.run().is_some_and(|known| known.id == run)
    }

    /// The messages of the head's run, in order: the head and the rest of its group. A steer waits for the first request.
    pub fn starting(&self) -> Vec<MessageId> {
        let Some(head) = self.head() else { return vec![] };
        let group = self.group();
        let early = mutant!(SteerEarly);
        let joins = |queued: &&Queued| early && queued.leg == Leg::Steer && queued.message != head.message;
        let in_group = |queued: &&Queued| queued.leg == Leg::Collect && group.contains(&queued.message);
        let taken =
            self.conversation.queue.iter().filter(|queued| *queued == head || joins(queued) || in_group(queued));
        taken.map(|queued| queued.message).collect()
    }

    /// The messages of the group at the head, if one is there: complete, or as far as it has come.
    pub(crate) fn group(&self) -> Vec<MessageId> {
        let Some(head) = self.head().filter(|head| head.leg == Leg::Collect) else { return vec![] };
        let others = self.conversation.queue.iter().filter(|queued| queued.leg != Leg::Steer);
        let across = mutant!(GroupAcross);
        let group = others.filter(|queued| !across || queued.leg == Leg::Collect);
        let group = group.take_while(|queued| queued.leg == Leg::Collect && queued.is_gathered == head.is_gathered);
        group.map(|queued| queued.message).collect()
    }

    /// When the group at the head is complete, if it is not yet: some time after its last message, or as soon as
    /// something else waits behind it.
    pub fn gathering_until(&self) -> Option<Timestamp> {
        let head = self.head().filter(|head| head.leg == Leg::Collect && !head.is_gathered)?;
        let group = self.group();
        let last = self.conversation.queue.iter().rfind(|queued| group.contains(&queued.message)).unwrap_or(head);
        let behind = self.conversation.queue.iter().find(|queued| !group.contains(&queued.message));
        let due = last.accepted_at.plus(last.debounce_ms);
        Some(behind.map_or(due, |behind| due.min(behind.accepted_at)))
    }

    /// The legs that wait to join the active run, in order.
    pub(crate) fn steers(&self) -> impl Iterator<Item = &Queued> {
        self.conversation.queue.iter().filter(|queued| queued.leg == Leg::Steer)
    }

    /// The estimated tokens of the next request of the active run to this candidate, with the steers that join it.
    pub fn request_tokens(&self, settings: &Settings, candidate: u32) -> u64 {
        let Some(run) = self.run() else { return 0 };
        let known =
            self.conversation.transcript.request_tokens((run.settings, settings), candidate, run.prompt.as_ref());
        let item =
            |queued: &Queued| Some(self.account.messages.get(&queued.message)?.item(queued.message, true, vec![]));
        let steers = self.steers().filter_map(item).map(|item| item.tokens()).sum();
        known.saturating_add(settings.rated(candidate, steers))
    }
}
