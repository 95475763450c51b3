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
    /// The state of a run: one explicit value, derived from the session by `run_state`.
    RunState {
        /// The session has no unfinished run.
        Idle = "idle",
        /// A request is being prepared, or was sent and has no byte yet.
        Preparing = "preparing",
        /// The model is answering.
        Streaming = "streaming",
        /// Calls are checked, wait for approval, or run.
        ToolExec = "tool_exec",
        /// The history is being compacted.
        Compacting = "compacting",
        /// A failure is being handled, or a human is needed.
        Error = "error",
        /// A failed request waits for its retry.
        Retry = "retry",
        /// The run waits for an approval, a quota or a budget.
        Awaiting = "awaiting",
        /// The run is paused.
        Paused = "paused",
        /// The run has ended. The session becomes idle in the same batch.
        Completed = "completed",
    }
}

named! {
    /// The trigger of an edge. `Event::trigger` maps each event to at most one.
    Trigger {
        /// A message starts a run.
        UserInput = "user_input",
        /// The first byte of an answer came.
        ModelStarted = "model_started",
        /// A piece of an answer came.
        TextDelta = "text_delta",
        /// An answer is complete and has calls.
        ToolCall = "tool_call",
        /// An answer has ended and has no calls.
        StopCompleted = "stop_completed",
        /// A request failed.
        StopError = "stop_error",
        /// A request was refused before it was sent.
        Refused = "refused",
        /// The history does not fit into the model's window.
        ContextOverflow = "context_overflow",
        /// A budget or the loop guard was reached.
        LimitReached = "limit_reached",
        /// A stream was interrupted, and the run continues.
        StreamInterrupted = "stream_cut",
        /// A call has its result, and it ran.
        ToolResult = "tool_result",
        /// A call needs approval.
        ApprovalRequested = "approval_requested",
        /// The model asks the user.
        Question = "question",
        /// A call was approved.
        ApprovalGiven = "approval_given",
        /// A call was denied.
        Denied = "denied",
        /// The question was answered.
        Answered = "answered",
        /// Nobody answered in time.
        Expired = "expired",
        /// A call will never run, or a question is skipped.
        Skipped = "skipped",
        /// A quota was reset.
        QuotaReset = "quota_reset",
        /// A budget was raised.
        LimitRaised = "limit_raised",
        /// All children have ended. Reserved for R67.
        ChildrenDone = "children_done",
        /// A wait is over, and no slot of the lane is free.
        LaneFull = "lane_full",
        /// The run has a slot of its lane again.
        LaneEntered = "lane_entered",
        /// The history was compacted.
        CompactSuccess = "compact_success",
        /// The compaction failed.
        CompactFail = "compact_fail",
        /// The failure can be retried.
        Retryable = "retryable",
        /// The time of the retry has come.
        RetryDue = "retry_due",
        /// No candidate can be tried now.
        AllCooling = "all_cooling",
        /// The failure ends the run.
        Fatal = "fatal",
        /// A request exceeded its time limit.
        Timeout = "timeout",
        /// The run exceeded its time limit.
        Deadline = "deadline",
        /// An owner opened the session.
        Opened = "opened",
        /// A human is needed.
        Escalated = "escalated",
        /// A human repaired the session.
        Recovered = "recovered",
        /// The user ends the run.
        Abort = "abort",
        /// The user pauses the run.
        Pause = "pause",
        /// The user resumes the run.
        Resume = "resume",
    }
}

/// The target of an edge.
#[derive(Debug, Clone, Copy)]
pub enum To {
    /// One of these states.
    States(&'static [RunState]),
    /// The state does not change.
    Same,
    /// The state before the pause or the escalation: any live state but streaming.
    Inside,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Edge {
    /// The states from which it leads.
    pub from: &'static [RunState],
    pub trigger: Trigger,
    pub to: To,
    /// The node of the graph that it enters (R06); none = no other node.
    pub node: Option<&'static str>,
    /// The node that it leaves, if its state has several, or a run may wait in several, and it leaves only this one.
    pub leaves: Option<&'static str>,
    /// The trigger of the wait that it ends; none = it ends no wait, or a wait in which its own trigger is awaited.
    pub ends: Option<Trigger>,
    /// The condition, if the trigger alone does not say it; else empty.
    pub note: &'static str,
    /// The requirement that will need this edge, if no run can take it yet. The table allows it; drawings leave it out.
    pub reserved: Option<&'static str>,
}

use RunState::{Awaiting, Compacting, Completed, Error, Idle, Paused, Preparing, Retry, Streaming, ToolExec};

/// The states of an unfinished run that is not paused.
pub const LIVE: &[RunState] = &[Preparing, Streaming, ToolExec, Compacting, Error, Retry, Awaiting];

const fn edge(from: &'static [RunState], trigger: Trigger, to: &'static [RunState]) -> Edge {
    Edge { from, trigger, to: To::States(to), node: None, leaves: None, ends: None, note: "", reserved: None }
}

impl Edge {
    const fn node(mut self, node: &'static str) -> Self {
        self.node = Some(node);
        self
    }

    const fn leaves(mut self, node: &'static str) -> Self {
        self.leaves = Some(node);
        self
    }

    const fn ends(mut self, wait: Trigger) -> Self {
        self.ends = Some(wait);
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

/// Runs of sub-agents.
const CHILDREN: &str = "R67";

/// The transition table.
pub const EDGES: &[Edge] = &[
    edge(&[Idle], Trigger::UserInput, &[Preparing]).node("prepare"),
    edge(&[Preparing], Trigger::ModelStarted, &[Streaming]).node("process_stream").leaves("call_model"),
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
    edge(&[Streaming], Trigger::StopCompleted, &[Preparing])
        .node("prepare")
        .note("a steer waits, or the answer was cut at its limit"),
    edge(&[Streaming], Trigger::StreamInterrupted, &[Preparing])
        .node("prepare")
        .note("a crash, an interrupting steer, a pause, an ending"),
    edge(&[Streaming], Trigger::StopError, &[Error]).node("error"),
    edge(&[ToolExec], Trigger::ToolResult, &[ToolExec]).note("other calls are unsettled"),
    edge(&[ToolExec], Trigger::ToolResult, &[Preparing]).node("prepare").note("all calls are settled"),
    edge(&[ToolExec], Trigger::ApprovalRequested, &[Awaiting]).note("no call runs"),
    edge(&[ToolExec], Trigger::ApprovalRequested, &[ToolExec]).note("some still run"),
    edge(&[ToolExec], Trigger::Question, &[Awaiting]).note("no call runs"),
    edge(&[ToolExec], Trigger::Question, &[ToolExec]).note("some still run"),
    edge(&[Awaiting], Trigger::ToolResult, &[Awaiting]).note("other calls are unsettled"),
    edge(&[Awaiting], Trigger::ToolResult, &[Preparing]).node("prepare").note("all calls are settled"),
    edge(&[ToolExec, Awaiting], Trigger::ApprovalGiven, &[ToolExec, Awaiting, Preparing])
        .note("it may run / another needs approval / all are settled"),
    edge(&[ToolExec, Awaiting], Trigger::Denied, &[ToolExec, Awaiting, Preparing]),
    edge(&[ToolExec, Awaiting], Trigger::Answered, &[ToolExec, Awaiting, Preparing]),
    edge(&[ToolExec, Awaiting], Trigger::Expired, &[ToolExec, Awaiting, Preparing]).note("denied, or it stays open"),
    edge(&[ToolExec, Awaiting], Trigger::Skipped, &[ToolExec, Awaiting, Preparing]),
    edge(&[Awaiting], Trigger::QuotaReset, &[Preparing]).node("prepare").ends(Trigger::AllCooling),
    edge(&[Awaiting], Trigger::LimitRaised, &[Preparing]).node("prepare").ends(Trigger::LimitReached),
    edge(&[Awaiting], Trigger::ChildrenDone, &[Preparing])
        .node("prepare")
        .ends(Trigger::LimitReached)
        .reserved(CHILDREN),
    edge(&[Preparing, ToolExec], Trigger::LaneFull, &[Awaiting]).note("its wait is over; it queues for its lane again"),
    edge(&[Awaiting], Trigger::LaneEntered, &[Preparing])
        .node("prepare")
        .ends(Trigger::LaneFull)
        .note("all calls are settled"),
    edge(&[Awaiting], Trigger::LaneEntered, &[ToolExec])
        .leaves("execute_tools")
        .ends(Trigger::LaneFull)
        .note("calls are unsettled"),
    edge(&[Compacting], Trigger::CompactSuccess, &[Preparing]).node("prepare"),
    edge(&[Compacting], Trigger::CompactSuccess, &[Completed]).node("end").note("only the compaction was requested"),
    edge(&[Compacting], Trigger::CompactFail, &[Error]).node("error").note("the old history stays in force"),
    edge(&[Error], Trigger::Retryable, &[Retry]),
    edge(&[Retry], Trigger::RetryDue, &[Preparing]).node("prepare").ends(Trigger::Retryable),
    edge(&[Error, Preparing], Trigger::AllCooling, &[Awaiting]).note("a quota, until its reset"),
    edge(&[Error], Trigger::Fatal, &[Completed]).node("end").note("with the failure"),
    edge(LIVE, Trigger::Timeout, &[Error]).node("error").note("a request's limit, or the longest wait"),
    edge(LIVE, Trigger::Deadline, &[Completed]).node("end").note("the run's own limit; text is kept"),
    edge(LIVE, Trigger::Opened, &[]).same().note("no attempt is counted; an open stream is interrupted next"),
    edge(LIVE, Trigger::Escalated, &[Error]).node("error").note("a human is needed; the run waits"),
    edge(&[Error], Trigger::Recovered, &[]).inside().note("the session was repaired"),
    edge(&[Error], Trigger::ToolResult, &[Error]).note("looked up while the session recovers"),
    edge(LIVE, Trigger::Abort, &[Completed]).node("end").note("when nothing started is left"),
    edge(&[Paused], Trigger::Abort, &[Completed]).node("end").note("when nothing started is left"),
    edge(LIVE, Trigger::Pause, &[Paused]).note("started calls finish; a stream is interrupted first"),
    edge(&[Paused], Trigger::ToolResult, &[Paused]).note("recorded in the phase inside"),
    edge(&[Paused], Trigger::ApprovalGiven, &[Paused]).note("recorded in the phase inside"),
    edge(&[Paused], Trigger::Denied, &[Paused]).note("recorded in the phase inside"),
    edge(&[Paused], Trigger::Answered, &[Paused]).note("recorded in the phase inside"),
    edge(&[Paused], Trigger::Expired, &[Paused]).note("recorded in the phase inside"),
    edge(&[Paused], Trigger::Skipped, &[Paused]).note("recorded in the phase inside"),
    edge(&[Paused], Trigger::Opened, &[Paused]),
    edge(&[Paused], Trigger::Resume, &[]).inside().ends(Trigger::Pause),
];

/// A step from a node to another one of the same state. Its event changes no state, so it takes no edge.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct InnerStep {
    pub from: &'static str,
    /// The kind of the event.
    pub event: &'static str,
    pub to: &'static str,
    pub note: &'static str,
}

/// The steps between the nodes of one state (R06): only `preparing` has two.
pub const INNER_STEPS: &[InnerStep] = &[
    InnerStep { from: "prepare", event: "request_sent", to: "call_model", note: "" },
    InnerStep {
        from: "call_model",
        event: "budget_asked",
        to: "prepare",
        note: "a request that an opening or a pause interrupted needs a new grant",
    },
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

/// The table as one bit set of targets for each trigger and state, so that a check is one lookup.
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
