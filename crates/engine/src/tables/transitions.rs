//! The edges that a run may take. Every event that changes the state of a run is checked against this table, live and
//! in recovery; the drawings and the documentation are made from it.

use serde::{Deserialize, Serialize};

macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$variant_doc])* #[serde(rename = $text)] $variant,)* }

        impl $name {
            /// Every one, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name on disk, on the wire and on the screen.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}
pub(crate) use named;

named! {
    /// What a run is doing: one explicit value, derived from the state by `run_state`.
    RunState {
        /// No run.
        Idle = "idle",
        /// A request is being made, or has been sent and no byte has come.
        Preparing = "preparing",
        /// The model is answering.
        Streaming = "streaming",
        /// Calls are checked, asked, run.
        ToolExec = "tool_exec",
        /// The history is being summarised.
        Compacting = "compacting",
        /// A failure is being decided on, or a human is needed.
        Error = "error",
        /// A failed request waits for its next try.
        Retry = "retry",
        /// The run waits for something outside.
        Awaiting = "awaiting",
        /// The user holds the run.
        Paused = "paused",
        /// The run has ended. Never at rest: the session is idle in the same batch.
        Completed = "completed",
    }
}

named! {
    /// What takes an edge. `Event::trigger` maps each event to at most one.
    Trigger {
        /// A message starts a run.
        UserInput = "user_input",
        /// The first byte of an answer.
        ModelStarted = "model_started",
        /// A piece of an answer.
        TextDelta = "text_delta",
        /// An answer is whole and asks for calls.
        ToolCall = "tool_call",
        /// An answer is whole and asks for nothing.
        StopCompleted = "stop_completed",
        /// A request failed.
        StopError = "stop_error",
        /// A request was refused before it was sent.
        Refused = "refused",
        /// The history does not fit.
        ContextOverflow = "context_overflow",
        /// A budget or a guard.
        LimitReached = "limit_reached",
        /// A stream was cut and the run goes on.
        StreamCut = "stream_cut",
        /// A call has its result.
        ToolResult = "tool_result",
        /// A call needs leave.
        ApprovalRequested = "approval_requested",
        /// The model asks the user. Reserved.
        Question = "question",
        /// Leave was given.
        ApprovalGiven = "approval_given",
        /// Leave was not given.
        Denied = "denied",
        /// The question was answered. Reserved.
        Answered = "answered",
        /// Nobody answered in time. Reserved.
        Expired = "expired",
        /// A call will never run.
        Skipped = "skipped",
        /// A quota was reset.
        QuotaReset = "quota_reset",
        /// A budget was raised.
        LimitRaised = "limit_raised",
        /// All children have ended. Reserved.
        ChildrenDone = "children_done",
        /// The history was summarised.
        CompactSuccess = "compact_success",
        /// It could not be.
        CompactFail = "compact_fail",
        /// The failure can be tried again.
        Retryable = "retryable",
        /// The time of the next try has come.
        RetryDue = "retry_due",
        /// No candidate can be tried now.
        AllCooling = "all_cooling",
        /// The failure ends the run.
        Fatal = "fatal",
        /// A request's limit.
        Timeout = "timeout",
        /// The run's own limit.
        Deadline = "deadline",
        /// An owner took the session up.
        Opened = "opened",
        /// A human is needed.
        Escalated = "escalated",
        /// A human mended it.
        Recovered = "recovered",
        /// The user ends the run.
        Abort = "abort",
        /// The user holds the run.
        Pause = "pause",
        /// The user lets it go on.
        Resume = "resume",
    }
}

/// Where an edge leads.
#[derive(Debug, Clone, Copy)]
pub enum To {
    /// To one of these.
    States(&'static [RunState]),
    /// Nowhere: the state stays as it was.
    Same,
    /// To the phase that was held: any live state but streaming.
    Inside,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Edge {
    /// The states that it leaves.
    pub from: &'static [RunState],
    /// What takes it.
    pub trigger: Trigger,
    /// Where it leads.
    pub to: To,
    /// The node of the graph that it enters (R06), where there is one.
    pub node: Option<&'static str>,
    /// When, where the trigger alone does not say.
    pub note: &'static str,
    /// The requirement that will need this edge, if no run can take it yet. The table allows it; drawings leave it out.
    pub reserved: Option<&'static str>,
}

use RunState::{Awaiting, Compacting, Completed, Error, Idle, Paused, Preparing, Retry, Streaming, ToolExec};

/// The states of a run that is under way.
pub const LIVE: &[RunState] = &[Preparing, Streaming, ToolExec, Compacting, Error, Retry, Awaiting];

const fn edge(from: &'static [RunState], trigger: Trigger, to: &'static [RunState]) -> Edge {
    Edge { from, trigger, to: To::States(to), node: None, note: "", reserved: None }
}

impl Edge {
    const fn node(mut self, node: &'static str) -> Self {
        self.node = Some(node);
        self
    }

    const fn note(mut self, note: &'static str) -> Self {
        self.note = note;
        self
    }

    const fn reserved(mut self, requirement: &'static str) -> Self {
        self.reserved = Some(requirement);
        self
    }

    const fn same(mut self) -> Self {
        self.to = To::Same;
        self
    }

    const fn inside(mut self) -> Self {
        self.to = To::Inside;
        self
    }
}

/// Questions of the model to the user, and approvals that expire.
const QUESTIONS: &str = "R60";
/// Runs of sub-agents.
const CHILDREN: &str = "R67";

/// The table.
pub const EDGES: &[Edge] = &[
    edge(&[Idle], Trigger::UserInput, &[Preparing]).node("prepare"),
    edge(&[Preparing], Trigger::ModelStarted, &[Streaming]).node("process_stream"),
    edge(&[Preparing], Trigger::StopError, &[Error]).node("error").note("fails before the first byte"),
    edge(&[Preparing], Trigger::Refused, &[Error]).node("error").note("the context guard"),
    edge(&[Preparing, Streaming], Trigger::ContextOverflow, &[Compacting])
        .node("compact")
        .note("the threshold counts too"),
    edge(&[Preparing, ToolExec], Trigger::LimitReached, &[Awaiting, Completed])
        .note("a budget waits or ends; the loop guard"),
    edge(&[Streaming], Trigger::TextDelta, &[Streaming]),
    edge(&[Streaming], Trigger::ToolCall, &[ToolExec]).node("execute_tools").note("when the message is complete"),
    edge(&[Streaming], Trigger::StopCompleted, &[Completed]).node("end").note("no steer waits"),
    edge(&[Streaming], Trigger::StopCompleted, &[Preparing]).node("prepare").note("a steer waits"),
    edge(&[Streaming], Trigger::StreamCut, &[Preparing])
        .node("prepare")
        .note("a crash, a steer that cuts, a pause, an ending"),
    edge(&[Streaming], Trigger::StopError, &[Error]).node("error"),
    edge(&[ToolExec], Trigger::ToolResult, &[ToolExec]).note("some are still out"),
    edge(&[ToolExec], Trigger::ToolResult, &[Preparing]).node("prepare").note("all are in"),
    edge(&[ToolExec], Trigger::ApprovalRequested, &[Awaiting]).note("no call runs"),
    edge(&[ToolExec], Trigger::ApprovalRequested, &[ToolExec]).note("some still run"),
    edge(&[ToolExec], Trigger::Question, &[Awaiting, ToolExec])
        .note("no call runs / some still run")
        .reserved(QUESTIONS),
    edge(&[Awaiting], Trigger::ToolResult, &[Awaiting]).note("some are still out"),
    edge(&[Awaiting], Trigger::ToolResult, &[Preparing]).node("prepare").note("none is left"),
    edge(&[ToolExec, Awaiting], Trigger::ApprovalGiven, &[ToolExec, Awaiting, Preparing])
        .note("it may run / one still asks / all are settled"),
    edge(&[ToolExec, Awaiting], Trigger::Denied, &[ToolExec, Awaiting, Preparing]),
    edge(&[ToolExec, Awaiting], Trigger::Answered, &[ToolExec, Awaiting, Preparing]).reserved(QUESTIONS),
    edge(&[ToolExec, Awaiting], Trigger::Expired, &[ToolExec, Awaiting, Preparing]).reserved(QUESTIONS),
    edge(&[ToolExec, Awaiting], Trigger::Skipped, &[ToolExec, Awaiting, Preparing]),
    edge(&[Awaiting], Trigger::QuotaReset, &[Preparing]).node("prepare"),
    edge(&[Awaiting], Trigger::LimitRaised, &[Preparing]).node("prepare"),
    edge(&[Awaiting], Trigger::ChildrenDone, &[Preparing]).node("prepare").reserved(CHILDREN),
    edge(&[Compacting], Trigger::CompactSuccess, &[Preparing]).node("prepare"),
    edge(&[Compacting], Trigger::CompactSuccess, &[Completed]).node("end").note("nothing but the compaction was asked"),
    edge(&[Compacting], Trigger::CompactFail, &[Error]).node("error").note("the old history stays in force"),
    edge(&[Error], Trigger::Retryable, &[Retry]),
    edge(&[Retry], Trigger::RetryDue, &[Preparing]).node("prepare"),
    edge(&[Error, Preparing], Trigger::AllCooling, &[Awaiting]).note("a quota, until its reset"),
    edge(&[Error], Trigger::Fatal, &[Completed]).node("end").note("with the failure"),
    edge(LIVE, Trigger::Timeout, &[Error]).node("error").note("a request's limit, or the longest wait"),
    edge(LIVE, Trigger::Deadline, &[Completed]).node("end").note("the run's own limit; text is kept"),
    edge(LIVE, Trigger::Opened, &[]).same().note("no attempt is counted; an open stream is cut next"),
    edge(LIVE, Trigger::Escalated, &[Error]).node("error").note("a human is needed; the run is held"),
    edge(&[Error], Trigger::Recovered, &[]).inside().note("a human mended it"),
    edge(LIVE, Trigger::Abort, &[Completed]).node("end").note("when nothing started is left"),
    edge(&[Paused], Trigger::Abort, &[Completed]).node("end").note("when nothing started is left"),
    edge(LIVE, Trigger::Pause, &[Paused]).note("started calls finish; a stream is cut first"),
    edge(&[Paused], Trigger::ToolResult, &[Paused]).note("recorded in the phase inside"),
    edge(&[Paused], Trigger::ApprovalGiven, &[Paused]).note("recorded in the phase inside"),
    edge(&[Paused], Trigger::Denied, &[Paused]).note("recorded in the phase inside"),
    edge(&[Paused], Trigger::Answered, &[Paused]).note("recorded in the phase inside").reserved(QUESTIONS),
    edge(&[Paused], Trigger::Expired, &[Paused]).note("recorded in the phase inside").reserved(QUESTIONS),
    edge(&[Paused], Trigger::Skipped, &[Paused]).note("recorded in the phase inside"),
    edge(&[Paused], Trigger::Opened, &[Paused]),
    edge(&[Paused], Trigger::Resume, &[]).inside(),
];

const fn bit(state: RunState) -> u16 {
    1 << state as u16
}

const fn bits(states: &[RunState]) -> u16 {
    let mut all = 0;
    let mut i = 0;
    while i < states.len() {
        all |= bit(states[i]);
        i += 1;
    }
    all
}

type Allowed = [[u16; RunState::ALL.len()]; Trigger::ALL.len()];

/// The table as one bit set of targets for each trigger and state, so that the check costs one look.
const ALLOWED: Allowed = {
    let mut allowed: Allowed = [[0; RunState::ALL.len()]; Trigger::ALL.len()];
    let mut e = 0;
    while e < EDGES.len() {
        let edge = EDGES[e];
        let mut f = 0;
        while f < edge.from.len() {
            let to = match edge.to {
                To::States(states) => bits(states),
                To::Same => bit(edge.from[f]),
                To::Inside => bits(LIVE) & !bit(Streaming),
            };
            allowed[edge.trigger as usize][edge.from[f] as usize] |= to;
            f += 1;
        }
        e += 1;
    }
    allowed
};

/// The edges that a run can take: all but the reserved ones.
pub fn drawn() -> impl Iterator<Item = &'static Edge> {
    EDGES.iter().filter(|edge| edge.reserved.is_none())
}

impl Trigger {
    /// The requirement that will need this trigger, if every edge of it is reserved.
    pub fn reserved(self) -> Option<&'static str> {
        let mut edges = EDGES.iter().filter(|edge| edge.trigger == self);
        let first = edges.next().and_then(|edge| edge.reserved);
        first.filter(|_| edges.all(|edge| edge.reserved.is_some()))
    }
}

/// Whether the table has this edge.
pub const fn allowed(from: RunState, trigger: Trigger, to: RunState) -> bool {
    ALLOWED[trigger as usize][from as usize] & bit(to) != 0
}
