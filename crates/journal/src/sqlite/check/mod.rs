//! Looking at a home without owning it: every entry, chain, body and file of it, also where they are damaged.
//!
//! `walk` reads branches entry by entry and judges each, `replay` folds them, `session` looks at a line of them; `files`,
//! `pages`, `tables`, `sessions`, `ledger`, `views` and `rest` look at a whole home, and `finding` is what they say. Nothing
//! here stops at the first fault, panics on any bytes, or changes a file. What may not live here: mending.

mod files;
mod finding;
mod header;
mod ledger;
mod pages;
mod replay;
mod rest;
mod session;
mod sessions;
mod tables;
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

use super::home::DATABASE;
use super::reader::Sees;
use super::schema;
use crate::{Collected, Error};
use view::View;

/// How far a check has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is looked at.
    pub step: &'static str,
    /// How many of them are done.
    pub done: u64,
    /// How many there are; 0 where that is not known.
    pub of: u64,
}

/// Told now and then how far it is.
pub type Watch<'a> = &'a mut dyn FnMut(Progress);

/// What was found in a home.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// What is wrong, the most severe first.
    pub findings: Vec<Finding>,
    /// What is worth knowing and nothing is wrong with.
    pub notes: Vec<String>,
    /// How much was looked at.
    pub counts: Counts,
    /// What nothing needs, and `Sqlite::collect` would remove; nothing where anything is wrong.
    pub collectable: Collected,
}

/// How much was looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Sessions.
    pub sessions: u64,
    /// Entries.
    pub entries: u64,
    /// Bodies.
    pub bodies: u64,
    /// Snapshots.
    pub snapshots: u64,
    /// The last position.
    pub head: u64,
    /// What was acknowledged last, by `journal.mark`.
    pub mark: u64,
    /// `journal.db`.
    pub database_bytes: u64,
    /// `journal.db-wal`.
    pub wal_bytes: u64,
    /// Free on its file system.
    pub free_bytes: u64,
}

/// Looks at all of a home. An error says that there is nothing to look at, or that it may not be read.
pub fn check(home: &Path, watch: Watch<'_>) -> Result<CheckReport, Error> {
    Check::new(home).run(watch)
}

/// A check under way.
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
        // Before the journal: what is acknowledged while this looks must not seem lost.
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
                self.rest(&view, watch);
            }
        }
        self.report.findings.sort_by_key(|finding| finding.what);
        Ok(self.report)
    }

    /// The journal as everyone sees it. Where that is not what was acknowledged, but the file without its WAL is: the WAL
    /// belongs to another journal, and the file is looked at without it.
    fn choose_view(&mut self, mark: files::Mark) -> Result<Option<View>, Error> {
        let seen = View::open(&self.home, Sees::Wal);
        let wal_bytes = self.report.counts.wal_bytes;
        let is_sound = seen.as_ref().is_ok_and(|view| view.is_sound(mark));
        if wal_bytes == 0 || is_sound {
            return self.opened(seen);
        }
        let bare = View::open(&self.home, Sees::FileAlone);
        match bare {
            Ok(bare) if bare.is_sound(mark) => {
                self.find(Finding::stale_wal("the file without it holds all that was acknowledged"));
                Ok(Some(bare))
            }
            // It holds less than was acknowledged, but what it holds is whole, and is not in what the WAL makes of it.
            Ok(bare) if bare.is_whole() && seen.as_ref().is_ok_and(|seen| !seen.continues(&bare)) => {
                self.find(Finding::stale_wal("what the file holds without it is not in what it makes of the file"));
                Ok(Some(bare))
            }
            _ => self.opened(seen),
        }
    }

    fn opened(&mut self, view: Result<View, Error>) -> Result<Option<View>, Error> {
        match view {
            Ok(view) => Ok(Some(view)),
            // Its owner brings it over first.
            Err(error @ Error::Older { .. }) => Err(error),
            Err(error) => {
                self.find(Finding::closed(&error));
                Ok(None)
            }
        }
    }
}
