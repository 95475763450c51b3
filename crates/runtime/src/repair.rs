//! Sessions of a repaired home: a run that was active is stopped until a human resumes it, because its outcome is
//! unknown. Files and tables are the journal's matter.

use std::sync::{Arc, mpsc};

use engine::{
    Batch, BodyKind, BranchId, CallOutcome, Command, Content, Decide as _, EffectId, EffectKind, Epoch, Failure,
    FailureClass, Forked, Found, Hash, Ledger, LedgerBegun, Machine, MessageId, Policy, Record, Refusal, RepairPolicy,
    Report, RunId, Seq, Session, SessionRow, ToolResult, Views,
};
use journal::{Append, Journal};
use uuid::Uuid;

use crate::clock::Clock;
use crate::runtime::Error;
use crate::supervise::fold;

/// What was stopped in a session.
#[allow(missing_docs, reason = "the fields say it themselves")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldSession {
    pub key: String,
    /// The run that now waits for a human.
    pub run: Option<RunId>,
    /// The waiting messages that were cancelled.
    pub cancelled: usize,
}

/// Stops the active run of a session until a human resumes it, and cancels the messages behind it: their work may have
/// been in the lost entries, and nothing may be done twice.
pub fn hold(journal: &dyn Journal, key: &str, branch: BranchId, reason: &str) -> Result<HeldSession, Error> {
    let mut machine = fold(journal, key, journal.line(branch)?.into())?;
    let held = escalate(&mut machine, key, journal.epoch(), reason)?;
    if let Some(batch) = machine.take_batch() {
        append_synced(journal, batch)?;
    }
    Ok(held)
}

/// Whether a session's row in the lists contradicts its entries: entries that it counted were lost.
pub fn is_behind(journal: &dyn Journal, row: &SessionRow) -> Result<bool, Error> {
    let machine = fold(journal, &row.key, journal.line(row.branch)?.into())?;
    let state =
        |session: &Session| (session.run_state(), session.conversation.lifecycle.kind(), session.account.last_activity);
    Ok(machine.session().map(state) != Some((row.run_state, row.lifecycle, row.last_activity)))
}

/// What the model receives for a call that may have run in the lost entries.
const UNKNOWN_OUTCOME: &str = "The journal was repaired, and what became of this call is not known: it may have done its work. Look before \
     you do it again.";
/// Rounds in which calls are settled: a call that is checked in one may be started in the next.
const ROUNDS: usize = 8;

fn escalate(machine: &mut Machine, key: &str, epoch: Epoch, reason: &str) -> Result<HeldSession, Refusal> {
    let clock = Clock::new();
    let queue =
        |session: &Session| session.conversation.queue.iter().map(|queued| queued.message).collect::<Vec<MessageId>>();
    let waiting = machine.session().map(queue).unwrap_or_default();
    for message in &waiting {
        machine.handle(Command::Cancel { message: *message, leg: None }.into(), clock.moment())?;
    }
    machine.handle(Report::Opened { epoch, cooling: vec![] }.into(), clock.moment())?;
    for _ in 0..ROUNDS {
        let answers: Vec<Report> = machine.effects().iter().filter_map(|effect| unknown_outcome(effect.id())).collect();
        for report in answers {
            machine.handle(report.into(), clock.moment())?;
        }
    }
    let run = machine.session().and_then(Session::run).map(|run| run.id);
    let failure = Failure::new(FailureClass::Unknown, reason);
    machine.handle(Report::Escalated { failure, repair: RepairPolicy::ByHuman }.into(), clock.moment())?;
    machine.handle(Report::Closing.into(), clock.moment())?;
    Ok(HeldSession { key: key.to_owned(), run, cancelled: waiting.len() })
}

/// No call is started or looked up: if it is no longer running, it may have ended in the lost entries.
fn unknown_outcome(effect: EffectId) -> Option<Report> {
    match effect.kind {
        EffectKind::CheckCall => Some(Report::CallChecked {
            effect,
            decision: Policy::Deny,
            fingerprint: Hash::of(UNKNOWN_OUTCOME.as_bytes()),
            evidence: None,
            reason: Some(UNKNOWN_OUTCOME.to_owned()),
            timeout_ms: None,
            grant: None,
            question: None,
        }),
        EffectKind::FindCall => Some(Report::CallFound { effect, found: Found::Unknown, ended: None }),
        EffectKind::RunCall | EffectKind::EndCall => {
            let output = Content::text(BodyKind::Output, UNKNOWN_OUTCOME);
            Some(Report::CallEnded { effect, given: ToolResult::new(CallOutcome::Interrupted, output) })
        }
        _ => None,
    }
}

/// Appends and waits until the batch is synced.
fn append_synced(journal: &dyn Journal, batch: engine::Batch) -> Result<(), Error> {
    let (done, kept) = mpsc::channel();
    let append = Append { batch: Arc::new(batch), epoch: journal.epoch() };
    journal.append(append, Box::new(move |result| drop(done.send(result))));
    kept.recv().map_err(|_| journal::Error::Gone)??;
    Ok(())
}

/// A session that continues in a new branch.
#[allow(missing_docs, reason = "the fields say it themselves")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Salvaged {
    pub branch: BranchId,
    /// What waits for a human in it.
    pub held: HeldSession,
}

/// Starts a new branch at the last good entry of a lineage, whose chain is `hash`, and stops the run that was active
/// there. The damaged branch is not touched.
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
    let mut machine = fold(journal, key, line)?;
    let held = escalate(&mut machine, key, journal.epoch(), reason)?;
    let mut batch = machine.take_batch().ok_or_else(|| no_beginning(key))?;
    batch.records.insert(0, forked);
    append_synced(journal, batch)?;
    Ok(Salvaged { branch, held })
}

/// Starts a new branch of the ledger at the last good entry of a lineage and its chain, or empty if there is none. The
/// damaged branch is not touched.
pub fn salvage_ledger(journal: &dyn Journal, good: Option<((BranchId, Seq), Hash)>) -> Result<BranchId, Error> {
    let branch = journal.ledger()?.map_or(Ledger::BRANCH, Ledger::after);
    let event = match good {
        Some(((parent, at), hash)) => Forked { parent, at, hash }.into(),
        None => LedgerBegun { branch }.into(),
    };
    let records = vec![Record { seq: Some(Seq(1)), at: Clock::after(journal.latest()?).now(), event }];
    append_synced(
        journal,
        Batch { session: Ledger::SESSION, branch, records, bodies: vec![], views: Views::default() },
    )?;
    Ok(branch)
}

fn no_beginning(key: &str) -> Error {
    Error::Damaged { key: key.to_owned(), error: engine::RecoverError::NoBeginning }
}
