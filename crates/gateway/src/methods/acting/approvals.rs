//! `approvals.resolve`: answers an approval request. The first answer counts. `approvals.revoke`: takes back what was allowed
//! for good.

use std::sync::Arc;

use engine::policy::PolicyRule;
use engine::{
    AnswerRefusal, ApprovalGrant, ApprovalRow, BodyKind, CallId, Command, Content, Decision, EditedCall, Hash, Refusal,
    SessionRow,
};
use journal::Journal;
use protocol::method::{
    AlwaysParams, AlwaysScope, AnswerParams, ApprovalsResolve, GrantShown, Method as _, NoResult, QuestionsAnswer,
    RevokeParams,
};
use serde_json::Value;
use views::approvals::{self, AskKind};

use super::end::reading;
use crate::connection::Caller;
use crate::error::Error;
use crate::methods::params as params_of;
use crate::service::Service;

/// Bytes of a reason: the model receives it.
pub(super) const REASON_BYTES: usize = 8_000;
/// Patterns of a grant, which every call of its scope is compared with.
const PATTERNS: usize = 64;
/// Bytes of a pattern.
const PATTERN_BYTES: usize = 1_000;

pub(in crate::methods) async fn resolve_approval(
    caller: &Arc<Caller>,
    params: AnswerParams,
) -> Result<NoResult, Error> {
    check(&params)?;
    let (service, call, by) = (&caller.service, params.call, who(caller));
    let row = session_of(service, call)?;
    if params.always.is_none() && params.arguments.is_none() {
        // What its client sends behind it is for the run as it is then, so it waits for nothing.
        return answer(service, &row, params, &by).await;
    }
    // A client that goes meanwhile leaves no grant without its answer.
    let service = Arc::clone(service);
    let answering = tokio::spawn(async move {
        let AnswerParams { call, fingerprint, .. } = params;
        let open = reading(&service, move |journal| Ok(open_request(journal, call, fingerprint))).await?;
        if let Err((why, error)) = open {
            refuse(&service, &row, Command::RefuseAnswer { call, by, why }).await;
            return Err(error);
        }
        answer(&service, &row, params, &by).await
    });
    answering.await.unwrap_or_else(|error| Err(Error::Bug { what: error.to_string() }))
}

/// The session of a call that asks.
pub(super) fn session_of(service: &Arc<Service>, call: CallId) -> Result<SessionRow, Error> {
    // A request of an earlier owner is in the journal alone.
    let key = match service.approvals.session_of(call) {
        Some(key) => key,
        None => service.runtime.journal().session_of_run(call.run)?.ok_or(Refusal::Stale)?.key,
    };
    super::session(service, &key)
}

async fn answer(service: &Arc<Service>, row: &SessionRow, params: AnswerParams, by: &str) -> Result<NoResult, Error> {
    let AnswerParams { call, fingerprint, .. } = params;
    let decision = decision(service, row, params, by).await?;
    let granted = if let Decision::Always { grant } = &decision { Some(*grant) } else { None };
    let answered = super::ask(service, row, Command::Answer { call, fingerprint, decision, by: by.to_owned() }).await;
    if answered.is_err()
        && let Some(grant) = granted
    {
        service.runtime.revoke_grant(grant, by.to_owned()).await?;
    }
    match answered {
        Ok(_) => {
            if let Some(grant) = granted {
                // The answer is recorded, whatever becomes of others.
                let _ = answer_others(service, grant, by).await;
            }
            Ok(NoResult {})
        }
        // The session has recorded it.
        Err(Error::Refusal(Refusal::Stale)) => {
            let open = reading(service, move |journal| Ok(open_request(journal, call, fingerprint))).await?;
            Err(open.err().map_or_else(|| Refusal::Stale.into(), |(_, error)| error))
        }
        Err(error) => Err(error),
    }
}

/// Has the session record an answer that was refused before it came there. What cannot be recorded is refused as well.
pub(super) async fn refuse(service: &Arc<Service>, row: &SessionRow, refused: Command) {
    let _ = super::ask(service, row, refused).await;
}

/// Records that a command of a call has tried to answer, which it may not.
pub(in crate::methods) async fn record_refusal(caller: &Arc<Caller>, method: &str, params: Value) {
    let call = match method {
        ApprovalsResolve::NAME => params_of::<ApprovalsResolve>(params).map(|params| params.call),
        QuestionsAnswer::NAME => params_of::<QuestionsAnswer>(params).map(|params| params.call),
        _ => return,
    };
    // What names no call of a session is an answer to nothing.
    let Some(row) = call.as_ref().ok().and_then(|call| session_of(&caller.service, *call).ok()) else { return };
    let Ok(call) = call else { return };
    let by = format!("a command of a call, process {}", caller.process());
    refuse(&caller.service, &row, Command::RefuseAnswer { call, by, why: AnswerRefusal::InCall }).await;
}

/// What a grant allows is asked no longer: other open requests that it covers are answered by it.
async fn answer_others(service: &Arc<Service>, id: CallId, by: &str) -> Result<(), Error> {
    let Some(grant) = service.runtime.grants().into_iter().find(|grant| grant.id == id) else { return Ok(()) };
    let covered = reading(service, move |journal| Ok(covered(journal, &grant)?)).await?;
    for (row, call, fingerprint) in covered {
        let by = format!("{by}, who approved all such calls");
        let command = Command::Answer { call, fingerprint, decision: Decision::Always { grant: id }, by };
        // One that was answered meanwhile, or whose session needs a human, stays as it is.
        let _ = super::ask(service, &row, command).await;
    }
    Ok(())
}

/// The open requests that a grant covers, with their sessions.
fn covered(journal: &dyn Journal, grant: &ApprovalGrant) -> Result<Vec<(SessionRow, CallId, Hash)>, views::Error> {
    let mut covered = vec![];
    for row in approvals::open(journal, None)? {
        let Some((session, fingerprint)) = journal.session_of_run(row.call.run)?.zip(row.fingerprint) else { continue };
        if !grant.holds(session.session, &session.agent) {
            continue;
        }
        let call = approvals::call_of(journal, &row)?;
        let allows = |(settings, tool, arguments): &(engine::Settings, String, Vec<u8>)| {
            tools::allows(settings, &grant.rule, tool, arguments)
        };
        if call.as_ref().is_some_and(allows) {
            covered.push((session, row.call, fingerprint));
        }
    }
    Ok(covered)
}

/// Refuses an answer to a request that is closed, or to another one.
fn open_request(journal: &dyn Journal, call: CallId, fingerprint: Hash) -> Result<(), (AnswerRefusal, Error)> {
    let row = asked_of(journal, call).map_err(|error| (AnswerRefusal::Closed, error))?;
    let Some(row) = row else { return Ok(()) };
    if row.allowed.is_some() {
        return Err((AnswerRefusal::Closed, already(&row)));
    }
    if row.fingerprint.is_some_and(|of| of != fingerprint) {
        let what =
            format!("the approval request {} has another fingerprint: that answer is not for it", approvals::id(call));
        let error = Error::State { what, hint: "`limulus approvals show` shows the call as it is".to_owned() };
        return Err((AnswerRefusal::Fingerprint, error));
    }
    Ok(())
}

pub(in crate::methods) async fn revoke_grant(caller: &Arc<Caller>, params: RevokeParams) -> Result<GrantShown, Error> {
    let service = &caller.service;
    let grants = service.runtime.grants();
    let mut found =
        grants.iter().filter(|grant| !params.id.is_empty() && approvals::id(grant.id).starts_with(&params.id));
    let none = || {
        let hint = "`limulus approvals grants` lists them";
        Error::not_found(format!("there is no grant `{}`", params.id), hint)
    };
    let grant = match (found.next(), found.next()) {
        (Some(grant), None) => grant.clone(),
        (None, _) => return Err(none()),
        (Some(_), Some(_)) => {
            let hint = "`limulus approvals grants` shows their ids";
            return Err(Error::invalid(format!("several grants begin with `{}`", params.id), hint));
        }
    };
    let id = grant.id;
    let shown = reading(service, move |journal| Ok(approvals::grants(journal, [&grant].into_iter())?)).await?;
    if !service.runtime.revoke_grant(id, who(caller)).await? {
        return Err(none());
    }
    shown.into_iter().next().ok_or_else(none)
}

pub(super) fn who(caller: &Caller) -> String {
    let place = if caller.client.mode == "cli" { "on the terminal" } else { "in" };
    format!("the user, {place} {}, process {}", caller.client.id, caller.process())
}

/// Refuses what contradicts itself.
fn check(params: &AnswerParams) -> Result<(), Error> {
    let of_approval = params.always.is_some() || params.arguments.is_some();
    if !params.allow && of_approval {
        return Err(Error::invalid("a denial has no scope and no arguments", "send `reason` alone, or `allow` = true"));
    }
    if params.allow && params.reason.is_some() {
        return Err(Error::invalid("`reason` says why a call may not run", "send it with `allow` = false"));
    }
    if params.always.is_some() && params.arguments.is_some() {
        let hint = "approve the changed call once; the next one like it is asked about";
        return Err(Error::invalid("arguments are changed for one call", hint));
    }
    if params.reason.as_ref().is_some_and(|reason| reason.len() > REASON_BYTES) {
        return Err(Error::invalid(format!("the reason has more than {REASON_BYTES} bytes"), "shorten it"));
    }
    Ok(())
}

/// The request for this call, open or closed.
fn asked_of(journal: &dyn Journal, call: CallId) -> Result<Option<ApprovalRow>, Error> {
    match approvals::find(journal, &call.to_string(), AskKind::Approval) {
        Ok(row) => Ok(Some(row)),
        Err(views::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn already(row: &ApprovalRow) -> Error {
    let what = match (&row.by, row.allowed) {
        (Some(by), Some(true)) => format!("already approved by {by}"),
        (Some(by), _) => format!("already denied by {by}"),
        (None, _) => "already closed: its time was over, or its call or run has ended".to_owned(),
    };
    Error::State { what, hint: "the first answer counts; `limulus approvals list` shows the open requests".to_owned() }
}

/// The decision that the parameters stand for. A grant is recorded before the answer that gives it.
async fn decision(service: &Arc<Service>, row: &SessionRow, params: AnswerParams, by: &str) -> Result<Decision, Error> {
    let AnswerParams { call, allow, reason, always, arguments, .. } = params;
    if !allow {
        return Ok(Decision::Deny { reason });
    }
    if let Some(arguments) = arguments {
        let text = arguments.to_string();
        let bytes = text.clone().into_bytes();
        reading(service, move |journal| fits(journal, call, &bytes)).await?;
        let edited = EditedCall { arguments: Content::text(BodyKind::Arguments, &text), shown: text };
        return Ok(Decision::Once { edited: Some(edited) });
    }
    let Some(AlwaysParams { scope, patterns }) = always else { return Ok(Decision::ONCE) };
    let rule = reading(service, move |journal| rule(journal, call, &patterns)).await?;
    let at = service.runtime.clock().now();
    let grant = ApprovalGrant { id: call, session: None, key: None, agent: None, rule, by: by.to_owned(), at };
    let grant = match scope {
        AlwaysScope::Session => ApprovalGrant { session: Some(row.session), key: Some(row.key.clone()), ..grant },
        AlwaysScope::Agent => ApprovalGrant { agent: Some(row.agent.clone()), ..grant },
        AlwaysScope::Home => grant,
    };
    if !service.runtime.grant(grant).await? {
        // Another answer was first, and is being given.
        return Err(Refusal::Stale.into());
    }
    Ok(Decision::Always { grant: call })
}

/// Refuses arguments with which there is no such call, or which are denied.
fn fits(journal: &dyn Journal, call: CallId, arguments: &[u8]) -> Result<(), Error> {
    let Some((settings, tool, _)) = known(journal, call)? else { return Ok(()) };
    let denies = tools::denies(&settings, &tool, arguments);
    let denies =
        denies.map_err(|error| Error::invalid(error.to_string(), "`limulus approvals show` shows its arguments"))?;
    match denies {
        Some(act) => {
            let by = act.rule.unwrap_or_else(|| act.setting.to_owned());
            Err(Error::invalid(
                format!("{} is denied ({by})", act.act),
                "`limulus policy explain` shows what is allowed",
            ))
        }
        None => Ok(()),
    }
}

fn known(journal: &dyn Journal, call: CallId) -> Result<Option<(engine::Settings, String, Vec<u8>)>, Error> {
    let Some(row) = asked_of(journal, call)? else { return Ok(None) };
    Ok(approvals::call_of(journal, &row)?)
}

/// The rule of a grant: the one that is offered, or that with these patterns. It must allow the call that was asked about.
fn rule(journal: &dyn Journal, call: CallId, patterns: &[String]) -> Result<PolicyRule, Error> {
    let none = || {
        if patterns.is_empty() {
            let what =
                "no pattern is offered for such calls: this one can be approved once only, or with a pattern of yours";
            let hint =
                "`limulus approvals approve ID --always SCOPE --pattern PATTERN`; docs/policy.md describes patterns";
            return Error::State { what: what.to_owned(), hint: hint.to_owned() };
        }
        let hint = "`limulus approvals show` shows patterns that do; docs/policy.md describes them";
        Error::invalid("those patterns do not allow the call that was asked about", hint)
    };
    if patterns.len() > PATTERNS || patterns.iter().any(|pattern| pattern.len() > PATTERN_BYTES) {
        let what = format!("{PATTERNS} patterns of {PATTERN_BYTES} bytes are the most");
        return Err(Error::invalid(what, "name fewer or shorter ones"));
    }
    let (settings, tool, arguments) = known(journal, call)?.ok_or_else(none)?;
    let rule = tools::suggest(&settings, call, (&tool, &arguments), patterns).ok_or_else(none)?;
    Ok(PolicyRule { origin: format!("grant {}", approvals::id(call)), ..rule })
}
