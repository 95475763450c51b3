//! Compactions of a history.

use serde::{Deserialize, Serialize};

use super::{is_default, payload};
use crate::body::Body;
use crate::event::{CompactionCause, TruncatedResult, Usage};
use crate::failure::Failure;
use crate::ids::{EffectId, MessageId, Seq};
use crate::state::ItemAt;
use crate::tables::budget::Spent;
use crate::tables::compaction::CompactionStep;

payload! {
    /// The run is to compact its history before its next request.
    CompactionAsked {
        /// What the user wants the summary to keep above all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        focus: Option<Body>,
    }
    /// A compaction starts.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    CompactionBegun {
        /// Which try of this way, from 1.
        try_no: u32,
        /// The effect that does it.
        compaction: EffectId,
        cause: CompactionCause,
        #[serde(rename = "rung")]
        compaction_step: CompactionStep,
        /// How many items of the transcript a summary is to stand for.
        items: u32,
        /// About how many tokens the next request would hold.
        tokens: u64,
        /// What the user wants the summary to keep above all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        focus: Option<Body>,
        /// The reservation for it, if a budget is limited and a model is asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reserved: Option<Spent>,
    }
    /// A summary replaces the history before an entry.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Compacted {
        /// The effect that made it.
        compaction: EffectId,
        summary: Body,
        /// The first entry whose messages are kept; the next one, if none are.
        kept_from: Seq,
        /// Earlier messages of the user that are kept all the same.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pinned: Vec<MessageId>,
        /// The estimated tokens of the history before.
        before: u64,
        /// The estimated tokens of the history now.
        after: u64,
        /// The model that made it, `PROVIDER/MODEL`; none = it is an extract.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// The tokens that it used.
        #[serde(default, skip_serializing_if = "is_default")]
        usage: Usage,
        /// Its cost in micro-dollars; 0 if no price is known.
        #[serde(default, skip_serializing_if = "is_default")]
        cost: u64,
        /// Whether the run continues after it; false = the run only had to compact.
        goes_on: bool,
    }
    /// Long results of calls are truncated.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    ResultsTruncated {
        /// The effect that did it.
        compaction: EffectId,
        results: Vec<TruncatedResult>,
        /// The estimated tokens of the history before.
        before: u64,
        /// The estimated tokens of the history now.
        after: u64,
    }
    /// A compaction is undone: what its summary stood for is current again.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Uncompacted {
        compaction: EffectId,
        /// The items that its summary stood for, with their entries.
        restored: Vec<ItemAt>,
    }
    /// The compaction failed; the old history stays.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    CompactionFailed {
        failure: Failure,
        /// The step that failed; `nothing` = none was left.
        #[serde(default)]
        #[serde(rename = "rung")]
        compaction_step: CompactionStep,
        /// The tokens that its answered requests used.
        #[serde(default, skip_serializing_if = "is_default")]
        usage: Usage,
        /// Their cost in micro-dollars; 0 if no price is known.
        #[serde(default, skip_serializing_if = "is_default")]
        cost: u64,
    }
}
