//! The views: rows for lists, written with the events that change them, never read by the engine. What may not live here:
//! entries, progress, bodies.

use engine::Views;
use rusqlite::{Connection, OptionalExtension as _, Params, params};
use serde::de::DeserializeOwned;

use super::encode::ViewJson;

const DAY_MS: i64 = 86_400_000;

/// Writes the rows of one batch.
pub(super) fn write(connection: &Connection, views: &Views, json: &ViewJson) -> rusqlite::Result<()> {
    let put = |sql: &str, parameters: &[&dyn rusqlite::ToSql]| connection.prepare_cached(sql)?.execute(parameters);
    if let (Some(row), Some(json)) = (&views.session, &json.session) {
        let sql = "INSERT INTO view_sessions(session, key, unfinished, row) VALUES (?1, ?2, ?3, ?4) ON CONFLICT(session) \
                   DO UPDATE SET key = excluded.key, unfinished = excluded.unfinished, row = excluded.row";
        put(sql, params![row.session.0.as_bytes(), row.key, row.unfinished, json])?;
    }
    for (row, json) in views.runs.iter().zip(&json.runs) {
        let sql = "INSERT INTO view_runs(run, session, state, row) VALUES (?1, ?2, ?3, ?4) ON CONFLICT(run) \
                   DO UPDATE SET session = excluded.session, state = excluded.state, row = excluded.row";
        put(sql, params![row.run.0.as_bytes(), row.session.0.as_bytes(), row.state.name(), json])?;
        let sql = "INSERT OR REPLACE INTO view_usage(run, day, model, input, cached, cache_written, output, reasoning) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let (day, usage) = (row.started_at.0.div_euclid(DAY_MS), &row.usage);
        let [input, cached] = [usage.input as i64, usage.cached as i64];
        let [cache_written, output, reasoning] =
            [usage.cache_written as i64, usage.output as i64, usage.reasoning as i64];
        put(sql, params![row.run.0.as_bytes(), day, row.model, input, cached, cache_written, output, reasoning])?;
    }
    for (row, json) in views.receipts.iter().zip(&json.receipts) {
        let sql = "INSERT INTO view_receipts(message, session, key, row) VALUES (?1, ?2, ?3, ?4) ON CONFLICT(message) \
                   DO UPDATE SET session = excluded.session, key = excluded.key, row = excluded.row";
        put(sql, params![row.message.0.as_bytes(), row.session.0.as_bytes(), row.key, json])?;
    }
    for (row, json) in views.approvals.iter().zip(&json.approvals) {
        let sql = "INSERT INTO view_approvals(call, session, open, row) VALUES (?1, ?2, ?3, ?4) ON CONFLICT(call) \
                   DO UPDATE SET session = excluded.session, open = excluded.open, row = excluded.row";
        put(sql, params![row.call.to_string(), row.session.0.as_bytes(), row.allowed.is_none(), json])?;
    }
    Ok(())
}

/// Rows of a view in the order in which they were first recorded: `tail` is what follows `SELECT row FROM`.
pub(super) fn list<T: DeserializeOwned>(
    connection: &Connection,
    tail: &str,
    parameters: impl Params,
) -> rusqlite::Result<Vec<T>> {
    let mut statement = connection.prepare_cached(&format!("SELECT row FROM {tail} ORDER BY rowid"))?;
    let rows = statement.query_map(parameters, |row| parse(row))?;
    rows.collect()
}

/// The first row of a view that fits.
pub(super) fn one<T: DeserializeOwned>(
    connection: &Connection,
    tail: &str,
    parameters: impl Params,
) -> rusqlite::Result<Option<T>> {
    let mut statement = connection.prepare_cached(&format!("SELECT row FROM {tail} ORDER BY rowid LIMIT 1"))?;
    statement.query_row(parameters, |row| parse(row)).optional()
}

fn parse<T: DeserializeOwned>(row: &rusqlite::Row<'_>) -> rusqlite::Result<T> {
    let json = row.get_ref(0)?.as_str()?;
    serde_json::from_str(json)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(error)))
}
