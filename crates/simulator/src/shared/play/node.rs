//! One session of the process: its pump, and what runs for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::{
    Batch, BodyKind, BranchId, Candidate, Command, Content, CooldownLifted, CooldownSet, Decide as _, Do, Effect,
    EffectId, Epoch, Event, Hash, Input, Ledger, LedgerUpdate, Machine, MessageId, Moment, Overrides, Phase, Pump,
    QueueSettings, Report, RunId, Seq, Session, SessionId, Settings, Timestamp,
};
use journal::{Memory, Read as _};
use uuid::Uuid;

use super::{MESSAGES, append, unread};
use crate::invariant::{Invariant, Violation};
use crate::world::Rng;

pub(super) struct Node {
    at: usize,
    pump: Pump<Machine, ()>,
    running: BTreeMap<EffectId, Effect>,
    /// What is being recorded, and what the ledger said before it was decided.
    writing: Option<(Arc<Batch>, Kept)>,
    believed: Vec<CooldownSet>,
    armed: Option<Timestamp>,
    /// Where the ledger's branch ended when the run last looked at it; none = it has not.
    seen: Option<Seq>,
    /// What the ledger said when the first input came that the next batch decides on.
    said: Option<Vec<CooldownSet>>,
    /// When each request went out. The provider knows, whoever dies.
    sent: BTreeMap<EffectId, Timestamp>,
    /// Since when the answer of a candidate counts, in the run under way.
    answered: BTreeMap<(RunId, u32), Timestamp>,
    messages: u32,
    pub(super) requests: u64,
    pub(super) learned: u64,
    pub(super) cleared: u64,
}

/// How far a batch is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    NotYet,
    /// In the journal, and nobody has acted on it.
    Recorded,
}

pub(super) fn prepared(effect: EffectId) -> Report {
    Report::Prepared { effect, prompt: Content::text(BodyKind::Prompt, "You are simulated.") }
}

impl Node {
    pub(super) fn new(at: usize) -> Self {
        Self {
            at,
            pump: Pump::new(Machine::new()),
            running: BTreeMap::new(),
            writing: None,
            believed: vec![],
            armed: None,
            seen: None,
            said: None,
            sent: BTreeMap::new(),
            answered: BTreeMap::new(),
            messages: 0,
            requests: 0,
            learned: 0,
            cleared: 0,
        }
    }

    fn branch(&self) -> BranchId {
        BranchId(Uuid::from_u128(10 + self.at as u128))
    }

    /// Makes the session, and takes it up.
    pub(super) fn begin(&mut self, epoch: Epoch, ledger: &Ledger, now: Timestamp) {
        let moment = Moment { now, random: 0 };
        let (session, key) = (SessionId(Uuid::from_u128(20 + self.at as u128)), format!("agent:main:{}", self.at));
        let create = Command::Create { session, key, agent: "main".into(), branch: self.branch() };
        self.pump.offer(create, moment, None);
        self.open(epoch, ledger, now);
    }

    fn open(&mut self, epoch: Epoch, ledger: &Ledger, now: Timestamp) {
        let LedgerUpdate { cleared, cooling } = self.told(ledger, now);
        self.said = Some(cooling.clone());
        self.pump.offer(Report::Opened { epoch, cooling }, Moment { now, random: 0 }, None);
        self.offer_update(LedgerUpdate { cleared, cooling: vec![] }, Moment { now, random: 0 });
        self.decide();
    }

    /// The next process brings the session back from the journal.
    pub(super) fn reopen(
        &mut self,
        journal: &Memory,
        epoch: Epoch,
        ledger: &Ledger,
        now: Timestamp,
    ) -> Result<(), Violation> {
        let (at, messages) = (self.at, self.messages);
        let sent = std::mem::take(&mut self.sent);
        let (requests, learned, cleared) = (self.requests, self.learned, self.cleared);
        *self = Self { sent, messages, requests, learned, cleared, ..Self::new(at) };
        let line = journal.line(self.branch()).map_err(|error| unread(&error))?;
        if line.entries().next().is_none() {
            self.begin(epoch, ledger, now);
            return Ok(());
        }
        let settings = |hash: Hash| Settings::from_bytes(&journal.body(&hash).ok()??).ok().map(Arc::new);
        let machine = Machine::recover(line.into(), &settings).map_err(|e| Invariant::Fold.violated(e.to_string()))?;
        self.pump = Pump::new(machine);
        self.open(epoch, ledger, now);
        Ok(())
    }

    fn session(&self) -> Option<&Session> {
        self.pump.session()
    }

    /// What the ledger says of the run under way.
    fn told(&self, ledger: &Ledger, now: Timestamp) -> LedgerUpdate {
        let run = self.session().and_then(Session::run).map(|run| run.id);
        let told = run.zip(self.pump.machine().settings());
        told.map(|(run, settings)| ledger.standing(&settings.candidates, run, now)).unwrap_or_default()
    }

    fn offer_update(&mut self, update: LedgerUpdate, moment: Moment) {
        // What was said before that is over.
        let stays = |of: &CooldownSet| update.cleared.iter().all(|cleared| cleared.candidate != of.candidate);
        if let Some(said) = &mut self.said {
            said.retain(stays);
        }
        for report in update.reports() {
            self.pump.offer(report, moment, None);
        }
    }

    fn observe_update(&mut self, moment: Moment, ledger: &Ledger) {
        let run = self.session().and_then(Session::run).map(|run| run.id);
        let Some((run, settings)) = run.zip(self.pump.machine().settings()) else { return };
        let update = ledger.update(&mut self.seen, &settings.candidates, run, moment.now);
        self.offer_update(update, moment);
    }

    /// As the runtime's actor does where a user has cleared a profile.
    pub(super) fn observe(&mut self, moment: Moment, ledger: &Ledger) -> Result<(), Violation> {
        self.observe_update(moment, ledger);
        self.decide();
        self.fault()
    }

    /// Something comes in; what the ledger says then comes before it.
    pub(super) fn offer(&mut self, input: impl Into<Input>, moment: Moment, ledger: &Ledger) -> Result<(), Violation> {
        let input = input.into();
        if self.said.is_none() {
            self.said = Some(self.told(ledger, moment.now).cooling);
        }
        if let Input::Report(Report::RequestEnded { effect, .. }) = &input {
            let candidate = self.session().and_then(Session::run).map_or(0, |run| run.counts.candidates.candidate);
            self.answered.insert((effect.run, candidate), self.sent[effect]);
        }
        self.observe_update(moment, ledger);
        self.pump.offer(input, moment, None);
        self.decide();
        self.fault()
    }

    /// A run waits for nobody of whom a user said before that he may be asked.
    pub(super) fn is_told(&self, ledger: &Ledger, now: Timestamp) -> Result<(), Violation> {
        let run = self.session().filter(|_| !self.is_writing()).and_then(Session::run);
        let Some(run) = run.filter(|run| matches!(run.phase, Phase::Awaiting { .. })) else { return Ok(()) };
        let told = self.told(ledger, now).cleared;
        // What was found out at the same time may have been found out after it.
        let knows = |cleared: &CooldownLifted| {
            run.counts.candidates.cooling.iter().find(|of| of.candidate == cleared.candidate && of.since < cleared.at)
        };
        let waits = told.iter().find_map(knows);
        Invariant::Cooldown.holds(waits.is_none(), || format!("{} waits in spite of a user's word: {waits:?}", run.id))
    }

    fn fault(&self) -> Result<(), Violation> {
        let fault = self.pump.machine().fault();
        Invariant::Edge.holds(fault.is_none(), || format!("{fault:?}"))
    }

    /// Takes the next batch, if there is one and none is under way.
    fn decide(&mut self) {
        while self.writing.is_none() && self.pump.has_offers() {
            self.believed = self.said.take().unwrap_or_default();
            match self.pump.next_batch() {
                Some(batch) => self.writing = Some((batch, Kept::NotYet)),
                None => self.carry_out(),
            }
        }
    }

    fn carry_out(&mut self) {
        while let Some(todo) = self.pump.poll() {
            match todo {
                Do::Start(effect) => drop(self.running.insert(effect.id(), effect)),
                Do::Stop(id) => drop(self.running.remove(&id)),
                Do::Arm(at) => self.armed = at,
                Do::Publish(_) | Do::Answer(..) | Do::Broken(_) => {}
            }
        }
    }

    pub(super) fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// A batch goes into the journal, then is acted on.
    pub(super) fn write(&mut self, journal: &Memory, now: Timestamp) -> Result<(), Violation> {
        let Some((batch, kept)) = self.writing.take() else { return Ok(()) };
        if kept == Kept::NotYet {
            self.judge(&batch)?;
            append(journal, &batch)?;
            self.writing = Some((batch, Kept::Recorded));
            return Ok(());
        }
        self.pump.committed(now);
        self.carry_out();
        self.decide();
        self.fault()
    }

    /// Nobody is asked whom the ledger said to leave alone before the first input that led to this; but as a probe.
    fn judge(&mut self, batch: &Batch) -> Result<(), Violation> {
        let said = std::mem::take(&mut self.believed);
        for record in &batch.records {
            match &record.event {
                Event::CandidateCleared(_) => self.cleared += 1,
                Event::CandidateCooled(e) if e.request.is_none() && self.requests > 0 => self.learned += 1,
                Event::RequestSent(sent) => {
                    self.requests += 1;
                    let alone =
                        said.iter().find(|cooled| cooled.candidate == sent.candidate && cooled.until > record.at);
                    let repaired = self.answered.contains_key(&(sent.request.run, sent.candidate));
                    Invariant::Cooldown.holds(alone.is_none() || sent.probe || repaired, || {
                        format!("{} asks {} at {}, which was told: {alone:?}", sent.request, sent.candidate, record.at)
                    })?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// One of the effects that run, drawn.
    pub(super) fn pick(&self, rng: &mut Rng) -> Option<Effect> {
        let number = if self.running.is_empty() { return None } else { rng.pick(self.running.len()) };
        self.running.values().nth(number).cloned()
    }

    /// Since when a request is out; none where it goes out just now.
    pub(super) fn sent(&mut self, effect: EffectId, now: Timestamp) -> Option<Timestamp> {
        let since = self.sent.get(&effect).copied();
        self.sent.entry(effect).or_insert(now);
        since
    }

    pub(super) fn candidate(&self, at: u32) -> Candidate {
        let settings = self.pump.machine().settings().expect("a request is of a run");
        settings.candidates[at as usize].clone()
    }

    /// Whether it can do something now.
    pub(super) fn is_ready(&self, now: Timestamp) -> bool {
        self.is_writing() || !self.running.is_empty() || self.armed.is_some_and(|at| at <= now) || self.may_ask()
    }

    /// Whether it only waits for a time.
    pub(super) fn waits(&self) -> bool {
        !self.is_writing() && self.running.is_empty() && self.armed.is_some()
    }

    fn may_ask(&self) -> bool {
        let is_free = self.session().is_some_and(|session| session.run().is_none() && session.queue.is_empty());
        is_free && self.messages < MESSAGES
    }

    /// Nothing runs: its time has come, or its user asks for something.
    pub(super) fn ask_or_wake(&mut self, moment: Moment, ledger: &Ledger) -> Result<(), Violation> {
        if self.armed.is_some_and(|at| at <= moment.now) {
            self.armed = None;
            return self.offer(Report::Due, moment, ledger);
        }
        self.messages += 1;
        let message = MessageId(Uuid::from_u128(u128::from(self.messages) * 100 + self.at as u128));
        let command = Command::Message {
            message,
            content: Content::text(BodyKind::Message, "Hello"),
            mode: None,
            queue: QueueSettings::default(),
            key: None,
            overrides: Overrides::default(),
            attachments: vec![],
        };
        self.offer(command, moment, ledger)
    }

    /// All that it learned is in the ledger, each failure once.
    pub(super) fn finish(&self, journal: &Memory, told: &[(EffectId, Timestamp)]) -> Result<(), Violation> {
        let session = self.session().ok_or_else(|| Invariant::Settled.violated("there is no session"))?;
        let cooldowns = session.run().is_none() && session.pending_reports.is_empty();
        Invariant::Settled.holds(cooldowns, || {
            format!("{} owes {:?}, and runs {:?}", session.key, session.pending_reports, session.run())
        })?;
        for entry in journal.read(self.branch(), Seq(1)).map_err(|error| unread(&error))? {
            let Event::CandidateCooled(cooled) = &entry.event else { continue };
            let Some(request) = cooled.request else { continue };
            let times = told.iter().filter(|(of, until)| *of == request && Some(*until) >= cooled.until).count();
            // Where it was left alone already, and for longer, it says nothing new but how often.
            Invariant::Cooldown.holds(times == 1, || format!("{cooled:?} is in the ledger {times} times: {told:?}"))?;
        }
        Ok(())
    }
}
