//! Checks single files: the module doc, unfinished code, sleeps in tests, names of foreign places.

use super::Finding;
use crate::rust_source::{code_of, line_of, tests_begin, words};
use crate::tree::Tree;

/// Written in halves, so that this file does not match.
const FOREIGN: [(&str, &str); 8] = [
    (concat!("/wo", "rk/"), "a folder of one machine"),
    (concat!(".lib", "rary"), "a folder of one machine"),
    (concat!("shared/", "reference"), "a text that is not in this project"),
    (concat!("index.", "crates.io"), "a registry's host"),
    (concat!("static.", "crates.io"), "a registry's host"),
    (concat!("registry.", "npmjs.org"), "a registry's host"),
    (concat!("files.", "pythonhosted.org"), "a registry's host"),
    (concat!("proxy.", "golang.org"), "a registry's host"),
];

/// A comment with this mark, on the line of a sleep or on the one above, says what the test waits for.
const WAITS: &str = "// waits:";

/// Every Rust file starts with a module doc.
pub(super) fn module_docs(tree: &Tree) -> Vec<Finding> {
    let silent = tree.with_ending(".rs").filter(|file| !file.text.starts_with("//!"));
    silent
        .map(|file| {
            let repair = "begin with `//!` and say what lives in this file";
            Finding::failure(&file.path, 1, "no module doc", repair)
        })
        .collect()
}

/// No code is unfinished, and no test is skipped without a reason.
pub(super) fn unfinished(tree: &Tree) -> Vec<Finding> {
    let mut findings = vec![];
    for file in tree.with_ending(".rs") {
        let code = code_of(&file.text);
        for (offset, word) in words(&code) {
            if matches!(word, "todo" | "unimplemented") && code[offset + word.len()..].starts_with('!') {
                let repair = "write it, or remove what leads to it";
                findings.push(Finding::failure(&file.path, line_of(&code, offset), format!("`{word}!`"), repair));
            }
            if word == "ignore" && code[..offset].ends_with("#[") && code[offset + word.len()..].starts_with(']') {
                let repair = "write `#[ignore = \"why\"]`, or repair the test";
                findings.push(Finding::failure(&file.path, line_of(&code, offset), "`#[ignore]`", repair));
            }
        }
    }
    findings
}

/// A test that sleeps gives a reason; a test that waits for a condition needs no sleep.
pub(super) fn sleeps(tree: &Tree) -> Vec<Finding> {
    let mut findings = vec![];
    for file in tree.with_ending(".rs") {
        let code = code_of(&file.text);
        let tests = tests_begin(&file.path, &code);
        let lines: Vec<&str> = file.text.lines().collect();
        let calls = words(&code).filter(|(at, word)| *word == "sleep" && code[at + word.len()..].starts_with('('));
        for line in calls.map(|(offset, _)| line_of(&code, offset)).filter(|line| *line >= tests) {
            let says = |line: usize| lines.get(line.wrapping_sub(1)).is_some_and(|text| text.contains(WAITS));
            if !says(line) && !says(line - 1) {
                let repair = format!("wait for the condition; if no condition exists, say why: `{WAITS} …`");
                findings.push(Finding::failure(&file.path, line, "a test sleeps", repair));
            }
        }
    }
    findings
}

/// No file names a place that a clone of the project does not have.
pub(super) fn foreign(tree: &Tree) -> Vec<Finding> {
    let mut findings = vec![];
    for file in &tree.files {
        for (word, what) in FOREIGN {
            findings.extend(file.text.match_indices(word).map(|(offset, _)| {
                let what = format!("`{word}`: {what}");
                Finding::failure(
                    &file.path,
                    line_of(&file.text, offset),
                    what,
                    "name only what a clone of the project has",
                )
            }));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{FOREIGN, foreign, module_docs, sleeps, unfinished};
    use crate::tidy::found;

    #[test]
    fn a_file_without_a_module_doc_is_found() {
        let files = [("a.rs", "//! Doc.\n"), ("b.rs", "\n//! Late.\n"), ("c.rs", ""), ("d.md", "text\n")];
        assert_eq!(found(module_docs, &files), ["b.rs:1 no module doc", "c.rs:1 no module doc"]);
    }

    #[test]
    fn unfinished_code_is_found() {
        let code = "fn a() {\n todo!() }\nfn b() { unimplemented!(\"x\") }\n#[ignore]\nfn c() {}\n";
        assert_eq!(
            found(unfinished, &[("a.rs", code)]),
            ["a.rs:2 `todo!`", "a.rs:3 `unimplemented!`", "a.rs:4 `#[ignore]`"]
        );
        let finished = "// todo!\nlet todo = ignore[0];\n#[ignore = \"needs a network\"]\nfn d() { s(\"todo!\") }\n";
        assert_eq!(found(unfinished, &[("a.rs", finished)]), [""; 0]);
    }

    #[test]
    fn a_sleep_in_a_test_needs_a_reason() {
        let code = "fn backoff() { thread::sleep(d) }\n#[cfg(test)]\nmod tests {\n  fn a() { tokio::time::sleep(d).await }\n  \
                    fn b() { sleep(d) }\n  // waits: the kernel tells nobody\n  fn c() { sleep(d) } // \n  \
                    fn d() { sleep(d) } // waits: see above\n  fn e() { s(\"sleep(5)\"); asleep(1) }\n}\n";
        assert_eq!(found(sleeps, &[("a.rs", code)]), ["a.rs:4 a test sleeps", "a.rs:5 a test sleeps"]);
        assert_eq!(found(sleeps, &[("x/tests/a.rs", "sleep(d)")]), ["x/tests/a.rs:1 a test sleeps"]);
    }

    #[test]
    fn each_foreign_place_is_found() {
        for (word, what) in FOREIGN {
            let text = format!("one\nsee {word}there\n");
            assert_eq!(found(foreign, &[("notes.txt", &text)]), [format!("notes.txt:2 `{word}`: {what}")]);
        }
        assert_eq!(found(foreign, &[("a.md", "homework/done and workspace/\n")]), [""; 0]);
    }
}
