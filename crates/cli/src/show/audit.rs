//! The audit log of a session: every entry of its line with time, cause, and what it changed; damaged ones in their place.

use std::fmt::Write as _;

use engine::tables::lifecycle::LifecycleKind;
use engine::tables::transitions::{RunState, Trigger};
use engine::{BranchId, Epoch, Event, Hash, Position, RunId, Seq, Session, Timestamp};
use journal::check::{Audited, Content, Segment};
use journal::{Entry, Reader};
use serde::Serialize;

use super::Texts;
use super::fold::{Left, Transition};
use super::human::{Zone, excerpt, printable};
use super::sentence::Narrator;
use crate::error::CliError;

/// One entry of the audit log. Times in milliseconds. What cannot be known after a damaged entry is null.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct AuditLine {
    pub(crate) branch: BranchId,
    pub(crate) seq: Seq,
    pub(crate) position: Position,
    pub(crate) epoch: Epoch,
    pub(crate) at: Timestamp,
    /// The kind of the entry.
    pub(crate) event: String,
    /// The edge of the table that it takes, if it is one that can.
    pub(crate) trigger: Option<Trigger>,
    /// The run that it belongs to.
    pub(crate) run: Option<RunId>,
    /// The state of the run before it.
    pub(crate) from: Option<RunState>,
    /// And after it.
    pub(crate) to: Option<RunState>,
    /// The lifecycle before it.
    pub(crate) lifecycle_from: Option<LifecycleKind>,
    /// And after it.
    pub(crate) lifecycle_to: Option<LifecycleKind>,
    /// What happened, in a few words.
    pub(crate) detail: Option<String>,
    /// What is wrong with it; nothing, as a rule.
    pub(crate) damage: Vec<String>,
}

/// The walk through a line, with the state that the believed entries lead to.
pub(crate) struct Auditor<'a> {
    /// `PROVIDER/MODEL` of each candidate of settings.
    models: &'a dyn Fn(Hash) -> Vec<String>,
    narrator: Narrator<'a>,
    session: Option<Session>,
    /// Whether every entry so far could be folded.
    is_whole: bool,
    failed: Option<CliError>,
}

impl<'a> Auditor<'a> {
    /// An auditor who has seen nothing yet.
    pub(crate) fn new(texts: Texts<'a>, models: &'a dyn Fn(Hash) -> Vec<String>) -> Self {
        Self { models, narrator: Narrator::new(vec![], texts), session: None, is_whole: true, failed: None }
    }

    /// Goes through a line and gives each of its entries to `visit`; gives the session at its end.
    pub(crate) fn walk(
        mut self,
        reader: &Reader,
        line: &[Segment],
        mut visit: impl FnMut(AuditLine, Option<&Session>),
    ) -> Result<Option<Session>, CliError> {
        for segment in line {
            reader.walk(segment, |audited| {
                let line = self.line(audited);
                visit(line, self.session.as_ref().filter(|_| self.is_whole));
            })?;
        }
        match self.failed {
            Some(error) => Err(error),
            None => Ok(self.session.filter(|_| self.is_whole)),
        }
    }

    fn line(&mut self, audited: &Audited) -> AuditLine {
        let mut line = AuditLine {
            branch: audited.branch,
            seq: audited.seq,
            position: audited.position,
            epoch: audited.epoch,
            at: audited.at,
            event: audited.kind.clone(),
            trigger: audited.event().and_then(Event::trigger),
            run: None,
            from: None,
            to: None,
            lifecycle_from: None,
            lifecycle_to: None,
            detail: None,
            damage: audited.flaws.iter().map(ToString::to_string).collect(),
        };
        match &audited.content {
            Content::Event(event) => self.apply(audited, event, &mut line),
            Content::Removed => {
                self.is_whole = false;
                line.detail = Some("its payload was removed; its hash stands".to_owned());
            }
            Content::Lost => self.is_whole = false,
        }
        line
    }

    fn apply(&mut self, audited: &Audited, event: &Event, line: &mut AuditLine) {
        if !self.is_whole {
            return;
        }
        let Audited { seq, position, epoch, at, payload_hash, chain, .. } = *audited;
        let entry = Entry { seq, position, epoch, at, event: event.clone(), payload_hash, chain };
        let before = self.session.as_ref().map(|session| {
            let left = if session.closed { Left::InOrder } else { Left::Not };
            let run = session.run().map(|run| run.id);
            (session.run_state(), session.lifecycle.kind(), run, (session.epoch, left))
        });
        let nothing = (RunState::Idle, LifecycleKind::Initializing, None, (Epoch(0), Left::InOrder));
        let (from, lifecycle_from, run, owner) = before.unwrap_or(nothing);
        let Some(session) = step(&mut self.session, audited.branch, event, audited.at) else {
            self.is_whole = false;
            return;
        };
        let ended = matches!(event, Event::RunEnded(_));
        let to = if ended { RunState::Completed } else { session.run_state() };
        line.run = run.or_else(|| session.run().map(|run| run.id));
        (line.from, line.to) = (Some(from), Some(to));
        (line.lifecycle_from, line.lifecycle_to) = (Some(lifecycle_from), Some(session.lifecycle.kind()));
        if let Event::RunStarted(started) = event {
            self.narrator.models = (self.models)(started.settings);
        }
        let transition = Transition { entry: &entry, from, to, run: line.run, owner, session };
        match self.narrator.tell(&transition) {
            Ok(detail) => line.detail = detail,
            Err(error) => self.failed = self.failed.take().or(Some(error)),
        }
    }
}

/// The session after one more entry of its line; none when the line has not begun.
fn step<'s>(session: &'s mut Option<Session>, branch: BranchId, event: &Event, at: Timestamp) -> Option<&'s Session> {
    match (event, session.as_mut()) {
        (Event::Created(created), None) => *session = Some(Session::created(created, at)),
        (Event::Forked(_), Some(session)) => {
            session.enter(branch);
            session.apply(event, at);
        }
        (_, Some(session)) => session.apply(event, at),
        (_, None) => return None,
    }
    session.as_ref()
}

/// A line for people.
pub(crate) fn lay_out(line: &AuditLine, zone: &Zone) -> String {
    let change = match (line.from, line.to) {
        (Some(from), Some(to)) if from == to => String::new(),
        (Some(from), Some(to)) => format!("{from} → {to}"),
        _ => "?".to_owned(),
    };
    let moved = match (line.lifecycle_from, line.lifecycle_to) {
        (Some(from), Some(to)) if from != to => format!("{from} → {to}"),
        _ => String::new(),
    };
    let detail = excerpt(line.detail.as_deref().unwrap_or_default(), 100);
    let mut text = format!(
        "{:>5} {:>8}  {}  {:17}  {change:24}  {moved:16}  {detail}",
        line.seq.0,
        line.position.0,
        zone.time_ms(line.at),
        excerpt(&line.event, 17)
    );
    text.truncate(text.trim_end().len());
    text.push('\n');
    for damage in &line.damage {
        let _ = writeln!(text, "    ✗ {}", printable(damage));
    }
    text
}

/// What stands above the lines.
pub(crate) fn heading() -> String {
    format!(
        "{:>5} {:>8}  {:23}  {:17}  {:24}  {:16}  WHAT\n",
        "SEQ", "POSITION", "TIME", "CAUSE", "RUN STATE", "LIFECYCLE"
    )
}
