//! When what is in the WAL goes into the database: when nobody waits, and at a bound under load. What may not live here:
//! transactions.
//!
//! A WAL that only grows makes every sync dearer, and one that is brought over rarely gives a worse p99. SQLite's own
//! automatic checkpoint would do it inside a commit, before its callers are told, and would hide its errors.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rusqlite::Connection;

/// Pages in the WAL at which it is brought over even though work may wait.
const MOST_PAGES: u32 = 1000;
/// Pages by which it must have grown since the last try: someone who reads may keep it from beginning anew.
const MORE_PAGES: u32 = 250;
/// Fewer are not worth two syncs.
const FEW_PAGES: u32 = 8;

/// How far a checkpoint goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CheckpointMode {
    /// As far as nobody is hindered.
    Passive,
    /// All of it, and the file is emptied, if nobody reads just now.
    Empty,
}

/// What is in the WAL.
#[derive(Debug)]
pub(super) struct Wal {
    /// Told by SQLite after each commit.
    pages: Arc<AtomicU32>,
    /// Pages at the last checkpoint, or since it began anew.
    last: u32,
}

impl Wal {
    /// Takes the place of SQLite's automatic checkpoint.
    pub(super) fn watch(connection: &mut Connection) -> rusqlite::Result<Self> {
        let pages = Arc::new(AtomicU32::new(0));
        let told = Arc::clone(&pages);
        connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, count: i32| {
            told.store(count.unsigned_abs(), Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(Self { pages, last: 0 })
    }

    /// Whether it has grown so far that no quiet moment is waited for.
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

    /// Brings it over. Whoever reads is never waited for.
    pub(super) fn checkpoint(&mut self, connection: &Connection, reach: CheckpointMode) -> rusqlite::Result<()> {
        self.last = self.pages.load(Ordering::Relaxed);
        let run = |sql: &str| connection.prepare_cached(sql)?.query_row([], |_| Ok(()));
        match reach {
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
