//! The shapes of a session.

use engine::tables::lifecycle::LifecycleKind;
use engine::tables::transitions::RunState;
use engine::{
    Address, Attachment, BranchId, CallId, CallOutcome, EffectId, Flags, Hash, MessageId, Outcome, ProcessState,
    QueueMode, QueueState, Resources, RunId, Seq, SessionId, Timestamp,
};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use super::names;
use super::run::{RunStory, RunSummary};
use super::status::NextRecovery;
use crate::event::PlanStep;

/// A session in a list.
pub type Listed = SessionSummary<RunSummary, QueuedSummary>;
/// A session with its conversation, queue and run.
pub type Shown = SessionSummary<RunStory, QueuedStory>;

/// A session. `R` is the shape of its run, `Q` the shape of a waiting message. Times are milliseconds since 1970 UTC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "SessionWith{R}"))]
pub struct SessionSummary<R, Q> {
    /// The id of the session.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub session: SessionId,
    /// The key of the session.
    pub key: String,
    /// The name of its agent.
    pub agent: String,
    /// The id of its current branch.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub branch: BranchId,
    /// The lifecycle state of the session.
    #[cfg_attr(feature = "schema", schemars(with = "names::LifecycleName"))]
    pub lifecycle: LifecycleKind,
    /// The state of its run.
    #[cfg_attr(feature = "schema", schemars(with = "names::RunStateName"))]
    pub run_state: RunState,
    /// The flags, derived from its state.
    #[cfg_attr(feature = "schema", schemars(with = "names::FlagsShape"))]
    pub flags: Flags,
    /// How the last run ended; none if none has ended yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::OutcomeName>"))]
    pub last_outcome: Option<Outcome>,
    /// Whether an abort is accepted: a run is active and not ending, or suspended.
    #[serde(default)]
    pub can_abort: bool,
    /// What it has used, its limits and its times.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "names::ResourcesShape"))]
    pub resources: Resources,
    /// When it was created.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub created_at: Timestamp,
    /// The time of its last entry.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub last_activity: Timestamp,
    /// The title that somebody gave it, else the first words of its first message; none if there is neither, or the
    /// content was erased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The folder in which its last run worked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The number of messages that were sent to it.
    #[serde(default)]
    pub messages: u64,
    /// What its runs have cost, in micro-dollars.
    #[serde(default)]
    pub cost: u64,
    /// The text that a search found, around the first of its words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snippet: Option<String>,
    /// Whether it is archived.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub archived: bool,
    /// What is wrong, and the command that repairs it.
    pub trouble: Option<String>,
    /// The next attempt that it makes by itself, if it is held and makes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_recovery: Option<NextRecovery>,
    /// The waiting messages, in order.
    pub queue: Vec<Q>,
    /// The entry up to which all entries were removed, `BRANCH@SEQ`; a snapshot replaces them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_to: Option<String>,
    /// The items of the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript: Option<Vec<ItemStory>>,
    /// The background commands, running and ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<Vec<ProcessStory>>,
    /// The plan that the model has set, with all of its steps; none if it has set none, or has cleared it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Vec<PlanStep>>,
    /// The active run, else the last run.
    pub run: Option<R>,
}

/// A background command that still works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct BackgroundCommand {
    /// The key of the session that holds it.
    pub session: String,
    /// The name of the process.
    pub id: String,
    /// The command line, as the model wrote it.
    pub command: String,
    /// When it was started.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub since: Timestamp,
}

/// A background command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ProcessStory {
    /// The name of the process.
    pub id: String,
    /// The id of the call that started it.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub call: CallId,
    /// The command line, as the model wrote it.
    pub command: String,
    /// Whether the command still runs.
    pub state: ProcessStage,
    /// How it ended; none while it runs.
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::CallOutcomeName>"))]
    pub outcome: Option<CallOutcome>,
    /// A description of how it ended.
    pub how: Option<String>,
    /// When it was started.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub started_at: Timestamp,
    /// When the owner ends it at the latest.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub until: Timestamp,
}

/// The stage of a background command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ProcessStage {
    /// It runs, as far as the session knows.
    Running,
    /// It is being ended.
    Ending,
    /// It has ended.
    Ended,
}

impl From<&ProcessState> for ProcessStage {
    fn from(state: &ProcessState) -> Self {
        match state {
            ProcessState::Running => Self::Running,
            ProcessState::Ending { .. } => Self::Ending,
            ProcessState::Ended { .. } => Self::Ended,
        }
    }
}

impl ProcessStage {
    /// The name on the wire and on the screen.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ending => "ending",
            Self::Ended => "ended",
        }
    }
}

/// A waiting message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct QueuedSummary {
    /// The id of the message.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub message: MessageId,
    /// The id of the run that will answer it.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub run: RunId,
    /// The idempotency key of the sender.
    pub key: Option<String>,
    /// The queue mode of the message.
    #[cfg_attr(feature = "schema", schemars(with = "names::QueueModeName"))]
    pub mode: QueueMode,
    /// Its queue state, one of the states of its mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::QueueStateName>"))]
    pub queue_state: Option<QueueState>,
    /// The queue state of its steering leg, if it has two legs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::QueueStateName>"))]
    pub steer_state: Option<QueueState>,
    /// When it was accepted.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub accepted_at: Timestamp,
    /// Where the message came from, if its sender said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::AddressShape>"))]
    pub origin: Option<Box<Address>>,
    /// Where its answer goes, if not to its origin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::AddressShape>"))]
    pub reply_to: Option<Box<Address>>,
}

/// A waiting message with its text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct QueuedStory {
    /// The fields that a list shows.
    #[serde(flatten)]
    pub summary: QueuedSummary,
    /// The text of the message.
    pub text: String,
}

/// One item of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ItemStory {
    /// The entry that it comes from; null if that entry was removed.
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub seq: Option<Seq>,
    /// The author of the item.
    pub role: Role,
    /// The text; empty if the item has none.
    pub text: String,
    /// The calls in a message of the assistant.
    pub calls: Vec<AskedCall>,
    /// Images and files that belong to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<AttachedFile>,
    /// The id of the request that a message of the assistant answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub request: Option<EffectId>,
    /// The id of the call whose result this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub call: Option<CallId>,
    /// Whether the result is an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
}

/// An image or a file without its bytes, which the journal stores under the hash.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct AttachedFile {
    /// The name of the file.
    pub name: String,
    /// The media type.
    pub media_type: String,
    /// The size in bytes.
    pub bytes: u64,
    /// The hash of the content.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub hash: Hash,
}

impl From<&Attachment> for AttachedFile {
    fn from(attachment: &Attachment) -> Self {
        let Attachment { body, media_type, name } = attachment;
        Self { name: name.clone(), media_type: media_type.clone(), bytes: body.bytes, hash: body.hash }
    }
}

/// The author of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool: the result of a call.
    Tool,
    /// The summary that replaces the older part of the conversation.
    Summary,
    /// A note from limulus itself to the model.
    Note,
}

/// A call as the model made it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct AskedCall {
    /// The id of the call.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub id: CallId,
    /// The name of the tool.
    pub tool: String,
    /// The arguments as the model wrote them.
    pub arguments: String,
}
