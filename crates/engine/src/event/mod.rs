//! Events: what was decided or seen. The only thing that is stored, and the only thing that changes state.
//!
//! An *entry* is kept and chained; *progress* is kept until the entry that seals it. The list in the middle of this file
//! is the whole vocabulary on disk: kind, payload, durability.

mod address;
mod payload;
mod trigger;
mod vocabulary;

use crate::body::{Attachment, Body};
use crate::ids::{EffectId, Hash};
use crate::settings::ToolClass;
use crate::tables::transitions::Trigger;

pub use address::Address;
pub use payload::*;
pub use vocabulary::*;

/// When an event may be reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Survives `kill -9`.
    Written,
    /// Survives power loss.
    Synced,
}

/// A stored event that cannot be read back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableEvent {
    /// A kind that this version does not know.
    #[error("unknown event kind `{kind}`: this home was written by a newer limulus")]
    Kind {
        /// The kind on disk.
        kind: String,
    },
    /// A version of a kind that this version does not know.
    #[error("event `{kind}` has version {version}; this limulus reads version {VERSION}")]
    Version {
        /// The kind on disk.
        kind: String,
        /// The version on disk.
        version: u16,
    },
    /// A payload that is not what its kind says.
    #[error("event `{kind}` does not read: {error}")]
    Payload {
        /// The kind on disk.
        kind: String,
        /// What the JSON reader said.
        error: String,
    },
}

/// The version of every payload so far.
pub const VERSION: u16 = 1;

macro_rules! events {
    ($($kind:literal $variant:ident $store:ident;)*) => {
        /// Whatever is stored: one variant a kind.
        #[derive(Debug, Clone, PartialEq)]
        #[allow(missing_docs, reason = "each variant is the payload of its name, documented there")]
        pub enum Event { $($variant($variant),)* }

        impl Event {
            /// Every kind on disk, in the order of the list.
            pub const KINDS: &'static [&'static str] = &[$($kind,)*];

            /// The kind on disk.
            pub fn kind(&self) -> &'static str {
                match self { $(Self::$variant(_) => $kind,)* }
            }

            /// Where it is kept, as the list says.
            fn store(&self) -> Store {
                match self { $(Self::$variant(_) => Store::$store,)* }
            }

            /// The effect and offset of progress; none for an entry.
            pub fn progress(&self) -> Option<(EffectId, u64)> {
                match self { $(Self::$variant(payload) => progress!($store payload),)* }
            }

            /// The payload: JSON, UTF-8.
            pub fn payload(&self) -> Vec<u8> {
                match self {
                    $(Self::$variant(payload) => serde_json::to_vec(payload).expect("payloads are plain data"),)*
                }
            }

            /// Reads a stored event.
            pub fn decode(kind: &str, version: u16, payload: &[u8]) -> Result<Self, UnreadableEvent> {
                if version != VERSION && Self::KINDS.contains(&kind) {
                    return Err(UnreadableEvent::Version { kind: kind.to_owned(), version });
                }
                let unreadable = |e: serde_json::Error| UnreadableEvent::Payload { kind: kind.to_owned(), error: e.to_string() };
                match kind {
                    $($kind => serde_json::from_slice(payload).map(Self::$variant).map_err(unreadable),)*
                    _ => Err(UnreadableEvent::Kind { kind: kind.to_owned() }),
                }
            }
        }

        $(impl From<$variant> for Event {
            fn from(payload: $variant) -> Self {
                Self::$variant(payload)
            }
        })*
    };
}

macro_rules! progress {
    (Progress $payload:ident) => {
        Some(($payload.effect, $payload.offset))
    };
    ($entry:ident $payload:ident) => {{
        let _ = $payload;
        None
    }};
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Store {
    Synced,
    Written,
    Progress,
}

events! {
    "created" Created Synced;
    "forked" Forked Synced;
    "opened" Opened Synced;
    "closed" Closed Synced;
    "message_accepted" MessageAccepted Synced;
    "message_settled" MessageSettled Synced;
    "gathered" Gathered Synced;
    "run_started" RunStarted Synced;
    "request_sent" RequestSent Synced;
    "message_sealed" MessageSealed Synced;
    "call_asked" CallAsked Synced;
    "ask_answered" AskAnswered Synced;
    "ask_expired" AskExpired Synced;
    "answer_refused" AnswerRefused Synced;
    "call_started" CallStarted Synced;
    "call_ending" CallEnding Synced;
    "call_settled" CallSettled Synced;
    "compacted" Compacted Synced;
    "results_cut" ResultsTruncated Synced;
    "uncompacted" Uncompacted Synced;
    "compaction_asked" CompactionAsked Synced;
    "noted" Noted Synced;
    "budget_set" BudgetSet Synced;
    "wait_began" WaitBegan Synced;
    "wait_ended" WaitEnded Synced;
    "retry_scheduled" RetryScheduled Synced;
    "candidate_cooled" CandidateCooldownSet Synced;
    "candidate_cleared" CandidateCooldownLifted Synced;
    "profile_cooled" ProfileCooldownSet Synced;
    "profile_preferred" ProfilePreferred Synced;
    "profile_cleared" ProfileCooldownLifted Synced;
    "allowance_set" AllowanceSet Synced;
    "grant_given" GrantGiven Synced;
    "grant_revoked" GrantRevoked Synced;
    "ending_set" EndingSet Synced;
    "run_ended" RunEnded Synced;
    "breakpoint_set" BreakpointSet Synced;
    "reset" Reset Synced;
    "paused" Paused Synced;
    "resumed" Resumed Synced;
    "lifecycle_changed" LifecycleChanged Synced;
    "override_set" OverrideSet Synced;
    "session_labelled" SessionLabelled Synced;
    "delivery_wanted" DeliveryWanted Synced;
    "delivery_started" DeliveryStarted Synced;
    "delivery_failed" DeliveryFailed Synced;
    "delivery_ended" DeliveryEnded Synced;
    "process_adopted" ProcessAdopted Synced;
    "process_ending" ProcessEnding Synced;
    "process_ended" ProcessEnded Synced;
    "process_forgotten" ProcessForgotten Synced;
    "files_changed" FilesChanged Synced;
    "undo_started" UndoStarted Synced;
    "undo_ended" UndoEnded Synced;
    "erasure_ended" ErasureEnded Synced;
    "title_asked" TitleAsked Synced;
    "step_begun" StepBegun Written;
    "request_opened" RequestOpened Written;
    "stream_cut" StreamInterrupted Written;
    "text_struck" TextRetracted Written;
    "call_checked" CallChecked Written;
    "call_lost" CallLost Written;
    "call_found" CallFound Written;
    "image_made" ImageMade Written;
    "budget_asked" BudgetAsked Written;
    "compaction_begun" CompactionBegun Written;
    "title_ended" TitleEnded Written;
    "plan_set" PlanSet Written;
    "compaction_failed" CompactionFailed Written;
    "failed" Failed Written;
    "reported" Reported Written;
    "ledger_begun" LedgerBegun Written;
    "profile_answered" ProfileAnswered Written;
    "thinking_lowered" ThinkingLowered Written;
    "text_added" TextAdded Progress;
    "reasoning_added" ReasoningAdded Progress;
    "call_part_added" CallPartAdded Progress;
    "block_signed" BlockSigned Progress;
    "output_added" OutputAdded Progress;
}

impl Event {
    /// The requirement that will need this event, if no machine decides it yet.
    pub fn reserved(&self) -> Option<&'static str> {
        if let Self::WaitBegan(WaitBegan { on, .. }) | Self::WaitEnded(WaitEnded { on }) = self {
            return on.reserved();
        }
        if let Self::LifecycleChanged(LifecycleChanged { cause, .. }) = self {
            return cause.reserved();
        }
        self.trigger().and_then(Trigger::reserved)
    }

    /// The durability that it needs before anyone is notified.
    ///
    /// A message with calls is not final: whatever follows from it that must not be lost is synced itself, and the message
    /// with it. If a power loss takes the message, then only read-only calls went with it, and the model is asked again.
    pub fn durability(&self) -> Durability {
        match (self.store(), self) {
            (
                _,
                Self::CallStarted(CallStarted { class: ToolClass::ReadOnly, .. })
                | Self::MessageSealed(MessageSealed { next: Next::Calls, .. }),
            )
            | (Store::Written | Store::Progress, _) => Durability::Written,
            (Store::Synced, _) => Durability::Synced,
        }
    }

    /// The effect whose progress this entry seals, including its earlier tries ([`EffectId::covers`]): from now on the
    /// entry's bodies hold what is kept of that progress.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only requests and calls have progress; these are their ends")]
    pub fn seals(&self) -> Option<EffectId> {
        match self {
            Self::MessageSealed(e) => Some(e.request),
            Self::StreamInterrupted(e) => Some(e.request),
            Self::Failed(e) => e.request,
            Self::CallSettled(e) => e.effect,
            _ => None,
        }
    }

    /// The bodies that this event names.
    #[expect(clippy::too_many_lines, reason = "a line for each kind of event")]
    pub fn bodies(&self) -> Vec<Body> {
        match self {
            Self::MessageAccepted(e) => std::iter::once(e.body).chain(all(&e.attachments)).collect(),
            Self::ImageMade(e) => vec![e.image.body],
            Self::StepBegun(e) => vec![e.prompt],
            Self::StreamInterrupted(e) => e.text.into_iter().collect(),
            Self::Failed(e) => e.text.into_iter().collect(),
            Self::MessageSealed(e) => e.bodies(),
            Self::CallSettled(e) => std::iter::once(e.output).chain(e.whole).chain(all(&e.attachments)).collect(),
            Self::FilesChanged(e) => e.diff.iter().map(|diff| diff.text).collect(),
            Self::CompactionBegun(e) => e.focus.into_iter().collect(),
            Self::CompactionAsked(e) => e.focus.into_iter().collect(),
            Self::Compacted(e) => vec![e.summary],
            Self::ResultsTruncated(e) => e.results.iter().map(|result| result.output).collect(),
            Self::Uncompacted(e) => e.restored.iter().flat_map(|of| of.item.bodies()).copied().collect(),
            Self::Noted(e) => vec![e.body],
            Self::RunEnded(e) => e.text.clone(),
            Self::UndoStarted(e) => vec![e.plan],
            Self::SessionLabelled(e) => e.title.into_iter().collect(),
            Self::TitleEnded(e) => e.text.into_iter().collect(),
            Self::DeliveryWanted(e) => e.text.into_iter().collect(),
            Self::PlanSet(e) => std::iter::once(e.items).chain(e.reminder).collect(),
            Self::AskAnswered(e) => e.edited.iter().map(|edited| edited.body).chain(e.answer).collect(),
            Self::Created(_)
            | Self::Forked(_)
            | Self::Opened(_)
            | Self::Closed(_)
            | Self::MessageSettled(_)
            | Self::Gathered(_)
            | Self::RunStarted(_)
            | Self::RequestSent(_)
            | Self::RequestOpened(_)
            | Self::TextRetracted(_)
            | Self::CallChecked(_)
            | Self::CallAsked(_)
            | Self::AskExpired(_)
            | Self::AnswerRefused(_)
            | Self::CallStarted(_)
            | Self::CallEnding(_)
            | Self::CallLost(_)
            | Self::CallFound(_)
            | Self::CompactionFailed(_)
            | Self::BudgetSet(_)
            | Self::BudgetAsked(_)
            | Self::WaitBegan(_)
            | Self::WaitEnded(_)
            | Self::RetryScheduled(_)
            | Self::CandidateCooldownSet(_)
            | Self::CandidateCooldownLifted(_)
            | Self::Reported(_)
            | Self::EndingSet(_)
            | Self::BreakpointSet(_)
            | Self::Reset(_)
            | Self::Paused(_)
            | Self::Resumed(_)
            | Self::LifecycleChanged(_)
            | Self::OverrideSet(_)
            | Self::DeliveryStarted(_)
            | Self::DeliveryFailed(_)
            | Self::DeliveryEnded(_)
            | Self::ProcessAdopted(_)
            | Self::ProcessEnding(_)
            | Self::ProcessEnded(_)
            | Self::ProcessForgotten(_)
            | Self::UndoEnded(_)
            | Self::ErasureEnded(_)
            | Self::TitleAsked(_)
            | Self::LedgerBegun(_)
            | Self::ProfileCooldownSet(_)
            | Self::ProfileAnswered(_)
            | Self::ThinkingLowered(_)
            | Self::ProfilePreferred(_)
            | Self::ProfileCooldownLifted(_)
            | Self::AllowanceSet(_)
            | Self::GrantGiven(_)
            | Self::GrantRevoked(_)
            | Self::TextAdded(_)
            | Self::ReasoningAdded(_)
            | Self::CallPartAdded(_)
            | Self::BlockSigned(_)
            | Self::OutputAdded(_) => vec![],
        }
    }

    /// The hashes of all content that must be kept for this event: its bodies, and the settings that it names.
    pub fn references(&self) -> Vec<Hash> {
        let settings = if let Self::RunStarted(e) = self { Some(e.settings) } else { None };
        self.bodies().iter().map(|body| body.hash).chain(settings).collect()
    }
}

fn all(attachments: &[Attachment]) -> Vec<Body> {
    attachments.iter().map(|a| a.body).collect()
}

impl MessageSealed {
    fn bodies(&self) -> Vec<Body> {
        let calls = self.calls.iter().flat_map(|call| [Some(call.arguments), call.answer]);
        let images = self.images.iter().map(|image| image.body);
        [self.text, self.reasoning, self.blocks].into_iter().chain(calls).flatten().chain(images).collect()
    }
}
