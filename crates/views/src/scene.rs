//! Sessions for tests, driven through the real machine into an in-memory journal. Each step takes one second.
#![allow(clippy::unwrap_used, missing_docs, clippy::missing_panics_doc, reason = "a test may panic")]

use std::sync::Arc;

use engine::{
    ApprovalRow, BodyKind, BranchId, CallOutcome, Candidate, Command, Content, Decide as _, Effect, EffectId,
    EffectKind, Epoch, Event, Failure, Found, Hash, Input, Limits, Machine, MessageId, Moment, Override, Overrides,
    Part, Policy, QueueMode, QueueSettings, Report, ResumeMode, Seq, SessionId, Settings, Timestamp, ToolResult, Usage,
};
use journal::{Append, Journal as _, Memory, Read as _};
use uuid::Uuid;

/// 2025-11-21 03:04:00 UTC.
const START: i64 = 1_763_694_240_000;
const BRANCH: BranchId = BranchId(Uuid::from_u128(2));

/// The session `agent:main:main` with the model `offline/offline`.
pub struct Scene {
    pub journal: Memory,
    machine: Machine,
    epoch: Epoch,
    now: i64,
    messages: u128,
}

impl Default for Scene {
    fn default() -> Self {
        Self::new()
    }
}

impl Scene {
    /// A session without messages, opened by its first owner.
    pub fn new() -> Self {
        let journal = Memory::new();
        let epoch = journal.open();
        let mut scene = Self { journal, machine: Machine::new(), epoch, now: START, messages: 0x100 };
        scene.offer(Command::Create {
            session: SessionId(Uuid::from_u128(1)),
            key: "agent:main:main".to_owned(),
            agent: "main".to_owned(),
            branch: BRANCH,
        });
        scene.offer(Report::Opened { epoch, cooling: vec![] });
        scene
    }

    /// Handles an input and stores what follows from it.
    pub fn offer(&mut self, input: impl Into<Input>) {
        self.now += 1000;
        let moment = Moment { now: Timestamp(self.now), random: 7 };
        self.machine.handle(input.into(), moment).unwrap();
        if let Some(batch) = self.machine.take_batch() {
            let append = Append { batch: Arc::new(batch), epoch: self.epoch };
            self.journal.append(append, Box::new(|kept| assert!(kept.is_ok(), "{kept:?}")));
        }
    }

    /// Stores rows of approval requests of other calls, with a setting of the session.
    pub fn add_approvals(&mut self, rows: Vec<ApprovalRow>) {
        self.now += 1000;
        let moment = Moment { now: Timestamp(self.now), random: 7 };
        self.machine.handle(Command::Override(Override::Verbose(Some(true))).into(), moment).unwrap();
        let mut batch = self.machine.take_batch().unwrap();
        batch.views.approvals = rows;
        let append = Append { batch: Arc::new(batch), epoch: self.epoch };
        self.journal.append(append, Box::new(|kept| assert!(kept.is_ok(), "{kept:?}")));
    }

    fn effect(&self, kind: EffectKind) -> EffectId {
        let effects = self.machine.effects();
        effects.iter().map(Effect::id).find(|id| id.kind == kind).unwrap_or_else(|| panic!("{kind:?} of {effects:?}"))
    }

    /// Accepts a message.
    pub fn message(&mut self, text: &str) {
        self.send(text, None, None);
    }

    /// Accepts a message with a mode.
    pub fn message_as(&mut self, mode: QueueMode, text: &str) {
        self.send(text, None, Some(mode));
    }

    /// Accepts a message with a key.
    pub fn keyed(&mut self, text: &str, key: &str) {
        self.send(text, Some(key.to_owned()), None);
    }

    fn send(&mut self, text: &str, key: Option<String>, mode: Option<QueueMode>) {
        self.messages += 1;
        self.offer(Command::Message {
            message: MessageId(Uuid::from_u128(self.messages)),
            content: Content::text(BodyKind::Message, text),
            mode,
            queue: QueueSettings::default(),
            key,
            overrides: Overrides::default(),
            attachments: vec![],
            options: engine::SenderOptions::default(),
        });
    }

    /// Accepts a message and starts its run, up to its first request.
    pub fn start(&mut self, text: &str) {
        self.message(text);
        self.enter_lane(ResumeMode::Restart);
    }

    /// Starts the head of the queue, up to its first request.
    pub fn enter_lane(&mut self, resume: ResumeMode) {
        self.begin_run(resume);
        let effect = self.effect(EffectKind::Prepare);
        self.offer(Report::Prepared { effect, prompt: Content::text(BodyKind::Prompt, "You are a test.") });
    }

    /// Starts the head of the queue; its prompt is not made yet.
    pub fn begin_run(&mut self, resume: ResumeMode) {
        let effect = self.effect(EffectKind::Lane);
        self.offer(Report::LaneEntered { effect, settings: Arc::new(settings(resume)), cooling: vec![] });
    }

    /// Adds text to the response in progress.
    pub fn stream(&mut self, text: &str) {
        let effect = self.effect(EffectKind::Request);
        self.offer(Report::Streamed { effect, part: Part::Text(text.to_owned()) });
    }

    /// Adds a whole call to the response in progress.
    pub fn call(&mut self, tool: &str, arguments: &str) {
        let effect = self.effect(EffectKind::Request);
        let (name, arguments) = (Some(tool.to_owned()), arguments.to_owned());
        self.offer(Report::Streamed { effect, part: Part::Call { index: 0, provider_id: None, name, arguments } });
    }

    /// Ends the response with the provider's end mark.
    pub fn end_stream(&mut self) {
        let effect = self.effect(EffectKind::Request);
        let usage = Usage { input: 100, output: 20, ..Usage::default() };
        self.offer(Report::RequestEnded { effect, usage, stop_reason: None, schema_mismatch: None });
    }

    /// Ends the request in progress with this failure.
    pub fn fail(&mut self, failure: Failure) {
        let effect = self.effect(EffectKind::Request);
        self.offer(Report::RequestFailed { effect, failure });
    }

    /// Allows the checked call.
    pub fn allow_and_start(&mut self) {
        self.checked(Policy::Allow, None);
    }

    /// Asks for approval of the checked call.
    pub fn ask(&mut self, question: &str) {
        self.checked(Policy::Ask, Some(question.to_owned()));
    }

    fn checked(&mut self, decision: Policy, reason: Option<String>) {
        let effect = self.effect(EffectKind::CheckCall);
        let fingerprint = Hash::of(b"call");
        self.offer(Report::CallChecked {
            effect,
            decision,
            fingerprint,
            evidence: None,
            reason,
            timeout_ms: None,
            grant: None,
            question: None,
        });
    }

    /// Completes the running call.
    pub fn settle(&mut self, output: &str) {
        self.settle_as(CallOutcome::Done, output);
    }

    /// Ends the running call with this outcome.
    pub fn settle_as(&mut self, outcome: CallOutcome, output: &str) {
        let effect = self.effect(EffectKind::RunCall);
        let output = Content::text(BodyKind::Output, output);
        self.offer(Report::CallEnded { effect, given: ToolResult::new(outcome, output) });
    }

    /// Reports the result of looking up a lost call.
    pub fn found(&mut self, found: Found) {
        let effect = self.effect(EffectKind::FindCall);
        self.offer(Report::CallFound { effect, found, ended: None });
    }

    /// Kills the process; the next one opens the session from the journal.
    pub fn crash(&mut self) {
        self.journal.crash_process();
        self.epoch = self.journal.open();
        let settings = |hash: Hash| {
            let bytes = self.journal.body(&hash).unwrap()?;
            Some(Arc::new(Settings::from_bytes(&bytes).unwrap()))
        };
        self.machine = Machine::recover(self.journal.line(BRANCH).unwrap().into(), &settings).unwrap();
        self.offer(Report::Opened { epoch: self.epoch, cooling: vec![] });
    }

    /// Shuts the process down in order; the next one opens the session.
    pub fn restart(&mut self) {
        self.offer(Report::Closing);
        self.crash();
    }

    /// The kinds of all entries so far.
    pub fn kinds(&self) -> Vec<&'static str> {
        let entries = self.journal.read(BRANCH, Seq(1)).unwrap();
        entries.iter().map(|entry| Event::kind(&entry.event)).collect()
    }
}

/// The model of the session.
pub fn candidate() -> Candidate {
    Candidate {
        provider: "offline".to_owned(),
        model: "offline".to_owned(),
        profile: None,
        context_window: 128_000,
        max_output: 8_192,
        thinking: None,
        images: true,
        structured_output: false,
        sampling: engine::Sampling::default(),
        token_rate: 1_000,
        can_refresh: false,
        levels: vec![],
        price: None,
    }
}

fn settings(resume: ResumeMode) -> Settings {
    Settings {
        policy: [].into(),
        compaction: engine::Compaction::default(),
        titles: None,
        reply: engine::ReplySettings::default(),
        agent: "main".to_owned(),
        workspace: "/w".to_owned(),
        date: "2025-11-21".to_owned(),
        facts: String::new(),
        prompt: engine::PromptSettings::default(),
        candidates: vec![candidate()],
        limits: Limits::default(),
        resume,
        approvals: engine::Approvals::default(),
        sandbox: engine::Sandbox::default(),
        exec: Policy::Ask,
        outside: Policy::Ask,
        budget: engine::Budget::default(),
        history_turns: None,
        instructions: false,
        addresses: vec![],
        recover: engine::Recover::Ask,
        executed_files: Policy::Allow,
        web_fetch: Policy::Ask,
        web_search: None,
        stop_before: vec![],
        plan: false,
        output_schema: None,
        tools: tools::specs(),
        derived: engine::Derived::default(),
    }
}
