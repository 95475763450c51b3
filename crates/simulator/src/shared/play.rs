//! One case: three sessions and their ledger in one process, which may crash after any operation. The seed decides on
//! the order of operations and on the provider's responses.

mod node;

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::{
    Batch, Candidate, Decide as _, Do, Effect, EffectId, Event, Failure, FailureClass, FailureReport, Ledger,
    LedgerAnswer, LedgerInput, Limits, Moment, Part, Pump, Report, Settings, Timestamp, Usage,
};
use journal::{Append, Journal as _, Memory, Read as _};

use super::ledger_oracle::LedgerOracle;
use super::{Broken, Counts, Dies, Sharing};
use crate::invariant::{Invariant, Violation};
use crate::world::Rng;
use node::Node;

const SESSIONS: usize = 3;
/// Messages to each session.
const MESSAGES: u32 = 2;
/// The maximum of operations after which a world must be quiet.
const MOST_OPERATIONS: u32 = 4_000;

const CLASSES: [FailureClass; 6] = [
    FailureClass::RateLimit,
    FailureClass::Overloaded,
    FailureClass::Auth,
    FailureClass::AuthPermanent,
    FailureClass::Billing,
    FailureClass::Network,
];

/// Plays a case to its end. Returns the number of unsynced batches after each operation.
pub fn play(case: Sharing, counts: &mut Counts) -> Result<Vec<usize>, Broken> {
    let mut world = World::new(case.seed);
    let result = world.run(case.crash);
    counts.cases += 1;
    counts.crashes += u64::from(case.crash.is_some());
    counts.requests += world.nodes.iter().map(|node| node.requests).sum::<u64>();
    counts.learned += world.nodes.iter().map(|node| node.learned).sum::<u64>();
    counts.cleared += world.nodes.iter().map(|node| node.cleared).sum::<u64>();
    counts.cooled += world.oracle.cooled;
    counts.expired += world.oracle.expired;
    result.map_err(|violation| Broken { case, violation })
}

/// The node and its effect that waits for a record of the ledger.
type Caller = (usize, EffectId);

struct World {
    rng: Rng,
    journal: Memory,
    now: Timestamp,
    nodes: Vec<Node>,
    /// The ledger as recorded in the journal, which every node reads.
    recorded: Ledger,
    ledger: Pump<Ledger, Caller>,
    /// The batch that the ledger appends, and whether the journal has it.
    writing: Option<(Arc<Batch>, bool)>,
    /// Failure reports in flight to the ledger, by the effect that waits for them.
    reports: BTreeMap<EffectId, FailureReport>,
    /// Answers that are not reported to the ledger yet; a crash loses them.
    answered: Vec<(Candidate, Timestamp)>,
    oracle: LedgerOracle,
}

/// The next operation.
#[derive(Clone, Copy)]
enum Next {
    Node(usize),
    Ledger,
    /// A user clears a profile.
    Clear,
    Time,
}

impl World {
    fn new(seed: u64) -> Self {
        let journal = Memory::new();
        let epoch = journal.open();
        let mut world = Self {
            rng: Rng::new(seed, "shared"),
            journal,
            now: Timestamp(0),
            nodes: (0..SESSIONS).map(Node::new).collect(),
            recorded: Ledger::default(),
            ledger: Pump::new(Ledger::default()),
            writing: None,
            reports: BTreeMap::new(),
            answered: vec![],
            oracle: LedgerOracle::default(),
        };
        for node in &mut world.nodes {
            node.begin(epoch, &world.recorded, world.now);
        }
        world
    }

    fn run(&mut self, crash: Option<Dies>) -> Result<Vec<usize>, Violation> {
        let mut unsynced = vec![];
        loop {
            if let Some(dies) = crash.filter(|dies| dies.after as usize == unsynced.len()) {
                self.crash(dies.keep)?;
            }
            unsynced.push(self.journal.unsynced());
            let busy = unsynced.len() < MOST_OPERATIONS as usize;
            Invariant::Settled.holds(busy, || format!("still busy after {MOST_OPERATIONS} operations"))?;
            let Some(next) = self.next() else { break };
            match next {
                Next::Node(at) => self.step(at)?,
                Next::Ledger => self.step_ledger()?,
                Next::Clear => self.clear(Moment { now: self.now, random: 0 })?,
                Next::Time => {
                    self.nodes.iter().try_for_each(|node| node.obeys_cleared_cooldowns(&self.recorded, self.now))?;
                    let ms = self.rng.of(&[500, 60_000, 400_000, 20_000_000]);
                    self.now = self.now.plus(ms);
                }
            }
        }
        self.finish()?;
        Ok(unsynced)
    }

    /// A random operation among the possible ones; none if the world is quiet.
    fn next(&mut self) -> Option<Next> {
        let mut possible: Vec<Next> = vec![];
        let ready = |node: &Node| node.is_ready(self.now);
        possible.extend((0..SESSIONS).filter(|at| ready(&self.nodes[*at])).map(Next::Node));
        if self.writing.is_some() || !self.answered.is_empty() {
            possible.push(Next::Ledger);
        }
        if self.recorded.cooldowns().next().is_some() && self.rng.one_in(12) {
            possible.push(Next::Clear);
        }
        if self.nodes.iter().any(Node::waits) || !possible.is_empty() && self.rng.one_in(12) {
            possible.push(Next::Time);
        }
        if possible.is_empty() { None } else { Some(self.rng.of(&possible)) }
    }

    fn step(&mut self, at: usize) -> Result<(), Violation> {
        let moment = Moment { now: self.now, random: self.rng.draw() };
        let node = &mut self.nodes[at];
        if node.is_writing() {
            return node.write(&self.journal, self.now);
        }
        let Some(effect) = node.pick(&mut self.rng) else {
            return node.ask_or_wake(moment, &self.recorded);
        };
        let report = match effect {
            Effect::Lane { id, .. } => {
                let mut settings = settings();
                self.recorded.order(&mut settings.candidates);
                let cooling = self.recorded.cooling(&settings.candidates, id.run, self.now);
                Report::LaneEntered { effect: id, settings: Arc::new(settings), cooling }
            }
            Effect::Prepare { id } => node::prepared(id),
            Effect::Request { id, candidate, .. } => return self.answer(at, (id, candidate), moment),
            Effect::Report { id, failure_report } => return self.record_failure(at, id, failure_report, moment),
            other => return Err(Invariant::Edge.violated(format!("{other:?} is not wanted here"))),
        };
        self.nodes[at].offer(report, moment, &self.recorded)
    }

    /// The provider's response to a request in flight: nothing yet, a failure, or an answer.
    fn answer(&mut self, at: usize, (effect, candidate): (EffectId, u32), moment: Moment) -> Result<(), Violation> {
        let node = &mut self.nodes[at];
        let Some(since) = node.sent(effect, self.now) else { return Ok(()) };
        let candidate = node.candidate(candidate);
        if self.rng.one_in(2) {
            let class = self.rng.of(&CLASSES);
            let retry_after_ms = self.rng.one_in(4).then_some(90_000);
            let Candidate { provider, model, profile, .. } = candidate;
            let failure = Failure {
                retry_after_ms,
                provider: Some(provider),
                model: Some(model),
                profile,
                ..Failure::new(class, "so")
            };
            return node.offer(Report::RequestFailed { effect, failure }, moment, &self.recorded);
        }
        if self.recorded.is_update(&candidate, false, since) {
            self.answered.push((candidate, since));
        }
        node.offer(Report::Streamed { effect, part: Part::Text("Done.".into()) }, moment, &self.recorded)?;
        node.offer(
            Report::RequestEnded { effect, usage: Usage::default(), stop_reason: None, schema_mismatch: None },
            moment,
            &self.recorded,
        )
    }

    /// Acts like the runtime's `report`: it reports once, and notifies its session when the report is recorded.
    fn record_failure(
        &mut self,
        at: usize,
        effect: EffectId,
        failure_report: FailureReport,
        moment: Moment,
    ) -> Result<(), Violation> {
        if self.reports.insert(effect, failure_report.clone()).is_some() {
            return Ok(());
        }
        self.decide(LedgerInput::Failed(failure_report), moment, Some((at, effect)))
    }

    /// A user clears the cooldowns of one profile, or of all.
    fn clear(&mut self, moment: Moment) -> Result<(), Violation> {
        let profile = self.rng.of(&[None, Some("a"), Some("b")]).map(str::to_owned);
        self.decide(LedgerInput::Clear { provider: None, profile }, moment, None)
    }

    fn decide(&mut self, input: LedgerInput, moment: Moment, caller: Option<Caller>) -> Result<(), Violation> {
        self.ledger.offer(input, moment, caller);
        self.next_batch(moment)
    }

    /// Takes the next batch to append, unless one is being appended.
    fn next_batch(&mut self, moment: Moment) -> Result<(), Violation> {
        self.carry_out(moment)?;
        if let Some(batch) = self.ledger.next_batch() {
            self.writing = Some((batch, false));
        }
        self.carry_out(moment)
    }

    fn carry_out(&mut self, moment: Moment) -> Result<(), Violation> {
        while let Some(todo) = self.ledger.poll() {
            match todo {
                Do::Publish(batch) => {
                    self.recorded.apply_batch(&batch);
                    if batch.records.iter().any(|record| matches!(record.event, Event::ProfileCooldownLifted(_))) {
                        self.nodes.iter_mut().try_for_each(|node| node.observe(moment, &self.recorded))?;
                    }
                }
                Do::Answer((at, effect), answer) => {
                    let is_done = matches!(answer, Ok(LedgerAnswer::Done));
                    Invariant::Settled.holds(is_done, || format!("{effect} receives {answer:?}"))?;
                    self.reports.remove(&effect);
                    self.nodes[at].offer(Report::Reported { effect }, moment, &self.recorded)?;
                }
                Do::Start(effect) => match effect {},
                Do::Stop(_) | Do::Arm(_) | Do::Broken(_) => {}
            }
        }
        Ok(())
    }

    /// Appends the current batch, then commits it; without a batch, reports an answer to the ledger.
    fn step_ledger(&mut self) -> Result<(), Violation> {
        let Some((batch, is_kept)) = &mut self.writing else {
            let (candidate, since) = self.answered.remove(0);
            let moment = Moment { now: self.now, random: 0 };
            return self.decide(LedgerInput::Answered { candidate, alone: false, since }, moment, None);
        };
        if !std::mem::replace(is_kept, true) {
            append(&self.journal, batch)?;
            return batch.records.iter().try_for_each(|record| self.oracle.take(record, &self.reports));
        }
        self.writing = None;
        self.ledger.committed(self.now);
        let moment = Moment { now: self.now, random: self.rng.draw() };
        self.next_batch(moment)
    }

    /// The process crashes; the next one recovers from the journal.
    fn crash(&mut self, keep: Option<usize>) -> Result<(), Violation> {
        match keep {
            None => self.journal.crash_process(),
            Some(keep) => self.journal.crash_power(keep),
        }
        let epoch = self.journal.open();
        let folded = folded(&self.journal)?;
        self.oracle.is_kept_by(&folded, self.now)?;
        self.oracle.adopt(&folded);
        (self.ledger, self.recorded) = (Pump::new(folded.clone()), folded);
        (self.writing, self.answered) = (None, vec![]);
        self.reports.clear();
        for node in &mut self.nodes {
            node.reopen(&self.journal, epoch, &self.recorded, self.now)?;
        }
        Ok(())
    }

    /// Checks that the ledger has each reported failure once, and that no report is pending.
    fn finish(&self) -> Result<(), Violation> {
        let folded = folded(&self.journal)?;
        Invariant::Fold.holds(folded == self.recorded && folded == *self.ledger.machine(), || {
            "the ledger is not what its branch gives".into()
        })?;
        let branch = self.journal.ledger().map_err(|error| unread(&error))?.unwrap_or(Ledger::BRANCH);
        let entries = self.journal.read(branch, engine::Seq(1)).map_err(|error| unread(&error))?;
        let cooldowns = entries.iter().filter_map(|entry| match &entry.event {
            Event::ProfileCooldownSet(e) => Some((e.request, e.until)),
            _ => None,
        });
        let cooldowns: Vec<(EffectId, Timestamp)> = cooldowns.collect();
        self.nodes.iter().try_for_each(|node| node.finish(&self.journal, &cooldowns))
    }
}

/// The ledger, folded from the journal.
fn folded(journal: &Memory) -> Result<Ledger, Violation> {
    let Some(branch) = journal.ledger().map_err(|error| unread(&error))? else { return Ok(Ledger::default()) };
    let mut ledger = Ledger::on(branch);
    for entry in journal.read(branch, engine::Seq(1)).map_err(|error| unread(&error))? {
        ledger.apply(&entry.event, entry.at);
    }
    Ok(ledger)
}

fn unread(error: &journal::Error) -> Violation {
    Invariant::Journal.violated(error.to_string())
}

/// Appends; the in-memory journal responds at once.
fn append(journal: &Memory, batch: &Arc<Batch>) -> Result<(), Violation> {
    let (done, kept) = std::sync::mpsc::channel();
    let append = Append { batch: Arc::clone(batch), epoch: journal.epoch() };
    journal.append(append, Box::new(move |answer| drop(done.send(answer))));
    let kept = kept.recv().unwrap_or(Err(journal::Error::Gone));
    kept.map(drop).map_err(|error| unread(&error))
}

/// Two models, each with two keys.
fn settings() -> Settings {
    let candidate = |model: &str, profile: &str| Candidate {
        provider: "acme".into(),
        model: model.into(),
        profile: Some(profile.into()),
        context_window: 100_000,
        max_output: 4_096,
        thinking: None,
        images: true,
        structured_output: false,
        sampling: engine::Sampling::default(),
        token_rate: 1_000,
        can_refresh: false,
        levels: vec![],
        price: None,
    };
    let chain = [("one", "a"), ("one", "b"), ("two", "a"), ("two", "b")];
    // Poison runs are not the subject here.
    let limits = Limits { poison_after: 0, deadline_ms: Some(864_000_000), stall_ms: None, ..Limits::default() };
    Settings {
        agent: "main".into(),
        candidates: chain.map(|(model, profile)| candidate(model, profile)).into(),
        limits,
        ..Settings::default()
    }
}
