//! Events in a person's words: one line each, for stderr.

use engine::tables::transitions::RunState;
use engine::{CallOutcome, Event, Flags, WaitFor};
use journal::ROOM_BYTES;
use runtime::Parked;

/// What the status line says of a state.
pub(super) fn state(state: RunState, flags: Flags) -> &'static str {
    match state {
        RunState::Idle if flags.is_waiting => "queued: waits for a place in the lane",
        RunState::Idle => "idle",
        RunState::Preparing if flags.is_waiting => "request sent, waits for the first byte",
        RunState::Preparing => "preparing",
        RunState::Streaming => "streaming",
        RunState::ToolExec => "running tools",
        RunState::Compacting => "compacting the history",
        RunState::Error => "deciding on a failure",
        RunState::Retry => "waits for the next try",
        RunState::Awaiting => "waits for your answer",
        RunState::Paused => "paused",
        RunState::Completed => "completed",
    }
}

/// What a person should know of an event, if anything.
pub(super) fn note(event: &Event) -> Option<String> {
    Some(match event {
        Event::StreamCut(e) => {
            format!("✂ the answer was cut ({}); what had come is kept", plain(&e.cause))
        }
        Event::CallLost(e) => format!("? call {}: the process that ran it is gone; looking it up", short(&e.call)),
        Event::CallFound(e) => format!("? call {}: found: {}", short(&e.call), plain(&e.found)),
        Event::CallEnding(e) => format!("■ ending call {} ({})", short(&e.call), plain(&e.why)),
        Event::ProcessAdopted(e) => format!("↪ {} goes on in the background", e.process.process_name()),
        Event::ProcessEnding(e) => {
            format!("■ ending {} in the background ({})", e.process.process_name(), plain(&e.why))
        }
        Event::ProcessEnded(e) => {
            format!("{} {} in the background: {}", mark(e.outcome), e.process.process_name(), e.how)
        }
        Event::Failed(e) => format!("✗ {}", e.failure),
        Event::RetryScheduled(e) => format!("↻ try {} at {}", e.try_no, clock(e.until)),
        Event::WaitBegan(e) if e.on != WaitFor::Approval => format!("… waits for {}", plain(&e.on)),
        Event::EndingSet(e) => format!("■ ending the run ({})", e.outcome.name()),
        Event::LifecycleChanged(e) if e.failure.is_some() => {
            let reason = e.failure.as_ref().map(ToString::to_string).unwrap_or_default();
            let remedy = e.remedy.as_deref().unwrap_or_default();
            format!("✗ {reason}\n  hint: {remedy}")
        }
        _ => return None,
    })
}

/// What a session waits for that found no space.
pub(super) fn parked(parked: &Parked) -> String {
    let home = match &parked.error {
        journal::Error::Full { path } => path.parent().unwrap_or(path).display().to_string(),
        error => error.to_string(),
    };
    let needs = ROOM_BYTES.div_ceil(1 << 10);
    let (since, next) = (clock(parked.since), clock(parked.next_look));
    format!("waiting for space in {home} (needs {needs} KiB) since {since}, next look at {next}")
}

/// The mark of a call's end.
pub(super) fn mark(outcome: CallOutcome) -> &'static str {
    match outcome {
        CallOutcome::Done => "✓",
        CallOutcome::Failed | CallOutcome::Denied | CallOutcome::TimedOut => "✗",
        CallOutcome::Skipped | CallOutcome::Aborted => "■",
        CallOutcome::Interrupted | CallOutcome::Unended => "?",
    }
}

/// The name of a plain enum value, as it is on disk.
pub(super) fn plain(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn short(call: &engine::CallId) -> String {
    format!("{}/{}", call.step, call.index)
}

fn clock(at: engine::Timestamp) -> String {
    jiff::Timestamp::from_millisecond(at.0)
        .map(|time| time.to_zoned(jiff::tz::TimeZone::system()).strftime("%H:%M:%S").to_string())
        .unwrap_or_default()
}
