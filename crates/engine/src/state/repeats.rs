//! Detects calls that bring nothing new: the same call with the same result, again and again.

use serde::{Deserialize, Serialize};

use super::call::{Call, Stage};
use crate::event::CallOutcome;
use crate::ids::Hash;
use crate::tables::limits::REPEATS_REMEMBERED;

/// How often calls came with the same result since anything else did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeats {
    /// The last different ones, the newest last.
    seen: Vec<Repeat>,
    /// Whether the model was warned since anything new came.
    #[serde(rename = "told")]
    pub warned: bool,
}

/// A call with its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Repeat {
    /// Tool, arguments, outcome and output as one.
    what: Hash,
    pub tool: String,
    /// How often it came since anything new did, this one included.
    pub times: u32,
}

impl Repeats {
    /// What came most often; none before the first call.
    pub fn most(&self) -> Option<&Repeat> {
        self.seen.iter().max_by_key(|repeat| repeat.times)
    }

    /// A call has its result. A new result means progress, so the counts restart: a run that changes something between
    /// two equal calls is not in a loop.
    pub(super) fn see(&mut self, call: &Call) {
        let Some(what) = what(call) else { return };
        if let Some(at) = self.seen.iter().position(|repeat| repeat.what == what) {
            let mut again = self.seen.remove(at);
            again.times += 1;
            self.seen.push(again);
            return;
        }
        self.warned = false;
        for repeat in &mut self.seen {
            repeat.times = 1;
        }
        if self.seen.len() == REPEATS_REMEMBERED {
            self.seen.remove(0);
        }
        self.seen.push(Repeat { what, tool: call.tool.clone(), times: 1 });
    }
}

/// None if the result says nothing about what the call does: it never ran, or was ended.
fn what(call: &Call) -> Option<Hash> {
    let Stage::Settled { outcome, output, .. } = &call.stage else { return None };
    let counts =
        matches!(outcome, CallOutcome::Done | CallOutcome::Failed | CallOutcome::Denied | CallOutcome::TimedOut);
    let outcome = if *outcome == CallOutcome::Done { "done" } else { "not done" };
    let parts = format!("{}\n{}\n{outcome}\n{}", call.tool, call.arguments.hash, output.hash);
    counts.then(|| Hash::of(parts.as_bytes()))
}
