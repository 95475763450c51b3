//! Data that a home holds beside the lines of its sessions: a check reports it, and it is no damage.

use std::path::Path;

use engine::{EffectId, EffectKind, Event, RunId, Seq, TextAdded};
use rusqlite::Connection;

use super::anchored::{fork, kept};
use super::check::look;
use super::{add, own};
use crate::check::{Consequence, Repair, What};
use crate::repair::Repairs;
use crate::suite::id;
use crate::suite::samples::{sealed, text};
use crate::{Collected, Read as _, Reader};

fn change(home: &Path, sql: &str) {
    assert!(Connection::open(home.join("journal.db")).unwrap().execute(sql, []).unwrap() > 0, "{sql}");
}

#[test]
fn r18_an_abandoned_branch_is_checked_and_closes_no_session() {
    let (_folder, home, script) = kept();
    fork(&home, &script, Seq(3));
    let looked = look(&home);
    assert_eq!((looked.findings, looked.notes), (vec![], vec![]));
    super::as_text(&home);
    change(&home, "UPDATE entries SET payload = replace(payload, 'request', 'requesT') WHERE branch = 1 AND seq = 7");
    let report = look(&home);
    assert_eq!((report.findings, report.counts.entries), (vec![], looked.counts.entries));
    let wanted = format!("{}@7, on an abandoned branch of session {}, is corrupt", script.branch, script.key);
    assert!(report.notes[0].starts_with(&wanted), "{:?}", report.notes);
    // An unreadable snapshot keeps everything from being collected.
    change(&home, "UPDATE snapshots SET content = zeroblob(9)");
    let report = look(&home);
    let finding = &report.findings[0];
    assert_eq!((finding.what, &finding.effect), (What::Snapshot, &Consequence::Kept));
    assert_eq!(finding.repair, Some(Repair::Snapshots(Some(script.key))));
}

#[test]
fn r10_the_count_of_unused_content_equals_what_is_collected() {
    let (_folder, home, mut script) = kept();
    let sqlite = own(&home);
    let piece = |run: u128, ordinal: u32, try_no: u32| -> Event {
        let effect = EffectId { run: RunId(id(run)), kind: EffectKind::Request, ordinal, try_no };
        TextAdded { effect, offset: 0, text: "piece".to_owned() }.into()
    };
    let answer = text("an answer");
    add(&sqlite, script.batch(vec![sealed(1, answer.body)], vec![answer])).unwrap();
    // Progress behind the entry that seals it: nothing writes such a piece, and nothing would remove it. The other one
    // is open.
    add(&sqlite, script.batch(vec![piece(77, 1, 1)], vec![])).unwrap();
    add(&sqlite, script.batch(vec![piece(77, 2, 1)], vec![])).unwrap();
    drop(sqlite);
    change(&home, "INSERT INTO bodies SELECT randomblob(32), 'message', 3, 'raw', x'010203' FROM bodies");
    let expected = crate::sqlite::collect::collectable(&Reader::open(&home).unwrap()).unwrap();
    assert_eq!(expected, Collected { bodies: 1, bytes: 3, progress: 1 });
    let sqlite = own(&home);
    assert_eq!(sqlite.collect(), Ok(expected));
    assert_eq!(sqlite.progress(script.branch).unwrap().len(), 1);
}

#[test]
fn r10_a_quarantined_session_frees_its_key_and_keeps_its_entries() {
    let (_folder, home, script) = kept();
    own(&home).rebuild_views().unwrap();
    let before = own(&home).read(script.branch, Seq(1)).unwrap();
    Repairs::take(&home).unwrap().quarantine(&script.key).unwrap();
    let sqlite = own(&home);
    assert_eq!((sqlite.session(&script.key), sqlite.receipts(script.session)), (Ok(None), Ok(vec![])));
    assert_eq!(sqlite.read(script.branch, Seq(1)).unwrap(), before);
    assert_eq!(sqlite.rebuild_views().unwrap(), []);
    assert_eq!(sqlite.sessions().unwrap().len(), 2);
    drop(sqlite);
    // A session is quarantined only if nothing of it is good.
    change(&home, "UPDATE entries SET payload = '{}' WHERE branch = 1 AND seq = 1");
    let report = look(&home);
    assert_eq!(report.findings, vec![]);
    assert!(report.notes[0].contains(&format!("no session uses {}", script.branch)), "{:?}", report.notes);
}
