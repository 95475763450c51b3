//! The world of one case: virtual time, the runtime's process, and everything outside of it.
//!
//! What is outside survives a crash; the process is discarded and made again from the journal. One step is one
//! operation, drawn among all that are possible next.

pub mod always;
pub mod callers;
pub mod disk;
pub mod disk_file;
pub mod model;
pub mod perform;
pub mod process;
pub mod rng;
pub mod tools;
pub mod view;

use std::sync::Arc;

use engine::{EffectId, Moment, Session, Timestamp};

pub use callers::{Answered, Caller};
pub use disk::{Disk, Medium, Recorded};
pub use disk_file::File;
pub use model::Model;
pub use model::{only_begins, only_closes, text_of};
pub use rng::{Rng, Trace};
pub use tools::{Start, Tools};
pub use view::View;

use crate::case::Form;
use crate::checkers::spending;
use crate::fault::Fault;
use crate::invariant::{Invariant, Violation};
use crate::plan::Plan;
use callers::Callers;
use process::{Over, Owner, Process};

/// If a world is still busy after this many operations, it never becomes quiet.
const MOST_OPERATIONS: u32 = 20_000;

/// When the world begins, milliseconds since 1970.
const BEGINNING: i64 = 1_767_225_600_000;

/// What a crash does not touch, or touches in its own way.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Outside {
    /// What everybody is going to do.
    pub plan: Arc<Plan>,
    pub disk: Disk,
    pub view: View,
    pub callers: Callers,
    /// What the tools did.
    pub tools: Tools,
    /// What the provider did.
    pub model: Model,
    /// What came out of the route for replies, in order: the try that brought it.
    pub arrived: Vec<EffectId>,
    pub now: Timestamp,
    /// The faults so far.
    pub past: Past,
    /// The offset of the wall clock when the next process reads it, milliseconds.
    skew: i64,
    /// Draws the next operation.
    order: Rng,
    /// Random numbers for the machine.
    draws: Rng,
    trace: Trace,
    operations: u32,
}

/// The faults of a world, as far as they excuse anything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Past {
    /// The time of the last fault, or of the last start of a process.
    pub until: Timestamp,
    /// How often the wall clock jumped, or time passed while the disk was slow or full.
    pub gaps: u32,
}

impl Outside {
    /// The world before anything has happened.
    pub fn new(plan: &Arc<Plan>, disk: Disk) -> Self {
        Self {
            plan: Arc::clone(plan),
            disk,
            view: View::default(),
            callers: Callers::default(),
            tools: Tools::default(),
            model: Model::default(),
            arrived: vec![],
            now: Timestamp(BEGINNING),
            past: Past { until: Timestamp(BEGINNING), gaps: 0 },
            skew: 0,
            order: Rng::new(plan.seed.seed, "order"),
            draws: Rng::new(plan.seed.seed, "machine"),
            trace: Trace::default(),
            operations: 0,
        }
    }

    /// A hash of all operations so far.
    pub fn trace(&self) -> Trace {
        self.trace
    }

    /// All forms in which this world can crash now.
    pub fn forms(&self) -> Vec<Form> {
        let ended = self.tools.moving().next().map(|_| Form::Ended);
        let power = (0..=self.disk.unsynced()).map(|keep| Form::Power { keep });
        std::iter::once(Form::Process).chain(ended).chain(power).collect()
    }

    /// Applies a crash; returns which one it was in the end.
    fn crash(&mut self, form: Form) -> Result<Form, Violation> {
        let form = self.disk.crash(form)?;
        self.tools.crash(form, &self.plan, &self.disk);
        self.callers.crash();
        let before = self.now.plus(100);
        let wall = Timestamp(before.0.saturating_add(std::mem::take(&mut self.skew)));
        // As the runtime's clock does: it never goes back before what is recorded.
        self.now = wall.max(self.disk.latest()?);
        self.disk.space_at = self.disk.space_at.map(|at| Timestamp(at.0 + self.now.0 - before.0));
        self.past.until = self.now;
        self.trace.add(form.to_string().as_bytes());
        Ok(form)
    }

    fn moment(&mut self) -> Moment {
        Moment { now: self.now, random: self.draws.draw() }
    }
}

/// How closely a world is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// At the end, and at each opening.
    Ends,
    /// Also after each append: the recovered state must be the live state.
    Appends,
}

/// The world with its process.
#[derive(Debug)]
pub struct World {
    outside: Outside,
    process: Process,
    watch: Watch,
    /// The operations in words; only kept for a described case.
    story: Option<Vec<String>>,
}

impl World {
    /// A world in which nothing has happened, with its first process.
    pub fn begin(plan: &Arc<Plan>, watch: Watch) -> Result<Self, Violation> {
        Self::begin_on(Disk::default(), plan, watch)
    }

    /// The same on this empty disk.
    pub fn begin_on(disk: Disk, plan: &Arc<Plan>, watch: Watch) -> Result<Self, Violation> {
        let mut outside = Outside::new(plan, disk);
        let process = Process::open(&mut outside, Form::Process, Owner::New)?;
        Ok(Self { outside, process, watch, story: None })
    }

    /// A copy of this world after a crash, with its next process; this world continues as if nothing had happened.
    pub fn crashed(&self, form: Form) -> Result<Self, Violation> {
        let mut outside = self.outside.clone();
        let form = outside.crash(form)?;
        let process = Process::open(&mut outside, form, Owner::New)?;
        self.process.is_fenced(&mut outside)?;
        let mut story = self.story.clone();
        if let Some(story) = &mut story {
            story.push(format!("CRASH {form}"));
        }
        Ok(Self { outside, process, watch: Watch::Ends, story })
    }

    /// Injects a fault.
    pub fn inject(&mut self, fault: Fault) -> Result<(), Violation> {
        let outside = &mut self.outside;
        outside.trace.add(fault.name().as_bytes());
        outside.past.until = outside.now;
        if let Some(story) = &mut self.story {
            story.push(format!("FAULT {fault}"));
        }
        match fault {
            Fault::Crash(form) => self.reopen(form),
            Fault::Disk(hit) => {
                outside.disk.set(hit);
                Ok(())
            }
            Fault::Store(lost) => {
                outside.disk.fail_next(lost);
                Ok(())
            }
            Fault::Full(ms) => {
                outside.disk.space_at = Some(outside.now.plus(ms));
                outside.past.gaps += 1;
                Ok(())
            }
            Fault::Slow(ms) => {
                outside.disk.ready_at = Some(outside.now.plus(ms));
                outside.past.gaps += 1;
                Ok(())
            }
            Fault::Jump(ms) => {
                outside.skew = outside.skew.saturating_add(ms);
                outside.past.gaps += 1;
                Ok(())
            }
            Fault::Echo(back) => self.process.echo(back, outside),
            Fault::Late => {
                self.process.one_more();
                Ok(())
            }
            Fault::Close => self.process.leave(outside),
        }
    }

    /// Ends the process and starts the next one.
    fn reopen(&mut self, form: Form) -> Result<(), Violation> {
        let form = self.outside.crash(form)?;
        if let Some(story) = &mut self.story {
            story.push(format!("REOPENED {form}"));
        }
        let process = Process::open(&mut self.outside, form, Owner::New)?;
        let before = std::mem::replace(&mut self.process, process);
        before.is_fenced(&mut self.outside)
    }

    /// The number of operations so far.
    pub fn operations(&self) -> u32 {
        self.outside.operations
    }

    /// Describes the operations from now on.
    pub fn describe(&mut self) {
        self.story = Some(vec![]);
    }

    /// The operations, if they are described.
    pub fn story(&self) -> &[String] {
        self.story.as_deref().unwrap_or_default()
    }

    /// What is outside of the process.
    pub fn outside(&self) -> &Outside {
        &self.outside
    }

    /// The process and what is outside of it, so that a test can corrupt them.
    #[cfg(test)]
    pub(crate) fn parts(&mut self) -> (&mut Process, &mut Outside) {
        (&mut self.process, &mut self.outside)
    }

    /// The session as the process has it.
    pub fn session(&self) -> Option<&Session> {
        self.process.session()
    }

    /// The name of the session's phase.
    pub fn phase(&self) -> &'static str {
        self.session().map_or("none", |session| session.run_state().name())
    }

    /// Does one operation, drawn among all that are possible next, and returns its name; `None` when the world is
    /// quiet.
    pub fn step(&mut self) -> Result<Option<&'static str>, Violation> {
        match self.process.over(&self.outside) {
            Some(Over::Closed | Over::Failed | Over::Died) => {
                let form = self.outside.disk.end();
                self.reopen(form)?;
                return Ok(Some("reopened"));
            }
            Some(Over::Freed) => {
                let outside = &mut self.outside;
                outside.now = outside.now.max(outside.disk.space_at.unwrap_or_default());
                outside.callers.crash();
                self.process = Process::open(outside, Form::Process, Owner::Same)?;
                return Ok(Some("freed"));
            }
            None => {}
        }
        let Some((name, about)) = self.process.step(&mut self.outside)? else { return Ok(None) };
        self.outside.now = self.outside.now.plus(1);
        self.outside.trace.add(name.as_bytes());
        self.outside.trace.add(about.as_bytes());
        self.outside.operations += 1;
        if let Some(story) = &mut self.story {
            story.push(format!("{name} {about}"));
        }
        if self.watch == Watch::Appends {
            self.process.check_fold(&self.outside)?;
        }
        always::check(&self.process, &self.outside)?;
        let (most, done) = (MOST_OPERATIONS, self.outside.operations);
        Invariant::Settled.holds(done < most, || format!("the world is still busy after {most} operations"))?;
        Ok(Some(name))
    }

    /// Continues without faults until the world is quiet.
    pub fn settle(&mut self) -> Result<(), Violation> {
        while self.step()?.is_some() {}
        self.process.check_fold(&self.outside)?;
        let Some(session) = self.session().filter(|_| self.process.is_idle()) else { return Ok(()) };
        spending::is_as_the_state_says(session, &self.outside.disk.entries()?)
    }
}
