//! One session of the process: its pump, and its running effects.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::LedgerPump;
use engine::{
    Batch, BodyKind, BranchId, Candidate, Command, Content, CooldownLifted, CooldownSet, Do, Effect, EffectId, Epoch,
    Event, Hash, Input, LedgerUpdate, Machine, MessageId, Moment, Overrides, Phase, Pump, QueueSettings, Report, RunId,
    Seq, Session, SessionId, Settings, Timestamp,
};
use journal::{Memory, Read as _};
use uuid::Uuid;

use super::{MESSAGES, append, unread};
use crate::invariant::{Invariant, Violation};
use crate::world::Rng;

pub(super) struct Node {
    at: usize,
    pump: Pump<()>,
    running: BTreeMap<EffectId, Effect>,
    /// The batch that is being recorded, and how far it is.
    writing: Option<(Arc<Batch>, Kept)>,
    believed: Vec<CooldownSet>,
    armed: Option<Timestamp>,
    /// The version of the ledger that the run was last notified of; `None` = never.
    seen: Option<u64>,
    /// What the ledger contained when the first input of the next batch came.
    known: Option<Vec<CooldownSet>>,
    /// When each request was sent. The provider knows this, whoever dies.
    sent: BTreeMap<EffectId, Timestamp>,
    /// Since when the answer of a candidate counts, in the run in progress.
    answered: BTreeMap<(RunId, u32), Timestamp>,
    messages: u32,
    pub(super) requests: u64,
    pub(super) learned: u64,
    pub(super) cleared: u64,
}

/// The progress of a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    NotYet,
    /// It is in the journal, and nobody has acted on it.
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
            known: None,
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

    /// Creates the session and opens it.
    pub(super) fn begin(&mut self, epoch: Epoch, ledger: &LedgerPump, now: Timestamp) {
        let moment = Moment { now, random: 0 };
        let (session, key) = (SessionId(Uuid::from_u128(20 + self.at as u128)), format!("agent:main:{}", self.at));
        let create = Command::Create { session, key, agent: "main".into(), branch: self.branch() };
        self.pump.offer(create, moment, None);
        self.open(epoch, ledger, now);
    }

    fn open(&mut self, epoch: Epoch, ledger: &LedgerPump, now: Timestamp) {
        let LedgerUpdate { cleared, cooling } = self.update(ledger, now);
        self.known = Some(cooling.clone());
        self.pump.offer(Report::Opened { epoch, cooling }, Moment { now, random: 0 }, None);
        self.offer_update(LedgerUpdate { cleared, cooling: vec![] }, Moment { now, random: 0 });
        self.decide();
    }

    /// Opens the session again from the journal in the next process.
    pub(super) fn reopen(
        &mut self,
        journal: &Memory,
        epoch: Epoch,
        ledger: &LedgerPump,
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

    /// The ledger's update for the run in progress.
    fn update(&self, ledger: &LedgerPump, now: Timestamp) -> LedgerUpdate {
        let run = self.session().and_then(Session::run).map(|run| run.id);
        let settings = run.zip(self.pump.machine().settings());
        settings.map(|(run, settings)| ledger.recorded().standing(&settings.candidates, run, now)).unwrap_or_default()
    }

    fn offer_update(&mut self, update: LedgerUpdate, moment: Moment) {
        // A cooldown that was lifted no longer counts.
        let stays = |of: &CooldownSet| update.cleared.iter().all(|cleared| cleared.candidate != of.candidate);
        if let Some(said) = &mut self.known {
            said.retain(stays);
        }
        for report in update.reports() {
            self.pump.offer(report, moment, None);
        }
    }

    fn observe_update(&mut self, moment: Moment, ledger: &LedgerPump) {
        let run = self.session().and_then(Session::run).map(|run| run.id);
        let Some((run, settings)) = run.zip(self.pump.machine().settings()) else { return };
        let update = ledger.update(&mut self.seen, &settings.candidates, run, moment.now);
        self.offer_update(update, moment);
    }

    /// As the runtime's actor does when a user has cleared a profile.
    pub(super) fn observe(&mut self, moment: Moment, ledger: &LedgerPump) -> Result<(), Violation> {
        self.observe_update(moment, ledger);
        self.decide();
        self.fault()
    }

    /// Offers an input; the ledger's update comes before it.
    pub(super) fn offer(
        &mut self,
        input: impl Into<Input>,
        moment: Moment,
        ledger: &LedgerPump,
    ) -> Result<(), Violation> {
        let input = input.into();
        if self.known.is_none() {
            self.known = Some(self.update(ledger, moment.now).cooling);
        }
        if let Input::Report(Report::RequestEnded { effect, .. }) = &input {
            let candidate = self.session().and_then(Session::run).map_or(0, |run| run.counters.candidate);
            self.answered.insert((effect.run, candidate), self.sent[effect]);
        }
        self.observe_update(moment, ledger);
        self.pump.offer(input, moment, None);
        self.decide();
        self.fault()
    }

    /// Checks that no run waits for a candidate whose cooldown a user has lifted before.
    pub(super) fn waits_in_vain(&self, ledger: &LedgerPump, now: Timestamp) -> Result<(), Violation> {
        let run = self.session().filter(|_| !self.is_writing()).and_then(Session::run);
        let Some(run) = run.filter(|run| matches!(run.phase, Phase::Awaiting { .. })) else { return Ok(()) };
        let cleared = self.update(ledger, now).cleared;
        // A cooldown found at the same time may have been found after it.
        let knows = |cleared: &CooldownLifted| {
            run.counters.cooling.iter().find(|of| of.candidate == cleared.candidate && of.since < cleared.at)
        };
        let waits = cleared.iter().find_map(knows);
        Invariant::Cooldown
            .holds(waits.is_none(), || format!("{} waits though a user lifted the cooldown: {waits:?}", run.id))
    }

    fn fault(&self) -> Result<(), Violation> {
        let fault = self.pump.machine().fault();
        Invariant::Edge.holds(fault.is_none(), || format!("{fault:?}"))
    }

    /// Takes the next batch, if there is one and none is being recorded.
    fn decide(&mut self) {
        while self.writing.is_none() && self.pump.has_offers() {
            self.believed = self.known.take().unwrap_or_default();
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

    /// Writes a batch to the journal, then acts on it.
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

    /// Checks that no candidate is asked that was in cooldown before the first input of this batch, except for a probe.
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
                        format!(
                            "{} asks {} at {}, which was in cooldown: {alone:?}",
                            sent.request, sent.candidate, record.at
                        )
                    })?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A random running effect.
    pub(super) fn pick(&self, rng: &mut Rng) -> Option<Effect> {
        let number = if self.running.is_empty() { return None } else { rng.pick(self.running.len()) };
        self.running.values().nth(number).cloned()
    }

    /// Since when a request is open; `None` if it is sent now.
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

    /// Nothing runs: its timer fires, or its user asks for something.
    pub(super) fn ask_or_wake(&mut self, moment: Moment, ledger: &LedgerPump) -> Result<(), Violation> {
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

    /// Checks that the ledger has everything that it learned, each failure once.
    pub(super) fn finish(&self, journal: &Memory, recorded: &[(EffectId, Timestamp)]) -> Result<(), Violation> {
        let session = self.session().ok_or_else(|| Invariant::Settled.violated("there is no session"))?;
        let cooldowns = session.run().is_none() && session.pending_reports.is_empty();
        Invariant::Settled.holds(cooldowns, || {
            format!("{} has not reported {:?}, and runs {:?}", session.key, session.pending_reports, session.run())
        })?;
        for entry in journal.read(self.branch(), Seq(1)).map_err(|error| unread(&error))? {
            let Event::CandidateCooled(cooled) = &entry.event else { continue };
            let Some(request) = cooled.request else { continue };
            let times = recorded.iter().filter(|(of, until)| *of == request && Some(*until) >= cooled.until).count();
            // If a longer cooldown was known already, only the count is new.
            Invariant::Cooldown
                .holds(times == 1, || format!("{cooled:?} is in the ledger {times} times: {recorded:?}"))?;
        }
        Ok(())
    }
}
