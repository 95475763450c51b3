//! The views: rows for lists, written with the events that change them, and never read by the engine.

use engine::tables::lifecycle::LifecycleKind;
use engine::{ApprovalRow, ReceiptRow, RunRow, SessionId, SessionRow, Views};
use rusqlite::types::{Type, ValueRef};
use rusqlite::{Connection, OptionalExtension as _, Params, ToSql, params};
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::dictionaries::{Columns, Dictionaries, Json};
use super::encode::{ViewJson, json};
use super::statements::Statements;

/// Writes the rows of one batch.
pub(super) fn write(statements: &Statements<'_>, views: &Views, json: &ViewJson) -> rusqlite::Result<()> {
    let tables = Tables(statements);
    if let (Some(row), Some(json)) = (&views.session, &json.session) {
        tables.session(row, json)?;
    }
    for (row, json) in views.runs.iter().zip(&json.runs) {
        tables.run(row, json)?;
    }
    for (row, json) in views.receipts.iter().zip(&json.receipts) {
        let sql = "INSERT INTO view_receipts(message, session, key, row, packed) VALUES (?1, ?2, ?3, ?4, ?5) \
                   ON CONFLICT(message) DO UPDATE SET row = excluded.row, packed = excluded.packed";
        let (text, packed) = (json.text().unwrap_or_default(), json.packed());
        tables.put(sql, params![row.message.0.as_bytes(), row.session.0.as_bytes(), row.key, text, packed])?;
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

    fn run(&self, row: &RunRow, json: &Json) -> rusqlite::Result<()> {
        let (text, packed) = (json.text().unwrap_or_default(), json.packed());
        let parameters = params![row.run.0.as_bytes(), row.state.name(), text, packed, row.session.0.as_bytes()];
        let sql = "UPDATE view_runs SET state = ?2, row = ?3, packed = ?4 WHERE run = ?1";
        if self.put(sql, &parameters[..4])? == 0 {
            let sql = "INSERT INTO view_runs(run, state, row, packed, session) VALUES (?1, ?2, ?3, ?4, ?5)";
            self.put(sql, parameters)?;
        }
        Ok(())
    }
}

/// What the columns beside the row of a run say too.
pub(super) fn columns_of_run(row: &RunRow) -> Columns {
    Columns::new(&[row.run.0, row.session.0], None)
}

/// What the columns beside the row of a message say too.
pub(super) fn columns_of_receipt(row: &ReceiptRow) -> Columns {
    Columns::new(&[row.message.0, row.session.0], row.key.as_deref())
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
    Ok(())
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

/// The last closed approval requests before one, of a session or of all, in the order in which they were first recorded.
pub(super) fn closed_approvals_before(
    connection: &Connection,
    session: Option<Id>,
    before: Option<&str>,
    limit: usize,
) -> rusqlite::Result<Vec<ApprovalRow>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    // Backwards from a rowid, as above: what is not of the session is skipped without being read.
    let from = "rowid < coalesce((SELECT rowid FROM view_approvals WHERE call = ?1), 9223372036854775807)";
    let of = "NOT open AND session = coalesce(?3, session)";
    let sql = format!("SELECT row FROM view_approvals WHERE {from} AND {of} ORDER BY rowid DESC LIMIT ?2");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows: rusqlite::Result<Vec<ApprovalRow>> = statement.query_map((before, limit, session), parse)?.collect();
    rows.map(|mut rows| {
        rows.reverse();
        rows
    })
}

/// The calls of all closed approval requests.
pub(super) fn closed_approval_calls(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare_cached("SELECT call FROM view_approvals WHERE NOT open ORDER BY rowid")?;
    let calls = statement.query_map([], |row| row.get(0))?;
    calls.collect()
}

/// The rows of messages that match, in the order in which they were first recorded.
pub(super) fn receipts(
    connection: &Connection,
    dictionaries: &Dictionaries,
    condition: &str,
    parameters: impl Params,
) -> rusqlite::Result<Vec<ReceiptRow>> {
    let sql = format!("SELECT row, packed, message, session, key FROM view_receipts WHERE {condition} ORDER BY rowid");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(parameters, |row| read(0, &whole(dictionaries, row)?))?;
    rows.collect()
}

/// The current rows of the last runs before one, of a session or of all, in the order in which they were first
/// recorded.
pub(super) fn runs_before(
    connection: &Connection,
    dictionaries: &Dictionaries,
    session: Option<Id>,
    before: Option<Id>,
    limit: usize,
) -> rusqlite::Result<Vec<RunRow>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let from = "r.rowid < coalesce((SELECT rowid FROM view_runs WHERE run = ?1), 9223372036854775807)";
    let last = "ORDER BY r.rowid DESC LIMIT ?2";
    let mut rows = if let Some(session) = session {
        let condition = format!("{from} AND r.session = ?3 {last}");
        runs_where(connection, dictionaries, &condition, (before, limit, session))
    } else {
        runs_where(connection, dictionaries, &format!("{from} {last}"), (before, limit))
    }?;
    rows.reverse();
    Ok(rows)
}

/// The current rows of runs, in the order in which they were first recorded.
pub(super) fn runs(
    connection: &Connection,
    dictionaries: &Dictionaries,
    condition: &str,
    parameters: impl Params,
) -> rusqlite::Result<Vec<RunRow>> {
    runs_where(connection, dictionaries, &format!("{condition} ORDER BY r.rowid"), parameters)
}

fn runs_where(
    connection: &Connection,
    dictionaries: &Dictionaries,
    condition: &str,
    parameters: impl Params,
) -> rusqlite::Result<Vec<RunRow>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT r.row, r.packed, r.run, r.session, NULL, s.row FROM view_runs r LEFT JOIN view_sessions s \
         ON s.session = r.session AND r.state <> 'completed' WHERE {condition}"
    ))?;
    let rows = statement.query_map(parameters, |row| {
        let session = row.get_ref(5)?.as_str_or_null()?.map(|json| read(5, json)).transpose()?;
        Ok(read::<RunRow>(0, &whole(dictionaries, row)?)?.within(session.as_ref()))
    })?;
    rows.collect()
}

/// Stores packed rows as text.
pub(super) fn store_uncompressed(connection: &Connection, dictionaries: &Dictionaries) -> rusqlite::Result<()> {
    for row in runs_where(connection, dictionaries, "r.packed IS NOT NULL", [])? {
        let sql = "UPDATE view_runs SET row = ?2, packed = NULL WHERE run = ?1";
        connection.execute(sql, params![row.run.0.as_bytes(), json(&row)])?;
    }
    for row in receipts(connection, dictionaries, "packed IS NOT NULL", [])? {
        let sql = "UPDATE view_receipts SET row = ?2, packed = NULL WHERE message = ?1";
        connection.execute(sql, params![row.message.0.as_bytes(), json(&row)])?;
    }
    Ok(())
}

fn id(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Uuid> {
    row.get(column).map(Uuid::from_bytes)
}

/// The JSON of a row of a view. The columns are `row`, `packed`, the two ids and the key that a packed row leaves out: only
/// with them it says what it names.
pub(super) fn whole(dictionaries: &Dictionaries, row: &rusqlite::Row<'_>) -> rusqlite::Result<String> {
    if row.get_ref(1)? == ValueRef::Null {
        return row.get(0);
    }
    let short = dictionaries.json_of(row, 0, 1)?.unwrap_or_default();
    let short = String::from_utf8(short).map_err(|error| unreadable(1, error))?;
    let columns = Columns::new(&[id(row, 2)?, id(row, 3)?], row.get_ref(4)?.as_str_or_null()?);
    columns.put_back(short).map_err(|error| unreadable(1, error))
}

fn parse<T: DeserializeOwned>(row: &rusqlite::Row<'_>) -> rusqlite::Result<T> {
    read(0, row.get_ref(0)?.as_str()?)
}

fn read<T: DeserializeOwned>(column: usize, json: &str) -> rusqlite::Result<T> {
    serde_json::from_str(json).map_err(|error| unreadable(column, error))
}

fn unreadable(column: usize, error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}
