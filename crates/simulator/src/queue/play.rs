//! One interleaving: a session, its journal in memory, and a seed that says what happens next. Every input is one batch, and
//! each batch is judged.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use engine::{
    BodyKind, BranchId, CallOutcome, Candidate, Command, Content, DropPolicy, Effect, EffectKind, Epoch, Failure,
    FailureClass, Found, Given, Hash, Input, Interrupt, Limits, Line, Machine, MessageId, Moment, Overrides, Part,
    Phase, Policy, QueueMode, QueueSettings, Record, Report, RunId, Segment, SessionId, Settings, Stage, Timestamp,
    ToolClass, ToolSpec, Usage,
};
use uuid::Uuid;

use super::naive::{Naive, Offered};
use super::{Broken, Played};
use crate::case::InvalidCase;
use crate::world::Chance;

/// Messages of one interleaving.
const MESSAGES: u32 = 50;

/// Inputs of one, before it is let come to rest.
const INPUTS: u32 = 220;

/// Inputs in which it must have come to rest then.
const REST: u32 = 4_000;

const BRANCH: BranchId = BranchId(Uuid::from_u128(2));

/// An interleaving, by its seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interleaving {
    /// What it is drawn from.
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
    let mut world = World::new(case.seed);
    let result = world.play();
    played.cases += 1;
    played.messages += u64::from(world.messages);
    played.inputs += u64::from(world.inputs);
    result.map_err(|what| Broken { case, what: format!("after {} inputs: {what}", world.inputs) })
}

struct World {
    chance: Chance,
    machine: Machine,
    naive: Naive,
    journal: Vec<Record>,
    settings: Arc<Settings>,
    queue: QueueSettings,
    now: i64,
    epoch: u64,
    messages: u32,
    inputs: u32,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed, "queue");
        let queue = QueueSettings {
            mode: QueueMode::Followup,
            debounce_ms: 1_000,
            cap: chance.of(&[2, 4, 20]),
            drop: chance.of(&[DropPolicy::New, DropPolicy::Old, DropPolicy::Summarize]),
            cut: chance.one_in(2),
            interrupt: chance.of(&[Interrupt::Replace, Interrupt::Suspend]),
        };
        Self {
            chance,
            machine: Machine::new(),
            naive: Naive::new(),
            journal: vec![],
            settings: Arc::new(settings()),
            queue,
            now: 0,
            epoch: 0,
            messages: 0,
            inputs: 0,
        }
    }

    fn play(&mut self) -> Result<(), String> {
        let id = Uuid::from_u128(1);
        let (key, agent) = ("agent:main:main".to_owned(), "main".to_owned());
        self.input(Command::Create { session: SessionId(id), key, agent, branch: BRANCH }, None)?;
        self.open()?;
        for _ in 0..INPUTS {
            self.anything()?;
        }
        for _ in 0..REST {
            if self.naive.is_quiet() {
                return self.naive.finished();
            }
            self.help()?;
        }
        Err("it does not come to rest".into())
    }

    /// Whatever may happen next.
    fn anything(&mut self) -> Result<(), String> {
        match self.chance.pick(32) {
            0..=6 if self.messages < MESSAGES => self.message(),
            7 => self.input(Command::Pause { run: None, freeze: false }, None),
            8 | 9 => self.input(Command::Resume { run: None, drop: false }, None),
            10 if self.chance.one_in(2) => self.input(Command::Resume { run: None, drop: true }, None),
            10 => self.input(Command::Abort { run: None }, None),
            11 => self.cancel(),
            12 if self.chance.one_in(8) => self.input(Command::Clear, None),
            13 => self.restart(),
            14 => self.answer(),
            15 | 16 => {
                self.now += self.chance.of(&[100, 600, 1_000, 70_000]);
                self.input(Report::Due, None)
            }
            _ => self.progress(),
        }
    }

    /// Whatever lets it come to rest.
    fn help(&mut self) -> Result<(), String> {
        if self.session()?.run().is_some_and(|run| run.pause.is_some()) {
            return self.input(Command::Resume { run: None, drop: false }, None);
        }
        let asks =
            self.session()?.run().is_some_and(|run| run.step.calls.iter().any(|call| call.stage == Stage::Asking));
        if asks {
            return self.answer();
        }
        if self.machine.effects().is_empty() {
            self.now = self.machine.deadline().map_or(self.now, |at| at.0.max(self.now));
            return self.input(Report::Due, None);
        }
        self.progress()
    }

    fn session(&self) -> Result<&engine::Session, String> {
        self.machine.session().ok_or_else(|| "there is no session".into())
    }

    fn message(&mut self) -> Result<(), String> {
        self.messages += 1;
        let modes =
            [QueueMode::Steer, QueueMode::Followup, QueueMode::Collect, QueueMode::SteerBacklog, QueueMode::Interrupt];
        // An interrupt ends much: fewer of them let the others come further.
        let mode = if self.chance.one_in(3) { self.chance.of(&modes) } else { self.chance.of(&modes[..4]) };
        let message = MessageId(Uuid::from_u128(u128::from(self.messages) + 100));
        let offered = Offered {
            message,
            mode,
            cut: self.queue.cut,
            suspend: self.queue.interrupt == Interrupt::Suspend,
            cap: self.queue.cap as usize,
            refuses: self.queue.drop == DropPolicy::New,
            debounce_ms: self.queue.debounce_ms,
        };
        let command = Command::Message {
            message,
            content: Content::text(BodyKind::Message, "look"),
            mode: Some(mode),
            queue: self.queue,
            key: None,
            overrides: Overrides::default(),
            attachments: vec![],
        };
        self.input(command, Some(offered))
    }

    fn cancel(&mut self) -> Result<(), String> {
        let queue: Vec<_> = self.session()?.queue.iter().map(|one| (one.message, one.leg)).collect();
        if queue.is_empty() {
            return Ok(());
        }
        let (message, leg) = queue[self.chance.pick(queue.len())];
        let leg = Some(leg).filter(|_| self.chance.one_in(2));
        self.input(Command::Cancel { message, leg }, None)
    }

    fn answer(&mut self) -> Result<(), String> {
        let calls = self.session()?.run().map(|run| run.step.calls.clone()).unwrap_or_default();
        let asks = calls.iter().find(|call| call.stage == Stage::Asking);
        let Some((call, fingerprint)) = asks.and_then(|call| Some((call.id, call.fingerprint?))) else { return Ok(()) };
        let allow = self.chance.one_in(2);
        self.input(Command::Answer { call, fingerprint, allow, by: "me".into() }, None)
    }

    /// The process is gone, in order or not, and the next owner opens what is in the journal.
    fn restart(&mut self) -> Result<(), String> {
        if self.chance.one_in(3) {
            self.input(Report::Closing, None)?;
        }
        let settings = Arc::clone(&self.settings);
        let source = move |_: Hash| Some(Arc::clone(&settings));
        let line = Line {
            start: None,
            segments: vec![Segment { branch: BRANCH, entries: self.journal.clone() }],
            progress: vec![],
        };
        let again = Machine::recover(line, &source).map_err(|error| error.to_string())?;
        if again.session() != self.machine.session() {
            return Err("the fold of the journal is not the state".into());
        }
        self.machine = again;
        self.open()
    }

    fn open(&mut self) -> Result<(), String> {
        self.epoch += 1;
        self.input(Report::Opened { epoch: Epoch(self.epoch) }, None)
    }

    /// Something that is wanted goes on.
    fn progress(&mut self) -> Result<(), String> {
        let effects = self.machine.effects();
        if effects.is_empty() {
            return Ok(());
        }
        let effect = effects[self.chance.pick(effects.len())].clone();
        let id = effect.id();
        let given = |text: &str| Given::new(CallOutcome::Done, Content::text(BodyKind::Output, text));
        let report = match effect {
            Effect::Lane { .. } => Report::LaneEntered { effect: id, settings: Arc::clone(&self.settings) },
            Effect::Prepare { .. } => {
                Report::Prepared { effect: id, prompt: Content::text(BodyKind::Prompt, "You are simulated.") }
            }
            Effect::Request { .. } => self.answered(id),
            Effect::CheckCall { .. } => Report::CallChecked {
                effect: id,
                decision: self.chance.of(&[Policy::Allow, Policy::Allow, Policy::Ask, Policy::Deny]),
                fingerprint: Hash::of(id.to_string().as_bytes()),
                evidence: None,
                reason: None,
            },
            Effect::RunCall { .. } | Effect::EndCall { .. } => Report::CallEnded { effect: id, given: given("it ran") },
            Effect::FindCall { .. } => {
                let found = self.chance.of(&[Found::NeverStarted, Found::Running, Found::Ended, Found::Unknown]);
                let ended = (found == Found::Ended).then(|| given("it had run"));
                Report::CallFound { effect: id, found, ended }
            }
            Effect::FreezeCall { .. } | Effect::HoldProcess { .. } | Effect::EndProcess { .. } => return Ok(()),
        };
        self.input(report, None)
    }

    /// What a model says next.
    fn answered(&mut self, effect: engine::EffectId) -> Report {
        let streams = self
            .machine
            .session()
            .and_then(|session| session.run())
            .is_some_and(|run| matches!(&run.phase, Phase::Streaming(stream) if stream.bytes > 0));
        let call = |index: u32| Part::Call {
            index,
            provider_id: Some(format!("p{index}")),
            name: Some(if index == 0 { "exec" } else { "read" }.into()),
            arguments: "{}".into(),
        };
        match self.chance.pick(12) {
            0 | 1 => Report::RequestOpened { effect },
            2 | 3 => Report::Said { effect, part: Part::Text("said ".into()) },
            4..=6 if self.chance.one_in(2) => {
                let index = self.chance.pick(3) as u32;
                Report::Said { effect, part: call(index) }
            }
            7 if self.chance.one_in(3) => {
                let failure = Failure::new(FailureClass::Network, "reset");
                Report::RequestFailed { effect, failure }
            }
            _ if streams => Report::RequestEnded { effect, usage: Usage::default() },
            _ => Report::Said { effect, part: Part::Text("said ".into()) },
        }
    }

    /// Decides on one input and judges what it led to.
    fn input(&mut self, input: impl Into<Input>, offered: Option<Offered>) -> Result<(), String> {
        self.inputs += 1;
        let draw = self.chance.draw();
        let answer = self.machine.handle(input.into(), Moment { now: Timestamp(self.now), draw });
        if let Some(fault) = self.machine.fault() {
            return Err(fault.to_string());
        }
        let records = self.machine.take_batch().map(|batch| batch.records).unwrap_or_default();
        self.journal.extend(records.iter().cloned());
        let session = self.machine.session().ok_or("there is no session")?;
        self.naive.judge(offered, answer.is_err(), &records, session)?;
        let sent = records.iter().any(|record| matches!(record.event, engine::Event::RequestSent(_)));
        if sent {
            session.transcript.check().map_err(|unpaired| unpaired.to_string())?;
        }
        // A head that may start has its lane asked for.
        let lanes: Vec<RunId> = self.lanes();
        let head = session.next_up().filter(|_| !session.closed).map(|head| RunId::from(head.message));
        if lanes != head.into_iter().collect::<Vec<_>>() {
            return Err(format!("lanes are asked for by {lanes:?}"));
        }
        Ok(())
    }

    fn lanes(&self) -> Vec<RunId> {
        let effects = self.machine.effects().into_iter().map(|effect| effect.id());
        effects.filter(|id| id.kind == EffectKind::Lane).map(|id| id.run).collect()
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
    };
    // A run that is cut off again and again is not what this is about.
    let limits = Limits { poison_after: 0, deadline_ms: 86_400_000, ..Limits::default() };
    Settings {
        agent: "main".into(),
        candidates: vec![candidate],
        limits,
        tools: [tool("exec", ToolClass::Once), tool("read", ToolClass::ReadOnly)].into(),
        ..Settings::default()
    }
}
