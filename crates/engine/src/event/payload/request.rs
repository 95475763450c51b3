//! Requests to models: how each is sent, what streams in, how it ends, which candidate is next.

use serde::{Deserialize, Serialize};

use super::{is_default, payload};
use crate::body::{Attachment, Body};
use crate::event::{CutCause, Next, SealedCall, Usage};
use crate::failure::{Failure, FailureClass};
use crate::ids::{EffectId, Epoch, Timestamp};
use crate::settings::Thinking;
use crate::state::BlockOf;
use crate::tables::budget::Spent;
use crate::tables::compaction::CompactionStep;

payload! {
    /// A request is decided; it begins when this is synced.
    RequestSent {
        /// Which.
        request: EffectId,
        /// The process that sends it.
        epoch: Epoch,
        /// The place of its candidate in the settings.
        candidate: u32,
        /// How many items of the transcript it holds.
        items: u32,
        /// About how many tokens those are, with the system prompt and the tools.
        #[serde(default, skip_serializing_if = "is_default")]
        tokens: u64,
        /// Whether it is a probe: its candidate has failed, and not answered since.
        #[serde(default, skip_serializing_if = "is_default")]
        probe: bool,
        /// What is set aside for it where anything is limited. It counts as spent unless it is known what was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reserved: Option<Spent>,
    }
    /// Its first byte came.
    RequestOpened {
        /// Which.
        request: EffectId,
    }
    /// Text streamed in.
    TextAdded {
        /// The request.
        effect: EffectId,
        /// Bytes of this effect's output before it.
        offset: u64,
        /// The text.
        text: String,
    }
    /// Reasoning streamed in.
    ReasoningAdded {
        /// The request.
        effect: EffectId,
        /// Bytes of this effect's output before it.
        offset: u64,
        /// The text.
        text: String,
    }
    /// A part of a call streamed in.
    CallPartAdded {
        /// The request.
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
        /// The request.
        effect: EffectId,
        /// Bytes of this effect's output before it.
        offset: u64,
        /// The kind of the block: the last one of its kind, or one that holds nothing else.
        block: BlockOf,
        /// The provider's own text, sent back as it is, to the same model alone.
        signature: String,
    }
    /// The model made an image; it is a part of the message that is sealed later.
    ImageMade {
        /// The request.
        request: EffectId,
        /// The image.
        image: Attachment,
    }
    /// Its stream was cut. What had come is kept.
    StreamCut {
        /// Which.
        request: EffectId,
        /// Why.
        cause: CutCause,
        /// The text that had come.
        text: Option<Body>,
    }
    /// The kept text of a request is not a part of the answer.
    TextStruck {
        /// Which.
        request: EffectId,
    }
    /// A message of the model is finished.
    MessageSealed {
        /// The request that it answers.
        request: EffectId,
        /// Its text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<Body>,
        /// Its reasoning.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reasoning: Option<Body>,
        /// Its calls, in source order.
        calls: Vec<SealedCall>,
        /// What it took.
        usage: Usage,
        /// What that costs, micro-dollars; 0 where no price is known.
        #[serde(default, skip_serializing_if = "is_default")]
        cost: u64,
        /// What it leads to.
        next: Next,
        /// Its blocks, where they do not simply follow as reasoning, text and calls, or are signed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blocks: Option<Body>,
        /// The images that it has made.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<Attachment>,
    }
    /// A request failed.
    Failed {
        /// Which, if one was out.
        request: Option<EffectId>,
        /// How.
        failure: Failure,
        /// The text that had come.
        text: Option<Body>,
    }
    /// A failed request will be tried again.
    #[derive(Default)]
    RetryScheduled {
        /// When.
        until: Timestamp,
        /// Which try that will be, from 2.
        try_no: u32,
        /// The place in the settings of the candidate that it will be with; none = the same.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        candidate: Option<u32>,
        /// What that one is called, `PROVIDER/MODEL (PROFILE)`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The lower thinking level that it will be at; none = the same, for another candidate its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thinking: Option<Thinking>,
        /// After a history that could not be shortened: the way that is tried next; none = it is not about that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[serde(rename = "rung")]
        compaction_step: Option<CompactionStep>,
        /// And whether the next request goes out with the history as it is.
        #[serde(default, skip_serializing_if = "is_default")]
        as_it_is: bool,
    }
    /// A candidate is not tried for now.
    CandidateCooled {
        /// Its place in the settings.
        candidate: u32,
        /// What it is called, `PROVIDER/MODEL (PROFILE)`.
        model: String,
        /// Until when; none = not before another has answered.
        until: Option<Timestamp>,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        class: Option<FailureClass>,
        /// Its request that failed, of which other sessions are to know; none = it is given up with another candidate, or the
        /// ledger said so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<EffectId>,
    }
    /// A user has said that a candidate may be asked again: what the run knew of it is over, and a wait for a quota.
    CandidateCleared {
        /// Its place in the settings.
        candidate: u32,
        /// What it is called, `PROVIDER/MODEL (PROFILE)`.
        model: String,
    }
}
