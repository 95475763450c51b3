//! The writer's statements: each is prepared on first use and then kept.
//!
//! `rusqlite`'s own cache looks up a statement by its text and copies the text at each use: a seventh of the writer's
//! work.

use std::cell::RefCell;

use rusqlite::{Connection, Params, PrepFlags, Statement};

/// The statements of one connection. There are about 30, so that a linear search is cheaper than hashing.
pub(super) struct Statements<'c> {
    connection: &'c Connection,
    /// The prepared statements; `None` where the connection's own cache keeps them.
    kept: Option<RefCell<Vec<(&'static str, Statement<'c>)>>>,
}

impl<'c> Statements<'c> {
    /// Keeps statements as long as this value lives.
    pub(super) fn keep(connection: &'c Connection) -> Self {
        Self { connection, kept: Some(RefCell::default()) }
    }

    /// Borrows statements from the connection's cache for a short use.
    pub(super) fn lend(connection: &'c Connection) -> Self {
        Self { connection, kept: None }
    }

    /// The connection, for rare statements.
    pub(super) fn connection(&self) -> &'c Connection {
        self.connection
    }

    /// Runs a statement that returns no rows; returns how many rows it changed.
    pub(super) fn execute(&self, sql: &'static str, parameters: impl Params) -> rusqlite::Result<usize> {
        self.with(sql, |statement| statement.execute(parameters))
    }

    /// Runs `use_` with a prepared statement; it must not use another one meanwhile. The same text from two places may
    /// be kept twice.
    pub(super) fn with<T>(
        &self,
        sql: &'static str,
        with: impl FnOnce(&mut Statement<'c>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let Some(kept) = &self.kept else { return with(&mut *self.connection.prepare_cached(sql)?) };
        let mut kept = kept.borrow_mut();
        let at = kept.iter().position(|(known, _)| std::ptr::eq(*known, sql)).unwrap_or(kept.len());
        if at == kept.len() {
            kept.push((sql, self.connection.prepare_with_flags(sql, PrepFlags::SQLITE_PREPARE_PERSISTENT)?));
        }
        with(&mut kept[at].1)
    }
}
