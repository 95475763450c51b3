//! What keeps a session going: it runs the actor, and rebuilds it from the journal when it cannot go on as it is. What may
//! not live here: what the actor does.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use engine::{Failure, FailureClass, Machine, Report, RunId};
use futures_util::FutureExt as _;

use crate::actor::{Actor, Exit, Mailboxes, Offer};
use crate::park::{Pause, park};
use crate::runtime::{Error, Shared, create, recover};

/// What a session is called, and whose it is.
pub(crate) struct Name {
    pub(crate) key: String,
    pub(crate) agent: String,
}

/// What an actor begins with.
type Beginning = (Machine, Vec<Offer>);

/// Runs a session's actor. One that panics or breaks a table is rebuilt from the journal and held for a human; one that
/// finds no space is rebuilt when there is some. The process and the other sessions go on.
pub(crate) async fn keep_running(
    shared: Arc<Shared>,
    name: Name,
    mut mail: Mailboxes,
    machine: Machine,
    beginning: Vec<Offer>,
) {
    // A run that goes on takes its place in the lane first, as a new one would.
    if let Some(run) = machine.session().filter(|session| session.is_active()).and_then(|session| session.run()) {
        shared.enter_lane(run.id).await;
    }
    let mut pause = Pause::default();
    let mut next = Some((machine, beginning));
    while let Some((machine, first)) = next.take() {
        let actor = Actor::new(&shared, &mut mail, machine);
        let trouble = match AssertUnwindSafe(actor.run(first)).catch_unwind().await {
            Ok(Exit::Closed) => return,
            Ok(Exit::Full(error, run)) => {
                let Some(offers) = park(&shared, &name.key, &mut mail, &error, &mut pause).await else { return };
                next = taken_up(&shared, &name, offers, run);
                continue;
            }
            Ok(Exit::Store(error)) => {
                shared.broken.send_replace(Some(error));
                return;
            }
            Ok(Exit::Broken(edge)) => edge.to_string(),
            Err(_) => "its actor panicked: this is a bug in limulus, please report it".to_owned(),
        };
        next = held(&shared, &name, trouble);
    }
}

/// For a human to look at.
fn held(shared: &Shared, name: &Name, trouble: String) -> Option<Beginning> {
    let failure = Failure::new(FailureClass::Unknown, trouble);
    match rebuilt(shared, &name.key) {
        Rebuilt::Machine(machine) => Some((*machine, vec![Offer::report(Report::Escalated { failure })])),
        Rebuilt::Nothing | Rebuilt::Unreadable => None,
    }
}

/// As after a crash: what was under way when there was no space is looked up or sent again.
fn taken_up(shared: &Shared, name: &Name, offers: Vec<Offer>, run: Option<RunId>) -> Option<Beginning> {
    let (machine, mut first) = match rebuilt(shared, &name.key) {
        Rebuilt::Machine(machine) => (*machine, vec![]),
        Rebuilt::Nothing => (Machine::new(), vec![create(&name.key, &name.agent)]),
        Rebuilt::Unreadable => {
            shared.unpark(&name.key);
            return None;
        }
    };
    // A place in the lane that was taken for a message which no entry speaks of is free again.
    let is_known = |run: RunId| {
        machine.session().is_some_and(|session| {
            let queued = session.queue.iter().any(|queued| RunId::from(queued.message) == run);
            queued || session.run().is_some_and(|known| known.id == run)
        })
    };
    if let Some(run) = run.filter(|run| !is_known(*run)) {
        shared.leave_lane(run);
    }
    first.push(Offer::report(Report::Opened { epoch: shared.journal.epoch() }));
    first.extend(offers);
    Some((machine, first))
}

/// What the journal has of a session.
enum Rebuilt {
    Machine(Box<Machine>),
    /// It was never recorded.
    Nothing,
    Unreadable,
}

fn rebuilt(shared: &Shared, key: &str) -> Rebuilt {
    match shared.journal.session(key) {
        Ok(None) => Rebuilt::Nothing,
        Ok(Some(row)) => match recover(shared, key, row.branch) {
            Ok(machine) => Rebuilt::Machine(Box::new(machine)),
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
