//! The notices that the model receives in place of a call's own result. Fixed wording: tests and models rely on it.

use crate::approval::NOBODY_TO_ASK;
use crate::body::{BodyKind, Content};
use crate::plan::PlanItem;
use crate::tables::budget::{Limit, Resource, Scope};

/// A call that an interruption, an abort or an ending preceded.
pub(super) const NOT_RUN: &str = "Not run: the turn was cut.";

/// A call that a message preceded.
pub(super) const SKIPPED: &str = "Skipped due to queued user message.";

/// A call that a crash interrupted and whose outcome is unknown.
pub(super) const INTERRUPTED: &str = "Interrupted: the process that ran this was cut off and the outcome is unknown. \
     It may have taken effect in whole, in part or not at all. It was not run again; look before you repeat it.";

/// A call that could not be ended.
pub(super) const UNENDED: &str = "Could not be ended within its limit; something of it may still be running.";

/// Before the next request of a run that repeats itself.
pub(super) fn repeated(tool: &str, times: u32, most: u32) -> String {
    let stop = if most == 0 { String::new() } else { format!(" After {most} times this run is stopped.") };
    format!(
        "Note from limulus: your call of `{tool}` has had the same arguments and the same result {times} times, and no other \
         call has brought anything new between. Do not make it again: try something else, or say what you need.{stop}"
    )
}

/// With the last request before a compaction.
pub(super) const MEMORY_FLUSH: &str = "Note from limulus: this conversation is nearly as long as fits, and its older part is soon \
     replaced by a summary. What must not be lost of it (decisions and their reasons, exact names, what is still to do) and \
     stands in no file yet: write it now into a file of the workspace, behind what is there, by default \
     `memory/NOTES.md`. Then go on with what you were asked; do not mention this note.";

/// Before the next request of a conversation whose plan the model would not see any more.
pub(super) fn plan(items: &[PlanItem]) -> String {
    let lines = items.iter().map(|item| format!("\n{} {}", item.status.mark(), item.step));
    format!("Note from limulus: your plan, as you last set it, is still open:{}", lines.collect::<String>())
}

/// Before the message with which the date or the like has changed.
pub(super) fn facts(facts: &str) -> String {
    format!("Note from limulus: {facts}")
}

/// A call that the budget does not allow.
pub(super) const NOTHING_LEFT: &str = "Not run: the budget is used up.";

/// Before the next request of a run whose budget was raised.
pub(super) const RAISED: &str = "Note from limulus: there is more to spend again. Go on where you stopped.";

/// Before the next request of a run that has nearly used up its budget.
pub(super) fn wrap_up(limit: &Limit) -> String {
    format!(
        "Note from limulus: {} % of what {} may spend is used up ({}). Come to an end: do only what is still needed, \
         then answer.",
        limit.percent(),
        whose(limit.scope),
        limit.figures()
    )
}

/// The last request before a run waits for a larger budget.
pub(super) fn closing(limit: &Limit) -> String {
    format!(
        "Note from limulus: what {} may spend {} ({}). Call no tools. Say in a few lines what is done, what is \
         not, and what comes next: the work goes on from there when there is more.",
        whose(limit.scope),
        limit.standing(),
        limit.figures()
    )
}

/// Why a run ended at a limit.
pub(super) fn used_up(limit: &Limit) -> String {
    let scope = limit.scope;
    format!(
        "what {} may spend {} ({}; `budget.{scope}`, `budget.at_limit = \"end\"`): raise it, or let runs \
         wait with `budget.at_limit = \"wait\"`",
        whose(scope),
        limit.standing(),
        limit.figures()
    )
}

/// Why a history was not summarised.
pub(super) fn no_summary(limit: &Limit) -> String {
    format!("too little is left for a summary: {}", limit.in_words())
}

/// The scope of a budget.
fn whose(scope: Scope) -> &'static str {
    match scope {
        Scope::Run => "this run",
        Scope::Session => "this session",
        Scope::Agent => "this agent, in all of its sessions today,",
        Scope::Day => "the whole home today",
        Scope::Home => "the whole home, in all of its time,",
        Scope::Process => "the process",
    }
}

impl Limit {
    /// The budget, and why it does not cover the next request.
    pub fn in_words(&self) -> String {
        format!("what {} may spend {}: {}", whose(self.scope), self.standing(), self.figures())
    }

    /// Why it stops a run.
    fn standing(&self) -> &'static str {
        match self.free() {
            0 => "is used up",
            _ => "is too little for the next request",
        }
    }

    /// What is used, reserved and free, and what the next request needs, with the unit.
    pub fn figures(&self) -> String {
        let shown = |amount: u64| match self.of {
            Resource::Tokens | Resource::Calls | Resource::Bytes => amount.to_string(),
            Resource::Cost => dollars(amount),
            Resource::Wall => (amount / 1_000).to_string(),
            Resource::Memory => (amount >> 20).to_string(),
        };
        let unit = match self.of {
            Resource::Tokens => "tokens",
            Resource::Cost => "dollars",
            Resource::Calls => "calls",
            Resource::Wall => "s",
            Resource::Bytes => "bytes in the journal",
            Resource::Memory => "MiB of memory",
        };
        let (used, limit) = (shown(self.used), shown(self.limit));
        match self.of {
            Resource::Calls | Resource::Wall | Resource::Bytes | Resource::Memory if self.reserved == 0 => {
                format!("{used} of {limit} {unit}")
            }
            Resource::Tokens
            | Resource::Cost
            | Resource::Calls
            | Resource::Wall
            | Resource::Bytes
            | Resource::Memory => {
                let (reserved, free) = (shown(self.reserved), shown(self.free()));
                let needs = if self.is_reached() && self.needs > 0 {
                    format!("; the next request needs {} with its answer", shown(self.needs))
                } else {
                    String::new()
                };
                format!("{used} of {limit} {unit} used, {reserved} reserved, {free} free{needs}")
            }
        }
    }
}

fn dollars(micro: u64) -> String {
    format!("{}.{:06}", micro / 1_000_000, micro % 1_000_000)
}

/// After an answer that does not fit the schema of the run.
pub(super) fn mismatch_notice(why: &str) -> String {
    format!(
        "Note from limulus: your answer does not fit the JSON schema that this run's answer is to fit: {why}. Give the answer \
         again: only the JSON value, with nothing before or behind it."
    )
}

/// A call that a human did not allow.
pub(super) fn denied(by: &str, reason: Option<&str>) -> String {
    let reason = reason.map(|reason| format!(" The reason: {reason}")).unwrap_or_default();
    format!("Not run: not allowed ({by}).{reason}")
}

/// Who denies a call of a run that nobody attends.
pub(super) fn nobody() -> String {
    format!("{NOBODY_TO_ASK}; --yes or a rule allows it (not tools.executed_files.policy or leaving a sandbox)")
}

/// What the model receives of a call whose question nobody has answered.
pub(super) fn expired(waited_ms: u64) -> String {
    format!("Not run: it needs approval, and nobody answered within {} s.", waited_ms / 1_000)
}

/// Who skips a question of a run that nobody attends.
pub(super) const NOBODY_TO_ANSWER: &str = "there is no terminal to ask on";
/// Why such a question is skipped, for the model.
pub(super) const UNATTENDED_QUESTION: &str =
    "nobody attends this run. Decide it yourself and say what you assumed, or end with what you need to know";

/// What the model receives of a question that was not answered.
pub(super) fn skipped_question(reason: Option<&str>) -> String {
    let reason = reason.map(|reason| format!(" The reason: {reason}.")).unwrap_or_default();
    format!("Not answered: the question was skipped.{reason}")
}

/// What the model receives of a question that nobody has answered.
pub(super) fn expired_question(waited_ms: u64) -> String {
    format!("Not answered within {} s. Decide it yourself and say what you assumed.", waited_ms / 1_000)
}

/// The output of a call that ran with other arguments than its own.
pub(super) fn with_edited(shown: &str, output: &Content) -> Content {
    let mut bytes = format!("The user changed the arguments of this call to {shown}\n").into_bytes();
    bytes.extend_from_slice(&output.bytes);
    Content::new(BodyKind::Output, bytes)
}
