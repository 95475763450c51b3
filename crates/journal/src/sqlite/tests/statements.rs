//! What reading costs beside the reading itself.

use rusqlite::StatementStatus;

use super::super::Reader;
use super::{add, home, own};
use crate::suite::Script;

#[test]
fn r60_a_statement_with_a_limit_is_not_prepared_anew_for_each_value() {
    let (_folder, home) = home();
    let sqlite = own(&home);
    let mut script = Script::new(1);
    add(&sqlite, script.begin()).unwrap();
    let again = Reader::open(&home).unwrap().query(|connection| {
        let mut statement =
            connection.prepare("SELECT kind FROM entries WHERE seq >= ?1 ORDER BY position LIMIT ?2")?;
        for limit in 1..4 {
            assert!(statement.query((1, limit))?.next()?.is_some());
        }
        Ok(statement.get_status(StatementStatus::RePrepare))
    });
    assert_eq!(again.unwrap(), 0);
}
