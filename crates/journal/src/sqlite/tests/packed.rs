//! Packed rows and their dictionaries: a home of the first format beside one of this one, and what damage does.

use std::fs;
use std::path::{Path, PathBuf};

use engine::{Hash, Seq};
use faulty_vfs::{Cut, Disk, Fault, What as DiskFault};
use rusqlite::Connection;
use rusqlite::types::Value;
use tempfile::TempDir;
use zstd::bulk::Compressor;

use super::super::dictionaries::{Columns, Dictionaries, Json, Unpackable};
use super::check::{look, three};
use super::{add, filled, home, own};
use crate::check::{Consequence, Defect, Repair, What};
use crate::repair::Repairs;
use crate::suite::samples::text;
use crate::{Error, Read as _, Reader, Sqlite};

fn database(home: &Path) -> Connection {
    Connection::open(home.join("journal.db")).unwrap()
}

/// A copy of the home that a program of the first format has left.
fn first_format() -> (TempDir, PathBuf) {
    let (folder, home) = home();
    fs::create_dir_all(&home).unwrap();
    let of = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/homes/0.1-format-1");
    for name in ["journal.db", "journal.mark"] {
        fs::copy(of.join(name), home.join(name)).unwrap();
    }
    (folder, home)
}

fn number(home: &Path, sql: &str) -> i64 {
    database(home).query_row(sql, [], |row| row.get(0)).unwrap()
}

/// All columns that both formats have, of all entries.
fn entries(home: &Path) -> Vec<Vec<Value>> {
    let connection = database(home);
    let sql = "SELECT position, branch, seq, epoch, at, kind, version, payload, payload_hash, chain FROM entries";
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| (0..10).map(|column| row.get(column)).collect()).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

#[test]
fn r10_a_home_of_the_first_format_is_migrated_and_its_rows_stay_as_they_are() {
    let (_folder, home) = first_format();
    let before = entries(&home);
    assert!(matches!(Reader::open(&home).unwrap_err(), Error::Older { version: 1, known: 2, .. }));
    let sqlite = own(&home);
    let (sessions, runs) = (sqlite.sessions().unwrap(), sqlite.runs(None).unwrap());
    assert!(!sessions.is_empty() && !runs.is_empty());
    drop(sqlite);
    assert_eq!(entries(&home), before);
    assert_eq!(number(&home, "PRAGMA user_version"), 2);
    assert_eq!(number(&home, "SELECT count(*) FROM entries WHERE packed IS NOT NULL"), 0);
    assert_eq!(number(&home, "SELECT count(*) FROM sqlite_schema WHERE name = 'view_usage'"), 0);
    let copies = fs::read_dir(&home).unwrap().map(|file| file.unwrap().file_name());
    assert_eq!(copies.filter(|name| name.to_string_lossy().starts_with("journal.db.v1-")).count(), 1);
    assert_eq!(crate::check::check(&home, &mut |_| ()).unwrap().findings, vec![]);
    // The tables are those of a new home.
    let (_other, new) = super::home();
    drop(own(&new));
    let shapes = |home: &Path| super::super::schema::shapes_of(&database(home)).unwrap();
    assert_eq!(shapes(&home), shapes(&new));
}

/// R18: entries that the first format holds, stored as this one stores them, have the same hashes and the same chain.
#[test]
fn r18_both_formats_verify_to_the_same_chain() {
    let (_folder, home) = first_format();
    drop(own(&home));
    let heads = |home: &Path| {
        let reader = Reader::open(home).unwrap();
        let head = |(branch, _)| {
            let verified = reader.verify(&reader.lineage(branch).unwrap());
            assert!(verified.is_intact(), "{:?}", verified.faults);
            verified.head.unwrap()
        };
        reader.branches().unwrap().into_iter().map(head).collect::<Vec<_>>()
    };
    let (first, text) = (heads(&home), number(&home, "SELECT sum(length(payload)) FROM entries"));
    for entry in entries(&home) {
        let (Value::Integer(position), Value::Text(payload)) = (&entry[0], &entry[7]) else { panic!("{entry:?}") };
        let sql = "UPDATE entries SET payload = ?2, packed = ?3 WHERE position = ?1";
        let json = Json::of(payload.clone());
        database(&home).execute(sql, (position, json.text(), json.packed())).unwrap();
    }
    assert_eq!(heads(&home), first);
    let packed = number(&home, "SELECT sum(length(coalesce(packed, payload))) FROM entries");
    assert!(packed * 2 < text, "{packed} of {text}");
    // And back.
    super::as_text(&home);
    assert_eq!((heads(&home), number(&home, "SELECT sum(length(payload)) FROM entries")), (first, text));
}

#[test]
fn r10_r11_a_kill_at_any_operation_of_the_migration_from_the_first_format_changes_nothing() {
    let expected = entries(&first_format().1);
    let (mut old, mut new) = (0, 0);
    for at in 1.. {
        let (folder, home) = first_format();
        let disk = Disk::install(&home).unwrap();
        disk.plan(Fault::at(at, DiskFault::Crash));
        drop(Sqlite::own_stepped(&home, |_| true));
        let cut = folder.path().join("cut");
        disk.power_cut(Cut::Torn { seed: at }, &cut).unwrap();
        let is_reached = disk.is_crashed();
        disk.heal();
        drop(disk);
        if !is_reached {
            break;
        }
        for home in [&home, &cut] {
            match number(home, "PRAGMA user_version") {
                1 => old += 1,
                _ => new += 1,
            }
            assert_eq!(entries(home), expected, "operation {at}");
            drop(own(home));
            assert_eq!(number(home, "PRAGMA user_version"), 2, "operation {at}");
            assert_eq!(entries(home), expected, "operation {at}");
        }
    }
    assert!(old > 0 && new > 0, "{old} old, {new} new");
}

/// R18: in values of a template and in a frame of Zstandard.
#[test]
fn r18_any_flipped_bit_in_a_packed_payload_is_found() {
    let (_folder, home, scripts) = three();
    let (before, mut meaningless) = (Reader::open(&home).unwrap().read(scripts[1].branch, Seq(1)).unwrap(), 0);
    let put = |seq: u64, packed: &[u8]| {
        let sql = "UPDATE entries SET packed = ?1 WHERE branch = 2 AND seq = ?2";
        assert_eq!(database(&home).execute(sql, (packed, seq as i64)).unwrap(), 1);
    };
    let sql = "SELECT packed FROM entries WHERE branch = 2 ORDER BY seq";
    let mut rows = vec![];
    for packed in database(&home).prepare(sql).unwrap().query_map([], |row| row.get(0)).unwrap() {
        let packed: Vec<u8> = packed.unwrap();
        rows.push((rows.len() as u64 + 1, packed));
    }
    let templates = rows.iter().filter(|(_, packed)| packed[0] == 11).count();
    assert!((1..rows.len()).contains(&templates), "both kinds: {templates}");
    for (seq, packed) in rows {
        for bit in 0..packed.len() * 8 {
            let mut flipped = packed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            put(seq, &flipped);
            let reader = Reader::open(&home).unwrap();
            let error = match reader.read(scripts[1].branch, Seq(1)) {
                // A few bits of a frame have no meaning.
                Ok(same) if same == before => {
                    meaningless += 1;
                    continue;
                }
                other => other.unwrap_err(),
            };
            assert!(matches!(error, Error::Damaged { .. }), "{seq}, bit {bit}: {error}");
            let verified = reader.verify(&reader.lineage(scripts[1].branch).unwrap());
            let defects: Vec<_> =
                verified.faults.iter().map(|fault| (fault.place.checkpoint.seq, &fault.defect)).collect();
            let is_it = |defect: &Defect| matches!(defect, Defect::Payload | Defect::Chain | Defect::Dictionary { .. });
            assert!(
                defects.len() == 1 && defects[0].0 == Seq(seq) && is_it(defects[0].1),
                "{seq}, bit {bit}: {defects:?}"
            );
            assert!(reader.read(scripts[0].branch, Seq(1)).is_ok(), "the others are intact");
        }
        put(seq, &packed);
    }
    assert!(meaningless < 8, "{meaningless}");
    // Nor is a text beside it believed.
    database(&home).execute("UPDATE entries SET payload = '{}' WHERE branch = 2 AND seq = 2", []).unwrap();
    let reader = Reader::open(&home).unwrap();
    let verified = reader.verify(&reader.lineage(scripts[1].branch).unwrap());
    let [fault] = &verified.faults[..] else { panic!("{:?}", verified.faults) };
    assert_eq!((fault.place.checkpoint.seq, &fault.defect), (Seq(2), &Defect::Payload));
}

/// R10: what this program has packed is readable without the table, and the table is whole again after a repair, or
/// once the home has an owner.
#[test]
fn r10_a_lost_dictionary_is_found_and_put_back() {
    for sql in [
        "DELETE FROM dictionaries WHERE id IN (1, 3)",
        "UPDATE dictionaries SET bytes = x'00'",
        "DROP TABLE dictionaries",
    ] {
        let (_folder, home, scripts) = three();
        let change = || database(&home).execute_batch(sql).unwrap();
        change();
        let findings = look(&home).findings;
        assert!(!findings.is_empty(), "{sql}");
        for finding in &findings {
            assert_eq!((finding.what, finding.repair.as_ref()), (What::Tables, Some(&Repair::Dictionaries)), "{sql}");
        }
        if !sql.starts_with("DROP") {
            assert_eq!(findings[0].effect, Consequence::Others);
            assert_eq!(Reader::open(&home).unwrap().read(scripts[1].branch, Seq(1)).unwrap().len(), 4, "{sql}");
            drop(own(&home));
            assert_eq!(look(&home).findings, vec![], "{sql}: its owner has written it again");
            change();
        }
        Repairs::take(&home).unwrap().dictionaries().unwrap();
        assert_eq!(look(&home).findings, vec![], "{sql}");
        assert_eq!(own(&home).read(scripts[1].branch, Seq(1)).unwrap().len(), 4, "{sql}");
    }
}

/// R10: a home that is older than the templates needs none until its next owner writes them.
#[test]
fn r10_only_templates_that_something_needs_are_missing() {
    let (_folder, home, _) = three();
    database(&home).execute("DELETE FROM dictionaries WHERE id = 3", []).unwrap();
    assert_eq!(look(&home).findings.len(), 1);
    super::as_text(&home);
    assert_eq!(look(&home).findings, vec![]);
    drop(own(&home));
    assert_eq!(number(&home, "SELECT count(*) FROM dictionaries"), 3);
    database(&home).execute("UPDATE dictionaries SET bytes = x'7b7d0a' WHERE id = 3", []).unwrap();
    assert_eq!(look(&home).findings.len(), 1, "changed, whoever needs it");
}

/// R10: a home with templates of a later version is read with those, and their absence is reported as such.
#[test]
fn r10_templates_that_this_program_does_not_have_come_from_the_home() {
    let (_folder, home, scripts) = three();
    let before = Reader::open(&home).unwrap().read(scripts[1].branch, Seq(1)).unwrap();
    let connection = database(&home);
    let at = "WHERE branch = 2 AND seq = 3";
    let template = [b"{}\n", &before[2].event.payload()[..], b"\n"].concat();
    connection.execute("INSERT INTO dictionaries VALUES (5, ?1)", [&template]).unwrap();
    connection.execute(&format!("UPDATE entries SET packed = x'0d01' {at}"), []).unwrap();
    assert_eq!(Reader::open(&home).unwrap().read(scripts[1].branch, Seq(1)).unwrap(), before);
    assert_eq!(look(&home).findings, vec![]);
    connection.execute("DELETE FROM dictionaries WHERE id = 5", []).unwrap();
    let error = own(&home).read(scripts[1].branch, Seq(1)).unwrap_err();
    assert!(error.to_string().contains("dictionary 5"), "{error}");
    let finding = look(&home).findings.remove(0);
    assert!(finding.detail.contains("dictionary 5") && finding.repair.is_none(), "{finding:?}");
    // Neither a dictionary nor a missing row is a list of templates.
    for packed in ["x'0801'", "x'0901'", "x'0b'", "x'0bff7f'"] {
        connection.execute(&format!("UPDATE entries SET packed = {packed} {at}"), []).unwrap();
        assert_eq!(own(&home).read(scripts[1].branch, Seq(1)).unwrap_err().kind(), crate::Kind::Damaged, "{packed}");
        let verified = Reader::open(&home).unwrap();
        let verified = verified.verify(&verified.lineage(scripts[1].branch).unwrap());
        assert_eq!(verified.faults[0].defect, Defect::Payload, "{packed}");
    }
}

/// R10: a home with a dictionary of a later version is read with that one, and its absence is reported as such.
#[test]
fn r10_a_dictionary_that_this_program_does_not_have_comes_from_the_home() {
    let (_folder, home, scripts) = three();
    let connection = database(&home);
    let own_one: Vec<u8> =
        connection.query_row("SELECT bytes FROM dictionaries WHERE id = 1", [], |row| row.get(0)).unwrap();
    // The id is in the four bytes after the magic number of a dictionary.
    let other = [&own_one[..4], &77_u32.to_le_bytes(), &own_one[8..]].concat();
    connection.execute("INSERT INTO dictionaries VALUES (77, ?1)", [&other]).unwrap();
    let at = "WHERE branch = 2 AND seq = 3";
    super::as_text(&home);
    let payload: String =
        connection.query_row(&format!("SELECT payload FROM entries {at}"), [], |row| row.get(0)).unwrap();
    let frame = Compressor::with_dictionary(3, &other).unwrap().compress(payload.as_bytes()).unwrap();
    let sql = format!("UPDATE entries SET payload = NULL, packed = ?1 {at}");
    connection.execute(&sql, [&frame[4..]]).unwrap();
    assert_eq!(look(&home).findings, vec![]);
    assert_eq!(own(&home).read(scripts[1].branch, Seq(1)).unwrap().len(), 4);
    connection.execute("DELETE FROM dictionaries WHERE id = 77", []).unwrap();
    let error = own(&home).read(scripts[1].branch, Seq(1)).unwrap_err();
    assert!(error.to_string().contains("dictionary 77"), "{error}");
    let finding = look(&home).findings.remove(0);
    assert!(finding.detail.contains("dictionary 77") && finding.repair.is_none(), "{finding:?}");
    // The same for a body.
    connection
        .execute("UPDATE entries SET payload = ?1, packed = NULL WHERE branch = 2 AND seq = 3", [payload])
        .unwrap();
    assert_eq!(look(&home).findings, vec![]);
    let body = Compressor::with_dictionary(3, &other).unwrap().compress(b"the same for all").unwrap();
    assert_eq!(connection.execute("UPDATE bodies SET encoding = 'zstd', content = ?1", [body]).unwrap(), 1);
    let finding = look(&home).findings.remove(0);
    assert_eq!((finding.what, &finding.repair), (What::Body, &None), "{finding:?}");
    assert!(finding.detail.contains("dictionary 77"), "{finding:?}");
}

#[test]
fn r10_a_packed_payload_is_erased_by_two_nulls() {
    let (_folder, home, scripts) = three();
    let hashes = "SELECT count(*) FROM entries WHERE payload_hash <> x''";
    assert_eq!(number(&home, hashes), 0, "the payload says its hash");
    super::redact(&home, 2, &[3]);
    assert_eq!(number(&home, hashes), 1);
    let reader = Reader::open(&home).unwrap();
    assert!(matches!(reader.read(scripts[1].branch, Seq(1)), Err(Error::Erased { seq: Seq(3), .. })));
    let verified = reader.verify(&reader.lineage(scripts[1].branch).unwrap());
    let defects: Vec<_> = verified.faults.iter().map(|fault| &fault.defect).collect();
    assert_eq!(defects, [&Defect::Unfounded], "the chain is whole");
}

#[test]
fn a_packed_row_is_the_row_whatever_its_key_is() {
    let ids = [crate::suite::id(1), crate::suite::id(2)];
    for key in [None, Some(""), Some("a"), Some("\"quoted\" \\ \n\u{1}\u{2}"), Some("019b7699"), Some("钥匙")] {
        let row = serde_json::json!({ "message": ids[0], "session": ids[1], "key": key, "run": ids[0], "body": "b" });
        let row = row.to_string();
        let columns = Columns::new(&ids, key);
        let back = match columns.pack(row.clone()) {
            Json::Text(text) => text,
            Json::Packed(packed) => {
                let short = Dictionaries::default().json(None, Some(&packed)).unwrap().unwrap().into_owned();
                columns.put_back(String::from_utf8(short).unwrap()).unwrap()
            }
        };
        assert_eq!(back, row, "{key:?}");
    }
}

#[test]
fn short_bodies_are_packed_and_give_their_bytes_back() {
    let answer = "The file holds the names of all pages, one a line, and you can change it while the program runs.";
    let (_folder, home, mut script) = filled();
    let sqlite = own(&home);
    let bodies = [answer, "ok", "\u{1f980}\u{1f980}\u{1f980}"].map(text);
    let events = bodies.iter().map(|body| crate::suite::samples::accepted(body.body)).collect();
    add(&sqlite, script.batch(events, bodies.to_vec())).unwrap();
    for content in &bodies {
        assert_eq!(sqlite.body(&content.body.hash).unwrap().as_deref(), Some(&*content.bytes));
    }
    let sql = "SELECT length(content) FROM bodies WHERE hash = ?1 AND encoding = 'zstd'";
    let stored: i64 = database(&home).query_row(sql, [Hash::of(answer.as_bytes()).0], |row| row.get(0)).unwrap();
    assert!(stored * 4 < answer.len() as i64 * 3, "{stored} of {}", answer.len());
}

#[test]
fn frames_that_are_no_frames_ask_for_no_memory() {
    let dictionaries = Dictionaries::default();
    let frame = zstd::encode_all(&vec![0_u8; 1 << 20][..], 3).unwrap();
    assert_eq!(dictionaries.body("zstd", 1000, frame), Err(Unpackable::Frame), "longer than its size");
    assert_eq!(dictionaries.json(None, Some(&[0xa0, 0xff, 0xff, 0xff, 0xff])), Err(Unpackable::Frame));
    assert_eq!(dictionaries.body("brotli", 1, vec![]), Err(Unpackable::Frame));
}
