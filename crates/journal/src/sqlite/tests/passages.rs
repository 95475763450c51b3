//! The index of files of memory.

use std::fs;
use std::path::Path;

use super::{home, own};
use crate::{Error, PassageFile, PassageSearch, PassageWords, PassagesFound, SearchIndex};

/// Files of memory, each with its stamp and its passages.
#[derive(Default)]
struct Files {
    files: Vec<(PassageFile, PassageWords)>,
    /// The numbers of those that were read.
    read: Vec<usize>,
}

impl Files {
    fn put(&mut self, (folder, path): (&str, &str), stamp: Option<&str>, passages: &[&str]) {
        self.files.retain(|(file, _)| file.path != path || file.folder != folder);
        let (folder, path, stamp) = (folder.to_owned(), path.to_owned(), stamp.map(str::to_owned));
        let words = PassageWords::Passages(passages.iter().map(|text| (*text).to_owned()).collect());
        self.files.push((PassageFile { folder, path, stamp }, words));
    }

    fn search(&mut self, home: &Path, words: &[&str]) -> Result<PassagesFound, Error> {
        let files: Vec<PassageFile> = self.files.iter().map(|(file, _)| file.clone()).collect();
        let phrases: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let search =
            PassageSearch { folders: vec!["/ws".to_owned()], files, all: phrases.clone(), any: phrases, most: 3 };
        self.read.clear();
        SearchIndex::find_passages(home, &search, &mut |number| {
            self.read.push(number);
            self.files[number].1.clone()
        })
    }

    /// The passages that have all words, or some.
    fn found(&mut self, home: &Path, words: &[&str]) -> Vec<(usize, usize)> {
        self.search(home, words).unwrap().passages
    }
}

#[test]
fn r41_passages_with_all_words_are_found_the_best_first_and_else_those_with_some() {
    let (_folder, home) = home();
    let _owner = own(&home);
    let mut files = Files::default();
    let long = "the tide of a long day on which nothing else of note was seen by anybody at all".to_owned();
    files.put(("/ws", "/ws/a"), Some("1"), &[&long, "tide, tide and again the Tide", "the moon"]);
    files.put(("/ws", "/ws/b"), Some("1"), &["Über deploying a café", "数 据 库 的 端 口"]);
    let found = files.search(&home, &["tide"]).unwrap();
    assert_eq!(found, PassagesFound { passages: vec![(0, 1), (0, 0)], is_partial: false });
    for (words, passages) in [
        (&["tide", "day"][..], &[(0, 0)][..]),
        (&["uber", "CAFE"], &[(1, 0)]),
        (&["deployed"], &[(1, 0)]),
        (&["端 口"], &[(1, 1)]),
        (&["口 端"], &[]),
        (&["long day"], &[(0, 0)]),
        (&["day long"], &[]),
    ] {
        assert_eq!(
            files.search(&home, words).unwrap(),
            PassagesFound { passages: passages.to_vec(), is_partial: false }
        );
    }
    let some = files.search(&home, &["moon", "sun"]).unwrap();
    assert_eq!(some, PassagesFound { passages: vec![(0, 2)], is_partial: true });
    // Nothing in a phrase is an operator or an error.
    for phrase in ["\"", "moon\" OR \"tide", "mo*", "text: moon", "AND", "NEAR(", "^", "-tide", ""] {
        assert!(files.search(&home, &[phrase]).is_ok(), "{phrase}");
    }
    // So many as are wanted.
    files.put(("/ws", "/ws/many"), Some("1"), &["sea"; 9]);
    assert_eq!(files.found(&home, &["sea"]).len(), 3);
}

#[test]
fn r41_a_changed_file_is_indexed_again_and_one_that_is_gone_is_not_found() {
    let (_folder, home) = home();
    let _owner = own(&home);
    let mut files = Files::default();
    files.put(("/ws", "/ws/a"), Some("1"), &["tide"]);
    files.put(("/ws", "/ws/b"), None, &["tide"]);
    // Of another folder that was not looked through this time.
    files.put(("/other", "/other/c"), Some("1"), &["tide"]);
    assert_eq!(files.found(&home, &["tide"]).len(), 3);
    assert_eq!(files.read, [0, 1, 2]);
    assert_eq!(files.found(&home, &["tide"]).len(), 3);
    assert_eq!(files.read[..1], [1], "a file without a stamp is read each time");
    files.put(("/ws", "/ws/b"), Some("1"), &["tide", "moon"]);
    files.put(("/ws", "/ws/a"), Some("2"), &["moon"]);
    files.files.retain(|(file, _)| file.folder == "/ws");
    assert_eq!(files.found(&home, &["tide"]), [(0, 0)]);
    assert_eq!(files.found(&home, &["moon"]), [(1, 0), (0, 1)]);
    assert_eq!(files.read, [0; 0]);
    files.files.remove(0);
    assert_eq!(files.found(&home, &["tide"]), []);
    // What cannot be read any more is not found, and is read again as soon as it can be.
    files.files[0].0.stamp = Some("3".to_owned());
    let words = std::mem::replace(&mut files.files[0].1, PassageWords::LeftOut);
    assert_eq!(files.found(&home, &["moon"]), []);
    files.files[0].1 = PassageWords::Cancelled;
    assert_eq!(files.found(&home, &["moon"]), []);
    files.files[0].1 = words;
    assert_eq!(files.found(&home, &["moon"]), [(0, 0)]);
    // The other folder is still known.
    files.put(("/other", "/other/c"), Some("1"), &["tide"]);
    files.files.remove(0);
    let search = |folders: &[&str], files: &Files| PassageSearch {
        folders: folders.iter().map(|folder| (*folder).to_owned()).collect(),
        files: files.files.iter().map(|(file, _)| file.clone()).collect(),
        all: vec!["tide".to_owned()],
        any: vec![],
        most: 9,
    };
    let of_other = search(&["/other"], &files);
    let found = SearchIndex::find_passages(&home, &of_other, &mut |_| panic!("it is known")).unwrap();
    assert_eq!(found.passages, [(0, 0)]);
}

#[test]
fn r41_an_index_that_is_missing_or_corrupt_is_made_anew_and_one_that_cannot_be_is_an_error() {
    let (_folder, home) = home();
    let _owner = own(&home);
    let mut files = Files::default();
    let many: Vec<String> = (0..500).map(|n| format!("tide number {n}")).collect();
    files.put(("/ws", "/ws/a"), Some("1"), &many.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(files.found(&home, &["number 7"]), [(0, 7)]);
    let file = home.join("search.db");
    let whole = fs::read(&file).unwrap();
    let mut damaged = whole.clone();
    damaged[8_192..].fill(0x5A);
    for content in [vec![0x5A; 20_000], vec![], whole[..8_192].to_vec(), damaged] {
        fs::write(&file, content).unwrap();
        assert_eq!(files.found(&home, &["number 7"]), [(0, 7)]);
        assert_eq!(files.found(&home, &["number 8"]), [(0, 8)]);
    }
    fs::remove_file(&file).unwrap();
    assert_eq!(files.found(&home, &["number 7"]), [(0, 7)]);
    fs::remove_file(&file).unwrap();
    fs::create_dir_all(file.join("in the way")).unwrap();
    assert!(matches!(files.search(&home, &["number"]), Err(Error::Search { .. })));
}
