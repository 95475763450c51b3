//! The audit log of a session: every entry with time, cause and effect; damaged entries are listed too.

use engine::tables::lifecycle::LifecycleKind;
use engine::tables::transitions::RunState;
use engine::{Epoch, Event, RunId, Session};
use journal::check::{Audited, BranchSpan, Defect, EntryContent, Replay};
use journal::{Entry, Reader};
use protocol::show::AuditLine;

use super::Texts;
use super::fold::{EndedRun, Left, Transition};
use super::sentence::{Narrator, SettingsOf};
use crate::error::Error;

/// The walk through a branch's lineage, with the state that the trusted entries lead to.
pub struct Auditor<'a> {
    narrator: Narrator<'a>,
    replay: Replay,
    ended: EndedRun,
    failed: Option<Error>,
}

/// The state of the run and of the session in an audit line.
#[derive(Clone, Copy)]
struct AuditState {
    run_state: RunState,
    lifecycle: LifecycleKind,
    run: Option<RunId>,
    owner: (Epoch, Left),
}

impl AuditState {
    const BEFORE: Self = Self {
        run_state: RunState::Idle,
        lifecycle: LifecycleKind::Initializing,
        run: None,
        owner: (Epoch(0), Left::InOrder),
    };

    fn of(session: &Session) -> Self {
        let left = if session.account.closed { Left::InOrder } else { Left::Not };
        Self {
            run_state: session.run_state(),
            lifecycle: session.conversation.lifecycle.kind(),
            run: session.run().map(|run| run.id),
            owner: (session.account.epoch, left),
        }
    }
}

impl<'a> Auditor<'a> {
    /// An auditor that has read nothing yet.
    pub fn new(texts: Texts<'a>, settings_of: SettingsOf<'a>) -> Self {
        let (replay, ended) = (Replay::default(), EndedRun::default());
        Self { narrator: Narrator::new(settings_of, texts), replay, ended, failed: None }
    }

    /// Walks through the entries and passes each to `visit`, with the state after it.
    pub fn walk(
        mut self,
        reader: &Reader,
        line: &[BranchSpan],
        mut visit: impl FnMut(AuditLine, &Replay),
    ) -> Result<(), Error> {
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
            damage: audited.defects.iter().map(ToString::to_string).collect(),
        };
        let begins = self.replay.is_empty().then_some(AuditState::BEFORE);
        let before = self.replay.session().map(AuditState::of).or(begins);
        // An entry without a known state before it ends no run.
        let mut ended = std::mem::take(&mut self.ended);
        let before = before.map(|before| {
            let (run_state, run) = ended.before(audited.event(), before.run_state, before.run);
            self.ended = ended;
            AuditState { run_state, run, ..before }
        });
        if let Err(detail) = self.replay.take(reader, audited) {
            line.damage.push(Defect::Order { detail }.to_string());
        }
        let after = self.replay.session().map(AuditState::of);
        (line.from, line.lifecycle_from) = before.map(|at| (at.run_state, at.lifecycle)).unzip();
        (line.to, line.lifecycle_to) = after.map(|at| (at.run_state, at.lifecycle)).unzip();
        match (&audited.content, before, self.replay.session()) {
            (EntryContent::Event(event), Some(before), Some(session)) => {
                line.run = before.run.or_else(|| session.run().map(|run| run.id));
                self.notify(audited, event, before, &mut line);
            }
            (content, _, session) => {
                // The state comes from a snapshot, so it holds names from earlier entries.
                if let Some(session) = session {
                    self.narrator.learn(session);
                }
                line.detail = matches!(content, EntryContent::Removed).then(|| removed(session.is_some()));
            }
        }
        line
    }

    fn notify(&mut self, audited: &Audited, event: &Event, before: AuditState, line: &mut AuditLine) {
        let Some(session) = self.replay.session() else { return };
        let Audited { seq, position, epoch, at, payload_hash, chain, .. } = *audited;
        let entry = Entry { seq, position, epoch, at, event: event.clone(), payload_hash, chain };
        let ended = matches!(event, Event::RunEnded(_));
        let (from, to) = (before.run_state, if ended { RunState::Completed } else { session.run_state() });
        line.to = Some(to);
        let transition = Transition { entry: &entry, from, to, run: line.run, owner: before.owner, session };
        match self.narrator.notify(&transition) {
            Ok(detail) => line.detail = detail,
            Err(error) => self.failed = self.failed.take().or(Some(error)),
        }
    }
}

/// The text for an entry without its payload. `has_state`: a snapshot replaces the entries up to it.
fn removed(has_state: bool) -> String {
    let snapshot = if has_state { "; a snapshot replaces it and all earlier entries" } else { "" };
    format!("its payload was removed, its hash remains{snapshot}")
}
