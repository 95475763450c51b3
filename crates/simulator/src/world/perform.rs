//! How the simulated runtime carries out an effect, step by step. Everything here dies with the process.

use std::collections::{BTreeSet, VecDeque};

use engine::{
    AnswerForm, Body, BodyKind, Call, CallId, CallOutcome, Content, DeliveryFault, Effect, EffectId, Erased, Hash,
    Item, Part, PlanItem, PlanStatus, Policy, Report, Session, ToolResult, UserQuestion,
};

use super::Outside;
use super::model::{self, Asking, Cause, Reply, ReplyEnd};
use super::tools::Record;
use crate::checkers::chain;
use crate::invariant::{Invariant, Violation};
use crate::plan::Planned;
use crate::workload::{CallOf, Ends, Life};

/// An effect in progress.
#[derive(Debug)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub enum Performer {
    /// All of its reports are known.
    Known(VecDeque<Report>),
    /// A request.
    Request(Reply),
    /// A call in the runtime's process.
    InProcess {
        call: CallId,
        arguments: Body,
        /// The number of steps so far.
        steps: usize,
    },
    /// A supervised command that the runtime watches.
    Watched {
        arguments: Body,
        /// Bytes of its output that are recorded.
        reported: u64,
    },
    /// A look-up of a call.
    Find {
        call: CallId,
        /// The effect that ran it.
        started: EffectId,
        arguments: Body,
    },
    /// The end of a call.
    End {
        call: CallId,
        /// The effect that runs it.
        started: EffectId,
        arguments: Body,
    },
    /// A try to deliver something, and whether it has arrived.
    Delivery(bool),
    /// A process that is observed.
    Held(EffectId),
    /// A process that is being ended.
    Ending(EffectId),
}

/// The result of a step.
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Stepped {
    pub name: &'static str,
    /// What it reports; `None` if nothing.
    pub report: Option<Report>,
    /// Whether it was the last step.
    pub last: bool,
}

impl Performer {
    /// Starts an effect; `None` if its call has been settled since.
    pub fn start(effect: &Effect, outside: &mut Outside, session: &Session) -> Result<Option<Self>, Violation> {
        let call_of = |id: CallId| session.run().and_then(|run| run.call(id));
        let started = match effect {
            Effect::Lane { id, .. } => {
                let settings = outside.plan.settings.clone();
                Some(Self::Known([Report::LaneEntered { effect: *id, settings, cooling: vec![] }].into()))
            }
            Effect::Prepare { id } => {
                let prompt = Content::text(BodyKind::Prompt, "You are simulated.");
                Some(Self::Known([Report::Prepared { effect: *id, prompt }].into()))
            }
            Effect::Reserve { id, .. } => Some(Self::Known([Report::Reserved { effect: *id, near: None }].into())),
            Effect::Request { id, candidate, thinking, items, .. } => {
                let items = session.conversation.transcript.items().get(..*items as usize).unwrap_or_default();
                let asking = Asking { request: *id, candidate: *candidate, thinking: *thinking, items };
                Some(request(asking, outside)?)
            }
            Effect::Compact { id, items, .. } => Some(compact(*id, *items, outside, session)?),
            Effect::Deliver { .. } => Some(Self::Delivery(false)),
            Effect::Title { id, .. } => Some(Self::Known([model::title(*id)].into())),
            Effect::CheckCall { id, call } => call_of(*call).map(|call| check(*id, call, outside)).transpose()?,
            Effect::RunCall { id, call } => call_of(*call).map(|call| run(*id, call, outside)).transpose()?,
            Effect::FindCall { call, started, .. } => {
                call_of(*call).map(|known| Self::Find { call: *call, started: *started, arguments: known.arguments })
            }
            Effect::EndCall { call, started, .. } => {
                call_of(*call).map(|known| Self::End { call: *call, started: *started, arguments: known.arguments })
            }
            // Nothing is frozen here: a running call reports when it is resumed.
            Effect::FreezeCall { .. } => None,
            Effect::Report { id, .. } => Some(Self::Known([Report::Reported { effect: *id }].into())),
            Effect::Erase { id, .. } => {
                Some(Self::Known([Report::Erased { effect: *id, result: Ok(Erased::default()) }].into()))
            }
            Effect::Undo { id, .. } => Some(Self::Known([Report::Undone { effect: *id, left: vec![] }].into())),
            Effect::HoldProcess { process, .. } => Some(Self::Held(*process)),
            Effect::EndProcess { process, .. } => Some(Self::Ending(*process)),
        };
        Ok(started)
    }

    /// Whether it can take a step now.
    pub fn is_ready(&self, effect: EffectId, outside: &Outside) -> bool {
        let ends = |arguments: &Body| outside.plan.call(&arguments.hash).map(|planned| planned.ends);
        match self {
            Self::Request(reply) => !reply.reports.is_empty(),
            Self::InProcess { arguments, steps, .. } => {
                *steps < 2 || matches!(ends(arguments), None | Some(Ends::Done | Ends::Failed))
            }
            Self::End { arguments, .. } => ends(arguments) != Some(Ends::Stubborn),
            Self::Watched { arguments, reported } => watched(effect, arguments, *reported, outside).is_some(),
            Self::Held(process) => outside.tools.ended(*process, &outside.plan).is_some(),
            Self::Known(_) | Self::Find { .. } | Self::Delivery(_) | Self::Ending(_) => true,
        }
    }

    /// Performs the next step of a running effect.
    pub fn step(&mut self, effect: EffectId, outside: &mut Outside) -> Stepped {
        match self {
            Self::Known(reports) => {
                let report = reports.pop_front();
                Stepped { name: known_name(report.as_ref()), report, last: reports.is_empty() }
            }
            Self::Request(reply) => says(effect, reply, outside),
            Self::InProcess { call, arguments, steps } => {
                *steps += 1;
                in_process(effect, (*call, *arguments), *steps, outside)
            }
            Self::Watched { arguments, reported } => {
                let report = watched(effect, arguments, *reported, outside);
                let wrote = match &report {
                    Some(Report::CallOutput { text, .. }) => text.len() as u64,
                    _ => 0,
                };
                *reported += wrote;
                Stepped { name: if wrote > 0 { "call_output" } else { "end_run_call" }, report, last: wrote == 0 }
            }
            Self::Find { call, started, arguments } => {
                let Outside { plan, tools, .. } = outside;
                let report = plan.call(&arguments.hash).map(|planned| {
                    let (found, ended) = tools.look_up(*call, *started, planned);
                    Report::CallFound { effect, found, ended }
                });
                Stepped { name: "end_find_call", report, last: true }
            }
            Self::End { call, started, arguments } => {
                let Outside { plan, tools, .. } = outside;
                let report = plan.call(&arguments.hash).map(|planned| {
                    let outcome = tools.end(*call, *started, planned);
                    let output = Content::text(BodyKind::Output, "ended before it was done");
                    Report::CallEnded { effect, given: ToolResult::new(outcome, output) }
                });
                Stepped { name: "end_end_call", report, last: true }
            }
            Self::Delivery(arrived) => deliver(effect, arrived, outside),
            Self::Held(process) => process_ended(effect, *process, "end_hold_process", outside),
            Self::Ending(process) => {
                outside.tools.end_process(*process);
                process_ended(effect, *process, "end_end_process", outside)
            }
        }
    }
}

/// A delivery arrives, or does not, in one step, and the other end answers, or does not, in another one.
fn deliver(effect: EffectId, arrived: &mut bool, outside: &mut Outside) -> Stepped {
    let luck = Hash::of(effect.to_string().as_bytes()).0[0] % 8;
    let failed = |fault| Report::DeliveryFailed { effect, why: "the route is broken".into(), fault };
    if luck == 0 {
        let report = Some(failed(DeliveryFault::Temporary { after_ms: None }));
        return Stepped { name: "fail_deliver", report, last: true };
    }
    if luck == 1 {
        return Stepped { name: "fail_deliver", report: Some(failed(DeliveryFault::Refused)), last: true };
    }
    if !std::mem::replace(arrived, true) {
        outside.arrived.push(effect);
        return Stepped { name: "arrive", report: None, last: false };
    }
    let report = if luck == 2 { failed(DeliveryFault::Unknown) } else { Report::Delivered { effect } };
    Stepped { name: "end_deliver", report: Some(report), last: true }
}

fn process_ended(effect: EffectId, process: EffectId, name: &'static str, outside: &Outside) -> Stepped {
    let ended = outside.tools.ended(process, &outside.plan);
    let report =
        ended.map(|outcome| Report::ProcessEnded { effect, outcome, how: "it is over".into(), changes: vec![] });
    Stepped { name, report, last: true }
}

/// Reports the next piece of an answer.
fn says(effect: EffectId, reply: &mut Reply, outside: &mut Outside) -> Stepped {
    let report = reply.reports.pop_front();
    let spoken = reply.reports.is_empty();
    match (&report, reply.end) {
        (Some(Report::RequestFailed { .. }), ReplyEnd::Fails(failure)) => outside.model.spend(failure),
        (_, ReplyEnd::Silent(failure)) if spoken => falls_silent(effect, failure, outside),
        (Some(Report::RequestEnded { .. }), ReplyEnd::Odd(odd)) => outside.model.spend(odd),
        (Some(Report::RequestEnded { .. }), ReplyEnd::Cut(odd)) => {
            outside.model.spend(odd);
            outside.model.whole.insert(effect);
            outside.model.cut.insert(effect);
        }
        (Some(Report::RequestEnded { .. }), _) => drop(outside.model.whole.insert(effect)),
        _ => {}
    }
    let last = spoken && !matches!(reply.end, ReplyEnd::Silent(_));
    Stepped { name: known_name(report.as_ref()), report, last }
}

fn falls_silent(effect: EffectId, failure: Cause, outside: &mut Outside) {
    outside.model.spend(failure);
    outside.model.silent.insert(effect, outside.now);
}

fn request(asking: Asking<'_>, outside: &mut Outside) -> Result<Performer, Violation> {
    paired(asking.request, asking.items)?;
    each_message_once(asking.request, asking.items)?;
    if outside.plan.workload.candidates.iter().any(|asked| asked.thinking.is_some()) {
        let level = chain::level(&outside.plan, &outside.disk.entries()?);
        Invariant::Chain.holds(asking.thinking == level, || {
            format!("{} is to think {:?}, and by the journal it is {level:?}", asking.request, asking.thinking)
        })?;
    }
    let reply = outside.model.reply(asking, &outside.plan, outside.disk.journal())?;
    if let (ReplyEnd::Silent(failure), true) = (reply.end, reply.reports.is_empty()) {
        falls_silent(asking.request, failure, outside);
    }
    Ok(Performer::Request(reply))
}

/// Summarises these items; a provider accepts them without checking for pairs.
fn compact(id: EffectId, items: u32, outside: &mut Outside, session: &Session) -> Result<Performer, Violation> {
    let items = session.conversation.transcript.items().get(..items as usize).unwrap_or_default();
    let report = outside.model.summarise(id, items, &outside.plan, outside.disk.journal())?;
    Ok(Performer::Known([report].into()))
}

/// Checks that every call has exactly one result before the next message, as providers require.
fn paired(request: EffectId, items: &[Item]) -> Result<(), Violation> {
    let mut open: Vec<CallId> = vec![];
    for item in items {
        let fits = match item {
            Item::Result { call, .. } => {
                let before = open.len();
                open.retain(|waiting| waiting != call);
                open.len() + 1 == before
            }
            Item::User { .. } | Item::Summary { .. } | Item::Note { .. } => open.is_empty(),
            Item::Assistant { calls, .. } => {
                let fits = open.is_empty();
                open.extend(calls.iter().map(|call| call.id));
                fits
            }
        };
        Invariant::Pairing.holds(fits, || format!("{request} holds {item:?} while {open:?} wait for results"))?;
    }
    Invariant::Pairing.holds(open.is_empty(), || format!("{request} holds no result for {open:?}"))
}

/// Checks that each message is in the request once.
pub(crate) fn each_message_once(request: EffectId, items: &[Item]) -> Result<(), Violation> {
    let messages = items.iter().filter_map(|item| match item {
        Item::User { message, .. } => Some(*message),
        _ => None,
    });
    let mut seen = BTreeSet::new();
    let twice = messages.into_iter().find(|message| !seen.insert(*message));
    Invariant::Compaction.holds(twice.is_none(), || format!("{request} holds the message {twice:?} twice"))
}

/// The scripted call that belongs to this call. Nobody asked for a call with other arguments.
fn planned_of<'a>(call: &Call, outside: &'a Outside) -> Result<&'a Planned, Violation> {
    let unknown =
        || Invariant::Arguments.violated(format!("{} has arguments that the model never gave whole", call.id));
    outside.plan.call(&call.arguments.hash).ok_or_else(unknown)
}

fn check(effect: EffectId, call: &Call, outside: &Outside) -> Result<Performer, Violation> {
    if outside.plan.wrong_call(&call.arguments.hash).is_some() {
        let (fingerprint, reason) = (call.arguments.hash, Some("no such call can be made".to_owned()));
        let report = Report::CallChecked {
            effect,
            decision: Policy::Deny,
            fingerprint,
            evidence: None,
            reason,
            timeout_ms: None,
            grant: None,
            question: None,
        };
        return Ok(Performer::Known([report].into()));
    }
    let planned = planned_of(call, outside)?;
    let (decision, reason) = match (outside.plan.may_run(planned), planned.asks) {
        (false, _) => (Policy::Deny, Some("this run makes a plan".to_owned())),
        (true, true) => (Policy::Ask, Some(format!("may {} run?", planned.tool))),
        (true, false) => (Policy::Allow, None),
    };
    let report = Report::CallChecked {
        effect,
        decision,
        fingerprint: planned.fingerprint(),
        evidence: None,
        reason,
        timeout_ms: None,
        grant: None,
        question: (planned.of == CallOf::Question)
            .then(|| UserQuestion { text: "which?".to_owned(), takes: AnswerForm::Choice }),
    };
    Ok(Performer::Known([report].into()))
}

fn run(effect: EffectId, call: &Call, outside: &mut Outside) -> Result<Performer, Violation> {
    planned_of(call, outside)?;
    let Outside { plan, tools, .. } = outside;
    let arguments = call.arguments;
    match plan.call(&arguments.hash).filter(|planned| planned.life == Life::Supervised) {
        None => Ok(Performer::InProcess { call: call.id, arguments, steps: 0 }),
        Some(planned) => {
            tools.spawn(call.id, effect, planned);
            Ok(Performer::Watched { arguments, reported: call.output_bytes })
        }
    }
}

/// A step of a call in the process: it starts, writes output, finishes, and is reported.
fn in_process(effect: EffectId, (call, arguments): (CallId, Body), step: usize, outside: &mut Outside) -> Stepped {
    let Outside { plan, tools, disk, .. } = outside;
    let Some(planned) = plan.call(&arguments.hash) else {
        return Stepped { name: "end_run_call", report: None, last: true };
    };
    match step {
        1 => {
            tools.begin(call, effect, planned, disk);
            Stepped { name: "call_began", report: None, last: false }
        }
        2 => {
            let report = Report::CallOutput { effect, offset: 0, text: planned.output[0].clone() };
            Stepped { name: "call_output", report: Some(report), last: false }
        }
        3 => {
            tools.done.insert(call);
            Stepped { name: "call_did", report: None, last: false }
        }
        _ => Stepped { name: "end_run_call", report: Some(done(effect, planned)), last: true },
    }
}

fn done(effect: EffectId, planned: &Planned) -> Report {
    let plan = (planned.of == CallOf::Plan && planned.outcome() == CallOutcome::Done).then(|| {
        let item = |step: &str, status| PlanItem { step: step.to_owned(), status };
        vec![item("look", PlanStatus::Done), item(&planned.arguments, PlanStatus::InProgress)]
    });
    Report::CallEnded { effect, given: ToolResult { plan, ..ToolResult::new(planned.outcome(), planned.result()) } }
}

/// The next change that a watcher of a command sees, if there is one.
fn watched(effect: EffectId, arguments: &Body, reported: u64, outside: &Outside) -> Option<Report> {
    let planned = outside.plan.call(&arguments.hash)?;
    let record = outside.tools.commands.get(&effect).map(|command| command.record);
    let written = match record {
        Some(Record::Running { pieces }) => planned.output[..pieces].concat(),
        Some(Record::Exited) => planned.output.concat(),
        _ => String::new(),
    };
    if let Some(text) = written.get(reported as usize..).filter(|text| !text.is_empty()) {
        return Some(Report::CallOutput { effect, offset: reported, text: text.to_owned() });
    }
    let outcome = match record {
        Some(Record::Running { pieces }) => {
            let given = planned.background_result(pieces)?;
            return Some(Report::CallEnded { effect, given });
        }
        Some(Record::Spawned) => return None,
        Some(Record::Exited) => return Some(done(effect, planned)),
        Some(Record::Died) => CallOutcome::Interrupted,
        Some(Record::Killed | Record::Barred) | None => CallOutcome::Failed,
    };
    let output = Content::text(BodyKind::Output, "it is not running any more");
    Some(Report::CallEnded { effect, given: ToolResult::new(outcome, output) })
}

fn known_name(report: Option<&Report>) -> &'static str {
    match report {
        Some(Report::LaneEntered { .. }) => "end_lane",
        Some(Report::Prepared { .. }) => "end_prepare",
        Some(Report::Reported { .. }) => "end_report",
        Some(Report::RequestOpened { .. }) => "request_opened",
        Some(Report::Streamed { part: Part::Call { .. }, .. }) => "call_part",
        Some(Report::Streamed { .. }) => "text",
        Some(Report::RequestEnded { .. }) => "end_request",
        Some(Report::RequestFailed { .. }) => "fail_request",
        Some(Report::CallChecked { .. }) => "end_check_call",
        _ => "nothing",
    }
}
