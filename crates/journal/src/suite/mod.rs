//! The test suite that both journals pass, and the builders of its tests. Tests of files are not here.

mod appends;
mod crashes;
mod reads;
pub(crate) mod samples;
mod snapshots;

use std::sync::Arc;
use std::sync::mpsc;

use engine::{Batch, BranchId, Content, Created, Epoch, Event, Position, Record, Seq, SessionId, Timestamp, Views};
use uuid::Uuid;

use crate::{Append, Error, Journal, Memory};

/// A journal under test; it can be opened again.
pub(crate) enum Store {
    Memory(Memory),
    #[cfg(feature = "sqlite")]
    Sqlite(Option<crate::Sqlite>, tempfile::TempDir, Own),
}

/// A function that takes a home.
#[cfg(feature = "sqlite")]
type Own = fn(&std::path::Path) -> Result<crate::Sqlite, Error>;

impl Store {
    pub(crate) fn memory() -> Self {
        let memory = Memory::new();
        memory.open();
        Self::Memory(memory)
    }

    #[cfg(feature = "sqlite")]
    pub(crate) fn sqlite() -> Self {
        Self::owned(crate::Sqlite::own)
    }

    /// The SQLite journal without a thread.
    #[cfg(feature = "sqlite")]
    pub(crate) fn stepped() -> Self {
        Self::owned(|home| crate::Sqlite::own_stepped(home, |_| true))
    }

    #[cfg(feature = "sqlite")]
    fn owned(own: Own) -> Self {
        let home = tempfile::tempdir().unwrap();
        Self::Sqlite(Some(own(&home.path().join("home")).unwrap()), home, own)
    }

    pub(crate) fn journal(&self) -> &dyn Journal {
        match self {
            Self::Memory(memory) => memory,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(sqlite, ..) => sqlite.as_ref().unwrap(),
        }
    }

    /// Opens the journal as its next owner.
    pub(crate) fn reopen(&mut self) {
        match self {
            Self::Memory(memory) => {
                memory.crash_process();
                memory.open();
            }
            #[cfg(feature = "sqlite")]
            Self::Sqlite(sqlite, home, own) => {
                drop(sqlite.take());
                *sqlite = Some(own(&home.path().join("home")).unwrap());
            }
        }
    }

    pub(crate) fn append(&self, batch: Batch) -> Result<Position, Error> {
        append(self.journal(), self.journal().epoch(), batch)
    }
}

/// Appends and waits for the result.
pub(crate) fn append(journal: &dyn Journal, epoch: Epoch, batch: Batch) -> Result<Position, Error> {
    let (sender, reply) = mpsc::channel();
    let done = Box::new(move |answer| sender.send(answer).unwrap());
    journal.append(Append { batch: Arc::new(batch), epoch }, done);
    reply.recv().unwrap()
}

pub(crate) fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

/// A session that makes its batches: it counts seqs and time as an engine would.
#[derive(Clone)]
pub(crate) struct Script {
    pub(crate) session: SessionId,
    pub(crate) branch: BranchId,
    pub(crate) key: String,
    pub(crate) seq: u64,
    pub(crate) at: i64,
}

impl Script {
    pub(crate) fn new(n: u128) -> Self {
        Self {
            session: SessionId(id(n)),
            branch: BranchId(id(n + 1_000_000)),
            key: format!("agent:main:{n}"),
            seq: 0,
            at: 1_000,
        }
    }

    pub(crate) fn created(&self) -> Event {
        let Self { session, branch, key, .. } = self.clone();
        Created { session, key, agent: "main".to_owned(), branch }.into()
    }

    pub(crate) fn begin(&mut self) -> Batch {
        let created = self.created();
        self.batch(vec![created], vec![])
    }

    pub(crate) fn batch(&mut self, events: Vec<Event>, bodies: Vec<Content>) -> Batch {
        let records = events.into_iter().map(|event| self.record(event)).collect();
        Batch { session: self.session, branch: self.branch, records, bodies, views: Views::default() }
    }

    fn record(&mut self, event: Event) -> Record {
        self.at += 7;
        let seq = event.progress().is_none().then(|| {
            self.seq += 1;
            Seq(self.seq)
        });
        Record { seq, at: Timestamp(self.at), event }
    }
}

/// Runs each of these tests over both journals, and over the one in SQLite without its thread.
macro_rules! both {
    ($($test:ident)*) => {
        mod memory {
            $(#[test]
            fn $test() {
                super::$test(&mut crate::suite::Store::memory());
            })*
        }
        #[cfg(feature = "sqlite")]
        mod sqlite {
            $(#[test]
            fn $test() {
                super::$test(&mut crate::suite::Store::sqlite());
            })*
        }
        #[cfg(feature = "sqlite")]
        mod stepped {
            $(#[test]
            fn $test() {
                super::$test(&mut crate::suite::Store::stepped());
            })*
        }
    };
}
pub(crate) use both;
