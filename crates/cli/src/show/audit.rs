//! The audit log of a session: every entry of its line with time, cause, and what it changed; damaged ones in their place.

use std::fmt::Write as _;

use engine::tables::lifecycle::LifecycleKind;
use engine::tables::transitions::{RunState, Trigger};
use engine::{BranchId, Epoch, Event, Hash, Position, RunId, Seq, Session, Timestamp};
use journal::check::{Audited, Content, Flaw, Replay, Segment};
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
    replay: Replay,
    failed: Option<CliError>,
}

/// What a state says of where a run and the session are.
#[derive(Clone, Copy)]
struct Stands {
    run_state: RunState,
    lifecycle: LifecycleKind,
    run: Option<RunId>,
    owner: (Epoch, Left),
}

impl Stands {
    const BEFORE: Self = Self {
        run_state: RunState::Idle,
        lifecycle: LifecycleKind::Initializing,
        run: None,
        owner: (Epoch(0), Left::InOrder),
    };

    fn of(session: &Session) -> Self {
        let left = if session.closed { Left::InOrder } else { Left::Not };
        Self {
            run_state: session.run_state(),
            lifecycle: session.lifecycle.kind(),
            run: session.run().map(|run| run.id),
            owner: (session.epoch, left),
        }
    }
}

impl<'a> Auditor<'a> {
    /// An auditor who has seen nothing yet.
    pub(crate) fn new(texts: Texts<'a>, models: &'a dyn Fn(Hash) -> Vec<String>) -> Self {
        Self { models, narrator: Narrator::new(vec![], texts), replay: Replay::default(), failed: None }
    }

    /// Goes through a line and gives each of its entries to `visit`, with what is known after it.
    pub(crate) fn walk(
        mut self,
        reader: &Reader,
        line: &[Segment],
        mut visit: impl FnMut(AuditLine, &Replay),
    ) -> Result<(), CliError> {
        for segment in line {
            reader.walk(segment, |audited| visit(self.line(reader, audited), &self.replay))?;
        }
        self.failed.map_or(Ok(()), Err)
    }

    fn line(&mut self, reader: &Reader, audited: &Audited) -> AuditLine {
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
        let begins = self.replay.is_empty().then_some(Stands::BEFORE);
        let before = self.replay.session().map(Stands::of).or(begins);
        if let Err(detail) = self.replay.take(reader, audited) {
            line.damage.push(Flaw::Order { detail }.to_string());
        }
        let after = self.replay.session().map(Stands::of);
        (line.from, line.lifecycle_from) = before.map(|at| (at.run_state, at.lifecycle)).unzip();
        (line.to, line.lifecycle_to) = after.map(|at| (at.run_state, at.lifecycle)).unzip();
        match (&audited.content, before, self.replay.session()) {
            (Content::Event(event), Some(before), Some(session)) => {
                line.run = before.run.or_else(|| session.run().map(|run| run.id));
                self.tell(audited, event, before, &mut line);
            }
            (content, _, session) => {
                // The state is a snapshot's: names that were given before it are in it.
                if let Some(session) = session {
                    self.narrator.learn(session);
                    self.narrator.models = session.run().map(|run| (self.models)(run.settings)).unwrap_or_default();
                }
                line.detail = matches!(content, Content::Removed).then(|| removed(session.is_some()));
            }
        }
        line
    }

    fn tell(&mut self, audited: &Audited, event: &Event, before: Stands, line: &mut AuditLine) {
        let Some(session) = self.replay.session() else { return };
        let Audited { seq, position, epoch, at, payload_hash, chain, .. } = *audited;
        let entry = Entry { seq, position, epoch, at, event: event.clone(), payload_hash, chain };
        let ended = matches!(event, Event::RunEnded(_));
        let (from, to) = (before.run_state, if ended { RunState::Completed } else { session.run_state() });
        line.to = Some(to);
        if let Event::RunStarted(started) = event {
            self.narrator.models = (self.models)(started.settings);
        }
        let transition = Transition { entry: &entry, from, to, run: line.run, owner: before.owner, session };
        match self.narrator.tell(&transition) {
            Ok(detail) => line.detail = detail,
            Err(error) => self.failed = self.failed.take().or(Some(error)),
        }
    }
}

/// What is said of an entry without its payload.
fn removed(stands: bool) -> String {
    let stands = if stands { "; a snapshot stands for it and all before it" } else { "" };
    format!("its payload was removed, its hash stands{stands}")
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
