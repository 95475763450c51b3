//! The unfinished run: its activity, its calls, and its breakpoints.

use engine::tables::transitions::RunState;
use engine::{
    Breakpoint, BreakpointSet, CallChecked, CallId, CallStarted, Effect, EndingCause, Event, FailureClass, Found,
    Limits, MessageId, MessageSealed, Next, Note, Outcome, PauseCause, Paused, Policy, QueueMode, RunId, StopReason,
    ToolClass, WaitFor,
};

use super::asked::{Asked, Offered};
use super::same;

/// The activity of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    Preparing,
    Sent,
    Streaming,
    Calls,
    Asking,
    /// It queues for its lane after a wait.
    Queueing,
    Summing,
    Deciding,
    Retrying,
}

impl Doing {
    fn state(self) -> RunState {
        match self {
            Self::Preparing | Self::Sent => RunState::Preparing,
            Self::Streaming => RunState::Streaming,
            Self::Calls => RunState::ToolExec,
            Self::Asking | Self::Queueing => RunState::Awaiting,
            Self::Summing => RunState::Compacting,
            Self::Deciding => RunState::Error,
            Self::Retrying => RunState::Retry,
        }
    }
}

/// A call without a result.
#[derive(Debug)]
struct Call {
    id: CallId,
    tool: String,
    reads: bool,
    at: At,
    /// Whether the run stopped before it and was resumed.
    passed: bool,
}

/// The progress of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Waiting,
    Asked,
    Ready,
    Running,
    Lost,
    Found,
    Ending,
}

/// The pause of a run: whether calls are frozen, the call before which it stopped, and the breakpoint that this used up.
#[derive(Debug)]
struct Pause {
    freeze: bool,
    before: Option<CallId>,
    at: Option<Breakpoint>,
}

/// The current run.
#[derive(Debug)]
pub(super) struct CurrentRun {
    pub(super) id: RunId,
    pub(super) inputs: Vec<MessageId>,
    /// Whether a steer joined it, which the next event must send.
    pub(super) joined: bool,
    pub(super) doing: Doing,
    pub(super) ending: Option<Outcome>,
    calls: Vec<Call>,
    pause: Option<Pause>,
    begun: bool,
    /// Where it must stop, each once.
    breakpoints: Vec<Breakpoint>,
    /// The breakpoints that its settings name and that are not set yet.
    due: Vec<Vec<String>>,
    /// Whether it has stopped in its current state, or got the breakpoint while it was in it already.
    stopped: bool,
    /// How often the answer of this step was continued.
    continued: u32,
    schema_mismatch: SchemaMismatch,
}

/// Whether the model has received that its answer does not fit, which happens once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SchemaMismatch {
    No,
    Due,
    Told,
}

impl CurrentRun {
    pub(super) fn new(id: RunId, inputs: Vec<MessageId>, due: Vec<Vec<String>>) -> Self {
        Self {
            id,
            inputs,
            joined: false,
            doing: Doing::Preparing,
            ending: None,
            calls: vec![],
            pause: None,
            begun: false,
            breakpoints: vec![],
            due,
            stopped: false,
            continued: 0,
            schema_mismatch: SchemaMismatch::No,
        }
    }

    pub(super) fn is_paused(&self) -> bool {
        self.pause.is_some()
    }

    /// Whether it must stop here; for `None`, whether it has no breakpoint.
    pub(super) fn stops_at(&self, at: Option<&Breakpoint>) -> bool {
        at.map_or(self.breakpoints.is_empty(), |at| self.breakpoints.contains(at))
    }

    fn stops_on(&self, state: RunState) -> bool {
        self.breakpoints.contains(&Breakpoint::OnState(state))
    }

    /// The breakpoint before calls of this tool.
    fn stops_before(&self, tool: &str) -> Option<&Breakpoint> {
        self.breakpoints.iter().find(|at| is_before(at, tool))
    }

    /// The breakpoint that stopped it, while it is paused there.
    pub(super) fn stopped_at(&self) -> Option<&Breakpoint> {
        self.pause.as_ref()?.at.as_ref()
    }

    fn is(&mut self, doing: Doing) {
        self.stopped &= doing.state() == self.doing.state();
        self.doing = doing;
    }

    /// Whether it is in a state in which it must stop, and did not.
    fn should_stop(&self) -> bool {
        self.stops_on(self.doing.state()) && !self.stopped
    }

    /// Checks that it may leave its state: it must have stopped there if there is a breakpoint.
    fn check_may_continue(&self, event: &str) -> Result<(), String> {
        if self.pause.is_some() {
            return Err(format!("{event} while the run is paused"));
        }
        if self.ending.is_none() && self.should_stop() {
            return Err(format!("{event}, and the run should have stopped while {:?}", self.doing));
        }
        Ok(())
    }

    pub(super) fn event(&mut self, event: &Event, asked: &Asked, steers: bool) -> Result<(), String> {
        if std::mem::take(&mut self.joined) && !matches!(event, Event::RequestSent(_)) {
            return Err(format!("{}: a steer has joined the run, and no request holds it", event.kind()));
        }
        if !self.due.is_empty() && !matches!(event, Event::BreakpointSet(_) | Event::LifecycleChanged(_)) {
            return Err(format!("{}: a breakpoint that its message asked for is not set", event.kind()));
        }
        let is_told = matches!(event, Event::Noted(e) if e.note == Note::SchemaMismatch);
        if is_told != (self.schema_mismatch == SchemaMismatch::Due) {
            return Err(format!(
                "{}: a note about an answer that does not fit is lost, or has no reason",
                event.kind()
            ));
        }
        match event {
            Event::Noted(_) if is_told => self.schema_mismatch = SchemaMismatch::Told,
            Event::StepBegun(_) => (self.begun, self.continued) = (true, 0),
            Event::RequestSent(_) => self.sent(steers)?,
            Event::RequestOpened(_) => self.is(Doing::Streaming),
            Event::WaitEnded(_) if self.doing == Doing::Queueing && !self.calls.is_empty() => self.is(Doing::Calls),
            Event::StreamInterrupted(_) | Event::WaitEnded(_) => self.is(Doing::Preparing),
            Event::MessageSealed(e) => self.sealed(e, steers, *asked == Asked::Mismatch)?,
            Event::CallChecked(_)
            | Event::CallAsked(_)
            | Event::AskAnswered(_)
            | Event::CallStarted(_)
            | Event::CallEnding(_)
            | Event::CallLost(_)
            | Event::CallFound(_)
            | Event::CallSettled(_) => self.call_event(event, steers)?,
            Event::WaitBegan(e) if e.on == WaitFor::Lane => self.is(Doing::Queueing),
            Event::WaitBegan(_) => self.is(Doing::Asking),
            Event::Failed(e) if e.failure.class == FailureClass::ContextOverflow => self.is(Doing::Summing),
            Event::CompactionBegun(_) => {
                self.check_may_continue("the history is compacted")?;
                self.is(Doing::Summing);
            }
            Event::Failed(_) => self.is(Doing::Deciding),
            Event::CompactionFailed(_) => {
                self.check_may_continue("the history was not summarised")?;
                self.is(Doing::Deciding);
            }
            Event::RetryScheduled(_) => {
                self.check_may_continue("a try was delayed")?;
                self.is(Doing::Retrying);
            }
            Event::BreakpointSet(e) if e.before_any.is_empty() => {
                self.breakpoint(e.before_tool.as_ref(), e.on_state, asked)?;
            }
            Event::BreakpointSet(e) => self.first_breakpoint(e)?,
            Event::Paused(e) => self.paused(e, asked)?,
            Event::Resumed(_) => self.resumed(asked)?,
            Event::EndingSet(e) => self.ending = Some(e.outcome),
            Event::Opened(_) => {
                // A read-only call is run again.
                for call in self.calls.iter_mut().filter(|call| call.at == At::Running && call.reads) {
                    call.at = At::Ready;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn sent(&mut self, steers: bool) -> Result<(), String> {
        self.check_may_continue("a request was sent")?;
        if steers {
            return Err("a request was sent without its steers".into());
        }
        if !self.calls.is_empty() {
            return Err("a request was sent while calls have no result".into());
        }
        self.is(Doing::Sent);
        Ok(())
    }

    fn sealed(&mut self, e: &MessageSealed, steers: bool, is_mismatch: bool) -> Result<(), String> {
        let expected = match e.next {
            Next::Cut => return Ok(()),
            _ if !e.calls.is_empty() => Next::Calls,
            _ if steers => Next::Steer,
            // The first that does not fit its schema, whole or continued: the note that says so is next.
            _ if is_mismatch && e.stop_reason.is_none() && self.schema_mismatch == SchemaMismatch::No => {
                self.schema_mismatch = SchemaMismatch::Due;
                Next::Steer
            }
            _ if e.stop_reason == Some(StopReason::Length) && self.continued < Limits::default().continuations => {
                Next::Continue
            }
            _ => Next::Finish,
        };
        same("what a message leads to", e.next, expected)?;
        for call in &e.calls {
            let reads = call.class == ToolClass::ReadOnly;
            self.calls.push(Call { id: call.id, tool: call.tool.clone(), reads, at: At::Waiting, passed: false });
        }
        match expected {
            Next::Calls => {
                self.continued = 0;
                self.is(Doing::Calls);
            }
            Next::Steer => {
                self.continued = 0;
                self.is(Doing::Preparing);
            }
            Next::Continue => {
                self.continued += 1;
                self.is(Doing::Preparing);
            }
            // The run ends in the same batch.
            Next::Finish | Next::Cut => {}
        }
        Ok(())
    }

    fn call(&mut self, id: CallId) -> Result<&mut Call, String> {
        self.calls.iter_mut().find(|call| call.id == id).ok_or_else(|| format!("{id} has its result already"))
    }

    fn call_event(&mut self, event: &Event, steers: bool) -> Result<(), String> {
        match event {
            Event::CallChecked(CallChecked { call, decision: Policy::Allow, .. }) => self.call(*call)?.at = At::Ready,
            Event::CallAsked(e) => self.call(e.call)?.at = At::Asked,
            Event::AskAnswered(e) => {
                self.call(e.call)?.at = if e.allow && e.answer.is_none() { At::Ready } else { At::Waiting };
                if self.doing != Doing::Queueing {
                    self.is(Doing::Calls);
                }
            }
            Event::CallStarted(e) => self.call_started(e, steers)?,
            Event::CallEnding(e) => {
                let still = self.pause.as_ref().is_some_and(|pause| pause.freeze);
                if e.why == EndingCause::Limit && still {
                    return Err(format!("{} is ended by its limit while it is frozen", e.call));
                }
                if e.why == EndingCause::Run && self.ending.is_none() {
                    return Err(format!("{} is ended, and its run is not", e.call));
                }
                self.call(e.call)?.at = At::Ending;
            }
            Event::CallLost(e) => self.call(e.call)?.at = At::Lost,
            Event::CallFound(e) => {
                let at = if e.found == Found::NeverStarted { At::Ready } else { At::Found };
                self.call(e.call)?.at = at;
            }
            Event::CallSettled(e) => {
                self.call(e.call)?;
                self.calls.retain(|call| call.id != e.call);
                if self.calls.is_empty() && self.doing != Doing::Queueing {
                    self.is(Doing::Preparing);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn call_started(&mut self, e: &CallStarted, steers: bool) -> Result<(), String> {
        let call = self.call(e.call)?;
        let (at, tool, passed) = (call.at, call.tool.clone(), call.passed);
        match at {
            // It is running, and was only found again.
            At::Found => {}
            At::Ready if self.stops_before(&tool).is_some() && !passed => {
                return Err(format!("{} starts, and the run should have stopped before it", e.call));
            }
            At::Ready if steers => return Err(format!("{} starts although a steer waits", e.call)),
            At::Ready if self.ending.is_some() => return Err(format!("{} starts, and its run ends", e.call)),
            At::Ready => self.check_may_continue("a call starts")?,
            At::Waiting | At::Asked | At::Running | At::Lost | At::Ending => {
                return Err(format!("{} starts, and is {at:?}", e.call));
            }
        }
        self.call(e.call)?.at = At::Running;
        Ok(())
    }

    fn breakpoint(
        &mut self,
        before_tool: Option<&String>,
        on_state: Option<RunState>,
        asked: &Asked,
    ) -> Result<(), String> {
        let Asked::Break { at, .. } = asked else { return Err("a breakpoint was set without a request".into()) };
        let is = match (before_tool, on_state) {
            (Some(tool), None) => Some(Breakpoint::BeforeTool(tool.clone())),
            (None, Some(state)) => Some(Breakpoint::OnState(state)),
            (None, None) => None,
            (Some(_), Some(_)) => return Err("two breakpoints at once".into()),
        };
        same("the breakpoint", &is, at)?;
        match is {
            Some(at) => {
                self.stopped |= at == Breakpoint::OnState(self.doing.state());
                self.breakpoints.push(at);
            }
            None => self.breakpoints.clear(),
        }
        Ok(())
    }

    /// A breakpoint that its message asked for.
    fn first_breakpoint(&mut self, e: &BreakpointSet) -> Result<(), String> {
        if self.due.is_empty() || e.before_tool.is_some() || e.on_state.is_some() {
            return Err("a breakpoint was set that no message asked for".into());
        }
        same("the first breakpoint", &e.before_any, &self.due.remove(0))?;
        self.breakpoints.push(Breakpoint::BeforeAny(e.before_any.clone()));
        Ok(())
    }

    fn paused(&mut self, e: &Paused, asked: &Asked) -> Result<(), String> {
        if self.pause.is_some() || self.ending.is_some() {
            return Err("a run is paused that is already paused or ending".into());
        }
        let at = self.breakpoint_of(e);
        let may = match e.cause {
            PauseCause::User => *asked == Asked::Pause { freeze: e.freeze },
            PauseCause::Interrupt => !e.freeze && matches!(asked, Asked::Message(_)),
            // It stops once: the same event removes it.
            PauseCause::Breakpoint => !e.freeze && e.cleared && at.is_some(),
        };
        let tool = self.calls.iter().find(|call| Some(call.id) == e.call).map(|call| call.tool.as_str());
        self.breakpoints.retain(|known| Some(known) != at.as_ref() && !tool.is_some_and(|tool| is_before(known, tool)));
        self.stopped |= matches!(at, Some(Breakpoint::OnState(_)));
        self.pause = Some(Pause { freeze: e.freeze, before: e.call, at });
        if may { Ok(()) } else { Err(format!("{e:?}: it has no reason to be paused here")) }
    }

    /// The breakpoint that may stop it here; none if there is none.
    fn breakpoint_of(&self, e: &Paused) -> Option<Breakpoint> {
        match (e.call, e.state) {
            (Some(id), None) => {
                let may_stop = |call: &&Call| matches!(call.at, At::Ready | At::Asked) && !call.passed;
                let call = self.calls.iter().find(|call| call.id == id).filter(may_stop)?;
                self.stops_before(&call.tool).cloned()
            }
            (None, Some(state)) => {
                let is_there = state == self.doing.state() && self.doing != Doing::Sent && self.should_stop();
                is_there.then_some(Breakpoint::OnState(state))
            }
            (None, None) | (Some(_), Some(_)) => None,
        }
    }

    fn resumed(&mut self, asked: &Asked) -> Result<(), String> {
        let Some(pause) = self.pause.take() else { return Err("a run is resumed that was not paused".into()) };
        if let Some(call) = self.calls.iter_mut().find(|call| Some(call.id) == pause.before) {
            call.passed = true;
        }
        match asked {
            // An interrupting message ends a paused run.
            Asked::Resume { .. }
            | Asked::Abort
            | Asked::Reset
            | Asked::Message(Offered { mode: None | Some(QueueMode::Interrupt), .. }) => Ok(()),
            other => Err(format!("{other:?} resumes a paused run")),
        }
    }

    /// Checks that it may end with this outcome now.
    pub(super) fn may_end(&self, outcome: Outcome) -> Result<(), String> {
        if !self.calls.is_empty() || self.joined {
            return Err("a run ends with calls that have no result, or a steer that no request holds".into());
        }
        self.check_may_continue("the run ends")?;
        let expected = match (self.ending, self.doing) {
            (Some(outcome), _) => outcome,
            (None, Doing::Streaming) => Outcome::Completed,
            // Only the rest of its answer failed.
            (None, Doing::Deciding) if self.continued > 0 => Outcome::Completed,
            (None, Doing::Deciding) => Outcome::Failed,
            (None, doing) => return Err(format!("a run ends that is {doing:?}")),
        };
        same("how the run ends", outcome, expected)
    }

    /// Checks what must hold after any input that changed something.
    pub(super) fn when_idle(&self, steers: bool) -> Result<(), String> {
        if self.pause.is_some() || self.ending.is_some() {
            return Ok(());
        }
        if self.should_stop() && self.doing != Doing::Sent {
            return Err(format!("the run should have stopped while {:?}", self.doing));
        }
        if !steers {
            return Ok(());
        }
        if self.calls.iter().any(|call| matches!(call.at, At::Waiting | At::Asked | At::Ready)) {
            return Err("a call can still start although a steer waits".into());
        }
        if self.doing == Doing::Preparing && self.begun {
            return Err("a steer waits, and no request is prepared".into());
        }
        Ok(())
    }

    /// Checks that exactly the effects that it needs are wanted.
    pub(super) fn wants(&self, effects: &[Effect]) -> Result<(), String> {
        let is_active = self.pause.is_none() && self.ending.is_none();
        let still = self.pause.as_ref().is_some_and(|pause| pause.freeze);
        let mut wanted = 0;
        for effect in effects {
            let at = |id: &CallId| self.calls.iter().find(|call| call.id == *id).map(|call| call.at);
            let fits = match effect {
                Effect::Prepare { .. } => is_active && self.doing == Doing::Preparing && !self.begun,
                Effect::Compact { .. } => is_active && self.doing == Doing::Summing,
                Effect::Request { .. } => is_active && matches!(self.doing, Doing::Sent | Doing::Streaming),
                // One after the other; this does not check their order.
                Effect::CheckCall { call, .. } => is_active && at(call) == Some(At::Waiting),
                Effect::RunCall { call, .. } => at(call) == Some(At::Running),
                Effect::EndCall { call, .. } => at(call) == Some(At::Ending),
                Effect::FindCall { call, .. } => at(call) == Some(At::Lost),
                Effect::FreezeCall { call, .. } => still && at(call) == Some(At::Running),
                Effect::Lane { .. } => is_active && self.doing == Doing::Queueing,
                Effect::Reserve { .. }
                | Effect::Title { .. }
                | Effect::Report { .. }
                | Effect::HoldProcess { .. }
                | Effect::EndProcess { .. }
                | Effect::Deliver { .. }
                | Effect::Undo { .. }
                | Effect::Erase { .. } => false,
            };
            if !fits {
                return Err(format!("{effect:?} is wanted for a run that is {:?}", self.doing));
            }
            wanted += usize::from(!matches!(effect, Effect::CheckCall { .. }));
        }
        let asks = is_active
            && match self.doing {
                Doing::Preparing => !self.begun,
                Doing::Sent | Doing::Streaming | Doing::Summing | Doing::Queueing => true,
                Doing::Calls | Doing::Asking | Doing::Deciding | Doing::Retrying => false,
            };
        let mut expected = usize::from(asks);
        for call in &self.calls {
            expected += match call.at {
                At::Running if still => 2,
                At::Running | At::Ending | At::Lost => 1,
                At::Waiting | At::Asked | At::Ready | At::Found => 0,
            };
        }
        same("how much is wanted", wanted, expected)
    }
}

/// Whether this breakpoint stops a run before calls of this tool.
fn is_before(at: &Breakpoint, tool: &str) -> bool {
    match at {
        Breakpoint::BeforeTool(of) => of == tool,
        Breakpoint::BeforeAny(of) => of.iter().any(|of| of == tool),
        Breakpoint::OnState(_) => false,
    }
}
