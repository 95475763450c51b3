//! What a reader that comes back has missed, from the journal: of the whole home in the order in which it was recorded, page
//! by page, so that a home of any size is told in bounded memory; of one session the same with its entries alone. What may
//! not live here: what a line says, and what happens from now on.

use std::collections::{BTreeMap, BTreeSet};

use engine::tables::lifecycle::LifecycleKind;
use engine::tables::transitions::RunState;
use engine::{BranchId, Epoch, Event, Position, Record, RunId, Seq, SessionRow};
use journal::{Entry, Error, HomeEntry, Open, Page, Read, Tail};
use protocol::event::{StateLine, Stream};

use super::lines::{AT_REST, changed, rewound};
use super::missed::Missed;
use super::place::{BatchPosition, LinePosition};
use super::position::{StreamPosition, StreamScope};
use super::resume::{PAGE, Resume};
use super::telling::{Line, Source};

/// Entries at the end of a page that are told with the next one: what was recorded with a failure says what it led to.
const KEPT_BACK: usize = 32;

/// Reads back what a reader has missed. [`CatchUp::more`] reads page by page, [`CatchUp::finish`] what is left; from there
/// on the reader hears what is recorded.
#[derive(Default)]
pub struct CatchUp {
    feed: Feed,
    /// The position of a reader that has read all lines so far.
    position: StreamPosition,
    /// What was heard late by the reader that comes back.
    gaps: Vec<(u64, u64)>,
    /// All up to here was read.
    read: Position,
    /// Where branches stood that had something open.
    standing: BTreeMap<BranchId, StreamPosition>,
    missed: BTreeMap<BranchId, Missed>,
    /// Of these an entry was missed.
    touched: BTreeSet<BranchId>,
    unreadable: BTreeSet<BranchId>,
    keys: BTreeMap<BranchId, String>,
    /// The branch of the last entry, and the position of its end of a run that is not told yet.
    last: Option<BranchId>,
    owed: Option<Position>,
    lines: Vec<Line>,
}

/// What is read.
#[derive(Default)]
enum Feed {
    /// Nothing is left to read.
    #[default]
    Nothing,
    /// All that the home has behind a position.
    Home,
    /// What a session has behind its position, as it stood at one moment.
    Session(Box<SessionRow>, Tail),
}

impl CatchUp {
    /// For a reader that has missed nothing.
    pub fn nothing(position: StreamPosition) -> Self {
        Self { position, ..Self::default() }
    }

    /// For a reader of the home that stands here. If it has seen what is gone, it is told so first.
    pub fn of_home(store: &dyn Read, from: &StreamPosition) -> Result<Self, Error> {
        let mut reading = Self { feed: Feed::Home, ..Self::nothing(from.clone()) };
        reading.name(store)?;
        if let Some(to) = from.rewound_in_home(store)? {
            reading.position = to;
            // Of which sessions it was is not known: it is gone.
            reading.notify(store, ("", None), |to| StateLine::Rewound { to })?;
        }
        reading.gaps = reading.position.gaps().to_vec();
        reading.read = reading.position.head();
        for (branch, position) in reading.position.clone().sessions() {
            reading.stand(store, branch, position)?;
        }
        Ok(reading)
    }

    /// The same for a reader of one session: the home's stream with this session alone in it.
    pub fn of_session(store: &dyn Read, session: &SessionRow, from: &StreamPosition) -> Result<Self, Error> {
        let branch = session.branch;
        let mut reading = Self::nothing(from.clone());
        let resume = if from.is_beginning() {
            // From the beginning is from what is still there.
            let line = store.history(branch)?;
            let entries = line.entries().map(|(_, entry)| entry.clone()).collect();
            Resume::Tail(Tail { entries, progress: line.progress })
        } else {
            from.resume(store, branch)?
        };
        let tail = match resume {
            Resume::Tail(tail) => tail,
            Resume::Rewound { to } => {
                // What is kept of an open answer is told again from its beginning: nobody knows what of it stands on a screen.
                reading.position = to.at_rest();
                let event = rewound(session, &reading.position, session.last_activity);
                let nowhere = BatchPosition::nowhere(branch);
                reading.lines.push(Line { event, at: LinePosition::new(nowhere, reading.position.seq(), None) });
                let Resume::Tail(tail) = reading.position.resume(store, branch)? else { return Ok(reading) };
                tail
            }
        };
        let mut missed = Missed::standing_at(reading.position.clone());
        let source = Source { key: &session.key, batch: BatchPosition::nowhere(branch), bodies: &[], store };
        missed.projection.find_run(source)?;
        reading.missed.insert(branch, missed);
        reading.keys.insert(branch, session.key.clone());
        reading.feed = Feed::Session(Box::new(session.clone()), tail);
        Ok(reading)
    }

    /// Reads a page; returns whether there is more to read at once. What is left then is for [`CatchUp::finish`].
    pub fn more(&mut self, store: &dyn Read) -> Result<bool, Error> {
        if !matches!(self.feed, Feed::Home) {
            return Ok(false);
        }
        for (from, until) in std::mem::take(&mut self.gaps) {
            let entries = usize::try_from(until - from + 1).unwrap_or(PAGE).saturating_add(KEPT_BACK);
            let page = store.page(Position(from - 1), entries)?;
            let within = page.entries.partition_point(|placed| placed.position.0 <= until);
            self.notify_entries(store, &page.entries, within)?;
            self.flush();
            // What is not there any more is not missed.
            self.position.see_range((Position(from), Position(until)), self.position.epoch());
        }
        Ok(self.read_page(store)?.open.is_none())
    }

    /// Reads all that is left, with what is open now. From here on a subscriber hears what is recorded.
    pub fn finish(&mut self, store: &dyn Read) -> Result<(), Error> {
        match std::mem::replace(&mut self.feed, Feed::Nothing) {
            Feed::Nothing => Ok(()),
            Feed::Session(session, tail) => self.finish_session(store, &session, tail),
            Feed::Home => loop {
                if let Some(open) = self.read_page(store)?.open {
                    self.flush();
                    open.iter().try_for_each(|open| self.show(store, open))?;
                    return self.notify_states(store);
                }
            },
        }
    }

    /// A session is one page of its entries, what is open, and its state.
    fn finish_session(&mut self, store: &dyn Read, session: &SessionRow, tail: Tail) -> Result<(), Error> {
        let branch = session.branch;
        let last = tail.progress.last().map(|record| record.at).or(tail.entries.last().map(|entry| entry.at));
        let placed =
            |entry: Entry| HomeEntry { position: entry.position, epoch: entry.epoch, branch, entry: Ok(entry) };
        let entries: Vec<HomeEntry> = tail.entries.into_iter().map(placed).collect();
        self.notify_entries(store, &entries, entries.len())?;
        let head = (self.position.seq(), self.position.epoch());
        self.show(store, &Open { branch, head, progress: tail.progress })?;
        self.notify_state(store, session, |missed, source, lines| missed.state(source, last, lines))
    }

    /// What was read since this was called last.
    pub fn take_lines(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.lines)
    }

    /// The position of a reader that has read all of it.
    pub fn position(&self) -> &StreamPosition {
        &self.position
    }

    fn is_of_home(&self) -> bool {
        self.position.scope() == StreamScope::Home
    }

    /// The key of the session of each branch.
    fn name(&mut self, store: &dyn Read) -> Result<(), Error> {
        let sessions: BTreeMap<_, _> = store.sessions()?.into_iter().map(|row| (row.session, row.key)).collect();
        let named = |(branch, session)| Some((branch, sessions.get(&session)?.clone()));
        self.keys = store.branches()?.into_iter().filter_map(named).collect();
        Ok(())
    }

    /// Where a session of the home stood of which something was open; what power took of it is told.
    fn stand(&mut self, store: &dyn Read, branch: BranchId, position: &StreamPosition) -> Result<(), Error> {
        match position.resume(store, branch) {
            Ok(Resume::Tail(_)) => drop(self.standing.insert(branch, position.clone())),
            Ok(Resume::Rewound { to }) => {
                let to = to.at_rest();
                self.position.stand(branch, to.clone());
                self.standing.insert(branch, to);
                if let Some(key) = self.keys.get(&branch).cloned() {
                    self.notify(store, (&key, position.run()), |to| StateLine::Rewound { to })?;
                }
            }
            Err(error) => self.leave_out(store, branch, &error)?,
        }
        Ok(())
    }

    fn read_page(&mut self, store: &dyn Read) -> Result<Page, Error> {
        let page = store.page(self.read, PAGE)?;
        let all = page.entries.len();
        let told = if page.open.is_some() { all } else { all.saturating_sub(KEPT_BACK) };
        self.notify_entries(store, &page.entries, told)?;
        if let Some(last) = page.entries[..told].last() {
            self.read = last.position;
        }
        Ok(page)
    }

    /// Tells so many of these; the others say what they led to.
    fn notify_entries(&mut self, store: &dyn Read, entries: &[HomeEntry], told: usize) -> Result<(), Error> {
        for (at, HomeEntry { position, epoch, branch, entry }) in entries[..told].iter().enumerate() {
            if self.last != Some(*branch) {
                self.flush();
            }
            self.last = Some(*branch);
            if !self.keys.contains_key(branch) && !self.unreadable.contains(branch) {
                self.name(store)?;
                if !self.keys.contains_key(branch) {
                    // Its session was put aside.
                    self.unreadable.insert(*branch);
                }
            }
            match entry {
                _ if self.unreadable.contains(branch) => {}
                Ok(entry) => {
                    let behind = entries[at + 1..].iter().filter(|placed| placed.branch == *branch);
                    let following = behind.filter_map(|placed| placed.entry.as_ref().ok()).map(|entry| &entry.event);
                    self.notify_entry(store, *branch, entry, following)?;
                }
                // From the beginning is from what is still there.
                Err(Error::Erased { .. }) => {}
                Err(error) => self.leave_out(store, *branch, error)?,
            }
            if self.is_of_home() && self.owed != Some(*position) {
                self.position.see_range((*position, *position), *epoch);
            }
        }
        Ok(())
    }

    fn notify_entry<'e>(
        &mut self,
        store: &dyn Read,
        branch: BranchId,
        entry: &Entry,
        following: impl Iterator<Item = &'e Event>,
    ) -> Result<(), Error> {
        self.touched.insert(branch);
        let before = (Seq(entry.seq.0.saturating_sub(1)), entry.epoch);
        let told = self.lines.len();
        let batch = BatchPosition::of_entry(branch, entry);
        let done =
            self.with(store, batch, before, |missed, source, lines| missed.notify(source, entry, following, lines));
        self.place(branch, told);
        if let Event::RunEnded(_) = entry.event {
            self.owed = Some(entry.position);
        }
        done.or_else(|error| self.leave_out(store, branch, &error))
    }

    /// Tells progress that was not seen.
    fn show(&mut self, store: &dyn Read, open: &Open) -> Result<(), Error> {
        let Open { branch, head, progress } = open;
        if self.unreadable.contains(branch) {
            return Ok(());
        }
        let told = self.lines.len();
        let mut runs = Runs { store, ended: BTreeMap::new() };
        self.with(store, BatchPosition::nowhere(*branch), *head, |missed, source, lines| {
            for record in progress {
                if !missed.projection.position.has_shown(record) && !runs.have_ended(record)? {
                    missed.show(source, record, lines);
                }
            }
            Ok(())
        })?;
        self.place(*branch, told);
        if let Some(missed) = self.missed.get(branch) {
            // What is not told of it, such as the arguments of calls, was seen as well.
            self.position.stand(*branch, missed.projection.position.clone());
        }
        Ok(())
    }

    /// The states of the sessions of which something was missed.
    fn notify_states(&mut self, store: &dyn Read) -> Result<(), Error> {
        let touched = |row: &SessionRow| self.touched.contains(&row.branch) && !self.unreadable.contains(&row.branch);
        for row in store.sessions()?.into_iter().filter(touched).collect::<Vec<_>>() {
            let at = row.last_activity;
            self.notify_state(store, &row, |missed, source, lines| {
                if is_at_rest(&row) {
                    lines.push(missed.projection.line(source, at, Stream::State(changed(AT_REST))));
                } else {
                    missed.state(source, Some(at), lines);
                }
            })?;
        }
        Ok(())
    }

    /// The state of a session; the reader has read all of it then.
    fn notify_state(
        &mut self,
        store: &dyn Read,
        row: &SessionRow,
        state: impl FnOnce(&mut Missed, Source<'_>, &mut Vec<Line>),
    ) -> Result<(), Error> {
        let (branch, told) = (row.branch, self.lines.len());
        self.with(store, BatchPosition::nowhere(branch), Default::default(), |missed, source, lines| {
            state(missed, source, lines);
            Ok(())
        })?;
        self.place(branch, told);
        Ok(())
    }

    /// With how far this branch was told: where it stood, or before what is told of it first.
    fn with(
        &mut self,
        store: &dyn Read,
        batch: BatchPosition,
        (seq, epoch): (Seq, Epoch),
        notify: impl FnOnce(&mut Missed, Source<'_>, &mut Vec<Line>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let branch = batch.branch;
        let Some(key) = self.keys.get(&branch) else { return Ok(()) };
        let source = Source { key, batch, bodies: &[], store };
        let missed = self.missed.entry(branch).or_insert_with(|| {
            let stood = self.standing.remove(&branch);
            let mut missed = Missed::standing_at(stood.unwrap_or_else(|| StreamPosition::at(epoch, seq)));
            // What cannot be read has no run until an event names it.
            let _ = missed.projection.find_run(source);
            missed
        });
        notify(missed, source, &mut self.lines)
    }

    /// The end of a run is told when all is told that was recorded with it.
    fn flush(&mut self) {
        let Some(branch) = self.last else { return };
        let told = self.lines.len();
        if let Some(missed) = self.missed.get_mut(&branch) {
            missed.projection.flush(&mut self.lines);
        }
        self.place(branch, told);
    }

    /// The reader has read the lines of this branch from this one on. Lines have the cursors of their session: a reader of
    /// the home is given its own.
    fn place(&mut self, branch: BranchId, first: usize) {
        if self.is_of_home() {
            for line in &mut self.lines[first..] {
                let entry = self.position.follow(line);
                self.owed = self.owed.filter(|owed| Some(*owed) != entry);
                line.event.cursor = self.position.to_string();
            }
        } else if let Some(missed) = self.missed.get(&branch) {
            self.position.clone_from(&missed.projection.position);
        }
    }

    /// What follows of this session is left out of the home, and that is said. A reader of it alone is told the error.
    fn leave_out(&mut self, store: &dyn Read, branch: BranchId, error: &Error) -> Result<(), Error> {
        if !self.is_of_home() {
            return Err(error.clone());
        }
        let key = self.keys.get(&branch).cloned();
        if let Some(key) = key.filter(|_| self.unreadable.insert(branch)) {
            self.notify(store, (&key, None), |_| StateLine::Unreadable { reason: error.to_string() })?;
        }
        Ok(())
    }

    fn notify(
        &mut self,
        store: &dyn Read,
        (key, run): (&str, Option<RunId>),
        what: impl FnOnce(String) -> StateLine,
    ) -> Result<(), Error> {
        let cursor = self.position.to_string();
        let what = Stream::State(what(cursor.clone()));
        let (session, at) = (key.to_owned(), store.latest()?);
        let event = protocol::Event { cursor, session, run, at, what, queue: vec![] };
        let nowhere = BatchPosition::nowhere(BranchId(uuid::Uuid::nil()));
        self.lines.push(Line { event, at: LinePosition::new(nowhere, Seq(0), None) });
        Ok(())
    }
}

/// Which runs have ended: what is left of their progress waits to be collected.
struct Runs<'a> {
    store: &'a dyn Read,
    ended: BTreeMap<RunId, bool>,
}

impl Runs<'_> {
    fn have_ended(&mut self, record: &Record) -> Result<bool, Error> {
        let Some((effect, _)) = record.event.progress() else { return Ok(false) };
        if let Some(ended) = self.ended.get(&effect.run) {
            return Ok(*ended);
        }
        let ended = self.store.run(effect.run)?.is_some_and(|row| row.outcome.is_some());
        self.ended.insert(effect.run, ended);
        Ok(ended)
    }
}

/// Whether nothing of it is told but that it rests.
fn is_at_rest(row: &SessionRow) -> bool {
    !row.unfinished && (row.lifecycle, row.run_state) == (LifecycleKind::Idle, RunState::Idle)
}
