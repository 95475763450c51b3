//! One case: three sessions and their ledger in one process, which may die after any operation. The seed decides which
//! operation comes next, and what a provider responds.

mod node;

use std::sync::Arc;

use engine::{
    Batch, Candidate, Effect, EffectId, Event, Failure, FailureClass, FailureReport, Ledger, LedgerPump, Limits,
    Moment, Part, Report, Settings, Timestamp, Usage,
};
use journal::{Append, Journal as _, Memory, Read as _};

use super::book::Book;
use super::{Broken, Counts, Dies, Sharing};
use crate::invariant::{Invariant, Violation};
use crate::world::Rng;
use node::Node;

const SESSIONS: usize = 3;
/// Messages that each session is sent.
const MESSAGES: u32 = 2;
/// If a world is still busy after this many operations, it never becomes quiet.
const MOST_OPERATIONS: u32 = 4_000;

const CLASSES: [FailureClass; 6] = [
    FailureClass::RateLimit,
    FailureClass::Overloaded,
    FailureClass::Auth,
    FailureClass::AuthPermanent,
    FailureClass::Billing,
    FailureClass::Network,
];

/// Plays a case to its end. Returns how many batches were unsynced after each operation.
pub fn play(case: Sharing, counts: &mut Counts) -> Result<Vec<usize>, Broken> {
    let mut world = World::new(case.seed);
    let result = world.run(case.crash);
    counts.cases += 1;
    counts.crashes += u64::from(case.crash.is_some());
    counts.requests += world.nodes.iter().map(|node| node.requests).sum::<u64>();
    counts.learned += world.nodes.iter().map(|node| node.learned).sum::<u64>();
    counts.cleared += world.nodes.iter().map(|node| node.cleared).sum::<u64>();
    counts.cooled += world.book.cooled;
    counts.expired += world.book.expired;
    result.map_err(|violation| Broken { case, violation })
}

/// What the ledger is recording, and who waits for it.
struct Writing {
    batch: Arc<Batch>,
    failure_report: Option<(usize, EffectId, FailureReport)>,
    is_kept: bool,
}

struct World {
    rng: Rng,
    journal: Memory,
    now: Timestamp,
    nodes: Vec<Node>,
    ledger: LedgerPump,
    writing: Option<Writing>,
    /// Answers that the ledger was not notified of yet: a crash loses them.
    answered: Vec<(Candidate, Timestamp)>,
    book: Book,
}

/// The next possible operations.
#[derive(Clone, Copy)]
enum Next {
    Node(usize),
    Ledger,
    /// A user clears a cooldown.
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
            ledger: LedgerPump::default(),
            writing: None,
            answered: vec![],
            book: Book::default(),
        };
        for node in &mut world.nodes {
            node.begin(epoch, &world.ledger, world.now);
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
                Next::Clear => self.clear(),
                Next::Time => {
                    self.nodes.iter().try_for_each(|node| node.waits_in_vain(&self.ledger, self.now))?;
                    let ms = self.rng.of(&[500, 60_000, 400_000, 20_000_000]);
                    self.now = self.now.plus(ms);
                }
            }
        }
        self.finish()?;
        Ok(unsynced)
    }

    /// Draws the next operation; `None` when the world is quiet.
    fn next(&mut self) -> Option<Next> {
        let mut could: Vec<Next> = vec![];
        let ready = |node: &Node| node.is_ready(self.now);
        could.extend((0..SESSIONS).filter(|at| ready(&self.nodes[*at])).map(Next::Node));
        if self.writing.is_some() || !self.answered.is_empty() {
            could.push(Next::Ledger);
        }
        if !self.ledger.is_appending() && self.ledger.recorded().cooldowns().next().is_some() && self.rng.one_in(12) {
            could.push(Next::Clear);
        }
        if self.nodes.iter().any(Node::waits) || !could.is_empty() && self.rng.one_in(12) {
            could.push(Next::Time);
        }
        if could.is_empty() { None } else { Some(self.rng.of(&could)) }
    }

    fn step(&mut self, at: usize) -> Result<(), Violation> {
        let moment = Moment { now: self.now, random: self.rng.draw() };
        let node = &mut self.nodes[at];
        if node.is_writing() {
            return node.write(&self.journal, self.now);
        }
        let Some(effect) = node.pick(&mut self.rng) else {
            return node.ask_or_wake(moment, &self.ledger);
        };
        let report = match effect {
            Effect::Lane { id, .. } => {
                let mut settings = settings();
                self.ledger.recorded().order(&mut settings.candidates);
                let cooling = self.ledger.recorded().cooling(&settings.candidates, id.run, self.now);
                Report::LaneEntered { effect: id, settings: Arc::new(settings), cooling }
            }
            Effect::Prepare { id } => node::prepared(id),
            Effect::Request { id, candidate, .. } => return self.answer(at, (id, candidate), moment),
            Effect::Report { id, failure_report } => return self.record_failure(at, id, failure_report, moment),
            other => return Err(Invariant::Edge.violated(format!("nothing here asks for {other:?}"))),
        };
        self.nodes[at].offer(report, moment, &self.ledger)
    }

    /// A provider's response to an open request: nothing yet, a failure, or an answer.
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
            return node.offer(Report::RequestFailed { effect, failure }, moment, &self.ledger);
        }
        if self.ledger.recorded().is_update(&candidate, false, since) {
            self.answered.push((candidate, since));
        }
        node.offer(Report::Said { effect, part: Part::Text("Done.".into()) }, moment, &self.ledger)?;
        node.offer(Report::RequestEnded { effect, usage: Usage::default() }, moment, &self.ledger)
    }

    /// As the runtime's `report` does: it waits for its turn, decides, and notifies its session when the decision is
    /// recorded.
    fn record_failure(
        &mut self,
        at: usize,
        effect: EffectId,
        failure_report: FailureReport,
        moment: Moment,
    ) -> Result<(), Violation> {
        if self.ledger.is_appending() {
            return Ok(());
        }
        let ((), batch) = self.ledger.decide(|ledger| ledger.record_failure(&failure_report, moment.now));
        match batch {
            Some(batch) => {
                let failure_report = Some((at, effect, failure_report));
                self.writing = Some(Writing { batch: Arc::new(batch), failure_report, is_kept: false });
                Ok(())
            }
            None => self.nodes[at].offer(Report::Reported { effect }, moment, &self.ledger),
        }
    }

    /// Clears one profile, or all.
    fn clear(&mut self) {
        let (profile, now) = (self.rng.of(&[None, Some("a"), Some("b")]), self.now);
        let (_, batch) = self.ledger.decide(|ledger| ledger.clear(None, profile, now));
        self.writing = batch.map(|batch| Writing { batch: Arc::new(batch), failure_report: None, is_kept: false });
    }

    /// Writes what was decided, then publishes it; if there is nothing, the ledger is notified of an answer.
    fn step_ledger(&mut self) -> Result<(), Violation> {
        let Some(writing) = &mut self.writing else {
            let (candidate, since) = self.answered.remove(0);
            let now = self.now;
            let ((), batch) = self.ledger.decide(|ledger| {
                if ledger.is_update(&candidate, false, since) {
                    ledger.answered(&candidate, since, now);
                }
            });
            self.writing = batch.map(|batch| Writing { batch: Arc::new(batch), failure_report: None, is_kept: false });
            return Ok(());
        };
        if !std::mem::replace(&mut writing.is_kept, true) {
            append(&self.journal, &writing.batch)?;
            for record in &writing.batch.records {
                self.book.take(record, writing.failure_report.as_ref().map(|(_, _, failure_report)| failure_report))?;
            }
            return Ok(());
        }
        let Some(Writing { batch, failure_report, .. }) = self.writing.take() else { return Ok(()) };
        self.ledger.committed();
        let moment = Moment { now: self.now, random: self.rng.draw() };
        if batch.records.iter().any(|record| matches!(record.event, Event::ProfileCleared(_))) {
            self.nodes.iter_mut().try_for_each(|node| node.observe(moment, &self.ledger))?;
        }
        let Some((at, effect, _)) = failure_report else { return Ok(()) };
        self.nodes[at].offer(Report::Reported { effect }, moment, &self.ledger)
    }

    /// Kills the process; the next one has what is in the journal.
    fn crash(&mut self, keep: Option<usize>) -> Result<(), Violation> {
        match keep {
            None => self.journal.crash_process(),
            Some(keep) => self.journal.crash_power(keep),
        }
        let epoch = self.journal.open();
        let folded = folded(&self.journal)?;
        self.book.is_kept_by(&folded, self.now)?;
        self.book.adopt(&folded);
        self.ledger = LedgerPump::new(folded);
        (self.writing, self.answered) = (None, vec![]);
        for node in &mut self.nodes {
            node.reopen(&self.journal, epoch, &self.ledger, self.now)?;
        }
        Ok(())
    }

    /// Checks that every failure that concerns others is in the ledger once, and that no report is pending.
    fn finish(&self) -> Result<(), Violation> {
        let folded = folded(&self.journal)?;
        Invariant::Fold
            .holds(folded == *self.ledger.recorded(), || "the ledger is not the fold of its branch".into())?;
        let branch = self.journal.ledger().map_err(|error| unread(&error))?.unwrap_or(Ledger::BRANCH);
        let entries = self.journal.read(branch, engine::Seq(1)).map_err(|error| unread(&error))?;
        let recorded = entries.iter().filter_map(|entry| match &entry.event {
            Event::ProfileCooled(e) => Some((e.request, e.until)),
            _ => None,
        });
        let recorded: Vec<(EffectId, Timestamp)> = recorded.collect();
        self.nodes.iter().try_for_each(|node| node.finish(&self.journal, &recorded))
    }
}

/// The ledger folded from the journal.
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

/// Appends; the journal in memory replies at once.
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
        token_rate: 1_000,
        can_refresh: false,
        levels: vec![],
        price: None,
    };
    let chain = [("one", "a"), ("one", "b"), ("two", "a"), ("two", "b")];
    // Interrupting one run again and again is not the subject here.
    let limits = Limits { poison_after: 0, deadline_ms: 864_000_000, ..Limits::default() };
    Settings {
        agent: "main".into(),
        candidates: chain.map(|(model, profile)| candidate(model, profile)).into(),
        limits,
        ..Settings::default()
    }
}
