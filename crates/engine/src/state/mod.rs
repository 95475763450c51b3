//! What a session is at one point of its journal. Plain data: `apply` folds events into it, everything else only reads.

mod account;
mod apply;
mod blocks;
mod budgets;
mod call;
mod compaction;
mod conversation;
mod counters;
mod erasure;
mod flags;
mod outbox;
mod plan;
mod process;
mod queue;
mod queue_states;
mod queue_watch;
mod repeats;
mod resources;
mod run;
mod session;
mod snapshot;
mod text_blocks;
mod title;
mod transcript;
mod undo;

pub use account::SessionAccount;
pub use blocks::{Block, BlockList, BlockOf, Blocks};
pub use call::{Call, Stage};
pub use compaction::{CompactionProgress, Flush, History};
pub use conversation::Conversation;
pub use counters::{Cooling, Counters};
pub use erasure::{Erasure, FailedErasure};
pub use flags::Flags;
pub use outbox::{Delivery, DeliveryState, Outbox};
pub use plan::ConversationPlan;
pub use process::{Process, ProcessState};
pub use queue::{LegState, Message, Queued};
pub use queue_states::QueueState;
pub use queue_watch::{MessageShows, QueueWatch};
pub use repeats::{Repeat, Repeats};
pub use resources::Resources;
pub use run::{
    Asked, Compacting, Ending, PartialCall, Pause, Phase, PrepareStage, Run, RunClock, Sent, Step, Stream,
    SummaryRequest, WrapUp,
};
pub use session::{Lifecycle, RecoveryAttempt, Session};
pub use snapshot::{InvalidSnapshot, STATE_VERSION};
pub use text_blocks::TextBlocks;
pub use title::TitleRequest;
pub use transcript::{Counted, Item, ItemAt, ItemCall, Transcript, Unpaired};
pub use undo::Undo;

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
