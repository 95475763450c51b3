//! The schemas of the engine's enums. Each enum is repeated here for its schema only; if the engine gets another
//! variant, this does not compile.
#![allow(dead_code, reason = "serde's remote types check that no variant is missing; nothing is written through them")]
#![allow(missing_docs, reason = "the engine documents its enums; comments here go into the schema")]

use engine::tables::failover::{ErrorKind, FailureCategory, Recoverability};
use engine::{
    Address, CallOutcome, DeliveryKind, Flags, Interrupt, Leg, ModeSource, Outcome, PlanStatus, QueueMode,
    ReasoningMode, ReceiptState, Resources, StopReason, Thinking, Timestamp, ToolClass, Usage,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Defines the schema of an enum of the engine that lists its names.
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
    ErrorKindName of ErrorKind;
    RecoverabilityName of Recoverability;
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Outcome", rename_all = "snake_case")]
pub(crate) enum OutcomeName {
    Completed,
    Failed,
    Aborted,
    Interrupted,
    TimedOut,
    Stalled,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "StopReason", rename_all = "snake_case")]
pub(crate) enum StopReasonName {
    Length,
    ContentFilter,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "PlanStatus", rename_all = "snake_case")]
pub(crate) enum PlanStatusName {
    Pending,
    InProgress,
    Done,
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
#[serde(remote = "Thinking", rename_all = "snake_case")]
pub(crate) enum ThinkingName {
    Off,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
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
#[serde(remote = "DeliveryKind", rename_all = "snake_case")]
pub(crate) enum DeliveryKindName {
    Reply,
    Block,
    Message,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "ReasoningMode", rename_all = "snake_case")]
pub(crate) enum ReasoningModeName {
    Off,
    Block,
    Stream,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Interrupt", rename_all = "snake_case")]
pub(crate) enum InterruptName {
    Replace,
    Suspend,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "ModeSource", rename_all = "snake_case")]
pub(crate) enum ModeSourceName {
    Message,
    Session,
    Channel,
    Agent,
    Configuration,
    BuiltIn,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "engine::tables::routing::OnlyIf", rename_all = "snake_case")]
pub(crate) enum OnlyIfName {
    Idle,
    Active,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "engine::Unattended", rename_all = "snake_case")]
pub(crate) enum UnattendedName {
    Wait,
    Deny,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "engine::SandboxRoot", rename_all = "snake_case")]
pub(crate) enum SandboxRootName {
    Workspace,
    Copy,
    Worktree,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "engine::CopyAct", rename_all = "snake_case")]
pub(crate) enum CopyActName {
    Apply,
    Discard,
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

/// What a session or a run has used, its limits and its times. Times are milliseconds since 1970 UTC.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Resources")]
pub(crate) struct ResourcesShape {
    /// Tokens spent, with the reservation of a request in flight.
    token_usage: u64,
    /// The limit of tokens; none = no limit.
    token_limit: Option<u64>,
    /// The part of the limit that is kept for recovery.
    token_reserved: u64,
    /// Resident bytes of the owner of the home; none without an owner, and in lines of events.
    memory_usage: Option<u64>,
    /// The limit of those bytes; none = no limit.
    memory_limit: Option<u64>,
    /// Bytes of content that the journal keeps of the session.
    session_bytes: u64,
    /// When the session was created.
    #[schemars(with = "i64")]
    created_at: Timestamp,
    /// When the active, else the last, run started.
    #[schemars(with = "Option<i64>")]
    started_at: Option<Timestamp>,
    /// When something last happened.
    #[schemars(with = "i64")]
    last_activity_at: Timestamp,
}

/// What a failure is called in general, and whether it can pass (R24).
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "FailureCategory")]
pub(crate) struct CategoryShape {
    /// The kind of error.
    #[schemars(with = "ErrorKindName")]
    kind: ErrorKind,
    /// Whether Limulus tries again or waits (recoverable), fails (unrecoverable) or needs a human (escalate).
    #[schemars(with = "RecoverabilityName")]
    recoverability: Recoverability,
}

/// Numbers of tokens.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Usage")]
pub(crate) struct UsageShape {
    /// Input that was not cached.
    input: u64,
    /// Input that was read from the provider's cache.
    cached: u64,
    /// Input that was written to the provider's cache.
    cache_written: u64,
    /// Output of the model, including reasoning.
    output: u64,
    /// The part of the output that is reasoning.
    reasoning: u64,
}

/// A place in a channel. Each part has 1 to 256 bytes.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Address")]
pub(crate) struct AddressShape {
    /// The name of the channel, such as `telegram`.
    channel: String,
    /// The account of Limulus in that channel, if it has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    account: Option<String>,
    /// The person or the group at the other end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
    /// The thread or the topic within it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    thread: Option<String>,
}

/// The flags of a session.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Flags", rename_all = "camelCase")]
#[allow(clippy::struct_excessive_bools, reason = "as in the engine: seven named flags of the requirements")]
pub(crate) struct FlagsShape {
    /// An answer streams in.
    is_streaming: bool,
    /// The history is being compacted.
    is_compacting: bool,
    /// The run waits: for the first byte of a response, for calls, for a time, or for its turn in the lane.
    is_waiting: bool,
    /// The run continues only after an approval, or when a quota or a budget allows it.
    is_blocked: bool,
    /// There is something that an abort would end.
    can_interrupt: bool,
    /// A failure is being handled or waits for a retry, or the user must act.
    has_error: bool,
    /// The user must act, or the outcome of a call is unknown.
    needs_recovery: bool,
}
