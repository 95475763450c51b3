//! A faulty disk under the real SQLite, for tests: errors at the n-th operation, crashes, and what a loss of power leaves.
//!
//! It is a VFS of SQLite around the system's own, registered as the default of the process, so that the code under test is
//! the product's and nothing is replaced in it. It acts only below folders for which a [`Disk`] is installed; all other
//! files are the system's own, untouched. Here live `fault` (what goes wrong, and when), `image` (what of a file is on the
//! disk for certain and what is still under way), `cut` (what a loss of power makes of it), `disk` (the handle of a test),
//! `vfs` (the table of C functions) and `short_read` (the one call of the system that is taken). What may not live here: anything about journals.
//!
//! What it does not see by itself: files that are written without SQLite. Whoever writes them asks before each step
//! ([`past_sqlite`]), which may go wrong like any other; and those that matter are watched ([`Disk::watch`]): every content
//! that they had is a content that they may have after a loss of power.
//!
//! Appending one at a time and waiting for each answer, the same program makes the same operations, and a fault at the
//! n-th of them, or a cut with the same seed, is the same every time:
//!
//! ```
//! use faulty_vfs::{Cut, Disk, Fault, OperationKind, Past, What};
//! use rusqlite::Connection;
//!
//! let (home, after) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
//! let disk = Disk::install(home.path()).unwrap();
//! let connection = Connection::open(home.path().join("a.db")).unwrap();
//! connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE t(a)").unwrap();
//!
//! // The third sync from now on fails, and all later ones.
//! disk.plan(Fault::at(3, What::Eio).on(OperationKind::Sync).for_ever());
//! let kept = (0..).take_while(|n: &u32| connection.execute("INSERT INTO t VALUES (?1)", [n]).is_ok()).count();
//! assert_eq!((kept, disk.struck().map(|operation| operation.kind)), (2, Some(OperationKind::Sync)));
//!
//! // The power goes; what was synced is in the new folder, and of the rest a random part.
//! drop(connection);
//! disk.power_cut(Cut::Torn { seed: 1 }, after.path()).unwrap();
//! let connection = Connection::open(after.path().join("a.db")).unwrap();
//! let rows: u32 = connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
//! assert!(rows as usize >= kept);
//! ```

mod cut;
mod disk;
mod fault;
mod image;
mod short_read;
mod vfs;

pub use cut::Cut;
pub use disk::{Disk, past_sqlite};
pub use fault::{Fault, FileKind, Lasting, Operation, OperationKind, Past, What};
