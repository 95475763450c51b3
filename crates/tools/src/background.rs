//! A background command from the view of its session's runtime: waits for its end, ends it, removes its record.
//! The call that started the command is in `exec.rs`.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::{CallOutcome, ChangedFile, EffectId};
use tokio::io::Interest;
use tokio::net::unix::pipe::Sender;
use tokio::time::sleep;

use crate::changes::{self, FileStore, Ran, Recorder};
use crate::exec::{self, Over};
use crate::folder::{CallFolder, CallState};
use crate::guard::Protected;
use crate::limits::{ATTACHED_TICK_MS, BACKGROUND_TICK_MS, HELD_TICK_MS};
use crate::masking::Secrets;
use crate::preview;

/// How a background process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessEnd {
    /// Done or Failed; TimedOut at its limit; Interrupted if the outcome is unknown; Unended if some process could not
    /// be ended.
    pub outcome: CallOutcome,
    /// The same as text.
    pub how: String,
    /// What it has changed in its workspace since it was started.
    pub changes: Vec<ChangedFile>,
}

/// What is needed to follow a background command to its end.
#[derive(Debug, Clone)]
pub struct ProcessContext {
    /// The folder of the records of commands.
    pub calls: PathBuf,
    /// Where contents of files are kept before a command may change them.
    pub files: FileStore,
    /// What no tool may read.
    pub protected: Protected,
    /// Values that are masked.
    pub secrets: Secrets,
}

/// Waits for the end of the process that this effect started, also if an earlier runtime started it. While the process
/// runs, the wait takes no CPU time.
pub async fn hold_process(context: &ProcessContext, process: EffectId) -> ProcessEnd {
    let folder = CallFolder::of(&context.calls, process);
    loop {
        match folder.state() {
            Ok(CallState::Running) => match folder.control() {
                Ok(Some(control)) => tokio::select! {
                    () = supervisor_gone(control) => {}
                    // The FIFO may be one that a command has put there.
                    () = sleep(Duration::from_millis(HELD_TICK_MS)) => {}
                },
                // The supervisor exited between the two reads, or a command has removed the FIFO.
                Ok(None) => sleep(Duration::from_millis(ATTACHED_TICK_MS)).await,
                Err(_) => tick().await,
            },
            // A failed read does not mean that the process ended.
            Err(_) => tick().await,
            Ok(over) => return cleared(context, (&folder, process), &over).await,
        }
    }
}

/// Reads how a process ended, without changing anything; none while it runs.
pub fn process_end(calls: &Path, secrets: &Secrets, process: EffectId) -> Option<ProcessEnd> {
    let folder = CallFolder::of(calls, process);
    match folder.state() {
        Ok(CallState::Running) | Err(_) => None,
        Ok(over) => Some(end_of(secrets, &over)),
    }
}

/// Ends a process and all that it started. The outcome is `Unended` if that takes longer than `grace`.
pub async fn end_process(context: &ProcessContext, process: EffectId, grace: Duration) -> ProcessEnd {
    let folder = CallFolder::of(&context.calls, process);
    match exec::ended_within(&folder, grace).await {
        Ok(state) => cleared(context, (&folder, process), &state).await,
        Err(error) => unended(&format!("its record cannot be reached: {error}")),
    }
}

/// What a process changed is recorded: the listing from before it is no longer needed.
pub fn process_recorded(calls: &Path, process: EffectId) {
    changes::forget(calls, process);
}

/// Removes the record of a process that is no longer listed. A process that could not be ended keeps its record while
/// it runs.
pub fn forget_process(calls: &Path, process: EffectId) -> io::Result<()> {
    let folder = CallFolder::of(calls, process);
    if folder.state()? == CallState::Running {
        return Ok(());
    }
    changes::forget(calls, process);
    folder.remove()
}

/// Kills the processes that a killed supervisor left, and returns the end.
async fn cleared(
    context: &ProcessContext,
    (folder, process): (&CallFolder, EffectId),
    state: &CallState,
) -> ProcessEnd {
    if *state == CallState::Dead {
        exec::end_left(folder).await;
    }
    let ran = if let CallState::Ended(record) = state { exec::ran(record) } else { Ran::default() };
    let over = if *state == CallState::Running { Over::No } else { Over::Yes };
    let ProcessContext { calls, files, protected, secrets } = context.clone();
    let changes = exec::changes_of(Recorder { calls, files, protected, workspace: None }, process, ran, over).await;
    ProcessEnd { changes, ..end_of(&secrets, state) }
}

fn end_of(secrets: &Secrets, state: &CallState) -> ProcessEnd {
    let unknown = |how: &str| ProcessEnd { outcome: CallOutcome::Interrupted, how: how.to_owned(), changes: vec![] };
    match state {
        CallState::Ended(record) => {
            ProcessEnd { outcome: preview::outcome(record), how: secrets.mask(&preview::how(record)), changes: vec![] }
        }
        CallState::Running => unended("it could not be ended in time"),
        CallState::Dead => {
            unknown("interrupted: its supervisor was killed, or a crash ended it; its outcome is unknown")
        }
        CallState::Absent | CallState::Void => unknown("its record is gone; its outcome is unknown"),
    }
}

fn unended(how: &str) -> ProcessEnd {
    ProcessEnd { outcome: CallOutcome::Unended, how: how.to_owned(), changes: vec![] }
}

/// Returns when the supervisor has exited: poll reports an error on the FIFO once it has no reader.
async fn supervisor_gone(control: File) {
    match Sender::from_file(control) {
        Ok(control) => drop(control.ready(Interest::ERROR).await),
        Err(_) => tick().await,
    }
}

async fn tick() {
    sleep(Duration::from_millis(BACKGROUND_TICK_MS)).await;
}
