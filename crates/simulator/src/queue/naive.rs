//! The second model of the routing: what the design says of a message, written with loops and locals as one would tell it.
//! It reads what was recorded, and says what else should have been. What may not live here: anything of the engine's tables.

use engine::{
    CallId, CutCause, Event, Leg, MessageId, MessageSealed, MessageSettled, Next, Outcome, PauseCause, Place,
    QueueMode, ReceiptState, Record, RunId, Session, Timestamp,
};

use super::legs::Legs;

/// A message as it was offered, with what is configured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offered {
    pub(super) message: MessageId,
    pub(super) mode: QueueMode,
    pub(super) cut: bool,
    pub(super) suspend: bool,
    pub(super) cap: usize,
    pub(super) refuses: bool,
    pub(super) debounce_ms: u64,
}

/// What waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Waits {
    message: MessageId,
    leg: Leg,
    mode: QueueMode,
    at: Timestamp,
    debounce_ms: u64,
    gathered: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Resting,
    Preparing,
    Sent,
    Streaming,
    Calls,
    Deciding,
}

/// The model.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "it is what one would note down on paper")]
pub(super) struct Naive {
    waits: Vec<Waits>,
    legs: Legs,
    said: Vec<(MessageId, bool)>,
    run: Option<(RunId, Vec<MessageId>)>,
    doing: Doing,
    calls: Vec<(CallId, bool)>,
    held: bool,
    ending: bool,
    begun: bool,
    owned: bool,
}

impl Naive {
    pub(super) fn new() -> Self {
        Self {
            waits: vec![],
            legs: Legs::default(),
            said: vec![],
            run: None,
            doing: Doing::Resting,
            calls: vec![],
            held: false,
            ending: false,
            begun: false,
            owned: true,
        }
    }

    /// All that one input led to. `offered` is the message that it was, `session` what the engine says now.
    pub(super) fn judge(
        &mut self,
        offered: Option<Offered>,
        refused: bool,
        records: &[Record],
        session: &Session,
    ) -> Result<(), String> {
        let expected = offered.map(|offered| self.expect(offered));
        if let (Some(offered), true) = (offered, refused) {
            let full = self.count() >= offered.cap && offered.refuses;
            return if full { Ok(()) } else { Err("a message was refused though there is room".into()) };
        }
        for record in records {
            self.event(&record.event, record.at, offered, expected.as_ref())?;
        }
        if let (Some(offered), Some(expected)) = (offered, expected) {
            came(offered, expected, records)?;
        }
        self.at_rest(records)?;
        self.compare(session)
    }

    /// Messages that wait, each once.
    fn count(&self) -> usize {
        self.waits.iter().filter(|one| !is_second(one)).count()
    }

    fn steers(&self) -> bool {
        self.waits.iter().any(|one| one.leg == Leg::Steer)
    }

    /// Where a message is to be put, and what else is to happen for it.
    fn expect(&self, offered: Offered) -> Expected {
        let mut expected = Expected { place: Place::Back, cut: false, ends: false, held: false };
        let resting = self.run.is_none();
        let steerable = if resting { self.count() > 0 } else { !self.ending && !self.held };
        match offered.mode {
            QueueMode::Collect => expected.place = Place::Gather,
            QueueMode::Steer if steerable => expected.place = Place::Steer,
            QueueMode::SteerBacklog if steerable => expected.place = Place::Both,
            QueueMode::Followup | QueueMode::Steer | QueueMode::SteerBacklog => {}
            QueueMode::Interrupt => {
                if !resting || self.count() > 0 {
                    expected.place = Place::Front;
                }
                expected.held = !resting && !self.ending && !self.held && offered.suspend;
                expected.ends = !resting && !self.ending && !expected.held;
            }
        }
        let steers = matches!(expected.place, Place::Steer | Place::Both);
        expected.cut = steers && offered.cut && self.doing == Doing::Streaming;
        expected
    }

    fn event(
        &mut self,
        event: &Event,
        at: Timestamp,
        offered: Option<Offered>,
        expected: Option<&Expected>,
    ) -> Result<(), String> {
        match event {
            Event::MessageAccepted(e) => {
                let (Some(offered), Some(expected)) = (offered, expected) else {
                    return Err("a message was accepted that nobody sent".into());
                };
                // Room was made before: whether it is steered does not depend on that, whether it starts may.
                let place = if self.run.is_none() { self.expect(offered).place } else { expected.place };
                same("the place of the message", e.place, place)?;
                same("the message and its mode", (e.message, e.mode), (offered.message, offered.mode))?;
                if self.count() >= offered.cap {
                    return Err(format!("{} messages wait, and one more was accepted", self.count()));
                }
                self.accept(e.message, e.place, offered, at);
            }
            Event::MessageSettled(e) => self.settled(e, offered)?,
            Event::Gathered(e) => self.gather(&e.messages, at)?,
            Event::RunStarted(e) => self.start(e.run, &e.inputs)?,
            Event::RunEnded(e) => self.end(e.run)?,
            Event::Paused(_) => self.held = true,
            Event::Resumed(_) => self.held = false,
            Event::EndingSet(_) => self.ending = true,
            Event::Closed(_) => self.owned = false,
            Event::Opened(_) => self.owned = true,
            other => self.run_event(other)?,
        }
        Ok(())
    }

    fn accept(&mut self, message: MessageId, place: Place, offered: Offered, at: Timestamp) {
        let one =
            |leg| Waits { message, leg, mode: offered.mode, at, debounce_ms: offered.debounce_ms, gathered: false };
        self.legs.begin((message, false));
        match place {
            Place::Back => self.waits.push(one(Leg::Followup)),
            Place::Steer => self.waits.push(one(Leg::Steer)),
            Place::Gather => self.waits.push(one(Leg::Collect)),
            Place::Both => {
                self.legs.begin((message, true));
                self.waits.push(one(Leg::Steer));
                self.waits.push(one(Leg::Followup));
            }
            Place::Front => {
                let mut before = 0;
                while before < self.waits.len() && self.waits[before].mode == QueueMode::Interrupt {
                    before += 1;
                }
                self.waits.insert(before, one(Leg::Followup));
            }
        }
    }

    fn settled(&mut self, e: &MessageSettled, offered: Option<Offered>) -> Result<(), String> {
        let meant = |one: &Waits| one.message == e.message && (e.leg.is_none() || e.leg == Some(one.leg));
        let legs: Vec<bool> = self.waits.iter().filter(|one| meant(one)).map(is_second).collect();
        if legs.is_empty() {
            return Err(format!("{:?} does not wait and is {:?}", e.message, e.state));
        }
        let first_steer = self.waits.iter().find(|one| one.leg == Leg::Steer).map(|one| one.message);
        match e.state {
            ReceiptState::Steered => {
                same("the next steer", Some(e.message), first_steer)?;
                let Some((run, inputs)) = &mut self.run else { return Err("a steer without a run".into()) };
                same("the run of the steer", e.run, Some(*run))?;
                inputs.push(e.message);
                self.said.push((e.message, true));
            }
            ReceiptState::Dropped => {
                let Some(offered) = offered.filter(|offered| !offered.refuses) else {
                    return Err("a message was dropped for nothing".into());
                };
                if self.count() < offered.cap {
                    return Err("a message was dropped though there was room".into());
                }
                let mut oldest = None;
                for one in self.waits.iter().filter(|one| !is_second(one)) {
                    if one.mode != QueueMode::Interrupt && oldest.is_none() {
                        oldest = Some(one.message);
                    }
                }
                let oldest = oldest.or(self.waits.first().map(|one| one.message));
                same("the message that gives way", Some(e.message), oldest)?;
            }
            ReceiptState::Cancelled | ReceiptState::Merged => {}
            other => return Err(format!("a message was settled as {other:?}")),
        }
        let run = e.run.unwrap_or(e.message.into());
        self.waits.retain(|one| !meant(one));
        for second in legs {
            self.legs.set((e.message, second), e.state, run)?;
        }
        Ok(())
    }

    /// The group at the head of the queue.
    fn group(&self) -> Vec<MessageId> {
        let mut group = vec![];
        if self.head().is_none_or(|head| head.leg != Leg::Collect) {
            return group;
        }
        for one in self.waits.iter().filter(|one| one.leg != Leg::Steer) {
            if one.leg != Leg::Collect || self.head().is_some_and(|head| head.gathered != one.gathered) {
                break;
            }
            group.push(one.message);
        }
        group
    }

    fn head(&self) -> Option<&Waits> {
        self.waits.iter().find(|one| !is_second(one))
    }

    fn gather(&mut self, messages: &[MessageId], at: Timestamp) -> Result<(), String> {
        if self.run.is_some() {
            return Err("a group was completed while a run is under way".into());
        }
        same("the group", messages.to_vec(), self.group())?;
        let last = self.waits.iter().rfind(|one| messages.contains(&one.message));
        let last = last.ok_or("a group of nothing")?;
        let alone = self.waits.len() == messages.len();
        if alone && at < last.at.plus(last.debounce_ms) {
            return Err("a group was completed before its time".into());
        }
        for one in self.waits.iter_mut().filter(|one| messages.contains(&one.message)) {
            one.gathered = true;
        }
        Ok(())
    }

    fn start(&mut self, run: RunId, inputs: &[MessageId]) -> Result<(), String> {
        if self.run.is_some() {
            return Err("a second run starts".into());
        }
        let head = *self.head().ok_or("a run starts of nothing")?;
        same("the run's first message", run, head.message.into())?;
        let group = self.group();
        let mut expected = vec![];
        for one in &self.waits {
            let joins = one.leg == Leg::Steer || one.leg == Leg::Collect && group.contains(&one.message);
            if one.message == head.message || joins {
                expected.push(one.message);
            }
        }
        same("what the run starts with", inputs.to_vec(), expected.clone())?;
        for message in expected {
            let key = self.legs.in_run(message, run);
            let state = if message == head.message { ReceiptState::Started } else { ReceiptState::Merged };
            self.legs.set(key, state, run)?;
            self.said.push((message, false));
        }
        let mut left = vec![];
        for one in &self.waits {
            let taken = one.leg == Leg::Steer
                || one.message == head.message
                || one.leg == Leg::Collect && inputs.contains(&one.message);
            if !taken {
                left.push(*one);
            }
        }
        self.waits = left;
        self.run = Some((run, inputs.to_vec()));
        (self.doing, self.ending, self.held, self.begun) = (Doing::Preparing, false, false, false);
        Ok(())
    }

    fn end(&mut self, run: RunId) -> Result<(), String> {
        let Some((current, inputs)) = self.run.take() else { return Err("a run ends that is not there".into()) };
        same("the run that ends", run, current)?;
        if !self.calls.is_empty() {
            return Err("a run ends with calls that have no result".into());
        }
        for message in inputs {
            let key = self.legs.in_run(message, run);
            self.legs.set(key, ReceiptState::Ended, run)?;
        }
        for one in &mut self.waits {
            if is_second(one) {
                return Err("a leg that came too late is not merged".into());
            }
            if one.leg == Leg::Steer {
                one.leg = Leg::Followup;
            }
        }
        (self.doing, self.ending, self.held) = (Doing::Resting, false, false);
        Ok(())
    }

    fn run_event(&mut self, event: &Event) -> Result<(), String> {
        match event {
            Event::StepBegun(_) => self.begun = true,
            Event::RequestSent(_) => {
                if self.steers() {
                    return Err("a request was sent without what is to be steered into it".into());
                }
                if !self.calls.is_empty() {
                    return Err("a request was sent while calls have no result".into());
                }
                self.doing = Doing::Sent;
            }
            Event::RequestOpened(_) => {
                self.doing = Doing::Streaming;
                let Some((run, inputs)) = self.run.clone() else { return Ok(()) };
                for message in inputs {
                    let key = self.legs.in_run(message, run);
                    if self.legs.state(key) == Some(ReceiptState::Steered) {
                        self.legs.set(key, ReceiptState::Delivered, run)?;
                    }
                }
            }
            Event::StreamCut(_) | Event::WaitEnded(_) => self.doing = Doing::Preparing,
            Event::MessageSealed(e) => self.sealed(e)?,
            Event::CallStarted(e) => {
                self.calls.iter_mut().filter(|call| call.0 == e.call).for_each(|call| call.1 = true);
            }
            Event::CallSettled(e) => {
                self.calls.retain(|call| call.0 != e.call);
                if self.calls.is_empty() {
                    self.doing = Doing::Preparing;
                }
            }
            Event::Failed(_) | Event::RetryScheduled(_) => self.doing = Doing::Deciding,
            _ => {}
        }
        Ok(())
    }

    fn sealed(&mut self, e: &MessageSealed) -> Result<(), String> {
        let expected = match e.next {
            Next::Cut => return Ok(()),
            _ if !e.calls.is_empty() => Next::Calls,
            _ if self.steers() => Next::Steer,
            _ => Next::Finish,
        };
        same("what a message leads to", e.next, expected)?;
        self.calls = e.calls.iter().map(|call| (call.id, false)).collect();
        self.doing = if expected == Next::Calls { Doing::Calls } else { Doing::Preparing };
        Ok(())
    }

    /// What must be so after any input.
    fn at_rest(&self, records: &[Record]) -> Result<(), String> {
        if records.is_empty() || !self.owned || self.run.is_none() || self.held || self.ending || !self.steers() {
            return Ok(());
        }
        if self.calls.iter().any(|call| !call.1) {
            return Err("a call is left to start though a message waits to be steered in".into());
        }
        if self.doing == Doing::Preparing && self.begun {
            return Err("a message waits to be steered in, and no request is made of it".into());
        }
        Ok(())
    }

    fn compare(&self, session: &Session) -> Result<(), String> {
        let waits: Vec<_> = self.waits.iter().map(|one| (one.message, one.leg, one.gathered)).collect();
        let queue: Vec<_> = session.queue.iter().map(|one| (one.message, one.leg, one.is_gathered)).collect();
        same("the queue", queue, waits)?;
        let mut legs = Legs::default();
        for (id, message) in &session.messages {
            legs.0.insert((*id, false), (message.state, message.run));
            if let Some(steer) = message.steer {
                legs.0.insert((*id, true), (steer.state, steer.run));
            }
        }
        same("the receipts", &legs.0, &self.legs.0)?;
        let said: Vec<(MessageId, bool)> = session.transcript.items().iter().filter_map(user).collect();
        same("what was said by the user", &said, &self.said)
    }

    /// At the end: every leg has ended.
    pub(super) fn finished(&self) -> Result<(), String> {
        same("legs that nothing became of", self.legs.open(), vec![])
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.run.is_none() && self.waits.is_empty()
    }
}

/// What is to happen for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Expected {
    place: Place,
    cut: bool,
    ends: bool,
    held: bool,
}

/// What a message that came should have led to.
fn came(offered: Offered, expected: Expected, records: &[Record]) -> Result<(), String> {
    let has = |is: &dyn Fn(&Event) -> bool| records.iter().any(|record| is(&record.event));
    let cut = has(&|event| matches!(event, Event::StreamCut(e) if e.cause == CutCause::Steer));
    let ends = has(&|event| matches!(event, Event::EndingSet(e) if e.outcome == Outcome::Interrupted));
    let held = has(&|event| matches!(event, Event::Paused(e) if e.cause == PauseCause::Interrupt));
    let is = Expected { cut, ends, held, ..expected };
    same(&format!("what {:?} does", offered.mode), is, expected)
}

/// Whether it is the leg of a message that has another one to start a run with.
fn is_second(one: &Waits) -> bool {
    one.mode == QueueMode::SteerBacklog && one.leg == Leg::Steer
}

fn user(item: &engine::Item) -> Option<(MessageId, bool)> {
    match item {
        engine::Item::User { message, steer, .. } => Some((*message, *steer)),
        engine::Item::Assistant { .. } | engine::Item::Result { .. } => None,
    }
}

#[expect(clippy::needless_pass_by_value, reason = "what is compared is made for it")]
fn same<T: PartialEq + std::fmt::Debug>(what: &str, is: T, expected: T) -> Result<(), String> {
    if is == expected { Ok(()) } else { Err(format!("{what}: is {is:?}, should be {expected:?}")) }
}
