//! Folds events into the queue: where an accepted message is put, and how each of its legs advances.

use crate::event::{
    Gathered, Leg, MessageAccepted, MessageSettled, QueueMode, QueuePlace, ReceiptState, RunStarted, Visibility,
};
use crate::ids::Timestamp;
use crate::mutant;
use crate::state::queue::{LegState, Message, Queued};
use crate::state::run::{Run, SummaryRequest};
use crate::state::session::{Lifecycle, Session};
use crate::tables::limits::QUEUE_CAP;

impl Session {
    pub(super) fn message_accepted(&mut self, e: &MessageAccepted, at: Timestamp) {
        self.account.visibility = Visibility::Listed;
        if let Some(key) = &e.key {
            self.account.keys.insert(key.clone(), e.message);
        }
        let steer = LegState { state: ReceiptState::Queued, run: e.message.into() };
        let message = Message {
            body: e.body,
            attachments: e.attachments.clone(),
            key: e.key.clone(),
            mode: e.mode,
            mode_by: e.mode_by,
            state: ReceiptState::Queued,
            run: e.message.into(),
            steer: (e.place == QueuePlace::Both).then_some(steer),
            compacts: e.overrides.compact,
            ends: e.ends,
            origin: e.origin.clone(),
            reply_to: e.reply_to.clone(),
            masked: e.masked,
            accepted_at: at,
        };
        self.account.messages.insert(e.message, message);
        let queued = |leg| Queued {
            message: e.message,
            body: e.body,
            overrides: e.overrides.clone(),
            mode: e.mode,
            leg,
            accepted_at: at,
            debounce_ms: e.debounce_ms.unwrap_or_default(),
            is_gathered: false,
        };
        match e.place {
            QueuePlace::Back => self.conversation.queue.push_back(queued(Leg::Followup)),
            QueuePlace::Steer => self.conversation.queue.push_back(queued(Leg::Steer)),
            QueuePlace::Gather => self.conversation.queue.push_back(queued(Leg::Collect)),
            QueuePlace::Both => self.conversation.queue.extend([queued(Leg::Steer), queued(Leg::Followup)]),
            QueuePlace::Front => {
                let behind = mutant!(InterruptBehind);
                let interrupts =
                    self.conversation.queue.iter().take_while(|queued| queued.mode == QueueMode::Interrupt).count();
                self.conversation
                    .queue
                    .insert(if behind { self.conversation.queue.len() } else { interrupts }, queued(Leg::Followup));
            }
        }
    }

    pub(super) fn message_settled(&mut self, e: &MessageSettled) {
        let is_meant = |queued: &Queued| queued.message == e.message && e.leg.is_none_or(|leg| leg == queued.leg);
        let waiting: Vec<Leg> =
            self.conversation.queue.iter().filter(|queued| is_meant(queued)).map(|queued| queued.leg).collect();
        let is_kept = e.state == ReceiptState::Steered && mutant!(SteerTwice);
        self.conversation.queue.retain(|queued| is_kept || !is_meant(queued));
        let Some(message) = self.account.messages.get_mut(&e.message) else { return };
        let legs = if waiting.is_empty() { vec![e.leg.unwrap_or(Leg::Followup)] } else { waiting };
        for leg in legs {
            message.settle(leg, e.state, e.run);
        }
        if e.in_next_run {
            let many = (self.conversation.dropped.len() + 1).saturating_sub(QUEUE_CAP as usize);
            self.conversation.dropped.drain(..many);
            self.conversation.dropped.push(message.body);
        }
        if e.state == ReceiptState::Steered {
            let item = message.item(e.message, true, vec![]);
            self.conversation.transcript.push(item, self.account.head);
        }
        // One that is an answer is a part of the active run as well, but no message of its transcript.
        let is_answer = e.state == ReceiptState::Merged;
        if let Some(run) =
            self.run_mut().filter(|run| e.state == ReceiptState::Steered || is_answer && e.run == Some(run.id))
        {
            run.inputs.push(e.message);
        }
    }

    /// The group is complete: later messages belong to another group.
    pub(super) fn gathered(&mut self, e: &Gathered) {
        for queued in self.conversation.queue.iter_mut().filter(|queued| queued.leg == Leg::Collect) {
            queued.is_gathered |= e.messages.contains(&queued.message);
        }
    }

    pub(super) fn run_started(&mut self, e: &RunStarted, at: Timestamp) {
        let mut summary = None;
        self.account.refused_answers = 0;
        for input in &e.inputs {
            if let Some(message) = self.account.messages.get_mut(input) {
                let is_first = e.run == (*input).into();
                let state = if is_first { ReceiptState::Started } else { ReceiptState::Merged };
                message.settle(message.leg_in(*input, e.run), state, Some(e.run));
                if message.compacts {
                    summary = Some(SummaryRequest { focus: Some(message.body).filter(|body| body.bytes > 0) });
                    continue;
                }
                let item = message.item(*input, false, std::mem::take(&mut self.conversation.dropped));
                self.conversation.transcript.push(item, self.account.head);
            }
        }
        let is_taken = |queued: &Queued| match queued.leg {
            Leg::Steer | Leg::Collect => e.inputs.contains(&queued.message),
            Leg::Followup => e.run == queued.message.into(),
        };
        self.conversation.queue.retain(|queued| !is_taken(queued));
        let mut run = Run::new(e.run, e.inputs.clone(), e.settings, self.account.head, at);
        run.counts.candidates.compaction.alone = summary.is_some();
        run.compaction.summary = summary;
        run.blocks = e.blocks.then(Box::default);
        self.conversation.lifecycle = Lifecycle::Active(Box::new(run));
    }

    /// The first byte of the answer came: the steers in its request are delivered.
    pub(super) fn delivered(&mut self) {
        let Some((run, inputs)) = self.run().map(|run| (run.id, run.inputs.clone())) else { return };
        for input in inputs {
            let Some(message) = self.account.messages.get_mut(&input) else { continue };
            let leg = message.leg_in(input, run);
            if message.leg(leg).state == ReceiptState::Steered {
                message.settle(leg, ReceiptState::Delivered, Some(run));
            }
        }
    }

    pub(super) fn run_ended(&mut self, at: Timestamp) {
        if let Some(run) = self.run_mut() {
            run.spend_reserved();
            let spent = run.spent_by(at);
            self.account.spent.add(&spent);
        }
        let ended = self.run().map(|run| (run.id, run.inputs.clone()));
        for (run, input) in
            ended.into_iter().flat_map(|(run, inputs)| inputs.into_iter().map(move |input| (run, input)))
        {
            if let Some(message) = self.account.messages.get_mut(&input) {
                message.settle(message.leg_in(input, run), ReceiptState::Ended, Some(run));
            }
        }
        if mutant!(SteerLost) {
            self.conversation.queue.retain(|queued| queued.leg != Leg::Steer);
        }
        // A steer that came too late becomes a followup.
        self.conversation
            .queue
            .iter_mut()
            .filter(|queued| queued.leg == Leg::Steer)
            .for_each(|queued| queued.leg = Leg::Followup);
        match &mut self.conversation.lifecycle {
            Lifecycle::Active(_) | Lifecycle::Suspended(_) => self.conversation.lifecycle = Lifecycle::Idle,
            Lifecycle::Error { run, .. } | Lifecycle::Recovering { run } => *run = None,
            Lifecycle::Initializing | Lifecycle::Ready | Lifecycle::Idle | Lifecycle::Terminated => {}
        }
    }
}
