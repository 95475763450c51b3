//! Mending the files of a home: what was changed is kept, what was done is told, and the next look finds nothing.

use std::fs;
use std::path::Path;

use engine::{Position, Seq};

use super::check::{killed, three};
use super::own;
use crate::check::{What, check};
use crate::mend::Mender;
use crate::suite::Script;
use crate::{Error, Journal as _, Read as _, Sqlite};

/// What is found, but for views: the scripts here record no rows of them.
fn found(home: &Path) -> Vec<What> {
    let findings = check(home, &mut |_| ()).unwrap().findings;
    findings.iter().map(|finding| finding.what).filter(|what| *what != What::Views).collect()
}

/// The file of the home whose name begins so.
fn kept(home: &Path, beginning: &str) -> Vec<u8> {
    let mut files = fs::read_dir(home).unwrap().map(|file| file.unwrap());
    let file = files.find(|file| file.file_name().to_string_lossy().starts_with(beginning));
    fs::read(file.unwrap_or_else(|| panic!("nothing begins with {beginning}")).path()).unwrap()
}

#[test]
fn r10_accepting_a_loss_sets_the_mark_and_keeps_the_old_one() {
    let (_folder, home) = killed(&mut Script::new(1));
    let mark = fs::read(home.join("journal.mark")).unwrap();
    fs::remove_file(home.join("journal.db-wal")).unwrap();
    assert_eq!(found(&home), [What::Lost]);
    let did = Mender::take(&home).unwrap().loss().unwrap().join("\n");
    assert!(did.contains("the mark now says position 1") && did.contains("positions 2 to 2"), "{did}");
    assert_eq!(kept(&home, "journal.mark.before-"), mark);
    assert_eq!(found(&home), []);
    assert_eq!(own(&home).head(), Ok(Position(1)));
}

#[test]
fn r10_a_mark_that_is_none_closes_the_home_until_it_is_mended() {
    let (_folder, home, _) = three();
    fs::write(home.join("journal.mark"), b"half a mark").unwrap();
    assert!(matches!(Sqlite::own(&home), Err(Error::Damaged { .. })));
    assert_eq!(fs::read(home.join("journal.mark")).unwrap(), b"half a mark");
    let did = Mender::take(&home).unwrap().loss().unwrap().join("\n");
    assert!(did.contains("the mark now says position 12"), "{did}");
    assert_eq!(kept(&home, "journal.mark.damaged-"), b"half a mark");
    assert_eq!(found(&home), []);
}

#[test]
fn r10_a_stale_wal_is_kept_under_another_name() {
    let (_folder, dead) = killed(&mut Script::new(1));
    let (_folder, home, _) = three();
    fs::copy(dead.join("journal.db-wal"), home.join("journal.db-wal")).unwrap();
    assert_eq!(found(&home), [What::StaleWal]);
    Mender::take(&home).unwrap().wal().unwrap();
    assert_eq!(kept(&home, "journal.db-wal.stale-"), fs::read(dead.join("journal.db-wal")).unwrap());
    assert_eq!(found(&home), []);
    assert_eq!(own(&home).head(), Ok(Position(12)));
}

#[test]
fn r10_what_can_be_read_is_rescued_and_the_old_file_is_kept() {
    let (_folder, home, scripts) = three();
    let sqlite = own(&home);
    let mut long = Script::new(4);
    super::add(&sqlite, long.begin()).unwrap();
    for n in 0..120 {
        super::add(&sqlite, long.batch(vec![crate::suite::samples::struck(n)], vec![])).unwrap();
    }
    let head = sqlite.head().unwrap();
    drop(sqlite);
    let path = home.join("journal.db");
    let mut bytes = fs::read(&path).unwrap();
    // A page in the middle of the long session.
    let at = bytes.windows(32).position(|window| window.ends_with(b"/request/60/1\"}") || window.starts_with(b"x0"));
    let page = at.expect("it is in there") / 4096 * 4096;
    bytes[page] ^= 0x40;
    fs::write(&path, &bytes).unwrap();
    assert!(found(&home).contains(&What::Pages), "{:?}", found(&home));
    let did = Mender::take(&home).unwrap().rescue(&mut |_| ()).unwrap().join("\n");
    assert!(did.contains("nothing could be read at positions"), "{did}");
    assert_eq!(kept(&home, "journal.db.damaged-"), bytes);
    // What is gone is one session's; the others are whole, and nothing else is wrong.
    assert_eq!(found(&home), [What::Entry], "{did}");
    let sqlite = own(&home);
    assert_eq!(sqlite.head(), Ok(head), "{did}");
    assert_eq!(sqlite.read(scripts[0].branch, Seq(1)).unwrap().len(), 4);
    assert!(sqlite.epoch().0 > 2, "no owner's number is used twice");
}

#[test]
fn a_home_that_is_owned_is_not_mended() {
    let (_folder, home, _) = three();
    let _owner = own(&home);
    assert!(matches!(Mender::take(&home), Err(Error::Owned { .. })));
}
