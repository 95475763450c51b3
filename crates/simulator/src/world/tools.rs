//! The tools' side of the world: what they really did, kept outside the machine, and the supervisors' own records.

use std::collections::{BTreeMap, BTreeSet};

use engine::{CallId, CallOutcome, EffectId, Found, Hash, ToolClass, ToolResult};

use super::disk::{Disk, Recorded};
use crate::case::Form;
use crate::plan::{Plan, Planned};
use crate::workload::{Ends, Life};

/// One start of a call, as the tool itself saw it.
#[derive(Debug, Clone)]
pub struct Start {
    /// Which call.
    pub call: CallId,
    /// The effect that started it.
    pub effect: EffectId,
    /// How it may be repeated.
    pub class: ToolClass,
    /// The key that it carried.
    pub key: Hash,
    /// How far its intent was recorded at that instant.
    pub recorded: Recorded,
    /// Whether it needs leave.
    pub asks: bool,
    /// Whether its run had ended by then.
    pub late: bool,
}

/// A supervised command.
#[derive(Debug, Clone)]
pub struct Command {
    /// The call that it is.
    pub call: CallId,
    /// The hash of the call's arguments.
    pub arguments: Hash,
    /// What its supervisor's record says.
    pub record: Record,
    /// How it ends.
    pub ends: Ends,
}

/// How far a supervised command has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    /// Its supervisor is on the way and has made no record yet.
    Spawned,
    /// It runs and has written so many pieces of output.
    Running {
        /// Pieces of output.
        pieces: usize,
    },
    /// Its exit record is there.
    Exited,
    /// It was ended before it was done.
    Killed,
    /// No exit record, and nothing holds the record: it died with the machine.
    Died,
    /// Someone looked for it first and took its place: it can never start.
    Barred,
}

/// Everything that tools did.
#[derive(Debug, Clone, Default)]
pub struct Tools {
    /// Every start, in order.
    pub starts: Vec<Start>,
    /// Calls that came to their own end.
    pub done: BTreeSet<CallId>,
    /// Commands that died with the machine.
    pub died: BTreeSet<CallId>,
    /// The supervised commands, by the effect that started them.
    pub commands: BTreeMap<EffectId, Command>,
}

/// What a look-up gives, as the engine wants it.
pub type Lookup = (Found, Option<ToolResult>);

impl Tools {
    /// A call begins to act.
    pub fn begin(&mut self, call: CallId, effect: EffectId, planned: &Planned, disk: &Disk) {
        self.starts.push(Start {
            call,
            effect,
            class: planned.class,
            key: planned.fingerprint(),
            recorded: disk.intent(call, effect),
            asks: planned.asks,
            late: disk.has_ended(call.run),
        });
    }

    /// A supervisor is asked to run a command; where it has a record already it is attached to.
    pub fn spawn(&mut self, call: CallId, effect: EffectId, planned: &Planned) {
        let (arguments, ends) = (Hash::of(planned.arguments.as_bytes()), planned.ends);
        self.commands.entry(effect).or_insert(Command { call, arguments, record: Record::Spawned, ends });
    }

    /// Commands that do something by themselves.
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

    /// A crash reaches the tools: what outlives the process runs on, ends, or dies with the machine.
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

    /// Takes the place of a command that has not begun: from now on it cannot.
    fn bar(&mut self, call: CallId, effect: EffectId, planned: &Planned) {
        let arguments = Hash::of(planned.arguments.as_bytes());
        self.commands.insert(effect, Command { call, arguments, record: Record::Barred, ends: planned.ends });
    }

    /// What can be known of a call that a crash cut off.
    pub fn look_up(&mut self, call: CallId, started: EffectId, planned: &Planned) -> Lookup {
        let ended = |outcome| Some(ToolResult::new(outcome, planned.result()));
        match (planned.life, planned.class) {
            (Life::Supervised, _) => match self.commands.get(&started).map(|command| command.record) {
                None | Some(Record::Spawned | Record::Barred) => {
                    self.bar(call, started, planned);
                    (Found::NeverStarted, None)
                }
                Some(Record::Running { pieces }) => (Found::Running, planned.put_aside(pieces)),
                Some(Record::Exited) => (Found::Ended, ended(planned.outcome())),
                Some(Record::Killed) => (Found::Ended, ended(CallOutcome::Failed)),
                Some(Record::Died) => (Found::Unknown, None),
            },
            (Life::Process, ToolClass::Once) => (Found::Unknown, None),
            (Life::Process, _) if self.done.contains(&call) => (Found::Ended, ended(planned.outcome())),
            (Life::Process, _) => (Found::NeverStarted, None),
        }
    }

    /// How a process has ended; nothing while it lives.
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

    /// Ends a call; says how it stands then.
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
