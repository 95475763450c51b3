//! The values that events are made of. Their names are on disk and on the wire.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::approval::Unattended;
use crate::body::Body;
use crate::ids::{CallId, Hash, Timestamp};
use crate::reply::ReasoningMode;
use crate::sandbox::{SandboxMode, SandboxRoot};
use crate::settings::{Sampling, Thinking, ToolClass};
use crate::tables::transitions::RunState;

/// The queue mode of a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueMode {
    /// Into the active run, at its next boundary.
    Steer,
    /// After the active run.
    #[default]
    Followup,
    /// Collected with others into one followup.
    Collect,
    /// Both steer and followup.
    SteerBacklog,
    /// Instead of the active run.
    Interrupt,
}

/// What decided the queue mode of a message (R30): the first of these that has one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModeSource {
    /// Its sender.
    Message,
    /// Its session.
    Session,
    /// The channel that it came from. Reserved: no channel has a mode of its own yet.
    Channel,
    /// Its agent.
    Agent,
    /// The configuration.
    Configuration,
    /// Nobody: the mode is the built-in default.
    #[default]
    BuiltIn,
}

impl ModeSource {
    /// The source for people.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Message => "its sender",
            Self::Session => "its session",
            Self::Channel => "its channel",
            Self::Agent => "its agent",
            Self::Configuration => "the configuration",
            Self::BuiltIn => "the built-in default",
        }
    }
}

/// Where a message is put when it is accepted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueuePlace {
    /// Behind what waits, for a run of its own.
    #[default]
    Back,
    /// Behind what waits, for the next request of the active or next run.
    Steer,
    /// Behind what waits, to be one run with what comes soon after it.
    Gather,
    /// Both a steer and a followup.
    Both,
    /// Before what waits, behind earlier interrupts.
    Front,
}

/// A part of a message that waits and ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Leg {
    /// To be in the next request of a run.
    Steer,
    /// To start a run.
    Followup,
    /// To be one run with others.
    Collect,
}

/// What paused a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseCause {
    /// The user paused it.
    #[default]
    User,
    /// A message that interrupts, and waits at the head of the queue.
    Interrupt,
    /// A breakpoint of the run.
    Breakpoint,
}

/// Where a session is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    /// In the list of sessions.
    #[default]
    Listed,
    /// Only in the list of archived sessions.
    Archived,
    /// In no list: its conversation was deleted.
    Deleted,
}

impl Visibility {
    /// Whether the session is in the list.
    pub fn is_listed(&self) -> bool {
        *self == Self::Listed
    }
}

/// A breakpoint of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Breakpoint {
    /// Before a call of this tool starts.
    BeforeTool(String),
    /// Before a call of any of these tools starts.
    BeforeAny(Vec<String>),
    /// When it enters this state.
    OnState(RunState),
}

/// The overrides of one message for its run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Overrides {
    /// `PROVIDER/MODEL` instead of the agent's.
    pub model: Option<String>,
    /// The absolute path of the folder to work in: where the message was sent from, whoever resumes its run.
    pub workspace: Option<String>,
    /// The run's limit, milliseconds.
    pub deadline_ms: Option<u64>,
    /// The thinking level of its models; none = as the session, else the configuration, says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking>,
    /// The most tokens of an answer; none = as the model may. An answer that is cut there is not continued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output: Option<NonZeroU32>,
    /// How its models choose their words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Box<Sampling>>,
    /// Every call that would need approval is allowed.
    pub allow: bool,
    /// The sandbox of its commands; none = as configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxMode>,
    /// Where its run works; none = as configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<SandboxRoot>,
    /// What happens to its calls that need approval; none = as configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unattended: Option<Unattended>,
    /// The message is no question: its run compacts the history, and keeps above all what the message names.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub compact: bool,
    /// The classes and names of tools before whose first call its run stops.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop_before: Vec<String>,
    /// Its run only reads, and answers with a plan.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub plan: bool,
    /// The JSON schema of its answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Box<serde_json::Value>>,
    /// What stands in its system prompt for who the agent is and how it works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<Box<str>>,
    /// What is added to its system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub append_system: Option<Box<str>>,
    /// Whether its reply names the calls of its run; none = as the session says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verbose: Option<bool>,
    /// Whether its reply has the reasoning of the model; none = as configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<ReasoningMode>,
    /// The skill of the user with whose name the message began: rules of the policy may count for its run alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill: Option<Box<str>>,
}

/// Why an answer to an approval request or a question was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerRefusal {
    /// The call does not ask: it was answered, its time was over, or it has ended.
    Closed,
    /// It is not for what the call asks.
    Fingerprint,
    /// A command of a call has given it, which is not the user.
    InCall,
}

/// What a delivery brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryKind {
    /// The reply of a run that has ended.
    Reply,
    /// A part of the answer of a run, as it comes.
    Block,
    /// A message that the model sends by a tool.
    Message,
}

/// How a short block waits for another one, to go out with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShortBlock {
    /// Until when it waits.
    pub until: Timestamp,
    /// The bytes that the blocks may have together.
    pub most: u32,
}

impl DeliveryKind {
    /// The name on disk and on the screen.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reply => "reply",
            Self::Block => "block",
            Self::Message => "message",
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The model's answer is complete.
    Completed,
    /// It failed; the failure says why.
    Failed,
    /// The user ended it.
    Aborted,
    /// Another message replaced it.
    Interrupted,
    /// The run's own limit.
    TimedOut,
    /// It made no progress for too long.
    Stalled,
}

impl Outcome {
    /// The name on disk and on the screen.
    pub fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Aborted => "aborted",
            Self::Interrupted => "interrupted",
            Self::TimedOut => "timed_out",
            Self::Stalled => "stalled",
        }
    }
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// It succeeded.
    Done,
    /// It failed; its output says why.
    Failed,
    /// It was not allowed.
    Denied,
    /// It never started: a message, an abort or an interruption came first.
    Skipped,
    /// It ran past its limit and was ended.
    TimedOut,
    /// It was ended with its run.
    Aborted,
    /// A crash interrupted it, and its outcome is unknown.
    Interrupted,
    /// It could not be ended within the limit.
    Unended,
}

/// The state of one message (design: receipt state).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptState {
    /// Accepted and queued.
    Queued,
    /// Its run has started.
    Started,
    /// Taken by the active run.
    Steered,
    /// A request that holds it has started.
    Delivered,
    /// Became a part of another message's run.
    Merged,
    /// Dropped from a full queue.
    Dropped,
    /// Withdrawn by its sender.
    Cancelled,
    /// Refused before its run started.
    Refused,
    /// Its run has ended.
    Ended,
}

impl ReceiptState {
    /// Whether the state is final.
    pub fn is_over(self) -> bool {
        match self {
            Self::Queued | Self::Started | Self::Steered | Self::Delivered | Self::Merged => false,
            Self::Dropped | Self::Cancelled | Self::Refused | Self::Ended => true,
        }
    }
}

/// Why a stream was interrupted. It decides what happens to the kept text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterruptCause {
    /// The process that read it crashed.
    Crash,
    /// The process that read it shut down in order.
    Shutdown,
    /// The user paused the run.
    Pause,
    /// A steer that interrupts.
    Steer,
    /// Another message replaces the run.
    Interrupt,
    /// The user ended the run.
    Abort,
    /// The run's own limit.
    Deadline,
}

/// What a sealed message leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Next {
    /// Its calls are executed.
    Calls,
    /// The run ends.
    Finish,
    /// A waiting steer joins the next request.
    Steer,
    /// It was cut at its output limit: the next request continues it.
    Continue,
    /// Nothing: it is the kept part of an interrupted or failed stream.
    Cut,
}

/// Why an answer ended although the model was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It reached its output limit, or the end of the model's window.
    Length,
    /// A content filter of the provider stopped it.
    ContentFilter,
}

impl StopReason {
    /// What happened to the answer, as a clause.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Length => "it reached the output limit of the model (`max_output`)",
            Self::ContentFilter => "a content filter of the provider stopped it",
        }
    }
}

/// Tokens of one request, or of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Prompt tokens that no cache had.
    pub input: u64,
    /// Read from the provider's cache.
    pub cached: u64,
    /// Written to the provider's cache.
    pub cache_written: u64,
    /// Written by the model, reasoning included.
    pub output: u64,
    /// The part of `output` that is reasoning.
    pub reasoning: u64,
}

impl Usage {
    /// Tokens of the whole request.
    pub fn prompt(&self) -> u64 {
        self.input.saturating_add(self.cached).saturating_add(self.cache_written)
    }

    /// Adds another's figures to these. A provider may have said anything.
    pub fn add(&mut self, other: &Self) {
        let add = |figure: &mut u64, more: u64| *figure = figure.saturating_add(more);
        add(&mut self.input, other.input);
        add(&mut self.cached, other.cached);
        add(&mut self.cache_written, other.cache_written);
        add(&mut self.output, other.output);
        add(&mut self.reasoning, other.reasoning);
    }

    /// Prompt tokens that no cache had, whether it has them now or not.
    pub fn read_anew(&self) -> u64 {
        self.input.saturating_add(self.cache_written)
    }
}

/// A call as the model asked for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct SealedCall {
    pub id: CallId,
    /// The provider's id, for that provider.
    pub provider_id: String,
    /// The tool's name as the model wrote it.
    pub tool: String,
    /// How it may be repeated; `Once` for a tool that does not exist.
    pub class: ToolClass,
    /// The arguments, as written.
    pub arguments: Body,
    /// The result that it was sealed with, if it will never run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Body>,
}

/// Why the history is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionCause {
    /// The next request would leave too little space for the answer.
    Threshold,
    /// The provider said that a request is too long.
    Overflow,
    /// A compaction step failed or freed too little.
    Again,
    /// The user asked for it.
    Command,
}

/// The subject of a note from limulus to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// The same call returned the same result again and again.
    Repeats,
    /// A compaction is near: the model is to write down what must not be lost.
    MemoryFlush,
    /// A budget is nearly used up.
    WrapUp,
    /// A budget is used up: the model is to report what was done.
    Closing,
    /// The budget was raised: the model is to continue.
    Raised,
    /// The answer does not fit the schema of the run: the model is to answer again.
    SchemaMismatch,
    /// A plan with open steps, which the model would not see any more.
    Plan,
    /// The date and the like, which have changed or which the model would not see any more.
    Facts,
}

/// A long result of a call, truncated to its beginning and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct TruncatedResult {
    pub call: CallId,
    /// What the model receives of it from now on.
    pub output: Body,
}

/// What a run waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitFor {
    /// Approval of a call.
    Approval,
    /// The user's answer to a question of the model.
    Answer,
    /// Its children. Reserved for R67.
    Children,
    /// The soonest reset of a quota.
    Quota,
    /// A larger budget, or the next day.
    Budget,
    /// The next try of a request.
    Retry,
    /// A slot of its lane, which it gave up while it waited for something else.
    Lane,
}

impl WaitFor {
    /// The requirement that will need this wait, if no machine begins it yet.
    pub fn reserved(self) -> Option<&'static str> {
        match self {
            Self::Children => Some("R67"),
            Self::Approval | Self::Answer | Self::Quota | Self::Budget | Self::Retry | Self::Lane => None,
        }
    }

    /// Whether a run that waits for this gives up its slot of the lane. A retry comes within `BACKOFF_MOST_MS`.
    pub fn frees_lane(self) -> bool {
        match self {
            Self::Approval | Self::Answer | Self::Children | Self::Quota | Self::Budget => true,
            Self::Retry | Self::Lane => false,
        }
    }
}

/// Why a running call is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndingCause {
    /// The call exceeded its time limit.
    Limit,
    /// The run of the call ends.
    Run,
}

/// Why a process is ended by the session that holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessCause {
    /// The process exceeded its time limit.
    Limit,
    /// The session terminates.
    Session,
}

/// The result of looking up a call that a crash interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// It never started, and never will by the old process.
    NeverStarted,
    /// It is still running.
    Running,
    /// It has ended; its result is known.
    Ended,
    /// Its outcome cannot be found out.
    Unknown,
}

/// What kind of thing a path names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A regular file.
    #[default]
    File,
    /// A symbolic link; its content is its target.
    Link,
    /// A folder.
    Folder,
}

/// What is at a path, without its permissions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct FileContent {
    #[serde(default, skip_serializing_if = "is_file")]
    pub kind: FileKind,
    /// The hash of its content; none for a folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<Hash>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_file(kind: &FileKind) -> bool {
    *kind == FileKind::File
}

/// The permission bits of a path before and after a change; none where nothing was there, and for a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Modes {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u32>,
}

/// What changed in the lines of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineDiff {
    /// The number of added lines.
    pub added: u64,
    /// The number of removed lines.
    pub removed: u64,
    /// The beginning of the unified diff.
    pub text: Body,
}

/// Why a change cannot be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotKept {
    /// The file is larger than the largest whose content is kept.
    TooLarge,
    /// A rule such as one of `.gitignore` leaves it out.
    Ignored,
    /// The workspace has more files, or more bytes, than are kept of one.
    PastLimits,
    /// It is a pipe, a socket or a device.
    Special,
    /// It cannot be read, or belongs to limulus itself.
    Unreadable,
    /// It changed again and again while it was read.
    Unstable,
    /// Its name is not UTF-8; the path has U+FFFD in its place.
    Name,
    /// The whole workspace: it is the home folder of the user, or a folder above it.
    HomeFolder,
    /// The whole workspace: it has more files and folders than are compared.
    TooManyFiles,
    /// The whole workspace: reading it takes too long.
    TooSlow,
    /// The whole workspace: the call changed more than is recorded of one call.
    TooManyChanges,
    /// The whole workspace: what commands change is not recorded, by the configuration.
    SwitchedOff,
    /// The whole workspace: its contents before the command could not be kept, or are lost.
    NotRecorded,
}

impl NotKept {
    /// Whether it is said of a whole workspace; the path is then `.`.
    pub fn is_of_workspace(self) -> bool {
        match self {
            Self::TooLarge
            | Self::Ignored
            | Self::PastLimits
            | Self::Special
            | Self::Unreadable
            | Self::Unstable
            | Self::Name => false,
            Self::HomeFolder
            | Self::TooManyFiles
            | Self::TooSlow
            | Self::TooManyChanges
            | Self::SwitchedOff
            | Self::NotRecorded => true,
        }
    }
}

/// Who made a change that was found by comparing the workspace before and after a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attribution {
    /// The call, as far as can be known.
    #[default]
    Call,
    /// The call, or another run that worked in the folder at the same time.
    AnotherRun,
    /// Probably somebody else: it was made before the command started or after it ended.
    Outside,
}

/// A file that an undo left as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftFile {
    /// Its path, as in the plan.
    pub path: String,
    /// Why, for a person.
    pub why: String,
}
