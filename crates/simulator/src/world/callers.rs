//! The users: what they ask for, when, and the answers that they got. A caller that gets no answer asks again, with its
//! key.

use std::collections::{BTreeMap, BTreeSet};

use engine::{
    Acknowledgement, Address, Allowance, BodyKind, CallId, Command, Content, Decision, EditedCall, Hash, MessageId,
    Overrides, QueueSettings, Refusal, RunId, Scope, SenderOptions, Seq, Timestamp,
};
use uuid::Uuid;

use super::view::View;
use crate::invariant::{Invariant, Violation};
use crate::plan::{Plan, ROUTE, message_id, message_key};
use crate::workload::{After, Again, Leave, Then};

/// More than any run of the script can spend.
const ENOUGH: Option<u64> = Some(1_000_000);

fn edited(arguments: String) -> EditedCall {
    EditedCall { arguments: Content::text(BodyKind::Arguments, &arguments), shown: arguments }
}

/// Who waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Caller {
    /// The sender of a message.
    Message(usize),
    /// The same sender again, after its acknowledgement: it must get the same run.
    Repeat(usize),
    /// A sender of another text with a used key.
    Conflict(usize),
    /// The sender who cancels its message.
    Cancel(usize),
    /// A terminal that answers with the fingerprint of another call.
    Mistake(CallId),
    /// The terminal that is asked for approval.
    Leave(CallId),
    /// The user who pauses a run.
    Pause(usize),
    /// The user who resumes the run that this entry paused.
    Resume(Seq),
    /// The user who aborts a run.
    Abort(usize),
    /// The human who repairs the session that this entry put into the error state.
    Repair(Seq),
    /// The user who raises the budget of a run that waits since this entry, or of its session.
    Raise(Seq, Scope),
}

impl Caller {
    /// Its name among the operations.
    pub fn name(self) -> &'static str {
        match self {
            Self::Message(_) => "send_message",
            Self::Repeat(_) => "send_repeat",
            Self::Conflict(_) => "send_conflict",
            Self::Cancel(_) => "send_cancel",
            Self::Mistake(_) => "send_mistake",
            Self::Leave(_) => "send_answer",
            Self::Pause(_) => "send_pause",
            Self::Resume(_) => "send_resume",
            Self::Abort(_) => "send_abort",
            Self::Repair(_) => "send_mend",
            Self::Raise(..) => "send_raise",
        }
    }
}

/// The final answer to a caller.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Answered {
    /// The answer or refusal.
    pub answer: Result<Acknowledgement, Refusal>,
    pub at: Timestamp,
}

/// All users and what they know.
#[derive(Debug, Clone, Default)]
pub struct Callers {
    answers: BTreeMap<Caller, Answered>,
    waiting: BTreeSet<Caller>,
}

impl Callers {
    /// The final answer to each caller.
    pub fn answers(&self) -> &BTreeMap<Caller, Answered> {
        &self.answers
    }

    /// Whether this caller's request was acknowledged.
    pub fn was_promised(&self, caller: Caller) -> bool {
        self.answers.get(&caller).is_some_and(|answered| answered.answer.is_ok())
    }

    /// Closes their connections; what was not answered is asked again.
    pub fn crash(&mut self) {
        self.waiting.clear();
    }

    /// The callers that would ask for something now.
    pub fn willing(&self, view: &View, plan: &Plan) -> Vec<Caller> {
        let mut willing = vec![];
        for index in 0..plan.workload.runs.len() {
            self.senders(index, view, plan, &mut willing);
        }
        for call in view.asks.keys() {
            match plan.seed.leave {
                Leave::Never => {}
                Leave::Mistaken if !self.answers.contains_key(&Caller::Mistake(*call)) => {
                    willing.push(Caller::Mistake(*call));
                }
                Leave::Given | Leave::Denied | Leave::Mistaken | Leave::Edited => willing.push(Caller::Leave(*call)),
            }
        }
        willing.extend(held(view, plan).map(Caller::Resume));
        willing.extend(view.trouble.map(Caller::Repair));
        willing.extend(
            view.poor.into_iter().flat_map(|seq| [Scope::Run, Scope::Session].map(|of| Caller::Raise(seq, of))),
        );
        willing.retain(|caller| !self.answers.contains_key(caller) && !self.waiting.contains(caller));
        willing
    }

    /// What the sender of a message would do about it and its run.
    fn senders(&self, index: usize, view: &View, plan: &Plan, willing: &mut Vec<Caller>) {
        let script = &plan.workload.runs[index];
        let run = RunId::from(message_id(index));
        let before = index.checked_sub(1);
        let may_send = before.is_none_or(|before| match script.after {
            After::Accepted => self.answers.contains_key(&Caller::Message(before)),
            After::Ended => view.is_over(message_id(before).into()),
        });
        // A session that needs a human accepts no message.
        if may_send && view.trouble.is_none() {
            willing.push(Caller::Message(index));
        }
        if !self.answers.contains_key(&Caller::Message(index)) {
            return;
        }
        match script.again {
            Some(Again::Same | Again::Key) => willing.push(Caller::Repeat(index)),
            Some(Again::Conflict) => willing.push(Caller::Conflict(index)),
            None => {}
        }
        if script.cancel && !view.begun.contains(&run) {
            willing.push(Caller::Cancel(index));
        }
        if view.is_over(run) {
            return;
        }
        if script.abort.is_some_and(|when| view.has_come(when, run)) {
            willing.push(Caller::Abort(index));
        }
        if script.pause.is_some_and(|pause| view.has_come(pause.when, run)) {
            willing.push(Caller::Pause(index));
        }
    }

    /// The command of this caller.
    pub fn ask(&mut self, caller: Caller, view: &View, plan: &Plan) -> Command {
        self.waiting.insert(caller);
        let fingerprint = |call: &CallId| view.asks.get(call).copied().unwrap_or(Hash([0; 32]));
        match caller {
            Caller::Message(index) => message(index, message_id(index), plan, ""),
            Caller::Repeat(index) => match plan.workload.runs[index].again {
                Some(Again::Key) => message(index, another_id(index), plan, ""),
                _ => message(index, message_id(index), plan, ""),
            },
            Caller::Conflict(index) => message(index, another_id(index), plan, " Or not."),
            Caller::Cancel(index) => Command::Cancel { message: message_id(index), leg: None },
            Caller::Mistake(call) => {
                let fingerprint = Hash::of(&fingerprint(&call).0);
                Command::Answer { call, fingerprint, decision: Decision::ONCE, by: "another terminal".into() }
            }
            Caller::Leave(call) => Command::Answer {
                call,
                fingerprint: fingerprint(&call),
                decision: match plan.seed.leave {
                    Leave::Given | Leave::Mistaken | Leave::Edited if plan.is_question(&fingerprint(&call)) => {
                        Decision::Answered { text: Content::text(BodyKind::Output, "the second") }
                    }
                    Leave::Denied => Decision::DENY,
                    Leave::Edited => Decision::Once { edited: plan.edited(&fingerprint(&call)).map(edited) },
                    Leave::Given | Leave::Mistaken | Leave::Never => Decision::ONCE,
                },
                by: "the terminal".into(),
            },
            Caller::Pause(_) => Command::Pause { run: None, freeze: false },
            Caller::Resume(_) => {
                let then = view.run.and_then(|run| plan.script_of(run)).and_then(|run| plan.workload.runs[run].pause);
                Command::Resume { run: None, drop: then.is_some_and(|pause| pause.then == Then::Dropped) }
            }
            Caller::Abort(index) => Command::Abort { run: Some(message_id(index).into()) },
            Caller::Repair(_) => Command::Recover { force: true },
            Caller::Raise(_, scope) => {
                Command::Budget { scope, change: Allowance { tokens: ENOUGH, calls: ENOUGH, ..Allowance::default() } }
            }
        }
    }

    /// Handles the answer to a caller. If the session could not record the request, or needs a human first, the caller
    /// asks again.
    pub fn answered(
        &mut self,
        caller: Caller,
        answer: Result<Acknowledgement, Refusal>,
        at: Timestamp,
    ) -> Result<(), Violation> {
        self.waiting.remove(&caller);
        let later = match &answer {
            Err(Refusal::Unavailable { .. }) => true,
            Err(Refusal::State { .. } | Refusal::NeedsHuman { .. }) => {
                matches!(caller, Caller::Message(_) | Caller::Leave(_) | Caller::Mistake(_) | Caller::Abort(_))
            }
            _ => false,
        };
        if later {
            return Ok(());
        }
        let fits = match (caller, &answer) {
            (Caller::Mistake(_), answer) => {
                Invariant::Leave.holds(answer.is_err(), || format!("{caller:?} was taken"))?;
                true
            }
            (Caller::Conflict(_), Ok(_)) => {
                return Err(Invariant::SameKey.violated(format!("{caller:?} was taken")));
            }
            (Caller::Conflict(index), Err(Refusal::Conflict { run, .. })) => *run == message_id(index).into(),
            (Caller::Abort(_) | Caller::Cancel(_), Err(Refusal::NotFound { .. }))
            | (Caller::Leave(_), Err(Refusal::Stale))
            | (
                Caller::Pause(_) | Caller::Resume(_) | Caller::Repair(_) | Caller::Raise(..),
                Err(Refusal::State { .. }),
            ) => true,
            (_, answer) => answer.is_ok(),
        };
        Invariant::Acknowledged.holds(fits, || format!("{caller:?} was refused: {answer:?}"))?;
        self.answers.insert(caller, Answered { answer, at });
        Ok(())
    }
}

/// The entry that paused a run which someone resumes.
fn held(view: &View, plan: &Plan) -> Option<Seq> {
    let run = view.run.and_then(|run| plan.script_of(run));
    view.held.filter(|_| run.is_none_or(|run| !plan.stays_held(run)))
}

/// The same message with another id.
fn another_id(index: usize) -> MessageId {
    MessageId(Uuid::from_u128(0x200 + index as u128))
}

fn to_route() -> Address {
    Address { channel: ROUTE.to_owned(), ..Address::default() }
}

fn message(index: usize, message: MessageId, plan: &Plan, more: &str) -> Command {
    let text = format!("{}{more}", plan.workload.runs[index].message);
    Command::Message {
        message,
        content: Content::text(BodyKind::Message, &text),
        mode: None,
        queue: QueueSettings::default(),
        key: Some(message_key(index)),
        overrides: Overrides::default(),
        attachments: vec![],
        options: SenderOptions {
            reply_to: plan.workload.route.map(|_| Box::new(to_route())),
            ..SenderOptions::default()
        },
    }
}
