//! The table of methods with their parameters and results. The gateway implements them.

mod acting;
mod approvals;
mod deliveries;
mod files;
mod history;
mod holding;
mod labels;
mod profiles;
mod questions;
mod reading;
mod spending;

pub use acting::*;
pub use approvals::*;
pub use deliveries::*;
pub use files::*;
pub use history::*;
pub use holding::*;
pub use labels::*;
pub use profiles::*;
pub use questions::*;
pub use reading::*;
pub use spending::*;

#[cfg(feature = "schema")]
use schemars::{Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::scope::{Scope, Scopes};
use crate::show::{ContextStory, Explained, ReceiptStory, RunStory, Shown, StateAt, Status};

/// A method: its name, parameters and result. Conversions are functions of each method, so that they are compiled once, in
/// this crate.
pub trait Method {
    /// The name on the wire.
    const NAME: &'static str;
    /// The parameters; camelCase on the wire.
    type Params: Serialize + DeserializeOwned + Send + 'static;
    /// The result of a request that succeeded.
    type Result: Serialize + DeserializeOwned + Send + 'static;

    /// Parses the parameters of a request.
    fn params_from_json(params: Value) -> serde_json::Result<Self::Params>;
    /// Serialises the parameters of a request.
    fn params_to_json(params: Self::Params) -> Value;
    /// Parses the payload of a response.
    fn result_from_json(result: Value) -> serde_json::Result<Self::Result>;
    /// Serialises the payload of a response.
    fn result_to_json(result: Self::Result) -> Value;
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub struct MethodSpec {
    /// The name on the wire.
    pub name: &'static str,
    /// What it does, in one line, for docs/protocol.md and the schema.
    pub about: &'static str,
    /// What a client needs for it.
    pub scope: Scope,
    /// The schema of the parameters.
    #[cfg(feature = "schema")]
    pub params: fn(&mut SchemaGenerator) -> Schema,
    /// The schema of the result.
    #[cfg(feature = "schema")]
    pub result: fn(&mut SchemaGenerator) -> Schema,
}

impl MethodSpec {
    /// Whether a client with these scopes may use it. Who answers approval requests may see them.
    pub fn is_allowed(&self, scopes: Scopes) -> bool {
        let is_seen = self.scope == Scope::Read && self.name.starts_with("approvals.");
        scopes.allow(self.scope) || is_seen && scopes.allow(Scope::Approve)
    }
}

/// Defines the type of each method and the list of all methods.
macro_rules! methods {
    ($($(#[doc = $about:literal])+ $method:ident $name:literal $scope:ident: $params:ty => $result:ty;)+) => {
        $(
            $(#[doc = $about])+
            #[derive(Debug, Clone, Copy)]
            pub struct $method;

            impl Method for $method {
                const NAME: &'static str = $name;
                type Params = $params;
                type Result = $result;

                fn params_from_json(params: Value) -> serde_json::Result<$params> {
                    serde_json::from_value(params)
                }

                fn params_to_json(params: $params) -> Value {
                    serde_json::to_value(params).expect("parameters are plain data")
                }

                fn result_from_json(result: Value) -> serde_json::Result<$result> {
                    serde_json::from_value(result)
                }

                fn result_to_json(result: $result) -> Value {
                    serde_json::to_value(result).expect("a result is plain data")
                }
            }
        )+

        /// All methods, in the order of docs/protocol.md.
        pub const METHODS: &[MethodSpec] = &[$(MethodSpec {
            name: $name,
            about: concat!($($about),+),
            scope: Scope::$scope,
            #[cfg(feature = "schema")]
            params: |generator| generator.subschema_for::<$params>(),
            #[cfg(feature = "schema")]
            result: |generator| generator.subschema_for::<$result>(),
        }),+];
    };
}

methods! {
    /// Performs the handshake; the first frame of every connection.
    Connect "connect" Read: ConnectParams => HelloOk;
    /// Checks that the owner works.
    HealthGet "health" Read: NoParams => Health;
    /// Asks for the home on behalf of a service: a command that owns it drains and releases it, a service refuses.
    OwnerHandover "owner.handover" Admin: NoParams => HandoverAccepted;
    /// Shows the state of the home: its owner, its sessions by state, and what the unfinished ones wait for.
    StatusGet "status" Read: NoParams => Status;
    /// Sends a message. It has two responses: when accepted and when ended. A chat command has one.
    Agent "agent" Write: AgentParams => AgentAnswer;
    /// Waits for the end of a run. The run continues if the wait ends first.
    AgentWait "agent.wait" Read: WaitParams => Waited;
    /// Shows what became of one message.
    ReceiptsGet "receipts.get" Read: ReceiptParams => ReceiptStory;
    /// Lists all runs, or those of a session.
    RunsList "runs.list" Read: RunsListParams => RunsListed;
    /// Shows one run: its answer, its steps and their calls.
    RunsShow "runs.show" Read: RunParams => RunStory;
    /// Traces one run: every transition with its time and cause.
    RunsTrace "runs.trace" Read: RunParams => Traced;
    /// Ends a run.
    RunsAbort "runs.abort" Write: AbortParams => Aborted;
    /// Pauses a run at a checkpoint.
    RunsPause "runs.pause" Write: PauseParams => RunAsked;
    /// Resumes a paused run, or ends it as interrupted.
    RunsResume "runs.resume" Write: RunResumeParams => RunAsked;
    /// Sets a breakpoint: the run pauses when it reaches it, once.
    RunsBreak "runs.break" Write: BreakParams => RunAsked;
    /// Explains what a run is doing since when, what it waits for until when, and what can be done.
    RunsExplain "runs.explain" Read: RunParams => Explained;
    /// Shows what a run, or the last runs of a session, changed in files, as a unified diff.
    RunsDiff "runs.diff" Read: DiffParams => RunDiff;
    /// Records what background commands changed in files, if they ended while nobody owned the home. Responds when it is
    /// recorded.
    RunsRecord "runs.record" Write: NoParams => Recorded;
    /// Takes back what a run changed in files, or makes it once more. Responds when it is done.
    RunsUndo "runs.undo" Write: UndoParams => FilesUndone;
    /// Lists the agents, each with its state over its sessions.
    AgentsList "agents.list" Read: NoParams => AgentsListed;
    /// Lists all sessions with state, queue and last activity.
    SessionsList "sessions.list" Read: SessionsListParams => SessionsListed;
    /// Shows one session: its conversation, background commands, queue and run.
    SessionsShow "sessions.show" Read: SessionParams => Shown;
    /// Shows the audit log of a session: every transition with its time and cause.
    SessionsAudit "sessions.audit" Read: AuditParams => Audited;
    /// Shows the state of a session after one of its entries.
    SessionsState "sessions.state" Read: StateParams => StateAt;
    /// Shows what the next request of a session contains, with the tokens of each part; or the items that the last
    /// summary replaced.
    SessionsContext "sessions.context" Read: ContextParams => ContextStory;
    /// Compacts the history of a session. Responds when that is done, or when the active run is going to do it.
    SessionsCompact "sessions.compact" Write: CompactParams => Compacted;
    /// Undoes the last compaction of a session: the items that it replaced are in force again.
    SessionsUncompact "sessions.uncompact" Write: UncompactParams => Uncompacted;
    /// Resumes unfinished runs of one session or of all.
    SessionsResume "sessions.resume" Write: ResumeParams => Resumed;
    /// Terminates a session: its run, its queue and its background commands. Responds when all have ended.
    SessionsEnd "sessions.end" Write: EndParams => SessionEnded;
    /// Gives a session a title, or archives it.
    SessionsLabel "sessions.label" Write: LabelParams => Labelled;
    /// Deletes the conversation of a session: all of its texts and outputs are erased. Responds when they are.
    SessionsDelete "sessions.delete" Admin: DeleteParams => SessionDeleted;
    /// Permanently erases old texts and outputs that no session needs.
    SessionsCleanup "sessions.cleanup" Admin: CleanupParams => CleanedUp;
    /// Cancels a waiting message.
    QueueCancel "queue.cancel" Write: QueueCancelParams => Cancelled;
    /// Cancels all waiting messages of a session.
    QueueClear "queue.clear" Write: QueueClearParams => Cancelled;
    /// Sets the default queue mode of a session.
    QueueMode "queue.mode" Write: QueueModeParams => QueueModeSet;
    /// Shows which auth profiles are in cooldown, until when, and their order.
    ProfilesList "profiles.list" Read: NoParams => ProfilesListed;
    /// Makes a profile the first of its provider.
    ProfilesUse "profiles.use" Admin: ProfileUseParams => ProfileUsed;
    /// Clears cooldowns, so that profiles are tried again at once.
    ProfilesClear "profiles.clear" Admin: ProfileClearParams => ProfilesCleared;
    /// Shows what a session and its run have spent, and their limits.
    BudgetShow "budget.show" Read: BudgetShowParams => BudgetStory;
    /// Sets the limits of a session or its run from now on. A run that waits for budget resumes if there is enough.
    BudgetSet "budget.set" Admin: BudgetSetParams => BudgetStory;
    /// Shows the usage of the runs of the home by model, session or day.
    UsageGet "usage" Read: UsageParams => UsageStory;
    /// Lists the calls that wait for approval, or those that have waited.
    ApprovalsList "approvals.list" Read: ApprovalsListParams => ApprovalsListed;
    /// Shows one approval request, with the patterns that an approval of all such calls would remember.
    ApprovalsShow "approvals.show" Read: ApprovalParams => ApprovalShown;
    /// Lists what was allowed once and for all, with how much each grant has allowed so far.
    ApprovalsGrants "approvals.grants" Read: NoParams => GrantsListed;
    /// Revokes a grant: such calls need approval again.
    ApprovalsRevoke "approvals.revoke" Approve: RevokeParams => GrantShown;
    /// Answers an approval request.
    ApprovalsResolve "approvals.resolve" Approve: AnswerParams => NoResult;
    /// Lists the open questions of models to the user.
    QuestionsList "questions.list" Read: QuestionsListParams => QuestionsListed;
    /// Shows one question, open or closed.
    QuestionsShow "questions.show" Read: QuestionParams => QuestionShown;
    /// Answers a question, or skips it.
    QuestionsAnswer "questions.answer" Write: QuestionAnswerParams => NoResult;
    /// Lists what goes out of sessions and has not arrived.
    DeliveriesList "deliveries.list" Read: DeliveriesListParams => DeliveriesListed;
    /// Sends what did not arrive again.
    DeliveriesRetry "deliveries.retry" Write: DeliveryParams => DeliveryChanged;
    /// Gives a delivery up.
    DeliveriesDrop "deliveries.drop" Write: DeliveryParams => DeliveryChanged;
    /// Sends events from a cursor on.
    EventsSubscribe "events.subscribe" Read: SubscribeParams => Subscribed;
    /// Ends a subscription.
    EventsUnsubscribe "events.unsubscribe" Read: UnsubscribeParams => NoResult;
}
