//! A faulty disk under the real SQLite, for tests: errors at the n-th operation, crashes, and losses of power.
//!
//! It is a VFS of SQLite around the system's own, registered as the default of the process, so that the code under test
//! is unchanged product code. It acts only below folders for which a [`Disk`] is installed; other files go straight to
//! the system. `fault` says what fails and when, `image` which content of a file is durable, and `power_loss` which
//! content survives; `disk` is the handle of a test, `vfs` the table of C functions, and `short_read` replaces one
//! system call.
//! Nothing here knows about journals.
//!
//! It does not see files that are written without SQLite. The code that writes them calls [`past_sqlite`] before each
//! operation, which may fail like any other. A test can also watch such files ([`Disk::watch`]): a loss of power may
//! leave any content that they ever had.
//!
//! A program that appends one record at a time and waits for each reply makes the same operations every time. So a
//! fault at the n-th operation, or a cut with the same seed, has the same result every time:
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
//! assert_eq!((kept, disk.first_failure().map(|operation| operation.kind)), (2, Some(OperationKind::Sync)));
//!
//! // The power fails; what was synced is in the new folder, and a random part of the rest.
//! drop(connection);
//! disk.power_cut(Cut::Torn { seed: 1 }, after.path()).unwrap();
//! let connection = Connection::open(after.path().join("a.db")).unwrap();
//! let rows: u32 = connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
//! assert!(rows as usize >= kept);
//! ```

mod disk;
mod fault;
mod image;
mod power_loss;
mod short_read;
mod vfs;

pub use disk::{Disk, past_sqlite};
pub use fault::{Fault, FileKind, Lasting, Operation, OperationKind, Past, What};
pub use power_loss::Cut;
