//! A journal as one connection sees it: with its WAL, or without.

use std::path::Path;

use engine::{Hash, Position};

use super::files::Mark;
use crate::Error;
use crate::sqlite::reader::{Reader, Sees};
use crate::sqlite::{schema, stored};

/// A journal that is being checked.
#[derive(Debug)]
pub(super) struct View {
    pub(super) reader: Reader,
    /// Whether SQLite finds no malformed page.
    is_intact: bool,
    /// The last entry; `None` when it cannot be read.
    head: Option<(Position, Hash)>,
}

impl View {
    pub(super) fn open(home: &Path, sees: Sees) -> Result<Self, Error> {
        let reader = Reader::lenient(home, sees)?;
        let quick = |connection: &rusqlite::Connection| {
            connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))
        };
        let is_intact = reader.query(quick).is_ok_and(|answer| answer == "ok");
        let head = reader.query(schema::last);
        let head = head.ok().map(|head| head.unwrap_or((Position(0), Hash([0; 32]))));
        Ok(Self { reader, is_intact, head })
    }

    pub(super) fn is_intact(&self) -> bool {
        self.is_intact
    }

    pub(super) fn head(&self) -> Option<(Position, Hash)> {
        self.head
    }

    /// Whether it is intact and holds what was acknowledged.
    pub(super) fn is_sound(&self, mark: Mark) -> bool {
        self.is_intact && self.head.is_some() && mark.is_none_or(|mark| self.holds(mark))
    }

    /// Whether it has this entry.
    pub(super) fn holds(&self, (position, chain): (Position, Hash)) -> bool {
        let at = [position.0 as i64];
        let kept = self.reader.query(|connection| stored::place(connection, "WHERE position = ?1", at));
        kept.is_ok_and(|kept| kept == Some((position, chain)))
    }

    /// Whether it contains the last entry of `other`.
    pub(super) fn continues(&self, other: &Self) -> bool {
        other.head.is_none_or(|head| head.0.0 == 0 || self.holds(head))
    }
}
