//! A command in the background, seen from the runtime of the session that holds it: followed until it has ended, ended,
//! forgotten. What may not live here: the call that began it (`exec.rs`).

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use engine::{CallOutcome, EffectId};
use tokio::io::Interest;
use tokio::net::unix::pipe::Sender;
use tokio::time::sleep;

use crate::exec;
use crate::folder::{CallFolder, CallState};
use crate::limits::HELD_TICK_MS;
use crate::masking::Secrets;
use crate::preview;
use crate::supervise::processes;

/// How a process has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessEnd {
    /// Done or Failed; TimedOut by its limit, Interrupted if nobody can know, Unended if some of it could not be ended.
    pub outcome: CallOutcome,
    /// How, in words.
    pub how: String,
}

/// Waits for the end of the process that this effect started, whoever its runtime was. It costs nothing while it runs.
pub async fn hold_process(calls: &Path, secrets: &Secrets, process: EffectId) -> ProcessEnd {
    let folder = CallFolder::of(calls, process);
    loop {
        match folder.state() {
            Ok(CallState::Running) => match folder.control() {
                Ok(Some(control)) => supervisor_gone(control).await,
                // It has gone between these two looks.
                Ok(None) => {}
                Err(_) => tick().await,
            },
            // A look that fails is no reason to take it for ended.
            Err(_) => tick().await,
            Ok(over) => return cleared(&folder, secrets, &over),
        }
    }
}

/// How a process has ended, for a reader that leaves everything as it is; none while it runs.
pub fn process_end(calls: &Path, secrets: &Secrets, process: EffectId) -> Option<ProcessEnd> {
    let folder = CallFolder::of(calls, process);
    match folder.state() {
        Ok(CallState::Running) | Err(_) => None,
        Ok(over) => Some(end_of(secrets, &over)),
    }
}

/// Ends a process with all that it started. Within `grace` it is ended, else it is Unended.
pub async fn end_process(calls: &Path, secrets: &Secrets, process: EffectId, grace: Duration) -> ProcessEnd {
    let folder = CallFolder::of(calls, process);
    match exec::ended_within(&folder, grace).await {
        Ok(state) => cleared(&folder, secrets, &state),
        Err(error) => unended(&format!("its record cannot be reached: {error}")),
    }
}

/// Removes the record of a process that is not listed any more. One that could not be ended keeps it as long as it lives.
pub fn forget_process(calls: &Path, process: EffectId) -> io::Result<()> {
    let folder = CallFolder::of(calls, process);
    if folder.state()? == CallState::Running { Ok(()) } else { folder.remove() }
}

/// What a supervisor that was killed has left is ended.
fn cleared(folder: &CallFolder, secrets: &Secrets, state: &CallState) -> ProcessEnd {
    if *state == CallState::Dead {
        processes::kill_marked(&folder.name());
    }
    end_of(secrets, state)
}

fn end_of(secrets: &Secrets, state: &CallState) -> ProcessEnd {
    let unknown = |how: &str| ProcessEnd { outcome: CallOutcome::Interrupted, how: how.to_owned() };
    match state {
        CallState::Ended(record) => {
            ProcessEnd { outcome: preview::outcome(record), how: secrets.mask(&preview::how(record)) }
        }
        CallState::Running => unended("it could not be ended in time"),
        CallState::Dead => unknown("cut off by a crash; how it ended is not known"),
        CallState::Absent | CallState::Void => unknown("its record is gone; how it ended is not known"),
    }
}

fn unended(how: &str) -> ProcessEnd {
    ProcessEnd { outcome: CallOutcome::Unended, how: how.to_owned() }
}

/// Returns when nobody reads the FIFO of a supervisor any more: an error for who could write into it.
async fn supervisor_gone(control: File) {
    match Sender::from_file(control) {
        Ok(control) => drop(control.ready(Interest::ERROR).await),
        Err(_) => tick().await,
    }
}

async fn tick() {
    sleep(Duration::from_millis(HELD_TICK_MS)).await;
}
