//! The index of what was said, and the erasure of a session.

use std::fs;
use std::path::Path;

use engine::Seq;

use super::erase::erased;
use super::{add, home, own};
use crate::suite::Script;
use crate::suite::samples::{accepted, text};
use crate::{DeletedConversation, Read, SearchIndex, Sqlite};

/// A session with these messages.
fn talked(sqlite: &Sqlite, n: u128, messages: &[&str]) -> Script {
    let mut script = Script::new(n);
    add(sqlite, script.begin()).unwrap();
    for message in messages {
        let body = text(message);
        add(sqlite, script.batch(vec![accepted(body.body)], vec![body])).unwrap();
    }
    script
}

/// The texts that may hold these words, the latest first.
fn found(home: &Path, read: &dyn Read, words: &[&str]) -> Vec<String> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let mut index = SearchIndex::open(home).unwrap();
    while !index.fill(read, 1).unwrap() {}
    let (mut all, mut before) = (vec![], None);
    // One at a time: a page begins where the one before it ended.
    while let [only] = index.candidates(&words, before, 1).unwrap()[..] {
        all.push(only);
        before = Some(only.id);
    }
    let texts = all.iter().filter_map(|text| read.body(&text.hash).unwrap());
    texts.map(|text| String::from_utf8(text.to_vec()).unwrap()).collect()
}

#[test]
fn r21_texts_are_found_by_their_parts_and_the_latest_come_first() {
    let (_folder, home) = home();
    let sqlite = own(&home);
    let many: Vec<String> = (0..1_200).map(|n| format!("tide number {n}.")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    talked(&sqlite, 1, &many);
    talked(&sqlite, 2, &["High \"Tide\"", "余额不足，请充值"]);
    assert_eq!(found(&home, &sqlite, &["tide"]).len(), 1_201);
    assert_eq!(found(&home, &sqlite, &["high", "tide"]), ["High \"Tide\""]);
    assert_eq!(found(&home, &sqlite, &["\"tide\""]), ["High \"Tide\""]);
    assert_eq!(found(&home, &sqlite, &["number 7."]), ["tide number 7."]);
    assert_eq!(found(&home, &sqlite, &["余额不足"]), ["余额不足，请充值"]);
    assert_eq!(found(&home, &sqlite, &["moon"]), Vec::<String>::new());
    assert_eq!(found(&home, &sqlite, &["余额"]).len(), 1_202, "a word that is too short is looked for by the caller");
    // What comes later is added.
    talked(&sqlite, 3, &["low tide"]);
    assert_eq!(found(&home, &sqlite, &["tide"])[0], "low tide");
}

#[test]
fn r21_an_index_of_another_journal_or_a_corrupt_one_is_made_anew() {
    let (_folder, one) = home();
    let (_other_folder, other) = home();
    let sqlite = own(&one);
    talked(&sqlite, 1, &["the tide", "the moon"]);
    let of_other = own(&other);
    talked(&of_other, 2, &["a river", "a stream", "a sea"]);
    assert_eq!(found(&one, &sqlite, &["tide"]).len(), 1);
    for words in [["river"], ["stream"]] {
        fs::copy(one.join("search.db"), other.join("search.db")).unwrap();
        assert_eq!(found(&other, &of_other, &words).len(), 1);
        assert!(found(&other, &of_other, &["tide"]).is_empty());
    }
    let file = one.join("search.db");
    for content in [vec![0x5A; 20_000], vec![], fs::read(&file).unwrap()[..8_192].to_vec()] {
        fs::write(&file, content).unwrap();
        assert_eq!(found(&one, &sqlite, &["tide"]), ["the tide"]);
    }
}

/// R61: a link in the place of the index is replaced; what it leads to is not touched.
#[test]
fn r61_an_index_is_not_made_where_a_link_leads() {
    let (folder, home) = home();
    let sqlite = own(&home);
    talked(&sqlite, 1, &["the tide"]);
    let (file, outside) = (home.join("search.db"), folder.path().join("outside.db"));
    for content in [&[][..], b"a diary"] {
        let _ = fs::remove_file(&file);
        fs::write(&outside, content).unwrap();
        std::os::unix::fs::symlink(&outside, &file).unwrap();
        assert_eq!(found(&home, &sqlite, &["tide"]), ["the tide"]);
        assert_eq!(fs::read(&outside).unwrap(), content);
        assert!(fs::symlink_metadata(&file).unwrap().is_file());
    }
    // Nor is it changed where one leads.
    fs::remove_file(&file).unwrap();
    fs::write(&outside, []).unwrap();
    std::os::unix::fs::symlink(&outside, &file).unwrap();
    let script = Script::new(1);
    let of = DeletedConversation { session: script.session, branch: script.branch, until: Seq(1) };
    SearchIndex::forget(&home, &sqlite, &of).unwrap();
    assert!(fs::read(&outside).unwrap().is_empty());
    assert!(fs::symlink_metadata(&file).is_err(), "the link is gone");
}

#[test]
fn r21_what_only_a_deleted_session_names_is_erased_and_found_nowhere() {
    let (_folder, home) = home();
    let sqlite = own(&home);
    let other = talked(&sqlite, 1, &["both say this", "the other"]);
    let script = talked(&sqlite, 2, &["both say this", "only here", "the youngest"]);
    assert_eq!(found(&home, &sqlite, &["say"]).len(), 2);
    let of = |script: &Script| DeletedConversation {
        session: script.session,
        branch: script.branch,
        until: engine::Seq(script.seq),
    };
    let gone = erased(&sqlite, of(&script));
    assert_eq!((gone.collected.bodies, gone.files), (2, vec![]));
    SearchIndex::forget(&home, &sqlite, &of(&script)).unwrap();
    for (body, is_there) in
        [("both say this", true), ("the other", true), ("only here", false), ("the youngest", false)]
    {
        assert_eq!(sqlite.body(&text(body).body.hash).unwrap().is_some(), is_there, "{body}");
    }
    assert_eq!(found(&home, &sqlite, &["say"]), ["both say this"]);
    assert!(found(&home, &sqlite, &["only"]).is_empty() && found(&home, &sqlite, &["youngest"]).is_empty());
    assert_eq!(sqlite.read(script.branch, engine::Seq(1)).unwrap().len(), 4, "the entries stay");
    assert_eq!(erased(&sqlite, of(&script)).collected.bodies, 0, "once is enough");
    assert_eq!(erased(&sqlite, of(&other)).collected.bodies, 1, "the other session names it still");
}
