//! Open approval requests and the clients that can resolve them. A client that connects later receives the requests
//! that are still open. The first answer counts, and the other clients are notified. The engine decides whether an
//! answer is accepted.

use std::collections::BTreeMap;
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
    people: BTreeMap<u64, Weak<Caller>>,
    questions: BTreeMap<CallId, ApprovalRequest>,
}

impl Approvals {
    /// Registers a client on which a person can answer, and sends it the open requests.
    pub(crate) fn attach(&self, caller: &Arc<Caller>) {
        if !caller.asks {
            return;
        }
        let mut open = self.lock();
        open.people.insert(caller.number, Arc::downgrade(caller));
        for question in open.questions.values() {
            caller.notify(&asked(question));
        }
    }

    /// Removes a client that can no longer answer. Open requests stay open for the next client.
    pub(crate) fn detach(&self, number: u64) {
        self.lock().people.remove(&number);
    }

    /// The key of the session in which this call waits for approval.
    pub(crate) fn session_of(&self, call: CallId) -> Option<String> {
        self.lock().questions.get(&call).map(|question| question.key.clone())
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
        let before = open.questions.len();
        open.questions.retain(|call, _| !closes(*call));
        if open.questions.len() != before {
            open.notify(answered);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn notify<N: Notice>(&mut self, notice: &N) {
        self.people.retain(|_, caller| {
            let Some(caller) = caller.upgrade() else { return false };
            caller.notify(notice);
            true
        });
    }
}

impl Approver for Approvals {
    fn ask(&self, question: ApprovalRequest) -> bool {
        let mut open = self.lock();
        open.notify(&asked(&question));
        let is_somebody_there = !open.people.is_empty();
        if is_somebody_there {
            open.questions.insert(question.call, question);
        }
        is_somebody_there
    }
}

fn asked(question: &ApprovalRequest) -> Asked {
    Asked {
        session: question.key.clone(),
        call: question.call,
        fingerprint: question.fingerprint,
        question: question.text.clone(),
    }
}
