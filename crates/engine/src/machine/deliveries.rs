//! Deliveries: the reply of a run, its blocks and messages of the model go to the routes of its messages, each once and in order.
//! What is wanted stays in the outbox of the session's account, whatever becomes of the run.

use super::Machine;
use super::commands::no_session;
use crate::body::{Body, BodyKind, Content};
use crate::event::{
    Address, DeliveryEnded, DeliveryFailed, DeliveryKind, DeliveryStarted, DeliveryWanted, Next, ShortBlock,
};
use crate::ids::{CallId, EffectId, Epoch, MessageId, Moment, RunId};
use crate::input::{Acknowledgement, DeliveryFault, Outgoing, Refusal};
use crate::mutant;
use crate::reply::blocks::{self, TextState};
use crate::reply::{self, BlockMode, BlockSettings, ReplyRoute};
use crate::state::{Delivery, DeliveryState, Phase, Session};
use crate::tables::limits::{BLOCK_IDLE_MS, DELIVERY_RETRIES_MS, OUTBOX};

impl Machine {
    /// Where the reply of the active run goes.
    fn reply_addresses(&self) -> Vec<Address> {
        let parts = self.session.as_ref().zip(self.settings.as_ref());
        let addresses = parts.map(|(session, settings)| session.replies_to(settings)).unwrap_or_default();
        addresses.into_iter().cloned().collect()
    }

    fn route_to(&self, address: &Address) -> Option<&ReplyRoute> {
        self.settings.as_ref()?.reply.route_to(address)
    }

    /// Whether the text of a run of these messages goes out in blocks.
    pub(super) fn sends_blocks(&self, inputs: &[MessageId]) -> bool {
        let parts = self.session.as_ref().zip(self.settings.as_ref());
        let addresses = parts.map(|(session, settings)| session.addresses_of(inputs, settings)).unwrap_or_default();
        addresses.into_iter().any(|address| self.blocks_of(address).mode != BlockMode::Off)
    }

    fn blocks_of(&self, address: &Address) -> BlockSettings {
        self.route_to(address).map(|route| route.blocks).unwrap_or_default()
    }

    /// The addresses that receive blocks, and how the text is divided: as the first of them has it.
    fn block_routes(&self) -> Option<(Vec<Address>, BlockSettings)> {
        let mut addresses = self.reply_addresses();
        addresses.retain(|address| self.blocks_of(address).mode != BlockMode::Off);
        let first = addresses.first().map(|address| self.blocks_of(address))?;
        Some((addresses, first))
    }

    /// Sends the blocks of the open stream that are due.
    pub(super) fn send_blocks(&mut self, ends: TextEnds, moment: Moment) {
        let run = self.session.as_ref().and_then(Session::run);
        if run.is_none_or(|run| run.blocks.is_none()) {
            return;
        }
        let Some((addresses, settings)) = self.block_routes() else { return };
        if ends == TextEnds::Not && settings.mode == BlockMode::MessageEnd {
            return;
        }
        let state = if ends == TextEnds::Not { TextState::Open } else { TextState::Ended };
        while let Some(run) = self.session.as_ref().and_then(Session::run) {
            let Some((blocks, Phase::Streaming(stream))) = run.blocks.as_ref().zip(Some(&run.phase)) else { return };
            if blocks.taken == 0 && reply::may_be_silent(&stream.text, ends == TextEnds::Whole) {
                return;
            }
            let lead = blocks.reopened.as_ref().map_or(0, String::len);
            let rest = blocks.rest(&stream.text);
            // A block that takes nothing of the answer would follow itself for ever.
            let block = blocks::next(&rest, state, &settings).filter(|block| block.taken > lead);
            let Some(block) = block else { return };
            let is_last = block.taken == rest.len();
            let is_short = block.text.chars().nth((settings.min_chars as usize).saturating_sub(1)).is_none();
            let waits = is_last && is_short && ends == TextEnds::BeforeCalls;
            let short = waits.then(|| ShortBlock { until: moment.now.plus(BLOCK_IDLE_MS), most: settings.max_chars });
            let goes_on = is_last && ends == TextEnds::Midway;
            let run = run.id;
            let text = Some(self.keep(Content::text(BodyKind::Message, &block.text)));
            let (kind, call, from) = (DeliveryKind::Block, None, 0);
            // What opens the fence again is not of the answer.
            let mut taken = (block.taken - lead) as u32;
            let mut reopened = block.reopened;
            for address in &addresses {
                let wanted = Wanted { kind, to: Some(Box::new(address.clone())), text, call, from, goes_on, short };
                self.want(run, wanted, (std::mem::take(&mut taken), reopened.take()), moment);
            }
        }
    }

    /// The rest of an answer that failed and is kept goes out as one block.
    pub(super) fn send_kept(&mut self, text: Body, moment: Moment) {
        let run = self.session.as_ref().and_then(Session::run);
        let Some((run, from)) = run.and_then(|run| Some((run.id, run.blocks.as_ref()?.taken))) else { return };
        let Some((addresses, _)) = self.block_routes().filter(|_| u64::from(from) < text.bytes) else { return };
        let (kind, call, goes_on, short) = (DeliveryKind::Block, None, true, None);
        let mut taken = text.bytes as u32 - from;
        for address in addresses {
            let wanted = Wanted { kind, to: Some(Box::new(address)), text: Some(text), call, from, goes_on, short };
            self.want(run, wanted, (std::mem::take(&mut taken), None), moment);
        }
    }

    /// The reply of the run that has just ended goes to these addresses.
    pub(super) fn deliver_reply(&mut self, run: RunId, addresses: Vec<(Address, bool)>, moment: Moment) {
        for (address, has_keys) in addresses {
            let wanted = Wanted::whole(DeliveryKind::Reply, Some(Box::new(address)), None, None);
            self.want_keyed(run, wanted, has_keys, (0, None), moment);
        }
    }

    /// Where the reply of the active run goes, with whether keys count there. Asked before the run ends, which needs its settings.
    pub(super) fn reply_routes(&self) -> Vec<(Address, bool)> {
        let keyed = |address: Address| (self.has_keys(&address), address);
        self.reply_addresses().into_iter().map(keyed).map(|(has_keys, address)| (address, has_keys)).collect()
    }

    fn has_keys(&self, address: &Address) -> bool {
        self.route_to(address).is_some_and(|route| route.has_keys)
    }

    /// A call has sent a message. If the reply of the run goes to that route as well, it goes to the same address.
    pub(super) fn send_message(&mut self, call: CallId, outgoing: Outgoing, moment: Moment) {
        let own = |name: &String| self.reply_addresses().into_iter().find(|address| address.channel == *name);
        let address = |name: String| own(&name).unwrap_or_else(|| Address { channel: name, ..Address::default() });
        let to = outgoing.route.map(address).map(Box::new);
        let text = Some(self.keep(outgoing.text));
        self.want(call.run, Wanted::whole(DeliveryKind::Message, to, text, Some(call)), (0, None), moment);
    }

    fn want(&mut self, run: RunId, wanted: Wanted, of_text: (u32, Option<String>), moment: Moment) {
        let has_keys = wanted.to.as_ref().is_some_and(|to| self.has_keys(to));
        self.want_keyed(run, wanted, has_keys, of_text, moment);
    }

    fn want_keyed(
        &mut self,
        run: RunId,
        Wanted { kind, to, text, call, from, goes_on, short }: Wanted,
        has_keys: bool,
        (taken, reopened): (u32, Option<String>),
        moment: Moment,
    ) {
        let Some(session) = &self.session else { return };
        let (delivery, is_full) = (session.next_delivery(run), session.account.outbox.pending().count() >= OUTBOX);
        let goes_out = to.is_some();
        self.emit(
            DeliveryWanted {
                delivery,
                kind,
                to,
                text,
                has_keys,
                call,
                taken,
                reopened,
                from,
                goes_on,
                short,
                again: None,
            },
            moment.now,
        );
        if goes_out && is_full {
            let why = Some(format!("{OUTBOX} deliveries of its session wait already"));
            self.emit(DeliveryEnded { delivery, arrived: Some(false), why, dropped: false }, moment.now);
        }
    }

    /// Begins the tries that are due.
    pub(super) fn start_deliveries(&mut self, moment: Moment) {
        let Some(session) = self.session.as_ref().filter(|session| !session.account.closed) else { return };
        if session.account.outbox.deliveries.is_empty() {
            return;
        }
        let (epoch, outbox) = (session.account.epoch, &session.account.outbox);
        let mut due = vec![];
        for head in outbox.heads() {
            let joined: Vec<EffectId> = outbox.joined_to(head).into_iter().map(|of| of.effect).collect();
            let is_due = match head.state {
                DeliveryState::Wanted => true,
                // One that waits for another one has it.
                DeliveryState::Waiting { until } => {
                    until <= moment.now || head.effect.try_no == 1 && outbox.has_behind(head)
                }
                DeliveryState::Started { .. } | DeliveryState::Undelivered { .. } => false,
            };
            if is_due {
                due.push(DeliveryStarted { delivery: head.effect, epoch, joined });
            }
        }
        for started in due {
            self.emit(started, moment.now);
        }
    }

    /// It has arrived: the next one of its address goes out.
    pub(super) fn delivered(&mut self, delivery: EffectId, moment: Moment) {
        self.emit(DeliveryEnded { delivery, arrived: Some(true), why: None, dropped: false }, moment.now);
    }

    /// A try has failed. What may have arrived is sent again only where keys count.
    pub(super) fn delivery_failed(&mut self, delivery: EffectId, why: String, fault: DeliveryFault, moment: Moment) {
        let Some(known) = self.session.as_ref().and_then(|session| session.account.outbox.get(delivery)) else {
            return;
        };
        let (has_keys, tries, uncertain) = (known.has_keys, delivery.try_no as usize, known.uncertain);
        let is_unknown = fault == DeliveryFault::Unknown;
        let (after_ms, arrived) = match fault {
            DeliveryFault::Refused => (None, Some(false)),
            DeliveryFault::Temporary { after_ms } => (Some(after_ms), Some(false)),
            DeliveryFault::Unknown if has_keys || mutant!(UnknownDeliveryRepeated) => (Some(None), None),
            DeliveryFault::Unknown => (None, None),
        };
        let pause = DELIVERY_RETRIES_MS.get(tries - 1).copied();
        let Some((asked, pause)) = after_ms.zip(pause) else {
            // An earlier try may have arrived, whatever is answered to a later one.
            let arrived = arrived.filter(|_| !uncertain);
            return self.emit(DeliveryEnded { delivery, arrived, why: Some(why), dropped: false }, moment.now);
        };
        // A tenth more or less: what failed together is not tried together again.
        let pause = pause / 10 * 9 + moment.random % (pause / 5).max(1);
        let until = moment.now.plus(pause.max(asked.unwrap_or_default()));
        self.emit(DeliveryFailed { delivery, why, until, uncertain: is_unknown }, moment.now);
    }

    /// What an earlier owner was sending when it ended.
    pub(super) fn lose_deliveries(&mut self, moment: Moment) {
        let Some(session) = &self.session else { return };
        let is_lost = |delivery: &&Delivery| matches!(delivery.state, DeliveryState::Started { .. });
        let lost = session.account.outbox.deliveries.iter().filter(is_lost);
        let lost: Vec<(EffectId, bool)> = lost.map(|delivery| (delivery.effect, delivery.has_keys)).collect();
        for (delivery, has_keys) in lost {
            let why = "the process that sent it ended before the outcome was known".to_owned();
            if has_keys || mutant!(UnknownDeliveryRepeated) {
                self.emit(DeliveryFailed { delivery, why, until: moment.now, uncertain: true }, moment.now);
            } else {
                self.emit(DeliveryEnded { delivery, arrived: None, why: Some(why), dropped: false }, moment.now);
            }
        }
    }

    /// Sends what did not arrive again, as a delivery of its own.
    pub(super) fn redeliver(&mut self, delivery: EffectId, moment: Moment) -> Result<Acknowledgement, Refusal> {
        let known = self.known_delivery(delivery)?;
        if known.is_pending() {
            let reason = "that delivery is not over: it is tried again by itself; `limulus deliveries list` shows when";
            return Err(Refusal::State { state: "under way".to_owned(), reason: reason.to_owned() });
        }
        let Delivery { kind, to, text, has_keys, call, from, .. } = known.clone();
        let (again, run) = (Some(known.id()), known.effect.run);
        let delivery = self.session.as_ref().map(|session| session.next_delivery(run)).ok_or_else(no_session)?;
        let (to, taken, reopened, goes_on, short) = (Some(to), 0, None, false, None);
        self.emit(
            DeliveryWanted { delivery, kind, to, text, has_keys, call, taken, reopened, from, goes_on, short, again },
            moment.now,
        );
        self.advance(moment);
        Ok(Acknowledgement::Done)
    }

    /// Gives a delivery up.
    pub(super) fn drop_delivery(&mut self, delivery: EffectId, moment: Moment) -> Result<Acknowledgement, Refusal> {
        let known = self.known_delivery(delivery)?;
        let (delivery, is_out) = (known.effect, matches!(known.state, DeliveryState::Started { .. }));
        let is_unknown = known.uncertain || matches!(known.state, DeliveryState::Undelivered { is_unknown: true, .. });
        let arrived = (!is_out && !is_unknown).then_some(false);
        let why = Some("a user dropped it".to_owned());
        self.emit(DeliveryEnded { delivery, arrived, why, dropped: true }, moment.now);
        self.advance(moment);
        Ok(Acknowledgement::Done)
    }

    fn known_delivery(&self, delivery: EffectId) -> Result<&Delivery, Refusal> {
        let session = self.session.as_ref().ok_or_else(no_session)?;
        let missing = || {
            Refusal::NotFound {
            what: "that delivery is not in the outbox: it has arrived, or was dropped; `limulus deliveries list` shows the outbox"
                .to_owned(),
        }
        };
        session.account.outbox.get(delivery).ok_or_else(missing)
    }
}

/// Whether and how the text of a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextEnds {
    /// More may come.
    Not,
    /// The run goes on with calls or another message, and more text may follow soon.
    BeforeCalls,
    /// It was cut, and another request continues it.
    Midway,
    /// It is the end of the answer.
    Whole,
}

impl TextEnds {
    /// How a text ends behind which this comes.
    pub(super) fn before(next: Next) -> Self {
        match next {
            Next::Calls | Next::Steer => Self::BeforeCalls,
            Next::Continue | Next::Cut => Self::Midway,
            Next::Finish => Self::Whole,
        }
    }
}

/// What is to go out.
struct Wanted {
    kind: DeliveryKind,
    to: Option<Box<Address>>,
    text: Option<Body>,
    call: Option<CallId>,
    from: u32,
    goes_on: bool,
    short: Option<ShortBlock>,
}

impl Wanted {
    fn whole(kind: DeliveryKind, to: Option<Box<Address>>, text: Option<Body>, call: Option<CallId>) -> Self {
        Self { kind, to, text, call, from: 0, goes_on: false, short: None }
    }
}

/// The tries that are under way.
pub(super) fn under_way(session: &Session) -> impl Iterator<Item = EffectId> {
    let epoch: Epoch = session.account.epoch;
    let is_out = move |delivery: &&Delivery| delivery.state == DeliveryState::Started { epoch };
    session.account.outbox.deliveries.iter().filter(is_out).map(|delivery| delivery.effect)
}
