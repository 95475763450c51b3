//! Records that are appended while a tail is read.

use engine::{Event, Seq};

use super::super::Reader;
use super::super::tail::tail;
use super::{add, home, own};
use crate::suite::Script;
use crate::suite::samples::{retracted, sealed, text, text_added};
use crate::{Read as _, StoredLineage};

/// R43: a subscriber that comes back resumes after the last entry of the tail. Progress before that entry would count
/// as seen.
#[test]
fn r43_a_tail_is_one_consistent_read_while_entries_are_added() {
    let (_folder, home) = home();
    let sqlite = own(&home);
    let reader = Reader::open(&home).unwrap();
    let mut script = Script::new(1);
    add(&sqlite, script.begin()).unwrap();
    add(&sqlite, script.batch(vec![text_added(1, 0, "ab")], vec![])).unwrap();
    let branch = script.branch;
    let body = text("abcd");
    let batches: [(Vec<Event>, _); 3] = [
        (vec![text_added(1, 2, "cd")], vec![]),
        (vec![retracted(2)], vec![]),
        (vec![sealed(1, body.body)], vec![body]),
    ];
    for (events, bodies) in batches {
        let more = script.batch(events, bodies);
        let before = reader.tail(branch, Seq(1)).unwrap();
        let read = tail(&reader, branch, Seq(1), || {
            add(&sqlite, more.clone()).unwrap();
        })
        .unwrap();
        assert_eq!(read, before, "what was recorded meanwhile is in the next one alone");
        assert_ne!(reader.tail(branch, Seq(1)).unwrap(), before);
    }
    let StoredLineage { progress, .. } = reader.history(branch).unwrap();
    assert_eq!(progress, [], "all of it is sealed");
}
