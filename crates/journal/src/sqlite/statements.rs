//! The writer's statements: each is prepared when it is first needed and kept. What may not live here: their text.
//!
//! `rusqlite`'s own cache looks a statement up by its text and copies the text at each use: a seventh of the writer's work.

use std::cell::RefCell;

use rusqlite::{Connection, Params, PrepFlags, Statement};

/// The statements of one connection. There are about 30, so that walking them is cheaper than hashing.
pub(super) struct Statements<'c> {
    connection: &'c Connection,
    /// None where they are kept by the connection's own cache.
    kept: Option<RefCell<Vec<(&'static str, Statement<'c>)>>>,
}

impl<'c> Statements<'c> {
    /// For as long as there is work.
    pub(super) fn keep(connection: &'c Connection) -> Self {
        Self { connection, kept: Some(RefCell::default()) }
    }

    /// For a moment: the connection keeps them.
    pub(super) fn lend(connection: &'c Connection) -> Self {
        Self { connection, kept: None }
    }

    /// The connection, for what is rare.
    pub(super) fn connection(&self) -> &'c Connection {
        self.connection
    }

    /// Runs a statement that gives no rows; says how many rows it changed.
    pub(super) fn execute(&self, sql: &'static str, parameters: impl Params) -> rusqlite::Result<usize> {
        self.with(sql, |statement| statement.execute(parameters))
    }

    /// Uses a statement, which may use no other meanwhile. The same text from two places may be kept twice.
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
