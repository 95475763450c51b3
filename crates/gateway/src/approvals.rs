//! Open approval requests and the clients that can resolve them. A client that connects later receives the requests
//! that are still open. The first answer counts, and the other clients are notified. The engine decides whether an
//! answer is accepted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use engine::{CallId, Event};
use protocol::notice::{Answered, Asked, Notice};
use runtime::{ApprovalRequest, Approver, Published};

use crate::connection::Caller;

/// The clients with a person who can answer, and the open approval requests.
#[derive(Default)]
pub(crate) struct Approvals(Mutex<Open>);

#[derive(Default)]
struct Open {
    approvers: BTreeMap<u64, Weak<Caller>>,
    requests: BTreeMap<CallId, ApprovalRequest>,
    /// The sessions that this owner resumed, while their terminals may still be on the way from the owner before it.
    awaited: BTreeSet<String>,
}

impl Approvals {
    /// Registers a client on which a person can answer, and sends it the open requests.
    pub(crate) fn attach(&self, caller: &Arc<Caller>) {
        if !caller.can_approve {
            return;
        }
        let mut open = self.lock();
        open.approvers.insert(caller.number, Arc::downgrade(caller));
        for request in open.requests.values() {
            caller.notify(&asked(request));
        }
    }

    /// Keeps requests of these sessions open without a client, until [`Approvals::stop_awaiting`].
    pub(crate) fn await_terminals(&self, keys: impl Iterator<Item = String>) {
        self.lock().awaited.extend(keys);
    }

    /// From now on a request needs a client. Returns the open requests if there is none.
    pub(crate) fn stop_awaiting(&self) -> Vec<ApprovalRequest> {
        let mut open = self.lock();
        open.awaited.clear();
        if open.approvers.is_empty() { open.requests.values().cloned().collect() } else { vec![] }
    }

    /// Removes a client that can no longer answer. Open requests stay open for the next client.
    pub(crate) fn detach(&self, number: u64) {
        self.lock().approvers.remove(&number);
    }

    /// The key of the session in which this call waits for approval.
    pub(crate) fn session_of(&self, call: CallId) -> Option<String> {
        self.lock().requests.get(&call).map(|request| request.key.clone())
    }

    /// Closes the requests that a committed batch has resolved.
    pub(crate) fn observe(&self, published: &Published) {
        for record in &published.batch.records {
            match &record.event {
                Event::AskAnswered(e) => {
                    let by = Some(e.by.clone());
                    let answered = Answered { call: Some(e.call), allow: Some(e.allow), by, ..Answered::default() };
                    self.close(|call| call == e.call, &answered);
                }
                Event::CallSettled(e) => {
                    self.close(|call| call == e.call, &Answered { call: Some(e.call), ..Answered::default() });
                }
                Event::RunEnded(e) => {
                    self.close(|call| call.run == e.run, &Answered { run: Some(e.run), ..Answered::default() });
                }
                _ => {}
            }
        }
    }

    fn close(&self, closes: impl Fn(CallId) -> bool, answered: &Answered) {
        let mut open = self.lock();
        let before = open.requests.len();
        open.requests.retain(|call, _| !closes(*call));
        if open.requests.len() != before {
            open.notify(answered);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn notify<N: Notice>(&mut self, notice: &N) {
        self.approvers.retain(|_, caller| {
            let Some(caller) = caller.upgrade() else { return false };
            caller.notify(notice);
            true
        });
    }
}

impl Approver for Approvals {
    fn ask(&self, request: ApprovalRequest) -> bool {
        let mut open = self.lock();
        open.notify(&asked(&request));
        let may_be_answered = !open.approvers.is_empty() || open.awaited.contains(&request.key);
        if may_be_answered {
            open.requests.insert(request.call, request);
        }
        may_be_answered
    }
}

fn asked(request: &ApprovalRequest) -> Asked {
    Asked {
        session: request.key.clone(),
        call: request.call,
        fingerprint: request.fingerprint,
        question: request.text.clone(),
    }
}
