//! Migrates a journal from an older format: it first makes a copy, then runs every step in one transaction.
//!
//! A home has its old format or the new one, no matter when its process dies. The list of steps is a value, so that
//! tests can run migrations that no release has needed yet.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::{failed, home, schema};
use crate::Error;

/// Pages that are copied between two checks of whether the source has changed; nobody else writes to it.
const COPY_PAGES: i32 = 4096;

/// A step from one format to the next.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    /// The format that it starts from.
    pub(super) from: i64,
    /// Changes the tables to the next format.
    pub(super) run: fn(&Transaction<'_>) -> rusqlite::Result<()>,
}

/// A format, and the steps to it from older ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) version: i64,
    /// The steps, in order.
    pub(super) steps: &'static [Step],
}

/// The format of this program.
pub(super) const THIS: Target =
    Target { version: schema::USER_VERSION, steps: &[Step { from: 1, run: add_compression }] };

/// From 1 to 2: rows may be packed. Old rows stay as they are. Nothing reads `view_usage`, which repeats `view_runs`.
fn add_compression(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    for table in ["entries", "view_runs", "view_receipts"] {
        let sql = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1";
        // A missing table of the views is made below, with all columns.
        if transaction.prepare(sql)?.exists([table])? {
            transaction.execute_batch(&format!("ALTER TABLE {table} ADD COLUMN packed BLOB"))?;
        }
    }
    transaction.execute_batch("DROP TABLE IF EXISTS view_usage")?;
    schema::make_views(transaction)?;
    schema::make_dictionaries(transaction)
}

/// Migrates a journal, durably. The name of the copy says its format and the time.
pub(super) fn run(connection: &mut Connection, path: &Path, from: i64, target: &Target) -> Result<(), Error> {
    let steps = way(from, target).ok_or_else(|| Error::Damaged {
        path: path.to_owned(),
        detail: format!("it has format {from}, and there is no migration from it to {}", target.version),
    })?;
    let kept = kept_as(path, from);
    keep_copy(connection, &kept)?;
    let migrate = |connection: &mut Connection| {
        connection.pragma_update(None, "synchronous", "FULL")?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for step in steps {
            (step.run)(&transaction)?;
        }
        transaction.pragma_update(None, "user_version", target.version)?;
        transaction.commit()
    };
    migrate(connection).map_err(failed(path)).inspect_err(|_| {
        // Nothing has replaced the journal, and each further attempt would leave a copy.
        if schema::format(connection, path, target.version) == Ok(schema::Format::Older(from)) {
            let _ = std::fs::remove_file(&kept);
        }
    })
}

/// The steps from a format to the target; `None` if one is missing.
fn way(from: i64, target: &Target) -> Option<Vec<Step>> {
    (from..target.version).map(|version| target.steps.iter().find(|step| step.from == version).copied()).collect()
}

/// Copies the journal under another name, until the copy is complete and synced.
pub(super) fn keep_copy(connection: &Connection, kept: &Path) -> Result<String, Error> {
    let new = kept.with_file_name("journal.copy");
    home::renew(&new)?;
    let copied = copy(connection, &new).map_err(failed(&new)).and_then(|()| home::put(&new, kept));
    // A part of a copy is of no use, and a full disk needs its space.
    if let Err(error) = copied {
        let _ = std::fs::remove_file(&new);
        return Err(error);
    }
    Ok(kept.file_name().unwrap_or_default().to_string_lossy().into_owned())
}

/// Copies page by page, so that the copy is exactly the old journal.
fn copy(connection: &Connection, new: &Path) -> rusqlite::Result<()> {
    let mut kept = Connection::open(new)?;
    kept.pragma_update(None, "synchronous", "FULL")?;
    kept.pragma_update(None, "journal_mode", "MEMORY")?;
    Backup::new(connection, &mut kept)?.run_to_completion(COPY_PAGES, Duration::ZERO, None)?;
    kept.close().map_err(|(_, error)| error)
}

/// The name of the copy: `journal.db.v1-20261121T123456Z`.
fn kept_as(path: &Path, version: i64) -> PathBuf {
    let now = jiff::Timestamp::from_millisecond(super::now().0).unwrap_or_default();
    path.with_extension(format!("db.v{version}-{}", now.strftime("%Y%m%dT%H%M%SZ")))
}
