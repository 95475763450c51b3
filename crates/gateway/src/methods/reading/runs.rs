//! `runs.list`, `runs.show`, `runs.trace`, `runs.explain`.

use std::collections::BTreeMap;

use engine::{LaneWait, RunId, RunRow, SessionId};
use journal::Read;
use protocol::method::{RunParams, RunsExplain, RunsList, RunsListParams, RunsListed, RunsShow, RunsTrace, Traced};
use protocol::show::{Explained, RunStory, RunSummary};
use views::events::wait;
use views::{Source, explain, lookup, run, texts, trace};

use super::{Reads, pages};
use crate::error::Error;

impl Reads for RunsList {
    fn read(source: &Source<'_>, params: RunsListParams) -> Result<RunsListed, Error> {
        let read = source.read;
        let chosen: Option<SessionId> = match params.session_key.as_deref() {
            Some(key) => Some(lookup::session(read, Some(key))?.session),
            None => None,
        };
        let before: Option<RunId> = params.after.as_deref().map(pages::cursor).transpose()?;
        let waiting = waiting_before(source, chosen, before)?;
        let wanted = pages::wanted(params.limit);
        // A waiting run has no row: all runs with a row come before it.
        let before = before.filter(|run| source.waits.iter().all(|wait| wait.request.run != *run));
        let rows = read.runs_before(chosen, before, wanted.saturating_sub(waiting.len()))?;
        let keys = keys(read, &rows, params.limit)?;
        let mut runs: Vec<RunSummary> = vec![];
        for row in &rows {
            let key = keys.get(&row.session).map_or("", String::as_str);
            runs.push(RunSummary { lane_wait: source.lane_wait(row.run), ..run::of_row(row, key) });
        }
        runs.extend(waiting);
        let (runs, next) = pages::page(runs, params.limit, |run| run.run.to_string());
        Ok(RunsListed { runs, next })
    }
}

/// The keys of the sessions of these runs.
fn keys(read: &dyn Read, rows: &[RunRow], limit: Option<usize>) -> Result<BTreeMap<SessionId, String>, Error> {
    if limit.is_none() {
        return Ok(read.sessions()?.into_iter().map(|row| (row.session, row.key)).collect());
    }
    let mut keys = BTreeMap::new();
    for row in rows {
        if !keys.contains_key(&row.session)
            && let Some(session) = read.session_of_run(row.run)?
        {
            keys.insert(row.session, session.key);
        }
    }
    Ok(keys)
}

/// The runs that wait to begin, of the chosen session, in the order in which they will begin. If the cursor is a
/// waiting run, only those before it; behind any other cursor, none.
fn waiting_before(
    source: &Source<'_>,
    chosen: Option<SessionId>,
    before: Option<RunId>,
) -> Result<Vec<RunSummary>, Error> {
    let waits = match before {
        None => source.waits,
        Some(run) => {
            let at = source.waits.iter().position(|wait| wait.request.run == run);
            &source.waits[..at.unwrap_or_default()]
        }
    };
    let mut waiting = vec![];
    for wait in waits {
        // A run that waits for a lane again has a row.
        if source.read.run(wait.request.run)?.is_none() {
            waiting.extend(self::waiting(source, chosen, wait)?);
        }
    }
    Ok(waiting)
}

/// A run that has not begun, if it belongs to the chosen session.
fn waiting(source: &Source<'_>, chosen: Option<SessionId>, wait: &LaneWait) -> Result<Option<RunSummary>, Error> {
    let session = source.read.session(&wait.request.session)?;
    let session = session.filter(|session| chosen.is_none_or(|chosen| chosen == session.session));
    Ok(session.map(|session| {
        let found = lookup::FoundRun { run: wait.request.run, session, row: None };
        RunSummary { lane_wait: Some(wait::shape(wait)), ..run::of(&found) }
    }))
}

impl Reads for RunsShow {
    fn read(source: &Source<'_>, params: RunParams) -> Result<RunStory, Error> {
        Ok(run::story(source, &lookup::run_or_message(source.read, &params)?, &source.texts())?)
    }
}

impl Reads for RunsTrace {
    fn read(source: &Source<'_>, params: RunParams) -> Result<Traced, Error> {
        // Only the beginnings of texts are included, so they are not counted.
        let found = lookup::run_or_message(source.read, &params)?;
        Ok(Traced { lines: trace(source.read, &found, &texts(source.read))? })
    }
}

impl Reads for RunsExplain {
    fn read(source: &Source<'_>, params: RunParams) -> Result<Explained, Error> {
        Ok(explain(source, &lookup::run_or_message(source.read, &params)?)?)
    }
}
