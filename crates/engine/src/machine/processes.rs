//! Processes: commands in the background. A call whose command is put there is settled; the session holds the process
//! until it ends, and ends it at its limit or when the session terminates.

use super::Machine;
use crate::event::{CallOutcome, ProcessAdopted, ProcessCause, ProcessEnded, ProcessEnding, ProcessForgotten};
use crate::ids::{CallId, EffectId, EffectKind, Moment};
use crate::input::ChangedFile;
use crate::state::{Process, ProcessState, Session};
use crate::tables::limits::{ENDED_PROCESSES, PROCESS_MS};

/// How a process ended, and what it changed in files.
pub(super) struct ProcessEnd {
    pub(super) outcome: CallOutcome,
    pub(super) how: String,
    pub(super) changes: Vec<ChangedFile>,
}

impl Machine {
    /// Takes over the command of a call that is about to be settled.
    pub(super) fn adopt(&mut self, id: CallId, moment: Moment) {
        let Some(call) = self.call(id) else { return };
        let until = call.started_at.unwrap_or(moment.now).plus(PROCESS_MS);
        let process = call.effect(EffectKind::RunCall);
        self.emit(ProcessAdopted { process, call: id, until }, moment.now);
    }

    /// A process has ended, or could not be ended. Only the newest ended ones stay listed.
    pub(super) fn process_ended(&mut self, effect: EffectId, end: ProcessEnd, moment: Moment) {
        let process = EffectId { kind: EffectKind::RunCall, ..effect };
        let ProcessEnd { outcome, how, changes } = end;
        if let Some(call) = self.session.as_ref().and_then(|session| session.process(process)).map(|known| known.call) {
            self.record_changes(call, changes, moment);
        }
        self.emit(ProcessEnded { process, outcome, how }, moment.now);
        let Some(session) = &self.session else { return };
        let mut ended: Vec<_> =
            session.account.processes.iter().filter_map(|process| Some((ended_at(process)?, process))).collect();
        ended.sort_by_key(|(at, _)| *at);
        let many = ended.len().saturating_sub(ENDED_PROCESSES);
        let oldest: Vec<EffectId> = ended[..many].iter().map(|(_, process)| process.effect).collect();
        for process in oldest {
            self.emit(ProcessForgotten { process }, moment.now);
        }
    }

    /// Ends a process.
    pub(super) fn end_process(&mut self, process: EffectId, why: ProcessCause, moment: Moment) {
        self.emit(ProcessEnding { process, why }, moment.now);
    }

    /// Ends all running processes.
    pub(super) fn end_processes(&mut self, moment: Moment) {
        let processes = self.session.as_ref().map(|session: &Session| &session.account.processes).into_iter().flatten();
        let running = processes.filter(|process| process.state == ProcessState::Running);
        let running: Vec<EffectId> = running.map(|process| process.effect).collect();
        for process in running {
            self.end_process(process, ProcessCause::Session, moment);
        }
    }
}

fn ended_at(process: &Process) -> Option<crate::ids::Timestamp> {
    match process.state {
        ProcessState::Ended { at, .. } => Some(at),
        ProcessState::Running | ProcessState::Ending { .. } => None,
    }
}
