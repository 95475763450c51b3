//! `approvals.list`, `approvals.show`, `approvals.grants`: the calls that wait for approval, and what was allowed for good.

use std::collections::BTreeMap;

use engine::{ApprovalRow, SessionId};
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
        let mut rows = if params.closed { approvals::closed(read)? } else { approvals::open(read, session.as_ref())? };
        rows.retain(|row| AskKind::of(row) == AskKind::Approval);
        rows.retain(|row| session.as_ref().is_none_or(|session| session.session == row.session));
        let (approvals, next) =
            page(read, rows, (params.after.as_deref(), params.limit), |row, key| approvals::shown(read, row, key))?;
        Ok(ApprovalsListed { approvals, next })
    }
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
    let keys: BTreeMap<SessionId, String> = read.sessions()?.into_iter().map(|row| (row.session, row.key)).collect();
    let key_of = |row: &ApprovalRow| keys.get(&row.session).map_or("", String::as_str);
    Ok((rows[before..].iter().map(|row| shown(row, key_of(row))).collect(), next))
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
