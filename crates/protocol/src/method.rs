//! The table of methods: what can be asked for, what each takes and gives. What each does is in the gateway.

mod acting;
mod history;
mod holding;
mod profiles;
mod reading;
mod spending;

pub use acting::*;
pub use history::*;
pub use holding::*;
pub use profiles::*;
pub use reading::*;
pub use spending::*;

#[cfg(feature = "schema")]
use schemars::{Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::show::{ContextStory, Explained, ReceiptStory, RunStory, Shown, StateAt, Status};

/// A method: its name, what it takes, what it gives.
pub trait Method {
    /// Its name on the wire.
    const NAME: &'static str;
    /// What it takes.
    type Params: Serialize + DeserializeOwned + Send + 'static;
    /// What it gives.
    type Result: Serialize + DeserializeOwned + Send + 'static;
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub struct MethodSpec {
    /// Its name on the wire.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// The schema of what it takes.
    #[cfg(feature = "schema")]
    pub params: fn(&mut SchemaGenerator) -> Schema,
    /// The schema of what it gives.
    #[cfg(feature = "schema")]
    pub result: fn(&mut SchemaGenerator) -> Schema,
}

/// Makes the type of each method and the one list of all.
macro_rules! methods {
    ($($(#[doc = $about:literal])+ $method:ident $name:literal: $params:ty => $result:ty;)+) => {
        $(
            $(#[doc = $about])+
            #[derive(Debug, Clone, Copy)]
            pub struct $method;

            impl Method for $method {
                const NAME: &'static str = $name;
                type Params = $params;
                type Result = $result;
            }
        )+

        /// Every method.
        pub const METHODS: &[MethodSpec] = &[$(MethodSpec {
            name: $name,
            about: concat!($($about),+),
            #[cfg(feature = "schema")]
            params: |generator| generator.subschema_for::<$params>(),
            #[cfg(feature = "schema")]
            result: |generator| generator.subschema_for::<$result>(),
        }),+];
    };
}

methods! {
    /// The handshake: the first frame of every connection.
    Connect "connect": ConnectParams => HelloOk;
    /// Whether the owner works.
    HealthGet "health": NoParams => Health;
    /// What the home is doing: its owner, its sessions by state, what the unfinished ones wait for.
    StatusGet "status": NoParams => Status;
    /// Sends a message. Answered twice: accepted, and ended. A chat command is answered once.
    Agent "agent": AgentParams => AgentAnswer;
    /// Waits for a run's end; the run goes on whatever becomes of the waiting.
    AgentWait "agent.wait": WaitParams => Waited;
    /// What became of one message.
    ReceiptsGet "receipts.get": ReceiptParams => ReceiptStory;
    /// All runs, or those of a session.
    RunsList "runs.list": RunsListParams => RunsListed;
    /// One run: its answer, its steps, their calls.
    RunsShow "runs.show": RunParams => RunStory;
    /// The story of one run: every transition with its time and cause.
    RunsTrace "runs.trace": RunParams => Traced;
    /// Ends a run.
    RunsAbort "runs.abort": AbortParams => Aborted;
    /// Holds a run where it is, at a checkpoint.
    RunsPause "runs.pause": PauseParams => RunAsked;
    /// Lets a run go on that is held.
    RunsResume "runs.resume": RunResumeParams => RunAsked;
    /// Lets a run hold by itself when it comes to a place.
    RunsBreak "runs.break": BreakParams => RunAsked;
    /// What a run is doing, since when, what it waits for and until when, and what can be done.
    RunsExplain "runs.explain": RunParams => Explained;
    /// All sessions: state, queue, last activity.
    SessionsList "sessions.list": SessionsListParams => SessionsListed;
    /// One session: its conversation, what it has in the background, its queue, its run.
    SessionsShow "sessions.show": SessionParams => Shown;
    /// The audit log of a session: every transition with its time and cause.
    SessionsAudit "sessions.audit": AuditParams => Audited;
    /// The state of a session after one of its entries.
    SessionsState "sessions.state": StateParams => StateAt;
    /// What the model sees of a session, with what each part of it costs; or what its last summary stands for.
    SessionsContext "sessions.context": ContextParams => ContextStory;
    /// Makes the history of a session shorter. Answered when that is done, or when the run under way is to do it.
    SessionsCompact "sessions.compact": CompactParams => Compacted;
    /// Takes the last summary of a session back: what it stood for is in force again.
    SessionsUncompact "sessions.uncompact": UncompactParams => Uncompacted;
    /// Takes up what is not finished: a session, or all.
    SessionsResume "sessions.resume": ResumeParams => Resumed;
    /// Ends a session for good: its run, its queue, all that it has in the background. Answered when that is over.
    SessionsEnd "sessions.end": EndParams => SessionEnded;
    /// Erases texts and outputs that are old and that no session needs, for good.
    SessionsCleanup "sessions.cleanup": CleanupParams => CleanedUp;
    /// Takes back a message that waits.
    QueueCancel "queue.cancel": QueueCancelParams => Cancelled;
    /// Takes back all that waits in a session.
    QueueClear "queue.clear": QueueClearParams => Cancelled;
    /// Says how the messages of a session are queued that do not say.
    QueueMode "queue.mode": QueueModeParams => QueueModeSet;
    /// What the sessions of the home know of profiles: which are left alone and until when, which comes first.
    ProfilesList "profiles.list": NoParams => ProfilesListed;
    /// Puts a profile first among those of its provider.
    ProfilesUse "profiles.use": ProfileUseParams => ProfileUsed;
    /// Lets profiles be asked again at once, whatever failed.
    ProfilesClear "profiles.clear": ProfileClearParams => ProfilesCleared;
    /// What a session and its run have spent, and what they may spend.
    BudgetShow "budget.show": BudgetShowParams => BudgetStory;
    /// Says what a session or its run may spend, from now on. A run that waits for more goes on where there is.
    BudgetSet "budget.set": BudgetSetParams => BudgetStory;
    /// What the runs of the home have taken, by model, session or day.
    UsageGet "usage": UsageParams => UsageStory;
    /// Answers a question.
    ApprovalsResolve "approvals.resolve": AnswerParams => NoResult;
    /// Tells what happens, from a place on.
    EventsSubscribe "events.subscribe": SubscribeParams => Subscribed;
    /// Tells no more of it.
    EventsUnsubscribe "events.unsubscribe": UnsubscribeParams => NoResult;
}
