//! The tools' side of the world: what they really did, recorded outside of the machine, and the supervisors' own
//! records.

use std::collections::{BTreeMap, BTreeSet};

use engine::{CallId, CallOutcome, EffectId, Found, Hash, ToolClass, ToolResult};

use super::disk::{Disk, Recorded};
use crate::case::Form;
use crate::plan::{Plan, Planned};
use crate::workload::{Ends, Life};

/// One start of a call, as the tool itself saw it.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Start {
    pub call: CallId,
    /// The effect that started it.
    pub effect: EffectId,
    /// Whether it may be repeated.
    pub class: ToolClass,
    /// The idempotency key that it carried.
    pub key: Hash,
    /// How far its start was recorded at that instant.
    pub recorded: Recorded,
    /// Whether it needs approval.
    pub asks: bool,
    /// Whether its run had ended by then.
    pub late: bool,
    /// Whether it was never recorded, because the process that started it early ended before.
    pub lost: bool,
}

/// A supervised command.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Command {
    pub call: CallId,
    /// The hash of the call's arguments.
    pub arguments: Hash,
    /// The content of its supervisor's record.
    pub record: Record,
    pub ends: Ends,
}

/// The progress of a supervised command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    /// Its supervisor is starting and has made no record yet.
    Spawned,
    /// It runs.
    Running {
        /// Pieces of output written so far.
        pieces: usize,
    },
    /// Its exit record exists.
    Exited,
    /// It was stopped before it was done.
    Killed,
    /// It has no exit record, and nothing holds the record: it died with the machine.
    Died,
    /// A look-up came first and took its place: it can never start.
    Barred,
}

/// Everything that tools did.
#[derive(Debug, Clone, Default)]
pub struct Tools {
    /// Every start, in order.
    pub starts: Vec<Start>,
    /// Calls that finished by themselves.
    pub done: BTreeSet<CallId>,
    /// Commands that died with the machine.
    pub died: BTreeSet<CallId>,
    /// The supervised commands, by the effect that started them.
    pub commands: BTreeMap<EffectId, Command>,
}

/// The result of a look-up, as the engine expects it.
pub type Lookup = (Found, Option<ToolResult>);

impl Tools {
    /// Starts a call.
    pub fn begin(&mut self, call: CallId, effect: EffectId, planned: &Planned, disk: &Disk) {
        self.starts.push(Start {
            call,
            effect,
            class: planned.class,
            key: planned.fingerprint(),
            recorded: disk.intent(call, effect),
            asks: planned.asks,
            late: disk.has_ended(call.run),
            lost: false,
        });
    }

    /// Asks a supervisor to run a command; if it has a record already, attaches to it.
    pub fn spawn(&mut self, call: CallId, effect: EffectId, planned: &Planned) {
        let (arguments, ends) = (Hash::of(planned.arguments.as_bytes()), planned.ends);
        self.commands.entry(effect).or_insert(Command { call, arguments, record: Record::Spawned, ends });
    }

    /// Commands that can take a step by themselves.
    pub fn moving(&self) -> impl Iterator<Item = EffectId> + '_ {
        let hangs = |command: &Command| {
            matches!(command.ends, Ends::Hangs | Ends::Stubborn) && command.record == Record::Running { pieces: 1 }
        };
        self.running().filter(move |(_, command)| !hangs(command)).map(|(effect, _)| effect)
    }

    /// Commands that live.
    pub fn running(&self) -> impl Iterator<Item = (EffectId, &Command)> + '_ {
        let lives = |command: &Command| matches!(command.record, Record::Spawned | Record::Running { .. });
        self.commands.iter().filter(move |(_, command)| lives(command)).map(|(effect, command)| (*effect, command))
    }

    /// A command takes its next step by itself.
    pub fn step_command(&mut self, effect: EffectId, plan: &Plan, disk: &Disk) -> &'static str {
        let Some(Command { call, arguments, record, .. }) = self.commands.get(&effect).cloned() else {
            return "command_gone";
        };
        let Some(planned) = plan.call(&arguments) else { return "command_gone" };
        let (next, name) = match record {
            Record::Spawned => {
                self.begin(call, effect, planned, disk);
                (Record::Running { pieces: 0 }, "command_began")
            }
            Record::Running { pieces } if pieces < planned.output.len() => {
                (Record::Running { pieces: pieces + 1 }, "command_wrote")
            }
            Record::Running { .. } => {
                self.done.insert(call);
                (Record::Exited, "command_exited")
            }
            still => (still, "command_gone"),
        };
        self.record(effect, next);
        name
    }

    /// Applies a crash to the tools: what outlives the process keeps running, ends, or dies with the machine.
    pub fn crash(&mut self, form: Form, plan: &Plan, disk: &Disk) {
        let running: Vec<EffectId> = self.running().map(|(effect, _)| effect).collect();
        for effect in running {
            match form {
                Form::Process => {}
                Form::Ended => {
                    while self.moving().any(|moves| moves == effect) {
                        self.step_command(effect, plan, disk);
                    }
                }
                Form::Power { .. } => self.lose_power(effect),
            }
        }
        let kept = if matches!(form, Form::Power { .. }) { Recorded::Synced } else { Recorded::Written };
        self.lose(kept, disk);
    }

    /// Accounts for read-only calls that began before their start was recorded as far as `kept`, and whose start is not
    /// there now. If even their message was lost, nothing names them any more, so nobody needs a result: they are
    /// forgotten.
    pub fn lose(&mut self, kept: Recorded, disk: &Disk) {
        let Self { starts, done, .. } = self;
        starts.retain_mut(|start| {
            if start.class != ToolClass::ReadOnly || start.recorded >= kept {
                return true;
            }
            start.lost |= disk.intent(start.call, start.effect) == Recorded::No;
            let stays = disk.asks_for(start.call);
            if !stays {
                done.remove(&start.call);
            }
            stays
        });
    }

    fn lose_power(&mut self, effect: EffectId) {
        match self.commands.get(&effect) {
            Some(Command { record: Record::Spawned, .. }) => drop(self.commands.remove(&effect)),
            Some(Command { call, .. }) => {
                self.died.insert(*call);
                self.record(effect, Record::Died);
            }
            None => {}
        }
    }

    fn record(&mut self, effect: EffectId, record: Record) {
        if let Some(command) = self.commands.get_mut(&effect) {
            command.record = record;
        }
    }

    /// Takes the place of a command that has not started: from now on it cannot start.
    fn bar(&mut self, call: CallId, effect: EffectId, planned: &Planned) {
        let arguments = Hash::of(planned.arguments.as_bytes());
        self.commands.insert(effect, Command { call, arguments, record: Record::Barred, ends: planned.ends });
    }

    /// What can be found out about a call that a crash interrupted.
    pub fn look_up(&mut self, call: CallId, started: EffectId, planned: &Planned) -> Lookup {
        let ended = |outcome| Some(ToolResult::new(outcome, planned.result()));
        match (planned.life, planned.class) {
            (Life::Supervised, _) => match self.commands.get(&started).map(|command| command.record) {
                None | Some(Record::Spawned | Record::Barred) => {
                    self.bar(call, started, planned);
                    (Found::NeverStarted, None)
                }
                Some(Record::Running { pieces }) => (Found::Running, planned.background_result(pieces)),
                Some(Record::Exited) => (Found::Ended, ended(planned.outcome())),
                Some(Record::Killed) => (Found::Ended, ended(CallOutcome::Failed)),
                Some(Record::Died) => (Found::Unknown, None),
            },
            (Life::Process, ToolClass::Once) => (Found::Unknown, None),
            (Life::Process, _) if self.done.contains(&call) => (Found::Ended, ended(planned.outcome())),
            (Life::Process, _) => (Found::NeverStarted, None),
        }
    }

    /// How a process has ended; `None` while it lives.
    pub fn ended(&self, process: EffectId, plan: &Plan) -> Option<CallOutcome> {
        let command = self.commands.get(&process)?;
        match command.record {
            Record::Spawned | Record::Running { .. } => None,
            Record::Exited => plan.call(&command.arguments).map(Planned::outcome),
            Record::Killed | Record::Barred => Some(CallOutcome::Failed),
            Record::Died => Some(CallOutcome::Interrupted),
        }
    }

    /// Ends a process, if it lives.
    pub fn end_process(&mut self, process: EffectId) {
        if self.running().any(|(effect, _)| effect == process) {
            self.record(process, Record::Killed);
        }
    }

    /// Ends a call; returns its outcome.
    pub fn end(&mut self, call: CallId, started: EffectId, planned: &Planned) -> CallOutcome {
        if planned.life == Life::Process {
            return CallOutcome::Failed;
        }
        match self.commands.get(&started).map(|command| command.record) {
            Some(Record::Exited) => return planned.outcome(),
            None | Some(Record::Spawned | Record::Barred) => self.bar(call, started, planned),
            Some(Record::Running { .. } | Record::Killed) => self.record(started, Record::Killed),
            Some(Record::Died) => {}
        }
        CallOutcome::Failed
    }
}
