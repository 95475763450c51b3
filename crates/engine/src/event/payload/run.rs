//! A run: its beginning, its steps, its waits, its end.

use serde::{Deserialize, Serialize};

use super::{is_default, payload};
use crate::body::Body;
use crate::event::{Note, Outcome, PauseCause, Usage, WaitFor};
use crate::failure::Failure;
use crate::ids::{CallId, Hash, MessageId, RunId, Seq, Timestamp};
use crate::tables::transitions::RunState;

payload! {
    /// A run starts.
    RunStarted {
        /// Its id.
        run: RunId,
        /// The messages that it answers, in order.
        inputs: Vec<MessageId>,
        /// The hash of its settings.
        settings: Hash,
    }
    /// A step starts.
    StepBegun {
        /// Its number, from 1.
        step: u32,
        /// The system prompt that its requests carry.
        prompt: Body,
    }
    /// The model is told something that no user and no tool said.
    Noted {
        /// Of what.
        note: Note,
        /// In these words.
        body: Body,
    }
    /// The run waits.
    WaitBegan {
        /// For what.
        on: WaitFor,
        /// Until when at most.
        until: Option<Timestamp>,
    }
    /// The wait is over.
    WaitEnded {
        /// What it was for.
        on: WaitFor,
    }
    /// The run is held at a checkpoint.
    Paused {
        /// By what.
        #[serde(default, skip_serializing_if = "is_default")]
        cause: PauseCause,
        /// Whether its commands stand still as well.
        #[serde(default, skip_serializing_if = "is_default")]
        freeze: bool,
        /// The call that it stopped before, if a breakpoint says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<CallId>,
        /// The state that it stopped in, if a breakpoint says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<RunState>,
    }
    /// The run goes on.
    Resumed {}
    /// A place where the run is to stop; where none is named, it is to stop nowhere any more.
    BreakpointSet {
        /// The run.
        run: RunId,
        /// Before a call of this tool starts.
        before_tool: Option<String>,
        /// When it comes into this state.
        on_state: Option<RunState>,
    }
    /// The run is to end so; it does when nothing of it runs any more.
    EndingSet {
        /// How.
        outcome: Outcome,
        /// Whether the session ends for good with it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        terminate: bool,
        /// Whether the conversation begins anew after it.
        #[serde(default, skip_serializing_if = "is_default")]
        reset: bool,
    }
    /// The run has ended. The one terminal event.
    RunEnded {
        /// Which.
        run: RunId,
        /// How.
        outcome: Outcome,
        /// Why, if it failed.
        failure: Option<Failure>,
        /// The segments that its final text is made of.
        text: Vec<Body>,
        /// What it cost.
        usage: Usage,
        /// Of one that was interrupted: its last entry before this, the checkpoint that it can be taken up from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        checkpoint: Option<Seq>,
        /// Whether it had nothing to do but to shorten the history.
        #[serde(default, skip_serializing_if = "is_default")]
        compacted: bool,
    }
}
