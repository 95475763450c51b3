//! The views: rows for lists, written with the events that change them, and never read by the engine.

use engine::tables::lifecycle::LifecycleKind;
use engine::{RunRow, SessionId, SessionRow, Views};
use rusqlite::{Connection, OptionalExtension as _, Params, ToSql, params};
use serde::de::DeserializeOwned;

use super::encode::ViewJson;
use super::statements::Statements;

const DAY_MS: i64 = 86_400_000;

/// Writes the rows of one batch.
pub(super) fn write(statements: &Statements<'_>, views: &Views, json: &ViewJson) -> rusqlite::Result<()> {
    let tables = Tables(statements);
    if let (Some(row), Some(json)) = (&views.session, &json.session) {
        tables.session(row, json)?;
    }
    for (row, json) in views.runs.iter().zip(&json.runs) {
        tables.run(row, json)?;
        tables.usage(row)?;
    }
    for (row, json) in views.receipts.iter().zip(&json.receipts) {
        let sql = "INSERT INTO view_receipts(message, session, key, row) VALUES (?1, ?2, ?3, ?4) ON CONFLICT(message) \
                   DO UPDATE SET row = excluded.row";
        tables.put(sql, params![row.message.0.as_bytes(), row.session.0.as_bytes(), row.key, json])?;
    }
    for (row, json) in views.approvals.iter().zip(&json.approvals) {
        let sql = "INSERT INTO view_approvals(call, session, open, row) VALUES (?1, ?2, ?3, ?4) ON CONFLICT(call) \
                   DO UPDATE SET open = excluded.open, row = excluded.row";
        tables.put(sql, params![row.call.to_string(), row.session.0.as_bytes(), row.allowed.is_none(), json])?;
    }
    Ok(())
}

/// The tables of the views. An indexed column is written only when its row is new or the column changes: SQLite removes
/// whatever is set from its index and inserts it again, even if it is the same.
struct Tables<'a, 'c>(&'a Statements<'c>);

impl Tables<'_, '_> {
    fn put(&self, sql: &'static str, parameters: &[&dyn ToSql]) -> rusqlite::Result<usize> {
        self.0.execute(sql, parameters)
    }

    fn session(&self, row: &SessionRow, json: &str) -> rusqlite::Result<()> {
        let parameters = params![row.session.0.as_bytes(), whose(row), json, row.key];
        let sql = "UPDATE view_sessions SET row = ?3 WHERE session = ?1 AND unfinished = ?2";
        if self.put(sql, &parameters[..3])? == 0 {
            let sql = "INSERT INTO view_sessions(session, unfinished, row, key) VALUES (?1, ?2, ?3, ?4) \
                       ON CONFLICT(session) DO UPDATE SET unfinished = excluded.unfinished, row = excluded.row";
            self.put(sql, parameters)?;
        }
        Ok(())
    }

    fn run(&self, row: &RunRow, json: &str) -> rusqlite::Result<()> {
        let parameters = params![row.run.0.as_bytes(), row.state.name(), json, row.session.0.as_bytes()];
        if self.put("UPDATE view_runs SET state = ?2, row = ?3 WHERE run = ?1", &parameters[..3])? == 0 {
            self.put("INSERT INTO view_runs(run, state, row, session) VALUES (?1, ?2, ?3, ?4)", parameters)?;
        }
        Ok(())
    }

    fn usage(&self, row: &RunRow) -> rusqlite::Result<()> {
        let (day, usage) = (row.started_at.0.div_euclid(DAY_MS), &row.usage);
        let [input, cached] = [usage.input as i64, usage.cached as i64];
        let [cache_written, output, reasoning] =
            [usage.cache_written as i64, usage.output as i64, usage.reasoning as i64];
        let run = row.run.0.as_bytes();
        let parameters = params![run, day, row.model, input, cached, cache_written, output, reasoning];
        let sql = "UPDATE view_usage SET day = ?2, model = ?3, input = ?4, cached = ?5, cache_written = ?6, output = ?7, \
                   reasoning = ?8 WHERE run = ?1";
        if self.put(sql, parameters)? == 0 {
            let sql = "INSERT INTO view_usage(run, day, model, input, cached, cache_written, output, reasoning) \
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
            self.put(sql, parameters)?;
        }
        Ok(())
    }
}

/// The value of the column `unfinished`: 1 for a session that an owner must resume, 2 for one that a human must repair,
/// 0 for idle sessions, which the index leaves out.
fn whose(row: &SessionRow) -> i64 {
    match (row.unfinished, row.lifecycle) {
        (true, _) => 1,
        (false, LifecycleKind::Error) => 2,
        (false, _) => 0,
    }
}

/// Removes every row except those of these sessions.
pub(super) fn clear(connection: &Connection, stay: &[SessionId]) -> rusqlite::Result<()> {
    let hex = |session: &SessionId| session.0.simple().to_string().to_uppercase();
    let stay = serde_json::to_string(&stay.iter().map(hex).collect::<Vec<_>>());
    let stay = stay.expect("texts are plain data");
    for table in ["view_sessions", "view_runs", "view_receipts", "view_approvals"] {
        let sql = format!("DELETE FROM {table} WHERE hex(session) NOT IN (SELECT value FROM json_each(?1))");
        connection.execute(&sql, [&stay])?;
    }
    connection.execute("DELETE FROM view_usage WHERE run NOT IN (SELECT run FROM view_runs)", []).map(|_| ())
}

/// Writes rows that belong to no batch.
pub(super) fn write_alone(connection: &Connection, views: &Views) -> rusqlite::Result<()> {
    write(&Statements::lend(connection), views, &ViewJson::of(views))
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

/// The first row of a view that matches.
pub(super) fn one<T: DeserializeOwned>(
    connection: &Connection,
    tail: &str,
    parameters: impl Params,
) -> rusqlite::Result<Option<T>> {
    let mut statement = connection.prepare_cached(&format!("SELECT row FROM {tail} ORDER BY rowid LIMIT 1"))?;
    statement.query_row(parameters, |row| parse(row)).optional()
}

/// An id as the tables store it.
type Id = [u8; 16];

/// The last sessions before one, in the order in which they were first recorded.
pub(super) fn sessions_before(
    connection: &Connection,
    before: Option<Id>,
    limit: usize,
) -> rusqlite::Result<Vec<SessionRow>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    // Backwards from a rowid: SQLite reads no more rows than these.
    let from = "rowid < coalesce((SELECT rowid FROM view_sessions WHERE session = ?1), 9223372036854775807)";
    let sql = format!("SELECT row FROM view_sessions WHERE {from} ORDER BY rowid DESC LIMIT ?2");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows: rusqlite::Result<Vec<SessionRow>> = statement.query_map((before, limit), parse)?.collect();
    rows.map(|mut rows| {
        rows.reverse();
        rows
    })
}

/// The current rows of the last runs before one, of a session or of all, in the order in which they were first
/// recorded.
pub(super) fn runs_before(
    connection: &Connection,
    session: Option<Id>,
    before: Option<Id>,
    limit: usize,
) -> rusqlite::Result<Vec<RunRow>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let from = "r.rowid < coalesce((SELECT rowid FROM view_runs WHERE run = ?1), 9223372036854775807)";
    let mut rows = match session {
        Some(session) => {
            let condition = format!("{from} AND r.session = ?3 ORDER BY r.rowid DESC LIMIT ?2");
            runs_where(connection, &condition, (before, limit, session))
        }
        None => runs_where(connection, &format!("{from} ORDER BY r.rowid DESC LIMIT ?2"), (before, limit)),
    }?;
    rows.reverse();
    Ok(rows)
}

/// The current rows of runs, in the order in which they were first recorded.
pub(super) fn runs(connection: &Connection, condition: &str, parameters: impl Params) -> rusqlite::Result<Vec<RunRow>> {
    runs_where(connection, &format!("{condition} ORDER BY r.rowid"), parameters)
}

fn runs_where(connection: &Connection, condition: &str, parameters: impl Params) -> rusqlite::Result<Vec<RunRow>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT r.row, s.row FROM view_runs r LEFT JOIN view_sessions s ON s.session = r.session AND r.state <> \
         'completed' WHERE {condition}"
    ))?;
    let rows = statement.query_map(parameters, |row| {
        let session = row.get_ref(1)?.as_str_or_null()?.map(|json| read(1, json)).transpose()?;
        Ok(parse::<RunRow>(row)?.within(session.as_ref()))
    })?;
    rows.collect()
}

fn parse<T: DeserializeOwned>(row: &rusqlite::Row<'_>) -> rusqlite::Result<T> {
    read(0, row.get_ref(0)?.as_str()?)
}

fn read<T: DeserializeOwned>(column: usize, json: &str) -> rusqlite::Result<T> {
    serde_json::from_str(json).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(error))
    })
}
