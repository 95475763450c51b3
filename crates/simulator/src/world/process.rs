//! The runtime's process around the real pump: it keeps to the pump's contract, and everything in it dies in a crash.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use engine::{
    Batch, Command, Do, EffectId, Epoch, Hash, Input, Line, Machine, Pump, Record, Report, Segment, Session, Settings,
    Timestamp,
};
use journal::Read;

use super::Outside;
use super::callers::Caller;
use super::disk::append_name;
use super::perform::{Performer, Stepped};
use crate::case::Form;
use crate::checkers;
use crate::invariant::{Invariant, Violation};
use crate::workload::{SESSION_KEY, branch_id, session_id};

/// One life of the runtime.
#[derive(Debug)]
pub struct Process {
    pump: Pump<Caller>,
    epoch: Epoch,
    /// What the pump asked for and was not carried out yet.
    tasks: VecDeque<Do<Caller>>,
    /// Whether something was offered since the pump last decided.
    offered: bool,
    writing: Option<Arc<Batch>>,
    performers: BTreeMap<EffectId, Performer>,
    armed: Option<Timestamp>,
}

/// What could come next.
#[derive(Debug, Clone, Copy)]
enum Next {
    Task,
    Append,
    Due,
    Perform(EffectId),
    Command(EffectId),
    Ask(Caller),
}

/// The name of an operation, and what it was about.
pub type Done = (&'static str, String);

impl Process {
    /// Takes the journal over, brings the session back and takes it up.
    pub fn open(outside: &mut Outside, form: Form) -> Result<Self, Violation> {
        let epoch = outside.disk.open();
        let row =
            outside.disk.journal().session(SESSION_KEY).map_err(|e| Invariant::Journal.violated(e.to_string()))?;
        let machine = if row.is_some() { recover(outside, form)? } else { Machine::new() };
        let mut process = Self {
            pump: Pump::new(machine),
            epoch,
            tasks: VecDeque::new(),
            offered: false,
            writing: None,
            performers: BTreeMap::new(),
            armed: None,
        };
        if row.is_none() {
            outside.view.come_back(&[], &[], form, outside.disk.journal())?;
            checkers::acknowledged(outside, &[])?;
            let (session, branch) = (session_id(), branch_id());
            let create = Command::Create { session, key: SESSION_KEY.into(), agent: "main".into(), branch };
            process.offer(create.into(), None, outside);
        }
        process.offer(Report::Opened { epoch }.into(), None, outside);
        process.decide()?;
        Ok(process)
    }

    /// The session as the machine has it.
    pub fn session(&self) -> Option<&Session> {
        self.pump.session()
    }

    /// What was in flight when this process ended does not come through any more.
    pub fn is_fenced(&self, outside: &mut Outside) -> Result<(), Violation> {
        let Some(batch) = &self.writing else { return Ok(()) };
        let answer = outside.disk.append(batch, self.epoch);
        Invariant::Fence.holds(answer.is_err(), || format!("epoch {} appended after its end", self.epoch))
    }

    /// Does one thing, drawn among all that could come next; none when nothing can come any more.
    pub fn step(&mut self, outside: &mut Outside) -> Result<Option<Done>, Violation> {
        let choices = self.choices(outside);
        let next = match (choices.len(), self.armed) {
            (0, None) => return Ok(None),
            (0, Some(at)) => {
                outside.now = outside.now.max(at);
                Next::Due
            }
            (count, _) => choices[outside.chance.pick(count)],
        };
        let done = match next {
            Next::Task => self.task(outside)?,
            Next::Append => self.append(outside)?,
            Next::Due => {
                self.armed = None;
                self.offer(Report::Due.into(), None, outside);
                ("due", String::new())
            }
            Next::Perform(effect) => self.perform(effect, outside),
            Next::Command(effect) => {
                let Outside { tools, plan, disk, .. } = outside;
                (tools.step_command(effect, plan, disk), effect.to_string())
            }
            Next::Ask(caller) => {
                let Outside { callers, view, plan, .. } = &mut *outside;
                let command = callers.ask(caller, view, plan);
                self.offer(command.into(), Some(caller), outside);
                (caller.name(), format!("{caller:?}"))
            }
        };
        self.decide()?;
        Ok(Some(done))
    }

    fn choices(&self, outside: &Outside) -> Vec<Next> {
        let due = self.armed.is_some_and(|at| at <= outside.now);
        let own = [
            (!self.tasks.is_empty()).then_some(Next::Task),
            self.writing.is_some().then_some(Next::Append),
            due.then_some(Next::Due),
        ];
        let ready = self.performers.iter().filter(|(effect, performer)| performer.is_ready(**effect, outside));
        let mut choices: Vec<Next> = own.into_iter().flatten().collect();
        choices.extend(ready.map(|(effect, _)| Next::Perform(*effect)));
        choices.extend(outside.tools.moving().map(Next::Command));
        choices.extend(outside.callers.willing(&outside.view, &outside.plan).into_iter().map(Next::Ask));
        choices
    }

    fn offer(&mut self, input: Input, caller: Option<Caller>, outside: &mut Outside) {
        let moment = outside.moment();
        self.pump.offer(input, moment, caller);
        self.offered = true;
    }

    /// Lets the pump decide, whenever its contract asks for it.
    fn decide(&mut self) -> Result<(), Violation> {
        while self.offered && self.writing.is_none() && self.tasks.is_empty() {
            self.offered = false;
            let pump = &mut self.pump;
            let decided = catch_unwind(AssertUnwindSafe(|| pump.next_batch()));
            self.writing = decided.map_err(|_| Invariant::Edge.violated("the machine panicked"))?;
            self.take_tasks()?;
        }
        Ok(())
    }

    fn take_tasks(&mut self) -> Result<(), Violation> {
        while let Some(task) = self.pump.poll() {
            match task {
                Do::Arm(at) => self.armed = at,
                Do::Broken(edge) => return Err(Invariant::Edge.violated(edge.to_string())),
                other => self.tasks.push_back(other),
            }
        }
        Ok(())
    }

    fn append(&mut self, outside: &mut Outside) -> Result<Done, Violation> {
        let Some(batch) = self.writing.take() else { return Ok(("nothing", String::new())) };
        let kinds: Vec<&str> = batch.records.iter().map(|record| record.event.kind()).collect();
        let kinds = kinds.join(" ");
        let position = outside.disk.append(&batch, self.epoch);
        let position = position.map_err(|e| Invariant::Journal.violated(format!("`{kinds}` was not taken: {e}")))?;
        self.pump.committed(position);
        self.take_tasks()?;
        Ok((append_name(&batch), kinds))
    }

    fn task(&mut self, outside: &mut Outside) -> Result<Done, Violation> {
        match self.tasks.pop_front() {
            Some(Do::Start(effect)) => {
                let id = effect.id();
                if let Some(session) = self.pump.session()
                    && let Some(performer) = Performer::start(&effect, outside, session)?
                {
                    self.performers.insert(id, performer);
                }
                Ok((start_name(id), id.to_string()))
            }
            Some(Do::Stop(id)) => {
                self.performers.remove(&id);
                Ok(("stop", id.to_string()))
            }
            Some(Do::Publish(batch)) => {
                let kept = outside.disk.holds(&batch);
                Invariant::Published.holds(kept, || "a batch was shown before it was written".into())?;
                outside.view.told(&batch, outside.disk.journal())?;
                Ok(("publish", String::new()))
            }
            Some(Do::Answer(caller, answer)) => {
                outside.callers.answered(caller, answer)?;
                Ok(("answer", format!("{caller:?}")))
            }
            Some(Do::Arm(_) | Do::Broken(_)) | None => Ok(("nothing", String::new())),
        }
    }

    fn perform(&mut self, effect: EffectId, outside: &mut Outside) -> Done {
        let Some(performer) = self.performers.get_mut(&effect) else { return ("nothing", String::new()) };
        let Stepped { name, report, last } = performer.step(effect, outside);
        if last {
            self.performers.remove(&effect);
        }
        if let Some(report) = report {
            self.offer(report.into(), None, outside);
        }
        (name, effect.to_string())
    }

    /// Where the machine is not ahead of the journal, the journal folds to its state.
    pub fn check_fold(&self, outside: &Outside) -> Result<(), Violation> {
        if self.writing.is_some() {
            return Ok(());
        }
        let line = line(&outside.disk.entries()?, &outside.disk.progress()?);
        let recovered = machine(line, outside)?;
        Invariant::Fold.holds(recovered.session() == self.session(), || {
            format!("live: {:#?}\nrecovered: {:#?}", self.session(), recovered.session())
        })
    }
}

fn recover(outside: &mut Outside, form: Form) -> Result<Machine, Violation> {
    let (entries, progress) = (outside.disk.entries()?, outside.disk.progress()?);
    outside.view.come_back(&entries, &progress, form, outside.disk.journal())?;
    checkers::acknowledged(outside, &entries)?;
    machine(line(&entries, &progress), outside)
}

fn line(entries: &[journal::Entry], progress: &[Record]) -> Line {
    let record = |entry: &journal::Entry| Record { seq: Some(entry.seq), at: entry.at, event: entry.event.clone() };
    let entries = entries.iter().map(record).collect();
    Line { start: None, segments: vec![Segment { branch: branch_id(), entries }], progress: progress.to_vec() }
}

fn machine(line: Line, outside: &Outside) -> Result<Machine, Violation> {
    let settings = |hash: Hash| -> Option<Arc<Settings>> {
        let kept = outside.disk.journal().body(&hash).ok().flatten().is_some();
        (kept && hash == outside.plan.settings_hash).then(|| Arc::clone(&outside.plan.settings))
    };
    Machine::recover(line, &settings).map_err(|e| Invariant::Fold.violated(e.to_string()))
}

fn start_name(id: EffectId) -> &'static str {
    use engine::EffectKind as Kind;
    match id.kind {
        Kind::Prepare => "start_prepare",
        Kind::Lane => "start_lane",
        Kind::Request => "start_request",
        Kind::CheckCall => "start_check_call",
        Kind::RunCall => "start_run_call",
        Kind::FindCall => "start_find_call",
        Kind::EndCall => "start_end_call",
        Kind::Reserve | Kind::Compact | Kind::Deliver | Kind::Observe | Kind::Report | Kind::Child => "start_other",
    }
}
