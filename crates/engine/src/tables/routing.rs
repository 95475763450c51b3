//! Routes a message by the session's state and the message's mode, and by nothing else: a row for each state, a column
//! for each mode. The machine obeys the table, `limulus queue --table` prints it, tests walk it.

use super::transitions::named;
use crate::event::{QueueMode, QueuePlace};
use serde::{Deserialize, Serialize};

named! {
    /// The state of a session for routing: lifecycle, phase, and whether a message waits to start.
    Cell {
        /// Ready or idle, with an empty queue.
        Idle = "idle",
        /// Ready or idle, with a message at the head that waits for its lane or for its group.
        Head = "head",
        /// A request is being prepared, or was sent and has no byte yet.
        Preparing = "preparing",
        /// The model is answering.
        Streaming = "streaming",
        /// Calls are checked and run.
        ToolExec = "tool_exec",
        /// The run waits for approval.
        Approval = "awaiting_approval",
        /// A question of the model is open.
        Answer = "awaiting_answer",
        /// The run waits for its children.
        Children = "awaiting_children",
        /// The run waits for a quota or a budget.
        Limit = "awaiting_limit",
        /// The history is being compacted, or a failure is being handled or waits for its retry.
        Deciding = "deciding",
        /// The outcome of the run is decided.
        Ending = "ending",
        /// The run is paused.
        Suspended = "suspended",
        /// The session is being created or repaired.
        Settling = "settling",
        /// A human is needed.
        Error = "error",
        /// The session has terminated, or terminates with its run.
        Terminated = "terminated",
    }
}

named! {
    /// What happens with a message.
    Route {
        /// It starts a run as soon as the lane has a slot.
        Start = "start",
        /// It starts a run when no other message arrives for the debounce.
        StartGathered = "start_gathered",
        /// It joins the run of the message at the head.
        Join = "join",
        /// It joins the request that is being prepared, else the next one.
        ThisRequest = "this_request",
        /// It joins when the stream ends, or interrupts it.
        NextBoundary = "next_boundary",
        /// It joins when the running calls have ended; the others do not start.
        SkipCalls = "skip_calls",
        /// It joins at once; the approval request is withdrawn.
        Withdraw = "withdraw",
        /// It is the answer to the question, if that takes a text; else as above.
        Answer = "answer",
        /// It joins at once; the wait continues.
        Deliver = "deliver",
        /// It waits with the run, and joins its next request.
        Keep = "keep",
        /// It waits for its turn.
        Queue = "queue",
        /// It waits, and shares a run with messages that arrive soon after it.
        Gather = "gather",
        /// It is routed as a steer, and also as a followup.
        Both = "both",
        /// It starts before all waiting messages.
        Ahead = "ahead",
        /// The run ends or is paused for it.
        Interrupt = "interrupt",
        /// The paused run ends for it.
        EndPaused = "end_held",
        /// It waits until the session is ready.
        Hold = "hold",
        /// It is refused until a human has repaired the session.
        RefuseError = "refuse_error",
        /// It is refused: the session has terminated.
        RefuseTerminated = "refuse_terminated",
    }
}

/// The state that a sender asks for (R31): in any other, the message is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnlyIf {
    /// Nothing runs and nothing waits.
    Idle,
    /// A run is active: it is neither paused nor about to end.
    Active,
}

impl OnlyIf {
    /// Its name on the wire and for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Active => "active",
        }
    }

    /// Whether a session in this cell is in the state.
    pub const fn holds_in(self, cell: Cell) -> bool {
        match cell {
            Cell::Idle => matches!(self, Self::Idle),
            Cell::Preparing
            | Cell::Streaming
            | Cell::ToolExec
            | Cell::Approval
            | Cell::Answer
            | Cell::Children
            | Cell::Limit
            | Cell::Deciding => matches!(self, Self::Active),
            Cell::Head | Cell::Ending | Cell::Suspended | Cell::Settling | Cell::Error | Cell::Terminated => false,
        }
    }
}

/// The modes, in the order of the columns.
pub const MODES: [QueueMode; 5] =
    [QueueMode::Steer, QueueMode::Followup, QueueMode::Collect, QueueMode::SteerBacklog, QueueMode::Interrupt];

use Route::{
    Ahead, Answer, Both, Deliver, EndPaused, Gather, Hold, Interrupt, Join, Keep, NextBoundary, Queue, RefuseError,
    RefuseTerminated, SkipCalls, Start, StartGathered, ThisRequest, Withdraw,
};

/// The table: a row for each cell, in the order of its enum; the columns are those of [`MODES`].
pub const ROUTES: [(Cell, [Route; 5]); Cell::ALL.len()] = [
    (Cell::Idle, [Start, Start, StartGathered, Start, Start]),
    (Cell::Head, [Join, Queue, Gather, Both, Ahead]),
    (Cell::Preparing, [ThisRequest, Queue, Gather, Both, Interrupt]),
    (Cell::Streaming, [NextBoundary, Queue, Gather, Both, Interrupt]),
    (Cell::ToolExec, [SkipCalls, Queue, Gather, Both, Interrupt]),
    (Cell::Approval, [Withdraw, Queue, Gather, Both, Interrupt]),
    (Cell::Answer, [Answer, Queue, Gather, Both, Interrupt]),
    (Cell::Children, [Deliver, Queue, Gather, Both, Interrupt]),
    (Cell::Limit, [Keep, Queue, Gather, Both, Interrupt]),
    (Cell::Deciding, [Keep, Queue, Gather, Both, Interrupt]),
    (Cell::Ending, [Queue, Queue, Gather, Queue, Ahead]),
    (Cell::Suspended, [Queue, Queue, Gather, Queue, EndPaused]),
    (Cell::Settling, [Hold; 5]),
    (Cell::Error, [RefuseError; 5]),
    (Cell::Terminated, [RefuseTerminated; 5]),
];

/// What happens with a message of this mode in this cell.
pub fn route(cell: Cell, mode: QueueMode) -> Route {
    let column = match mode {
        QueueMode::Steer => 0,
        QueueMode::Followup => 1,
        QueueMode::Collect => 2,
        QueueMode::SteerBacklog => 3,
        QueueMode::Interrupt => 4,
    };
    ROUTES[cell as usize].1[column]
}

/// Every cell of the table.
pub fn cells() -> impl Iterator<Item = (Cell, QueueMode, Route)> {
    ROUTES.iter().flat_map(|(cell, routes)| MODES.into_iter().zip(routes).map(|(mode, route)| (*cell, mode, *route)))
}

impl Cell {
    /// The row's name for people.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Idle => "ready, idle",
            Self::Head => "ready, idle, with a message that waits to start",
            Self::Preparing => "preparing",
            Self::Streaming => "streaming",
            Self::ToolExec => "tool_exec",
            Self::Approval => "awaiting approval",
            Self::Answer => "awaiting answer",
            Self::Children => "awaiting children",
            Self::Limit => "awaiting quota, budget",
            Self::Deciding => "compacting, retry, error (deciding)",
            Self::Ending => "the run's end is decided",
            Self::Suspended => "suspended",
            Self::Settling => "initializing, recovering",
            Self::Error => "error that needs a human",
            Self::Terminated => "terminated",
        }
    }
}

impl Route {
    /// The description for people.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Start => "starts",
            Self::StartGathered => "starts after the debounce",
            Self::Join => "joins the run of the message at the head",
            Self::ThisRequest => "into this request if it is not sent, else at the next boundary",
            Self::NextBoundary => "when the answer ends (`queue.cut`: now, its text is kept)",
            Self::SkipCalls => "running calls finish, the others are skipped, then delivered",
            Self::Withdraw => "the approval request is withdrawn, its calls are skipped, then delivered",
            Self::Answer => "is the answer, if the question takes a text; else as with approval",
            Self::Deliver => "delivered; the wait continues",
            Self::Keep => "kept for the next request, else a followup",
            Self::Queue => "waits for its turn",
            Self::Gather => "gathered into one followup",
            Self::Both => "as a steer, and as a followup",
            Self::Ahead => "starts before all waiting messages",
            Self::Interrupt => "the run ends as interrupted, or is paused; the message starts",
            Self::EndPaused => {
                "the paused run ends as interrupted, and the message starts (`queue.interrupt = \"suspend\"`: it waits until the run is resumed)"
            }
            Self::Hold => "waits until the session is ready",
            Self::RefuseError | Self::RefuseTerminated => "refused",
        }
    }

    /// The place in the queue of a message of this mode. An error says why the message is refused, and what to do.
    pub fn place(self, mode: QueueMode) -> Result<QueuePlace, &'static str> {
        Ok(match self {
            Self::Start | Self::Queue => QueuePlace::Back,
            Self::StartGathered | Self::Gather => QueuePlace::Gather,
            Self::Join
            | Self::ThisRequest
            | Self::NextBoundary
            | Self::SkipCalls
            | Self::Withdraw
            | Self::Answer
            | Self::Deliver
            | Self::Keep => QueuePlace::Steer,
            Self::Both => QueuePlace::Both,
            Self::Ahead | Self::Interrupt | Self::EndPaused => QueuePlace::Front,
            Self::Hold => match mode {
                QueueMode::Steer => QueuePlace::Steer,
                QueueMode::Followup => QueuePlace::Back,
                QueueMode::Collect => QueuePlace::Gather,
                QueueMode::SteerBacklog => QueuePlace::Both,
                QueueMode::Interrupt => QueuePlace::Front,
            },
            Self::RefuseError => return Err("it needs a human; `limulus resume KEY --force` resumes it"),
            Self::RefuseTerminated => {
                return Err("it was terminated; use another session key, or `limulus agent --new`");
            }
        })
    }
}

const _: () = {
    let mut at = 0;
    while at < ROUTES.len() {
        assert!(ROUTES[at].0 as usize == at, "the rows are in the order of the enum");
        at += 1;
    }
};
