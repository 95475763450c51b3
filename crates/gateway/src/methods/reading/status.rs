//! `status`: the owner of the home, the states of its sessions, and what unfinished sessions wait for.

use std::collections::BTreeMap;
use std::path::Path;

use engine::{ApprovalRow, Flags, Position, Resources, SessionRow};
use protocol::method::{NoParams, StatusGet};
use protocol::show::{LaneWait, OpenQuestion, Owner, Status, Unfinished};
use views::beside::{Beside, last_outcome};
use views::events::wait;
use views::interrupted;
use views::waiting::{Owned, waits_for, waits_until};
use views::{Source, background, budget, fold_branch, lookup, open_plan, owner};

use super::Reads;
use crate::error::Error;

impl Reads for StatusGet {
    fn read(source: &Source<'_>, _: NoParams) -> Result<Status, Error> {
        gather(source, owner(source.home))
    }
}

pub(super) fn gather(source: &Source<'_>, owner: Option<Owner>) -> Result<Status, Error> {
    let taken = if owner.is_some() { Owned::Yes } else { Owned::No };
    let (head, rows) = (source.read.head()?, source.read.sessions()?);
    let mut status = Status { owner, head, immutable: source.immutable, ..nothing(source.home) };
    for row in &rows {
        *status.sessions.entry(row.lifecycle.name().to_owned()).or_default() += 1;
    }
    let beside = Beside::new(source);
    for row in rows.iter().filter(|row| is_unfinished(row)) {
        status.unfinished.push(unfinished(&beside, row, taken)?);
    }
    status.questions = questions(source, &rows)?;
    status.background = background(source.home, source.read, &source.texts(), None)?;
    Ok(status)
}

/// A home without a journal is a valid, idle home.
pub fn without_journal(home: &Path) -> Status {
    Status { owner: owner(home), ..nothing(home) }
}

fn nothing(home: &Path) -> Status {
    Status {
        home: home.display().to_string(),
        owner: None,
        immutable: false,
        head: Position(0),
        sessions: BTreeMap::new(),
        unfinished: vec![],
        background: vec![],
        questions: vec![],
    }
}

fn unfinished(beside: &Beside<'_>, row: &SessionRow, owned: Owned) -> Result<Unfinished, Error> {
    let source = beside.source;
    let requests = source.read.approvals(Some(row.session))?;
    // One unreadable session must not hide the others.
    let (waits_for, waits_until, interrupted, next_recovery, limit, flags, resources, plan) =
        match fold_branch(source.read, row) {
            Ok(session) => {
                let limit = budget::awaited(source.read, &beside.pool, &session).unwrap_or_default();
                let last = lookup::last(source.read, row)?.and_then(|found| found.row);
                let resources = beside.of_session(row, Some(&session), last.as_ref())?;
                let waits_for = waits_for(&session, &requests, limit.as_ref(), owned);
                let next = session.next_recovery().map(Into::into);
                let interrupted = match owned {
                    Owned::No => interrupted(source.read, source.home, &session),
                    Owned::Yes => None,
                };
                let plan = open_plan(source.read, &session).unwrap_or_default();
                (waits_for, waits_until(&session), interrupted, next, limit, session.flags(), resources, plan)
            }
            Err(error) => {
                let why = format!("a readable journal: {}", Error::from(error).shape().message);
                (why, None, None, None, None, Flags::default(), Resources::default(), vec![])
            }
        };
    let lane_wait = source.waits.iter().find(|wait| *wait.request.session == *row.key).map(wait::shape);
    Ok(Unfinished {
        key: row.key.clone(),
        lifecycle: row.lifecycle,
        run_state: row.run_state,
        flags: beside.flags(row, flags),
        last_outcome: last_outcome(source.read, row.session)?,
        can_abort: flags.can_abort(row.lifecycle),
        resources,
        run: row.run,
        queued: row.queued,
        last_activity: row.last_activity,
        interrupted,
        waits_for: lane_wait.as_ref().map_or(waits_for, lane),
        waits_until: waits_until.filter(|_| lane_wait.is_none()),
        next_recovery,
        budget: limit.map(Into::into),
        lane_wait,
        plan,
    })
}

/// The calls that wait for a person's approval or answer, oldest first.
fn questions(source: &Source<'_>, rows: &[SessionRow]) -> Result<Vec<OpenQuestion>, Error> {
    let open = |row: ApprovalRow| {
        let session = rows.iter().find(|session| session.session == row.session)?.key.clone();
        let ApprovalRow { call, question, takes, asked_at, .. } = row;
        Some(OpenQuestion { session, call, question, takes, asked_at })
    };
    let asked = source.read.approvals(None)?.into_iter().filter(|row| row.allowed.is_none());
    let mut questions: Vec<_> = asked.filter_map(open).collect();
    questions.sort_by_key(|question| question.asked_at);
    Ok(questions)
}

fn lane(wait: &LaneWait) -> String {
    let ahead = if wait.ahead == 0 { String::new() } else { format!(", {} before it", wait.ahead) };
    format!("{}: queued behind {}{ahead}", wait.place(), wait.behind_whom())
}

fn is_unfinished(row: &SessionRow) -> bool {
    row.unfinished || row.run.is_some() || row.queued > 0 || row.trouble.is_some()
}
