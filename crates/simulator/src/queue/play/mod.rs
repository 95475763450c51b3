//! One interleaving: a session, its journal in memory, and a seed that decides what happens next. Every input makes one
//! batch, and the oracle judges each batch.

mod count;
mod moves;
mod work;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::sync::Arc;

use engine::{
    BranchId, Candidate, Command, Decide as _, DropPolicy, Effect, Epoch, Hash, Input, Interrupt, Limits, Lineage,
    LineageSegment, Machine, MessageId, ModeSource, Moment, QueueMode, QueueSettings, Record, Report, Session,
    SessionId, Settings, Timestamp, ToolClass, ToolSpec,
};
use uuid::Uuid;

pub(super) use count::KINDS;

use super::oracle::{Asked, Led, Offered, Oracle};
use super::{Broken, Played};
use crate::case::InvalidCase;
use crate::world::Rng;

/// Inputs before the interleaving starts to wind up.
const INPUTS: u32 = 220;

/// Inputs within which it must then become quiet.
const REST: u32 = 4_000;

/// One in this many interleavings folds its whole journal again at its end.
const WHOLE_EVERY: u64 = 8;

const BRANCH: BranchId = BranchId(Uuid::from_u128(2));

/// An interleaving, by its seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Interleaving {
    pub seed: u64,
}

impl fmt::Display for Interleaving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MODE=queue SEED={}", self.seed)
    }
}

impl FromStr for Interleaving {
    type Err = InvalidCase;

    fn from_str(text: &str) -> Result<Self, InvalidCase> {
        let seed = text.strip_prefix("MODE=queue SEED=").and_then(|seed| seed.parse().ok());
        seed.map(|seed| Self { seed }).ok_or_else(|| InvalidCase { text: text.to_owned() })
    }
}

/// Plays an interleaving to its end.
pub fn play(case: Interleaving, played: &mut Played) -> Result<(), Broken> {
    run(World::new(case.seed), case, played).1
}

/// Plays and describes it: each input, and what was recorded.
pub fn describe(case: Interleaving) -> (Vec<String>, Result<(), Broken>) {
    let mut world = World::new(case.seed);
    world.story = Some(vec![]);
    let (world, result) = run(world, case, &mut Played::default());
    (world.story.unwrap_or_default(), result)
}

fn run(mut world: World, case: Interleaving, played: &mut Played) -> (World, Result<(), Broken>) {
    // A panic of the machine counts as a step outside of its tables.
    let result = catch_unwind(AssertUnwindSafe(|| world.play())).unwrap_or_else(|_| Err("the machine panicked".into()));
    played.cases += 1;
    played.messages += u64::from(world.messages);
    played.inputs += u64::from(world.inputs);
    for (all, more) in played.moves.iter_mut().zip(world.moves) {
        *all += u64::from(more);
    }
    let broken = |what| Broken { case, what: format!("after {} inputs: {what}", world.inputs) };
    let result = result.map_err(broken);
    (world, result)
}

struct World {
    rng: Rng,
    machine: Machine,
    oracle: Oracle,
    /// What was recorded since the state was last folded.
    recent: Vec<Record>,
    /// What was recorded before, if that is kept.
    older: Option<Vec<Record>>,
    /// The state between the two.
    between: Option<Session>,
    /// The effects that are wanted now.
    effects: Vec<Effect>,
    settings: Arc<Settings>,
    queue: QueueSettings,
    /// Whether its runs are seldom ended early.
    is_calm: bool,
    now: i64,
    epoch: u64,
    messages: u32,
    accepted: Vec<(MessageId, u32)>,
    inputs: u32,
    moves: [u32; KINDS.len()],
    /// The operations in words; only kept for a described case.
    story: Option<Vec<String>>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed, "queue");
        let queue = configured(&mut rng);
        let is_calm = rng.one_in(2);
        let stop_before = if rng.one_in(4) { vec![vec!["exec".to_owned(), "read".to_owned()]] } else { vec![] };
        Self {
            rng,
            machine: Machine::new(),
            oracle: Oracle::new(stop_before.clone()),
            recent: vec![],
            older: seed.is_multiple_of(WHOLE_EVERY).then(Vec::new),
            between: None,
            effects: vec![],
            settings: Arc::new(Settings { stop_before, ..settings() }),
            queue,
            is_calm,
            now: 0,
            epoch: 0,
            messages: 0,
            accepted: vec![],
            inputs: 0,
            moves: [0; KINDS.len()],
            story: None,
        }
    }

    fn play(&mut self) -> Result<(), String> {
        let id = Uuid::from_u128(1);
        let (key, agent) = ("agent:main:main".to_owned(), "main".to_owned());
        self.input(Command::Create { session: SessionId(id), key, agent, branch: BRANCH }, &Asked::Other)?;
        self.open()?;
        for _ in 0..INPUTS {
            self.anything()?;
        }
        for _ in 0..REST {
            if self.oracle.is_quiet() {
                return self.finish();
            }
            self.help()?;
        }
        Err("it does not become quiet".into())
    }

    /// Checks that every leg has ended. The fold of all records is the state: that follows from the folds on the way,
    /// so it is checked only now and then.
    fn finish(&mut self) -> Result<(), String> {
        self.oracle.finished()?;
        let Some(mut entries) = self.older.take() else { return Ok(()) };
        entries.append(&mut self.recent);
        let whole = self.fold(None, entries)?;
        if whole.session() == self.machine.session() {
            Ok(())
        } else {
            Err("the fold of the whole journal is not the state".into())
        }
    }

    fn session(&self) -> Result<&Session, String> {
        self.machine.session().ok_or_else(|| "there is no session".into())
    }

    fn fold(&self, start: Option<Session>, entries: Vec<Record>) -> Result<Machine, String> {
        let source = |_: Hash| Some(Arc::clone(&self.settings));
        let line = Lineage { start, segments: vec![LineageSegment { branch: BRANCH, entries }], progress: vec![] };
        Machine::recover(line, &source).map_err(|error| error.to_string())
    }

    /// Kills the process; the next owner opens what is in the journal. The fold continues from where it last ended,
    /// whose state was checked then.
    fn crash(&mut self) -> Result<(), String> {
        if let Some(older) = &mut self.older {
            older.extend(self.recent.iter().cloned());
        }
        let recent = std::mem::take(&mut self.recent);
        let start = self.between.take();
        let again = self.fold(start, recent)?;
        if again.session() != self.machine.session() {
            return Err("the fold of the journal is not the state".into());
        }
        self.machine = again;
        let session = self.machine.session().ok_or("there is no session")?;
        self.oracle.look_again(session)?;
        self.between = Some(session.clone());
        self.open()
    }

    /// Opens the session. Its run may wait for its lane first, while messages and a pause are accepted.
    fn open(&mut self) -> Result<(), String> {
        self.epoch += 1;
        if self.rng.one_in(4) {
            self.input(Report::OpenedToWait { epoch: Epoch(self.epoch) }, &Asked::Other)?;
            self.while_it_waits()?;
        }
        self.input(Report::Opened { epoch: Epoch(self.epoch), cooling: vec![] }, &Asked::Other)
    }

    /// Decides on one input and judges the consequences.
    fn input(&mut self, input: impl Into<Input>, asked: &Asked) -> Result<(), String> {
        self.inputs += 1;
        let draw = self.rng.draw();
        let input = input.into();
        if let Some(story) = &mut self.story {
            story.push(short(&format!("{} at {} ms: {input:?}", self.inputs, self.now)));
        }
        let moment = Moment { now: Timestamp(self.now), random: draw };
        // Now and then no slot of the lane is free when a wait ends.
        let lane = Report::LaneChecked { is_free: !self.inputs.is_multiple_of(3) };
        let _ = self.machine.handle(lane.into(), moment);
        let answer = self.machine.handle(input, moment);
        if let Some(fault) = self.machine.fault() {
            return Err(fault.to_string());
        }
        let records = self.machine.take_batch().map(|batch| batch.records).unwrap_or_default();
        if let Some(story) = &mut self.story {
            story.extend(answer.as_ref().err().map(|refusal| format!("  refused: {refusal}")));
            story.extend(records.iter().map(|record| short(&in_words(record))));
        }
        self.effects = self.machine.effects();
        let session = self.machine.session().ok_or("there is no session")?;
        let led = Led { answer: &answer, records: &records, session, effects: &self.effects };
        self.oracle.judge(asked, &led)?;
        if let (Asked::Message(offered @ Offered { compacts: false, .. }), true) = (asked, answer.is_ok()) {
            self.accepted.push((offered.message, self.messages));
        }
        count::add(&mut self.moves, asked, answer.is_ok(), &records);
        self.recent.extend(records);
        Ok(())
    }
}

fn in_words(record: &Record) -> String {
    format!("  {} {}", record.event.kind(), String::from_utf8_lossy(&record.event.payload()))
}

fn short(text: &str) -> String {
    text.chars().take(240).collect()
}

/// Random queue settings.
fn configured(rng: &mut Rng) -> QueueSettings {
    QueueSettings {
        stale_before: None,
        mode: rng.of(&[QueueMode::Followup, QueueMode::Steer, QueueMode::Collect, QueueMode::SteerBacklog]),
        mode_by: rng.of(&[ModeSource::Agent, ModeSource::Configuration, ModeSource::BuiltIn]),
        debounce_ms: rng.of(&[0, 500, 1_000, 90_000]),
        cap: rng.of(&[1, 2, 4, 20]),
        drop: rng.of(&[DropPolicy::New, DropPolicy::Old, DropPolicy::Summarize]),
        cut: rng.one_in(2),
        interrupt: rng.of(&[Interrupt::Replace, Interrupt::Suspend]),
        message_interrupt: None,
    }
}

fn settings() -> Settings {
    let tool = |name: &str, class| ToolSpec {
        name: name.into(),
        class,
        description: String::new(),
        schema: serde_json::Value::Null,
    };
    let candidate = Candidate {
        provider: "acme".into(),
        model: "one".into(),
        profile: None,
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
    // Interrupting one run again and again is not the subject here, and its calls are all alike.
    let limits = Limits {
        poison_after: 0,
        deadline_ms: Some(86_400_000),
        stall_ms: None,
        loop_warn_after: 0,
        loop_stop_after: 0,
        ..Limits::default()
    };
    Settings {
        agent: "main".into(),
        candidates: vec![candidate],
        limits,
        tools: [tool("exec", ToolClass::Once), tool("read", ToolClass::ReadOnly)].into(),
        ..Settings::default()
    }
}
