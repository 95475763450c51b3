//! One session of the process: its pump and its running effects.

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
    /// The batch that is being recorded, and how far it is.
    writing: Option<(Arc<Batch>, Kept)>,
    /// The cooldowns that the ledger reported before that batch was decided.
    batch_cooldowns: Vec<CooldownSet>,
    armed: Option<Timestamp>,
    /// The end of the ledger's branch when the run last read it; none = it has not.
    seen: Option<Seq>,
    /// The cooldowns that the ledger reported at the first input of the next batch.
    reported_cooldowns: Option<Vec<CooldownSet>>,
    /// When each request was sent. The provider knows it, whatever crashes.
    sent: BTreeMap<EffectId, Timestamp>,
    /// When the last answered request to each candidate was sent, by run.
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
    /// It is in the journal, and no effect of it has started.
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
            batch_cooldowns: vec![],
            armed: None,
            seen: None,
            reported_cooldowns: None,
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
    pub(super) fn begin(&mut self, epoch: Epoch, ledger: &Ledger, now: Timestamp) {
        let moment = Moment { now, random: 0 };
        let (session, key) = (SessionId(Uuid::from_u128(20 + self.at as u128)), format!("agent:main:{}", self.at));
        let create = Command::Create { session, key, agent: "main".into(), branch: self.branch() };
        self.pump.offer(create, moment, None);
        self.open(epoch, ledger, now);
    }

    fn open(&mut self, epoch: Epoch, ledger: &Ledger, now: Timestamp) {
        let LedgerUpdate { cleared, cooling, .. } = self.ledger_state(ledger, now);
        self.reported_cooldowns = Some(cooling.clone());
        self.pump.offer(Report::Opened { epoch, cooling }, Moment { now, random: 0 }, None);
        self.offer_update(LedgerUpdate { cleared, ..LedgerUpdate::default() }, Moment { now, random: 0 });
        self.decide();
    }

    /// The next process recovers the session from the journal.
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

    /// The ledger's state for the unfinished run.
    fn ledger_state(&self, ledger: &Ledger, now: Timestamp) -> LedgerUpdate {
        let run = self.session().and_then(Session::run).map(|run| run.id);
        let run = run.zip(self.pump.machine().settings());
        run.map(|(run, settings)| ledger.standing(&settings.candidates, run, now)).unwrap_or_default()
    }

    fn offer_update(&mut self, update: LedgerUpdate, moment: Moment) {
        // A cleared cooldown no longer holds.
        let stays = |of: &CooldownSet| update.cleared.iter().all(|cleared| cleared.candidate != of.candidate);
        if let Some(reported) = &mut self.reported_cooldowns {
            reported.retain(stays);
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

    /// Acts like the runtime's actor after a user has cleared a profile.
    pub(super) fn observe(&mut self, moment: Moment, ledger: &Ledger) -> Result<(), Violation> {
        self.observe_update(moment, ledger);
        self.decide();
        self.fault()
    }

    /// Offers an input, after the changes of the ledger.
    pub(super) fn offer(&mut self, input: impl Into<Input>, moment: Moment, ledger: &Ledger) -> Result<(), Violation> {
        let input = input.into();
        if self.reported_cooldowns.is_none() {
            self.reported_cooldowns = Some(self.ledger_state(ledger, moment.now).cooling);
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

    /// Checks that no run waits for a candidate whose cooldown a user has cleared.
    pub(super) fn obeys_cleared_cooldowns(&self, ledger: &Ledger, now: Timestamp) -> Result<(), Violation> {
        let run = self.session().filter(|_| !self.is_writing()).and_then(Session::run);
        let Some(run) = run.filter(|run| matches!(run.phase, Phase::Awaiting { .. })) else { return Ok(()) };
        let cleared = self.ledger_state(ledger, now).cleared;
        // A failure at the same time may have come after it.
        let knows = |cleared: &CooldownLifted| {
            run.counts.candidates.cooling.iter().find(|of| of.candidate == cleared.candidate && of.since < cleared.at)
        };
        let waits = cleared.iter().find_map(knows);
        Invariant::Cooldown.holds(waits.is_none(), || format!("{} waits for a cleared cooldown: {waits:?}", run.id))
    }

    fn fault(&self) -> Result<(), Violation> {
        let fault = self.pump.machine().fault();
        Invariant::Edge.holds(fault.is_none(), || format!("{fault:?}"))
    }

    /// Takes the next batch, unless one is being recorded.
    fn decide(&mut self) {
        while self.writing.is_none() && self.pump.has_offers() {
            self.batch_cooldowns = self.reported_cooldowns.take().unwrap_or_default();
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

    /// Appends the batch, or starts its effects if the journal has it.
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

    /// Checks that no candidate is asked that was in cooldown before the first input of the batch, except as a probe.
    fn judge(&mut self, batch: &Batch) -> Result<(), Violation> {
        let cooldowns = std::mem::take(&mut self.batch_cooldowns);
        for record in &batch.records {
            match &record.event {
                Event::CandidateCooldownLifted(_) => self.cleared += 1,
                Event::CandidateCooldownSet(e) if e.request.is_none() && self.requests > 0 => self.learned += 1,
                Event::RequestSent(sent) => {
                    self.requests += 1;
                    let cooldown =
                        cooldowns.iter().find(|cooled| cooled.candidate == sent.candidate && cooled.until > record.at);
                    let repaired = self.answered.contains_key(&(sent.request.run, sent.candidate));
                    Invariant::Cooldown.holds(cooldown.is_none() || sent.probe || repaired, || {
                        format!(
                            "{} asks {} at {} in its cooldown: {cooldown:?}",
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

    /// When a request was sent; none if it is sent now.
    pub(super) fn sent(&mut self, effect: EffectId, now: Timestamp) -> Option<Timestamp> {
        let since = self.sent.get(&effect).copied();
        self.sent.entry(effect).or_insert(now);
        since
    }

    pub(super) fn candidate(&self, at: u32) -> Candidate {
        let settings = self.pump.machine().settings().expect("a request is of a run");
        settings.candidates[at as usize].clone()
    }

    /// Whether it can act now.
    pub(super) fn is_ready(&self, now: Timestamp) -> bool {
        self.is_writing() || !self.running.is_empty() || self.armed.is_some_and(|at| at <= now) || self.may_ask()
    }

    /// Whether it only waits for a time.
    pub(super) fn waits(&self) -> bool {
        !self.is_writing() && self.running.is_empty() && self.armed.is_some()
    }

    fn may_ask(&self) -> bool {
        let is_free =
            self.session().is_some_and(|session| session.run().is_none() && session.conversation.queue.is_empty());
        is_free && self.messages < MESSAGES
    }

    /// Without a running effect: reports the armed time, or sends the user's next message.
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
            options: engine::SenderOptions::default(),
        };
        self.offer(command, moment, ledger)
    }

    /// Checks that each of its failures is in the ledger once, and that no report is pending.
    pub(super) fn finish(&self, journal: &Memory, recorded: &[(EffectId, Timestamp)]) -> Result<(), Violation> {
        let session = self.session().ok_or_else(|| Invariant::Settled.violated("there is no session"))?;
        let is_settled = session.run().is_none() && session.account.pending_reports.is_empty();
        Invariant::Settled.holds(is_settled, || {
            format!(
                "{} has the pending reports {:?}, and the run {:?}",
                session.account.key,
                session.account.pending_reports,
                session.run()
            )
        })?;
        for entry in journal.read(self.branch(), Seq(1)).map_err(|error| unread(&error))? {
            let Event::CandidateCooldownSet(cooled) = &entry.event else { continue };
            let Some(request) = cooled.request else { continue };
            let times = recorded.iter().filter(|(of, until)| *of == request && Some(*until) >= cooled.until).count();
            // A longer cooldown that exists already only counts once more.
            Invariant::Cooldown
                .holds(times == 1, || format!("{cooled:?} is in the ledger {times} times: {recorded:?}"))?;
        }
        Ok(())
    }
}
