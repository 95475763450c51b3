//! The outbox of a session: what is to go out to routes. A delivery stays in it until it has arrived, or somebody has dropped it.

use serde::{Deserialize, Serialize};

use super::is_zero;
use super::session::Session;
use crate::body::Body;
use crate::event::{Address, DeliveryEnded, DeliveryFailed, DeliveryKind, DeliveryStarted, DeliveryWanted, ShortBlock};
use crate::ids::{CallId, EffectId, EffectKind, Epoch, MessageId, RunId, Timestamp};
use crate::settings::Settings;
use crate::tables::limits::UNDELIVERED;

/// Bytes between the texts of blocks that go out together.
const JOINT_BYTES: u64 = 2;

/// What is to go out of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outbox {
    /// How many deliveries there were; numbers their effects.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub last: u32,
    /// Those that have not arrived, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deliveries: Vec<Delivery>,
}

/// Something that is to go out, or did not arrive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Delivery {
    /// The effect of its current try; its first one names the delivery.
    pub effect: EffectId,
    pub kind: DeliveryKind,
    pub to: Box<Address>,
    /// Its text; none = it is the reply of its run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Body>,
    /// Bytes of its text that went out before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub from: u32,
    /// Whether it ends in the middle of a text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub goes_on: bool,
    /// How it waits for another block, if it is a short one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short: Option<ShortBlock>,
    /// The texts of blocks that go out with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub joined: Vec<Body>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_keys: bool,
    /// Whether a try may have arrived without an answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncertain: bool,
    /// The call that sends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    pub wanted_at: Timestamp,
    pub state: DeliveryState,
    /// Why the last try failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// How far a delivery has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// It waits for its turn: of each address, one goes out at a time.
    Wanted,
    /// A try is under way.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Started { epoch: Epoch },
    /// A try failed; the next one begins then.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Waiting { until: Timestamp },
    /// It did not arrive, or that is unknown. Only a user sends it again.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Undelivered { is_unknown: bool, at: Timestamp },
}

impl Delivery {
    /// The effect of its first try, which names it.
    pub fn id(&self) -> EffectId {
        EffectId { try_no: 1, ..self.effect }
    }

    /// Whether it may still go out by itself.
    pub fn is_pending(&self) -> bool {
        !matches!(self.state, DeliveryState::Undelivered { .. })
    }
}

impl Outbox {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The delivery that this effect is a try of.
    pub fn get(&self, effect: EffectId) -> Option<&Delivery> {
        self.deliveries.iter().find(|delivery| delivery.id() == EffectId { try_no: 1, ..effect })
    }

    /// Those that may still go out by themselves.
    pub fn pending(&self) -> impl Iterator<Item = &Delivery> {
        self.deliveries.iter().filter(|delivery| delivery.is_pending())
    }

    /// The first of each address: later ones wait for it, so that they arrive in order.
    pub fn heads(&self) -> impl Iterator<Item = &Delivery> {
        let pending = || self.pending().enumerate();
        pending().filter_map(move |(at, delivery)| {
            let is_behind = self.pending().take(at).any(|earlier| earlier.to == delivery.to);
            (!is_behind).then_some(delivery)
        })
    }

    /// Whether anything else is to go to the address of this one.
    pub(crate) fn has_behind(&self, head: &Delivery) -> bool {
        self.pending().any(|other| other.to == head.to && other.effect != head.effect)
    }

    /// The blocks behind a short one that go out with it: those of the same run and address that fit. A later try has the text of
    /// the first one, whose key the other end may know.
    pub(crate) fn joined_to(&self, head: &Delivery) -> Vec<&Delivery> {
        let Some(ShortBlock { most, .. }) = head.short.filter(|_| head.effect.try_no == 1) else { return vec![] };
        let bytes = |delivery: &Delivery| -> u64 {
            delivery.text.iter().chain(&delivery.joined).map(|text| text.bytes + JOINT_BYTES).sum()
        };
        let mut size = bytes(head);
        let of_address = self.pending().filter(|other| other.to == head.to && other.effect != head.effect);
        let joined = of_address.take_while(|next| {
            let is_block = next.kind == DeliveryKind::Block && next.from == 0 && next.effect.run == head.effect.run;
            size += bytes(next);
            is_block && size <= u64::from(most)
        });
        joined.collect()
    }

    fn change(&mut self, effect: EffectId, change: impl FnOnce(&mut Delivery)) {
        if let Some(delivery) = self.deliveries.iter_mut().find(|delivery| delivery.effect == effect) {
            change(delivery);
        }
    }
}

impl Session {
    /// Where the reply of the unfinished run goes: the addresses of its messages that a route serves, each once.
    pub fn replies_to(&self, settings: &Settings) -> Vec<&Address> {
        if settings.reply.routes.is_empty() {
            return vec![];
        }
        self.addresses_of(self.run().map_or(&[][..], |run| &run.inputs), settings)
    }

    /// The same of these messages.
    pub(crate) fn addresses_of(&self, inputs: &[MessageId], settings: &Settings) -> Vec<&Address> {
        let mut addresses: Vec<&Address> = vec![];
        for message in inputs.iter().filter_map(|input| self.account.messages.get(input)) {
            let address = message.reply_to.as_deref().or(message.origin.as_deref());
            if let Some(address) = address.filter(|address| settings.reply.route_to(address).is_some())
                && !addresses.contains(&address)
            {
                addresses.push(address);
            }
        }
        addresses
    }

    /// The id of the next delivery of this run.
    pub(crate) fn next_delivery(&self, run: RunId) -> EffectId {
        EffectId { run, kind: EffectKind::Deliver, ordinal: self.account.outbox.last + 1, try_no: 1 }
    }

    pub(super) fn delivery_wanted(&mut self, e: &DeliveryWanted, at: Timestamp) {
        let outbox = &mut self.account.outbox;
        outbox.last = outbox.last.max(e.delivery.ordinal);
        let again = outbox.deliveries.iter().position(|delivery| Some(delivery.id()) == e.again);
        let joined = again.map(|again| outbox.deliveries.remove(again).joined).unwrap_or_default();
        if let Some(to) = &e.to {
            outbox.deliveries.push(Delivery {
                effect: e.delivery,
                kind: e.kind,
                to: to.clone(),
                text: e.text,
                from: e.from,
                goes_on: e.goes_on,
                short: e.short,
                joined,
                has_keys: e.has_keys,
                uncertain: false,
                call: e.call,
                wanted_at: at,
                state: e.short.map_or(DeliveryState::Wanted, |short| DeliveryState::Waiting { until: short.until }),
                why: None,
            });
        }
        if let Some(blocks) = self.run_mut().and_then(|run| run.blocks.as_mut()).filter(|_| e.taken > 0) {
            blocks.take(e.taken, e.reopened.as_deref());
        }
    }

    pub(super) fn delivery_started(&mut self, e: &DeliveryStarted) {
        let outbox = &mut self.account.outbox;
        let is_joined = |delivery: &Delivery| e.joined.contains(&delivery.effect);
        let joined = outbox.deliveries.iter().filter(|delivery| is_joined(delivery));
        let joined: Vec<Body> =
            joined.flat_map(|delivery| delivery.text.iter().chain(&delivery.joined)).copied().collect();
        outbox.deliveries.retain(|delivery| !is_joined(delivery));
        outbox.change(e.delivery, |delivery| {
            delivery.state = DeliveryState::Started { epoch: e.epoch };
            delivery.joined.extend(joined);
        });
    }

    /// The next try is another effect.
    pub(super) fn delivery_failed(&mut self, e: &DeliveryFailed) {
        self.account.outbox.change(e.delivery, |delivery| {
            delivery.effect.try_no += 1;
            delivery.state = DeliveryState::Waiting { until: e.until };
            delivery.why = Some(e.why.clone());
            delivery.uncertain |= e.uncertain;
        });
    }

    pub(super) fn delivery_ended(&mut self, e: &DeliveryEnded, at: Timestamp) {
        let outbox = &mut self.account.outbox;
        if e.arrived == Some(true) || e.dropped {
            return outbox.deliveries.retain(|delivery| delivery.effect != e.delivery);
        }
        outbox.change(e.delivery, |delivery| {
            delivery.state = DeliveryState::Undelivered { is_unknown: e.arrived.is_none(), at };
            delivery.why.clone_from(&e.why);
        });
        let undelivered = outbox.deliveries.iter().filter(|delivery| !delivery.is_pending()).count();
        if undelivered > UNDELIVERED
            && let Some(oldest) = outbox.deliveries.iter().position(|delivery| !delivery.is_pending())
        {
            outbox.deliveries.remove(oldest);
        }
    }
}
