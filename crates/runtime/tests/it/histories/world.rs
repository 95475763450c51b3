//! Drives the real engine over the in-memory journal through a generated case. The result is the conversation of a
//! request as the runtime would send it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use engine::tables::lifecycle::LifecycleKind;
use engine::{
    Attached, BodyKind, BranchId, CallOutcome, Command, Content, Do, Effect, EffectId, Erased, Failure, Found, Hash,
    Limits, Machine, MessageId, Moment, Overrides, Policy, Pump, QueueSettings, Report, Session, SessionId, Settings,
    Stage, Timestamp, ToolResult, Usage,
};
use journal::{Append, Journal as _, Memory, Read as _};
use models::{Cached, Message};
use uuid::Uuid;

use super::case::{Case, Decision, Disturbance, SampleFile, ScriptedCall};
use super::served::SERVED;
use super::speaker::Speaker;

const SESSION: SessionId = SessionId(Uuid::from_u128(0x5e55));
const BRANCH: BranchId = BranchId(Uuid::from_u128(0xb4a9));

/// Steps after which a case that has not reached its request is stopped.
const STEPS: usize = 400;

/// The conversation of one request, and what happened on the way to it.
pub(crate) struct History {
    pub(crate) messages: Vec<Cached<Message>>,
    /// The kinds of events that were recorded.
    pub(crate) events: BTreeSet<&'static str>,
    /// The effects of the calls that ended by themselves, in the order in which they ended.
    pub(crate) ended: Vec<EffectId>,
}

/// Plays the case up to the request that is checked, or up to its last request; `None` if it has none.
pub(crate) fn play(case: &Case) -> Option<History> {
    let mut world = World::new(case);
    for step in 0..STEPS {
        let due = case.disturbances.iter().filter(|(at, _)| *at == step);
        due.for_each(|(_, disturbance)| world.disturb(*disturbance));
        if world.requests >= case.request || !world.step(case.picks[step % case.picks.len()]) {
            break;
        }
    }
    let items = world.items?;
    let transcript = &world.session().conversation.transcript;
    let messages =
        runtime::conversation(transcript, (items, turns(case)), &world.journal).expect("the journal has all of it");
    Some(History { messages, events: world.events, ended: world.ended })
}

/// The turns that a request holds at most: all of them in a third of the cases.
fn turns(case: &Case) -> Option<u32> {
    [None, Some(1), Some(2)][case.request % 3]
}

struct World<'a> {
    case: &'a Case,
    pump: Pump<Machine, ()>,
    journal: Memory,
    now: i64,
    armed: Option<Timestamp>,
    /// The reports that each running effect has not sent yet.
    running: BTreeMap<EffectId, VecDeque<Report>>,
    asked: usize,
    begun: usize,
    requests: usize,
    calls: usize,
    /// The number of blocks that were sent.
    spoken: u32,
    /// The number of items in the last request.
    items: Option<usize>,
    events: BTreeSet<&'static str>,
    ended: Vec<EffectId>,
}

impl<'a> World<'a> {
    fn new(case: &'a Case) -> Self {
        let mut world = Self {
            case,
            pump: Pump::new(Machine::new()),
            journal: Memory::new(),
            now: 0,
            armed: None,
            running: BTreeMap::new(),
            asked: 0,
            begun: 0,
            requests: 0,
            calls: 0,
            spoken: 0,
            items: None,
            events: BTreeSet::new(),
            ended: vec![],
        };
        let epoch = world.journal.open();
        let key = "agent:main:main".to_owned();
        world.take(Command::Create { session: SESSION, key, agent: "main".to_owned(), branch: BRANCH });
        world.take(Report::Opened { epoch, cooling: vec![] });
        world
    }

    fn session(&self) -> &Session {
        self.pump.session().expect("it was created")
    }

    fn take(&mut self, input: impl Into<engine::Input>) {
        self.pump.offer(input, Moment { now: Timestamp(self.now), random: 500 }, None);
        while let Some(batch) = self.pump.next_batch() {
            self.events.extend(batch.records.iter().map(|record| record.event.kind()));
            let epoch = self.journal.epoch();
            self.journal.append(Append { batch, epoch }, Box::new(|answer| assert!(answer.is_ok(), "{answer:?}")));
            self.pump.committed(Timestamp(self.now));
        }
        while let Some(todo) = self.pump.poll() {
            match todo {
                Do::Start(effect) => {
                    let reports = self.begin(&effect);
                    self.running.insert(effect.id(), reports);
                }
                Do::Stop(id) => {
                    self.running.remove(&id);
                }
                Do::Arm(at) => self.armed = at,
                Do::Broken(edge) => panic!("{edge}"),
                Do::Publish(_) | Do::Answer(..) => {}
            }
        }
    }

    /// Plays one step. Returns false if nothing is left to do.
    fn step(&mut self, pick: usize) -> bool {
        if self.session().account.closed {
            self.reopen();
            return true;
        }
        match self.session().conversation.lifecycle.kind() {
            LifecycleKind::Suspended => self.take(Command::Resume { run: None, drop: false }),
            LifecycleKind::Error => self.take(Command::Recover { force: true }),
            _ if self.answer() || self.report(pick) || self.is_due() => {}
            _ => return self.ask(),
        }
        true
    }

    fn answer(&mut self) -> bool {
        let calls = self.session().run().map(|run| run.step.calls.as_slice()).unwrap_or_default();
        let Some(call) = calls.iter().find(|call| call.stage == Stage::Asking).map(|call| call.id) else {
            return false;
        };
        let planned = &self.case.calls[call.index as usize % self.case.calls.len()];
        let allow = matches!(planned.decision, Decision::AskedAndAllowed);
        let fingerprint = Hash::of(call.to_string().as_bytes());
        let decision = if allow { engine::Decision::ONCE } else { engine::Decision::DENY };
        self.take(Command::Answer { call, fingerprint, decision, by: "me".to_owned() });
        true
    }

    fn report(&mut self, pick: usize) -> bool {
        let running: Vec<EffectId> = self.running.keys().copied().collect();
        let Some(effect) = running.get(pick % running.len().max(1)) else { return false };
        match self.running.get_mut(effect).and_then(VecDeque::pop_front) {
            Some(report) => {
                self.ended.extend(matches!(report, Report::CallEnded { .. }).then_some(*effect));
                self.take(report);
            }
            // It has no reports left: it hangs until its limit.
            None => return self.is_due(),
        }
        true
    }

    fn is_due(&mut self) -> bool {
        let Some(at) = self.armed.take() else { return false };
        self.now = self.now.max(at.0);
        self.take(Report::Due);
        true
    }

    fn ask(&mut self) -> bool {
        let Some(asked) = self.case.messages.get(self.asked) else { return false };
        self.asked += 1;
        let command = Command::Message {
            message: MessageId(Uuid::from_u128(self.asked as u128)),
            content: Content::text(BodyKind::Message, asked.text),
            mode: None,
            queue: QueueSettings::default(),
            key: None,
            overrides: Overrides::default(),
            attachments: attached(&asked.files),
            options: engine::SenderOptions::default(),
        };
        self.take(command);
        true
    }

    fn disturb(&mut self, disturbance: Disturbance) {
        match disturbance {
            Disturbance::Message => {
                self.ask();
            }
            Disturbance::Abort => self.take(Command::Abort { run: None }),
            Disturbance::Pause => self.take(Command::Pause { run: None, freeze: false }),
            Disturbance::Drop => {
                self.take(Command::Pause { run: None, freeze: false });
                self.take(Command::Resume { run: None, drop: true });
            }
            Disturbance::Crash => self.reopen(),
            Disturbance::HandOver => self.take(Report::Closing),
            Disturbance::Late => {
                self.is_due();
            }
        }
    }

    /// Kills the process and recovers the session from the journal.
    fn reopen(&mut self) {
        self.journal.crash_process();
        let epoch = self.journal.open();
        let settings = |hash: Hash| {
            let bytes = self.journal.body(&hash).ok().flatten()?;
            Settings::from_bytes(&bytes).ok().map(Arc::new)
        };
        let line = self.journal.line(BRANCH).expect("it is not damaged");
        let machine = Machine::recover(line.into(), &settings).expect("what was recorded can be recovered");
        self.pump = Pump::new(machine);
        self.running.clear();
        self.armed = None;
        self.take(Report::Opened { epoch, cooling: vec![] });
    }

    /// The reports of this effect.
    fn begin(&mut self, effect: &Effect) -> VecDeque<Report> {
        let id = effect.id();
        match effect {
            Effect::Lane { .. } => {
                self.begun += 1;
                [Report::LaneEntered { effect: id, settings: Arc::new(self.settings()), cooling: vec![] }].into()
            }
            Effect::Prepare { .. } => {
                let prompt = Content::text(BodyKind::Prompt, self.case.system);
                [Report::Prepared { effect: id, prompt }].into()
            }
            Effect::Request { items, .. } => {
                self.items = Some(*items as usize);
                self.requests += 1;
                self.respond(id)
            }
            Effect::Reserve { .. } => [Report::Reserved { effect: id, near: None }].into(),
            Effect::Title { .. } => {
                let title = Ok(Content::text(BodyKind::Message, "The tide"));
                [Report::Titled { effect: id, title, by: "acme/one".into(), usage: Usage::default() }].into()
            }
            Effect::Compact { .. } => {
                let text = Content::text(BodyKind::Message, "They talked.");
                let made = engine::CompactionResult::Summary { text, by: None, usage: Usage::default() };
                [Report::Compacted { effect: id, made }].into()
            }
            Effect::CheckCall { call, .. } => {
                let decision = match self.planned(call.index).decision {
                    Decision::Allowed => Policy::Allow,
                    Decision::Denied => Policy::Deny,
                    Decision::AskedAndAllowed | Decision::AskedAndDenied => Policy::Ask,
                };
                let fingerprint = Hash::of(call.to_string().as_bytes());
                [Report::CallChecked {
                    effect: id,
                    decision,
                    fingerprint,
                    evidence: None,
                    reason: None,
                    timeout_ms: None,
                    grant: None,
                    question: None,
                }]
                .into()
            }
            Effect::RunCall { .. } => {
                self.calls += 1;
                [Report::CallEnded { effect: id, given: self.tool_result() }].into()
            }
            Effect::FindCall { .. } => {
                let found = [Found::NeverStarted, Found::Ended, Found::Unknown][self.calls % 3];
                let ended = (found == Found::Ended).then(|| self.tool_result());
                [Report::CallFound { effect: id, found, ended }].into()
            }
            Effect::EndCall { .. } => [Report::CallEnded { effect: id, given: self.tool_result() }].into(),
            Effect::Report { .. } => [Report::Reported { effect: id }].into(),
            Effect::Erase { .. } => [Report::Erased { effect: id, result: Ok(Erased::default()) }].into(),
            Effect::Undo { .. } => [Report::Undone { effect: id, left: vec![] }].into(),
            Effect::Deliver { .. } => [Report::Delivered { effect: id }].into(),
            Effect::FreezeCall { .. } | Effect::HoldProcess { .. } | Effect::EndProcess { .. } => {
                unreachable!("no command runs in the background")
            }
        }
    }

    fn settings(&self) -> Settings {
        let asked = &self.case.messages[(self.begun - 1) % self.case.messages.len()];
        Settings {
            agent: "main".to_owned(),
            candidates: vec![SERVED[asked.model].candidate()],
            limits: Limits { poison_after: 0, ..Limits::default() },
            resume: self.case.resume,
            tools: tools::specs(),
            history_turns: turns(self.case),
            ..Settings::default()
        }
    }

    fn respond(&mut self, effect: EffectId) -> VecDeque<Report> {
        let response = &self.case.responses[(self.requests - 1) % self.case.responses.len()];
        let model = self.case.messages[(self.begun.max(1) - 1) % self.case.messages.len()].model;
        let mut speaker = Speaker::new(SERVED[model], &mut self.spoken);
        let parts = response.pieces.iter().flat_map(|piece| speaker.say(piece));
        let mut reports: VecDeque<Report> = parts.map(|part| Report::Streamed { effect, part }).collect();
        reports.push_back(match response.failure {
            Some(class) => Report::RequestFailed { effect, failure: Failure::new(class, "cut") },
            None => Report::RequestEnded { effect, usage: Usage::default(), stop_reason: None, schema_mismatch: None },
        });
        reports
    }

    fn planned(&self, index: u32) -> &'a ScriptedCall {
        &self.case.calls[index as usize % self.case.calls.len()]
    }

    fn tool_result(&self) -> ToolResult {
        let ScriptedCall { fails, output, files, .. } = &self.case.calls[self.calls % self.case.calls.len()];
        let outcome = if *fails { CallOutcome::Failed } else { CallOutcome::Done };
        let output = Content::text(BodyKind::Output, output);
        ToolResult { attachments: attached(files), ..ToolResult::new(outcome, output) }
    }
}

fn attached(files: &[SampleFile]) -> Vec<Attached> {
    let attach = |(at, file): (usize, &SampleFile)| Attached::new(file.media_type, &format!("file {at}"), file.bytes);
    files.iter().enumerate().map(attach).collect()
}
