//! What a subscriber of the whole home has missed: the lines of all sessions in the order in which they were recorded, page
//! by page, so that a home of any size is told in bounded memory. What may not live here: what a line says.

use std::collections::{BTreeMap, BTreeSet};

use engine::tables::lifecycle::LifecycleKind;
use engine::tables::transitions::RunState;
use engine::{BranchId, Epoch, Event, Position, Record, RunId, Seq, SessionRow};
use journal::{Entry, Error, HomeEntry, Open, Page, Read};
use protocol::event::{StateLine, Stream};

use super::catch_up::Missed;
use super::cursor::{Cursor, Since};
use super::home_cursor::HomeCursor;
use super::lines::{AT_REST, changed};
use super::telling::{Line, Source};

/// Entries that are read in one go.
const PAGE: usize = 512;

/// Entries at the end of a page that are told with the next one: what was recorded with a failure says what it led to.
const KEPT_BACK: usize = 32;

/// Reads back what a subscriber of the whole home has missed.
#[derive(Default)]
pub struct HomeReading {
    /// Where a subscriber stands that has read all lines so far.
    cursor: HomeCursor,
    /// What was heard late by whoever comes back.
    gaps: Vec<(u64, u64)>,
    /// All up to here was read.
    read: Position,
    /// Where branches stood that had something open.
    standing: BTreeMap<BranchId, Cursor>,
    missed: BTreeMap<BranchId, Missed>,
    /// Of these an entry was missed.
    touched: BTreeSet<BranchId>,
    unreadable: BTreeSet<BranchId>,
    keys: BTreeMap<BranchId, String>,
    /// The branch of the last entry, and its end of a run that is not told yet.
    last: Option<BranchId>,
    owed: Option<(Seq, Position, Epoch)>,
    lines: Vec<Line>,
}

impl HomeReading {
    /// For whoever comes back with this cursor. One that has seen what is gone is told so first.
    pub fn behind(store: &dyn Read, from: &HomeCursor) -> Result<Self, Error> {
        let mut reading = Self { cursor: from.clone(), ..Self::default() };
        reading.name(store)?;
        if !is_there(store, from.head())? {
            reading.cursor = from.back_to(before(store, from.head())?);
            // Of which sessions it was is not known: it is gone.
            reading.notify(store, ("", None), |to| StateLine::Rewound { to })?;
        }
        reading.gaps = reading.cursor.gaps().to_vec();
        reading.read = reading.cursor.head().0;
        for (branch, cursor) in reading.cursor.open().clone() {
            reading.stand(store, branch, cursor)?;
        }
        Ok(reading)
    }

    /// Where a subscriber stands that is told from now on.
    pub fn now(store: &dyn Read) -> Result<HomeCursor, Error> {
        let mut behind = Position(store.head()?.0.saturating_sub(1));
        let mut cursor = HomeCursor::default();
        loop {
            let page = store.page(behind, PAGE)?;
            if let Some(HomeEntry { position, epoch, .. }) = page.entries.last() {
                (cursor, behind) = (HomeCursor::at(*epoch, *position), *position);
            }
            for Open { branch, head: (seq, epoch), progress } in page.open.iter().flatten() {
                let mut stands = Cursor::at(*epoch, *seq);
                for record in progress {
                    stands.see(record, *epoch);
                }
                cursor.stand(*branch, stands);
            }
            if page.open.is_some() {
                return Ok(cursor);
            }
        }
    }

    /// Reads a page; says whether there is more to read at once. What is left then is for [`HomeReading::finish`].
    pub fn more(&mut self, store: &dyn Read) -> Result<bool, Error> {
        for (from, until) in std::mem::take(&mut self.gaps) {
            let entries = usize::try_from(until - from + 1).unwrap_or(PAGE).saturating_add(KEPT_BACK);
            let page = store.page(Position(from - 1), entries)?;
            let within = page.entries.partition_point(|placed| placed.position.0 <= until);
            self.notify_entries(store, &page.entries, within)?;
            self.flush();
            // What is not there any more is not missed.
            let (_, epoch) = self.cursor.head();
            self.cursor.see(Position(from), Position(until), epoch);
        }
        Ok(self.read_page(store)?.open.is_none())
    }

    /// Reads all that is left, with what is open now. From here on a subscriber hears what is recorded.
    pub fn finish(&mut self, store: &dyn Read) -> Result<(), Error> {
        loop {
            if let Some(open) = self.read_page(store)?.open {
                self.flush();
                open.iter().try_for_each(|open| self.show(store, open))?;
                return self.notify_states(store);
            }
        }
    }

    /// What was read since this was asked last.
    pub fn take_lines(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.lines)
    }

    /// Where a subscriber stands that has read all of it.
    pub fn cursor(&self) -> &HomeCursor {
        &self.cursor
    }

    /// The key of the session of each branch.
    fn name(&mut self, store: &dyn Read) -> Result<(), Error> {
        let sessions: BTreeMap<_, _> = store.sessions()?.into_iter().map(|row| (row.session, row.key)).collect();
        let named = |(branch, session)| Some((branch, sessions.get(&session)?.clone()));
        self.keys = store.branches()?.into_iter().filter_map(named).collect();
        Ok(())
    }

    /// Where a branch stood of which something was open; what power took of it is told.
    fn stand(&mut self, store: &dyn Read, branch: BranchId, cursor: Cursor) -> Result<(), Error> {
        match cursor.since(store, branch) {
            Ok(Since::Tail(_)) => drop(self.standing.insert(branch, cursor)),
            Ok(Since::Rewound { to }) => {
                let to = to.at_rest();
                self.cursor.stand(branch, to.clone());
                self.standing.insert(branch, to);
                if let Some(key) = self.keys.get(&branch).cloned() {
                    self.notify(store, (&key, cursor.run()), |to| StateLine::Rewound { to })?;
                }
            }
            Err(error) => self.notify_unreadable(store, branch, &error)?,
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
                Err(error) => self.notify_unreadable(store, *branch, error)?,
            }
            if self.owed.is_none_or(|(_, owed, _)| owed != *position) {
                self.cursor.see(*position, *position, *epoch);
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
        let before = (entry.epoch, Seq(entry.seq.0.saturating_sub(1)));
        let at = (entry.seq, entry.position, entry.epoch);
        let told = self.lines.len();
        let done =
            self.with(store, branch, before, |missed, source, lines| missed.notify(source, entry, following, lines));
        self.place(branch, told, Some(at));
        if let Event::RunEnded(_) = entry.event {
            self.owed = Some(at);
        }
        done.or_else(|error| self.notify_unreadable(store, branch, &error))
    }

    /// Tells progress that was not seen.
    fn show(&mut self, store: &dyn Read, open: &Open) -> Result<(), Error> {
        let Open { branch, head: (seq, epoch), progress } = open;
        if self.unreadable.contains(branch) {
            return Ok(());
        }
        let told = self.lines.len();
        let mut runs = Runs { store, ended: BTreeMap::new() };
        self.with(store, *branch, (*epoch, *seq), |missed, source, lines| {
            for record in progress {
                if !missed.position.cursor.has_shown(record) && !runs.have_ended(record)? {
                    missed.show(source, record, lines);
                }
            }
            Ok(())
        })?;
        self.place(*branch, told, None);
        if let Some(missed) = self.missed.get(branch) {
            // What is not told of it, such as the arguments of calls, was seen as well.
            self.cursor.stand(*branch, missed.position.cursor.clone());
        }
        Ok(())
    }

    /// The states of the sessions of which something was missed.
    fn notify_states(&mut self, store: &dyn Read) -> Result<(), Error> {
        let touched = |row: &SessionRow| self.touched.contains(&row.branch) && !self.unreadable.contains(&row.branch);
        for row in store.sessions()?.into_iter().filter(touched).collect::<Vec<_>>() {
            let told = self.lines.len();
            self.with(store, row.branch, Default::default(), |missed, source, lines| {
                if is_at_rest(&row) {
                    let (place, what) = (missed.position.cursor.place(), Stream::State(changed(AT_REST)));
                    lines.push(missed.position.line(source, row.last_activity, place, what));
                } else {
                    missed.state(source, Some(row.last_activity), lines);
                }
                Ok(())
            })?;
            self.place(row.branch, told, None);
        }
        Ok(())
    }

    /// With how far this branch was told: where it stood, or before what is told of it first.
    fn with(
        &mut self,
        store: &dyn Read,
        branch: BranchId,
        (epoch, seq): (Epoch, Seq),
        notify: impl FnOnce(&mut Missed, Source<'_>, &mut Vec<Line>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(key) = self.keys.get(&branch) else { return Ok(()) };
        let source = Source { key, branch, bodies: &[], store };
        let missed = self.missed.entry(branch).or_insert_with(|| {
            let mut missed = Missed::standing_at(self.standing.remove(&branch).unwrap_or(Cursor::at(epoch, seq)));
            // What cannot be read has no run until an event names it.
            let _ = missed.position.find_run(source);
            missed
        });
        notify(missed, source, &mut self.lines)
    }

    /// The end of a run is told when all is told that was recorded with it.
    fn flush(&mut self) {
        let Some(branch) = self.last else { return };
        let told = self.lines.len();
        if let Some(missed) = self.missed.get_mut(&branch) {
            missed.position.flush(&mut self.lines);
        }
        self.place(branch, told, None);
    }

    /// Gives the lines from this one on the cursors of whoever follows the home. All are of one branch, and at most one entry
    /// of it is told with them, behind the end of a run that was owed.
    fn place(&mut self, branch: BranchId, first: usize, entry: Option<(Seq, Position, Epoch)>) {
        for line in &mut self.lines[first..] {
            let seq = line.place.entry(&line.event);
            let at = [self.owed, entry].into_iter().flatten().find(|(of, ..)| Some(*of) == seq);
            if let Some((_, position, epoch)) = at {
                self.cursor.see(position, position, epoch);
                self.owed = self.owed.filter(|(_, owed, _)| *owed != position);
            }
            self.cursor.stand_at(branch, &line.event.cursor);
            line.event.cursor = self.cursor.to_string();
        }
    }

    /// What follows of this branch is left out, and that is said.
    fn notify_unreadable(&mut self, store: &dyn Read, branch: BranchId, error: &Error) -> Result<(), Error> {
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
        let cursor = self.cursor.to_string();
        let what = Stream::State(what(cursor.clone()));
        let (session, at) = (key.to_owned(), store.latest()?);
        let event = protocol::Event { cursor, session, run, at, what, queue: vec![] };
        self.lines.push(Line { event, place: Cursor::default().place() });
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

/// Whether this entry is still in the journal. One that was removed is not gone: others stand behind it.
fn is_there(store: &dyn Read, (head, epoch): (Position, Epoch)) -> Result<bool, Error> {
    let Some(behind) = head.0.checked_sub(1) else { return Ok(true) };
    let page = store.page(Position(behind), 1)?;
    Ok(page.entries.first().is_some_and(|placed| placed.position != head || placed.epoch == epoch))
}

/// The last entry that whoever has seen this one has seen too. What later owners recorded it has not seen.
fn before(store: &dyn Read, (head, epoch): (Position, Epoch)) -> Result<(Position, Epoch), Error> {
    let mut until = store.head()?.0.min(head.0.saturating_sub(1));
    while until > 0 {
        let behind = until.saturating_sub(PAGE as u64);
        let page = store.page(Position(behind), PAGE)?;
        let seen = |placed: &&HomeEntry| placed.position.0 <= until && placed.epoch <= epoch;
        if let Some(placed) = page.entries.iter().rev().find(seen) {
            return Ok((placed.position, placed.epoch));
        }
        until = behind;
    }
    Ok(Default::default())
}
