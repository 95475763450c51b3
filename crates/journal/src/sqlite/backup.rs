//! A copy of a journal at one moment, beside its owner: made by SQLite's own backup, inside one read transaction, so that the
//! owner appends meanwhile and nothing is copied twice.

use std::fs;
use std::path::Path;

use engine::Position;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::check::{Progress, Watch};
use super::home::{self, DATABASE, MARK};
use super::schema::{self, Format};
use super::{failed, files};
use crate::Error;

/// Pages that are copied between two looks at the progress: some milliseconds.
const PAGES: i32 = 1_000;

/// A copy of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalCopy {
    /// Its last position: everything that was acknowledged before the copy began is at it or before it.
    pub head: Position,
    /// The size of the copied database in bytes.
    pub bytes: u64,
}

/// Copies the journal of a home and its mark into an existing empty folder, and syncs both. Another process may own the home.
/// None if the home has no journal, or if `is_stopped` became true.
pub fn copy_journal(
    home: &Path,
    into: &Path,
    watch: Watch<'_>,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Option<JournalCopy>, Error> {
    let path = home.join(DATABASE);
    if schema::is_missing(&path) {
        return Ok(None);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut source = Connection::open_with_flags(&path, flags).map_err(failed(&path))?;
    source.busy_timeout(schema::BUSY).map_err(failed(&path))?;
    match schema::format(&source, &path, schema::USER_VERSION)? {
        Format::Known => {}
        Format::Empty => return Ok(None),
        Format::Older(version) => return Err(Error::Older { path, version, known: schema::USER_VERSION }),
    }
    // It begins with its first read.
    let moment = source.transaction_with_behavior(TransactionBehavior::Deferred).map_err(failed(&path))?;
    schema::last(&moment).map_err(failed(&path))?;
    let target = into.join(DATABASE);
    home::renew(&target)?;
    let mut copy = Connection::open(&target).map_err(failed(&target))?;
    if !write_pages(&moment, &mut copy, watch, is_stopped).map_err(failed(&target))? {
        return Ok(None);
    }
    drop(moment);
    let (head, chain) = schema::check_head(&copy, &target, None)?;
    copy.close().map_err(|(_, error)| failed(&target)(error))?;
    home::renew(&into.join(MARK))?;
    home::sync_mark(into, head, chain)?;
    files::sync(&target).and_then(|()| files::sync(into)).map_err(home::unwritable(&target))?;
    let bytes = fs::metadata(&target).map_err(home::unwritable(&target))?.len();
    Ok(Some(JournalCopy { head, bytes }))
}

/// Returns false if it was stopped.
fn write_pages(
    from: &Connection,
    to: &mut Connection,
    watch: Watch<'_>,
    is_stopped: &dyn Fn() -> bool,
) -> rusqlite::Result<bool> {
    let backup = Backup::new(from, to)?;
    while !is_stopped() {
        let step = backup.step(PAGES)?;
        let progress = backup.progress();
        let pages = |number: i32| u64::try_from(number).unwrap_or_default();
        let of = pages(progress.pagecount);
        watch(Progress { step: "pages", done: of.saturating_sub(pages(progress.remaining)), of });
        match step {
            StepResult::Done => return Ok(true),
            // Only the copy itself can be busy, and it has no other user.
            StepResult::Busy | StepResult::Locked => std::thread::yield_now(),
            _ => {}
        }
    }
    Ok(false)
}
