//! Sessions of a home that was mended: what was under way is put to a human, since nobody knows what became of it. What may
//! not live here: files and tables.

use std::sync::{Arc, mpsc};

use engine::{
    Batch, BodyKind, BranchId, CallOutcome, Command, Content, EffectId, EffectKind, Epoch, Failure, FailureClass,
    Forked, Found, Hash, Ledger, LedgerBegun, Machine, MessageId, Policy, Record, Refusal, Report, RunId, Seq, Session,
    SessionRow, Settings, ToolResult, Views,
};
use journal::{Append, Journal};
use uuid::Uuid;

use crate::clock::Clock;
use crate::runtime::Error;

/// What was held of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldSession {
    /// The session's key.
    pub key: String,
    /// The run that waits for a human now.
    pub run: Option<RunId>,
    /// Messages that waited, and were cancelled.
    pub cancelled: usize,
}

/// Holds the run that is under way in a session, and cancels what waits behind it: what they have done already may have been
/// in what is gone, and nothing is to be done twice.
pub fn hold(journal: &dyn Journal, key: &str, branch: BranchId, reason: &str) -> Result<HeldSession, Error> {
    let mut machine = recover(journal, key, journal.line(branch)?.into())?;
    let held = put_to_a_human(&mut machine, key, journal.epoch(), reason)?;
    if let Some(batch) = machine.take_batch() {
        keep(journal, batch)?;
    }
    Ok(held)
}

/// Whether a session's row in the lists says something else than its entries: entries were lost that it knew of.
pub fn is_behind(journal: &dyn Journal, row: &SessionRow) -> Result<bool, Error> {
    let machine = recover(journal, &row.key, journal.line(row.branch)?.into())?;
    let stands = |session: &Session| (session.run_state(), session.lifecycle.kind(), session.last_activity);
    Ok(machine.session().map(stands) != Some((row.run_state, row.lifecycle, row.last_activity)))
}

/// What the model is told of a call that may have been run in what is gone.
const NOT_KNOWN: &str = "The journal was repaired, and what became of this call is not known: it may have done its work. Look before \
                         you do it again.";
/// Rounds in which calls are answered: one that is checked may be started in the next.
const ROUNDS: usize = 8;

fn put_to_a_human(machine: &mut Machine, key: &str, epoch: Epoch, reason: &str) -> Result<HeldSession, Refusal> {
    let clock = Clock::new();
    let queue = |session: &Session| session.queue.iter().map(|queued| queued.message).collect::<Vec<MessageId>>();
    let waiting = machine.session().map(queue).unwrap_or_default();
    for message in &waiting {
        machine.handle(Command::Cancel { message: *message, leg: None }.into(), clock.moment())?;
    }
    machine.handle(Report::Opened { epoch, cooling: vec![] }.into(), clock.moment())?;
    for _ in 0..ROUNDS {
        let answers: Vec<Report> = machine.effects().iter().filter_map(|effect| not_known(effect.id())).collect();
        for report in answers {
            machine.handle(report.into(), clock.moment())?;
        }
    }
    let run = machine.session().and_then(Session::run).map(|run| run.id);
    let failure = Failure::new(FailureClass::Unknown, reason);
    machine.handle(Report::Escalated { failure }.into(), clock.moment())?;
    machine.handle(Report::Closing.into(), clock.moment())?;
    Ok(HeldSession { key: key.to_owned(), run, cancelled: waiting.len() })
}

/// No call is begun or looked up: where it is not under way any more, it may have ended in what is gone.
fn not_known(effect: EffectId) -> Option<Report> {
    match effect.kind {
        EffectKind::CheckCall => Some(Report::CallChecked {
            effect,
            decision: Policy::Deny,
            fingerprint: Hash::of(NOT_KNOWN.as_bytes()),
            evidence: None,
            reason: Some(NOT_KNOWN.to_owned()),
        }),
        EffectKind::FindCall => Some(Report::CallFound { effect, found: Found::Unknown, ended: None }),
        EffectKind::RunCall | EffectKind::EndCall => {
            let output = Content::text(BodyKind::Output, NOT_KNOWN);
            Some(Report::CallEnded { effect, given: ToolResult::new(CallOutcome::Interrupted, output) })
        }
        _ => None,
    }
}

/// Appends and waits until it is synced.
fn keep(journal: &dyn Journal, batch: engine::Batch) -> Result<(), Error> {
    let (done, kept) = mpsc::channel();
    let append = Append { batch: Arc::new(batch), epoch: journal.epoch() };
    journal.append(append, Box::new(move |result| drop(done.send(result))));
    kept.recv().map_err(|_| journal::Error::Gone)??;
    Ok(())
}

/// A session that goes on in a new branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Salvaged {
    /// The new branch.
    pub branch: BranchId,
    /// What waits for a human in it.
    pub held: HeldSession,
}

/// Begins a new branch at the last good entry of a line, whose chain is `hash`, and holds what is under way there. The
/// damaged branch is not touched.
pub fn salvage(
    journal: &dyn Journal,
    key: &str,
    (parent, at): (BranchId, Seq),
    hash: Hash,
    reason: &str,
) -> Result<Salvaged, Error> {
    let clock = Clock::new();
    let branch = BranchId(Uuid::now_v7());
    let forked = Record { seq: Some(Seq(1)), at: clock.now(), event: Forked { parent, at, hash }.into() };
    let mut line: engine::Lineage = journal.history_until(parent, at)?.into();
    line.segments.push(engine::LineageSegment { branch, entries: vec![forked.clone()] });
    let mut machine = recover(journal, key, line)?;
    let held = put_to_a_human(&mut machine, key, journal.epoch(), reason)?;
    let mut batch = machine.take_batch().ok_or_else(|| no_beginning(key))?;
    batch.records.insert(0, forked);
    keep(journal, batch)?;
    Ok(Salvaged { branch, held })
}

/// Begins a new branch of the ledger at the last good entry of a line and its chain, or where there is none with nothing.
/// The damaged branch is not touched.
pub fn salvage_ledger(journal: &dyn Journal, good: Option<((BranchId, Seq), Hash)>) -> Result<BranchId, Error> {
    let branch = journal.ledger()?.map_or(Ledger::BRANCH, Ledger::after);
    let event = match good {
        Some(((parent, at), hash)) => Forked { parent, at, hash }.into(),
        None => LedgerBegun { branch }.into(),
    };
    let records = vec![Record { seq: Some(Seq(1)), at: Clock::after(journal.latest()?).now(), event }];
    keep(journal, Batch { session: Ledger::SESSION, branch, records, bodies: vec![], views: Views::default() })?;
    Ok(branch)
}

fn no_beginning(key: &str) -> Error {
    Error::Damaged { key: key.to_owned(), error: engine::RecoverError::NoBeginning }
}

fn recover(journal: &dyn Journal, key: &str, line: engine::Lineage) -> Result<Machine, Error> {
    let settings = |hash: Hash| {
        let bytes = journal.body(&hash).ok().flatten()?;
        Settings::from_bytes(&bytes).ok().map(Arc::new)
    };
    Machine::recover(line, &settings).map_err(|error| Error::Damaged { key: key.to_owned(), error })
}
