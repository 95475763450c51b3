//! The views: looked up by index, and made anew.

use engine::{Seq, SessionRow};
use rusqlite::Connection;

use super::{add, filled, own};
use crate::suite::Script;
use crate::suite::samples::{run, struck};
use crate::{Read as _, views};

#[test]
fn r11_what_is_unfinished_or_held_is_looked_up_by_its_index() {
    let (_folder, home, _) = filled();
    let connection = Connection::open(home.join("journal.db")).unwrap();
    for tail in ["unfinished AND unfinished = 1", "unfinished AND unfinished = 2"] {
        let sql = format!("EXPLAIN QUERY PLAN SELECT row FROM view_sessions WHERE {tail} ORDER BY rowid");
        let plan: String = connection.query_row(&sql, [], |row| row.get(3)).unwrap();
        assert!(plan.contains("INDEX view_sessions_unfinished"), "{plan}");
    }
}

#[test]
fn r10_views_that_were_lost_or_changed_are_made_anew_from_the_entries() {
    let (_folder, home, script) = filled();
    let sqlite = own(&home);
    let mut other = Script::new(2);
    add(&sqlite, other.begin()).unwrap();
    drop(sqlite);
    let connection = Connection::open(home.join("journal.db")).unwrap();
    let strange = "INSERT INTO view_receipts VALUES (zeroblob(16), zeroblob(16), NULL, '{}')";
    connection.execute_batch(strange).unwrap();

    let sqlite = own(&home);
    assert_eq!(sqlite.rebuild_views().unwrap(), []);
    let keys = |rows: Vec<SessionRow>| rows.into_iter().map(|row| row.key).collect::<Vec<_>>();
    assert_eq!(
        keys(sqlite.sessions().unwrap()),
        [script.key.clone(), other.key.clone()],
        "in the order of their beginning"
    );
    assert!(sqlite.run(run()).unwrap().is_some_and(|row| row.outcome.is_some()));
    assert_eq!(sqlite.receipts(script.session).unwrap().len(), 1);
    let usage: i64 = connection.query_row("SELECT input FROM view_usage", [], |row| row.get(0)).unwrap();
    assert_eq!(usage, 11);
    let strange: i64 =
        connection.query_row("SELECT count(*) FROM view_receipts WHERE row = '{}'", [], |row| row.get(0)).unwrap();
    assert_eq!(strange, 0);
    let once = sqlite.sessions().unwrap();
    sqlite.rebuild_views().unwrap();
    assert_eq!(sqlite.sessions().unwrap(), once);
}

#[test]
fn r10_the_rows_of_a_session_that_cannot_be_read_stay_as_they_are() {
    let (_folder, home, script) = filled();
    let sqlite = own(&home);
    sqlite.rebuild_views().unwrap();
    let (sessions, runs) = (sqlite.sessions().unwrap(), sqlite.runs(None).unwrap());
    let mut other = Script::new(2);
    add(&sqlite, other.begin()).unwrap();
    add(&sqlite, other.batch(vec![struck(1)], vec![])).unwrap();
    drop(sqlite);
    let connection = Connection::open(home.join("journal.db")).unwrap();
    connection.execute_batch("UPDATE entries SET payload = '{}' WHERE seq = 5 AND branch = 1").unwrap();

    let sqlite = own(&home);
    let unreadable = sqlite.rebuild_views().unwrap();
    assert_eq!(unreadable.iter().map(|(session, _)| *session).collect::<Vec<_>>(), [script.session]);
    assert_eq!(sqlite.sessions().unwrap().len(), 2);
    assert_eq!(sqlite.sessions().unwrap()[0], sessions[0]);
    assert_eq!(sqlite.runs(None).unwrap(), runs);
    assert_eq!(views::rebuilt(&sqlite).unwrap().rows.len(), 1);
    assert!(sqlite.read(other.branch, Seq(1)).is_ok());
}
