//! The fold: how each event changes the state. Total: an event that does not fit changes nothing, so a journal can
//! always be read. Used by live decisions, recovery and replay alike.

use super::blocks::{BlockList, BlockOf};
use super::call::{Call, Stage};
use super::run::{PartialCall, Phase, PrepareStage, Run, Sent, Step, Stream};
use super::session::{Lifecycle, Message, Queued, Session};
use super::transcript::{Item, ItemCall, Transcript};
use crate::event::{
    AskAnswered, CallChecked, CallOutcome, CallPartAdded, CallSettled, CallStarted, Created, Event, Failed, Found,
    ImageMade, LifecycleChanged, MessageAccepted, MessageSealed, MessageSettled, Next, Opened, ReceiptState,
    RequestSent, RunStarted, StreamCut, WaitBegan,
};
use crate::failure::{Failure, FailureClass};
use crate::ids::{BranchId, CallId, EffectId, Epoch, Seq, Timestamp};
use crate::mutants::{Mutant, planted};
use crate::settings::{Policy, ToolClass};
use crate::tables::lifecycle::LifecycleKind;
use crate::tables::transitions::RunState;

impl Session {
    /// The state that `Created` makes; every journal begins with it.
    pub fn created(event: &Created, at: Timestamp) -> Self {
        Self {
            id: event.session,
            key: event.key.clone(),
            agent: event.agent.clone(),
            branch: event.branch,
            head: Seq(1),
            created_at: at,
            last_activity: at,
            lifecycle: Lifecycle::Initializing,
            held: None,
            queue: [].into(),
            messages: [].into(),
            keys: [].into(),
            transcript: Transcript::default(),
            processes: vec![],
            model: None,
            epoch: Epoch(0),
            closed: true,
        }
    }

    /// Leaves its branch for one that begins here: what comes next is that one's `forked`.
    pub fn enter(&mut self, branch: BranchId) {
        (self.branch, self.head) = (branch, Seq(0));
    }

    /// Folds one event that was decided at `at`.
    pub fn apply(&mut self, event: &Event, at: Timestamp) {
        if event.progress().is_some() {
            self.apply_progress(event, at);
            self.last_activity = self.last_activity.max(at);
            return;
        }
        self.head.0 += 1;
        self.apply_entry(event, at);
        self.last_activity = self.last_activity.max(at);
        let running = matches!(
            self.run_state(),
            RunState::Preparing | RunState::Streaming | RunState::ToolExec | RunState::Compacting | RunState::Error
        ) && self.is_active();
        if let Some(run) = self.run_mut() {
            run.clock.set_running(running, at);
        }
    }

    fn apply_entry(&mut self, event: &Event, at: Timestamp) {
        match event {
            Event::Opened(e) => self.opened(e, at),
            Event::Closed(_) => {
                self.closed = true;
                if planted(Mutant::QueueDroppedAtClosing) {
                    self.queue.clear();
                }
            }
            Event::MessageAccepted(e) => self.message_accepted(e, at),
            Event::MessageSettled(e) => self.message_settled(e),
            Event::RunStarted(e) => self.run_started(e, at),
            Event::RunEnded(_) => self.run_ended(),
            Event::Paused(_) => self.paused(),
            Event::Resumed(_) => self.resumed(),
            Event::LifecycleChanged(e) => self.lifecycle_changed(e, at),
            Event::OverrideSet(e) => self.model.clone_from(&e.model),
            Event::RequestSent(e) => self.request_sent(e, at),
            Event::MessageSealed(e) => self.message_sealed(e),
            Event::ProcessAdopted(e) => self.process_adopted(e),
            Event::ProcessEnding(e) => self.process_ending(e),
            Event::ProcessEnded(e) => self.process_ended(e, at),
            Event::ProcessForgotten(e) => self.processes.retain(|process| process.effect != e.process),
            _ => {
                if let Some(run) = self.run_mut() {
                    run.apply(event, at);
                }
                self.take_results();
            }
        }
    }

    fn opened(&mut self, e: &Opened, at: Timestamp) {
        // A run that only waits for a human did not bring its owner down.
        let waits = matches!(self.run_state(), RunState::Awaiting | RunState::Paused);
        let suspect = !self.closed && !waits;
        self.epoch = e.epoch;
        self.closed = false;
        // That sign may have been progress, which is gone once it is sealed.
        self.last_activity = self.last_activity.max(e.last_activity);
        let Some(run) = self.run_mut() else { return };
        run.openings += u32::from(suspect);
        if planted(Mutant::TriesReset) {
            run.failed = 0;
        }
        // What passed between the last sign of the old owner and now is nobody's time.
        if run.clock.since.is_some() {
            run.clock.set_running(false, e.last_activity);
            run.clock.set_running(true, at);
        }
        run.taken_up(at);
    }

    fn message_accepted(&mut self, e: &MessageAccepted, at: Timestamp) {
        if let Some(key) = &e.key {
            self.keys.insert(key.clone(), e.message);
        }
        let message = Message {
            body: e.body,
            attachments: e.attachments.clone(),
            key: e.key.clone(),
            state: ReceiptState::Queued,
            run: e.message.into(),
            accepted_at: at,
        };
        self.messages.insert(e.message, message);
        self.queue.push_back(Queued { message: e.message, body: e.body, overrides: e.overrides.clone() });
    }

    fn message_settled(&mut self, e: &MessageSettled) {
        self.queue.retain(|queued| queued.message != e.message);
        if let Some(message) = self.messages.get_mut(&e.message) {
            message.state = e.state;
            message.run = e.run.unwrap_or(message.run);
        }
    }

    fn run_started(&mut self, e: &RunStarted, at: Timestamp) {
        for input in &e.inputs {
            if let Some(message) = self.messages.get_mut(input) {
                message.state = ReceiptState::Started;
                message.run = e.run;
                self.transcript.push(Item::User {
                    message: *input,
                    body: message.body,
                    attachments: message.attachments.clone(),
                });
            }
        }
        self.queue.retain(|queued| !e.inputs.contains(&queued.message));
        let run = Run::new(e.run, e.inputs.clone(), e.settings, self.head, at);
        self.lifecycle = Lifecycle::Active(Box::new(run));
    }

    fn run_ended(&mut self) {
        let inputs = self.run().map(|run| run.inputs.clone()).unwrap_or_default();
        for input in inputs {
            if let Some(message) = self.messages.get_mut(&input) {
                message.state = ReceiptState::Ended;
            }
        }
        match &mut self.lifecycle {
            Lifecycle::Active(_) | Lifecycle::Suspended(_) => self.lifecycle = Lifecycle::Idle,
            Lifecycle::Error { run, .. } | Lifecycle::Recovering { run } => *run = None,
            Lifecycle::Initializing | Lifecycle::Ready | Lifecycle::Idle | Lifecycle::Terminated => {}
        }
    }

    fn paused(&mut self) {
        self.lifecycle = match std::mem::replace(&mut self.lifecycle, Lifecycle::Idle) {
            Lifecycle::Active(run) => Lifecycle::Suspended(run),
            other => other,
        };
    }

    fn resumed(&mut self) {
        self.lifecycle = match std::mem::replace(&mut self.lifecycle, Lifecycle::Idle) {
            Lifecycle::Suspended(run) => Lifecycle::Active(run),
            other => other,
        };
    }

    /// The edges that no other event takes; for the rest this entry is the record of what has been applied.
    fn lifecycle_changed(&mut self, e: &LifecycleChanged, at: Timestamp) {
        if self.lifecycle.kind() == e.to {
            return;
        }
        let run = match std::mem::replace(&mut self.lifecycle, Lifecycle::Idle) {
            Lifecycle::Active(run) | Lifecycle::Suspended(run) => Some(run),
            Lifecycle::Error { run, .. } | Lifecycle::Recovering { run } => run,
            Lifecycle::Initializing | Lifecycle::Ready | Lifecycle::Idle | Lifecycle::Terminated => self.held.take(),
        };
        self.lifecycle = match (e.to, run) {
            (LifecycleKind::Active, Some(mut run)) => {
                run.openings = 0;
                run.taken_up(at);
                Lifecycle::Active(run)
            }
            (LifecycleKind::Suspended, Some(run)) => Lifecycle::Suspended(run),
            (LifecycleKind::Error, run) => Lifecycle::Error {
                failure: e
                    .failure
                    .clone()
                    .unwrap_or_else(|| Failure::new(FailureClass::Unknown, "no reason was recorded")),
                remedy: e.remedy.clone().unwrap_or_default(),
                run,
            },
            (LifecycleKind::Recovering, run) => Lifecycle::Recovering { run },
            (LifecycleKind::Ready, run) => {
                self.held = run;
                Lifecycle::Ready
            }
            (LifecycleKind::Terminated, _) => Lifecycle::Terminated,
            (LifecycleKind::Initializing, _) => Lifecycle::Initializing,
            (LifecycleKind::Idle | LifecycleKind::Active | LifecycleKind::Suspended, _) => Lifecycle::Idle,
        };
    }

    fn request_sent(&mut self, e: &RequestSent, at: Timestamp) {
        self.transcript.set_sent(e.items as usize);
        let Some(run) = self.run_mut() else { return };
        run.request = (e.request.ordinal, e.request.try_no, e.items);
        run.candidate = e.candidate;
        let sent = Sent { request: e.request, epoch: e.epoch, at, items: e.items };
        run.phase = Phase::Preparing { stage: PrepareStage::Sent(sent) };
    }

    fn message_sealed(&mut self, e: &MessageSealed) {
        let calls = e.calls.iter();
        let item_calls = calls.clone().map(|call| ItemCall {
            id: call.id,
            provider_id: call.provider_id.clone(),
            tool: call.tool.clone(),
            arguments: call.arguments,
        });
        self.transcript.push(Item::Assistant {
            request: e.request,
            text: e.text,
            reasoning: e.reasoning,
            calls: item_calls.collect(),
            blocks: e.blocks,
            images: e.images.clone(),
        });
        for call in calls {
            if let Some(output) = call.answer {
                self.transcript.push(Item::Result { call: call.id, output, is_error: true, attachments: vec![] });
            }
        }
        if let Some(run) = self.run_mut() {
            run.message_sealed(e);
        }
    }

    /// Once every call of the step is settled, its results go into the transcript in source order.
    fn take_results(&mut self) {
        let Some(run) = self.run_mut() else { return };
        if run.step.calls.is_empty() || !run.step.calls.iter().all(Call::is_settled) {
            return;
        }
        let calls = std::mem::take(&mut run.step.calls);
        run.phase = Phase::Preparing { stage: PrepareStage::Gathering };
        for call in calls {
            if let Stage::Settled { outcome, output, attachments } = call.stage {
                let is_error = outcome != CallOutcome::Done;
                self.transcript.push(Item::Result { call: call.id, output, is_error, attachments });
            }
        }
    }

    fn apply_progress(&mut self, event: &Event, at: Timestamp) {
        let Some(run) = self.run_mut() else { return };
        match event {
            Event::TextAdded(e) => run.streamed(e.effect, e.offset, at, |stream| {
                stream.text.push_str(&e.text);
                stream.blocks.add(BlockOf::Text, e.text.len())
            }),
            Event::ReasoningAdded(e) => run.streamed(e.effect, e.offset, at, |stream| {
                stream.reasoning.push_str(&e.text);
                stream.blocks.add(BlockOf::Reasoning, e.text.len())
            }),
            Event::CallPartAdded(e) => run.streamed(e.effect, e.offset, at, |stream| stream.call_part(e)),
            Event::BlockSigned(e) => {
                run.streamed(e.effect, e.offset, at, |stream| stream.blocks.sign(e.block, &e.signature));
            }
            Event::OutputAdded(e) => {
                let next = |call: &Call| call.effect(e.effect.kind) == e.effect && call.output_bytes == e.offset;
                let same = |call: &&mut Call| next(call) && !call.is_settled();
                if let Some(call) = run.step.calls.iter_mut().find(same) {
                    call.output_bytes += e.text.len() as u64;
                }
            }
            _ => {}
        }
    }
}

impl Stream {
    fn call_part(&mut self, e: &CallPartAdded) -> u64 {
        let at = self.calls.iter().position(|call| call.index == e.index).unwrap_or_else(|| {
            self.calls.push(PartialCall { index: e.index, ..PartialCall::default() });
            self.calls.len() - 1
        });
        self.blocks.add(BlockOf::Call(e.index), 0);
        let call = &mut self.calls[at];
        call.provider_id.push_str(e.provider_id.as_deref().unwrap_or_default());
        call.name.push_str(e.name.as_deref().unwrap_or_default());
        call.arguments.push_str(&e.arguments);
        e.bytes()
    }
}

impl CallPartAdded {
    /// Its length in its effect's output; never 0, so that no two pieces share an offset.
    pub fn bytes(&self) -> u64 {
        let texts = [self.provider_id.as_deref(), self.name.as_deref(), Some(self.arguments.as_str())];
        texts.into_iter().flatten().map(|text| text.len() as u64).sum::<u64>().max(1)
    }
}

impl Run {
    fn streamed(&mut self, effect: EffectId, offset: u64, at: Timestamp, add: impl FnOnce(&mut Stream) -> u64) {
        let Phase::Streaming(stream) = &mut self.phase else { return };
        if stream.sent.request == effect && stream.bytes == offset {
            stream.bytes += add(stream);
            stream.last_at = at;
        }
    }

    fn apply(&mut self, event: &Event, at: Timestamp) {
        match event {
            Event::StepBegun(e) => {
                self.step = Step { no: e.step, ..Step::default() };
                self.prompt = Some(e.prompt);
            }
            Event::RequestOpened(e) => self.request_opened(e.request, at),
            Event::StreamCut(e) => self.stream_cut(e),
            Event::ImageMade(e) => self.image_made(e),
            Event::TextStruck(_) => self.step.kept.clear(),
            Event::Failed(e) => self.failed(e),
            Event::RetryScheduled(e) => {
                self.phase = Phase::Retry { until: e.until };
                self.attempt += 1;
            }
            Event::WaitBegan(e) => self.wait_began(e),
            Event::CompactionBegun(e) => self.phase = Phase::Compacting { try_no: e.try_no },
            Event::WaitEnded(_) | Event::Compacted(_) => {
                self.phase = Phase::Preparing { stage: PrepareStage::Gathering }
            }
            Event::CompactionFailed(e) => self.phase = Phase::Error { failure: e.failure.clone() },
            Event::EndingSet(e) => {
                self.ending = Some(super::run::Ending { outcome: e.outcome, terminate: e.terminate, since: at });
            }
            Event::CallChecked(e) => self.call_checked(e),
            Event::CallAsked(e) => self.change(e.call, |call| {
                call.stage = Stage::Asking;
                call.question = Some(e.question.clone());
            }),
            Event::AskAnswered(e) => self.ask_answered(e),
            Event::CallStarted(e) => self.call_started(e, at),
            Event::CallEnding(e) => self.set_stage(e.call, Stage::Ending { why: e.why }),
            Event::CallLost(e) => {
                self.set_stage(e.call, Stage::Lost);
                self.change(e.call, |call| call.losses += 1);
            }
            Event::CallFound(e) if e.found == Found::NeverStarted => self.change(e.call, Call::try_again),
            Event::CallSettled(e) => self.call_settled(e),
            _ => {}
        }
    }

    fn request_opened(&mut self, request: EffectId, at: Timestamp) {
        let Phase::Preparing { stage: PrepareStage::Sent(sent) } = &self.phase else { return };
        if sent.request == request {
            let sent = sent.clone();
            self.phase = Phase::Streaming(Stream {
                sent,
                text: String::new(),
                reasoning: String::new(),
                calls: vec![],
                blocks: BlockList::default(),
                images: vec![],
                bytes: 0,
                last_at: at,
            });
        }
    }

    fn image_made(&mut self, e: &ImageMade) {
        let Phase::Streaming(stream) = &mut self.phase else { return };
        if stream.sent.request == e.request {
            stream.images.push(e.image.clone());
        }
    }

    fn stream_cut(&mut self, e: &StreamCut) {
        self.phase = Phase::Preparing { stage: PrepareStage::Gathering };
        self.step.kept.extend(e.text);
    }

    fn failed(&mut self, e: &Failed) {
        self.trace.push(e.failure.clone());
        self.failed += 1;
        self.openings = 0;
        self.step.kept.extend(e.text);
        self.phase = match e.failure.class {
            FailureClass::ContextOverflow => Phase::Compacting { try_no: 1 },
            _ => Phase::Error { failure: e.failure.clone() },
        };
    }

    fn message_sealed(&mut self, e: &MessageSealed) {
        self.usage.add(&e.usage);
        self.step.kept.clear();
        self.step.segments.extend(e.text);
        self.step.asked += e.calls.len() as u32;
        if e.next == Next::Cut {
            return;
        }
        self.failed = 0;
        self.openings = 0;
        self.step.answered = true;
        match e.next {
            Next::Calls => {
                self.phase = Phase::ToolExec;
                for sealed in &e.calls {
                    self.calls += 1;
                    self.step.calls.push(Call::new(sealed, self.calls));
                }
            }
            Next::Steer => self.phase = Phase::Preparing { stage: PrepareStage::Gathering },
            Next::Finish | Next::Cut => {}
        }
    }

    fn wait_began(&mut self, e: &WaitBegan) {
        self.phase = Phase::Awaiting { on: e.on, until: e.until };
    }

    fn call_checked(&mut self, e: &CallChecked) {
        self.change(e.call, |call| {
            call.fingerprint = Some(e.fingerprint);
            call.evidence.clone_from(&e.evidence);
            if e.decision == Policy::Allow {
                call.stage = Stage::Ready;
            }
        });
    }

    /// A refused call goes back under guard: its `CallSettled` is in the same batch.
    fn ask_answered(&mut self, e: &AskAnswered) {
        self.phase = Phase::ToolExec;
        self.set_stage(e.call, if e.allow { Stage::Ready } else { Stage::Guarding });
    }

    fn call_started(&mut self, e: &CallStarted, at: Timestamp) {
        self.change(e.call, |call| {
            call.stage = Stage::Started { epoch: e.epoch };
            call.try_no = e.effect.try_no;
            call.started_at.get_or_insert(at);
        });
    }

    fn call_settled(&mut self, e: &CallSettled) {
        self.openings = 0;
        if e.outcome == CallOutcome::Unended {
            self.unended.push(e.call);
        }
        self.change(e.call, |call| {
            call.stage = Stage::Settled { outcome: e.outcome, output: e.output, attachments: e.attachments.clone() };
            // Its progress is sealed: a restart does not see it any more.
            call.output_bytes = 0;
        });
    }

    /// Somebody looks after it again: what only reads is simply run again, what is being ended gets its whole time.
    fn taken_up(&mut self, at: Timestamp) {
        if let Some(ending) = &mut self.ending {
            ending.since = at;
        }
        let started = |call: &&mut Call| matches!(call.stage, Stage::Started { .. });
        let read_only = self.step.calls.iter_mut().filter(|call| call.class == ToolClass::ReadOnly);
        read_only.filter(started).for_each(Call::try_again);
    }

    fn set_stage(&mut self, id: CallId, stage: Stage) {
        self.change(id, |call| call.stage = stage);
    }

    fn change(&mut self, id: CallId, change: impl FnOnce(&mut Call)) {
        if let Some(call) = self.step.calls.iter_mut().find(|call| call.id == id && !call.is_settled()) {
            change(call);
        }
    }
}
