//! The machine: decides on inputs, records each decision as an event, and says what is wanted in the world.
//!
//! `handle` records what happened, then `advance` takes every step that follows from the state, so a crash, an abort
//! and an answer continue by the same code. Only decisions belong here.

mod advance;
mod approvals;
mod breakpoints;
mod budget;
mod calls;
mod commands;
mod compaction;
mod deliveries;
mod effects;
mod ending;
mod erasure;
mod facts;
pub mod failover;
mod labels;
mod model_notices;
mod opening;
mod plan;
mod processes;
mod queue;
mod recover;
mod repair;
mod reports;
mod requests;
pub mod timers;
mod title;
mod undo;

use std::sync::Arc;

use crate::approval::Approvals;
use crate::batch::{Batch, Record, RunRow};
use crate::body::{Attached, Attachment, BodyKind, Content};
use crate::decide::Decide;
use crate::effect::Effect;
use crate::event::{Event, LifecycleChanged, PauseCause, WaitBegan, WaitFor};
use crate::ids::{EffectId, Moment, Timestamp};
use crate::input::{Acknowledgement, Input, Refusal, Report};
use crate::settings::{Limits, Settings};
use crate::state::{Flags, Lifecycle, Phase, Session};
use crate::tables::lifecycle::{self, LifecycleCause, LifecycleKind};
use crate::tables::timers::Timer;
use crate::tables::transitions::{self, RunState, Trigger};
use crate::views::Touched;

pub use recover::{Lineage, LineageSegment, RecoverError, SettingsSource};

/// An edge that the tables do not have. In tests a panic; in production the end of this machine alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no edge from {from} to {to} by `{event}`: this is a bug in limulus, please report it")]
pub struct IllegalEdge {
    /// The run state, or the lifecycle, before.
    pub from: &'static str,
    /// The kind of the event.
    pub event: &'static str,
    /// The run state, or the lifecycle, after.
    pub to: &'static str,
}

/// One session and the decisions on it.
#[derive(Debug, Default)]
pub struct Machine {
    session: Option<Session>,
    settings: Option<Arc<Settings>>,
    open: Open,
    /// The last recorded row of the active run.
    recorded_row: Option<RunRow>,
    /// When the decided end of the run was in the journal; before that, none of its calls is being ended.
    ending_from: Option<Timestamp>,
    fault: Option<IllegalEdge>,
    /// The states that the last batch passed through.
    passed: Vec<StateChange>,
    /// Whether a run whose wait ends must queue for its lane, as its driver said last.
    lane_full: bool,
    /// Whether a limit that sessions share was set by a user, as its driver said.
    budget_shared: bool,
    late: u64,
}

/// What was decided since the last batch.
#[derive(Debug, Default)]
struct Open {
    records: Vec<Record>,
    bodies: Vec<Content>,
    touched: Touched,
    passed: Vec<StateChange>,
}

/// A state that was entered, with its flags.
pub type StateChange = (RunState, LifecycleKind, Flags);

impl Machine {
    /// A machine without a session; its first input is `Command::Create`.
    pub fn new() -> Self {
        Self::default()
    }

    /// The session, once it is created.
    pub fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// The settings of the unfinished run.
    pub fn settings(&self) -> Option<&Arc<Settings>> {
        self.settings.as_ref()
    }

    /// The states that the last batch entered, in order; the last one is the state after it, if that is another than
    /// before.
    pub fn passed(&self) -> &[StateChange] {
        &self.passed
    }

    /// Content that was decided on and is in no batch yet.
    pub fn open_bodies(&self) -> &[Content] {
        &self.open.bodies
    }

    /// How many reports were dropped because no effect was waiting for them.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Whether nothing happens to the session until a command arrives: no run is active, paused or recovered, no effect is wanted,
    /// no timer is armed. A machine that is rebuilt from its journal then equals this one.
    pub fn is_idle(&self) -> bool {
        let rests = |session: &Session| match session.conversation.lifecycle {
            Lifecycle::Ready | Lifecycle::Idle | Lifecycle::Error { .. } | Lifecycle::Terminated => {
                !session.account.closed
            }
            Lifecycle::Initializing | Lifecycle::Active(_) | Lifecycle::Suspended(_) | Lifecycle::Recovering { .. } => {
                false
            }
        };
        self.session.as_ref().is_some_and(rests) && self.deadline().is_none() && self.effects().is_empty()
    }
}

impl Decide for Machine {
    type Input = Input;
    type Answer = Acknowledgement;
    type Effect = Effect;

    /// A late report changes nothing.
    fn handle(&mut self, input: Input, moment: Moment) -> Result<Acknowledgement, Refusal> {
        let answer = match input {
            Input::Command(command) => self.handle_command(command, moment)?,
            Input::Report(report) => {
                self.handle_report(report, moment);
                Acknowledgement::Done
            }
        };
        self.start_deliveries(moment);
        Ok(answer)
    }

    fn apply(&mut self, event: &Event, at: Timestamp) {
        match (&mut self.session, event) {
            (Some(session), event) => session.apply(event, at),
            (None, Event::Created(created)) => self.session = Some(Session::created(created, at)),
            (None, _) => {}
        }
    }

    fn effects(&self) -> Vec<Effect> {
        self.wanted()
    }

    fn early_effects(&self) -> Vec<Effect> {
        self.wanted_early()
    }

    fn is_beginning(&self) -> bool {
        let opened = |record: &Record| matches!(record.event, Event::RequestOpened(_));
        matches!(self.phase(), Some(Phase::Streaming(_))) && self.open.records.iter().any(opened)
    }

    fn id_of(effect: &Effect) -> EffectId {
        effect.id()
    }

    fn deadline(&self) -> Option<Timestamp> {
        let session = self.session.as_ref()?;
        if session.account.closed {
            return None;
        }
        self.timers(session).into_iter().map(|(at, _)| at).min()
    }

    fn is_due(input: &Input) -> bool {
        matches!(input, Input::Report(Report::Due))
    }

    fn fault(&self) -> Option<IllegalEdge> {
        self.fault.clone()
    }

    fn recorded(&mut self, at: Timestamp) {
        let ending = self.session.as_ref().and_then(Session::run).and_then(|run| run.ending);
        self.ending_from = ending.map(|_| self.ending_from.unwrap_or(at));
    }

    fn take_batch(&mut self) -> Option<Batch> {
        let open = std::mem::take(&mut self.open);
        self.passed = open.passed;
        let session = self.session.as_ref()?;
        if open.records.is_empty() {
            return None;
        }
        let views = if open.records.iter().all(|record| record.seq.is_none()) {
            crate::batch::Views::default()
        } else {
            debug_assert_eq!(session.check().err().filter(|_| self.fault.is_none()), None);
            open.touched.rows(session, self.settings.as_deref(), &mut self.recorded_row)
        };
        Some(Batch {
            session: session.account.id,
            branch: session.account.branch,
            records: open.records,
            bodies: open.bodies,
            views,
        })
    }
}

impl Machine {
    fn limits(&self) -> Limits {
        self.settings.as_ref().map(|settings| settings.limits).unwrap_or_default()
    }

    fn approvals(&self) -> Approvals {
        self.settings.as_ref().map(|settings| settings.approvals).unwrap_or_default()
    }

    fn timers(&self, session: &Session) -> Vec<(Timestamp, Timer)> {
        timers::armed(session, (&self.limits(), &self.approvals()), self.ending_from)
    }

    /// Names content and adds its bytes to the batch.
    fn keep(&mut self, content: Content) -> crate::body::Body {
        let body = content.body;
        self.open.bodies.push(content);
        body
    }

    fn keep_attached(&mut self, attached: Vec<Attached>) -> Vec<Attachment> {
        let keep = |Attached { content, media_type, name }| Attachment { body: self.keep(content), media_type, name };
        attached.into_iter().map(keep).collect()
    }

    fn keep_text(&mut self, kind: BodyKind, text: &str) -> crate::body::Body {
        self.keep(Content::text(kind, text))
    }

    /// The only way to change state: checks the edge, applies the event, records it.
    fn emit(&mut self, event: impl Into<Event>, at: Timestamp) {
        let event = event.into();
        let Some(session) = self.session.as_mut().filter(|_| self.fault.is_none()) else { return };
        let (from, life, waited) =
            (session.run_state(), session.conversation.lifecycle.kind(), session.waits_outside());
        self.open.touched.note(session, self.settings.as_deref(), &event, at);
        session.apply(&event, at);
        let to = if matches!(event, Event::RunEnded(_)) { RunState::Completed } else { session.run_state() };
        let trigger = event.trigger();
        if !edge_allowed(&event, trigger, from, to) {
            return self.broken(IllegalEdge { from: from.name(), event: event.kind(), to: to.name() });
        }
        let changed = session.conversation.lifecycle.kind();
        if (session.run_state(), changed) != (from, life) {
            self.open.passed.push((session.run_state(), changed, session.flags()));
        }
        let cause = lifecycle_cause(&event);
        let kind = event.kind();
        let is_record = matches!(event, Event::LifecycleChanged(_));
        self.record(event, at);
        if changed == life {
            return self.queue_for_lane(waited, at);
        }
        if !cause.is_some_and(|cause| lifecycle::allowed(life, cause, changed)) {
            return self.broken(IllegalEdge { from: life.name(), event: kind, to: changed.name() });
        }
        if let Some(cause) = cause.filter(|_| !is_record) {
            self.emit(LifecycleChanged::by(cause, life, changed), at);
        }
    }

    /// A run that held no slot of its lane while it waited for something outside, or until its session had repaired itself,
    /// continues once it has a slot again.
    fn queue_for_lane(&mut self, waited: bool, at: Timestamp) {
        let goes_on = self.session.as_ref().is_some_and(Session::goes_on);
        if waited
            && self.lane_full
            && goes_on
            && matches!(self.phase(), Some(Phase::Preparing { .. } | Phase::ToolExec))
        {
            self.emit(WaitBegan { on: WaitFor::Lane, until: None, limit: None }, at);
        }
    }

    fn broken(&mut self, edge: IllegalEdge) {
        debug_assert!(false, "{edge}");
        self.fault = Some(edge);
    }

    /// Appends to the open batch; adjoining progress is merged.
    fn record(&mut self, event: Event, at: Timestamp) {
        if let Some(last) = self.open.records.last_mut()
            && joined(&mut last.event, &event)
        {
            // The time of the last piece: idle time counts from there, live and after a restart.
            last.at = at;
            return;
        }
        let seq = match (&self.session, event.progress()) {
            (Some(session), None) => Some(session.account.head),
            _ => None,
        };
        self.open.records.push(Record { seq, at, event });
    }
}

fn edge_allowed(event: &Event, trigger: Option<Trigger>, from: RunState, to: RunState) -> bool {
    match trigger {
        // Openings and lifecycle changes also happen to sessions without a run.
        Some(Trigger::Opened | Trigger::Recovered | Trigger::Escalated) if from == RunState::Idle => from == to,
        Some(trigger) => transitions::allowed(from, trigger, to),
        None => from == to || matches!(event, Event::LifecycleChanged(_)) && to == RunState::Idle,
    }
}

/// The cause with which an event changes the lifecycle. An event that changes it without a cause here takes an edge
/// that no table has.
#[expect(clippy::wildcard_enum_match_arm, reason = "`emit` refuses an event that moves the lifecycle without a cause")]
fn lifecycle_cause(event: &Event) -> Option<LifecycleCause> {
    match event {
        Event::RunStarted(_) => Some(LifecycleCause::Task),
        Event::RunEnded(_) => Some(LifecycleCause::RunEnded),
        Event::Paused(e) => Some(match e.cause {
            PauseCause::User | PauseCause::Breakpoint => LifecycleCause::Pause,
            PauseCause::Interrupt => LifecycleCause::Interrupt,
        }),
        Event::Resumed(_) => Some(LifecycleCause::Resume),
        Event::LifecycleChanged(e) => Some(e.cause),
        _ => None,
    }
}

/// Joins adjoining text of the same effect. Returns whether it did.
fn joined(last: &mut Event, next: &Event) -> bool {
    match (last, next) {
        (Event::TextAdded(a), Event::TextAdded(b)) if adjoin((a.effect, a.offset, &a.text), (b.effect, b.offset)) => {
            a.text.push_str(&b.text);
            true
        }
        (Event::ReasoningAdded(a), Event::ReasoningAdded(b))
            if adjoin((a.effect, a.offset, &a.text), (b.effect, b.offset)) =>
        {
            a.text.push_str(&b.text);
            true
        }
        (Event::OutputAdded(a), Event::OutputAdded(b))
            if adjoin((a.effect, a.offset, &a.text), (b.effect, b.offset)) =>
        {
            a.text.push_str(&b.text);
            true
        }
        _ => false,
    }
}

fn adjoin((effect, offset, text): (EffectId, u64, &str), (next, at): (EffectId, u64)) -> bool {
    effect == next && offset + text.len() as u64 == at
}
