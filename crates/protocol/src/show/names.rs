//! The engine's words as schemas. Each is written here a second time, for its schema alone: where the engine has a word
//! more, this does not compile.
#![allow(dead_code, reason = "serde's remote types check that no variant is missing; nothing is written through them")]
#![allow(missing_docs, reason = "the engine documents its words; what is said here goes into the schema")]

use engine::{CallOutcome, Flags, Leg, Outcome, QueueMode, ReceiptState, ToolClass, Usage};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A table of the engine whose words are listed in it.
macro_rules! listed {
    ($($name:ident of $table:ty;)+) => {$(
        pub(crate) struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let names: Vec<&str> = <$table>::ALL.iter().map(|one| one.name()).collect();
                json_schema!({ "type": "string", "enum": names })
            }
        }
    )+};
}

listed! {
    RunStateName of engine::tables::transitions::RunState;
    TriggerName of engine::tables::transitions::Trigger;
    LifecycleName of engine::tables::lifecycle::LifecycleKind;
    LaneName of engine::Lane;
    QueueStateName of engine::QueueState;
    ScopeName of engine::Scope;
    ResourceName of engine::Resource;
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Outcome", rename_all = "snake_case")]
pub(crate) enum OutcomeName {
    Completed,
    Failed,
    Aborted,
    Interrupted,
    TimedOut,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "CallOutcome", rename_all = "snake_case")]
pub(crate) enum CallOutcomeName {
    Done,
    Failed,
    Denied,
    Skipped,
    TimedOut,
    Aborted,
    Interrupted,
    Unended,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "ReceiptState", rename_all = "snake_case")]
pub(crate) enum ReceiptStateName {
    Queued,
    Started,
    Steered,
    Delivered,
    Merged,
    Dropped,
    Cancelled,
    Refused,
    Ended,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "QueueMode", rename_all = "snake_case")]
pub(crate) enum QueueModeName {
    Steer,
    Followup,
    Collect,
    SteerBacklog,
    Interrupt,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Leg", rename_all = "snake_case")]
pub(crate) enum LegName {
    Steer,
    Followup,
    Collect,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "ToolClass", rename_all = "snake_case")]
pub(crate) enum ToolClassName {
    ReadOnly,
    Idempotent,
    Once,
}

/// Tokens.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Usage")]
pub(crate) struct UsageShape {
    /// Read fresh.
    input: u64,
    /// Read from the provider's cache.
    cached: u64,
    /// Written to the provider's cache.
    cache_written: u64,
    /// Written by the model, reasoning included.
    output: u64,
    /// Of these, reasoning.
    reasoning: u64,
}

/// The flags of a session.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Flags", rename_all = "camelCase")]
#[allow(clippy::struct_excessive_bools, reason = "as in the engine: seven named flags of the requirements")]
pub(crate) struct FlagsShape {
    /// An answer streams in.
    is_streaming: bool,
    /// The history is being summarised.
    is_compacting: bool,
    /// Something is out: a request without a byte yet, calls, a wait, a place in the lane.
    is_waiting: bool,
    /// It goes on only when leave, a quota or a budget is given.
    is_blocked: bool,
    /// An abort would have something to end.
    can_interrupt: bool,
    /// A failure is being decided on or waits for its next try, or a human is needed.
    has_error: bool,
    /// A human is needed, or the outcome of a call is not known.
    needs_recovery: bool,
}
