//! Parameters and results of the methods that change something. Names are camelCase; times are milliseconds since 1970
//! UTC.

use engine::tables::routing::OnlyIf;
use engine::{Address, MessageId, Outcome, ReasoningMode, ReceiptState, RunId, StopReason, Timestamp, Usage};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits;
use crate::show::Reply;
#[cfg(feature = "schema")]
use crate::show::names;

/// No parameters: an empty object. A request may leave it out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NoParams {}

/// An empty result: the request was carried out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct NoResult {}

/// Parameters of `connect`. The owner refuses a client with which it shares no version of the protocol.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConnectParams {
    /// The oldest version that the client speaks.
    pub min_protocol: u32,
    /// The newest version that the client speaks.
    pub max_protocol: u32,
    /// The identity of the client.
    pub client: ClientInfo,
    /// What the peer can do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caps: Vec<Cap>,
}

/// The identity of a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientInfo {
    /// The name of the program: `cli`, …
    pub id: String,
    /// The version of the program.
    pub version: String,
    /// The platform that it runs on.
    pub platform: String,
    /// What it is used for: `cli`, `ui`, `backend`, `test`.
    pub mode: String,
}

/// What a client can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Cap {
    /// A person can answer approval requests there.
    Asks,
}

/// Result of `connect`: what the owner can do, and the limits of the connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct HelloOk {
    /// Always `hello-ok`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The protocol version of this connection.
    pub protocol: u32,
    /// The owner of the home.
    pub server: ServerInfo,
    /// What the peer can do.
    pub features: Features,
    /// The limits of the connection.
    pub policy: Policy,
}

/// The owner of the home.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ServerInfo {
    /// The version of limulus that the owner runs.
    pub version: String,
    /// The id of this connection.
    pub conn_id: String,
    /// The process id of the owner.
    pub pid: u32,
    /// The epoch of the owner, which counts how often the home was opened.
    pub epoch: u64,
    /// What the owner is; one of an older version does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<OwnerKind>,
}

/// What owns a home: how long it stays, and whether it executes runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OwnerKind {
    /// It stays until it is stopped.
    Service,
    /// It stays until its command is done.
    Command,
    /// The same, and it starts and continues no run.
    Change,
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

/// The limits of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// The largest frame, bytes.
    pub max_payload: u64,
    /// Bytes that the owner buffers for a client that does not read.
    pub max_buffered_bytes: u64,
    /// The interval of `tick` events, milliseconds.
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

/// Result of `health`: whether the owner works, and its load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// Whether the owner can record what it accepts.
    pub ok: bool,
    /// The error that prevents it; none if `ok`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// How long this owner has owned the home, milliseconds.
    pub uptime_ms: u64,
    /// The number of connected clients.
    pub connections: u32,
    /// The number of sessions in memory.
    pub open_sessions: u32,
    /// The address where it serves HTTP and WebSocket, `IP:PORT`; none if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listens_at: Option<String>,
    /// Whether that is encrypted: `https` and `wss`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tls: bool,
}

/// Result of `owner.handover`: the owner accepts nothing new and releases the home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct HandoverAccepted {
    /// Answers in progress may finish within this time, milliseconds.
    pub drain_ms: u64,
}

/// Parameters of `agent`: a message, and the settings of its run. A session that does not exist is created.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a parameter of its own on the wire")]
pub struct AgentParams {
    /// The text of the message.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub message: String,
    /// The key of the session: a name, or agent:AGENT:NAME.
    pub session_key: String,
    /// The idempotency key: two requests with the same key are the same message, also after a restart.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub idempotency_key: String,
    /// The queue mode, if a run is active; without it the default of the session, else of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::QueueModeName>"))]
    pub mode: Option<engine::QueueMode>,
    /// What an interrupt does with the active run: replace it or suspend it; without it as the session, else the
    /// configuration, says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::InterruptName>"))]
    pub interrupt: Option<engine::Interrupt>,
    /// The model of this run, PROVIDER/MODEL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The time limit of the run, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The thinking level of this run; without it as the session, else the configuration, says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::ThinkingName>"))]
    pub thinking: Option<engine::Thinking>,
    /// The most tokens of each answer. One that reaches it ends there: it is not continued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output: Option<std::num::NonZeroU32>,
    /// The temperature of this run's models, 0 to 2; without it the model's own. Thinking models may refuse it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The share of the likeliest tokens of which one is chosen, 0 to 1; without it the model's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Whether every call that needs approval is approved automatically.
    #[serde(default)]
    pub allow: bool,
    /// Whether the commands of the run have no sandbox.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_sandbox: bool,
    /// Where the run works: in the workspace, in a copy of it, or in a git worktree of it; without it as `sandbox.root` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::SandboxRootName>"))]
    pub root: Option<engine::SandboxRoot>,
    /// What happens to its calls that need approval: wait or deny; without it as `approvals.unattended` says, else they wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::UnattendedName>"))]
    pub unattended: Option<engine::Unattended>,
    /// The classes (edit, exec) and names of tools before whose first call the run stops, each once. Such a message begins a
    /// run of its own: without a mode it is a followup, and it can be no steer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop_before: Vec<String>,
    /// Whether the run only reads and answers with a plan: it has no tools that change anything. Such a message begins a run
    /// of its own, as with `stopBefore`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plan: bool,
    /// The JSON schema (draft 2020-12, at most 64 KiB) that the answer is to fit. The model receives it, and once more if its
    /// answer does not fit. Such a message begins a run of its own, as with `stopBefore`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<serde_json::Value>,
    /// What stands in the system prompt for who the agent is and how it works, at most 64 KiB. Such a message begins a run of its
    /// own, as with `stopBefore`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// What is added to the system prompt, at most 64 KiB. Such a message begins a run of its own, as with `stopBefore`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub append_system: Option<String>,
    /// The folder that the agent works in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Files that are sent with the message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// The state that the session must be in: in any other the message is refused, and nothing is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::OnlyIfName>"))]
    pub only_if: Option<OnlyIf>,
    /// Whether the reply of the run names its calls (`tool_summary`); without it as the session says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verbose: Option<bool>,
    /// Whether its reply has the reasoning of the model: off, block or stream; without it as `reply.reasoning` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::ReasoningModeName>"))]
    pub reasoning: Option<ReasoningMode>,
    /// Where the message came from. The reply goes there if a route has the name of its channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::AddressShape>"))]
    pub origin: Option<Box<Address>>,
    /// Where its reply goes, if not to its origin: to the route that has the name of its channel. Of another channel it is recorded
    /// and shown, and whoever serves that channel delivers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::AddressShape>"))]
    pub reply_to: Option<Box<Address>>,
    /// Whether its reply must go out: the message is refused if no route has the name of the channel of `replyTo`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deliver: bool,
}

/// A file that is sent with a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Attachment {
    /// The name of the file.
    pub name: String,
    /// The content of the file, encoded as base64.
    pub content: String,
}

/// The results of `agent`: two for a message, one for a chat command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "status", rename_all = "camelCase")]
pub enum AgentAnswer {
    /// The message is recorded.
    #[serde(rename_all = "camelCase")]
    Accepted {
        /// The run that answers it.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        run_id: RunId,
        /// When it was accepted.
        #[cfg_attr(feature = "schema", schemars(with = "i64"))]
        accepted_at: Timestamp,
        /// The id of the message.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        message: MessageId,
        /// The queue mode that applies.
        #[cfg_attr(feature = "schema", schemars(with = "names::QueueModeName"))]
        mode: engine::QueueMode,
        /// What decided its mode.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<names::ModeSourceName>"))]
        mode_by: Option<engine::ModeSource>,
        /// Its state when it was accepted.
        #[cfg_attr(feature = "schema", schemars(with = "names::ReceiptStateName"))]
        state: ReceiptState,
        /// Its position in the queue, from 1; none once it has started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ahead: Option<u32>,
        /// The run that ends as interrupted for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
        ends_run: Option<RunId>,
        /// Whether the client should show the session in detail.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        verbose: bool,
    },
    /// The message was a chat command and was carried out. This is the only response.
    Command {
        /// The output of the command.
        text: String,
    },
    /// The run completed.
    Ok(Ended),
    /// The run failed or was ended.
    Error(Ended),
    /// The run exceeded its time limit.
    Timeout(Ended),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// The id of the run.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub run_id: RunId,
    /// The outcome of the run.
    #[cfg_attr(feature = "schema", schemars(with = "names::OutcomeName"))]
    pub outcome: Outcome,
    /// When it started, milliseconds since 1970 UTC.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub started_at: Timestamp,
    /// When it ended, milliseconds since 1970 UTC.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub ended_at: Timestamp,
    /// The text of its answer.
    pub text: String,
    /// The token usage of all its requests.
    #[cfg_attr(feature = "schema", schemars(with = "names::UsageShape"))]
    pub usage: Usage,
    /// Why the run did not complete; none if it completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why the answer of a completed run is incomplete; none if it is whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::StopReasonName>"))]
    pub stop_reason: Option<StopReason>,
    /// Its reply; none if the run never began or a part of it was removed.
    #[serde(flatten)]
    pub reply: Option<Reply>,
}

/// Parameters of `agent.wait`: the run, and how long to wait for its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WaitParams {
    /// The id of the run.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub run_id: RunId,
    /// The timeout, milliseconds; with 0 it only checks.
    #[serde(default = "wait_ms")]
    pub timeout_ms: u64,
}

const fn wait_ms() -> u64 {
    limits::WAIT_MS
}

/// Result of `agent.wait`: how the run ended, or that it has not ended in time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Waited {
    /// The id of the run.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub run_id: RunId,
    /// The result of the wait. `timeout` without `endedAt` means that the wait timed out and the run has not ended.
    pub status: WaitStatus,
    /// When it started, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<i64>"))]
    pub started_at: Option<Timestamp>,
    /// When it ended, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<i64>"))]
    pub ended_at: Option<Timestamp>,
    /// Why the run did not complete; none if it completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why the answer of a completed run is incomplete; none if it is whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::StopReasonName>"))]
    pub stop_reason: Option<StopReason>,
    /// Its reply, if it has ended.
    #[serde(flatten)]
    pub reply: Option<Reply>,
}

/// The result of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum WaitStatus {
    /// The run completed.
    Ok,
    /// The run failed or was ended.
    Error,
    /// The run or the wait exceeded its time limit.
    Timeout,
}

/// Parameters of `runs.abort`: a run, or a session, which means its active run, else the first in its queue. A run that
/// has not started is cancelled. Other messages stay queued unless `clear` is set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AbortParams {
    /// The id of the run, or a unique prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The session; its active run, else its next run, is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Whether all waiting messages of the session are cancelled too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clear: bool,
}

/// Result of `runs.abort`, once it is recorded. The run ends within its limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Aborted {
    /// The id of the run.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub run_id: RunId,
    /// The key of its session.
    pub session_key: String,
    /// The messages that were cancelled with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub cancelled: Vec<MessageId>,
}

/// Parameters of `sessions.resume`: one session, or all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResumeParams {
    /// The session; without it all sessions with unfinished work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// Resume also a session that needs the user.
    #[serde(default)]
    pub force: bool,
}

/// Result of `sessions.resume`. It does not wait for the end of the runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Resumed {
    /// The sessions that were resumed or are running.
    pub session_keys: Vec<String>,
}

/// Parameters of `sessions.end`: the session to terminate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EndParams {
    /// The key of the session: a name, or agent:AGENT:NAME.
    pub session_key: String,
}

/// Result of `sessions.end`, once nothing of the session runs any more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SessionEnded {
    /// The key of the session, agent:AGENT:NAME.
    pub session_key: String,
    /// The background processes that could not be ended.
    pub left: Vec<String>,
}

/// Parameters of `sessions.cleanup`: the age from which on content is erased.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CleanupParams {
    /// Erase what is older than this many days.
    #[cfg_attr(feature = "schema", schemars(range(max = 100_000)))]
    pub days: u32,
}

/// Result of `sessions.cleanup`: how much was erased.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CleanedUp {
    /// The number of erased texts and outputs.
    pub bodies: u64,
    /// Their stored size, bytes.
    pub bytes: u64,
}

/// Parameters of `queue.cancel`: the waiting message to cancel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueueCancelParams {
    /// The id of the message.
    pub message: String,
}

/// Parameters of `queue.clear`: the session whose waiting messages are cancelled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueueClearParams {
    /// The key of the session: a name, or agent:AGENT:NAME.
    pub session_key: String,
}

/// Result of `queue.cancel` and `queue.clear`: the cancelled messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Cancelled {
    /// The key of the session, agent:AGENT:NAME.
    pub session_key: String,
    /// The messages, in the order in which they waited.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub messages: Vec<MessageId>,
}

/// Parameters of `queue.mode`: the mode for messages to a session that name none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueueModeParams {
    /// The key of the session: a name, or agent:AGENT:NAME.
    pub session_key: String,
    /// The queue mode; without it the session uses the configuration again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::QueueModeName>"))]
    pub mode: Option<engine::QueueMode>,
    /// What an interrupt does with the active run: replace it or suspend it; without it that setting stays, except that it
    /// is as configured again if there is no mode either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<names::InterruptName>"))]
    pub interrupt: Option<engine::Interrupt>,
}

/// Result of `queue.mode`: the mode that applies now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct QueueModeSet {
    /// The key of the session, agent:AGENT:NAME.
    pub session_key: String,
    /// The mode of messages that name none.
    #[cfg_attr(feature = "schema", schemars(with = "names::QueueModeName"))]
    pub mode: engine::QueueMode,
}

/// Parameters of `events.subscribe`: a session, a run, or neither for the whole home.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubscribeParams {
    /// The key of the session: a name, or agent:AGENT:NAME.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The id of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The cursor of the last received line; without it, only new events are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Send all events from the beginning of the session, the run or the home; excludes `from`.
    #[serde(default)]
    pub whole: bool,
    /// For a session or a run: send `chat` events instead of `agent` events. They contain the whole answer so far, at
    /// most every 150 ms and at the end of each run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub chat: bool,
}

/// Result of `events.subscribe`, before its first event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Subscribed {
    /// The id of the subscription, for `events.unsubscribe`.
    pub subscription: u64,
    /// The cursor at which it begins.
    pub cursor: String,
}

/// Parameters of `events.unsubscribe`: the subscription to end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UnsubscribeParams {
    /// The id that `events.subscribe` returned.
    pub subscription: u64,
}
