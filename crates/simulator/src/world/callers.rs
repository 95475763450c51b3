//! The users: what they ask for, when, and what they were told. A caller that gets no answer asks again, with its key.

use std::collections::{BTreeMap, BTreeSet};

use engine::{Answer, BodyKind, CallId, Command, Content, Overrides, Refusal, RunId};

use super::view::View;
use crate::invariant::{Invariant, Violation};
use crate::workload::{AbortAt, Plan, message_id, message_key};

/// Who waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Caller {
    /// The sender of a message.
    Message(usize),
    /// The same sender again, after it was told: it must hear of the same run.
    Repeat(usize),
    /// The terminal that is asked for leave.
    Leave(CallId),
    /// The user who aborts the last run.
    Abort,
}

impl Caller {
    /// Its name among the operations.
    pub fn name(self) -> &'static str {
        match self {
            Self::Message(_) => "send_message",
            Self::Repeat(_) => "send_repeat",
            Self::Leave(_) => "send_answer",
            Self::Abort => "send_abort",
        }
    }
}

/// All users and what they know.
#[derive(Debug, Clone, Default)]
pub struct Callers {
    told: BTreeMap<Caller, Result<Answer, Refusal>>,
    waiting: BTreeSet<Caller>,
}

impl Callers {
    /// What each was told in the end.
    pub fn told(&self) -> &BTreeMap<Caller, Result<Answer, Refusal>> {
        &self.told
    }

    /// Their connections are gone; what was not answered is asked again.
    pub fn crash(&mut self) {
        self.waiting.clear();
    }

    /// Who would ask for something now.
    pub fn willing(&self, view: &View, plan: &Plan) -> Vec<Caller> {
        let messages = plan.workload.runs.len();
        let mut willing: Vec<Caller> = (0..messages)
            .filter(|index| *index == 0 || self.told.contains_key(&Caller::Message(index - 1)))
            .map(Caller::Message)
            .collect();
        if self.told.contains_key(&Caller::Message(1)) {
            willing.push(Caller::Repeat(1));
        }
        willing.extend(view.asks.keys().map(|call| Caller::Leave(*call)));
        if wants_abort(view, plan) {
            willing.push(Caller::Abort);
        }
        willing.retain(|caller| !self.told.contains_key(caller) && !self.waiting.contains(caller));
        willing
    }

    /// What this caller asks for.
    pub fn ask(&mut self, caller: Caller, view: &View, plan: &Plan) -> Command {
        self.waiting.insert(caller);
        match caller {
            Caller::Message(index) | Caller::Repeat(index) => Command::Message {
                message: message_id(index),
                content: Content::text(BodyKind::Message, &plan.workload.runs[index].message),
                mode: None,
                key: Some(message_key(index)),
                overrides: Overrides::default(),
            },
            Caller::Leave(call) => Command::Answer {
                call,
                fingerprint: view.asks.get(&call).copied().unwrap_or(engine::Hash([0; 32])),
                allow: plan.seed.leave,
                by: "the terminal".into(),
            },
            Caller::Abort => Command::Abort { run: Some(last_run(plan)) },
        }
    }

    /// A caller is answered.
    pub fn answered(&mut self, caller: Caller, answer: Result<Answer, Refusal>) -> Result<(), Violation> {
        let late = matches!(
            (caller, &answer),
            (Caller::Abort, Err(Refusal::NotFound { .. })) | (Caller::Leave(_), Err(Refusal::Stale))
        );
        Invariant::Acknowledged.holds(late || answer.is_ok(), || format!("{caller:?} was refused: {answer:?}"))?;
        self.waiting.remove(&caller);
        self.told.insert(caller, answer);
        Ok(())
    }
}

/// The run that is aborted.
pub fn last_run(plan: &Plan) -> RunId {
    message_id(plan.workload.runs.len() - 1).into()
}

fn wants_abort(view: &View, plan: &Plan) -> bool {
    let run = last_run(plan);
    let due = match plan.seed.abort {
        AbortAt::Call => view.started.iter().any(|call| call.run == run),
        AbortAt::Text => view.settled.get(&run).is_some_and(|settled| *settled >= 2) && view.open_text(run) > 12,
    };
    due && !view.ended.contains(&run)
}
