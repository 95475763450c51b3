//! Keeps a session running: it runs the actor, and rebuilds it from the journal when it cannot continue.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::pin::pin;
use std::sync::Arc;

use engine::{
    BranchId, Command, Failure, FailureClass, Hash, Input, Lineage, Machine, RepairPolicy, Report, RunId, Settings,
};
use futures_util::FutureExt as _;
use journal::{Journal, Unsaved};

use crate::actor::{Actor, Exit, Mailboxes, Offer};
use crate::disk_full::{Pause, wait_for_space};
use crate::lanes::{LaneAdmission, LaneTicket};
use crate::runtime::{Error, Shared, create};
use crate::sessions::{Leaving, New};
use crate::watchdog;

/// The name and agent of a session.
pub(crate) struct Name {
    pub(crate) key: String,
    pub(crate) agent: String,
}

/// A machine, and what a snapshot of it would spare the next owner.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    pub(crate) machine: Machine,
    pub(crate) unsaved: Unsaved,
}

/// The start values of an actor.
type Beginning = (Box<Recovered>, Vec<Offer>);

/// Runs a session's actor. If the actor panics, breaks a table or needs damaged data, it is rebuilt from the journal
/// and stopped until a human resumes it; if it finds no disk space, it is rebuilt when there is some. The process and
/// the other sessions continue.
pub(crate) async fn supervise(shared: Arc<Shared>, name: Name, new: New) {
    let present = shared.sessions.present(&name.key, new.number);
    let mut mail = new.mail;
    let beginning = read(&shared, &name).await;
    // The slot is requested before the caller opens the next session, so that runs queue in the order in which sessions
    // are opened.
    let requested = beginning.as_ref().ok().and_then(|(recovered, _)| ask_lane(&shared, recovered));
    new.read.send_replace(Some(beginning.as_ref().map(|_| ()).map_err(Clone::clone)));
    let Ok((recovered, mut first)) = beginning else { return };
    let (mut next_ticket, mut admission) = match requested {
        Some(Requested::Resumed(ticket)) => match enter_lane(&shared, ticket, &mut mail, &mut first).await {
            Lane::Entered => (None, None),
            Lane::Queued(admission) => (None, Some(admission)),
            Lane::Closing => return,
        },
        Some(Requested::Next(ticket)) => (Some(ticket), None),
        None => (None, None),
    };
    let mut pause = Pause::default();
    let what: Arc<str> = format!("session {}", name.key).into();
    let mut next = Some((recovered, first));
    while let Some((recovered, first)) = next.take() {
        // Everything that is kept across an await takes memory in each session, so large values are boxed.
        let begins = (*recovered, next_ticket.take());
        let actor = Actor::new(&shared, (&present, &name.agent), (&mut mail, &mut admission), begins);
        let ended = {
            let mut running = pin!(AssertUnwindSafe(Box::new(actor).run(first)).catch_unwind());
            poll_fn(|context| watchdog::poll(&what, running.as_mut(), context)).await
        };
        let trouble = match ended {
            Ok(Exit::Closed | Exit::Idle) => return,
            Ok(Exit::Full(error, run)) => {
                if let Some(run) = run {
                    shared.budget_pool.rests(run);
                }
                let space = Box::pin(wait_for_space(&shared, &name.key, &mut mail, &error, &mut pause));
                let Some(offers) = space.await else { return };
                next = restarted(&shared, &name, offers, (run, admission.is_some()));
                continue;
            }
            Ok(Exit::Store(error)) => {
                shared.broken.send_replace(Some(error));
                return;
            }
            Ok(Exit::Damaged(error)) => error.to_string(),
            Ok(Exit::Broken(edge)) => edge.to_string(),
            Err(_) => "its actor panicked: this is a bug in limulus, please report it".to_owned(),
        };
        next = escalated(&shared, &name, trouble);
    }
}

/// Reads the session from the journal, with the first inputs of its actor. The journal is read on a thread that may
/// block.
async fn read(shared: &Arc<Shared>, name: &Name) -> Result<Beginning, Error> {
    let opened = Offer::report(opening(shared, false));
    let Some(row) = shared.journal.session(&name.key)? else {
        return Ok((Box::default(), vec![create(&name.key, &name.agent), opened]));
    };
    let (journal, key) = (Arc::clone(&shared.journal), name.key.clone());
    let reading = tokio::task::spawn_blocking(move || recover(journal.as_ref(), &key, row.branch));
    let recovered = reading.await.unwrap_or_else(|error| resume_unwind(error.into_panic()))?;
    let first = match recovered.machine.session() {
        None => vec![create(&name.key, &name.agent), opened],
        // The session was idle when its actor left it, so nothing has to be looked up.
        Some(session) if session.account.epoch == shared.journal.epoch() && recovered.machine.is_idle() => vec![],
        Some(_) => vec![opened],
    };
    Ok((Box::new(recovered), first))
}

/// Who requested a slot when the session was read.
enum Requested {
    /// A run that resumes.
    Resumed(LaneTicket),
    /// A message that starts the next run, or a run whose wait was over: its effect takes the ticket.
    Next(LaneTicket),
}

fn ask_lane(shared: &Arc<Shared>, recovered: &Recovered) -> Option<Requested> {
    let session = recovered.machine.session()?;
    // What it waits for comes without a slot.
    let run = session.next_run().filter(|_| !session.waits_outside())?;
    let ticket = shared.ask_lane(run, session.into());
    let resumes = session.is_active() && !session.waits_for_lane();
    Some(if resumes { Requested::Resumed(ticket) } else { Requested::Next(ticket) })
}

/// How a resumed run starts.
enum Lane {
    /// At once: it has its slot, or is to end.
    Entered,
    /// A command arrived for its session before it had its slot.
    Queued(LaneAdmission),
    /// The runtime shuts down: the session is left as it is.
    Closing,
}

/// A resumed run requests a slot of the lane first, as a new one would, unless it is to end. Until a command arrives
/// for its session, there is nothing to record of the wait.
async fn enter_lane(shared: &Shared, ticket: LaneTicket, mail: &mut Mailboxes, first: &mut Vec<Offer>) -> Lane {
    let mut leaving = shared.sessions.leaving();
    let mut admission: LaneAdmission = Box::pin(ticket.admitted());
    tokio::select! {
        biased;
        Ok(_) = leaving.wait_for(|leaving| *leaving != Leaving::No) => Lane::Closing,
        () = &mut admission => Lane::Entered,
        Some(offer) = mail.control.recv() => {
            if matches!(*offer.input, Input::Command(Command::Abort { .. } | Command::Terminate)) {
                first.push(offer);
                return Lane::Entered;
            }
            *first = vec![Offer::report(opening(shared, true)), offer];
            Lane::Queued(admission)
        }
    }
}

/// This owner opens a session, in which a run may wait for its slot.
fn opening(shared: &Shared, waits: bool) -> Report {
    let epoch = shared.journal.epoch();
    if waits { Report::OpenedToWait { epoch } } else { Report::Opened { epoch, cooling: vec![] } }
}

/// Stops the session until a human resumes it.
fn escalated(shared: &Shared, name: &Name, trouble: String) -> Option<Beginning> {
    let failure = Failure::new(FailureClass::Unknown, trouble);
    match rebuilt(shared, &name.key) {
        Rebuilt::Machine(recovered) => {
            Some((recovered, vec![Offer::report(Report::Escalated { failure, repair: RepairPolicy::AsConfigured })]))
        }
        Rebuilt::Nothing | Rebuilt::Unreadable => None,
    }
}

/// As after a crash: what was running when there was no space is looked up or sent again.
fn restarted(
    shared: &Shared,
    name: &Name,
    offers: Vec<Offer>,
    (run, waits): (Option<RunId>, bool),
) -> Option<Beginning> {
    let (recovered, mut first) = match rebuilt(shared, &name.key) {
        Rebuilt::Machine(recovered) => (recovered, vec![]),
        Rebuilt::Nothing => (Box::default(), vec![create(&name.key, &name.agent)]),
        Rebuilt::Unreadable => {
            shared.clear_disk_full(&name.key);
            return None;
        }
    };
    // A slot that was taken for a message which no entry records is free again.
    let is_known = |run: RunId| recovered.machine.session().is_some_and(|session| session.knows_run(run));
    if let Some(run) = run.filter(|run| !is_known(*run)) {
        shared.lanes.leave(run);
    }
    first.push(Offer::report(opening(shared, waits)));
    first.extend(offers);
    Some((recovered, first))
}

/// What the journal holds of a session.
enum Rebuilt {
    Machine(Box<Recovered>),
    /// It was never recorded.
    Nothing,
    Unreadable,
}

fn rebuilt(shared: &Shared, key: &str) -> Rebuilt {
    match shared.journal.session(key) {
        Ok(None) => Rebuilt::Nothing,
        Ok(Some(row)) => match recover(shared.journal.as_ref(), key, row.branch) {
            Ok(recovered) => Rebuilt::Machine(Box::new(recovered)),
            Err(error) => {
                if let Error::Journal(error) = error {
                    shared.broken.send_replace(Some(error));
                }
                Rebuilt::Unreadable
            }
        },
        Err(error) => {
            shared.broken.send_replace(Some(error));
            Rebuilt::Unreadable
        }
    }
}

/// Folds what the journal holds of this session.
fn recover(journal: &dyn Journal, key: &str, branch: BranchId) -> Result<Recovered, Error> {
    let line = journal.line(branch)?;
    let unsaved = Unsaved::of(&line);
    Ok(Recovered { machine: fold(journal, key, line.into())?, unsaved })
}

/// Folds a lineage of this session.
pub(crate) fn fold(journal: &dyn Journal, key: &str, line: Lineage) -> Result<Machine, Error> {
    let settings = |hash: Hash| {
        let bytes = journal.body(&hash).ok().flatten()?;
        Settings::from_bytes(&bytes).ok().map(Arc::new)
    };
    Machine::recover(line, &settings).map_err(|error| Error::Damaged { key: key.to_owned(), error })
}
