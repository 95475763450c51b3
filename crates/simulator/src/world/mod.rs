//! The world of one case: virtual time, the runtime's process, and all that is outside of it.
//!
//! What is outside survives a crash; the process is thrown away and made again from the journal. One step is one
//! operation, drawn among all that could happen next.

pub mod callers;
pub mod chance;
pub mod disk;
pub mod model;
pub mod perform;
pub mod process;
pub mod tools;
pub mod view;

use std::sync::Arc;

use engine::{Moment, Session, Timestamp};

pub use callers::{Caller, last_run};
pub use chance::Trace;
pub use disk::{Disk, Recorded};
pub use model::{only_closes, text_of};
pub use tools::{Start, Tools};
pub use view::View;

use crate::case::Form;
use crate::invariant::{Invariant, Violation};
use crate::workload::Plan;
use callers::Callers;
use chance::Chance;
use model::Model;
use process::Process;

/// Operations after which a world that is still busy will never be quiet.
const MOST_OPERATIONS: u32 = 20_000;

/// When the world begins, milliseconds since 1970.
const BEGINNING: i64 = 1_767_225_600_000;

/// What a crash does not touch, or touches in its own way.
#[derive(Debug, Clone)]
pub struct Outside {
    /// What everybody is going to do.
    pub plan: Arc<Plan>,
    /// The store.
    pub disk: Disk,
    /// A subscriber's record.
    pub view: View,
    /// The callers' records.
    pub callers: Callers,
    /// What the tools did.
    pub tools: Tools,
    model: Model,
    now: Timestamp,
    chance: Chance,
    trace: Trace,
    operations: u32,
}

impl Outside {
    /// The world before anything has happened.
    pub fn new(plan: &Arc<Plan>) -> Self {
        Self {
            plan: Arc::clone(plan),
            disk: Disk::default(),
            view: View::default(),
            callers: Callers::default(),
            tools: Tools::default(),
            model: Model::default(),
            now: Timestamp(BEGINNING),
            chance: Chance::new(plan.seed.seed),
            trace: Trace::default(),
            operations: 0,
        }
    }

    /// What was done so far, as one hash.
    pub fn trace(&self) -> Trace {
        self.trace
    }

    /// Every way in which this world can crash now.
    pub fn forms(&self) -> Vec<Form> {
        let ended = self.tools.moving().next().map(|_| Form::Ended);
        let power = (0..=self.disk.unsynced()).map(|keep| Form::Power { keep });
        std::iter::once(Form::Process).chain(ended).chain(power).collect()
    }

    fn crash(&mut self, form: Form) {
        self.disk.crash(form);
        self.tools.crash(form, &self.plan, &self.disk);
        self.callers.crash();
        self.now = self.now.plus(100);
        self.trace.add(form.to_string().as_bytes());
    }

    fn moment(&mut self) -> Moment {
        Moment { now: self.now, draw: self.chance.draw() }
    }
}

/// How closely a world is watched.
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
    /// What was done, in words; kept only for a case that is told.
    story: Option<Vec<String>>,
}

impl World {
    /// A world in which nothing has happened, with its first process.
    pub fn begin(plan: &Arc<Plan>, watch: Watch) -> Result<Self, Violation> {
        let mut outside = Outside::new(plan);
        let process = Process::open(&mut outside, Form::Process)?;
        Ok(Self { outside, process, watch, story: None })
    }

    /// This world after a crash, with its next process; the world itself goes on as if nothing had happened.
    pub fn crashed(&self, form: Form) -> Result<Self, Violation> {
        let mut outside = self.outside.clone();
        outside.crash(form);
        let process = Process::open(&mut outside, form)?;
        self.process.is_fenced(&mut outside)?;
        let mut story = self.story.clone();
        if let Some(story) = &mut story {
            story.push(format!("CRASH {form}"));
        }
        Ok(Self { outside, process, watch: Watch::Ends, story })
    }

    /// Tells from now on what is done, in words.
    pub fn tell(&mut self) {
        self.story = Some(vec![]);
    }

    /// What was done, if it is told.
    pub fn story(&self) -> &[String] {
        self.story.as_deref().unwrap_or_default()
    }

    /// What is outside of the process.
    pub fn outside(&self) -> &Outside {
        &self.outside
    }

    /// The session as the process has it.
    pub fn session(&self) -> Option<&Session> {
        self.process.session()
    }

    /// The phase that the session is in, by name.
    pub fn phase(&self) -> &'static str {
        self.session().map_or("none", |session| session.run_state().name())
    }

    /// Does one operation, drawn among all that could come next, and names it; none when the world is quiet.
    pub fn step(&mut self) -> Result<Option<&'static str>, Violation> {
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
        let (most, done) = (MOST_OPERATIONS, self.outside.operations);
        Invariant::Settled.holds(done < most, || format!("the world is still busy after {most} operations"))?;
        Ok(Some(name))
    }

    /// Goes on without faults until the world is quiet.
    pub fn settle(&mut self) -> Result<(), Violation> {
        while self.step()?.is_some() {}
        self.process.check_fold(&self.outside)
    }
}
