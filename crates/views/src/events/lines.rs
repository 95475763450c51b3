//! Projects committed batches as lines for subscribers.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::tables::lifecycle::LifecycleKind;
use engine::tables::transitions::RunState;
use engine::{
    Compacted, Event, Flags, MessageSealed, Outcome, Record, Resources, RunRow, Seq, Session, SessionId, SessionRow,
    StateChange, StreamInterrupted, Timestamp, Usage,
};
use journal::Read;
use protocol::event::{StateLine, Stream};
use runtime::{LaneUpdate, Published};

use super::batch_position::BatchPosition;
use super::missed::recovered;
use super::position::{Reached, StreamPosition};
use super::projection::{Line, Projection, Source};
use super::wait;
use crate::beside::{ROWS, at_rest, budget_of, last_ended};

/// The content of a state line.
pub(super) type State = StateChange;

/// The state of a session that is not tracked.
pub(super) const IDLE: State = (
    RunState::Idle,
    LifecycleKind::Idle,
    Flags {
        is_streaming: false,
        is_compacting: false,
        is_waiting: false,
        is_blocked: false,
        can_interrupt: false,
        has_error: false,
        needs_recovery: false,
    },
);

/// Turns batches into lines. Tracks how far each session is reported and its last state, to notice changes.
pub struct Lines {
    store: Arc<dyn Read>,
    sessions: BTreeMap<SessionId, (Projection, Option<State>)>,
}

impl Lines {
    /// Lines whose longer texts are read from this store.
    pub fn new(store: Arc<dyn Read>) -> Self {
        Self { store, sessions: BTreeMap::new() }
    }

    /// Advances past a batch without making lines. Most sessions have no subscriber, and a line costs more than the
    /// event that it reports.
    pub fn pass_over(&mut self, published: &Published) {
        let Published { session, batch, .. } = published;
        let (mut projection, _) = self.sessions.remove(session).unwrap_or_default();
        let source = source(self.store.as_ref(), published);
        resume(&mut projection, published, source);
        projection.pass(&batch.records, published.epoch);
        projection.last = ended(published).or(projection.last);
        self.track(published, projection);
    }

    /// The line of a wait for a lane; `None` if the session cannot be read.
    pub fn of_wait(&self, update: &LaneUpdate) -> Option<Line> {
        let (request, at, what) = wait::queue_line(update);
        let session = self.store.session(&request.session).ok()??;
        let cursor = match self.sessions.get(&session.session) {
            Some((projection, _)) => projection.position.clone(),
            // The wait begins before the session is opened.
            None => StreamPosition::now(self.store.as_ref(), session.branch).ok()?,
        };
        Some(wait::line(&cursor, request, at, what))
    }

    /// The state of a session that begins or stops to wait for space on the disk, which no entry records; `None` if the
    /// session cannot be read.
    pub fn of_disk_full(&self, key: &str, is_full: bool, at: Timestamp) -> Option<Line> {
        let store = self.store.as_ref();
        let row = store.session(key).ok()??;
        let cursor = match self.sessions.get(&row.session) {
            Some((projection, _)) => projection.position.clone(),
            None => StreamPosition::now(store, row.branch).ok()?,
        };
        let mut what = current(store, recovered(store, row.branch)?.session()?);
        if let StateLine::Changed { lifecycle, flags, .. } = &mut what
            && is_full
        {
            *flags = flags.with_full_store(*lifecycle);
        }
        Some(wait::unrecorded(&cursor, (key, row.run), at, Stream::State(what)))
    }

    /// The lines of a batch, in order.
    pub fn of(&mut self, published: &Published) -> Vec<Line> {
        let Published { session, batch, .. } = published;
        let begins = matches!(batch.records.first(), Some(Record { event: Event::Created(_) | Event::Opened(_), .. }));
        let known = self.sessions.remove(session);
        let (mut projection, mut before) =
            known.unwrap_or_else(|| if begins { Default::default() } else { (Projection::idle(), Some(IDLE)) });
        let source = source(self.store.as_ref(), published);
        let mut lines = vec![];
        resume(&mut projection, published, source);
        for (at, record) in batch.records.iter().enumerate() {
            let following = batch.records[at + 1..].iter().map(|record| &record.event);
            projection.notify(source, (record, published.epoch), following, &mut lines);
        }
        let spends = batch.records.iter().rfind(|record| is_spent(&record.event));
        if let Some((record, run)) = spends.zip(batch.views.runs.last()) {
            lines.push(projection.usage(source, record.at, run));
        }
        if let Some(last) = batch.records.last() {
            // Each state of a run is a line, also one that the batch only passed through. A session that a batch only passed
            // through rest is not shown at rest: whoever waits for it would leave.
            let of_run = |now: &State| now.1 == LifecycleKind::Active;
            for now in published.passed.iter().copied().filter(of_run).chain([state_of(published)]) {
                if before.replace(now) != Some(now) {
                    let known = self.last_run(published, &mut projection, last.at);
                    let what = Stream::State(changed(now, known, published.resources));
                    lines.push(projection.line(source, last.at, what));
                }
            }
        }
        // The end of a run is the last line of its batch, so a client that waits for it has seen everything recorded
        // with it.
        projection.flush(&mut lines);
        self.track(published, projection);
        lines
    }

    /// The last run of the session that had ended by then. It is read once, and followed from there.
    fn last_run(&self, published: &Published, projection: &mut Projection, at: Timestamp) -> LastRun {
        let is_new = matches!(published.batch.records.first(), Some(Record { event: Event::Created(_), .. }));
        let new = is_new.then(LastRun::default);
        let read = || {
            let rows = self.store.runs_before(Some(published.session), None, ROWS).unwrap_or_default();
            LastRun::of(last_ended(&rows, Some(at)))
        };
        let last = ended(published).or(projection.last).or(new).unwrap_or_else(read);
        projection.last = Some(last);
        last
    }

    /// Tracks the session, unless it is idle.
    fn track(&mut self, published: &Published, projection: Projection) {
        let now = state_of(published);
        let waits = published.batch.views.session.as_ref().is_some_and(|row| row.queued > 0);
        if now != IDLE || !projection.is_idle() || waits {
            self.sessions.insert(published.session, (projection, Some(now)));
        }
    }
}

/// Whether a request has added to the usage of its run.
fn is_spent(event: &Event) -> bool {
    match event {
        Event::MessageSealed(MessageSealed { usage, .. }) | Event::Compacted(Compacted { usage, .. }) => {
            *usage != Usage::default()
        }
        _ => false,
    }
}

fn source<'a>(store: &'a dyn Read, published: &'a Published) -> Source<'a> {
    let bodies = &published.batch.bodies;
    Source { key: &published.key, batch: BatchPosition::of(published), bodies, store }
}

fn state_of(published: &Published) -> State {
    (published.run_state, published.lifecycle, published.flags)
}

/// Reads from the journal what another process began, when this process resumes it: the run, and the response that it
/// interrupted.
fn resume(projection: &mut Projection, published: &Published, source: Source<'_>) {
    let records = &published.batch.records;
    let Some(Record { seq: Some(seq), event: Event::Opened(_), .. }) = records.first() else { return };
    projection.position = StreamPosition::at(published.epoch, Seq(seq.0.saturating_sub(1)));
    // A session that cannot be read has no run until an event names it.
    let _ = projection.find_run(source);
    for record in records {
        if let Event::StreamInterrupted(StreamInterrupted { request, text: Some(text), .. }) = &record.event {
            projection.position.set_reached(*request, Reached { end: text.bytes, text: text.bytes, reasoning: 0 });
        }
    }
}

/// The last run of a session that has ended; empty if there is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LastRun {
    outcome: Option<Outcome>,
    started_at: Option<Timestamp>,
}

impl LastRun {
    fn of(row: Option<&RunRow>) -> Self {
        row.map_or_else(Self::default, |row| Self { outcome: row.outcome, started_at: Some(row.started_at) })
    }
}

fn changed((state, lifecycle, flags): State, last: LastRun, resources: Resources) -> StateLine {
    let LastRun { outcome: last_outcome, started_at } = last;
    let resources = Resources { started_at: resources.started_at.or(started_at), ..resources };
    StateLine::Changed { state, lifecycle, flags, last_outcome, can_abort: flags.can_abort(lifecycle), resources }
}

/// The last run that ended in this batch, if one did.
fn ended(published: &Published) -> Option<LastRun> {
    let Published { batch, .. } = published;
    let (run, outcome) = batch.records.iter().rev().find_map(|record| match &record.event {
        Event::RunEnded(e) => Some((e.run, e.outcome)),
        _ => None,
    })?;
    let row = batch.views.runs.iter().rfind(|row| row.run == run);
    Some(LastRun { outcome: Some(outcome), ..LastRun::of(row) })
}

/// The state of an idle session, whose row knows what it has used.
pub(super) fn idle(store: &dyn Read, row: &SessionRow) -> StateLine {
    let last = store.runs_before(Some(row.session), None, 1).ok().and_then(|mut runs| runs.pop());
    let budget = last.as_ref().and_then(|run| budget_of(store, run).ok()).unwrap_or_default();
    let resources = at_rest(row, &row.totals.unwrap_or_default(), &budget);
    changed(IDLE, LastRun::of(last.as_ref()), resources)
}

/// The state of a session as it is in the journal.
pub(super) fn current(store: &dyn Read, session: &Session) -> StateLine {
    let rows = store.runs_before(Some(session.account.id), None, ROWS).unwrap_or_default();
    let budget = rows.last().and_then(|run| budget_of(store, run).ok()).unwrap_or_default();
    let now = (session.run_state(), session.conversation.lifecycle.kind(), session.flags());
    changed(now, LastRun::of(last_ended(&rows, None)), session.resources(&budget))
}

/// The line for a subscriber of this session that has seen entries which no longer exist; `at` is the time of the
/// report. The subscriber drops what it has beyond the line's cursor and resumes there.
pub fn rewound(session: &SessionRow, to: &StreamPosition, at: Timestamp) -> protocol::Event {
    let to = to.to_string();
    protocol::Event {
        cursor: to.clone(),
        session: session.key.clone(),
        run: session.run,
        at,
        what: Stream::State(StateLine::Rewound { to }),
        queue: vec![],
    }
}
