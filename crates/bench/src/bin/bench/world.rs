//! A world for the pump, without a runtime: every effect is answered at once, and three subscribers read the events.

use std::collections::VecDeque;
use std::sync::Arc;

use engine::{
    Batch, BodyKind, BranchId, CallOutcome, Candidate, Command, Content, Do, Effect, EffectId, Epoch, Failure,
    FailureClass, Found, Hash, Input, Limits, Machine, MessageId, Moment, Override, Overrides, Part, Policy, Pump,
    QueueSettings, Report, ResumeMode, SessionId, Settings, Timestamp, ToolClass, ToolResult, ToolSpec, Usage,
};
use journal::{Append, Journal as _, Sqlite};
use uuid::Uuid;

/// Batches that a subscriber holds before it drops the oldest.
const QUEUED: usize = 64;

/// Where batches are stored.
pub(super) enum Store {
    /// Nowhere: a batch counts as stored at once.
    Nowhere,
    /// In a home on disk; the world waits for it.
    Home(Box<Sqlite>),
}

/// A pump with everything around it.
pub(super) struct World {
    pump: Pump<Machine, ()>,
    store: Store,
    /// Bytes of payloads, bodies and rows of views, before compression.
    pub(super) bytes: u64,
    settings: Arc<Settings>,
    subscribers: [VecDeque<Arc<Batch>>; 3],
    started: VecDeque<Effect>,
    now: i64,
    due: Option<Timestamp>,
    epoch: u64,
    ids: u128,
    /// How many inputs were offered.
    pub(super) inputs: u64,
}

impl World {
    /// A session whose history has this many items.
    pub(super) fn with_items(items: usize) -> Self {
        let mut world = Self::new(Store::Nowhere);
        while world.items() < items {
            world.plain_run();
        }
        world.inputs = 0;
        world
    }

    /// Creates a world with a new session.
    pub(super) fn new(store: Store) -> Self {
        let mut world = Self {
            pump: Pump::new(Machine::new()),
            store,
            bytes: 0,
            settings: Arc::new(settings()),
            subscribers: Default::default(),
            started: VecDeque::new(),
            now: 1,
            due: None,
            epoch: 1,
            ids: 1,
            inputs: 0,
        };
        let (session, branch) = (SessionId(world.id()), BranchId(world.id()));
        world.offer(Command::Create { session, key: "agent:main:main".into(), agent: "main".into(), branch });
        world.offer(Report::Opened { epoch: Epoch(1), cooling: vec![] });
        world
    }

    fn items(&self) -> usize {
        self.pump.session().map_or(0, |session| session.conversation.transcript.items().len())
    }

    fn id(&mut self) -> Uuid {
        self.ids += 1;
        Uuid::from_u128(self.ids)
    }

    /// Offers an input and carries out everything that follows from it.
    fn offer(&mut self, input: impl Into<Input>) {
        self.queue(input);
        self.settle();
    }

    fn queue(&mut self, input: impl Into<Input>) {
        self.inputs += 1;
        self.now += 1;
        self.pump.offer(input, Moment { now: Timestamp(self.now), random: self.inputs }, Some(()));
    }

    /// Commits until nothing is left to do.
    fn settle(&mut self) {
        loop {
            while let Some(todo) = self.pump.poll() {
                self.carry_out(todo);
            }
            match self.pump.next_batch() {
                Some(batch) => {
                    self.keep(batch);
                    self.pump.committed(Timestamp(self.now));
                }
                None if self.pump.is_quiet() => return,
                None => {}
            }
        }
    }

    fn keep(&mut self, batch: Arc<Batch>) {
        let Store::Home(journal) = &self.store else { return };
        self.bytes += bytes(&batch);
        let (done, answer) = std::sync::mpsc::channel();
        let append = Append { batch, epoch: journal.epoch() };
        journal.append(append, Box::new(move |answer| drop(done.send(answer))));
        answer.recv().expect("the writer answers each append").expect("the home is on a disk in order");
    }

    fn carry_out(&mut self, todo: Do<Machine, ()>) {
        match todo {
            Do::Start(effect) => self.started.push_back(effect),
            Do::Stop(id) => self.started.retain(|effect| effect.id() != id),
            Do::Publish(batch) => {
                for queue in &mut self.subscribers {
                    if queue.len() == QUEUED {
                        queue.pop_front();
                    }
                    queue.push_back(Arc::clone(&batch));
                }
            }
            Do::Arm(due) => self.due = due,
            Do::Answer((), answer) => {
                assert!(answer.is_ok(), "the script asks for nothing that is refused: {answer:?}");
            }
            Do::Broken(edge) => panic!("{edge}"),
        }
    }

    fn next(&mut self) -> Effect {
        self.started.pop_front().expect("the script knows what is wanted next")
    }

    /// From a message to the request that it leads to.
    fn begin(&mut self) -> EffectId {
        self.message();
        let effect = self.next().id();
        let settings = Arc::clone(&self.settings);
        self.offer(Report::LaneEntered { effect, settings, cooling: vec![] });
        let effect = self.next().id();
        self.offer(Report::Prepared { effect, prompt: Content::text(BodyKind::Prompt, "You are a bench.") });
        self.next().id()
    }

    /// Starts a run that will have many rounds, up to its first request.
    pub(super) fn begin_rounds(&mut self) -> EffectId {
        self.begin()
    }

    /// A tool round: the model makes one call, which returns this output. Returns the next request.
    pub(super) fn round(&mut self, request: EffectId, output: &str) -> EffectId {
        self.offer(Report::RequestOpened { effect: request });
        self.call(request, 0, "change");
        self.end(request);
        let effect = self.next().id();
        let (decision, fingerprint) = (Policy::Allow, Hash([7; 32]));
        self.offer(Report::CallChecked {
            effect,
            decision,
            fingerprint,
            evidence: None,
            reason: None,
            timeout_ms: None,
            grant: None,
            question: None,
        });
        let effect = self.next().id();
        let output = Content::text(BodyKind::Output, output);
        self.offer(Report::CallEnded { effect, given: ToolResult::new(CallOutcome::Done, output) });
        self.next().id()
    }

    fn message(&mut self) -> MessageId {
        let message = MessageId(self.id());
        let content = Content::text(BodyKind::Message, "How many inputs a second?");
        self.offer(Command::Message {
            message,
            content,
            mode: None,
            queue: QueueSettings::default(),
            key: None,
            overrides: Overrides::default(),
            attachments: vec![],
            options: engine::SenderOptions::default(),
        });
        message
    }

    fn say(&mut self, effect: EffectId, part: Part) {
        self.offer(Report::Streamed { effect, part });
    }

    fn words(&mut self, effect: EffectId, count: u32) {
        self.offer(Report::RequestOpened { effect });
        for _ in 0..count {
            self.say(effect, Part::Text("twenty bytes of text".into()));
        }
    }

    fn end(&mut self, effect: EffectId) {
        let usage = Usage { input: 10, output: 20, ..Usage::default() };
        self.offer(Report::RequestEnded { effect, usage, stop_reason: None, schema_mismatch: None });
    }

    fn plain_run(&mut self) {
        let request = self.begin();
        self.words(request, 4);
        self.end(request);
    }

    /// Opens a stream for [`World::deltas`].
    pub(super) fn begin_stream(&mut self) -> EffectId {
        let request = self.begin();
        self.words(request, 1);
        self.inputs = 0;
        request
    }

    /// This many pieces of text; `together`: how many come while one append is in flight.
    pub(super) fn deltas(&mut self, effect: EffectId, count: u64, together: u64) {
        for at in 1..=count {
            self.queue(Report::Streamed { effect, part: Part::Text("twenty bytes of text".into()) });
            if at % together == 0 {
                self.settle();
            }
        }
        self.settle();
    }

    /// Ends the stream of [`World::begin_stream`].
    pub(super) fn end_stream(&mut self, effect: EffectId) {
        self.end(effect);
    }

    /// Runs that use every input that this version of the engine handles.
    pub(super) fn mix(&mut self) {
        self.plain_run();
        self.run_with_calls();
        self.run_that_fails_once();
        self.run_that_is_recovered();
        self.run_that_is_aborted();
    }

    fn run_with_calls(&mut self) {
        let request = self.begin();
        self.offer(Report::RequestOpened { effect: request });
        self.say(request, Part::Reasoning("twenty bytes of text".into()));
        for (index, tool) in ["look", "change", "change"].into_iter().enumerate() {
            self.call(request, index as u32, tool);
        }
        self.end(request);
        let mut checked = 0;
        while let Some(effect) = self.started.pop_front() {
            match effect {
                Effect::CheckCall { id, call } => {
                    checked += 1;
                    let decision = [Policy::Allow, Policy::Ask, Policy::Deny][checked - 1];
                    let (fingerprint, reason) = (Hash([7; 32]), (checked > 1).then(|| "it changes things".to_owned()));
                    self.offer(Report::CallChecked {
                        effect: id,
                        decision,
                        fingerprint,
                        evidence: None,
                        reason,
                        timeout_ms: None,
                        grant: None,
                        question: None,
                    });
                    if decision == Policy::Ask {
                        self.offer(Command::Answer {
                            call,
                            fingerprint,
                            decision: engine::Decision::ONCE,
                            by: "bench".into(),
                        });
                    }
                }
                Effect::RunCall { id, .. } => self.run_call(id),
                Effect::Request { id, .. } => {
                    self.words(id, 4);
                    self.end(id);
                }
                other => panic!("not in the script: {other:?}"),
            }
        }
    }

    fn call(&mut self, effect: EffectId, index: u32, tool: &str) {
        let (provider_id, name) = (Some(format!("call_{index}")), Some(tool.to_owned()));
        self.say(effect, Part::Call { index, provider_id, name, arguments: "{\"path\":".into() });
        self.say(effect, Part::Call { index, provider_id: None, name: None, arguments: "\"a\"}".into() });
    }

    fn run_call(&mut self, effect: EffectId) {
        self.offer(Report::CallOutput { effect, offset: 0, text: "twenty bytes of text".into() });
        self.offer(Report::CallOutput { effect, offset: 20, text: "twenty bytes of text".into() });
        self.offer(Report::CallEnded { effect, given: ToolResult::new(CallOutcome::Done, output()) });
    }

    fn run_that_fails_once(&mut self) {
        let effect = self.begin();
        self.words(effect, 2);
        self.offer(Report::RequestFailed { effect, failure: Failure::new(FailureClass::Network, "cut") });
        self.now = self.due.map_or(self.now, |due| due.0);
        self.offer(Report::Due);
        let Effect::Request { id, .. } = self.next() else { panic!("it is sent again") };
        self.words(id, 2);
        self.offer(Command::Pause { run: None, freeze: false });
        self.offer(Command::Resume { run: None, drop: false });
        let again = self.next().id();
        self.words(again, 2);
        self.end(again);
    }

    /// A call runs until its owner dies; the next owner looks up its outcome.
    fn run_that_is_recovered(&mut self) {
        let id = self.begin_call();
        self.offer(Report::CallOutput { effect: id, offset: 0, text: "twenty bytes of text".into() });
        self.epoch += 1;
        self.started.clear();
        self.offer(Report::Opened { epoch: Epoch(self.epoch), cooling: vec![] });
        let effect = self.next().id();
        let ended = Some(ToolResult::new(CallOutcome::Done, output()));
        self.offer(Report::CallFound { effect, found: Found::Ended, ended });
        let request = self.next().id();
        self.words(request, 2);
        self.end(request);
    }

    fn run_that_is_aborted(&mut self) {
        let running = self.begin_call();
        let queued = self.message();
        self.offer(Command::Cancel { message: queued, leg: None });
        self.offer(Command::Override(Override::Model(None)));
        self.offer(Command::Abort { run: None });
        let Effect::EndCall { id, .. } = self.next() else { panic!("a started call is ended") };
        self.offer(Report::CallEnded { effect: id, given: ToolResult::new(CallOutcome::Failed, output()) });
        // A late result is dropped and counted.
        self.offer(Report::CallOutput { effect: running, offset: 0, text: "late".into() });
    }

    /// A run up to a call that has started.
    fn begin_call(&mut self) -> EffectId {
        let request = self.begin();
        self.call(request, 0, "change");
        self.end(request);
        let effect = self.next().id();
        let (decision, fingerprint) = (Policy::Allow, Hash([7; 32]));
        self.offer(Report::CallChecked {
            effect,
            decision,
            fingerprint,
            evidence: None,
            reason: None,
            timeout_ms: None,
            grant: None,
            question: None,
        });
        self.next().id()
    }
}

/// Bytes of a batch: payloads, bodies, rows.
fn bytes(batch: &Batch) -> u64 {
    let records = batch.records.iter().map(|record| record.event.payload().len());
    let bodies = batch.bodies.iter().map(|body| body.bytes.len());
    let views = &batch.views;
    let rows = views.session.iter().map(row_bytes).chain(views.runs.iter().map(row_bytes));
    let rows = rows.chain(views.receipts.iter().map(row_bytes)).chain(views.approvals.iter().map(row_bytes));
    records.chain(bodies).chain(rows).sum::<usize>() as u64
}

fn row_bytes(row: &impl serde::Serialize) -> usize {
    serde_json::to_vec(row).map_or(0, |json| json.len())
}

fn output() -> Content {
    Content::text(BodyKind::Output, "what came of it")
}

/// Settings for a run that only the engine sees.
pub(super) fn settings() -> Settings {
    let tool = |name: &str, class| ToolSpec {
        name: name.to_owned(),
        class,
        description: String::new(),
        schema: serde_json::json!({ "type": "object" }),
    };
    Settings {
        policy: [].into(),
        // The conversation only grows here.
        compaction: engine::Compaction { auto: false, ..engine::Compaction::default() },
        titles: None,
        reply: engine::ReplySettings::default(),
        agent: "main".into(),
        workspace: "/".into(),
        date: "2026-01-01".into(),
        facts: String::new(),
        prompt: engine::PromptSettings::default(),
        candidates: vec![Candidate {
            provider: "scripted".into(),
            model: "wire".into(),
            profile: None,
            context_window: 200_000,
            max_output: 8_192,
            thinking: None,
            images: true,
            structured_output: false,
            sampling: engine::Sampling::default(),
            token_rate: 1_000,
            can_refresh: false,
            levels: vec![],
            price: None,
        }],
        limits: Limits::default(),
        resume: ResumeMode::Restart,
        approvals: engine::Approvals::default(),
        sandbox: engine::Sandbox::default(),
        exec: Policy::Allow,
        outside: Policy::Ask,
        budget: engine::Budget::default(),
        stop_before: vec![],
        plan: false,
        output_schema: None,
        derived: engine::Derived::default(),
        history_turns: None,
        instructions: false,
        addresses: vec![],
        recover: engine::Recover::Ask,
        executed_files: Policy::Allow,
        web_fetch: Policy::Ask,
        web_search: None,
        tools: [tool("look", ToolClass::ReadOnly), tool("change", ToolClass::Once)].into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_runs_to_its_end_and_leaves_nothing() {
        let mut world = World::with_items(10);
        world.mix();
        assert!(world.started.is_empty(), "{:?}", world.started);
        assert!(world.inputs > 60, "{}", world.inputs);
        let run = world.pump.session().and_then(|session| session.run());
        assert!(run.is_none(), "{run:?}");
    }

    #[test]
    fn every_delta_reaches_every_subscriber() {
        let mut world = World::with_items(2);
        let request = world.begin_stream();
        world.deltas(request, 10, 5);
        assert_eq!(world.inputs, 10);
        for queue in &world.subscribers {
            let texts = queue.iter().rev().take(2).flat_map(|batch| &batch.records).map(|record| match &record.event {
                engine::Event::TextAdded(e) => e.text.len(),
                other => panic!("{other:?}"),
            });
            assert_eq!(texts.sum::<usize>(), 200);
        }
    }
}
