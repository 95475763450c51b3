//! Sessions of a home that was mended: what was under way is put to a human, since nobody knows what became of it. What may
//! not live here: files and tables.

use std::sync::{Arc, mpsc};

use engine::{
    BranchId, Command, Failure, FailureClass, Hash, Machine, MessageId, Record, Refusal, Report, RunId, Seq, Session,
    Settings,
};
use journal::{Append, Journal};

use crate::clock::Clock;
use crate::runtime::Error;

/// What was held of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The session's key.
    pub key: String,
    /// The run that waits for a human now.
    pub run: Option<RunId>,
    /// Messages that waited, and were cancelled.
    pub cancelled: usize,
}

/// Holds the run that is under way in a session, and cancels what waits behind it: what they have done already may have been
/// in what is gone, and nothing is to be done twice.
pub fn hold(journal: &dyn Journal, key: &str, branch: BranchId, reason: &str) -> Result<Held, Error> {
    let mut machine = fold(journal, key, branch)?;
    let held = put_to_a_human(&mut machine, key, reason)?;
    if let Some(batch) = machine.take_batch() {
        keep(journal, batch)?;
    }
    Ok(held)
}

fn put_to_a_human(machine: &mut Machine, key: &str, reason: &str) -> Result<Held, Refusal> {
    let clock = Clock::new();
    let queue = |session: &Session| session.queue.iter().map(|queued| queued.message).collect::<Vec<MessageId>>();
    let waiting = machine.session().map(queue).unwrap_or_default();
    for message in &waiting {
        machine.handle(Command::Cancel { message: *message }.into(), clock.moment())?;
    }
    let run = machine.session().filter(|session| session.is_active()).and_then(Session::run).map(|run| run.id);
    if run.is_some() {
        let failure = Failure::new(FailureClass::Unknown, reason);
        machine.handle(Report::Escalated { failure }.into(), clock.moment())?;
    }
    Ok(Held { key: key.to_owned(), run, cancelled: waiting.len() })
}

/// Appends and waits until it is synced.
fn keep(journal: &dyn Journal, batch: engine::Batch) -> Result<(), Error> {
    let (done, kept) = mpsc::channel();
    let append = Append { batch: Arc::new(batch), epoch: journal.epoch() };
    journal.append(append, Box::new(move |result| drop(done.send(result))));
    kept.recv().map_err(|_| journal::Error::Gone)??;
    Ok(())
}

fn fold(journal: &dyn Journal, key: &str, branch: BranchId) -> Result<Machine, Error> {
    let entries = journal.read(branch, Seq(1))?;
    let progress = journal.progress(branch)?;
    let entries = entries.into_iter().map(|entry| Record { seq: Some(entry.seq), at: entry.at, event: entry.event });
    let settings = |hash: Hash| {
        let bytes = journal.body(&hash).ok().flatten()?;
        Settings::from_bytes(&bytes).ok().map(Arc::new)
    };
    Machine::recover(entries.chain(progress), &settings).map_err(|error| Error::Damaged { key: key.to_owned(), error })
}
