//! A run: its beginning, its steps, its waits, its end.

use serde::{Deserialize, Serialize};

use super::{is_default, payload};
use crate::body::Body;
use crate::event::{Note, Outcome, PauseCause, StopReason, Usage, WaitFor};
use crate::failure::Failure;
use crate::ids::{CallId, Hash, MessageId, RunId, Seq, Timestamp};
use crate::tables::budget::Limit;
use crate::tables::transitions::RunState;

payload! {
    /// A run starts.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    RunStarted {
        run: RunId,
        /// The messages that it answers, in order.
        inputs: Vec<MessageId>,
        /// The hash of its settings.
        settings: Hash,
        /// Whether its answers go out in blocks.
        #[serde(default, skip_serializing_if = "is_default")]
        blocks: bool,
    }
    /// A step starts.
    StepBegun {
        /// Its number, from 1.
        step: u32,
        /// The system prompt that its requests carry.
        prompt: Body,
    }
    /// The model receives a note that no user and no tool wrote.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Noted {
        note: Note,
        body: Body,
    }
    /// The run waits.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    WaitBegan {
        on: WaitFor,
        /// The latest end of the wait.
        until: Option<Timestamp>,
        /// The limit that leaves too little for its next request, if it waits for a budget.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<Limit>,
    }
    /// The wait is over.
    WaitEnded {
        /// What it waited for.
        on: WaitFor,
    }
    /// The run is paused at a checkpoint.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Paused {
        #[serde(default, skip_serializing_if = "is_default")]
        cause: PauseCause,
        /// Whether its commands are frozen as well.
        #[serde(default, skip_serializing_if = "is_default")]
        freeze: bool,
        /// The call before which a breakpoint stopped it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<CallId>,
        /// The state in which a breakpoint stopped it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<RunState>,
        /// Whether the breakpoint that stopped it is removed, since it has stopped the run once.
        #[serde(default, skip_serializing_if = "is_default")]
        cleared: bool,
    }
    /// The run continues.
    Resumed {}
    /// A breakpoint is set; without a place, all breakpoints are removed.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    BreakpointSet {
        run: RunId,
        /// Before a call of this tool starts.
        before_tool: Option<String>,
        /// When it enters this state.
        on_state: Option<RunState>,
        /// Before a call of any of these tools starts.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        before_any: Vec<String>,
    }
    /// The outcome of the run is decided; it ends when nothing of it runs any more.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    EndingSet {
        outcome: Outcome,
        /// Whether the session terminates with it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        terminate: bool,
        /// Whether a new conversation starts after it.
        #[serde(default, skip_serializing_if = "is_default")]
        reset: bool,
    }
    /// The run has ended. The one terminal event.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    RunEnded {
        run: RunId,
        outcome: Outcome,
        /// Why, if it failed; of a completed run, why the rest of its answer did not come.
        failure: Option<Failure>,
        /// The segments that its final text is made of.
        text: Vec<Body>,
        /// The tokens that its requests used.
        usage: Usage,
        /// For an interrupted run: its last entry before this, the checkpoint from which it can be resumed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        checkpoint: Option<Seq>,
        /// Why the answer of a completed run is incomplete; none = it is whole.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stop_reason: Option<StopReason>,
        /// Whether it only had to compact the history.
        #[serde(default, skip_serializing_if = "is_default")]
        compacted: bool,
        /// Whether its session showed its runs in detail: its reply then names its calls.
        #[serde(default, skip_serializing_if = "is_default")]
        verbose: bool,
    }
}
