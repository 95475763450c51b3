//! Repairs a home that nobody owns. Each repair first keeps a copy of what it changes, and returns a description of
//! what it did; `check` finds the defects.

mod copies;
mod export;

use std::path::Path;

use engine::{Position, Timestamp};
use rusqlite::{Connection, OptionalExtension as _};

use super::check::{self, Wanted, rfc3339};
use super::home::{Owned, Quarantined, copy_name};
use super::reader::{Reader, Sees};
use super::{failed, migrations, schema};
use crate::Error;
use crate::check::{Checkpoint, Watch};

/// What a repair did, one line each.
pub type Did = Vec<String>;

/// A home that this process holds in order to repair it.
#[derive(Debug)]
pub struct Repairs {
    home: Owned,
    /// The old mark, if it was invalid and was quarantined.
    quarantined: Option<Quarantined>,
}

impl Repairs {
    /// Takes the lock; if another process owns the home, this is [`Error::Owned`].
    pub fn take(home: &Path) -> Result<Self, Error> {
        let (home, quarantined) = Owned::take_to_repair(home)?;
        Ok(Self { home, quarantined })
    }

    /// Quarantines a WAL that belongs to another journal.
    pub fn wal(&self) -> Result<Did, Error> {
        let kept = copies::rename(&self.home.database().with_extension("db-wal"), "stale")?;
        copies::drop_index(&self.home)?;
        Ok(vec![format!("journal.db-wal is kept as {kept}"), "the journal continues from journal.db alone".to_owned()])
    }

    /// Accepts that the journal ends where it ends: sets the mark to its last entry.
    pub fn loss(&self) -> Result<Did, Error> {
        let mut did = vec![];
        let old = self.home.mark()?;
        match &self.quarantined {
            Some(Quarantined { name }) => did.push(format!("the old mark is kept as {name}")),
            None => did.push(format!("the old mark is kept as {}", copies::copy_mark(&self.home)?)),
        }
        let database = self.home.database();
        let (connection, _) = schema::open(&database, schema::USER_VERSION)?;
        let (head, chain) = schema::check_head(&connection, &database, None)?;
        self.home.set_mark(head, chain)?;
        let at = connection
            .query_row("SELECT at FROM entries WHERE position = ?1", [head.0 as i64], |row| row.get(0).map(Timestamp))
            .optional()
            .map_err(failed(&database))?;
        let when = at.map(|at| format!(", decided {}", rfc3339(at))).unwrap_or_default();
        did.push(format!("the mark now says position {head}, the last entry that exists{when}"));
        if let Some((old, _)) = old.filter(|(old, _)| *old > head) {
            did.push(format!("lost for good: positions {} to {old}, acknowledged after that", Position(head.0 + 1)));
        }
        Ok(did)
    }

    /// Copies what can be read into a new file; the old one is kept.
    pub fn export(&self, watch: Watch<'_>) -> Result<Did, Error> {
        let (source, _) = [Sees::Wal, Sees::FileAlone]
            .into_iter()
            .find_map(|sees| Reader::lenient(self.home.path(), sees).ok().map(|reader| (reader, sees)))
            .ok_or_else(|| Error::Damaged {
                path: self.home.database(),
                detail: "not even its tables can be listed, so nothing can be copied out of it".to_owned(),
            })?;
        let database = self.home.database();
        let new = database.with_extension("rescued");
        let mut did = export::copy(&source, &new, self.home.mark()?.map(|(mark, _)| mark), watch)?;
        drop(source);
        let mut kept = vec![copies::link(&database, "damaged")?];
        let wal = database.with_extension("db-wal");
        if !schema::is_missing(&wal) {
            kept.push(copies::rename(&wal, "damaged")?);
        }
        copies::drop_index(&self.home)?;
        super::home::put(&new, &database)?;
        did.push(format!("the old file is kept as {}", kept.join(" and ")));
        let (connection, _) = schema::open(&database, schema::USER_VERSION)?;
        let mark = self.home.mark()?;
        if schema::check_head(&connection, &database, mark).is_err() {
            drop(connection);
            did.extend(self.loss()?);
        }
        Ok(did)
    }

    /// Drops snapshots: their states are folded from the entries again.
    pub fn snapshots(&self, bad: &[Checkpoint]) -> Result<Did, Error> {
        let mut did = vec![self.keep_copy()?];
        let database = self.home.database();
        let connection = self.open()?;
        for Checkpoint { branch, seq } in bad {
            let sql = "DELETE FROM snapshots WHERE seq = ?2 AND branch = (SELECT id FROM branches WHERE uuid = ?1)";
            let number = connection.execute(sql, (branch.0.as_bytes(), seq.0 as i64)).map_err(failed(&database))?;
            did.push(format!("{number} snapshot at {branch}@{seq} is dropped"));
        }
        Ok(did)
    }

    /// Quarantines a session that cannot be folded: its key is free, and no list shows it. Its branches stay, and
    /// nothing that they name is collected.
    pub fn quarantine(&self, key: &str) -> Result<Did, Error> {
        let (database, connection) = (self.home.database(), self.open()?);
        let sqlite = failed(&database);
        let transaction = connection.unchecked_transaction().map_err(&sqlite)?;
        let mine = "(SELECT uuid FROM sessions WHERE key = ?1 UNION SELECT session FROM view_sessions WHERE key = ?1)";
        for rows in [
            "view_runs WHERE (session IN",
            "view_receipts WHERE (session IN",
            "view_approvals WHERE (session IN",
            "view_sessions WHERE (session IN",
            "sessions WHERE (uuid IN",
        ] {
            transaction.execute(&format!("DELETE FROM {rows} {mine})"), [key]).map_err(&sqlite)?;
        }
        transaction.commit().map_err(&sqlite)?;
        Ok(vec![format!("{key} is quarantined: its key is free, and the next message to it begins a new session")])
    }

    /// Creates missing tables of the views, and makes the rows of the sessions match their entries. The owner of the
    /// home rebuilds the rows of the views.
    pub fn tables(&self) -> Result<Did, Error> {
        let reader = Reader::lenient(self.home.path(), Sees::Wal)?;
        let (strange, wanted) = (check::strange_views(&reader)?, check::wanted(&reader)?);
        drop(reader);
        let (database, connection) = (self.home.database(), self.open()?);
        let sqlite = failed(&database);
        let transaction = connection.unchecked_transaction().map_err(&sqlite)?;
        for table in strange {
            transaction.execute(&format!("DROP TABLE {table}"), []).map_err(&sqlite)?;
        }
        schema::make_views(&transaction).map_err(&sqlite)?;
        let mut did = vec![];
        for Wanted { uuid, key, branch, .. } in wanted.into_iter().filter(|wanted| !wanted.is_taken) {
            let sql = "INSERT INTO sessions(uuid, key, branch) SELECT ?1, ?2, id FROM branches WHERE uuid = ?3 \
                       ON CONFLICT(uuid) DO UPDATE SET key = excluded.key, branch = excluded.branch";
            transaction.execute(sql, (uuid, &key, branch.0.as_bytes())).map_err(&sqlite)?;
            did.push(format!("{key} is in the table of sessions again, in branch {branch}"));
        }
        transaction.commit().map_err(&sqlite)?;
        Ok(did)
    }

    /// Writes the dictionaries of this program again.
    pub fn dictionaries(&self) -> Result<Did, Error> {
        let (database, connection) = (self.home.database(), self.open()?);
        let sqlite = failed(&database);
        connection.pragma_update(None, "synchronous", "FULL").map_err(&sqlite)?;
        let transaction = connection.unchecked_transaction().map_err(&sqlite)?;
        schema::make_dictionaries(&transaction).map_err(&sqlite)?;
        transaction.commit().map_err(&sqlite)?;
        Ok(vec!["the dictionaries of this limulus are in the journal again".to_owned()])
    }

    /// Keeps a copy of the whole journal, including its WAL; returns a line that names it.
    pub fn keep_copy(&self) -> Result<String, Error> {
        let kept = migrations::keep_copy(&self.open()?, &copy_name(&self.home.database(), "before"))?;
        Ok(format!("journal.db as it was is kept as {kept}"))
    }

    fn open(&self) -> Result<Connection, Error> {
        let database = self.home.database();
        let (connection, _) = schema::open(&database, schema::USER_VERSION)?;
        schema::check_head(&connection, &database, self.home.mark()?)?;
        schema::trust_wal(&connection).map_err(failed(&database))?;
        Ok(connection)
    }
}
