//! Background commands that still work. They are found by the folders of their supervisors, so no session without one is
//! read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use engine::{Call, EffectId, EffectKind, Process, SessionId, SessionRow, Stage};
use journal::Read;
use protocol::show::BackgroundCommand;
use tools::{UnrecordedCall, command_of, running_calls, unrecorded_calls};

use super::files::workspace;
use super::{Texts, fold_branch};
use crate::error::Error;

/// The background commands of a home that still work: all, or those of runs whose folder is this one, in it or around
/// it. Oldest first.
pub fn background(
    home: &Path,
    read: &dyn Read,
    texts: Texts<'_>,
    folder: Option<&str>,
) -> Result<Vec<BackgroundCommand>, Error> {
    let mut sessions: BTreeMap<SessionId, (SessionRow, BTreeSet<EffectId>)> = BTreeMap::new();
    // A folder of calls that cannot be read hides nothing else.
    for call in running_calls(&home.join("calls")).unwrap_or_default() {
        let Some(run) = read.run(call.run)? else { continue };
        if let Some(folder) = folder
            && !workspace(read, run.settings)?.is_some_and(|other| overlap(Path::new(folder), Path::new(&other)))
        {
            continue;
        }
        if let Some(row) = read.session_of_run(call.run)? {
            sessions.entry(row.session).or_insert_with(|| (row, BTreeSet::new())).1.insert(call);
        }
    }
    let mut commands = vec![];
    for (row, running) in sessions.values() {
        // One unreadable session must not hide the others.
        let Ok(session) = fold_branch(read, row) else { continue };
        // A call that its run waits for is none of them.
        for process in session.account.processes.iter().filter(|process| running.contains(&process.effect)) {
            commands.push(BackgroundCommand {
                session: row.key.clone(),
                id: process.name(),
                command: command_of(&texts(&process.arguments)?),
                since: process.started_at,
            });
        }
    }
    commands.sort_by(|a, b| (a.since, &a.id).cmp(&(b.since, &b.id)));
    Ok(commands)
}

/// A session with background commands whose changes are not recorded.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Unrecorded {
    pub row: SessionRow,
    /// Those that have ended; the others still work.
    pub ended: Vec<EffectId>,
}

/// The sessions with background commands whose changes are not recorded: those that still work, and those that ended while
/// nobody owned the home.
pub fn unrecorded(home: &Path, read: &dyn Read) -> Result<Vec<Unrecorded>, Error> {
    let mut sessions: BTreeMap<SessionId, (SessionRow, BTreeMap<EffectId, bool>)> = BTreeMap::new();
    for UnrecordedCall { call, has_ended } in unrecorded_calls(&home.join("calls")).unwrap_or_default() {
        if let Some(row) = read.session_of_run(call.run)? {
            sessions.entry(row.session).or_insert_with(|| (row, BTreeMap::new())).1.insert(call, has_ended);
        }
    }
    let mut found = vec![];
    for (row, calls) in sessions.into_values() {
        // One unreadable session must not hide the others.
        let Ok(session) = fold_branch(read, &row) else { continue };
        let held = session.account.processes.iter().filter(|process| !process.is_ended());
        let held: Vec<_> = held.filter_map(|process| calls.get_key_value(&process.effect)).collect();
        if !held.is_empty() {
            let ended = held.iter().filter(|(_, has_ended)| **has_ended).map(|(call, _)| **call).collect();
            found.push(Unrecorded { row, ended });
        }
    }
    Ok(found)
}

/// The tries of calls that began and have no result, as far as the journal knows: of unfinished runs, and those of `running`
/// that a session holds in the background.
pub fn started_calls(read: &dyn Read, running: &[EffectId]) -> Result<Vec<EffectId>, Error> {
    let mut started = vec![];
    for row in read.unfinished()?.into_iter().chain(read.held()?) {
        // One unreadable session must not hide the others.
        let Ok(session) = fold_branch(read, &row) else { continue };
        let Some(run) = session.run() else { continue };
        let is_open = |call: &&Call| matches!(call.stage, Stage::Started { .. } | Stage::Ending { .. } | Stage::Lost);
        let calls = run.step.calls.iter().filter(is_open);
        started.extend(calls.map(|call| run.effect(EffectKind::RunCall, call.ordinal, call.try_no)));
    }
    for call in running {
        let Some(row) = read.session_of_run(call.run)? else { continue };
        let Ok(session) = fold_branch(read, &row) else { continue };
        let is_held = |process: &Process| process.effect == *call && !process.is_ended();
        started.extend(session.account.processes.iter().any(is_held).then_some(*call));
    }
    Ok(started)
}

/// Whether one of two folders is the other one, or in it.
pub fn overlap(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}
