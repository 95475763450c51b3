//! What the tests of the engine share: a world that drives the real pump over a journal in memory and checks, after
//! every step, that the recorded events alone give the same state. What may not live here: expectations.

mod deliveries;
pub(crate) mod invariants;
pub(crate) mod render;
pub(crate) mod rest;
pub(crate) mod script;

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::{
    Batch, BranchId, Candidate, Command, Compaction, Content, Do, Effect, EffectId, Epoch, Event, Hash, Input, Limits,
    Lineage, LineageSegment, Machine, Moment, Policy, Pump, QueueSettings, Record, Report, ResumeMode, RunRow, Session,
    SessionId, SessionRow, Settings, Timestamp, ToolClass, ToolSpec,
};
use uuid::Uuid;

/// The id of the one session.
pub(crate) const SESSION: SessionId = SessionId(Uuid::from_u128(0x5e55));
/// The id of its one branch.
pub(crate) const BRANCH: BranchId = BranchId(Uuid::from_u128(0xb4a9));

/// One session, its pump, its journal, and everything that was reported to the outside.
pub(crate) struct World {
    /// The pump under test; a caller is named by its line.
    pub(crate) pump: Pump<Machine, String>,
    /// All that was committed, in order.
    pub(crate) journal: Vec<Record>,
    /// The last committed row of the session.
    pub(crate) row: Option<SessionRow>,
    /// The last committed row of the run.
    pub(crate) run_row: Option<RunRow>,
    /// All content that was committed.
    pub(crate) bodies: BTreeMap<Hash, Content>,
    /// The settings of the next run.
    pub(crate) settings: Settings,
    /// How its messages are queued.
    pub(crate) queue: QueueSettings,
    /// The time, milliseconds.
    pub(crate) now: i64,
    /// The number that jitter comes from.
    pub(crate) random: u64,
    /// The epoch of the owner.
    pub(crate) epoch: u64,
    /// Effects that the current owner has started and not stopped.
    pub(crate) running: BTreeMap<EffectId, Effect>,
    /// Every effect that was ever started, with the journal's length then.
    pub(crate) started: Vec<(Effect, usize)>,
    /// The last armed time.
    pub(crate) armed: Option<Timestamp>,
    /// Messages so far.
    pub(crate) messages: u32,
    /// The decisions and actions, one a line.
    pub(crate) lines: Vec<String>,
    /// Whether the next append is to fail.
    pub(crate) append_fails: bool,
    /// How long the next append takes, milliseconds.
    pub(crate) append_ms: i64,
    /// A line of a script that is offered during the next append.
    pub(crate) meanwhile: Option<String>,
    /// Whether an append has failed: the machine is ahead of the journal until it is rebuilt.
    pub(crate) broken: bool,
    /// Every state of which a snapshot could be kept, with the journal's length then.
    pub(crate) snapshots: Vec<(usize, Vec<u8>)>,
    /// Whether invariants at rest are checked after each step; else the test checks them at the end.
    pub(crate) checks_steps: bool,
    settings_by_hash: BTreeMap<Hash, Arc<Settings>>,
    late: u64,
}

impl World {
    /// A world without a session.
    pub(crate) fn new() -> Self {
        Self {
            pump: Pump::new(Machine::new()),
            journal: vec![],
            row: None,
            run_row: None,
            bodies: BTreeMap::new(),
            settings: settings(),
            queue: QueueSettings::default(),
            now: 0,
            random: 500,
            epoch: 0,
            running: BTreeMap::new(),
            started: vec![],
            armed: None,
            messages: 0,
            lines: vec![],
            append_fails: false,
            append_ms: 0,
            meanwhile: None,
            broken: false,
            snapshots: vec![],
            checks_steps: true,
            settings_by_hash: BTreeMap::new(),
            late: 0,
        }
    }

    /// A session that is open and ready.
    pub(crate) fn open() -> Self {
        let mut world = Self::new();
        world.step(create());
        world.epoch = 1;
        world.step(Report::Opened { epoch: Epoch(1), cooling: vec![] });
        world
    }

    pub(crate) fn session(&self) -> &Session {
        self.pump.session().expect("the session was created")
    }

    /// Offers one input, and executes everything that follows.
    pub(crate) fn step(&mut self, input: impl Into<Input>) {
        self.offer(input);
        self.settle();
    }

    /// Offers one input without deciding on it.
    pub(crate) fn offer(&mut self, input: impl Into<Input>) {
        let input = input.into();
        let caller = matches!(input, Input::Command(_)).then(|| "caller".to_owned());
        self.remember_settings(&input);
        if matches!(input, Input::Report(Report::Due)) {
            self.armed = None;
        }
        self.pump.offer(input, Moment { now: Timestamp(self.now), random: self.random }, caller);
    }

    /// Decides on all offered inputs, appends the batches, and executes what follows.
    pub(crate) fn settle(&mut self) {
        if let Some(batch) = self.pump.next_batch() {
            assert!(self.pump.poll().is_none(), "an action came before its batch was committed");
            if std::mem::take(&mut self.append_fails) {
                self.lines.push("append failed".into());
                self.pump.failed("no space left");
                self.drain();
                self.broken = true;
                return;
            }
            if let Some(line) = self.meanwhile.take() {
                script::run_line(self, &format!("+ {line}"));
            }
            self.append(&batch);
            self.now += std::mem::take(&mut self.append_ms);
            self.pump.committed(Timestamp(self.now));
        }
        self.drain();
        let late = self.pump.machine().late();
        if late > self.late {
            self.lines.push(format!("late {}", late - self.late));
        }
        self.late = late;
        if !self.checks_steps {
            return;
        }
        invariants::check(self);
        if let Some(session) = self.pump.session().filter(|session| !session.has_open_output()) {
            self.snapshots.push((self.journal.len(), session.to_snapshot()));
        }
    }

    /// The process crashes: only committed records survive.
    pub(crate) fn crash(&mut self) {
        self.pump = Pump::new(self.recovered(&self.surviving()));
        self.running.clear();
        self.armed = None;
        self.broken = false;
        self.append_fails = false;
        self.late = 0;
    }

    /// The process crashes, and the next owner opens the session.
    pub(crate) fn crash_and_open(&mut self) {
        self.crash();
        self.epoch += 1;
        self.step(Report::Opened { epoch: Epoch(self.epoch), cooling: vec![] });
    }

    /// The contents of a journal: entries in order, then the progress that no entry has sealed.
    pub(crate) fn surviving(&self) -> Vec<Record> {
        let sealed: Vec<EffectId> = self.journal.iter().filter_map(|record| record.event.seals()).collect();
        let entries = self.journal.iter().filter(|record| record.seq.is_some());
        let is_open = |effect: EffectId| !sealed.iter().any(|sealed| sealed.covers(effect));
        let open = |record: &&Record| record.event.progress().is_some_and(|(effect, _)| is_open(effect));
        entries.chain(self.journal.iter().filter(open)).cloned().collect()
    }

    /// A machine made of these records, each read back from its payload.
    pub(crate) fn recovered(&self, records: &[Record]) -> Machine {
        self.recovered_from(None, records)
    }

    /// The same from a state on.
    pub(crate) fn recovered_from(&self, start: Option<Session>, records: &[Record]) -> Machine {
        let stored = |record: &Record| {
            let event = Event::decode(record.event.kind(), engine::VERSION, &record.event.payload());
            Record { event: event.expect("what was written can be read"), ..record.clone() }
        };
        let settings = |hash: Hash| self.settings_by_hash.get(&hash).cloned();
        let segment = LineageSegment { branch: BRANCH, entries: records.iter().map(stored).collect() };
        let line = Lineage { start, segments: vec![segment], progress: vec![] };
        Machine::recover(line, &settings).expect("what was recorded can be recovered")
    }

    fn remember_settings(&mut self, input: &Input) {
        if let Input::Report(Report::LaneEntered { settings, .. } | Report::LaneRefused { settings, .. }) = input {
            self.settings_by_hash.insert(settings.content().body.hash, Arc::clone(settings));
        }
    }

    fn append(&mut self, batch: &Batch) {
        for content in &batch.bodies {
            self.bodies.insert(content.body.hash, content.clone());
        }
        for record in &batch.records {
            invariants::check_record(self, record);
            self.lines.push(render::record(self, record));
            self.journal.push(record.clone());
        }
        invariants::check_views(batch);
        if let Some(row) = &batch.views.session {
            self.row = Some(row.clone());
        }
        self.run_row = batch.views.runs.last().cloned().or(self.run_row.take());
    }

    fn drain(&mut self) {
        while let Some(todo) = self.pump.poll() {
            self.lines.push(render::todo(&todo));
            match todo {
                Do::Start(effect) => {
                    self.started.push((effect.clone(), self.journal.len()));
                    assert!(self.running.insert(effect.id(), effect).is_none(), "an effect was started twice");
                }
                Do::Stop(id) => assert!(self.running.remove(&id).is_some(), "an effect that did not run was stopped"),
                Do::Arm(at) => self.armed = at,
                Do::Broken(edge) => panic!("{edge}"),
                Do::Publish(_) | Do::Answer(..) => {}
            }
        }
    }
}

/// The command that begins the session.
pub(crate) fn create() -> Command {
    Command::Create { session: SESSION, key: "agent:main:main".into(), agent: "main".into(), branch: BRANCH }
}

/// Settings with one model, and a tool of each class.
pub(crate) fn settings() -> Settings {
    let tool = |name: &str, class| ToolSpec {
        name: name.into(),
        class,
        description: String::new(),
        schema: serde_json::Value::Null,
    };
    let model = |model: &str| Candidate {
        provider: "acme".into(),
        model: model.into(),
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
    Settings {
        policy: [].into(),
        agent: "main".into(),
        workspace: "/home/u/limulus".into(),
        date: "2026-11-21".into(),
        facts: String::new(),
        reply: engine::ReplySettings::default(),
        prompt: engine::PromptSettings::default(),
        candidates: vec![model("one")],
        // Both limits of a run at once would arm two times in every script; `set` sets others.
        limits: Limits { deadline_ms: Some(600_000), stall_ms: None, tool_timeout_ms: 120_000, ..Limits::default() },
        resume: ResumeMode::Restart,
        approvals: engine::Approvals::default(),
        sandbox: engine::Sandbox::default(),
        exec: Policy::Allow,
        outside: Policy::Ask,
        compaction: Compaction::default(),
        titles: None,
        budget: engine::Budget::default(),
        history_turns: None,
        instructions: false,
        stop_before: vec![],
        plan: false,
        output_schema: None,
        derived: engine::Derived::default(),
        addresses: vec![],
        recover: engine::Recover::Ask,
        executed_files: Policy::Allow,
        web_fetch: Policy::Ask,
        web_search: None,
        tools: [
            tool("ls", ToolClass::ReadOnly),
            tool("read", ToolClass::ReadOnly),
            tool("write", ToolClass::Idempotent),
            tool("exec", ToolClass::Once),
        ]
        .into(),
    }
}

/// Arguments instead of those of a call.
pub(crate) fn edited(text: &str) -> engine::EditedCall {
    engine::EditedCall { arguments: engine::Content::text(engine::BodyKind::Arguments, text), shown: text.to_owned() }
}
