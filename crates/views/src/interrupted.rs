//! A run that the end of its process interrupted: what it was at, and what became of that since.

use std::path::Path;

use engine::tables::transitions::RunState;
use engine::{CallOutcome, EffectKind, Session, Stage};
use journal::Read;
use protocol::show::{CommandNow, InterruptedRun};
use tools::{Secrets, command_of, process_end};

/// The tool that runs commands.
const EXEC: &str = "exec";

/// The interrupted run of a session that nobody owns; none if it has no run.
pub fn interrupted(read: &dyn Read, home: &Path, session: &Session) -> Option<InterruptedRun> {
    use RunState::{Compacting, Preparing, Streaming, ToolExec};
    let run = session.run()?;
    let call = run.step.calls.iter().find(|call| matches!(call.stage, Stage::Started { .. } | Stage::Lost));
    let Some(call) = call else {
        // One that waits for somebody, or is paused, was not interrupted.
        let works = session.is_active() && matches!(run.state(), Preparing | Streaming | ToolExec | Compacting);
        return works.then_some(InterruptedRun { since: run.started_at, call: None, command: None });
    };
    if call.tool != EXEC {
        return Some(InterruptedRun { since: run.started_at, call: Some(call.tool.clone()), command: None });
    }
    let arguments = read.body(&call.arguments.hash).ok().flatten();
    let line = arguments.map_or_else(|| EXEC.to_owned(), |bytes| command_of(&String::from_utf8_lossy(&bytes)));
    let end = process_end(&home.join("calls"), &Secrets::default(), call.effect(EffectKind::RunCall));
    let command = match end.map(|end| end.outcome) {
        None => CommandNow::Running,
        Some(CallOutcome::Interrupted | CallOutcome::Unended) => CommandNow::Unknown,
        Some(
            CallOutcome::Done
            | CallOutcome::Failed
            | CallOutcome::Denied
            | CallOutcome::Skipped
            | CallOutcome::TimedOut
            | CallOutcome::Aborted,
        ) => CommandNow::Finished,
    };
    Some(InterruptedRun { since: run.started_at, call: Some(line), command: Some(command) })
}
