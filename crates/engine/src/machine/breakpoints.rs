//! Breakpoints: places where a run pauses by itself. Each pauses it once: the event of the pause removes the breakpoint,
//! so a crash neither loses it nor brings it back.

use super::Machine;
use super::commands::state_refusal;
use crate::event::{Breakpoint, BreakpointSet, PauseCause, Paused};
use crate::ids::{CallId, Moment, RunId};
use crate::input::{Acknowledgement, Refusal};
use crate::mutant;
use crate::state::{Call, Phase, PrepareStage, Session};
use crate::tables::transitions::RunState;

impl Machine {
    pub(super) fn set_breakpoint(
        &mut self,
        run: RunId,
        at: Option<Breakpoint>,
        moment: Moment,
    ) -> Result<Acknowledgement, Refusal> {
        let session = self.under_way(Some(run))?;
        if let Some(Breakpoint::OnState(state)) = &at
            && !can_stop_in(*state)
        {
            let reason = format!(
                "a run cannot stop in `{state}`; it can before a tool, or in preparing, tool_exec, compacting, error, retry or awaiting"
            );
            return Err(state_refusal(session, &reason));
        }
        let (before_tool, before_any, on_state) = match at {
            Some(Breakpoint::BeforeTool(tool)) => (Some(tool), vec![], None),
            Some(Breakpoint::BeforeAny(tools)) => (None, tools, None),
            Some(Breakpoint::OnState(state)) => (None, vec![], Some(state)),
            None => (None, vec![], None),
        };
        self.emit(BreakpointSet { run, before_tool, on_state, before_any }, moment.now);
        Ok(Acknowledgement::Done)
    }

    /// The breakpoints that the message of a run has asked for are set with its start, so that no call comes before them.
    pub(super) fn set_first_breakpoints(&mut self, run: RunId, moment: Moment) {
        let asked = self.settings.as_ref().map(|settings| settings.stop_before.clone()).unwrap_or_default();
        for before_any in asked.into_iter().filter(|_| !mutant!(BreakpointOfMessageLost)) {
            self.emit(BreakpointSet { run, before_tool: None, on_state: None, before_any }, moment.now);
        }
    }

    /// Pauses the run if it has entered a state with a breakpoint. Returns whether it did.
    pub(super) fn stop_in_state(&mut self, moment: Moment) -> bool {
        let Some(run) = self.session.as_ref().and_then(Session::run) else { return false };
        let state = run.state();
        let is_out = matches!(run.phase, Phase::Preparing { stage: PrepareStage::Sent(_) });
        let stops = !is_out
            && run.breakpoints.passed != Some(state)
            && run.breakpoints.set.contains(&Breakpoint::OnState(state));
        if stops {
            self.stop_at(None, Some(state), moment);
        }
        stops
    }

    /// Pauses the run before a call with a breakpoint.
    pub(super) fn stop_before_call(&mut self, call: CallId, moment: Moment) {
        self.stop_at(Some(call), None, moment);
    }

    /// The same before its approval is asked for: whoever set the breakpoint sees the call first, and where nobody can be
    /// asked it is not denied before the run stops.
    pub(super) fn stop_before_question(&mut self, call: CallId, moment: Moment) {
        let is_active = self.session.as_ref().is_some_and(Session::is_active);
        let stops = self.call(call).is_some_and(|call| self.stops_before(call));
        let is_ending = self.session.as_ref().and_then(Session::run).is_some_and(|run| run.ending.is_some());
        if is_active && stops && !is_ending {
            self.stop_at(Some(call), None, moment);
        }
    }

    fn stop_at(&mut self, call: Option<CallId>, state: Option<RunState>, moment: Moment) {
        let cleared = !mutant!(BreakpointTwice);
        self.emit(Paused { cause: PauseCause::Breakpoint, freeze: false, call, state, cleared }, moment.now);
    }

    /// Whether the run is to stop before this call.
    pub(super) fn stops_before(&self, call: &Call) -> bool {
        let run = self.session.as_ref().and_then(Session::run);
        let is_meant = |at: &Breakpoint| match at {
            Breakpoint::BeforeTool(tool) => *tool == call.tool,
            Breakpoint::BeforeAny(tools) => tools.contains(&call.tool),
            Breakpoint::OnState(_) => false,
        };
        let is_passed = call.is_passed && !mutant!(BreakpointTwice) || mutant!(BreakpointPassed);
        !is_passed && run.is_some_and(|run| run.breakpoints.set.iter().any(is_meant))
    }
}

/// Whether a run can pause in this state: an incoming answer cannot be paused without interrupting it.
fn can_stop_in(state: RunState) -> bool {
    match state {
        RunState::Preparing
        | RunState::ToolExec
        | RunState::Compacting
        | RunState::Error
        | RunState::Retry
        | RunState::Awaiting => true,
        RunState::Idle | RunState::Streaming | RunState::Paused | RunState::Completed => false,
    }
}
