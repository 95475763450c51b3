//! Requests to models: how each is sent, what streams in, how it ends, which candidate is next.

use serde::{Deserialize, Serialize};

use super::{is_default, payload};
use crate::body::{Attachment, Body};
use crate::event::{InterruptCause, Next, SealedCall, StopReason, Usage};
use crate::failure::{Failure, FailureClass};
use crate::ids::{EffectId, Epoch, Timestamp};
use crate::settings::Thinking;
use crate::state::BlockOf;
use crate::tables::budget::Spent;
use crate::tables::compaction::CompactionStep;

payload! {
    /// A request is decided; it begins when this is synced.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    RequestSent {
        request: EffectId,
        /// The process that sends it.
        epoch: Epoch,
        /// The place of its candidate in the settings.
        candidate: u32,
        /// How many items of the transcript it holds.
        items: u32,
        /// The estimated tokens of those items, with the system prompt and the tools.
        #[serde(default, skip_serializing_if = "is_default")]
        tokens: u64,
        /// Whether it is a probe: its candidate has failed and not answered since.
        #[serde(default, skip_serializing_if = "is_default")]
        probe: bool,
        /// The reservation for it, if a budget is limited. It counts as spent until the usage is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reserved: Option<Spent>,
    }
    /// Its first byte came.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    RequestOpened {
        request: EffectId,
    }
    /// Text streamed in.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    TextAdded {
        /// The request that streams.
        effect: EffectId,
        /// Bytes of this effect's output before it.
        offset: u64,
        text: String,
    }
    /// Reasoning streamed in.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    ReasoningAdded {
        /// The request that streams.
        effect: EffectId,
        /// Bytes of this effect's output before it.
        offset: u64,
        text: String,
    }
    /// A part of a call streamed in.
    CallPartAdded {
        /// The request that streams.
        effect: EffectId,
        /// Bytes of this effect's output before it.
        offset: u64,
        /// The call's place in the answer.
        index: u32,
        /// The provider's id, with the first part.
        provider_id: Option<String>,
        /// The tool's name, with the first part.
        name: Option<String>,
        /// What is added to its arguments.
        arguments: String,
    }
    /// The provider signed a block of the answer.
    BlockSigned {
        /// The request that streams.
        effect: EffectId,
        /// Bytes of this effect's output before it.
        offset: u64,
        /// The kind of the block: the last one of its kind, or one that holds nothing else.
        block: BlockOf,
        /// The provider's own text, sent back as it is, to the same model alone.
        signature: String,
    }
    /// The model made an image; it is a part of the message that is sealed later.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    ImageMade {
        request: EffectId,
        image: Attachment,
    }
    /// The stream was interrupted. Its output so far is kept.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    StreamInterrupted {
        request: EffectId,
        cause: InterruptCause,
        /// The text so far.
        text: Option<Body>,
    }
    /// The kept text of a request is retracted: it is not part of the answer.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    TextRetracted {
        request: EffectId,
    }
    /// A message of the model is finished.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    MessageSealed {
        /// The request that it answers.
        request: EffectId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<Body>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reasoning: Option<Body>,
        /// Its calls, in source order.
        calls: Vec<SealedCall>,
        /// The tokens that it used.
        usage: Usage,
        /// The cost in micro-dollars; 0 if no price is known.
        #[serde(default, skip_serializing_if = "is_default")]
        cost: u64,
        /// Why it ended early; none = the model was done, or the stream was interrupted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stop_reason: Option<StopReason>,
        /// What follows from it.
        next: Next,
        /// Its blocks, unless they are unsigned and in the order reasoning, text, calls.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blocks: Option<Body>,
        /// The images that it has made.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<Attachment>,
    }
    /// A request failed.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Failed {
        /// Which, if one was out.
        request: Option<EffectId>,
        failure: Failure,
        /// The text so far.
        text: Option<Body>,
    }
    /// A failed request will be retried.
    #[derive(Default)]
    #[allow(missing_docs, reason = "the fields say it themselves")]
    RetryScheduled {
        until: Timestamp,
        /// Which try that will be, from 2.
        try_no: u32,
        /// The index in the settings of the candidate for the retry; none = the same.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        candidate: Option<u32>,
        /// The name of that candidate, `PROVIDER/MODEL (PROFILE)`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The lower thinking level of the retry; none = unchanged, or the other candidate's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thinking: Option<Thinking>,
        /// After a failed compaction: the compaction step that is tried next; none = the retry is not about that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[serde(rename = "rung")]
        compaction_step: Option<CompactionStep>,
        /// Whether the next request is sent with the history as it is.
        #[serde(default, skip_serializing_if = "is_default")]
        as_it_is: bool,
    }
    /// A candidate is in cooldown for this run.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    CandidateCooldownSet {
        /// Its place in the settings.
        candidate: u32,
        /// Its name, `PROVIDER/MODEL (PROFILE)`.
        model: String,
        /// Until when; none = until another candidate has answered.
        until: Option<Timestamp>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        class: Option<FailureClass>,
        /// Its failed request, which is reported to other sessions; none = it is given up together with another
        /// candidate, or the ledger reported it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<EffectId>,
    }
    /// A user has cleared a candidate's cooldown: what the run knew of it is void, and a wait for a quota ends.
    CandidateCooldownLifted {
        /// Its place in the settings.
        candidate: u32,
        /// Its name, `PROVIDER/MODEL (PROFILE)`.
        model: String,
    }
}
