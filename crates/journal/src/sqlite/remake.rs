//! Rebuilds the views, a session at a time: the rows wait in a temporary table of this connection, which SQLite stores
//! in a file, until all are there and can be written in the order in which they were first recorded.

use std::path::Path;

use engine::{Epoch, Position, SessionId, Views};
use rusqlite::{Connection, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::collect::transaction;
use super::reader::Reader;
use super::{failed, home, rows, schema};
use crate::views::{OfSession, Placed, each};
use crate::{Error, Read as _};

/// Rebuilds the views; returns the sessions that cannot be read. Their rows stay, and so do rows of entries that were
/// removed since.
pub(super) fn remake(home: &Path, epoch: Epoch, reader: &Reader) -> Result<Vec<(SessionId, Error)>, Error> {
    let path = home.join(home::DATABASE);
    let connection = schema::connect(&path)?;
    connection.pragma_update(None, "synchronous", "FULL").map_err(failed(&path))?;
    let head = reader.head()?;
    let (stay, unreadable) = gather(&connection, reader).map_err(|error| match error {
        Gather::Read(error) => error,
        Gather::Write(error) => failed(&path)(error),
    })?;
    let is_still = transaction(&connection, epoch, &path, || {
        if schema::last(&connection)?.map_or(Position(0), |(last, _)| last) != head {
            return Ok(false);
        }
        rows::clear(&connection, &stay)?;
        write(&connection).map(|()| true)
    })?;
    let detail = "entries were appended while the views were rebuilt".to_owned();
    if is_still { Ok(unreadable) } else { Err(Error::Constraint { detail }) }
}

enum Gather {
    Read(Error),
    Write(rusqlite::Error),
}

type Gathered = (Vec<SessionId>, Vec<(SessionId, Error)>);

/// Collects the rows; returns the sessions whose other rows stay, and those that cannot be read.
fn gather(connection: &Connection, reader: &Reader) -> Result<Gathered, Gather> {
    let table = "CREATE TEMP TABLE remade(position INTEGER, nth INTEGER, kind TEXT, row TEXT) STRICT; BEGIN";
    connection.execute_batch(table).map_err(Gather::Write)?;
    let (mut stay, mut unreadable, mut wrong) = (vec![], vec![], None);
    each(reader, &mut |OfSession { session, rows, is_complete }| {
        if !is_complete {
            stay.push(session);
        }
        match rows {
            Ok(rows) => wrong = wrong.take().or(rows.iter().try_for_each(|placed| put(connection, placed)).err()),
            Err(error) => unreadable.push((session, error)),
        }
        Ok(())
    })
    .map_err(Gather::Read)?;
    wrong.map_or(Ok(()), Err).and_then(|()| connection.execute_batch("COMMIT")).map_err(Gather::Write)?;
    Ok((stay, unreadable))
}

fn put(connection: &Connection, Placed { first: (position, nth), row }: &Placed) -> rusqlite::Result<()> {
    let Views { session, runs, receipts, approvals } = row;
    let one = |kind: &str, row: &str| {
        let sql = "INSERT INTO remade VALUES (?1, ?2, ?3, ?4)";
        connection.prepare_cached(sql)?.execute(params![position.0 as i64, *nth as i64, kind, row]).map(|_| ())
    };
    session.iter().try_for_each(|row| one("session", &json(row)))?;
    runs.iter().try_for_each(|row| one("run", &json(row)))?;
    receipts.iter().try_for_each(|row| one("receipt", &json(row)))?;
    approvals.iter().try_for_each(|row| one("approval", &json(row)))
}

fn write(connection: &Connection) -> rusqlite::Result<()> {
    let mut statement = connection.prepare("SELECT kind, row FROM remade ORDER BY position, nth")?;
    let mut remade = statement.query([])?;
    while let Some(found) = remade.next()? {
        let (kind, row) = (found.get_ref(0)?.as_str()?, found.get_ref(1)?.as_str()?);
        let mut views = Views::default();
        match kind {
            "session" => views.session = Some(read(row)),
            "run" => views.runs.push(read(row)),
            "receipt" => views.receipts.push(read(row)),
            _ => views.approvals.push(read(row)),
        }
        rows::write_alone(connection, &views)?;
    }
    Ok(())
}

fn json(row: &impl Serialize) -> String {
    serde_json::to_string(row).expect("rows are plain data")
}

fn read<T: DeserializeOwned>(row: &str) -> T {
    serde_json::from_str(row).expect("it was written a moment ago")
}
