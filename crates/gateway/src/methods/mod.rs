//! The methods of the protocol, one file for each method or family. Their names, parameters and results are in the
//! protocol's table.

mod acting;
pub mod reading;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use protocol::deprecated::{Deprecated, Surface};
use protocol::method::{
    Agent, AgentWait, ApprovalsResolve, ApprovalsRevoke, BudgetSet, DeliveriesDrop, DeliveriesRetry, EventsSubscribe,
    EventsUnsubscribe, HealthGet, METHODS, Method, MethodSpec, NoParams, OwnerHandover, ProfilesClear, ProfilesUse,
    QuestionsAnswer, QueueCancel, QueueClear, QueueMode, RunsAbort, RunsBreak, RunsPause, RunsRecord, RunsResume,
    RunsUndo, SessionsCleanup, SessionsCompact, SessionsDelete, SessionsEnd, SessionsLabel, SessionsResume,
    SessionsUncompact,
};
use protocol::{ErrorShape, Request, Response, Scope};
use runtime::watchdog;
use serde_json::Value;

use crate::connection::{Caller, ReadPermit};
use crate::error::Error;

pub use acting::{ChatCommand, before, chat_command, states};
pub(crate) use acting::{chat_commands, erase, health, reading, terminate_idle};

/// Runs a request and sends its response.
pub(crate) async fn carry_out(caller: Arc<Caller>, request: Request) {
    let Request { id, method, params } = request;
    let known = METHODS.iter().find(|known| known.name == method).map_or("of an unknown method", |known| known.name);
    let what: Arc<str> = format!("the request `{known}` of client {}", caller.number).into();
    let mut permit = None;
    let answered = {
        let mut answering = pin!(answer(&caller, &id, (&method, params), &mut permit));
        poll_fn(|context| watchdog::poll(&what, answering.as_mut(), context)).await
    };
    let answered = match answered {
        Ok(Some(payload)) => Response::ok(id, payload),
        Ok(None) => return,
        Err(error) => Response::failed(id, error),
    };
    caller.respond_with_any(answered).await;
}

/// The result of the method; `None` if it has sent its responses itself. What permits a large result is held until the result
/// is on its way.
#[expect(clippy::too_many_lines, reason = "a line for each method that acts")]
async fn answer<'a>(
    caller: &'a Arc<Caller>,
    id: &str,
    (method, params): (&str, Value),
    permit: &mut Option<ReadPermit<'a>>,
) -> Result<Option<Value>, ErrorShape> {
    let method = new_name(caller, method);
    let refused = |known: &&MethodSpec| known.name == method && !known.is_allowed(caller.scopes);
    if let Some(known) = METHODS.iter().find(refused) {
        must_allow(caller, known.name, known.scope)?;
    }
    if let Err(refused) = may_use(caller, method) {
        acting::record_refusal(caller, method, params).await;
        return Err(refused.into());
    }
    let result = match method {
        HealthGet::NAME => {
            let NoParams {} = self::params::<HealthGet>(params)?;
            encoded::<HealthGet>(acting::health(&caller.service))
        }
        OwnerHandover::NAME => {
            let NoParams {} = self::params::<OwnerHandover>(params)?;
            encoded::<OwnerHandover>(acting::hand_over(caller)?)
        }
        Agent::NAME => {
            let message = self::params::<Agent>(params)?;
            // It approves all of its calls, or leaves out what confines them.
            if message.allow {
                must_allow(caller, Agent::NAME, Scope::Approve)?;
            }
            // Where a run works decides what it may do there without a question.
            if message.no_sandbox || message.workspace.is_some() || message.root.is_some() {
                must_allow(caller, Agent::NAME, Scope::Admin)?;
            }
            encoded::<Agent>(acting::agent(caller, id, message, permit).await?)
        }
        AgentWait::NAME => {
            encoded::<AgentWait>(acting::wait(caller, self::params::<AgentWait>(params)?, permit).await?)
        }
        RunsAbort::NAME => encoded::<RunsAbort>(acting::abort(caller, self::params::<RunsAbort>(params)?).await?),
        RunsPause::NAME => encoded::<RunsPause>(acting::pause(caller, self::params::<RunsPause>(params)?).await?),
        RunsResume::NAME => {
            encoded::<RunsResume>(acting::resume_run(caller, self::params::<RunsResume>(params)?).await?)
        }
        RunsRecord::NAME => {
            let NoParams {} = self::params::<RunsRecord>(params)?;
            encoded::<RunsRecord>(acting::record(&caller.service).await?)
        }
        RunsUndo::NAME => encoded::<RunsUndo>(acting::undo(caller, self::params::<RunsUndo>(params)?).await?),
        RunsBreak::NAME => encoded::<RunsBreak>(acting::break_at(caller, self::params::<RunsBreak>(params)?).await?),
        SessionsResume::NAME => {
            encoded::<SessionsResume>(acting::resume(caller, self::params::<SessionsResume>(params)?).await?)
        }
        SessionsCompact::NAME => {
            encoded::<SessionsCompact>(acting::compact(caller, self::params::<SessionsCompact>(params)?).await?)
        }
        SessionsUncompact::NAME => {
            encoded::<SessionsUncompact>(acting::uncompact(caller, self::params::<SessionsUncompact>(params)?).await?)
        }
        SessionsCleanup::NAME => {
            encoded::<SessionsCleanup>(acting::cleanup(caller, self::params::<SessionsCleanup>(params)?).await?)
        }
        SessionsEnd::NAME => {
            encoded::<SessionsEnd>(acting::terminate(caller, self::params::<SessionsEnd>(params)?).await?)
        }
        SessionsLabel::NAME => {
            encoded::<SessionsLabel>(acting::label(caller, self::params::<SessionsLabel>(params)?).await?)
        }
        SessionsDelete::NAME => {
            encoded::<SessionsDelete>(acting::delete(caller, self::params::<SessionsDelete>(params)?).await?)
        }
        QueueCancel::NAME => {
            encoded::<QueueCancel>(acting::cancel(caller, self::params::<QueueCancel>(params)?).await?)
        }
        QueueClear::NAME => encoded::<QueueClear>(acting::clear(caller, self::params::<QueueClear>(params)?).await?),
        QueueMode::NAME => encoded::<QueueMode>(acting::mode(caller, self::params::<QueueMode>(params)?).await?),
        ProfilesUse::NAME => {
            encoded::<ProfilesUse>(acting::use_profile(caller, self::params::<ProfilesUse>(params)?).await?)
        }
        ProfilesClear::NAME => {
            encoded::<ProfilesClear>(acting::clear_profiles(caller, self::params::<ProfilesClear>(params)?).await?)
        }
        BudgetSet::NAME => encoded::<BudgetSet>(acting::set_budget(caller, self::params::<BudgetSet>(params)?).await?),
        ApprovalsRevoke::NAME => {
            encoded::<ApprovalsRevoke>(acting::revoke_grant(caller, self::params::<ApprovalsRevoke>(params)?).await?)
        }
        ApprovalsResolve::NAME => encoded::<ApprovalsResolve>(
            acting::resolve_approval(caller, self::params::<ApprovalsResolve>(params)?).await?,
        ),
        QuestionsAnswer::NAME => {
            encoded::<QuestionsAnswer>(acting::answer_question(caller, self::params::<QuestionsAnswer>(params)?).await?)
        }
        DeliveriesRetry::NAME => {
            encoded::<DeliveriesRetry>(acting::retry_delivery(caller, self::params::<DeliveriesRetry>(params)?).await?)
        }
        DeliveriesDrop::NAME => {
            encoded::<DeliveriesDrop>(acting::drop_delivery(caller, self::params::<DeliveriesDrop>(params)?).await?)
        }
        EventsSubscribe::NAME => {
            acting::subscribe(caller, id, self::params::<EventsSubscribe>(params)?).await?;
            return Ok(None);
        }
        EventsUnsubscribe::NAME => {
            encoded::<EventsUnsubscribe>(acting::unsubscribe(caller, &self::params::<EventsUnsubscribe>(params)?)?)
        }
        method if reading::only_reads(method) => return read(caller, (method, params), permit).await.map(Some),
        _ => return Err(unknown(method)),
    };
    Ok(Some(result))
}

/// The name that replaced an old one, of which the user is warned.
fn new_name<'a>(caller: &Caller, method: &'a str) -> &'a str {
    match Deprecated::find(Surface::Method, method) {
        Some(row) => {
            caller.service.warn(row);
            row.new
        }
        None => method,
    }
}

/// Refuses what a client has no scope for.
fn must_allow(caller: &Caller, method: &'static str, scope: Scope) -> Result<(), Error> {
    if caller.scopes.allow(scope) { Ok(()) } else { Err(Error::Forbidden { method, scope }) }
}

/// Refuses what acts to a client inside a tool call: a command is not the user.
fn may_use(caller: &Caller, method: &str) -> Result<(), Error> {
    // A command that owns the home itself has no peer; it answers no question of the call that it is inside.
    let answers = [ApprovalsResolve::NAME, ApprovalsRevoke::NAME, QuestionsAnswer::NAME].contains(&method)
        && caller.peer.is_none();
    let answers_itself = || answers && tools::is_here_in_call_of(&caller.service.home().join("calls"));
    if acts(method) && caller.is_in_call() || answers_itself() {
        return Err(Error::State {
            what: format!("a process inside a tool call may not use `{method}` on the home that the call belongs to"),
            hint: "run it outside of the agent, for example in a terminal".to_owned(),
        });
    }
    Ok(())
}

/// Whether a method changes anything. `owner.handover` has a refusal of its own.
fn acts(method: &str) -> bool {
    let waits = [HealthGet::NAME, AgentWait::NAME, EventsSubscribe::NAME, EventsUnsubscribe::NAME, OwnerHandover::NAME];
    METHODS.iter().any(|known| known.name == method) && !waits.contains(&method) && !reading::only_reads(method)
}

async fn read<'a>(
    caller: &'a Caller,
    (method, params): (&str, Value),
    permit: &mut Option<ReadPermit<'a>>,
) -> Result<Value, ErrorShape> {
    *permit = Some(caller.permit_to_read().await);
    let service = &caller.service;
    let (home, journal) = (Arc::clone(service.home()), Arc::clone(service.runtime.journal()));
    let full = service.runtime.disk_full_waits().borrow().keys().cloned().collect();
    let known = (service.runtime.waits(), full, service.runtime.resolver().agents());
    reading::answer(home, journal, known, (method.to_owned(), params)).await
}

fn encoded<M: Method>(result: M::Result) -> Value {
    M::result_to_json(result)
}

/// The parameters of a request.
pub(crate) fn params<M: Method>(params: Value) -> Result<M::Params, ErrorShape> {
    // Absent parameters are the defaults.
    let params = if params.is_null() { Value::Object(serde_json::Map::new()) } else { params };
    M::params_from_json(params).map_err(|error| {
        let what = format!("invalid parameters of `{}`: {error}", M::NAME);
        Error::invalid(what, "docs/protocol.md lists them").shape()
    })
}

fn unknown(method: &str) -> ErrorShape {
    let names: Vec<&str> = METHODS.iter().map(|method| method.name).collect();
    Error::invalid(format!("unknown method `{method}`"), format!("the methods are: {}", names.join(", "))).shape()
}
