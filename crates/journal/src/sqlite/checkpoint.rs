//! When the WAL is checkpointed into the database: when nobody waits, and at a limit under load.
//!
//! A WAL that only grows makes every sync more expensive, and rare checkpoints give a worse p99. SQLite's automatic
//! checkpoint would run inside a commit, before its callers are notified, and would hide its errors.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rusqlite::Connection;

/// Pages in the WAL at which it is checkpointed even if work may wait.
const MOST_PAGES: u32 = 1000;
/// Pages by which the WAL must have grown since the last attempt: a reader may keep it from being reused.
const MORE_PAGES: u32 = 250;
/// A checkpoint of fewer pages is not worth two syncs.
const FEW_PAGES: u32 = 8;

/// Attempts to empty the WAL, and the time between two: readers hold it for milliseconds.
const ATTEMPTS: u32 = 50;
const BETWEEN: Duration = Duration::from_millis(10);

/// Brings all of the WAL into the database and empties it: until then it holds what was overwritten, and the database does too.
/// If somebody reads for longer than half a second, later checkpoints do it.
pub(super) fn empty(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(Duration::ZERO)?;
    for _ in 0..ATTEMPTS {
        let is_busy: bool = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        if !is_busy {
            break;
        }
        std::thread::sleep(BETWEEN);
    }
    connection.busy_timeout(super::schema::BUSY)
}

/// How much a checkpoint does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CheckpointMode {
    /// As much as possible without blocking anybody.
    Passive,
    /// All of it, and the file is emptied, if nobody reads at the moment.
    Empty,
}

/// The state of the WAL.
#[derive(Debug)]
pub(super) struct Wal {
    /// Pages in the WAL; SQLite sets it after each commit.
    pages: Arc<AtomicU32>,
    /// Pages at the last checkpoint, or since the WAL was last reused.
    last: u32,
}

impl Wal {
    /// Replaces SQLite's automatic checkpoint.
    pub(super) fn watch(connection: &mut Connection) -> rusqlite::Result<Self> {
        let pages = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&pages);
        connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, count: i32| {
            counter.store(count.unsigned_abs(), Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(Self { pages, last: 0 })
    }

    /// Whether the WAL is so long that the checkpoint does not wait for a quiet moment.
    pub(super) fn is_long(&mut self) -> bool {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < self.last {
            self.last = 0;
        }
        pages >= MOST_PAGES && pages >= self.last + MORE_PAGES
    }

    /// Whether a quiet moment is worth a checkpoint.
    pub(super) fn is_worth(&self) -> bool {
        self.pages.load(Ordering::Relaxed) > FEW_PAGES
    }

    /// Runs a checkpoint; never waits for readers.
    pub(super) fn checkpoint(&mut self, connection: &Connection, mode: CheckpointMode) -> rusqlite::Result<()> {
        self.last = self.pages.load(Ordering::Relaxed);
        let run = |sql: &str| connection.prepare_cached(sql)?.query_row([], |_| Ok(()));
        match mode {
            CheckpointMode::Passive => run("PRAGMA wal_checkpoint(PASSIVE)"),
            CheckpointMode::Empty => {
                connection.busy_timeout(Duration::ZERO)?;
                let emptied = run("PRAGMA wal_checkpoint(TRUNCATE)");
                connection.busy_timeout(super::schema::BUSY)?;
                emptied
            }
        }
    }
}
