//! `approvals.list`, `approvals.show`, `approvals.grants`: the calls that wait for approval, and what was allowed for good.

use engine::{ApprovalRow, CallId, SessionRow};
use journal::Read;
use protocol::method::{
    ApprovalParams, ApprovalShown, ApprovalsGrants, ApprovalsList, ApprovalsListParams, ApprovalsListed, ApprovalsShow,
    GrantsListed, NoParams,
};
use views::approvals::AskKind;
use views::{Source, approvals, lookup};

use super::{Reads, pages};
use crate::error::Error;

impl Reads for ApprovalsList {
    fn read(source: &Source<'_>, params: ApprovalsListParams) -> Result<ApprovalsListed, Error> {
        let read = source.read;
        let session = params.session.as_deref().map(|key| lookup::session(read, Some(key))).transpose()?;
        if params.closed {
            return closed(read, session.as_ref(), &params);
        }
        let mut rows = approvals::open(read, session.as_ref())?;
        rows.retain(|row| AskKind::of(row) == AskKind::Approval);
        let (approvals, next) =
            page(read, rows, (params.after.as_deref(), params.limit), |row, key| approvals::shown(read, row, key))?;
        Ok(ApprovalsListed { approvals, next })
    }
}

/// A page of the closed requests: there may be many.
fn closed(
    read: &dyn Read,
    session: Option<&SessionRow>,
    params: &ApprovalsListParams,
) -> Result<ApprovalsListed, Error> {
    let before = params.after.as_deref().map(pages::cursor::<CallId>).transpose()?;
    let found = approvals::closed(read, (session, AskKind::Approval), before, pages::wanted(params.limit))?;
    let (rows, next) = pages::page(found, params.limit, |row| row.call.to_string());
    let shown = rows.iter().map(|row| Ok(approvals::shown(read, row, &key_of(read, row)?)));
    Ok(ApprovalsListed { approvals: shown.collect::<Result<_, Error>>()?, next })
}

/// The key of the session of a request; empty if that is no longer listed.
fn key_of(read: &dyn Read, row: &ApprovalRow) -> Result<String, Error> {
    Ok(read.session_of_run(row.call.run)?.map(|session| session.key).unwrap_or_default())
}

/// The last of these rows before a cursor, each with the key of its session, and the cursor of the page before.
pub(super) fn page<T>(
    read: &dyn Read,
    mut rows: Vec<ApprovalRow>,
    (after, limit): (Option<&str>, Option<usize>),
    shown: impl Fn(&ApprovalRow, &str) -> T,
) -> Result<(Vec<T>, Option<String>), Error> {
    if let Some(after) = after {
        rows.truncate(pages::cursor(after)?);
    }
    let before = rows.len().saturating_sub(limit.unwrap_or(usize::MAX));
    let next = (before > 0).then(|| before.to_string());
    let shown = rows[before..].iter().map(|row| Ok(shown(row, &key_of(read, row)?)));
    Ok((shown.collect::<Result<_, Error>>()?, next))
}

impl Reads for ApprovalsShow {
    fn read(source: &Source<'_>, params: ApprovalParams) -> Result<ApprovalShown, Error> {
        let row = approvals::find(source.read, &params.id, AskKind::Approval)?;
        let session = source.read.session_of_run(row.call.run)?;
        let key = session.map(|session| session.key).unwrap_or_default();
        let always = if row.allowed.is_none() { approvals::suggested(source.read, &row)? } else { None };
        let shown = approvals::shown(source.read, &row, &key);
        Ok(ApprovalShown { always: always.as_ref().map(approvals::patterns), ..shown })
    }
}

impl Reads for ApprovalsGrants {
    fn read(source: &Source<'_>, _: NoParams) -> Result<GrantsListed, Error> {
        let ledger = runtime::ledger(source.read)?;
        Ok(GrantsListed { grants: approvals::grants(source.read, ledger.grants())? })
    }
}
