//! The usage of a home's runs, grouped.

use std::collections::BTreeMap;

use engine::{RunRow, SessionId, Timestamp};
use journal::Read;
use protocol::method::{UsageBy, UsageParams, UsageRow, UsageStory};

use super::lookup;
use crate::error::Error;

/// Rows that are read at once. A run may start after runs of later messages, by fewer rows than this.
const PAGE: usize = 200;

/// What runs used, summed as the parameters say.
pub fn usage(read: &dyn Read, params: &UsageParams) -> Result<UsageStory, Error> {
    let session = params.session_key.as_deref().map(|key| lookup::session(read, Some(key))).transpose()?;
    let keys: BTreeMap<SessionId, String> = match params.by {
        UsageBy::Session => read.sessions()?.into_iter().map(|row| (row.session, row.key)).collect(),
        UsageBy::Model | UsageBy::Day => BTreeMap::new(),
    };
    let name = |run: &RunRow| match params.by {
        UsageBy::Model => run.model.clone(),
        UsageBy::Session => keys.get(&run.session).cloned().unwrap_or_else(|| run.session.to_string()),
        UsageBy::Day => day(run.started_at),
    };
    let (mut rows, mut all) = (BTreeMap::<String, UsageRow>::new(), UsageRow::default());
    let session = session.map(|row| row.session);
    let runs = match params.since {
        Some(since) => runs_since(read, session, since)?,
        None => read.runs(session)?,
    };
    for run in runs {
        add(rows.entry(name(&run)).or_default(), &run);
        add(&mut all, &run);
    }
    let named = |(name, row): (String, UsageRow)| UsageRow { name, ..row };
    Ok(UsageStory { rows: rows.into_iter().map(named).collect(), all: UsageRow { name: "all".to_owned(), ..all } })
}

/// The runs that started at this time or later. The rows are read from the newest back until a whole page is older.
fn runs_since(read: &dyn Read, session: Option<SessionId>, since: Timestamp) -> Result<Vec<RunRow>, Error> {
    let (mut runs, mut before) = (vec![], None);
    loop {
        let page = read.runs_before(session, before, PAGE)?;
        before = page.iter().map(|run| run.run).min();
        let (length, known) = (page.len(), runs.len());
        runs.extend(page.into_iter().filter(|run| run.started_at >= since));
        if length < PAGE || runs.len() == known {
            return Ok(runs);
        }
    }
}

fn add(row: &mut UsageRow, run: &RunRow) {
    row.runs += 1;
    row.usage.add(&run.usage);
    row.cost_micros = row.cost_micros.saturating_add(run.cost);
}

/// This time as `YYYY-MM-DD HH:MM:SS UTC`, for texts that go to a reader in a zone that is not known.
pub fn utc(at: Timestamp) -> String {
    let shown = jiff::Timestamp::from_millisecond(at.0).map(|at| at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string());
    shown.unwrap_or_else(|_| at.0.to_string())
}

/// The date of this time as `YYYY-MM-DD`, UTC.
fn day(at: Timestamp) -> String {
    let day = jiff::Timestamp::from_millisecond(at.0).map(|at| at.to_zoned(jiff::tz::TimeZone::UTC).date().to_string());
    day.unwrap_or_else(|_| at.0.to_string())
}
