//! The oracle of the routing: the rules of the design for messages, written with plain loops and variables. It reads
//! what was recorded, and reports what should have been recorded instead. It uses nothing of the engine's tables.

mod asked;
mod run;
mod said;
mod waits;

use engine::{
    Acknowledgement, Effect, Event, MessageAccepted, MessageId, MessageSettled, Outcome, ReceiptState, Record, Refusal,
    RunEnded, RunStarted, Session, Timestamp,
};

use super::legs::Legs;
pub(super) use asked::{Asked, Offered};
use asked::{Came, Expected};
use run::{CurrentRun, Doing};
use said::Said;
use waits::Waits;

/// The oracle.
#[derive(Debug)]
pub(super) struct Oracle {
    waits: Waits,
    legs: Legs,
    said: Said,
    run: Option<CurrentRun>,
    /// The session's queue mode, if one was set.
    mode: Option<engine::QueueMode>,
    /// Whether the conversation must be reset when the run has ended.
    reset_due: bool,
    owned: bool,
    /// Where each run is to stop because its message says so.
    stop_before: Vec<Vec<String>>,
}

/// The consequences of one input.
pub(super) struct Led<'a> {
    pub(super) answer: &'a Result<Acknowledgement, Refusal>,
    pub(super) records: &'a [Record],
    pub(super) session: &'a Session,
    pub(super) effects: &'a [Effect],
}

impl Oracle {
    pub(super) fn new(stop_before: Vec<Vec<String>>) -> Self {
        Self {
            waits: Waits::default(),
            legs: Legs::default(),
            said: Said::default(),
            run: None,
            mode: None,
            reset_due: false,
            owned: false,
            stop_before,
        }
    }

    /// Checks all consequences of one input.
    pub(super) fn judge(&mut self, asked: &Asked, led: &Led<'_>) -> Result<(), String> {
        let came = match asked {
            Asked::Message(offered) => {
                let (mode, mode_by) = offered.mode(self.mode);
                Some(Came { offered: *offered, mode, mode_by })
            }
            _ => None,
        };
        let refused = self.refuses(asked);
        if led.answer.is_err() != refused {
            return Err(format!("{asked:?}: {:?}, should {}be refused", led.answer, if refused { "" } else { "not " }));
        }
        if refused && !led.records.is_empty() {
            return Err(format!("{asked:?} is refused, and something was recorded"));
        }
        let expected = came.filter(|_| !refused).map(|came| self.expect(&came));
        for record in led.records {
            self.event(&record.event, record.at, asked, came.as_ref().zip(expected))?;
        }
        if let Some((came, expected)) = came.zip(expected) {
            expected.came(&came, led.records)?;
        }
        if !refused {
            self.was_done(asked, led)?;
        }
        if !led.records.is_empty() {
            self.when_idle()?;
        }
        self.compare(led)
    }

    fn event(
        &mut self,
        event: &Event,
        at: Timestamp,
        asked: &Asked,
        came: Option<(&Came, Expected)>,
    ) -> Result<(), String> {
        match event {
            Event::MessageAccepted(e) => {
                let (came, expected) = came.ok_or("a message was accepted that nobody sent")?;
                self.accepted(e, at, came, expected)?;
            }
            Event::MessageSettled(e) => self.settled(e, came.map(|(came, _)| came))?,
            Event::Gathered(e) => {
                if self.run.is_some() {
                    return Err("a group was completed during a run".into());
                }
                self.waits.gather(&e.messages, at)?;
            }
            Event::OverrideSet(e) => {
                let Asked::Override(mode) = asked else { return Err("a setting was changed without a request".into()) };
                same("the mode of the session", e.queue_mode, *mode)?;
                self.mode = e.queue_mode;
            }
            Event::RunStarted(e) => self.started(e)?,
            Event::RunEnded(e) => self.ended(e)?,
            Event::Reset(_) => {
                if self.run.is_some() || !self.reset_due && !matches!(asked, Asked::Reset) {
                    return Err("the conversation is reset without a reason".into());
                }
                self.reset_due = false;
                self.said.reset();
            }
            Event::EndingSet(e) => {
                if e.reset != (self.reset_due || matches!(asked, Asked::Reset)) {
                    return Err("a reset was decided without a request, or was forgotten".into());
                }
                self.reset_due = e.reset;
                self.run_event(event, asked)?;
            }
            Event::Closed(_) => self.owned = false,
            Event::Opened(_) => {
                self.owned = true;
                self.run_event(event, asked)?;
            }
            other => self.run_event(other, asked)?,
        }
        Ok(())
    }

    fn run_event(&mut self, event: &Event, asked: &Asked) -> Result<(), String> {
        if let Event::RequestOpened(_) = event {
            self.delivered()?;
        }
        let steers = self.waits.steers();
        match &mut self.run {
            Some(run) => run.event(event, asked, steers),
            None => Ok(()),
        }
    }

    fn accepted(&mut self, e: &MessageAccepted, at: Timestamp, came: &Came, expected: Expected) -> Result<(), String> {
        same("the place of the message", e.place, expected.place)?;
        same("the run that ends for it", e.ends, expected.ends)?;
        same("the message, its text and its mode", (e.message, e.body.hash, e.mode, e.mode_by), came.as_accepted())?;
        same("whether its run only compacts", e.overrides.compact, came.offered.compacts)?;
        if self.waits.count() >= came.cap() {
            return Err(format!("{} messages wait, and one more was accepted", self.waits.count()));
        }
        self.said.know(e.message, e.body.hash);
        self.legs.begin((e.message, false));
        if e.place == engine::QueuePlace::Both {
            self.legs.begin((e.message, true));
        }
        self.waits.accept(came, e.place, at);
        Ok(())
    }

    fn settled(&mut self, e: &MessageSettled, came: Option<&Came>) -> Result<(), String> {
        let legs = self.waits.legs_of(e.message, e.leg);
        if legs.is_empty() {
            return Err(format!("{:?} does not wait and is {:?}", e.message, e.state));
        }
        match e.state {
            ReceiptState::Steered => {
                same("the next steer", Some(e.message), self.waits.first_steer())?;
                let run = self.run.as_mut().ok_or("a steer without a run")?;
                same("the run of the steer", e.run, Some(run.id))?;
                run.inputs.push(e.message);
                run.joined = true;
                self.said.say(e.message, true);
            }
            ReceiptState::Dropped => {
                let came = came.filter(|came| !came.refuses()).ok_or("a message was dropped without a reason")?;
                if self.waits.count() < came.cap() {
                    return Err("a message was dropped though there was space".into());
                }
                same("the dropped message", Some(e.message), self.waits.oldest())?;
                same("whether the next run is notified of it", e.in_next_run, came.notifies())?;
                if e.in_next_run {
                    self.said.notify_of(e.message);
                }
            }
            ReceiptState::Cancelled | ReceiptState::Merged => {}
            other => return Err(format!("a message was settled as {other:?}")),
        }
        self.waits.remove(e.message, e.leg);
        for second in legs {
            self.legs.set((e.message, second), e.state, e.run.unwrap_or(e.message.into()))?;
        }
        Ok(())
    }

    fn started(&mut self, e: &RunStarted) -> Result<(), String> {
        if self.run.is_some() {
            return Err("a second run starts".into());
        }
        if self.reset_due {
            return Err("a run starts before the reset of the conversation".into());
        }
        let head = self.waits.head().ok_or("a run starts without a message")?.message;
        same("the run's first message", e.run, head.into())?;
        let compacts = self.waits.compacts_next();
        let starting = self.waits.take_starting();
        same("what the run starts with", &e.inputs, &starting)?;
        for message in &starting {
            let key = self.legs.in_run(*message, e.run);
            let state = if *message == head { ReceiptState::Started } else { ReceiptState::Merged };
            self.legs.set(key, state, e.run)?;
            if !compacts {
                self.said.say(*message, false);
            }
        }
        self.run = Some(CurrentRun::new(e.run, starting, self.stop_before.clone()));
        Ok(())
    }

    fn ended(&mut self, e: &RunEnded) -> Result<(), String> {
        let run = self.run.take().ok_or("a run ends that does not exist")?;
        same("the run that ends", e.run, run.id)?;
        run.may_end(e.outcome)?;
        for message in run.inputs {
            let key = self.legs.in_run(message, e.run);
            self.legs.set(key, ReceiptState::Ended, e.run)?;
        }
        self.waits.miss()
    }

    /// The first byte of a response came, so the steers in its request are delivered.
    fn delivered(&mut self) -> Result<(), String> {
        let Some(run) = &self.run else { return Ok(()) };
        for message in &run.inputs {
            let key = self.legs.in_run(*message, run.id);
            if self.legs.state(key) == Some(ReceiptState::Steered) {
                self.legs.set(key, ReceiptState::Delivered, run.id)?;
            }
        }
        Ok(())
    }

    /// What must hold after any input that changed something.
    fn when_idle(&self) -> Result<(), String> {
        if !self.owned {
            return Ok(());
        }
        match &self.run {
            Some(run) => run.when_idle(self.waits.steers()),
            None if self.reset_due => Err("the run has ended, and the conversation was not reset".into()),
            None => self.waits.when_idle(),
        }
    }

    fn compare(&mut self, led: &Led<'_>) -> Result<(), String> {
        // A change without an entry is compared at the next entry.
        if led.records.is_empty() || led.records.iter().any(|record| record.seq.is_some()) {
            self.waits.compare(&led.session.conversation.queue)?;
            self.legs.compare(&led.session.account.messages)?;
            self.said.compare(&led.session.conversation.transcript)?;
        }
        if led.records.iter().any(|record| matches!(record.event, Event::RequestSent(_))) {
            self.said.paired()?;
        }
        if !self.owned {
            return same("what a closed session wants", led.effects, &[]);
        }
        match &self.run {
            Some(run) => run.wants(led.effects),
            None => self.waits.wants(led.effects),
        }
    }

    /// Compares the whole conversation again.
    pub(super) fn look_again(&mut self, session: &Session) -> Result<(), String> {
        self.said.look_again();
        self.said.compare(&session.conversation.transcript)
    }

    /// Checks at the end that every leg has ended.
    pub(super) fn finished(&self) -> Result<(), String> {
        same("legs without an outcome", self.legs.open(), vec![])
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.run.is_none() && self.waits.count() == 0
    }

    /// The outcome of an accepted message, and its place in the queue.
    fn receipt(&self, message: MessageId) -> (Option<ReceiptState>, Option<u32>) {
        (self.legs.state((message, false)), self.waits.place(message))
    }

    fn ending(&self) -> Option<Outcome> {
        self.run.as_ref().and_then(|run| run.ending)
    }

    fn is_paused(&self) -> bool {
        self.run.as_ref().is_some_and(CurrentRun::is_paused)
    }

    fn streams(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.doing == Doing::Streaming)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "what is compared is made for it")]
fn same<T: PartialEq + std::fmt::Debug>(what: &str, is: T, expected: T) -> Result<(), String> {
    if is == expected { Ok(()) } else { Err(format!("{what}: is {is:?}, should be {expected:?}")) }
}
