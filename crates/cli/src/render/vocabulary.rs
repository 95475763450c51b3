//! The wording of events for people: one line each, for stderr.

use engine::tables::lifecycle::LifecycleKind;
use engine::tables::transitions::RunState;
use engine::{CallOutcome, DeliveryKind, FailureClass, Flags, InterruptCause, Timestamp, WaitFor};
use protocol::Event;
use protocol::event::{CompactionLine, DeliveryLine, QueueLine, StateLine, Stream, ToolLine};
use protocol::method::BudgetLine;
use protocol::notice::DiskFullSession;
use protocol::show::LaneWait;

use crate::commands::budget::raising;

/// The status line for a state.
pub(super) fn state(state: RunState, flags: Flags) -> &'static str {
    match state {
        RunState::Idle if flags.is_waiting => "queued: waits for a slot in the lane",
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

/// The note for an interrupted stream.
pub(super) fn interrupted(cause: InterruptCause) -> String {
    format!("✂ the answer was interrupted ({})", plain(&cause))
}

/// The note if an answer is retracted that cannot be erased.
pub(super) const RETRACTED: &str = "… the last answer was taken back; what follows replaces it";

/// The note if the journal has less than was shown.
pub(super) const REWOUND: &str = "… a power loss took some of what was shown; this continues from what is recorded";

/// The note for an event; None if a person need not know it.
pub(super) fn note(event: &Event) -> Option<String> {
    match &event.what {
        Stream::Tool(line) => call_note(line),
        Stream::State(line) => state_note(&event.session, line),
        Stream::Queue(line) => queue_note(line),
        Stream::Compaction(line) => compaction_note(line),
        Stream::Delivery(line) => delivery_note(line),
        Stream::Lifecycle(_) | Stream::Assistant(_) | Stream::Reasoning(_) | Stream::Usage(_) | Stream::Plan(_) => None,
    }
}

fn delivery_note(line: &DeliveryLine) -> Option<String> {
    Some(match line {
        DeliveryLine::Wanted { kind: DeliveryKind::Message, to: None, text, .. } => {
            format!("✉ {}", text.as_deref().unwrap_or_default())
        }
        DeliveryLine::Wanted { kind: DeliveryKind::Message, to: Some(to), text, .. } => {
            format!("✉ to {to}: {}", text.as_deref().unwrap_or_default())
        }
        // What goes out by itself is reported if it does not arrive.
        DeliveryLine::Wanted { .. } | DeliveryLine::Ended { arrived: Some(true), .. } => return None,
        DeliveryLine::Failed { id, why, until } => {
            format!("… delivery {id} failed: {why}; it is tried again at {}", clock(*until))
        }
        DeliveryLine::Ended { id, dropped: true, .. } => format!("· delivery {id} was given up"),
        DeliveryLine::Ended { id, arrived: Some(false), why, .. } => {
            format!("✗ delivery {id} did not arrive: {}", why.as_deref().unwrap_or_default())
        }
        DeliveryLine::Ended { id, arrived: None, why, .. } => format!(
            "? it is unknown whether delivery {id} arrived: {}; it is not sent again by itself",
            why.as_deref().unwrap_or_default()
        ),
    })
}

fn compaction_note(line: &CompactionLine) -> Option<String> {
    Some(match line {
        CompactionLine::Begun { compaction_step, try_no, tokens, .. } => {
            let again = if *try_no > 1 { format!(", try {try_no}") } else { String::new() };
            format!(
                "⇲ compacting the history: {}{again} (the next request would hold about {tokens} tokens)",
                compaction_step.name()
            )
        }
        CompactionLine::Done { before, after, by, results } => {
            let how = match (by, results) {
                (Some(by), _) => format!("summarised by {by}"),
                (None, Some(results)) => format!("{results} long results truncated"),
                (None, None) => "an extract replaces the older part".to_owned(),
            };
            format!("⇲ history compacted: {before} → {after} tokens, {how}")
        }
        CompactionLine::Failed { failure, ends_run: false, .. } => {
            format!("✗ the history was not compacted: {failure}")
        }
        CompactionLine::Undone { items } => format!("⇱ compaction undone: {items} items restored"),
        // The command that follows the run prints the failure.
        CompactionLine::Failed { ends_run: true, .. } => return None,
    })
}

/// A longer wait is reported on a line of its own (R35).
const LONG_WAIT_MS: u64 = 2_000;

fn queue_note(line: &QueueLine) -> Option<String> {
    match line {
        QueueLine::Waiting { waited_ms, wait, .. } if *waited_ms >= LONG_WAIT_MS => {
            Some(format!("… {}", queued_behind(wait, *waited_ms)))
        }
        QueueLine::Entered { lane, waited_ms, .. } if *waited_ms >= LONG_WAIT_MS => {
            Some(format!("… waited {} s for a slot in the lane {}", waited_ms / 1_000, lane.name()))
        }
        QueueLine::Waiting { .. }
        | QueueLine::Entered { .. }
        | QueueLine::Accepted { .. }
        | QueueLine::Settled { .. }
        | QueueLine::Shows => None,
    }
}

/// `queued behind …, 3 s`.
pub(super) fn queued_behind(wait: &LaneWait, waited_ms: u64) -> String {
    format!("queued behind {}, {} s", wait.behind_whom(), waited_ms / 1_000)
}

fn call_note(line: &ToolLine) -> Option<String> {
    Some(match line {
        ToolLine::Lost { call } => format!("? call {}: the process that ran it is gone; looking it up", short(call)),
        ToolLine::Found { call, found } => format!("? call {}: found: {}", short(call), plain(found)),
        ToolLine::Ending { call, why } => format!("■ ending call {} ({})", short(call), plain(why)),
        ToolLine::Background { process, .. } => format!("↪ {process} continues in the background"),
        ToolLine::BackgroundEnding { process, why } => {
            format!("■ ending {process} in the background ({})", plain(why))
        }
        ToolLine::BackgroundEnded { process, outcome, how } => {
            format!("{} {process} in the background: {how}", mark(*outcome))
        }
        ToolLine::Expired { kept: false, .. } => "✗ nobody answered in time".to_owned(),
        ToolLine::Expired { kept: true, .. } => "! nobody has answered in time; it still waits".to_owned(),
        ToolLine::Answered { edited: Some(edited), .. } => format!("· it runs with other arguments: {edited}"),
        ToolLine::Start { .. }
        | ToolLine::Update(_)
        | ToolLine::End { .. }
        | ToolLine::Asked { .. }
        | ToolLine::Answered { .. } => return None,
    })
}

fn state_note(session: &str, line: &StateLine) -> Option<String> {
    Some(match line {
        StateLine::Failed { failure, ends_run: false, .. } => format!("✗ {failure}"),
        StateLine::Retry { model: Some(model), .. } => format!("↻ switches to {model}"),
        StateLine::Retry { thinking: Some(level), .. } => format!("↻ lowers the thinking level: {}", plain(level)),
        StateLine::Retry { until, try_no, .. } => format!("↻ try {try_no} at {}", clock(*until)),
        StateLine::Cooling { model, until: Some(until), class } => {
            let why = class.map(|class| format!(" ({})", plain(&class))).unwrap_or_default();
            let repaired = class.filter(|class| needs_a_person(*class)).map(|_| advice_to_clear(model)).unwrap_or_default();
            format!("… {model} is in cooldown until {}{why}{repaired}", clock(*until))
        }
        StateLine::Asks { model, probe: false } => format!("↻ tries {model}"),
        StateLine::Asks { model, probe: true } => format!("↻ tries {model}, which failed and has not answered since"),
        StateLine::Cleared { model } => format!("… {model} is available again"),
        StateLine::Waiting { on: WaitFor::Quota, until, .. } => {
            format!("… {}, then continues by itself", waits_for_a_model(*until))
        }
        StateLine::Waiting { on: WaitFor::Budget, budget, .. } => {
            let limit = budget.as_ref().and_then(BudgetLine::as_limit);
            let why = limit.map_or_else(|| "the budget is used up".to_owned(), |limit| limit.in_words());
            let raises = limit.and_then(|limit| raising(session, &limit));
            let raises = raises.map(|command| format!("; `{command}` raises it")).unwrap_or_default();
            format!("… {why}: waits for more{raises}")
        }
        StateLine::Waiting { on: WaitFor::Lane, .. } => "… waits for a slot in its lane again".to_owned(),
        StateLine::Waiting { on, .. } if !matches!(on, WaitFor::Approval | WaitFor::Answer) => format!("… waits for {}", plain(on)),
        StateLine::Noted { text, facts: false } => format!("! the model receives: {text}"),
        StateLine::Ending { outcome, terminate: false } => format!("■ ending the run ({})", outcome.name()),
        StateLine::Ending { outcome, terminate: true } => {
            format!("■ ending the run ({}), and its session for good", outcome.name())
        }
        StateLine::Lifecycle { reason: Some(reason), remedy, retry_at, .. } => {
            let again = retry_at.map(|at| format!("\n  tries again by itself at {}", clock(at))).unwrap_or_default();
            format!("✗ {reason}{again}\n  hint: {}", remedy.as_deref().unwrap_or_default())
        }
        StateLine::Lifecycle { to: LifecycleKind::Recovering, attempt: Some(no), .. } => {
            format!("↻ tries again by itself (attempt {no})")
        }
        StateLine::Erased { error: Some(why) } => format!("✗ the deleted conversation could not be erased: {why}"),
        StateLine::Unreadable { reason } => format!("✗ {reason}"),
        // The command that follows the run prints the failure.
        StateLine::Failed { ends_run: true, .. }
        // The failure itself was reported before.
        | StateLine::Cooling { until: None, .. }
        | StateLine::Undoing { .. }
        | StateLine::Undone { .. }
        | StateLine::Erased { .. }
        | StateLine::Titled { .. }
        | StateLine::Noted { facts: true, .. }
        | StateLine::Reported { .. }
        | StateLine::Waiting { .. }
        | StateLine::Lifecycle { .. }
        | StateLine::Changed { .. }
        | StateLine::Rewound { .. } => return None,
    })
}

/// Whether a person must act before the model can answer again.
fn needs_a_person(class: FailureClass) -> bool {
    matches!(class, FailureClass::Auth | FailureClass::AuthPermanent | FailureClass::Billing)
}

/// The advice that ends a cooldown early; `model` is `PROVIDER/MODEL (PROFILE)`.
fn advice_to_clear(model: &str) -> String {
    let provider = model.split('/').next().unwrap_or_default();
    let profile = model.rsplit_once(" (").map(|(_, profile)| format!("/{}", profile.trim_end_matches(')')));
    format!("; after fixing that, run `limulus profiles clear {provider}{}`", profile.unwrap_or_default())
}

/// The note while no model is available.
pub(super) fn waits_for_a_model(until: Option<Timestamp>) -> String {
    let until = until.map(|until| format!(" until {}", clock(until))).unwrap_or_default();
    format!("no model is available now: waits{until}")
}

/// The note for a session that waits for disk space.
pub(super) fn disk_full(session: &DiskFullSession, needs_bytes: u64) -> String {
    let needs = needs_bytes.div_ceil(1 << 10);
    let (since, next) = (clock(session.since), clock(session.next_look));
    format!("waiting for space: {} (needs {needs} KiB) since {since}, next check at {next}", session.error)
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

/// The time of day, with the date if it is not today.
fn clock(at: engine::Timestamp) -> String {
    let Ok(time) = jiff::Timestamp::from_millisecond(at.0) else { return String::new() };
    let (time, now) = (time.to_zoned(config::local_zone()), config::local_now());
    let form = if time.date() == now.date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
    time.strftime(form).to_string()
}
