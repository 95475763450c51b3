//! `runs.list`, `runs.show`, `runs.trace`.

use engine::SessionId;
use protocol::method::{RunParams, RunsList, RunsListParams, RunsListed, RunsShow, RunsTrace, Traced};
use protocol::show::RunStory;

use super::{Reads, last};
use crate::error::Error;
use crate::show::{Source, lookup, run, texts, trace};

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
        let rows = last(read.runs(chosen)?, params.limit);
        Ok(RunsListed { runs: rows.iter().map(|row| run::of_row(row, key_of(row.session))).collect() })
    }
}

impl Reads for RunsShow {
    fn read(source: &Source<'_>, params: RunParams) -> Result<RunStory, Error> {
        run::story(source.read, &lookup::run(source.read, &params)?, &source.texts())
    }
}

impl Reads for RunsTrace {
    fn read(source: &Source<'_>, params: RunParams) -> Result<Traced, Error> {
        // Only the beginnings of texts are told, so that they are not counted.
        let found = lookup::run(source.read, &params)?;
        Ok(Traced { lines: trace(source.read, &found, &texts(source.read))? })
    }
}
