//! A session.

use engine::tables::lifecycle::LifecycleKind;
use engine::tables::transitions::RunState;
use engine::{
    Attachment, BranchId, CallId, CallOutcome, EffectId, Flags, Hash, MessageId, ProcessState, QueueMode, QueueState,
    RunId, Seq, SessionId, Timestamp,
};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use super::names;
use super::run::{RunStory, RunSummary};

/// A session of a list.
pub type Listed = SessionSummary<RunSummary, QueuedSummary>;
/// A session with everything.
pub type Shown = SessionSummary<RunStory, QueuedStory>;

/// A session; `R` is how its run is shown, `Q` how a message that waits. Times are milliseconds since 1970 UTC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "SessionWith{R}"))]
pub struct SessionSummary<R, Q> {
    /// Its id.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub session: SessionId,
    /// Its key.
    pub key: String,
    /// Its agent.
    pub agent: String,
    /// The branch that it goes on in.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub branch: BranchId,
    /// Where it is in its life.
    #[cfg_attr(feature = "schema", schemars(with = "names::LifecycleName"))]
    pub lifecycle: LifecycleKind,
    /// What its run is doing.
    #[cfg_attr(feature = "schema", schemars(with = "names::RunStateName"))]
    pub run_state: RunState,
    /// What follows from its state.
    #[cfg_attr(feature = "schema", schemars(with = "names::FlagsShape"))]
    pub flags: Flags,
    /// When it began.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub created_at: Timestamp,
    /// When something last happened in it.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub last_activity: Timestamp,
    /// What is wrong, and the command that mends it.
    pub trouble: Option<String>,
    /// The messages that wait, in order.
    pub queue: Vec<Q>,
    /// The entry up to which all were removed, `BRANCH@SEQ`: a snapshot stands for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_to: Option<String>,
    /// The conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript: Option<Vec<ItemStory>>,
    /// What goes on in the background, and what has ended there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<Vec<ProcessStory>>,
    /// The active run, else the last one.
    pub run: Option<R>,
}

/// A command in the background.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ProcessStory {
    /// Its name.
    pub id: String,
    /// The call that began it.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub call: CallId,
    /// The command.
    pub command: String,
    /// Whether it still runs.
    pub state: ProcessStage,
    /// How it has ended.
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::CallOutcomeName>"))]
    pub outcome: Option<CallOutcome>,
    /// The same in words.
    pub how: Option<String>,
    /// When it began.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub started_at: Timestamp,
    /// When it is ended at the latest.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub until: Timestamp,
}

/// Whether a command in the background still runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ProcessStage {
    /// It does, as far as anybody knows.
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

/// A message that waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct QueuedSummary {
    /// Its id.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub message: MessageId,
    /// The run that it will be answered by.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub run: RunId,
    /// The sender's key.
    pub key: Option<String>,
    /// What is done with it.
    #[cfg_attr(feature = "schema", schemars(with = "names::QueueModeName"))]
    pub mode: QueueMode,
    /// Where it stands, in the words of its mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::QueueStateName>"))]
    pub queue_state: Option<QueueState>,
    /// When it was accepted.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub accepted_at: Timestamp,
}

/// A message that waits, with its text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct QueuedStory {
    /// What a list has of it.
    #[serde(flatten)]
    pub summary: QueuedSummary,
    /// What it says.
    pub text: String,
}

/// One item of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ItemStory {
    /// The entry that put it there; null where that was removed.
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub seq: Option<Seq>,
    /// Who said it.
    pub role: Role,
    /// What was said.
    pub text: String,
    /// The calls that an assistant's message asks for.
    pub calls: Vec<AskedCall>,
    /// Images and files that belong to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<AttachedFile>,
    /// The request that an assistant's message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub request: Option<EffectId>,
    /// The call whose result this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub call: Option<CallId>,
    /// Whether that result is an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
}

/// An image or a file, without its bytes: the journal has them under the hash.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct AttachedFile {
    /// Its name.
    pub name: String,
    /// What it is.
    pub media_type: String,
    /// How large it is.
    pub bytes: u64,
    /// What it is found under.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub hash: Hash,
}

impl From<&Attachment> for AttachedFile {
    fn from(attachment: &Attachment) -> Self {
        let Attachment { body, media_type, name } = attachment;
        Self { name: name.clone(), media_type: media_type.clone(), bytes: body.bytes, hash: body.hash }
    }
}

/// Who said it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Whoever sent a message.
    User,
    /// The model.
    Assistant,
    /// What a call gave.
    Tool,
    /// What stands for the older part of the conversation.
    Summary,
    /// What limulus itself told the model.
    Note,
}

/// A call as the model asked for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct AskedCall {
    /// Its id.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub id: CallId,
    /// The tool.
    pub tool: String,
    /// As the model wrote them.
    pub arguments: String,
}
