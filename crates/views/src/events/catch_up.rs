//! What a resuming reader has missed, read from the journal. For the whole home it is read in recorded order, page by
//! page, so that memory is bounded for a home of any size. For one session it is the same with the entries of that
//! session alone.

use std::collections::{BTreeMap, BTreeSet};

use engine::tables::lifecycle::LifecycleKind;
use engine::tables::transitions::RunState;
use engine::{BranchId, Epoch, Event, Position, Record, RunId, Seq, SessionRow, Timestamp};
use journal::{Entry, Error, HomeEntry, Open, Read, Tail};
use protocol::event::{StateLine, Stream};

use super::batch_position::{BatchPosition, LinePosition};
use super::lines::{idle, rewound};
use super::missed::Missed;
use super::position::{StreamPosition, StreamScope};
use super::projection::{Line, Source, text_bytes};
use super::resume::{PAGE, Resume};

/// Entries at the end of a page that are projected with the next page, because a failure's line depends on the entries
/// recorded with it.
const KEPT_BACK: usize = 32;

/// Bytes of the texts behind which a page ends: each client that catches up has one page in memory.
const PAGE_TEXT_BYTES: u64 = 1 << 20;

/// Reads what a reader has missed. [`CatchUp::more`] reads page by page, and [`CatchUp::finish`] reads the rest; from
/// there on the reader receives live batches.
#[derive(Default)]
pub struct CatchUp {
    feed: Feed,
    /// The position behind all lines read so far.
    position: StreamPosition,
    /// Entries that the reader had not seen when it saw later ones.
    gaps: Vec<(u64, u64)>,
    /// Everything up to this position was read.
    read: Position,
    /// The positions in branches that had open effects.
    open_sessions: BTreeMap<BranchId, StreamPosition>,
    missed: BTreeMap<BranchId, Missed>,
    /// The branches of which an entry was missed.
    touched: BTreeSet<BranchId>,
    unreadable: BTreeSet<BranchId>,
    keys: BTreeMap<BranchId, String>,
    /// The branch of the last entry, and the position of a run's end that is not reported yet.
    last: Option<BranchId>,
    pending_end: Option<Position>,
    lines: Vec<Line>,
}

/// What is being read.
#[derive(Default)]
enum Feed {
    /// Nothing is left to read.
    #[default]
    Nothing,
    /// Everything in the home behind a position.
    Home,
    /// Everything in a session behind its position, as it was at one moment.
    Session(Box<SessionTail>),
}

/// What is missed of a session.
struct SessionTail {
    session: SessionRow,
    entries: Vec<HomeEntry>,
    /// How many of them were read.
    read: usize,
    /// When the last of it was recorded.
    last: Option<Timestamp>,
    progress: Vec<Record>,
}

impl SessionTail {
    fn new(session: &SessionRow, tail: Tail) -> Self {
        let branch = session.branch;
        let last = tail.progress.last().map(|record| record.at).or(tail.entries.last().map(|entry| entry.at));
        let placed =
            |entry: Entry| HomeEntry { position: entry.position, epoch: entry.epoch, branch, entry: Ok(entry) };
        let entries = tail.entries.into_iter().map(placed).collect();
        Self { session: session.clone(), entries, read: 0, last, progress: tail.progress }
    }
}

/// How many of these entries are a page: at least one.
fn page_of(entries: &[HomeEntry]) -> usize {
    let mut bytes = 0;
    let fits = |placed: &HomeEntry| {
        let fits = bytes <= PAGE_TEXT_BYTES;
        bytes += placed.entry.as_ref().map_or(0, |entry| text_bytes(&entry.event));
        fits
    };
    entries.iter().take(PAGE).map(fits).take_while(|fits| *fits).count()
}

impl CatchUp {
    /// A catch-up for a reader that has missed nothing.
    pub fn nothing(position: StreamPosition) -> Self {
        Self { position, ..Self::default() }
    }

    /// A catch-up for a reader of the home at this position. If the reader has seen entries that are gone, a `rewound`
    /// line comes first.
    pub fn of_home(store: &dyn Read, from: &StreamPosition) -> Result<Self, Error> {
        let mut reading = Self { feed: Feed::Home, ..Self::nothing(from.clone()) };
        reading.read_keys(store)?;
        if let Some(to) = from.rewound_in_home(store)? {
            reading.position = to;
            // The sessions of the lost entries are not known, because the entries are gone.
            reading.notify(store, ("", None), |to| StateLine::Rewound { to })?;
        }
        reading.gaps = reading.position.gaps().to_vec();
        reading.read = reading.position.head();
        for (branch, position) in reading.position.clone().sessions() {
            reading.resume_session(store, branch, position)?;
        }
        Ok(reading)
    }

    /// A catch-up for a reader of one session: the home's stream with this session alone in it.
    pub fn of_session(store: &dyn Read, session: &SessionRow, from: &StreamPosition) -> Result<Self, Error> {
        let branch = session.branch;
        let mut reading = Self::nothing(from.clone());
        let resume = if from.is_beginning() {
            // The beginning is the first entry that still exists.
            let line = store.history(branch)?;
            let entries = line.entries().map(|(_, entry)| entry.clone()).collect();
            Resume::Tail(Tail { entries, progress: line.progress })
        } else {
            from.resume(store, branch)?
        };
        let tail = match resume {
            Resume::Tail(tail) => tail,
            Resume::Rewound { to } => {
                // The text of an open response is sent again from its beginning, because it is unknown how much of it
                // the client shows.
                reading.position = to.without_open();
                let event = rewound(session, &reading.position, session.last_activity);
                let nowhere = BatchPosition::nowhere(branch);
                reading.lines.push(Line { event, at: LinePosition::new(nowhere, reading.position.seq(), None) });
                let Resume::Tail(tail) = reading.position.resume(store, branch)? else { return Ok(reading) };
                tail
            }
        };
        let mut missed = Missed::at_position(reading.position.clone());
        let source = Source { key: &session.key, batch: BatchPosition::nowhere(branch), bodies: &[], store };
        missed.projection.find_run(source)?;
        reading.missed.insert(branch, missed);
        reading.keys.insert(branch, session.key.clone());
        reading.feed = Feed::Session(Box::new(SessionTail::new(session, tail)));
        Ok(reading)
    }

    /// Reads a page. Returns whether there is more to read at once; the rest is for [`CatchUp::finish`].
    pub fn more(&mut self, store: &dyn Read) -> Result<bool, Error> {
        match std::mem::replace(&mut self.feed, Feed::Nothing) {
            Feed::Nothing => return Ok(false),
            Feed::Home => self.feed = Feed::Home,
            Feed::Session(mut tail) => {
                let (behind, count) = (&tail.entries[tail.read..], page_of(&tail.entries[tail.read..]));
                self.notify_entries(store, behind, count)?;
                tail.read += count;
                let is_more = tail.read < tail.entries.len();
                self.feed = Feed::Session(tail);
                return Ok(is_more);
            }
        }
        for (from, until) in std::mem::take(&mut self.gaps) {
            let entries = usize::try_from(until - from + 1).unwrap_or(PAGE).saturating_add(KEPT_BACK);
            let page = store.page(Position(from - 1), entries)?;
            let within = page.entries.partition_point(|placed| placed.position.0 <= until);
            self.notify_entries(store, &page.entries, within)?;
            self.flush();
            // An entry that no longer exists is not missed.
            self.position.see_range((Position(from), Position(until)), self.position.epoch());
        }
        Ok(self.read_page(store)?.is_none())
    }

    /// Reads the rest, with the output of open effects. From here on a subscriber receives live batches.
    pub fn finish(&mut self, store: &dyn Read) -> Result<(), Error> {
        match std::mem::replace(&mut self.feed, Feed::Nothing) {
            Feed::Nothing => Ok(()),
            Feed::Session(tail) => self.finish_session(store, *tail),
            Feed::Home => loop {
                if let Some(open) = self.read_page(store)? {
                    self.flush();
                    open.iter().try_for_each(|open| self.show(store, open))?;
                    return self.notify_states(store);
                }
            },
        }
    }

    /// The last entries of a session, its open effects and its state.
    fn finish_session(&mut self, store: &dyn Read, tail: SessionTail) -> Result<(), Error> {
        let SessionTail { session, entries, read, last, progress } = tail;
        self.notify_entries(store, &entries[read..], entries.len() - read)?;
        let head = (self.position.seq(), self.position.epoch());
        self.show(store, &Open { branch: session.branch, head, progress })?;
        self.notify_state(store, &session, |missed, source, lines| missed.state(source, last, lines))
    }

    /// Returns the lines that were read since the last call.
    pub fn take_lines(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.lines)
    }

    /// The position behind everything that was read.
    pub fn position(&self) -> &StreamPosition {
        &self.position
    }

    fn is_of_home(&self) -> bool {
        self.position.scope() == StreamScope::Home
    }

    /// Reads the key of the session of each branch.
    fn read_keys(&mut self, store: &dyn Read) -> Result<(), Error> {
        let sessions: BTreeMap<_, _> = store.sessions()?.into_iter().map(|row| (row.session, row.key)).collect();
        let named = |(branch, session)| Some((branch, sessions.get(&session)?.clone()));
        self.keys = store.branches()?.into_iter().filter_map(named).collect();
        Ok(())
    }

    /// Reads the missed output of a session that had open effects; reports output that a power loss removed.
    fn resume_session(&mut self, store: &dyn Read, branch: BranchId, position: &StreamPosition) -> Result<(), Error> {
        match position.resume(store, branch) {
            Ok(Resume::Tail(_)) => drop(self.open_sessions.insert(branch, position.clone())),
            Ok(Resume::Rewound { to }) => {
                let to = to.without_open();
                self.position.set_session(branch, to.clone());
                self.open_sessions.insert(branch, to);
                if let Some(key) = self.keys.get(&branch).cloned() {
                    self.notify(store, (&key, position.run()), |to| StateLine::Rewound { to })?;
                }
            }
            Err(error) => self.exclude(store, branch, &error)?,
        }
        Ok(())
    }

    /// Reads a page of the home. Returns the open progress if it was the last one.
    fn read_page(&mut self, store: &dyn Read) -> Result<Option<Vec<Open>>, Error> {
        let page = store.page(self.read, PAGE)?;
        let all = page.entries.len();
        let known = if page.open.is_some() { all } else { all.saturating_sub(KEPT_BACK) };
        let count = page_of(&page.entries[..known]);
        self.notify_entries(store, &page.entries, count)?;
        if let Some(last) = page.entries[..count].last() {
            self.read = last.position;
        }
        Ok(page.open.filter(|_| count == all))
    }

    /// Projects this many entries; the rest only shows what followed from them.
    fn notify_entries(&mut self, store: &dyn Read, entries: &[HomeEntry], count: usize) -> Result<(), Error> {
        for (at, HomeEntry { position, epoch, branch, entry }) in entries[..count].iter().enumerate() {
            if self.last != Some(*branch) {
                self.flush();
            }
            self.last = Some(*branch);
            if !self.keys.contains_key(branch) && !self.unreadable.contains(branch) {
                self.read_keys(store)?;
                if !self.keys.contains_key(branch) {
                    // Its session was quarantined.
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
                // The beginning is the first entry that still exists.
                Err(Error::Erased { .. }) => {}
                Err(error) => self.exclude(store, *branch, error)?,
            }
            if self.is_of_home() && self.pending_end != Some(*position) {
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
        let first = self.lines.len();
        let batch = BatchPosition::of_entry(branch, entry);
        let done =
            self.with(store, batch, before, |missed, source, lines| missed.notify(source, entry, following, lines));
        self.set_cursors(branch, first);
        if let Event::RunEnded(_) = entry.event {
            self.pending_end = Some(entry.position);
        }
        done.or_else(|error| self.exclude(store, branch, &error))
    }

    /// Reports progress that the reader has not seen.
    fn show(&mut self, store: &dyn Read, open: &Open) -> Result<(), Error> {
        let Open { branch, head, progress } = open;
        if self.unreadable.contains(branch) {
            return Ok(());
        }
        let first = self.lines.len();
        let mut runs = Runs { store, branch: *branch, head: head.0, ended: BTreeMap::new() };
        self.with(store, BatchPosition::nowhere(*branch), *head, |missed, source, lines| {
            for record in progress {
                if !missed.projection.position.has_seen_progress(record) && !runs.have_ended(record)? {
                    missed.show(source, record, lines);
                }
            }
            Ok(())
        })?;
        self.set_cursors(*branch, first);
        if let Some(missed) = self.missed.get(branch) {
            // Progress that no line reports, such as call arguments, counts as seen.
            self.position.set_session(*branch, missed.projection.position.clone());
        }
        Ok(())
    }

    /// Reports the states of the sessions of which something was missed.
    fn notify_states(&mut self, store: &dyn Read) -> Result<(), Error> {
        let touched = |row: &SessionRow| self.touched.contains(&row.branch) && !self.unreadable.contains(&row.branch);
        for row in store.sessions()?.into_iter().filter(touched).collect::<Vec<_>>() {
            let at = row.last_activity;
            self.notify_state(store, &row, |missed, source, lines| {
                if is_idle(&row) {
                    lines.push(missed.projection.line(source, at, Stream::State(idle(store, &row))));
                } else {
                    missed.state(source, Some(at), lines);
                }
            })?;
        }
        Ok(())
    }

    /// Reports the state of a session. The reader has then read all of it.
    fn notify_state(
        &mut self,
        store: &dyn Read,
        row: &SessionRow,
        state: impl FnOnce(&mut Missed, Source<'_>, &mut Vec<Line>),
    ) -> Result<(), Error> {
        let (branch, first) = (row.branch, self.lines.len());
        self.with(store, BatchPosition::nowhere(branch), Default::default(), |missed, source, lines| {
            state(missed, source, lines);
            Ok(())
        })?;
        self.set_cursors(branch, first);
        Ok(())
    }

    /// Calls `notify` with how far this branch is reported: up to the reader's position, or up to the entry before the
    /// first one here.
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
            let resumed = self.open_sessions.remove(&branch);
            let mut missed = Missed::at_position(resumed.unwrap_or_else(|| StreamPosition::at(epoch, seq)));
            // A session that cannot be read has no run until an event names it.
            let _ = missed.projection.find_run(source);
            missed
        });
        notify(missed, source, &mut self.lines)
    }

    /// Reports the end of a run once everything recorded with it is reported.
    fn flush(&mut self) {
        let Some(branch) = self.last else { return };
        let first = self.lines.len();
        if let Some(missed) = self.missed.get_mut(&branch) {
            missed.projection.flush(&mut self.lines);
        }
        self.set_cursors(branch, first);
    }

    /// Advances past the lines of this branch from this one on. Lines carry cursors of their session; a reader of
    /// the home receives cursors of the home.
    fn set_cursors(&mut self, branch: BranchId, first: usize) {
        if self.is_of_home() {
            for line in &mut self.lines[first..] {
                let entry = self.position.follow(line);
                self.pending_end = self.pending_end.filter(|end| Some(*end) != entry);
                line.event.cursor = self.position.to_string();
            }
        } else if let Some(missed) = self.missed.get(&branch) {
            self.position.clone_from(&missed.projection.position);
        }
    }

    /// Excludes the rest of this session from the home's stream and reports that. A reader of the session alone
    /// receives the error.
    fn exclude(&mut self, store: &dyn Read, branch: BranchId, error: &Error) -> Result<(), Error> {
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

/// Whether runs had ended when their session was read. Progress of an ended run only waits to be collected; that of a run that
/// has ended since is the beginning of a text whose rest arrives live.
struct Runs<'a> {
    store: &'a dyn Read,
    branch: BranchId,
    /// The last entry that was read.
    head: Seq,
    ended: BTreeMap<RunId, bool>,
}

impl Runs<'_> {
    fn have_ended(&mut self, record: &Record) -> Result<bool, Error> {
        let Some((effect, _)) = record.event.progress() else { return Ok(false) };
        if let Some(ended) = self.ended.get(&effect.run) {
            return Ok(*ended);
        }
        let has_ended = self.store.run(effect.run)?.is_some_and(|row| row.outcome.is_some());
        let ended = has_ended && !self.has_ended_since(effect.run)?;
        self.ended.insert(effect.run, ended);
        Ok(ended)
    }

    fn has_ended_since(&self, run: RunId) -> Result<bool, Error> {
        let since = self.store.read(self.branch, Seq(self.head.0 + 1))?;
        Ok(since.iter().any(|entry| matches!(&entry.event, Event::RunEnded(ended) if ended.run == run)))
    }
}

/// Whether the row says all that there is to report: the session is idle, and the row knows what it has used, as that of an
/// older version does not.
fn is_idle(row: &SessionRow) -> bool {
    row.totals.is_some() && !row.unfinished && (row.lifecycle, row.run_state) == (LifecycleKind::Idle, RunState::Idle)
}
