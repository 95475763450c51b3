//! Compactions of a history.

use serde::{Deserialize, Serialize};

use super::{is_default, payload};
use crate::body::Body;
use crate::event::{CompactionCause, CutResult, Usage};
use crate::failure::Failure;
use crate::ids::{EffectId, MessageId, Seq};
use crate::state::ItemAt;
use crate::tables::budget::Spent;
use crate::tables::compaction::CompactionStep;

payload! {
    /// The run is to shorten its history before its next request.
    CompactionAsked {
        /// What the user wants it to keep above all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        focus: Option<Body>,
    }
    /// The history is being shortened.
    CompactionBegun {
        /// Which try of this way, from 1.
        try_no: u32,
        /// The effect that does it.
        compaction: EffectId,
        /// Why.
        cause: CompactionCause,
        /// Which way.
        #[serde(rename = "rung")]
        compaction_step: CompactionStep,
        /// How many items of the transcript a summary is to stand for.
        items: u32,
        /// About how many tokens the next request would hold.
        tokens: u64,
        /// What the user wants it to keep above all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        focus: Option<Body>,
        /// What is set aside for it, where anything is limited and a model is asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reserved: Option<Spent>,
    }
    /// The history before an entry is replaced by its summary.
    Compacted {
        /// The effect that made it.
        compaction: EffectId,
        /// The summary.
        summary: Body,
        /// The first entry whose messages are kept; the next one, if none are.
        kept_from: Seq,
        /// Messages of the user from before it that are kept all the same.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pinned: Vec<MessageId>,
        /// About how many tokens the history had before.
        before: u64,
        /// And has now.
        after: u64,
        /// The model that made it, `PROVIDER/MODEL`; none = it is an extract.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// What it took.
        #[serde(default, skip_serializing_if = "is_default")]
        usage: Usage,
        /// What that costs, micro-dollars; 0 where no price is known.
        #[serde(default, skip_serializing_if = "is_default")]
        cost: u64,
        /// Whether the run goes on after it; false = nothing else was asked of it.
        goes_on: bool,
    }
    /// Long results of calls are cut.
    ResultsCut {
        /// The effect that did it.
        compaction: EffectId,
        /// Which.
        results: Vec<CutResult>,
        /// About how many tokens the history had before.
        before: u64,
        /// And has now.
        after: u64,
    }
    /// A compaction is taken back: what its summary stood for is in force again.
    Uncompacted {
        /// The compaction.
        compaction: EffectId,
        /// The items that its summary stood for, with their entries.
        restored: Vec<ItemAt>,
    }
    /// The history could not be shortened; the old one stays in force.
    CompactionFailed {
        /// Why.
        failure: Failure,
        /// The way that failed; `nothing` = none was left.
        #[serde(default)]
        #[serde(rename = "rung")]
        compaction_step: CompactionStep,
        /// What those of its requests took that were answered.
        #[serde(default, skip_serializing_if = "is_default")]
        usage: Usage,
        /// What that costs, micro-dollars; 0 where no price is known.
        #[serde(default, skip_serializing_if = "is_default")]
        cost: u64,
    }
}
