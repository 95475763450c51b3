//! `runs.list`, `runs.show`, `runs.trace`, `runs.explain`.

use engine::{LaneWait, SessionId};
use protocol::method::{RunParams, RunsExplain, RunsList, RunsListParams, RunsListed, RunsShow, RunsTrace, Traced};
use protocol::show::{Explained, RunStory, RunSummary};

use super::{Reads, last};
use crate::error::Error;
use crate::events::wait;
use crate::show::{Source, explain, lookup, run, texts, trace};

impl Reads for RunsList {
    fn read(source: &Source<'_>, params: RunsListParams) -> Result<RunsListed, Error> {
        let read = source.read;
        let chosen: Option<SessionId> = match params.session_key.as_deref() {
            Some(key) => Some(lookup::session(read, Some(key))?.session),
            None => None,
        };
        let sessions: std::collections::BTreeMap<SessionId, String> =
            read.sessions()?.into_iter().map(|row| (row.session, row.key)).collect();
        let key_of = |id| sessions.get(&id).map_or("", String::as_str);
        let mut runs: Vec<RunSummary> =
            read.runs(chosen)?.iter().map(|row| run::of_row(row, key_of(row.session))).collect();
        for wait in source.waits {
            match runs.iter_mut().find(|run| run.run == wait.wish.run) {
                Some(run) => run.lane_wait = Some(wait::shape(wait)),
                // Its message waits: it has no row yet.
                None => runs.extend(waiting(source, chosen, wait)?),
            }
        }
        Ok(RunsListed { runs: last(runs, params.limit) })
    }
}

/// A run that has not begun, if it is in the session that was chosen.
fn waiting(source: &Source<'_>, chosen: Option<SessionId>, wait: &LaneWait) -> Result<Option<RunSummary>, Error> {
    let session = source.read.session(&wait.wish.session)?;
    let session = session.filter(|session| chosen.is_none_or(|chosen| chosen == session.session));
    Ok(session.map(|session| {
        let found = lookup::FoundRun { run: wait.wish.run, session, row: None };
        RunSummary { lane_wait: Some(wait::shape(wait)), ..run::of(&found) }
    }))
}

impl Reads for RunsShow {
    fn read(source: &Source<'_>, params: RunParams) -> Result<RunStory, Error> {
        run::story(source, &lookup::run(source.read, &params)?, &source.texts())
    }
}

impl Reads for RunsTrace {
    fn read(source: &Source<'_>, params: RunParams) -> Result<Traced, Error> {
        // Only the beginnings of texts are told, so that they are not counted.
        let found = lookup::run(source.read, &params)?;
        Ok(Traced { lines: trace(source.read, &found, &texts(source.read))? })
    }
}

impl Reads for RunsExplain {
    fn read(source: &Source<'_>, params: RunParams) -> Result<Explained, Error> {
        explain(source, &lookup::run(source.read, &params)?)
    }
}
