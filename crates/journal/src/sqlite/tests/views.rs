//! The views: queried by index, and rebuilt.

use engine::{RunId, Seq, SessionRow};
use rusqlite::Connection;

use super::{add, filled, home, own};
use crate::suite::samples::{retracted, run, run_row, session_row};
use crate::suite::{Script, append};
use crate::{Journal as _, Read as _, Reader, Sqlite, views};

#[test]
fn r11_unfinished_and_suspended_sessions_are_found_by_index() {
    let (_folder, home, _) = filled();
    let connection = Connection::open(home.join("journal.db")).unwrap();
    for tail in ["unfinished AND unfinished = 1", "unfinished AND unfinished = 2"] {
        let sql = format!("EXPLAIN QUERY PLAN SELECT row FROM view_sessions WHERE {tail} ORDER BY rowid");
        let plan: String = connection.query_row(&sql, [], |row| row.get(3)).unwrap();
        assert!(plan.contains("INDEX view_sessions_unfinished"), "{plan}");
    }
}

/// R22: rows outside of a page are not read: reading them would fail.
#[test]
fn r22_a_page_of_a_list_looks_at_no_other_rows() {
    let (_folder, home, first) = filled();
    let sqlite = own(&home);
    let (mut second, mut third) = (Script::new(2), Script::new(3));
    for script in [&mut second, &mut third] {
        let mut batch = script.begin();
        batch.views.session = Some(session_row(script, false));
        batch.views.runs = vec![run_row(script, RunId(script.session.0), None)];
        add(&sqlite, batch).unwrap();
    }
    sqlite.rebuild_views().unwrap();
    let connection = Connection::open(home.join("journal.db")).unwrap();
    for table in ["view_sessions", "view_runs"] {
        let sql = format!("UPDATE {table} SET row = 'unreadable' WHERE session = ?1");
        assert_eq!(connection.execute(&sql, [first.session.0.as_bytes()]).unwrap(), 1);
    }
    assert!(sqlite.sessions().is_err() && sqlite.runs(None).is_err());
    let keys: Vec<_> = sqlite.sessions_before(None, 1).unwrap().into_iter().map(|row| row.key).collect();
    assert_eq!(keys, [third.key]);
    let before = sqlite.sessions_before(Some(third.session), 1).unwrap();
    assert_eq!(before.into_iter().map(|row| row.key).collect::<Vec<_>>(), [second.key]);
    assert!(sqlite.runs_before(None, None, 0).unwrap().is_empty());
    assert!(sqlite.runs_before(Some(second.session), None, 5).is_ok());
}

#[test]
fn r10_views_that_were_lost_or_changed_are_rebuilt_from_the_entries() {
    let (_folder, home, script) = filled();
    let sqlite = own(&home);
    let mut other = Script::new(2);
    add(&sqlite, other.begin()).unwrap();
    drop(sqlite);
    let connection = Connection::open(home.join("journal.db")).unwrap();
    let strange = "INSERT INTO view_receipts VALUES (zeroblob(16), zeroblob(16), NULL, '{}', NULL)";
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
    assert_eq!(sqlite.run(run()).unwrap().unwrap().usage.input, 11);
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
    add(&sqlite, other.batch(vec![retracted(1)], vec![])).unwrap();
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

/// R18: whoever looks for a session at the moment of its creation finds it or does not; nothing is damaged.
#[test]
fn r18_a_session_that_is_created_during_a_look_is_no_damage() {
    const SESSIONS: u128 = 300;
    let (_folder, home) = home();
    let journal = Sqlite::own(&home).unwrap();
    let reader = Reader::open(&home).unwrap();
    std::thread::scope(|threads| {
        let creating = threads.spawn(|| {
            for n in 1..=SESSIONS {
                let mut script = Script::new(n);
                let mut batch = script.begin();
                batch.views.session = Some(session_row(&script, false));
                append(&journal, journal.epoch(), batch).unwrap();
            }
        });
        for n in 1..=SESSIONS {
            let look = || reader.session(&Script::new(n).key).unwrap();
            while look().is_none() {
                assert!(!creating.is_finished() || look().is_some(), "session {n} is not there");
            }
        }
    });
}
