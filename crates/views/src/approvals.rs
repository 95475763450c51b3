//! Approval requests and questions of models, open and closed, and the grants that came of approvals. The id of a request is
//! short, since people type it; it follows from the call.

use engine::policy::PolicyRule;
use engine::{ApprovalGrant, ApprovalRow, CallId, Hash, SessionRow, Settings, Stage, Timestamp};
use journal::Read;
use protocol::method::{AlwaysScope, ApprovalShown, GrantPatterns, GrantShown};
use serde_json::Value;

use crate::error::Error;
use crate::{fold_branch, texts};

/// Characters of an id.
const ID: usize = 12;

/// The id of the request for this call.
pub fn id(call: CallId) -> String {
    Hash::of(call.to_string().as_bytes()).to_string()[..ID].to_owned()
}

/// The open requests of a session or of all, oldest first.
pub fn open(read: &dyn Read, session: Option<&SessionRow>) -> Result<Vec<ApprovalRow>, Error> {
    let mut rows = read.approvals(session.map(|row| row.session))?;
    rows.sort_by_key(|row| (row.asked_at, row.call));
    // One whose session cannot be read must not hide the others.
    Ok(rows.into_iter().map(|row| completed(read, &row).unwrap_or(row)).collect())
}

/// The last closed requests of a kind before one, of a session or of all, in the order in which they were asked. It reads no more
/// of the others than it comes to.
pub fn closed(
    read: &dyn Read,
    (session, kind): (Option<&SessionRow>, AskKind),
    mut before: Option<CallId>,
    limit: usize,
) -> Result<Vec<ApprovalRow>, Error> {
    let session = session.map(|row| row.session);
    let mut found = vec![];
    while found.len() < limit {
        let rows = read.closed_approvals_before(session, before, CLOSED_AT_ONCE)?;
        let Some(first) = rows.first() else { break };
        before = Some(first.call);
        let wanted = rows.into_iter().rev().filter(|row| is_request(row) && AskKind::of(row) == kind);
        found.extend(wanted.take(limit - found.len()));
    }
    found.reverse();
    Ok(found)
}

/// Closed requests that are read at once.
const CLOSED_AT_ONCE: usize = 256;

/// Whether a closed row is of a request: a grant answers none, and a row of an older version does not say what was asked.
fn is_request(row: &ApprovalRow) -> bool {
    row.grant.is_none() && row.fingerprint.is_some()
}

/// A row of an older version says less: the state of its session says the rest.
fn completed(read: &dyn Read, row: &ApprovalRow) -> Result<ApprovalRow, Error> {
    let row = row.clone();
    if row.fingerprint.is_some() {
        return Ok(row);
    }
    let Some(session) = read.session_of_run(row.call.run)? else { return Ok(row) };
    let session = fold_branch(read, &session)?;
    let call = session.run().and_then(|run| run.call(row.call)).filter(|call| call.stage == Stage::Asking);
    Ok(match call {
        Some(call) => ApprovalRow {
            fingerprint: call.fingerprint,
            tool: Some(call.tool.clone()),
            arguments: Some(call.arguments),
            ..row
        },
        None => row,
    })
}

/// What somebody is to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskKind {
    /// Approval of a call.
    Approval,
    /// The answer to a question of the model.
    Answer,
}

impl AskKind {
    /// What this request wants.
    pub fn of(row: &ApprovalRow) -> Self {
        row.takes.map_or(Self::Approval, |_| Self::Answer)
    }
}

/// The request with this id, with a unique beginning of it, or of the call with this id; an open one first.
pub fn find(read: &dyn Read, text: &str, wanted: AskKind) -> Result<ApprovalRow, Error> {
    let mut others = false;
    for look in [open_of as fn(&dyn Read, &str) -> _, closed_of] {
        let found: Vec<ApprovalRow> = if text.is_empty() { vec![] } else { look(read, text)? };
        others |= found.iter().any(|row| AskKind::of(row) != wanted);
        let mut found = found.into_iter().filter(|row| AskKind::of(row) == wanted);
        match (found.next(), found.next()) {
            (Some(row), None) => return Ok(row),
            (Some(_), Some(_)) => return Err(several(text, wanted)),
            (None, _) => {}
        }
    }
    Err(none(text, wanted, others))
}

/// The open requests that a text names.
fn open_of(read: &dyn Read, text: &str) -> Result<Vec<ApprovalRow>, Error> {
    if let Ok(call) = text.parse() {
        let row = read.approval(call)?.filter(|row| row.allowed.is_none());
        return Ok(row.map(|row| completed(read, &row).unwrap_or(row)).into_iter().collect());
    }
    let rows = read.approvals(None)?.into_iter().filter(|row| id(row.call).starts_with(text));
    Ok(rows.map(|row| completed(read, &row).unwrap_or(row)).collect())
}

/// The closed requests that a text names. There may be many: only these are read.
fn closed_of(read: &dyn Read, text: &str) -> Result<Vec<ApprovalRow>, Error> {
    let calls = match text.parse() {
        Ok(call) => vec![call],
        Err(_) => read.closed_approval_calls()?.into_iter().filter(|call| id(*call).starts_with(text)).collect(),
    };
    let rows = calls.into_iter().map(|call| read.approval(call)).collect::<Result<Vec<_>, _>>()?;
    Ok(rows.into_iter().flatten().filter(|row| row.allowed.is_some() && is_request(row)).collect())
}

fn several(text: &str, wanted: AskKind) -> Error {
    let (what, hint) = match wanted {
        AskKind::Approval => {
            (format!("several approval requests begin with `{text}`"), "`limulus approvals list` shows their ids")
        }
        AskKind::Answer => (format!("several questions begin with `{text}`"), "`limulus answer` shows their ids"),
    };
    Error::invalid(what, hint)
}

/// `others`: it names a request of the other kind.
fn none(text: &str, wanted: AskKind, others: bool) -> Error {
    let what = match wanted {
        AskKind::Approval => format!("there is no approval request `{text}`"),
        AskKind::Answer => format!("there is no question `{text}`"),
    };
    let hint = match (others, wanted) {
        (true, AskKind::Approval) => format!("that is a question: `limulus answer {text} ANSWER` answers it"),
        (true, AskKind::Answer) => format!("that needs approval: `limulus approvals approve {text}` gives it"),
        (false, AskKind::Approval) => "`limulus approvals list` shows the open ones".to_owned(),
        (false, AskKind::Answer) => "`limulus answer` shows the open ones".to_owned(),
    };
    Error::not_found(what, hint)
}

/// The shape of a request, without what an approval of all such calls would remember.
pub fn shown(read: &dyn Read, row: &ApprovalRow, session: &str) -> ApprovalShown {
    // One that cannot be read must not hide the others.
    let text = |body| texts(read)(body).unwrap_or_else(|_| "[unreadable]".to_owned());
    let arguments = row.arguments.as_ref().map(text).unwrap_or_default();
    let tool = row.tool.clone().unwrap_or_default();
    ApprovalShown {
        id: id(row.call),
        call: row.call,
        session: session.to_owned(),
        run: row.call.run,
        what: if row.question.is_empty() { format!("{tool} {arguments}") } else { row.question.clone() },
        tool,
        arguments: serde_json::from_str(&arguments).unwrap_or(Value::String(arguments)),
        fingerprint: row.fingerprint,
        asked_at: row.asked_at,
        expires_at: row.expires_at,
        always: None,
        allowed: row.allowed,
        by: row.by.clone(),
        closed_at: row.closed_at,
    }
}

/// What a call of a request is checked by: the settings of its run, its tool and its arguments. None if they are no longer
/// there.
pub fn call_of(read: &dyn Read, row: &ApprovalRow) -> Result<Option<(Settings, String, Vec<u8>)>, Error> {
    let Some((run, body)) = read.run(row.call.run)?.zip(row.arguments) else { return Ok(None) };
    let (settings, arguments) = (read.body(&run.settings)?, read.body(&body.hash)?);
    let settings = settings.and_then(|bytes| Settings::from_bytes(&bytes).ok());
    Ok(settings
        .zip(arguments)
        .zip(row.tool.clone())
        .map(|((settings, arguments), tool)| (settings, tool, arguments.to_vec())))
}

/// The rule that an approval of all such calls would remember; none if a request can be approved once only.
pub fn suggested(read: &dyn Read, row: &ApprovalRow) -> Result<Option<PolicyRule>, Error> {
    let call = call_of(read, row)?;
    Ok(call.and_then(|(settings, tool, arguments)| tools::suggest(&settings, row.call, (&tool, &arguments), &[])))
}

/// What a rule allows.
pub fn patterns(rule: &PolicyRule) -> GrantPatterns {
    let PolicyRule { commands, paths, hosts, .. } = rule.clone();
    GrantPatterns { tool: rule.tools.first().cloned().unwrap_or_default(), commands, paths, hosts }
}

/// The shapes of grants, each with how many calls it has allowed.
pub fn grants<'a>(read: &dyn Read, grants: impl Iterator<Item = &'a ApprovalGrant>) -> Result<Vec<GrantShown>, Error> {
    let uses = read.closed_approvals()?;
    let shown = grants.map(|grant| {
        let (scope, of) = match (&grant.session, &grant.agent) {
            (Some(_), _) => (AlwaysScope::Session, grant.key.clone()),
            (None, Some(agent)) => (AlwaysScope::Agent, Some(agent.clone())),
            (None, None) => (AlwaysScope::Home, None),
        };
        let uses = || uses.iter().filter(|row| row.grant == Some(grant.id));
        let last_at: Option<Timestamp> = uses().filter_map(|row| row.closed_at).max();
        GrantShown {
            id: id(grant.id),
            scope,
            of,
            patterns: patterns(&grant.rule),
            by: grant.by.clone(),
            at: grant.at,
            allowed: uses().count() as u64,
            last_at,
        }
    });
    Ok(shown.collect())
}
