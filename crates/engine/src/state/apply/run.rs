//! Folds events into a run: its phase, its step, its calls.

use crate::event::{
    AskAnswered, AskExpired, BlockSigned, Breakpoint, BreakpointSet, BudgetAsked, CallAsked, CallChecked, CallFound,
    CallOutcome, CallPartAdded, CallSettled, CallStarted, CandidateCooldownLifted, CompactionAsked, CompactionBegun,
    CompactionFailed, EndingSet, Failed, Found, ImageMade, MessageSealed, Next, Note, Noted, OutputAdded, Paused,
    ReasoningAdded, RetryScheduled, StepBegun, StreamInterrupted, TextAdded, WaitBegan, WaitEnded, WaitFor,
};
use crate::failure::FailureClass;
use crate::ids::{CallId, EffectId, Timestamp};
use crate::mutant;
use crate::settings::{Policy, ToolClass};
use crate::state::blocks::{BlockList, BlockOf};
use crate::state::call::{Call, Stage};
use crate::state::run::{
    Asked, Compacting, Ending, PartialCall, Pause, Phase, PrepareStage, Run, Step, Stream, SummaryRequest, WrapUp,
};
use crate::state::text_blocks::TextBlocks;
use crate::tables::budget::{Limit, Scope, Spent};

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

    pub(super) fn text_added(&mut self, e: &TextAdded, at: Timestamp) {
        self.streamed(e.effect, e.offset, at, |stream| {
            stream.text.push_str(&e.text);
            stream.blocks.add(BlockOf::Text, e.text.len())
        });
    }

    pub(super) fn reasoning_added(&mut self, e: &ReasoningAdded, at: Timestamp) {
        self.streamed(e.effect, e.offset, at, |stream| {
            stream.reasoning.push_str(&e.text);
            stream.blocks.add(BlockOf::Reasoning, e.text.len())
        });
    }

    pub(super) fn call_part_added(&mut self, e: &CallPartAdded, at: Timestamp) {
        self.streamed(e.effect, e.offset, at, |stream| stream.call_part(e));
    }

    pub(super) fn block_signed(&mut self, e: &BlockSigned, at: Timestamp) {
        self.streamed(e.effect, e.offset, at, |stream| stream.blocks.sign(e.block, &e.signature));
    }

    pub(super) fn output_added(&mut self, e: &OutputAdded) {
        let next = |call: &Call| call.effect(e.effect.kind) == e.effect && call.output_bytes == e.offset;
        let same = |call: &&mut Call| next(call) && !call.is_settled();
        if let Some(call) = self.step.calls.iter_mut().find(same) {
            call.output_bytes += e.text.len() as u64;
        }
    }

    pub(super) fn step_begun(&mut self, e: &StepBegun) {
        self.step = Step { no: e.step, ..Step::default() };
        self.prompt = Some(e.prompt);
    }

    pub(super) fn retry_scheduled(&mut self, e: &RetryScheduled) {
        self.phase = Phase::Retry { until: e.until };
        self.counts.attempt += 1;
        self.counts.candidates.retry(e.candidate, e.thinking);
        if let Some(compaction_step) = e.compaction_step {
            // The user's request stays only while the same step is retried.
            self.compaction.summary = self
                .compaction
                .summary
                .filter(|_| compaction_step == self.counts.candidates.compaction.compaction_step && !e.as_it_is);
            self.counts.candidates.compaction.go_on(compaction_step, e.as_it_is);
        }
    }

    pub(super) fn budget_asked(&mut self, e: &BudgetAsked) {
        let BudgetAsked { reserve, expected, closing } = *e;
        self.spend_reserved();
        self.budget.asks += 1;
        self.budget.asked = Some(Asked { reserve, expected, closing });
        self.budget.home_reached = false;
        self.phase = Phase::Preparing { stage: PrepareStage::Reserving };
    }

    pub(super) fn wait_ended(&mut self, e: &WaitEnded, at: Timestamp) {
        let has_calls = e.on == WaitFor::Lane && !self.step.calls.is_empty();
        self.phase = if has_calls { Phase::ToolExec } else { Phase::Preparing { stage: PrepareStage::Gathering } };
        (self.budget.asked, self.budget.home_reached) = (None, false);
        match e.on {
            WaitFor::Quota => self.counts.candidates.cooled(at),
            WaitFor::Budget => self.budget.wrap_up = WrapUp::Not,
            WaitFor::Approval | WaitFor::Answer | WaitFor::Children | WaitFor::Retry | WaitFor::Lane => {}
        }
    }

    pub(super) fn ending_set(&mut self, e: &EndingSet, at: Timestamp) {
        self.ending = Some(Ending { outcome: e.outcome, terminate: e.terminate, reset: e.reset, since: at });
    }

    pub(super) fn call_asked(&mut self, e: &CallAsked, at: Timestamp) {
        self.change(e.call, |call| {
            call.stage = Stage::Asking;
            call.question = Some(e.question.clone());
            call.takes = e.takes;
            call.asked_at = Some(at);
        });
    }

    pub(super) fn call_lost(&mut self, id: CallId) {
        self.change(id, |call| {
            call.stage = Stage::Lost;
            call.losses += 1;
        });
    }

    pub(super) fn call_found(&mut self, e: &CallFound) {
        if e.found == Found::NeverStarted {
            self.change(e.call, Call::try_again);
        }
    }

    pub(super) fn breakpoint_set(&mut self, e: &BreakpointSet) {
        if e.before_tool.is_none() && e.on_state.is_none() && e.before_any.is_empty() {
            self.breakpoints.set.clear();
        }
        self.breakpoints
            .set
            .extend(Some(&e.before_any).filter(|any| !any.is_empty()).cloned().map(Breakpoint::BeforeAny));
        self.breakpoints.set.extend(e.before_tool.clone().map(Breakpoint::BeforeTool));
        self.breakpoints.set.extend(e.on_state.map(Breakpoint::OnState));
        // The run stops when it enters that state, not if it is in it already.
        self.breakpoints.passed = e.on_state.filter(|state| *state == self.state()).or(self.breakpoints.passed);
    }

    pub(super) fn paused(&mut self, e: &Paused, at: Timestamp) {
        let Paused { cause, freeze, call, state, cleared } = *e;
        self.pause = Some(Pause { cause, freeze, since: at, call, state });
        if cleared {
            let tool = self.step.calls.iter().find(|known| Some(known.id) == call).map(|call| call.tool.as_str());
            self.breakpoints.set.retain(|at| match at {
                Breakpoint::BeforeTool(at) => Some(at.as_str()) != tool,
                Breakpoint::BeforeAny(at) => !at.iter().any(|at| Some(at.as_str()) == tool),
                Breakpoint::OnState(at) => Some(*at) != state,
            });
        }
    }

    /// Resumes the run where it stopped. Frozen calls keep the rest of their limit.
    pub(super) fn resumed(&mut self, at: Timestamp) {
        let Some(pause) = self.pause.take() else { return };
        self.lose_summary();
        // An event during the pause may have led to another state.
        self.breakpoints.passed = pause.state.filter(|state| *state == self.state()).or(self.breakpoints.passed);
        if let Phase::Compacting(Some(compacting)) = &mut self.phase {
            compacting.since = at;
        }
        if let Some(call) = pause.call {
            self.change(call, |call| call.is_passed = true);
        }
        if pause.freeze {
            let started = self.step.calls.iter_mut().filter_map(|call| call.started_at.as_mut());
            started.for_each(|started| *started = started.plus(at.since(pause.since.max(*started))));
        }
    }

    pub(super) fn request_opened(&mut self, request: EffectId, at: Timestamp) {
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
            if let Some(blocks) = &mut self.blocks {
                **blocks = TextBlocks::default();
            }
        }
    }

    pub(super) fn image_made(&mut self, e: &ImageMade) {
        let Phase::Streaming(stream) = &mut self.phase else { return };
        if stream.sent.request == e.request {
            stream.images.push(e.image.clone());
        }
    }

    pub(super) fn stream_cut(&mut self, e: &StreamInterrupted) {
        self.spend_reserved();
        self.phase = Phase::Preparing { stage: PrepareStage::Gathering };
        self.step.kept.extend(e.text);
    }

    pub(super) fn failed(&mut self, e: &Failed) {
        let was_rejected = self.sent().is_some()
            && !matches!(self.phase, Phase::Streaming(_))
            && !e.failure.class.is_outcome_unknown();
        if was_rejected {
            self.take_reserved();
        }
        self.spend_reserved();
        self.trace.push(e.failure.clone());
        self.counts.openings = 0;
        self.step.kept.extend(e.text);
        if e.failure.class == FailureClass::ContextOverflow {
            self.counts.candidates.compaction.overflow();
            self.phase = Phase::Compacting(None);
        } else {
            self.counts.candidates.fail(e.failure.class);
            self.phase = Phase::Error { failure: e.failure.clone() };
        }
    }

    pub(super) fn compaction_asked(&mut self, e: &CompactionAsked) {
        self.compaction.summary = Some(SummaryRequest { focus: e.focus });
    }

    pub(super) fn compaction_begun(&mut self, e: &CompactionBegun, at: Timestamp) {
        let CompactionBegun { compaction: effect, compaction_step, items, focus, tokens, reserved, .. } = *e;
        self.compaction.begun += 1;
        (self.counts.candidates.compaction.compaction_step, self.counts.candidates.compaction.tokens) =
            (compaction_step, tokens);
        self.phase = Phase::Compacting(Some(Compacting { effect, compaction_step, items, focus, since: at, reserved }));
    }

    /// Charges the usage of its answered requests; if the outcome of one is unknown, at least the whole reservation.
    pub(super) fn compaction_failed(&mut self, e: &CompactionFailed) {
        let (reserved, known) = (self.take_reserved(), Spent::on_request(&e.usage, e.cost));
        let lost = reserved.filter(|_| e.failure.class.is_outcome_unknown() && !mutant!(BudgetUnknownIsNothing));
        self.usage.add(&e.usage);
        self.budget.spent.add(&lost.unwrap_or_default().at_least(&known));
        self.counts.candidates.compaction.fail(e.compaction_step);
        self.phase = Phase::Error { failure: e.failure.clone() };
    }

    /// Mutants: an opening forgets a part of the candidates' failures.
    pub(super) fn forget_chain(&mut self, at: Timestamp) {
        if mutant!(CoolingForgotten) {
            self.counts.candidates.cooling.clear();
        }
        if mutant!(LevelForgotten) {
            self.counts.candidates.lowered = None;
        }
        if mutant!(RefusalForgotten) {
            self.counts.candidates.refused = 0;
        }
        if mutant!(WaitShortened)
            && let Phase::Retry { until } | Phase::Awaiting { on: WaitFor::Quota, until: Some(until) } = &mut self.phase
        {
            *until = at.min(*until);
        }
    }

    /// A crash or a pause interrupted a summary: its outcome is unknown, so the reservation is charged, and the summary
    /// is requested again.
    pub(super) fn lose_summary(&mut self) {
        self.budget.spent.add(&self.summary_out());
    }

    pub(super) fn noted(&mut self, e: &Noted) {
        match e.note {
            Note::Repeats => self.repeats.warned = true,
            Note::WrapUp => self.budget.wrap_up = self.budget.wrap_up.max(WrapUp::Asked),
            Note::Closing => self.budget.wrap_up = WrapUp::Closing,
            Note::Raised => self.budget.wrap_up = WrapUp::Not,
            Note::SchemaMismatch => self.has_schema_mismatch = true,
            Note::MemoryFlush | Note::Plan | Note::Facts => {}
        }
    }

    /// The history was replaced: the next request does not repeat the last one.
    pub(super) fn history_replaced(&mut self, goes_on: bool) {
        let Phase::Compacting(Some(Compacting { compaction_step, .. })) = self.phase else { return };
        self.counts.candidates.compaction.made(compaction_step);
        self.compaction.summary = None;
        self.counts.openings = 0;
        self.counts.request.2 = 0;
        if goes_on {
            self.phase = Phase::Preparing { stage: PrepareStage::Gathering };
        }
    }

    pub(super) fn message_sealed(&mut self, e: &MessageSealed, at: Timestamp) {
        self.usage.add(&e.usage);
        self.budget.spent.add(&Spent::on_request(&e.usage, e.cost));
        self.budget.at_answer = self.spent_by(at);
        self.step.kept.clear();
        self.step.segments.extend(e.text);
        self.step.asked += e.calls.len() as u32;
        // An interruption before the first word changes nothing of what the request continues.
        let is_nothing = e.text.is_none() && e.calls.is_empty() && e.images.is_empty();
        if e.next != Next::Cut || !is_nothing {
            self.step.stop_reason = e.stop_reason;
        }
        if e.next == Next::Cut {
            return;
        }
        if mutant!(BudgetSettledTwice) {
            self.spend_reserved();
        }
        self.take_reserved();
        if self.budget.wrap_up == WrapUp::Closing {
            self.budget.wrap_up = WrapUp::Closed;
        }
        self.counts.candidates.answered(at);
        self.counts.openings = 0;
        self.step.answered = e.next != Next::Continue;
        match e.next {
            Next::Calls => {
                self.phase = Phase::ToolExec;
                for sealed in &e.calls {
                    self.counts.calls += 1;
                    self.step.calls.push(Call::new(sealed, self.counts.calls));
                }
            }
            Next::Steer => self.phase = Phase::Preparing { stage: PrepareStage::Gathering },
            Next::Continue => {
                self.step.continued += 1;
                self.phase = Phase::Preparing { stage: PrepareStage::Gathering };
            }
            Next::Finish | Next::Cut => {}
        }
    }

    /// Takes the reservation of the request or the summary in flight.
    pub(super) fn take_reserved(&mut self) -> Option<Spent> {
        match &mut self.phase {
            Phase::Preparing { stage: PrepareStage::Sent(sent) } => sent.reserved.take(),
            Phase::Streaming(stream) => stream.sent.reserved.take(),
            Phase::Compacting(Some(compacting)) => compacting.reserved.take(),
            Phase::Preparing { .. }
            | Phase::ToolExec
            | Phase::Awaiting { .. }
            | Phase::Compacting(None)
            | Phase::Error { .. }
            | Phase::Retry { .. } => None,
        }
    }

    /// Charges the reservation in flight, because the outcome of its request is unknown.
    pub(super) fn spend_reserved(&mut self) {
        if let Some(reserved) = self.take_reserved().filter(|_| !mutant!(BudgetUnknownIsNothing)) {
            self.budget.spent.add(&reserved);
        }
    }

    /// The reservation of a summary in flight.
    pub fn summary_out(&self) -> Spent {
        let Phase::Compacting(Some(compacting)) = &self.phase else { return Spent::default() };
        compacting.reserved.unwrap_or_default()
    }

    /// The reservation of a title in flight.
    pub fn title_out(&self) -> Spent {
        self.title.and_then(|asked| asked.reserved).unwrap_or_default()
    }

    /// What it has spent at this time, including its running time and the reservation in flight.
    pub fn spent_by(&self, at: Timestamp) -> Spent {
        let wall_ms = self.clock.spent_ms + self.clock.since.map_or(0, |since| at.since(since));
        Spent { wall_ms, ..self.taken() }
    }

    /// What it has spent, including the reservation in flight, without its running time.
    pub fn taken(&self) -> Spent {
        self.budget.spent.and(&self.reserved())
    }

    pub(super) fn wait_began(&mut self, e: &WaitBegan, at: Timestamp) {
        self.spend_reserved();
        if let (WaitFor::Quota, Some(until)) = (e.on, e.until) {
            self.counts.candidates.waited_ms += until.since(at);
        }
        self.counts.lane_waits += u32::from(e.on == WaitFor::Lane);
        let is_of_home = |limit: &Limit| limit.scope == Scope::Home;
        self.budget.home_reached = self.budget.asked.is_some() && e.limit.as_ref().is_some_and(is_of_home);
        self.phase = Phase::Awaiting { on: e.on, until: e.until };
    }

    /// Ends a wait for a quota, also of a paused run; the rest of that wait no longer counts.
    pub(super) fn candidate_cleared(&mut self, e: &CandidateCooldownLifted, at: Timestamp) {
        self.counts.candidates.clear(e.candidate);
        if let Phase::Awaiting { on: WaitFor::Quota, until: Some(until) } = &mut self.phase
            && *until > at
        {
            self.counts.candidates.waited_ms = self.counts.candidates.waited_ms.saturating_sub(until.since(at));
            self.counts.candidates.ask(e.candidate);
            *until = at;
        }
    }

    pub(super) fn call_checked(&mut self, e: &CallChecked) {
        self.change(e.call, |call| {
            call.fingerprint = Some(e.fingerprint);
            call.evidence.clone_from(&e.evidence);
            call.timeout_ms = e.timeout_ms;
            if e.decision == Policy::Allow {
                call.stage = Stage::Ready;
            }
        });
    }

    /// A denied call returns to `Guarding`, as does a question: its `CallSettled` is in the same batch. So does one with other
    /// arguments, which are checked.
    pub(super) fn ask_answered(&mut self, e: &AskAnswered) {
        self.question_closed();
        self.set_stage(
            e.call,
            if e.allow && e.edited.is_none() && e.answer.is_none() { Stage::Ready } else { Stage::Guarding },
        );
        if let Some(edited) = &e.edited {
            self.change(e.call, |call| {
                call.arguments = edited.body;
                call.edited = Some(edited.shown.clone());
            });
        }
    }

    /// As [`Run::ask_answered`] for a denied call, unless the question stays open.
    pub(super) fn ask_expired(&mut self, e: &AskExpired) {
        if e.kept {
            return self.change(e.call, |call| call.is_overdue = true);
        }
        self.question_closed();
        self.set_stage(e.call, Stage::Guarding);
    }

    fn question_closed(&mut self) {
        if !self.waits_for_lane() {
            self.phase = Phase::ToolExec;
        }
    }

    pub(super) fn call_started(&mut self, e: &CallStarted, at: Timestamp) {
        // A call that is found running after a crash, or that starts again, counts once.
        let is_new = |call: &Call| call.started_at.is_none() && e.effect.try_no == 1;
        self.budget.spent.calls += u64::from(self.call(e.call).is_some_and(is_new));
        self.change(e.call, |call| {
            call.stage = Stage::Started { epoch: e.epoch };
            call.try_no = e.effect.try_no;
            call.started_at.get_or_insert(at);
        });
    }

    pub(super) fn call_settled(&mut self, e: &CallSettled) {
        self.counts.openings = 0;
        if e.outcome == CallOutcome::Unended {
            self.unended.push(e.call);
        }
        self.change(e.call, |call| {
            call.stage = Stage::Settled { outcome: e.outcome, output: e.output, attachments: e.attachments.clone() };
            // Its progress is sealed: a restart no longer sees it.
            call.output_bytes = 0;
        });
    }

    /// An owner supervises the run again: read-only calls run again, and an ending or a compaction gets its whole
    /// limit.
    pub(super) fn reopened(&mut self, at: Timestamp) {
        if let Phase::Compacting(Some(compacting)) = &mut self.phase {
            compacting.since = at;
        }
        if let Some(ending) = &mut self.ending {
            ending.since = at;
        }
        let started = |call: &&mut Call| matches!(call.stage, Stage::Started { .. });
        let read_only = self.step.calls.iter_mut().filter(|call| call.class == ToolClass::ReadOnly);
        read_only.filter(started).for_each(Call::try_again);
    }

    pub(super) fn set_stage(&mut self, id: CallId, stage: Stage) {
        self.change(id, |call| call.stage = stage);
    }

    fn change(&mut self, id: CallId, change: impl FnOnce(&mut Call)) {
        if let Some(call) = self.step.calls.iter_mut().find(|call| call.id == id && !call.is_settled()) {
            change(call);
        }
    }
}
