//! What the model is told in place of a call's own result. Fixed wording: tests and models rely on it.

/// A call that a cut, an abort or an ending came before.
pub(super) const NOT_RUN: &str = "Not run: the turn was cut.";

/// A call that a message came before.
pub(super) const SKIPPED: &str = "Skipped due to queued user message.";

/// A call that a crash cut off and whose outcome cannot be found.
pub(super) const INTERRUPTED: &str = "Interrupted: the process that ran this was cut off and the outcome is unknown. \
     It may have taken effect in whole, in part or not at all. It was not run again; look before you repeat it.";

/// A call that could not be ended.
pub(super) const UNENDED: &str = "Could not be ended within its limit; something of it may still be running.";

/// Before the next request of a run that goes round in a circle.
pub(super) fn repeated(tool: &str, times: u32, most: u32) -> String {
    let stop = if most == 0 { String::new() } else { format!(" After {most} times this run is stopped.") };
    format!(
        "Note from limulus: your call of `{tool}` has had the same arguments and the same result {times} times, and no other \
         call has brought anything new between. Do not make it again: try something else, or say what you need.{stop}"
    )
}

/// A call that a human did not allow.
pub(super) fn denied(by: &str) -> String {
    format!("Not run: not allowed ({by}).")
}
