//! Checks a home without owning it: every entry, chain, body and file, even where they are corrupt.
//!
//! `walk` reads branches entry by entry and checks each, `replay` folds them, `session` checks a line of them; `files`,
//! `pages`, `tables`, `sessions`, `ledger`, `views` and `unused` check a whole home, and `finding` holds the results.
//! Nothing here stops at the first fault, panics on any bytes, or changes a file; repairs are in `repair`.

mod files;
mod finding;
mod header;
mod ledger;
mod pages;
mod replay;
mod session;
mod sessions;
mod tables;
mod unused;
mod view;
mod views;
mod walk;

use std::path::{Path, PathBuf};

pub(super) use pages::rfc3339;
pub(super) use tables::{Wanted, strange_views, wanted};

pub use finding::{Consequence, Finding, Repair, UnknownRepair, What, Where};
pub use ledger::VerifiedLedger;
pub use replay::Replay;
pub use session::{EntryAnchor, Fault, Verified};
pub use walk::{Audited, BranchSpan, Checkpoint, Defect, EntryContent};

use rusqlite::{Connection, OpenFlags};

use super::home::DATABASE;
use super::reader::Sees;
use super::{failed, schema};
use crate::{Collected, Error};
use view::View;

/// The progress of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The name of the current step.
    pub step: &'static str,
    /// How many items of the step are done.
    pub done: u64,
    /// How many items the step has; 0 if that is not known.
    pub of: u64,
}

/// Called from time to time with the progress.
pub type Watch<'a> = &'a mut dyn FnMut(Progress);

/// The result of checking a home.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// The defects, the most severe first.
    pub findings: Vec<Finding>,
    /// Facts worth knowing that are no defects.
    pub notes: Vec<String>,
    /// How much was checked.
    pub counts: Counts,
    /// Unused data that `Sqlite::collect` would remove; empty if there is any finding.
    pub collectable: Collected,
}

/// How much was checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Counts {
    pub sessions: u64,
    pub entries: u64,
    pub bodies: u64,
    pub snapshots: u64,
    pub head: u64,
    /// The last acknowledged position, from `journal.mark`; 0 if not known.
    pub mark: u64,
    /// The size of `journal.db` in bytes.
    pub database_bytes: u64,
    /// The size of `journal.db-wal` in bytes.
    pub wal_bytes: u64,
    /// Free bytes on the file system of the home.
    pub free_bytes: u64,
}

/// Checks a whole home. An error means that there is nothing to check, or that it may not be read.
pub fn check(home: &Path, watch: Watch<'_>) -> Result<CheckReport, Error> {
    Check::new(home).run(watch)
}

/// A check in progress.
struct Check {
    home: PathBuf,
    report: CheckReport,
}

impl Check {
    fn new(home: &Path) -> Self {
        Self { home: home.to_owned(), report: CheckReport::default() }
    }

    fn database(&self) -> PathBuf {
        self.home.join(DATABASE)
    }

    fn find(&mut self, finding: Finding) {
        self.report.findings.push(finding);
    }

    fn note(&mut self, note: impl Into<String>) {
        self.report.notes.push(note.into());
    }

    fn run(mut self, watch: Watch<'_>) -> Result<CheckReport, Error> {
        watch(Progress { step: "files", done: 0, of: 0 });
        // The mark is read before the journal: entries acknowledged during the check must not seem lost.
        let mark = self.files()?;
        let is_journal = !schema::is_missing(&self.database()) && self.header();
        if is_journal {
            let view = self.choose_view(mark)?;
            if let Some(view) = view {
                self.pages(&view, watch);
                self.ends(&view, mark);
                self.tables(&view);
                self.rows(&view);
                self.sessions(&view, watch);
                self.ledger(&view);
                self.views(&view, watch);
                self.unused(&view, watch);
            }
        }
        self.report.findings.sort_by_key(|finding| finding.what);
        Ok(self.report)
    }

    /// Chooses how to read the journal: as every reader sees it, or, if that lacks acknowledged entries and the file
    /// without its WAL has them, without the WAL, which then belongs to another journal.
    fn choose_view(&mut self, mark: files::Mark) -> Result<Option<View>, Error> {
        let seen = View::open(&self.home, Sees::Wal);
        let wal_bytes = self.report.counts.wal_bytes;
        let is_sound = seen.as_ref().is_ok_and(|view| view.is_sound(mark));
        if wal_bytes == 0 || is_sound {
            return self.opened(seen, mark);
        }
        let bare = View::open(&self.home, Sees::FileAlone);
        match bare {
            Ok(bare) if bare.is_sound(mark) => {
                self.find(Finding::stale_wal("the file without it holds everything that was acknowledged"));
                Ok(Some(bare))
            }
            // It holds less than was acknowledged, but it is intact, and the WAL's version of it does not contain its
            // last entry.
            Ok(bare) if bare.is_intact() && seen.as_ref().is_ok_and(|seen| !seen.continues(&bare)) => {
                self.find(Finding::stale_wal("with it, the journal lacks entries that the file alone holds"));
                Ok(Some(bare))
            }
            _ => self.opened(seen, mark),
        }
    }

    fn opened(&mut self, view: Result<View, Error>, mark: files::Mark) -> Result<Option<View>, Error> {
        match view {
            Ok(view) => Ok(Some(view)),
            Err(error @ Error::Older { version, .. }) => match self.unmigratable(mark) {
                Some(cause) => {
                    let advice = "repair it with the limulus that wrote it, or put a backup back: only an intact journal is migrated";
                    let detail = format!("{}; it has format {version}: {advice}", cause.cause());
                    let closed = Finding::closed(&cause);
                    let what = if matches!(cause, Error::Regression { .. }) { What::Lost } else { closed.what };
                    self.find(Finding { what, detail, repair: None, ..closed });
                    Ok(None)
                }
                // An owner must migrate it first.
                None => Err(error),
            },
            Err(error) => {
                self.find(Finding::closed(&error));
                Ok(None)
            }
        }
    }

    /// Why no owner would migrate the journal of an older format.
    fn unmigratable(&self, mark: files::Mark) -> Option<Error> {
        let path = self.database();
        let look = || {
            let connection =
                Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(failed(&path))?;
            let sql = "PRAGMA quick_check(1)";
            let answer: String = connection.query_row(sql, [], |row| row.get(0)).map_err(failed(&path))?;
            if answer != "ok" {
                return Err(Error::Damaged { path: path.clone(), detail: answer });
            }
            schema::check_head(&connection, &path, mark).map(|_| ())
        };
        look().err()
    }
}
