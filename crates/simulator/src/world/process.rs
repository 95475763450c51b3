//! The runtime's process around the real pump: it obeys the pump's contract, and everything in it dies in a crash.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::Outside;
use super::callers::Caller;
use super::disk::{Recorded, append_name};
use super::perform::{Performer, Stepped};
use crate::case::Form;
use crate::checkers;
use crate::invariant::{Invariant, Violation};
use crate::plan::{SESSION_KEY, branch_id, session_id};
use engine::{
    Batch, CallOutcome, Command, Do, EffectId, Epoch, Event, Hash, Input, Lineage, LineageSegment, Machine, Pump,
    Record, Report, Session, Settings, Timestamp,
};
use journal::Unsaved;

/// One life of the runtime.
#[derive(Debug)]
pub struct Process {
    pump: Pump<Machine, Caller>,
    epoch: Epoch,
    /// What the pump asked for and was not carried out yet.
    tasks: VecDeque<Do<Machine, Caller>>,
    /// Whether something was offered since the pump last decided.
    offered: bool,
    writing: Option<Arc<Batch>>,
    /// What the next snapshot would save.
    unsaved: Unsaved,
    performers: BTreeMap<EffectId, Performer>,
    armed: Option<Timestamp>,
    /// The last reports, newest first.
    observed: VecDeque<Report>,
    /// Whether the next effect that is stopped sends one more report.
    one_more: bool,
    /// Why it can do nothing more.
    end: Option<End>,
}

/// Why a process can do nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It shuts down properly.
    Leaving,
    /// The journal failed.
    Failed,
    /// The disk was full; it waits for space.
    Parked,
    /// It died during an operation of its journal.
    Died,
}

/// Who becomes the owner at an opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// A new process.
    New,
    /// The same process, which discarded its machine.
    Same,
}

/// What follows a process that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// It has shut down properly.
    Closed,
    /// Its journal failed.
    Failed,
    /// There is space again.
    Freed,
    /// It is dead already.
    Died,
}

/// Each entry counts as this many, so that cases of a hundred entries have snapshots between and in the middle of runs.
/// Later owners, of which there are many, make fewer.
const ENTRY_COUNTS: u64 = 16;

/// How many of the last reports an echo can repeat.
const ECHOES: usize = 8;

/// The possible next operations.
#[derive(Debug, Clone, Copy)]
enum Next {
    Task,
    /// Closes the open batch, although effects that started early may still add to it.
    Close,
    Append,
    Due,
    Perform(EffectId),
    Command(EffectId),
    Ask(Caller),
}

/// The name of an operation, and its subject.
pub type Done = (&'static str, String);

impl Process {
    /// Becomes the owner of the journal, recovers the session and opens it.
    pub fn open(outside: &mut Outside, form: Form, owner: Owner) -> Result<Self, Violation> {
        let epoch = match owner {
            Owner::New => outside.disk.open()?,
            Owner::Same => outside.disk.epoch(),
        };
        let row =
            outside.disk.journal().session(SESSION_KEY).map_err(|e| Invariant::Journal.violated(e.to_string()))?;
        let (machine, unsaved) = if row.is_some() { recover(outside, form)? } else { Default::default() };
        let mut process = Self { unsaved, ..Self::around(machine, epoch) };
        if row.is_none() {
            outside.view.come_back(&[], &[], form, outside.disk.journal())?;
            checkers::acknowledged(outside, &[])?;
            let (session, branch) = (session_id(), branch_id());
            let create = Command::Create { session, key: SESSION_KEY.into(), agent: "main".into(), branch };
            process.offer(create.into(), None, outside);
        }
        process.resume(outside)?;
        Ok(process)
    }

    /// A process that has done nothing with this machine yet.
    pub(crate) fn around(machine: Machine, epoch: Epoch) -> Self {
        Self {
            pump: Pump::new(machine),
            epoch,
            tasks: VecDeque::new(),
            offered: false,
            writing: None,
            unsaved: Unsaved::default(),
            performers: BTreeMap::new(),
            armed: None,
            observed: VecDeque::new(),
            one_more: false,
            end: None,
        }
    }

    /// Opens the session for this owner.
    pub(crate) fn resume(&mut self, outside: &mut Outside) -> Result<(), Violation> {
        self.offer(Report::Opened { epoch: self.epoch, cooling: vec![] }.into(), None, outside);
        self.decide()
    }

    /// The session as the machine has it.
    pub fn session(&self) -> Option<&Session> {
        self.pump.session()
    }

    /// Checks that appends in flight when this process ended are refused.
    pub fn is_fenced(&self, outside: &mut Outside) -> Result<(), Violation> {
        let Some(batch) = &self.writing else { return Ok(()) };
        self.is_refused(batch, Invariant::Fence, outside)
    }

    /// Checks that the disk accepts nothing more of this process.
    pub(crate) fn is_refused(
        &self,
        batch: &Arc<Batch>,
        invariant: Invariant,
        outside: &mut Outside,
    ) -> Result<(), Violation> {
        let answer = outside.disk.append(batch, self.epoch, outside.now);
        invariant.holds(answer.is_err(), || format!("epoch {} appended {batch:?} after its end", self.epoch))
    }

    /// Whether it is over, and what follows.
    pub fn over(&self, outside: &Outside) -> Option<Over> {
        match self.end? {
            End::Leaving => {
                let closed = self.session().is_none_or(|session| session.account.closed);
                (closed && self.is_idle()).then_some(Over::Closed)
            }
            End::Failed => Some(Over::Failed),
            End::Died => Some(Over::Died),
            End::Parked => {
                let free = outside.disk.space_at.is_none_or(|at| at <= outside.now);
                (free || outside.tools.moving().next().is_none()).then_some(Over::Freed)
            }
        }
    }

    /// Whether everything offered is decided, recorded and carried out.
    pub fn is_idle(&self) -> bool {
        !self.offered && !self.pump.is_ahead() && self.tasks.is_empty()
    }

    /// Whether it continues by itself: an effect runs, or a timer is armed.
    pub fn is_moving(&self) -> bool {
        !self.performers.is_empty() || self.armed.is_some()
    }

    /// Whether it has nothing more to do.
    pub fn is_ending(&self) -> bool {
        self.end.is_some()
    }

    /// Repeats a report.
    pub fn echo(&mut self, back: usize, outside: &mut Outside) -> Result<(), Violation> {
        if let (Some(report), None) = (self.observed.get(back).cloned(), self.end) {
            self.offer(report.into(), None, outside);
        }
        self.decide()
    }

    /// Offers a report, true or not.
    #[cfg(test)]
    pub(crate) fn report(&mut self, report: Report, outside: &mut Outside) -> Result<(), Violation> {
        self.offer(report.into(), None, outside);
        self.decide()
    }

    /// The next effect that is stopped sends one more report.
    pub fn one_more(&mut self) {
        self.one_more = true;
    }

    /// Shuts down properly.
    pub fn leave(&mut self, outside: &mut Outside) -> Result<(), Violation> {
        if self.end.is_none() {
            self.offer(Report::Closing.into(), None, outside);
            self.end = Some(End::Leaving);
        }
        self.decide()
    }

    /// Does one operation, drawn among all that are possible next; `None` when there is none.
    pub fn step(&mut self, outside: &mut Outside) -> Result<Option<Done>, Violation> {
        let mut choices = self.choices(outside);
        if let Some(at) = outside
            .disk
            .ready_at
            .filter(|at| self.writing.is_some() && choices.is_empty() && self.armed.is_none_or(|armed| armed > *at))
        {
            // It only waits for the disk.
            outside.now = outside.now.max(at);
            choices.push(Next::Append);
        }
        let next = match (choices.len(), self.armed) {
            (0, None) => return Ok(None),
            (0, Some(at)) => {
                outside.now = outside.now.max(at);
                Next::Due
            }
            (count, _) => choices[outside.order.pick(count)],
        };
        let done = match next {
            Next::Task => self.task(outside)?,
            Next::Close => {
                self.take_batch()?;
                ("close", String::new())
            }
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
        let ready = outside.disk.ready_at.is_none_or(|at| at <= outside.now);
        let own = [
            (!self.tasks.is_empty()).then_some(Next::Task),
            (self.pump.is_open() && self.tasks.is_empty()).then_some(Next::Close),
            (self.writing.is_some() && ready).then_some(Next::Append),
            due.then_some(Next::Due),
        ];
        let ready = self.performers.iter().filter(|(effect, performer)| performer.is_ready(**effect, outside));
        let mut choices: Vec<Next> = own.into_iter().flatten().collect();
        choices.extend(ready.map(|(effect, _)| Next::Perform(*effect)));
        choices.extend(outside.tools.moving().map(Next::Command));
        if self.end.is_none() {
            choices.extend(outside.callers.willing(&outside.view, &outside.plan).into_iter().map(Next::Ask));
        }
        choices
    }

    fn offer(&mut self, input: Input, caller: Option<Caller>, outside: &mut Outside) {
        let moment = outside.moment();
        // Now and then no slot of the lane is free when a wait ends.
        if self.pump.session().is_some_and(Session::is_outside_lane) {
            let is_free = !moment.random.is_multiple_of(3);
            self.pump.offer(Report::LaneChecked { is_free }, moment, None);
        }
        self.pump.offer(input, moment, caller);
        self.offered = true;
    }

    /// Lets the pump decide whenever its contract requires it. The batch stays open while an effect that started early
    /// may add to it.
    fn decide(&mut self) -> Result<(), Violation> {
        while self.offered && self.writing.is_none() && self.tasks.is_empty() {
            self.offered = false;
            let pump = &mut self.pump;
            let decided = catch_unwind(AssertUnwindSafe(|| pump.decide()));
            decided.map_err(|_| Invariant::Edge.violated("the machine panicked"))?;
            self.take_tasks()?;
            if !self.pump.waits_for_more() {
                self.take_batch()?;
            }
        }
        Ok(())
    }

    fn take_batch(&mut self) -> Result<(), Violation> {
        self.writing = self.pump.next_batch();
        self.take_tasks()
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
        let appended = outside.disk.append(&batch, self.epoch, outside.now);
        match appended.and_then(|position| self.keep_snapshot(&batch, outside).map(|()| position)) {
            Ok(_) => {
                self.pump.committed(outside.now);
                self.take_tasks()?;
                no_process_is_left(&batch, outside)?;
                what_has_ended_is_over(&batch, outside)?;
                Ok((append_name(&batch), kinds))
            }
            Err(error @ journal::Error::Full { .. }) => {
                self.give_up(&error, End::Parked, outside)?;
                Ok(("append_full", kinds))
            }
            Err(error @ journal::Error::Failed { .. }) => {
                self.is_refused(&batch, Invariant::Poison, outside)?;
                self.give_up(&error, End::Failed, outside)?;
                Ok(("append_failed", kinds))
            }
            // A dead process notifies nobody.
            Err(journal::Error::Gone) => {
                (self.end, self.writing) = (Some(End::Died), Some(batch));
                Ok(("append_died", kinds))
            }
            Err(error) => Err(Invariant::Journal.violated(format!("`{kinds}` was not taken: {error}"))),
        }
    }

    /// Keeps a snapshot if one is due; the journal ends with this batch. The process can die of it.
    fn keep_snapshot(&mut self, batch: &Batch, outside: &Outside) -> Result<(), journal::Error> {
        (0..ENTRY_COUNTS.div_ceil(self.epoch.0)).for_each(|_| self.unsaved.add(batch));
        let snapshot = self.pump.session().and_then(|session| self.unsaved.take_due(session));
        snapshot.map_or(Ok(()), |snapshot| outside.disk.keep_snapshot(snapshot))
    }

    /// Discards the machine, which is ahead of the journal. Its callers are notified.
    fn give_up(&mut self, error: &journal::Error, end: End, outside: &mut Outside) -> Result<(), Violation> {
        self.pump.failed(&error.to_string());
        self.end = Some(end);
        self.take_tasks()?;
        for task in self.tasks.drain(..) {
            if let Do::Answer(caller, answer) = task {
                outside.callers.answered(caller, answer, outside.now)?;
            }
        }
        self.performers.clear();
        outside.tools.lose(Recorded::Written, &outside.disk);
        (self.armed, self.offered) = (None, false);
        Ok(())
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
                let stopped = self.performers.remove(&id);
                if let Some(mut performer @ Performer::Request(_)) = stopped.filter(|_| self.one_more)
                    && performer.is_ready(id, outside)
                {
                    self.one_more = false;
                    let report = performer.step(id, outside).report;
                    if let Some(report) = report {
                        self.offer(report.into(), None, outside);
                    }
                }
                Ok(("stop", id.to_string()))
            }
            Some(Do::Publish(batch)) => {
                let kept = outside.disk.holds(&batch);
                Invariant::Published.holds(kept, || "a batch was shown before it was written".into())?;
                outside.view.receive(&batch, outside.disk.journal())?;
                Ok(("publish", String::new()))
            }
            Some(Do::Answer(caller, answer)) => {
                outside.callers.answered(caller, answer, outside.now)?;
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
            // Streamed reports come once and in order: their sender is one task.
            if !matches!(report, Report::Streamed { .. }) {
                self.observed.push_front(report.clone());
                self.observed.truncate(ECHOES);
            }
            self.offer(report.into(), None, outside);
        }
        (name, effect.to_string())
    }

    /// Checks that the journal folds to the machine's state, unless the machine is ahead of it.
    pub fn check_fold(&self, outside: &Outside) -> Result<(), Violation> {
        if self.pump.is_ahead() || self.end.is_some() {
            return Ok(());
        }
        let line = line(&outside.disk.entries()?, &outside.disk.progress()?);
        let recovered = machine(line, outside)?;
        Invariant::Fold.holds(recovered.session() == self.session(), || {
            format!("live: {:#?}\nrecovered: {:#?}", self.session(), recovered.session())
        })
    }
}

/// Checks that a process that is reported as ended does not live.
fn what_has_ended_is_over(batch: &Batch, outside: &Outside) -> Result<(), Violation> {
    let lives = |process| outside.tools.running().any(|(effect, _)| effect == process);
    let ended = batch.records.iter().filter_map(|record| match &record.event {
        Event::ProcessEnded(e) => Some(e.process),
        _ => None,
    });
    let early = ended.into_iter().find(|process| lives(*process));
    Invariant::Process.holds(early.is_none(), || format!("it is reported as ended, and lives: {early:?}"))
}

/// Checks that no process of an ended run lives unless its session holds it or it could not be ended.
fn no_process_is_left(batch: &Batch, outside: &Outside) -> Result<(), Violation> {
    let ended = |run| batch.records.iter().any(|record| matches!(&record.event, Event::RunEnded(e) if e.run == run));
    let mut left = outside.tools.running().filter(|(_, command)| ended(command.call.run)).peekable();
    if left.peek().is_none() {
        return Ok(());
    }
    // A process that could not be ended in time is reported as such: a slow disk can use up that time.
    let entries = outside.disk.entries()?;
    let unended = |call| {
        let says = |event: &Event| matches!(event, Event::CallSettled(e) if e.call == call && e.outcome == CallOutcome::Unended);
        entries.iter().any(|entry| says(&entry.event))
    };
    let held = |process| {
        let says = |event: &Event| matches!(event, Event::ProcessAdopted(e) if e.process == process);
        entries.iter().any(|entry| says(&entry.event))
    };
    let left = left.find(|(effect, command)| !unended(command.call) && !held(*effect));
    Invariant::Orphan.holds(left.is_none(), || format!("its run has ended, and this lives: {left:?}"))
}

fn recover(outside: &mut Outside, form: Form) -> Result<(Machine, Unsaved), Violation> {
    let (entries, progress) = (outside.disk.entries()?, outside.disk.progress()?);
    outside.view.come_back(&entries, &progress, form, outside.disk.journal())?;
    if outside.disk.unsynced() == 0 {
        outside.view.relies_on_all();
    }
    checkers::acknowledged(outside, &entries)?;
    let recent = outside.disk.line()?;
    let unsaved = Unsaved::of(&recent);
    let is_shorter = recent.start.is_some();
    let recovered = machine(recent.into(), outside)?;
    if is_shorter {
        let whole = machine(line(&entries, &progress), outside)?;
        Invariant::Snapshot.holds(recovered.session() == whole.session(), || {
            format!("through the snapshot: {:#?}\nfrom the beginning: {:#?}", recovered.session(), whole.session())
        })?;
    }
    Ok((recovered, unsaved))
}

fn line(entries: &[journal::Entry], progress: &[Record]) -> Lineage {
    let record = |entry: &journal::Entry| Record { seq: Some(entry.seq), at: entry.at, event: entry.event.clone() };
    let entries = entries.iter().map(record).collect();
    Lineage {
        start: None,
        segments: vec![LineageSegment { branch: branch_id(), entries }],
        progress: progress.to_vec(),
    }
}

fn machine(line: Lineage, outside: &Outside) -> Result<Machine, Violation> {
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
        Kind::HoldProcess => "start_hold_process",
        Kind::FreezeCall => "start_freeze_call",
        Kind::EndProcess => "start_end_process",
        Kind::Compact => "start_compact",
        Kind::Title => "start_title",
        Kind::Deliver => "start_deliver",
        Kind::Reserve | Kind::Observe | Kind::Report | Kind::Child | Kind::Undo | Kind::Erase => "start_other",
    }
}
