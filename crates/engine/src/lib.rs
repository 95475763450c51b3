//! The agent loop as a pure state machine: inputs in, events and effects out. No async, clock, randomness or I/O:
//! nothing here waits, asks the system, or has an order that varies. Start with `tables/`, then `machine/`, then
//! `pump.rs`.

#![warn(clippy::wildcard_enum_match_arm)]

mod approval;
mod batch;
mod body;
mod budget_pool;
mod decide;
mod derived;
mod effect;
mod event;
mod failure;
mod ids;
mod input;
mod invariants;
mod lanes;
mod launching;
mod ledger;
mod machine;
pub mod mutants;
mod plan;
pub mod policy;
mod prompt;
mod pump;
mod queue;
pub mod reply;
mod sandbox;
mod settings;
mod state;
pub mod tables;
mod views;

pub use approval::{
    AnswerForm, ApprovalGrant, Approvals, Decision, EditedCall, NOBODY_TO_ASK, OnExpiry, Unattended, UserQuestion,
};
pub use batch::{ApprovalRow, Batch, ReceiptRow, Record, RunRow, SessionRow, SessionTotals, Views};
pub use body::{Attached, Attachment, Body, BodyKind, Content, estimate_tokens, text_tokens};
pub use budget_pool::{BudgetPool, BudgetRequest, Grant, SharedBudget, SharedScope};
pub use decide::Decide;
pub use derived::Derived;
pub use effect::Effect;
pub use event::*;
pub use failure::{Failure, FailureClass};
pub use ids::{
    BranchId, CallId, EffectId, EffectKind, Epoch, Hash, InvalidId, MessageId, Moment, Position, RunId, Seq, SessionId,
    Timestamp,
};
pub use input::{
    Acknowledgement, ChangedFile, ChangedLines, Command, CompactionResult, DeliveryFault, Erased, Input, Outgoing,
    Override, Part, Receipt, Refusal, RepairPolicy, Report, SenderOptions, ToolResult,
};
pub use invariants::InvariantViolation;
pub use lanes::{Bound, Lane, LaneAnswer, LaneBounds, LaneRequest, LaneWait, Lanes};
pub use ledger::{
    Account, Cooldown, CooldownLifted, CooldownSet, FailureReport, Ledger, LedgerAnswer, LedgerInput, LedgerUpdate,
    LoweredLevel, ProfileOrder,
};
pub use machine::{IllegalEdge, Lineage, LineageSegment, Machine, RecoverError, SettingsSource, StateChange};
pub use machine::{failover, timers};
pub use plan::{PlanItem, PlanStatus, plan_items};
pub use prompt::{PROMPT_BYTES, PromptProfile, PromptSettings, check_prompt};
pub use pump::{Do, Pump};
pub use queue::{DropPolicy, Interrupt, QueueSettings};
pub use reply::{BlockBreak, BlockMode, BlockSettings, ReasoningMode, ReplyRoute, ReplySettings};
pub use sandbox::{CopyAct, Sandbox, SandboxMode, SandboxRoot, WorkspaceCopy};
pub use settings::{
    Candidate, Compaction, Limits, Policy, Price, ProviderAddress, Recover, ResumeMode, Sampling, Settings, Thinking,
    Titles, ToolClass, ToolSpec,
};
pub use state::{
    Asked, Block, BlockList, BlockOf, Blocks, Call, Compacting, CompactionProgress, Conversation, ConversationPlan,
    Cooling, Counted, Counters, Delivery, DeliveryState, Ending, Erasure, FailedErasure, Flags, Flush, History,
    InvalidSnapshot, Item, ItemAt, ItemCall, LegState, Lifecycle, Message, MessageShows, Outbox, PartialCall, Pause,
    Phase, PrepareStage, Process, ProcessState, QueueState, QueueWatch, Queued, RecoveryAttempt, Repeat, Repeats,
    Resources, Run, RunClock, STATE_VERSION, Sent, Session, SessionAccount, Stage, Step, Stream, SummaryRequest,
    TextBlocks, TitleRequest, Transcript, Undo, Unpaired, WrapUp,
};
pub use tables::budget::{
    Allowance, AtLimit, Budget, Charged, Limit, Reserve, Reserves, Resource, Scope, ScopeBudget, Spent,
};
pub use tables::compaction::{CompactionStep, Window};
pub use views::Touched;
