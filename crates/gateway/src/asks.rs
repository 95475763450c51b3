//! Open questions and who can answer them: every client on which a person can be asked, also one that comes later. The
//! first answer counts; the others are told. What may not live here: the answer, which the engine takes or not.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use engine::{CallId, Event};
use runtime::{Askable, Published, Question};
use serde_json::{Value, json};

use crate::connection::Caller;

/// Who can be asked, and what is open.
#[derive(Default)]
pub(crate) struct Asks(Mutex<Open>);

#[derive(Default)]
struct Open {
    people: BTreeMap<u64, Weak<Caller>>,
    questions: BTreeMap<CallId, Question>,
}

impl Asks {
    /// A client on which a person can be asked learns what is open.
    pub(crate) fn attach(&self, caller: &Arc<Caller>) {
        if !caller.asks {
            return;
        }
        let mut open = self.lock();
        open.people.insert(caller.number, Arc::downgrade(caller));
        for question in open.questions.values() {
            caller.tell("ask", payload(question));
        }
    }

    /// A client cannot answer any more. What is open stays open for the next one.
    pub(crate) fn detach(&self, number: u64) {
        self.lock().people.remove(&number);
    }

    /// The key of the session in which this call asks.
    pub(crate) fn session_of(&self, call: CallId) -> Option<String> {
        self.lock().questions.get(&call).map(|question| question.key.clone())
    }

    /// What was recorded closes questions.
    pub(crate) fn hear(&self, published: &Published) {
        for record in &published.batch.records {
            match &record.event {
                Event::AskAnswered(e) => {
                    let answered = json!({ "call": e.call, "allow": e.allow, "by": e.by });
                    self.close(|call| call == e.call, &answered);
                }
                Event::CallSettled(e) => self.close(|call| call == e.call, &json!({ "call": e.call })),
                Event::RunEnded(e) => self.close(|call| call.run == e.run, &json!({ "run": e.run })),
                _ => {}
            }
        }
    }

    fn close(&self, closes: impl Fn(CallId) -> bool, payload: &Value) {
        let mut open = self.lock();
        let before = open.questions.len();
        open.questions.retain(|call, _| !closes(*call));
        if open.questions.len() != before {
            open.tell("answered", payload);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn tell(&mut self, event: &str, payload: &Value) {
        self.people.retain(|_, caller| {
            let Some(caller) = caller.upgrade() else { return false };
            caller.tell(event, payload.clone());
            true
        });
    }
}

impl Askable for Asks {
    fn ask(&self, question: Question) -> bool {
        let mut open = self.lock();
        open.tell("ask", &payload(&question));
        let is_somebody_there = !open.people.is_empty();
        if is_somebody_there {
            open.questions.insert(question.call, question);
        }
        is_somebody_there
    }
}

fn payload(question: &Question) -> Value {
    json!({
        "session": question.key, "call": question.call, "fingerprint": question.fingerprint, "question": question.text,
    })
}
