//! What an unfinished session waits for: the answer to "why does nothing happen?".

use engine::{
    ApprovalRow, Call, Lifecycle, Limit, PauseCause, Phase, PrepareStage, Process, Run, Session, Stage, Timestamp,
    WaitFor,
};

/// Whether a process owns the home and can make progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants say it themselves")]
pub enum Owned {
    Yes,
    No,
}

/// What the session waits for. `requests` are its open approval requests; `limit` is the one that its run waits for.
pub fn waits_for(session: &Session, requests: &[ApprovalRow], limit: Option<&Limit>, owned: Owned) -> String {
    match (&session.conversation.lifecycle, owned) {
        (Lifecycle::Error { failure, remedy, .. }, _) => format!("a human: {failure}; repair it with `{remedy}`"),
        (Lifecycle::Suspended(run), _) => paused(run),
        (Lifecycle::Recovering { run: Some(run) }, Owned::Yes) => {
            format!("its calls to be looked up: {}; then it continues", calls(&run.step.calls))
        }
        (Lifecycle::Active(_) | Lifecycle::Recovering { .. }, Owned::No) => {
            let then = session.run().filter(|_| waits_until(session).is_some() || limit.is_some());
            let then =
                then.map(|run| format!("; it waits for {}", run_waits_for(run, requests, limit))).unwrap_or_default();
            format!("an owner: `limulus resume {}` continues it{then}", session.account.key)
        }
        (Lifecycle::Active(run), Owned::Yes) => run_waits_for(run, requests, limit),
        (Lifecycle::Recovering { run: None }, Owned::Yes) => "to be repaired".to_owned(),
        (Lifecycle::Ready | Lifecycle::Idle | Lifecycle::Terminated, _) if ends_processes(session) => match owned {
            Owned::Yes => "its background processes to end".to_owned(),
            Owned::No => format!("an owner: `limulus resume {}` ends its background processes", session.account.key),
        },
        (Lifecycle::Ready | Lifecycle::Idle | Lifecycle::Terminated, _) if session.account.undo.is_some() => {
            match owned {
                Owned::Yes => "an undo of files to end".to_owned(),
                Owned::No => format!("an owner: `limulus resume {}` completes an undo of files", session.account.key),
            }
        }
        (Lifecycle::Ready | Lifecycle::Idle | Lifecycle::Terminated, _) if owes_erasure(session) => {
            erasure(session, owned)
        }
        (Lifecycle::Initializing | Lifecycle::Ready | Lifecycle::Idle | Lifecycle::Terminated, _) => {
            match (session.conversation.queue.len(), owned) {
                (0, _) => "a message".to_owned(),
                (queued, Owned::Yes) => format!("a free slot in its lane ({queued} queued)"),
                (queued, Owned::No) => {
                    format!("an owner: `limulus resume {}` starts what is queued ({queued})", session.account.key)
                }
            }
        }
    }
}

/// Whether the erasure of a deleted conversation is what comes next: after a failed one, messages go first.
fn owes_erasure(session: &Session) -> bool {
    session.account.erasure.is_some() && (session.conversation.queue.is_empty() || session.failed_erasure().is_none())
}

/// What the erasure of a deleted conversation waits for.
fn erasure(session: &Session, owned: Owned) -> String {
    let failed = session.account.erasure.as_ref().and_then(|erasure| erasure.failed.as_ref());
    let failed = failed.map(|failed| format!("; it failed: {}", failed.why)).unwrap_or_default();
    let key = &session.account.key;
    match owned {
        Owned::Yes if session.due_erasure().is_some() => "its deleted conversation to be erased".to_owned(),
        Owned::Yes => format!("another attempt to erase its deleted conversation{failed}"),
        Owned::No => format!("an owner: `limulus resume {key}` erases its deleted conversation{failed}"),
    }
}

fn ends_processes(session: &Session) -> bool {
    session.account.processes.iter().any(Process::is_ending)
}

/// Why a paused run is paused.
fn paused(run: &Run) -> String {
    let Some(pause) = run.pause else { return "a human to resume it".to_owned() };
    let call = pause.call.and_then(|call| run.call(call)).map(|call| format!(" before `{}`", call.tool));
    let state = pause.state.map(|state| format!(" in `{}`", state.name()));
    let by = match pause.cause {
        PauseCause::User => "it was paused",
        PauseCause::Interrupt => "an interrupting message is answered first",
        PauseCause::Breakpoint => "a breakpoint paused it",
    };
    let frozen = if pause.freeze { "; its commands are stopped" } else { "" };
    format!("a human to resume it: {by}{}{frozen}", call.or(state).unwrap_or_default())
}

fn run_waits_for(run: &Run, requests: &[ApprovalRow], limit: Option<&Limit>) -> String {
    if let Some(ending) = run.ending {
        let too = if ending.terminate { ", and its session ends" } else { "" };
        return format!("its calls to end; then it is {}{too}", ending.outcome.name());
    }
    match &run.phase {
        Phase::Preparing { stage: PrepareStage::Gathering | PrepareStage::Reserving } => "its next request".to_owned(),
        Phase::Preparing { stage: PrepareStage::Sent(_) } => "the first byte of an answer".to_owned(),
        Phase::Streaming(_) => "the rest of an answer".to_owned(),
        Phase::ToolExec => format!("calls: {}", calls(&run.step.calls)),
        Phase::Awaiting { on: WaitFor::Approval, .. } => {
            let asked: Vec<&str> = requests.iter().map(|request| request.question.as_str()).collect();
            format!("approval to {}", asked.join("; and to "))
        }
        Phase::Awaiting { on: WaitFor::Answer, .. } => {
            let questions = requests.iter().filter(|request| request.takes.is_some());
            let asked: Vec<&str> = questions.map(|request| request.question.as_str()).collect();
            format!("an answer: {}", asked.join("; and: "))
        }
        Phase::Awaiting { on: WaitFor::Budget, .. } if run.waits_for_memory() => {
            "other runs to end: the process has reached its memory limit".to_owned()
        }
        Phase::Awaiting { on: WaitFor::Budget, .. } => {
            let why = limit.map_or_else(|| "its budget is used up".to_owned(), Limit::in_words);
            format!("a larger budget: {why}")
        }
        Phase::Awaiting { on, .. } => match on {
            WaitFor::Approval | WaitFor::Answer => "an answer",
            WaitFor::Children => "its children",
            WaitFor::Quota => "a quota",
            WaitFor::Budget => "a larger budget",
            WaitFor::Retry => "its next try",
            WaitFor::Lane => "a free slot in its lane",
        }
        .to_owned(),
        Phase::Compacting(_) => "the compaction of its history".to_owned(),
        Phase::Error { failure } => format!("the reaction to a failure: {failure}"),
        Phase::Retry { .. } => "its next try".to_owned(),
    }
}

/// Until when the session waits; `None` if no time is known. It is the same with and without an owner.
pub fn waits_until(session: &Session) -> Option<Timestamp> {
    let run = session.run().filter(|run| run.ending.is_none())?;
    match (&session.conversation.lifecycle, &run.phase) {
        (Lifecycle::Active(_), Phase::Awaiting { on: WaitFor::Approval, .. }) => None,
        (Lifecycle::Active(_), Phase::Awaiting { until, .. }) => *until,
        (Lifecycle::Active(_), Phase::Retry { until }) => Some(*until),
        _ => None,
    }
}

fn calls(calls: &[Call]) -> String {
    let open = calls.iter().filter(|call| !matches!(call.stage, Stage::Settled { .. }));
    let named: Vec<String> = open.map(|call| format!("{} ({})", call.tool, call.stage.name())).collect();
    named.join(", ")
}
