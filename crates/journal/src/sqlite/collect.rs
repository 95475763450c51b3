//! Collection removes bodies that nothing names any more, and closed progress. Erasure removes the content of bodies
//! that only old entries name; their size and hash stay.
//!
//! A collection first reads everything that may name a body, a bounded piece at a time, and remembers whatever looks
//! like a hash. Then it removes the bodies whose hashes it has not seen; each of these transactions first reads what
//! was appended meanwhile. It keeps bodies that came under the current owner, and bodies whose hash only resembles one
//! that was seen: it may keep too much, but never removes what is needed.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::{EffectId, Epoch, Event, Hash, Timestamp, VERSION};
use rusqlite::{Connection, Row};

use super::dictionaries::Dictionaries;
use super::reader::Reader;
use super::rows;
use super::snapshot;
use super::{failed, home};
use crate::{Collected, DeletedConversation, Error, Old};

/// Rows per step; a step takes some milliseconds.
const ROWS: usize = 1000;
/// Snapshots per step: they are larger.
const SNAPSHOTS: usize = 8;
/// Hex digits of a hash in a payload.
const DIGITS: usize = 64;

/// What an erasure would remove now. Changes nothing, so it also works beside a running owner.
pub(super) fn erasable(reader: &Reader, old: &Old<'_>) -> Result<Collected, Error> {
    count(reader, Some(old))
}

/// What the next owner would collect. Changes nothing, so it also works beside a running owner.
pub(super) fn collectable(reader: &Reader) -> Result<Collected, Error> {
    count(reader, None)
}

fn count(reader: &Reader, old: Option<&Old<'_>>) -> Result<Collected, Error> {
    let path = PathBuf::from(home::DATABASE);
    // Bodies that come later are named by entries that this does not read.
    let collectable = reader.query(|connection| Collectable::new(connection, Epoch(0)))?;
    let mut collection =
        old.map_or_else(|| Collection::new(&collectable), |old| Collection::erasing(&collectable, old));
    while !matches!(collection.stage, Stage::Bodies { .. }) {
        reader.query(|connection| Ok(collection.step(connection, &path)))??;
    }
    reader.query(|connection| {
        let mut after = 0;
        loop {
            let bodies = collection.bodies(connection, after)?;
            for body in &bodies {
                if !collection.keeps(body) {
                    collection.collected.add(body);
                }
            }
            match bodies.last() {
                Some(last) if bodies.len() == ROWS => after = last.row,
                _ => break,
            }
        }
        if old.is_some() {
            return Ok(collection.collected);
        }
        let mut progress = OpenProgress::list(connection)?;
        while progress.look(connection, &collection.collectable.dictionaries)? {}
        for (branch, effect) in progress.closed {
            let sql = "SELECT count(*) FROM progress WHERE branch = ?1 AND effect = ?2";
            let pieces: i64 = connection.prepare_cached(sql)?.query_row((branch, effect), |row| row.get(0))?;
            collection.collected.progress += pieces as u64;
        }
        Ok(collection.collected)
    })
}

impl Collected {
    fn add(&mut self, body: &Stored) {
        self.bodies += 1;
        self.bytes += body.bytes.unwrap_or_default() as u64;
    }
}

/// How often this owner has removed entries: a collection that read before a removal may have missed what those entries
/// named.
#[derive(Debug, Clone, Default)]
pub(super) struct Removals(Arc<Mutex<u64>>);

impl Removals {
    /// Blocks removals and collections while the guard lives.
    pub(super) fn hold(&self) -> MutexGuard<'_, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which bodies an owner may collect.
#[derive(Debug, Clone)]
pub(super) struct Collectable {
    pub(super) epoch: Epoch,
    /// The last row of `bodies` that existed before this owner.
    youngest: i64,
    dictionaries: Dictionaries,
    pub(super) removals: Removals,
}

impl Collectable {
    pub(super) fn new(connection: &Connection, epoch: Epoch) -> rusqlite::Result<Self> {
        let youngest = connection.query_row("SELECT coalesce(max(rowid), 0) FROM bodies", [], |row| row.get(0))?;
        let dictionaries = Dictionaries::read(connection)?;
        Ok(Self { epoch, youngest, dictionaries, removals: Removals::default() })
    }

    /// The same, including what came under this owner.
    pub(super) fn up_to_now(&self, connection: &Connection) -> rusqlite::Result<Self> {
        Ok(Self { removals: self.removals.clone(), ..Self::new(connection, self.epoch)? })
    }
}

/// A collection in progress.
#[derive(Debug)]
pub(super) struct Collection {
    collectable: Collectable,
    /// The number of removals when it began.
    removals: u64,
    stage: Stage,
    /// For an erasure: entries before this time do not keep a body, except entries of the kinds listed in `step`; and
    /// bodies lose their content but keep their rows.
    before: Option<Timestamp>,
    /// For the erasure of a conversation: its entries keep no body, except the settings of its runs.
    of: Option<Deleted>,
    /// The hashes of contents of files in the entries of that session.
    files: BTreeSet<Hash>,
    /// The calls that those entries start.
    calls: BTreeSet<EffectId>,
    /// Entries up to this position were read.
    position: i64,
    /// The first eight bytes of every hash that was seen.
    named: HashSet<u64>,
    /// The first eight bytes of every hash that was seen in old entries.
    old: HashSet<u64>,
    progress: Option<OpenProgress>,
    collected: Collected,
}

/// A conversation that is erased.
#[derive(Debug, Clone, Copy)]
struct Deleted {
    session: [u8; 16],
    branch: [u8; 16],
    /// Its last entry.
    until: i64,
    /// Where that is in the journal.
    position: i64,
}

/// The current stage; rows of a table up to `after` are done.
#[derive(Debug, Clone, Copy)]
enum Stage {
    Entries,
    Views { view: usize, after: i64 },
    Snapshots { after: i64 },
    Bodies { after: i64 },
    Progress,
    Done,
}

/// Queries for rows that name bodies and may outlive the entries that did.
const VIEWS: [&str; 2] = [
    "SELECT row, packed, message, session, key, rowid FROM view_receipts WHERE rowid > ?1 AND session IS NOT ?3 ORDER BY rowid LIMIT ?2",
    "SELECT row, packed, run, session, NULL, rowid FROM view_runs WHERE rowid > ?1 AND session IS NOT ?3 ORDER BY rowid LIMIT ?2",
];

impl Collection {
    pub(super) fn new(collectable: &Collectable) -> Self {
        Self {
            collectable: collectable.clone(),
            removals: *collectable.removals.hold(),
            stage: Stage::Entries,
            before: None,
            of: None,
            files: BTreeSet::new(),
            calls: BTreeSet::new(),
            position: 0,
            named: HashSet::new(),
            old: HashSet::new(),
            progress: None,
            collected: Collected::default(),
        }
    }

    /// A collection that erases old content. That content may also have come under this owner.
    pub(super) fn erasing(collectable: &Collectable, old: &Old<'_>) -> Self {
        let mut collection = Self { before: Some(old.before), ..Self::new(collectable) };
        for state in old.states {
            collection.name(state);
        }
        collection
    }

    /// A collection that erases what only this conversation names, also if it came under this owner.
    pub(super) fn deleting(
        collectable: &Collectable,
        connection: &Connection,
        of: &DeletedConversation,
    ) -> rusqlite::Result<Self> {
        let (session, branch, until) = (*of.session.0.as_bytes(), *of.branch.0.as_bytes(), of.until.0 as i64);
        // Of a conversation whose entries are all removed nothing is named any more.
        let sql = "SELECT coalesce(max(e.position), 0) FROM entries e JOIN branches b ON b.id = e.branch \
                   WHERE b.uuid = ?1 AND b.session = ?2 AND e.seq <= ?3";
        let position = connection.query_row(sql, (branch, session, until), |row| row.get(0))?;
        Ok(Self { of: Some(Deleted { session, branch, until, position }), ..Self::new(collectable) })
    }

    /// The session whose conversation is erased.
    fn session(&self) -> Option<[u8; 16]> {
        self.of.map(|of| of.session)
    }

    /// The contents of files that only the entries of the conversation name.
    pub(super) fn files(&self) -> Vec<Hash> {
        self.files.iter().filter(|hash| !self.named.contains(&first_bytes(&hash.0))).copied().collect()
    }

    /// The calls of the conversation.
    pub(super) fn calls(&mut self) -> BTreeSet<EffectId> {
        std::mem::take(&mut self.calls)
    }

    /// Whether bodies lose their content and keep their rows.
    fn erases(&self) -> bool {
        self.before.is_some() || self.of.is_some()
    }

    /// Does the next piece; returns what was collected once all is done.
    pub(super) fn step(&mut self, connection: &Connection, path: &Path) -> Result<Option<Collected>, Error> {
        let sqlite = failed(path);
        match self.stage {
            Stage::Entries => {
                if self.read_entries(connection).map_err(sqlite)? < ROWS {
                    self.stage = Stage::Views { view: 0, after: 0 };
                }
            }
            Stage::Views { view, after } => self.stage = self.read_view(connection, view, after).map_err(sqlite)?,
            Stage::Snapshots { after } => self.stage = self.read_snapshots(connection, after, path)?,
            Stage::Bodies { after } => self.stage = self.collect_bodies(connection, after, path)?,
            Stage::Progress if self.erases() => self.stage = self.end_erasure(connection, path)?,
            Stage::Progress => self.collect_progress(connection, path)?,
            Stage::Done => return Ok(Some(self.collected)),
        }
        Ok(None)
    }

    fn read_entries(&mut self, connection: &Connection) -> rusqlite::Result<usize> {
        // Settings and prompts are few, and shared by many runs.
        let sql = "SELECT position, payload, packed, kind, CASE \
                       WHEN ?4 IS NULL THEN at >= ?3 OR kind IN ('run_started', 'step_begun') \
                       ELSE kind = 'run_started' OR position > ?5 \
                            OR branch NOT IN (SELECT id FROM branches WHERE session = ?4) END \
                   FROM entries WHERE position > ?1 ORDER BY position LIMIT ?2";
        let mut statement = connection.prepare_cached(sql)?;
        let before = self.before.map_or(i64::MIN, |before| before.0);
        let until = self.of.map_or(i64::MAX, |of| of.position);
        let mut rows = statement.query((self.position, ROWS as i64, before, self.session(), until))?;
        let mut read = 0;
        while let Some(row) = rows.next()? {
            (read, self.position) = (read + 1, row.get(0)?);
            let payload = self.collectable.dictionaries.json_of(row, 1, 2)?.unwrap_or_default();
            if row.get(4)? {
                self.named.extend(hashes(&payload));
                continue;
            }
            self.old.extend(hashes(&payload));
            let kind = row.get_ref(3)?.as_str()?;
            if self.of.is_some() && ["files_changed", "call_started"].contains(&kind) {
                match Event::decode(kind, VERSION, &payload) {
                    Ok(Event::CallStarted(e)) => drop(self.calls.insert(e.effect)),
                    Ok(event) => self.files.extend(contents(&event)),
                    Err(_) => {}
                }
            }
        }
        Ok(read)
    }

    fn read_view(&mut self, connection: &Connection, view: usize, after: i64) -> rusqlite::Result<Stage> {
        let Some(sql) = VIEWS.get(view) else { return Ok(Stage::Snapshots { after: 0 }) };
        let (read, last) = self.read_rows(connection, sql, after)?;
        Ok(if read < ROWS { Stage::Views { view: view + 1, after: 0 } } else { Stage::Views { view, after: last } })
    }

    /// Reads the hashes in these rows; returns the number of rows, and the number of the last one.
    fn read_rows(&mut self, connection: &Connection, sql: &str, after: i64) -> rusqlite::Result<(usize, i64)> {
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query((after, ROWS as i64, self.session()))?;
        let (mut read, mut last) = (0, after);
        while let Some(row) = rows.next()? {
            (read, last) = (read + 1, row.get(5)?);
            let row = rows::whole(&self.collectable.dictionaries, row)?;
            self.name(row.as_bytes());
        }
        Ok((read, last))
    }

    /// Reads the hashes in snapshots: a snapshot still names what retention removed.
    fn read_snapshots(&mut self, connection: &Connection, after: i64, path: &Path) -> Result<Stage, Error> {
        let sql = "SELECT rowid, content FROM snapshots WHERE rowid > ?1 \
                   AND branch NOT IN (SELECT id FROM branches WHERE session = ?3) ORDER BY rowid LIMIT ?2";
        let columns = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?));
        let read = || {
            let mut statement = connection.prepare_cached(sql)?;
            statement
                .query_map((after, SNAPSHOTS as i64, self.session()), columns)?
                .collect::<rusqlite::Result<Vec<_>>>()
        };
        let snapshots = read().map_err(failed(path))?;
        for (_, content) in &snapshots {
            let unreadable = |error: std::io::Error| Error::Damaged {
                path: path.to_owned(),
                detail: format!("a snapshot cannot be unpacked, so nothing is collected: {error}"),
            };
            self.name(&zstd::decode_all(&content[..]).map_err(unreadable)?);
        }
        match snapshots.last() {
            Some((last, _)) if snapshots.len() == SNAPSHOTS => Ok(Stage::Snapshots { after: *last }),
            _ => Ok(Stage::Bodies { after: 0 }),
        }
    }

    fn name(&mut self, text: &[u8]) {
        self.named.extend(hashes(text));
    }

    fn collect_bodies(&mut self, connection: &Connection, after: i64, path: &Path) -> Result<Stage, Error> {
        let removals = self.collectable.removals.clone();
        let removals = removals.hold();
        if *removals != self.removals {
            // Entries were removed since it began: it may have missed what they and their snapshots named, so it starts
            // again.
            (self.removals, self.position) = (*removals, 0);
            return Ok(Stage::Entries);
        }
        let epoch = self.collectable.epoch;
        transaction(connection, epoch, path, || {
            if self.read_entries(connection)? == ROWS {
                return Ok(Stage::Bodies { after });
            }
            self.collect_some(connection, after)
        })
    }

    /// Looks for progress that is closed, then removes it.
    fn collect_progress(&mut self, connection: &Connection, path: &Path) -> Result<(), Error> {
        let sqlite = failed(path);
        match &mut self.progress {
            None => self.progress = Some(OpenProgress::list(connection).map_err(sqlite)?),
            Some(progress) => {
                if !progress.look(connection, &self.collectable.dictionaries).map_err(sqlite)? {
                    let drop = || drop_progress(connection, &progress.closed);
                    self.collected.progress = transaction(connection, self.collectable.epoch, path, drop)?;
                    self.stage = Stage::Done;
                }
            }
        }
        Ok(())
    }

    /// What is left of a deleted conversation: output of effects that no entry sealed, and older snapshots, which still name
    /// what was said. The snapshot that stands for removed entries stays: its branch has no other beginning.
    fn end_erasure(&mut self, connection: &Connection, path: &Path) -> Result<Stage, Error> {
        if let Some(Deleted { session, branch, until, .. }) = self.of {
            let progress = "DELETE FROM progress WHERE branch IN (SELECT id FROM branches WHERE session = ?1)";
            let drop = || {
                connection.execute(snapshot::REMOVE_UP_TO, (branch, until - 1))?;
                Ok(connection.execute(progress, [session])? as u64)
            };
            self.collected.progress = transaction(connection, self.collectable.epoch, path, drop)?;
        }
        Ok(Stage::Done)
    }

    /// Whether a body stays: something may name it, or it is to be erased and no old entry named it.
    fn keeps(&self, body: &Stored) -> bool {
        let first = first_bytes(&body.hash);
        self.named.contains(&first) || self.erases() && !self.old.contains(&first)
    }

    /// Bodies that may be collected if nothing names them.
    ///
    /// The last body always stays, unless all of a session is erased, so that its row number is not reused and row numbers
    /// show the age of a body.
    fn bodies(&self, connection: &Connection, after: i64) -> rusqlite::Result<Vec<Stored>> {
        let sql = "SELECT rowid, hash, length(content) FROM bodies WHERE rowid > ?1 AND rowid <= ?2 \
                   AND (?5 OR rowid < (SELECT max(rowid) FROM bodies)) AND (content IS NOT NULL OR ?4) \
                   ORDER BY rowid LIMIT ?3";
        let columns = |row: &Row<'_>| Ok(Stored { row: row.get(0)?, hash: row.get(1)?, bytes: row.get(2)? });
        let mut statement = connection.prepare_cached(sql)?;
        statement
            .query_map((after, self.collectable.youngest, ROWS as i64, !self.erases(), self.of.is_some()), columns)?
            .collect()
    }

    fn collect_some(&mut self, connection: &Connection, after: i64) -> rusqlite::Result<Stage> {
        let bodies = self.bodies(connection, after)?;
        let sql = if self.erases() {
            "UPDATE bodies SET content = NULL WHERE rowid = ?1"
        } else {
            "DELETE FROM bodies WHERE rowid = ?1"
        };
        for body in &bodies {
            if !self.keeps(body) {
                connection.prepare_cached(sql)?.execute([body.row])?;
                self.collected.add(body);
            }
        }
        match bodies.last() {
            Some(last) if bodies.len() == ROWS => Ok(Stage::Bodies { after: last.row }),
            _ => Ok(Stage::Progress),
        }
    }
}

/// The contents of files that an entry names.
fn contents(event: &Event) -> impl Iterator<Item = Hash> + use<> {
    let changed = if let Event::FilesChanged(e) = event { [e.before, e.after] } else { [None, None] };
    changed.into_iter().flatten().filter_map(|content| content.hash)
}

fn first_bytes(hash: &[u8; 32]) -> u64 {
    u64::from_be_bytes(hash[..8].try_into().expect("eight of 32 bytes"))
}

/// The first eight bytes of whatever looks like a hash.
fn hashes(text: &[u8]) -> impl Iterator<Item = u64> {
    let digits = text.split(|byte| !byte.is_ascii_hexdigit()).filter(|digits| digits.len() == DIGITS);
    digits.filter_map(|digits| u64::from_str_radix(std::str::from_utf8(&digits[..16]).ok()?, 16).ok())
}

/// A row of `bodies`.
struct Stored {
    row: i64,
    hash: [u8; 32],
    bytes: Option<i64>,
}

fn drop_progress(connection: &Connection, closed: &[(i64, String)]) -> rusqlite::Result<u64> {
    let mut dropped = 0;
    for (branch, effect) in closed {
        let sql = "DELETE FROM progress WHERE branch = ?1 AND effect = ?2";
        dropped += connection.prepare_cached(sql)?.execute((branch, effect))? as u64;
    }
    Ok(dropped)
}

/// Effects that have progress.
#[derive(Debug)]
struct OpenProgress {
    /// Those whose branch is not read to its end; of the last one up to `seq`.
    left: Vec<(i64, String, EffectId)>,
    seq: i64,
    /// Those that no entry will seal: they are sealed already, or their run has ended.
    closed: Vec<(i64, String)>,
}

impl OpenProgress {
    fn list(connection: &Connection) -> rusqlite::Result<Self> {
        let mut statement = connection.prepare_cached("SELECT DISTINCT branch, effect FROM progress")?;
        let effects = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))?;
        let mut left = vec![];
        for effect in effects {
            let (branch, effect) = effect?;
            // An unreadable effect is left for the doctor to report.
            left.extend(effect.parse().ok().map(|id| (branch, effect, id)));
        }
        Ok(Self { left, seq: 0, closed: vec![] })
    }

    /// Reads some entries that may close one of them; `false` once all is known.
    fn look(&mut self, connection: &Connection, dictionaries: &Dictionaries) -> rusqlite::Result<bool> {
        let Some((branch, effect, id)) = self.left.last() else { return Ok(false) };
        let sql = "SELECT kind, version, payload, packed, seq FROM entries WHERE branch = ?1 AND seq > ?2 AND kind IN \
                   ('run_ended', 'message_sealed', 'stream_cut', 'failed', 'call_settled') ORDER BY seq LIMIT ?3";
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query((branch, self.seq, ROWS as i64))?;
        let (mut read, mut is_closed) = (0, false);
        while let Some(row) = rows.next()?.filter(|_| !is_closed) {
            let payload = dictionaries.json_of(row, 2, 3)?.unwrap_or_default();
            (read, self.seq) = (read + 1, row.get(4)?);
            let event = Event::decode(row.get_ref(0)?.as_str()?, row.get(1)?, &payload);
            is_closed = event.is_ok_and(|event| closes(&event, *id));
        }
        if is_closed {
            self.closed.push((*branch, effect.clone()));
        }
        if is_closed || read < ROWS {
            self.left.pop();
            self.seq = 0;
        }
        Ok(true)
    }
}

fn closes(event: &Event, id: EffectId) -> bool {
    event.seals().is_some_and(|sealed| sealed.covers(id))
        || matches!(event, Event::RunEnded(ended) if ended.run == id.run)
}

/// Runs something in a transaction of this owner and rolls it back on failure.
pub(super) fn transaction<T>(
    connection: &Connection,
    epoch: Epoch,
    path: &Path,
    work: impl FnOnce() -> rusqlite::Result<T>,
) -> Result<T, Error> {
    let sqlite = failed(path);
    connection.execute_batch("BEGIN IMMEDIATE").map_err(&sqlite)?;
    let done = || {
        let owner = connection.query_row("SELECT epoch FROM owner", [], |row| row.get::<_, i64>(0)).map_err(&sqlite)?;
        let owner = Epoch(owner as u64);
        if owner != epoch {
            return Err(Error::Fenced { epoch, owner });
        }
        let done = work().map_err(&sqlite)?;
        connection.execute_batch("COMMIT").map_err(&sqlite)?;
        Ok(done)
    };
    done().inspect_err(|_| {
        if !connection.is_autocommit() {
            // A transaction that cannot be rolled back ends with its connection.
            let _ = connection.execute_batch("ROLLBACK");
        }
    })
}
