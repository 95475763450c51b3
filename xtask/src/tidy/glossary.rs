//! Checks the glossary against the code: each word has one row and is part of a name in the code.

use std::collections::BTreeSet;

use super::Finding;
use crate::rust_source::{code_of, words};
use crate::tree::Tree;

const GLOSSARY: &str = "GLOSSARY.md";

/// Each word of GLOSSARY.md has one row and occurs in a name of the crates, in any case, with or without underscores,
/// also as a plural.
pub(super) fn glossary(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.file(GLOSSARY) else { return vec![] };
    let names = names(tree);
    let mut seen = BTreeSet::new();
    let mut findings = vec![];
    for (line, word) in rows(&page.text) {
        let parts = parts(word);
        if ![format!(" {parts} "), format!(" {parts}s ")].iter().any(|parts| names.contains(parts)) {
            let what = format!("`{word}` is in no name of the code");
            findings.push(Finding::failure(
                GLOSSARY,
                line,
                what,
                "define the word that the code uses, or rename in the code",
            ));
        }
        if !seen.insert(parts) {
            let what = format!("`{word}` has a second row");
            findings.push(Finding::failure(
                GLOSSARY,
                line,
                what,
                "one word, one meaning: merge the rows or rename one",
            ));
        }
    }
    findings
}

/// The first cells of the tables, each with its line from 1.
fn rows(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let cells = text.lines().enumerate().filter_map(|(index, line)| {
        let (cell, _) = line.strip_prefix('|')?.split_once('|')?;
        Some((index + 1, cell.trim()))
    });
    cells.filter(|(_, cell)| *cell != "word" && !cell.starts_with("--"))
}

/// Every name in the crates by its parts, with ` | ` between two names.
fn names(tree: &Tree) -> String {
    let files = tree.with_ending(".rs").filter(|file| file.path.starts_with("crates/"));
    let mut names = BTreeSet::new();
    for file in files {
        let code = code_of(&file.text);
        names.extend(words(&code).map(|(_, name)| parts(name)));
    }
    names.iter().fold(String::from("|"), |all, name| all + " " + name + " |")
}

/// The parts of a name or of a word, in lower case with one space between two: `RunState` and `run_state` are `run
/// state`.
fn parts(name: &str) -> String {
    let mut parts = String::new();
    let mut is_lower = false;
    for c in name.chars() {
        if matches!(c, '_' | ' ' | '-') {
            parts.push(' ');
        } else {
            if c.is_uppercase() && is_lower {
                parts.push(' ');
            }
            parts.extend(c.to_lowercase());
        }
        is_lower = c.is_lowercase() || c.is_numeric();
    }
    parts.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::{glossary, parts};
    use crate::tidy::found;

    const CODE: &str = "struct RunState { lane_tickets: u8 } // a purse\nfn f() { s(\"ledger\") }\n";

    #[test]
    fn words_that_the_code_uses_are_accepted() {
        let page = "# Words\n| word | meaning |\n|---|---|\n| run state | a |\n| lane ticket | b |\n| run | c |\n";
        assert_eq!(found(glossary, &[("GLOSSARY.md", page), ("crates/a/src/b.rs", CODE)]), [""; 0]);
    }

    #[test]
    fn words_that_the_code_does_not_use_are_found() {
        let page =
            "| purse | in a comment |\n| ledger | in a text |\n| state lane | two names |\n| stat | half a part |\n";
        let expected = [
            "GLOSSARY.md:1 `purse` is in no name of the code",
            "GLOSSARY.md:2 `ledger` is in no name of the code",
            "GLOSSARY.md:3 `state lane` is in no name of the code",
            "GLOSSARY.md:4 `stat` is in no name of the code",
        ];
        assert_eq!(found(glossary, &[("GLOSSARY.md", page), ("crates/a/src/b.rs", CODE)]), expected);
        assert_eq!(found(glossary, &[("GLOSSARY.md", "| run | a |\n"), ("xtask/src/b.rs", CODE)]).len(), 1);
    }

    #[test]
    fn a_second_row_is_found() {
        let page = "| run | one |\n| RUN | two |\n";
        let files = [("GLOSSARY.md", page), ("crates/a/src/b.rs", CODE)];
        assert_eq!(found(glossary, &files), ["GLOSSARY.md:2 `RUN` has a second row"]);
    }

    #[test]
    fn a_name_has_parts() {
        for (name, expected) in [
            ("RunState", "run state"),
            ("NO_SPACE", "no space"),
            ("steer backlog", "steer backlog"),
            ("f64Bits", "f64 bits"),
        ] {
            assert_eq!(parts(name), expected);
        }
    }
}
