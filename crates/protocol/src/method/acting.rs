//! What the methods that do something take and give. Names are camelCase here; times are milliseconds since 1970 UTC.

use engine::{CallId, Hash, MessageId, Outcome, ReceiptState, RunId, Timestamp, Usage};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits;
#[cfg(feature = "schema")]
use crate::show::names;

/// Nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NoParams {}

/// Nothing but that it was done.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct NoResult {}

/// What `connect` takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConnectParams {
    /// The oldest version that the client speaks.
    pub min_protocol: u32,
    /// The newest.
    pub max_protocol: u32,
    /// Who it is.
    pub client: ClientInfo,
    /// What it can do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caps: Vec<Cap>,
}

/// Who a client is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientInfo {
    /// Its name: `cli`, …
    pub id: String,
    /// Its version.
    pub version: String,
    /// Where it runs.
    pub platform: String,
    /// What it is used for: `cli`, `ui`, `backend`, `test`.
    pub mode: String,
}

/// What a client can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Cap {
    /// A person can answer questions there.
    Asks,
}

/// What `connect` gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct HelloOk {
    /// `hello-ok`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The version that is spoken from here on.
    pub protocol: u32,
    /// Who answers.
    pub server: ServerInfo,
    /// What it can do.
    pub features: Features,
    /// What it bears.
    pub policy: Policy,
}

/// The owner of the home.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ServerInfo {
    /// Its version.
    pub version: String,
    /// This connection.
    pub conn_id: String,
    /// Its process.
    pub pid: u32,
    /// How often the home has been opened.
    pub epoch: u64,
}

/// What the owner can do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Features {
    /// The names of its methods.
    pub methods: Vec<String>,
    /// The names of its events.
    pub events: Vec<String>,
}

/// What a connection bears.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// Bytes of a frame.
    pub max_payload: u64,
    /// Bytes that may wait for a client that does not read.
    pub max_buffered_bytes: u64,
    /// How often a `tick` comes, milliseconds.
    pub tick_interval_ms: u64,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_payload: limits::FRAME_BYTES as u64,
            max_buffered_bytes: limits::BUFFERED_BYTES as u64,
            tick_interval_ms: limits::TICK_MS,
        }
    }
}

/// What `health` gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// Whether everything that is accepted is recorded.
    pub ok: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// How long this owner has the home, milliseconds.
    pub uptime_ms: u64,
    /// Clients that are connected.
    pub connections: u32,
    /// Sessions that are in memory.
    pub open_sessions: u32,
}

/// What `agent` takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentParams {
    /// The text.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub message: String,
    /// The session: a name, or agent:AGENT:NAME.
    pub session_key: String,
    /// The same key is the same message, also after a restart.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub idempotency_key: String,
    /// What to do with it where a run is under way; without it as the session says, else the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::QueueModeName>"))]
    pub mode: Option<engine::QueueMode>,
    /// PROVIDER/MODEL for this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The run's own limit, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Whether everything that would be asked is allowed.
    #[serde(default)]
    pub allow: bool,
    /// The folder that the agent works in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// What goes with the message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
}

/// A file that goes with a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Attachment {
    /// Its name.
    pub name: String,
    /// Its bytes, base64.
    pub content: String,
}

/// The two answers of `agent`; a chat command has one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "status", rename_all = "camelCase")]
pub enum AgentAnswer {
    /// It is recorded; its run has this id.
    #[serde(rename_all = "camelCase")]
    Accepted {
        /// The run that answers it.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        run_id: RunId,
        /// When it was.
        #[cfg_attr(feature = "schema", schemars(with = "i64"))]
        accepted_at: Timestamp,
        /// The message.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        message: MessageId,
        /// The mode that it was taken with.
        #[cfg_attr(feature = "schema", schemars(with = "names::QueueModeName"))]
        mode: engine::QueueMode,
        /// What became of it at once.
        #[cfg_attr(feature = "schema", schemars(with = "names::ReceiptStateName"))]
        state: ReceiptState,
        /// Its place in the queue, from 1; none once it has started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ahead: Option<u32>,
        /// Whether what its session does is to be shown in detail.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        verbose: bool,
    },
    /// It was a chat command: it is carried out, and this is the only answer.
    Command {
        /// What is said of it.
        text: String,
    },
    /// The run completed.
    Ok(Ended),
    /// It failed, or was ended.
    Error(Ended),
    /// It passed its limit.
    Timeout(Ended),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// The run.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub run_id: RunId,
    /// How.
    #[cfg_attr(feature = "schema", schemars(with = "names::OutcomeName"))]
    pub outcome: Outcome,
    /// When it started.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub started_at: Timestamp,
    /// When it ended.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub ended_at: Timestamp,
    /// What it said.
    pub text: String,
    /// What it took.
    #[cfg_attr(feature = "schema", schemars(with = "names::UsageShape"))]
    pub usage: Usage,
    /// Why it did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What `agent.wait` takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WaitParams {
    /// The run.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub run_id: RunId,
    /// How long, milliseconds; 0 looks once.
    #[serde(default = "wait_ms")]
    pub timeout_ms: u64,
}

const fn wait_ms() -> u64 {
    limits::WAIT_MS
}

/// What `agent.wait` gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Waited {
    /// The run.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub run_id: RunId,
    /// `timeout` without `endedAt`: the waiting ended, the run did not.
    pub status: WaitStatus,
    /// When it started, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<i64>"))]
    pub started_at: Option<Timestamp>,
    /// When it ended, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<i64>"))]
    pub ended_at: Option<Timestamp>,
    /// Why it did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What became of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum WaitStatus {
    /// The run completed.
    Ok,
    /// It failed, or was ended.
    Error,
    /// It passed its limit, or the waiting did.
    Timeout,
}

/// What `runs.abort` takes: a run, or a session whose active run is meant, else the one that its queue begins with. One that
/// has not begun is taken back; other messages stay queued unless they are cleared too.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AbortParams {
    /// The run's id, or as much of its beginning as is unique.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The session whose active, else next, run it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Whether all that waits in the session is taken back as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clear: bool,
}

/// What `runs.abort` gives, once it is recorded; the run ends within its limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Aborted {
    /// The run.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub run_id: RunId,
    /// Its session.
    pub session_key: String,
    /// The messages that were taken back with it, where that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub cancelled: Vec<MessageId>,
}

/// What `sessions.resume` takes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResumeParams {
    /// The session; without it all that have unfinished work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// Mend a session that needs a human.
    #[serde(default)]
    pub force: bool,
}

/// What `sessions.resume` gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Resumed {
    /// The sessions that were taken up, or are under way.
    pub session_keys: Vec<String>,
}

/// What `sessions.end` takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EndParams {
    /// The session's key.
    pub session_key: String,
}

/// What `sessions.end` gives, when nothing of the session goes on any more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SessionEnded {
    /// The session's key.
    pub session_key: String,
    /// The processes that could not be ended.
    pub left: Vec<String>,
}

/// What `sessions.cleanup` takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CleanupParams {
    /// What is older than so many days is old.
    #[cfg_attr(feature = "schema", schemars(range(max = 100_000)))]
    pub days: u32,
}

/// What `sessions.cleanup` gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CleanedUp {
    /// How many texts and outputs were erased.
    pub bodies: u64,
    /// Their bytes, as they were stored.
    pub bytes: u64,
}

/// What `queue.cancel` takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueueCancelParams {
    /// The message's id.
    pub message: String,
}

/// What `queue.clear` takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueueClearParams {
    /// The session's key.
    pub session_key: String,
}

/// What was taken back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Cancelled {
    /// The session's key.
    pub session_key: String,
    /// The messages, in the order in which they waited.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub messages: Vec<MessageId>,
}

/// What `queue.mode` takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueueModeParams {
    /// The session's key.
    pub session_key: String,
    /// The mode; without it the session goes by the configuration again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::QueueModeName>"))]
    pub mode: Option<engine::QueueMode>,
}

/// What `queue.mode` gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct QueueModeSet {
    /// The session's key.
    pub session_key: String,
    /// The mode of its messages that name none.
    #[cfg_attr(feature = "schema", schemars(with = "names::QueueModeName"))]
    pub mode: engine::QueueMode,
}

/// What `approvals.resolve` takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnswerParams {
    /// The call that asks.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub call: CallId,
    /// What the answer binds to.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub fingerprint: Hash,
    /// Whether it may run.
    pub allow: bool,
}

/// What `events.subscribe` takes: a session, a run, or neither for the whole home.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubscribeParams {
    /// The session's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The run's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The cursor of the last line that was seen. Without it: from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// From the beginning of the session, the run or the home on; against `from`.
    #[serde(default)]
    pub whole: bool,
    /// Of a session or a run: `chat` events instead of `agent` ones, with the whole answer so far at most every 150 ms and at the
    /// end of each run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub chat: bool,
}

/// What `events.subscribe` gives, before the first event of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Subscribed {
    /// Names it for `events.unsubscribe`.
    pub subscription: u64,
    /// Where it begins.
    pub cursor: String,
}

/// What `events.unsubscribe` takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UnsubscribeParams {
    /// As `events.subscribe` gave it.
    pub subscription: u64,
}
