//! From an older format to this one: first a copy, then every step in one transaction. What may not live here: the tables
//! of this format.
//!
//! A home is in its old format or in the new one, at whatever moment its process dies. The list of steps is a value, so
//! that tests can walk ways that no release has needed yet.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::{failed, home, schema};
use crate::Error;

/// Pages of the copy between two looks at whether the source has changed; nobody else writes to it.
const COPY_PAGES: i32 = 4096;

/// From one format to the next.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    /// The format that it begins with.
    pub(super) from: i64,
    /// What makes it one higher.
    pub(super) run: fn(&Transaction<'_>) -> rusqlite::Result<()>,
}

/// A format, and the way to it from older ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) version: i64,
    /// In order.
    pub(super) steps: &'static [Step],
}

/// The format of this program. It is the first one, so there is no way to it.
pub(super) const THIS: Target = Target { version: schema::USER_VERSION, steps: &[] };

/// Brings a journal over, durably. Where the copy is kept its name says of which format it is, and from when.
pub(super) fn run(connection: &mut Connection, path: &Path, from: i64, target: &Target) -> Result<(), Error> {
    let steps = way(from, target).ok_or_else(|| Error::Damaged {
        path: path.to_owned(),
        detail: format!("it has format {from}, from which no way leads to {}", target.version),
    })?;
    keep_copy(connection, &kept_as(path, from))?;
    let migrate = |connection: &mut Connection| {
        connection.pragma_update(None, "synchronous", "FULL")?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for step in steps {
            (step.run)(&transaction)?;
        }
        transaction.pragma_update(None, "user_version", target.version)?;
        transaction.commit()
    };
    migrate(connection).map_err(failed(path))
}

/// The steps from a format to the target, if they are known without a gap.
fn way(from: i64, target: &Target) -> Option<Vec<Step>> {
    (from..target.version).map(|version| target.steps.iter().find(|step| step.from == version).copied()).collect()
}

/// Under another name until it is whole and synced.
pub(super) fn keep_copy(connection: &Connection, kept: &Path) -> Result<String, Error> {
    let new = kept.with_file_name("journal.copy");
    home::renew(&new)?;
    copy(connection, &new).map_err(failed(&new))?;
    home::put(&new, kept)?;
    Ok(kept.file_name().unwrap_or_default().to_string_lossy().into_owned())
}

/// Page by page, so that it is what the journal was.
fn copy(connection: &Connection, new: &Path) -> rusqlite::Result<()> {
    let mut kept = Connection::open(new)?;
    kept.pragma_update(None, "synchronous", "FULL")?;
    kept.pragma_update(None, "journal_mode", "MEMORY")?;
    Backup::new(connection, &mut kept)?.run_to_completion(COPY_PAGES, Duration::ZERO, None)?;
    kept.close().map_err(|(_, error)| error)
}

/// `journal.db.v1-20261121T123456Z`.
fn kept_as(path: &Path, version: i64) -> PathBuf {
    let now = jiff::Timestamp::from_millisecond(super::now().0).unwrap_or_default();
    path.with_extension(format!("db.v{version}-{}", now.strftime("%Y%m%dT%H%M%SZ")))
}
