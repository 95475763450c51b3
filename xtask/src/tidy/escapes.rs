//! Checks the pages about security: the page about escapes has one row for each number, and every test that a page names exists.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use crate::rust_source::{code_of, words};
use crate::tree::{TextFile, Tree};

const ESCAPES: &str = "docs/escapes.md";
const PAGES: [&str; 2] = [ESCAPES, "docs/security.md"];

/// How many escapes there are.
const NUMBERS: usize = 104;

/// What stands in the column of tests where nothing holds the attempt.
const NO_TEST: [&str; 2] = ["none", "none of its own"];

/// Each number has one row, with a test or with words for its absence.
pub(super) fn rows(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.file(ESCAPES) else { return vec![] };
    let mut findings = vec![];
    let mut seen: BTreeMap<usize, usize> = BTreeMap::new();
    for (line, cells) in cells(page) {
        let Some(number) = cells.first().and_then(|cell| cell.parse::<usize>().ok()) else { continue };
        if !(1..=NUMBERS).contains(&number) || seen.insert(number, line).is_some() {
            findings.push(Finding::failure(
                ESCAPES,
                line,
                format!("{number} is no number, or has a row"),
                "one row for each escape",
            ));
        }
        let is_shown = cells.len() == 4
            && (cells[3].contains('`') || NO_TEST.contains(&cells[3]) && cells[2].contains("**not held**"));
        if !is_shown {
            let repair = "name the test that tries it, or say in bold that it is not held";
            findings.push(Finding::failure(ESCAPES, line, format!("escape {number} has no test"), repair));
        }
    }
    let missing = (1..=NUMBERS).filter(|number| !seen.contains_key(number));
    findings.extend(missing.map(|number| {
        Finding::failure(
            ESCAPES,
            1,
            format!("escape {number} has no row"),
            "say what holds it, and which test tries it",
        )
    }));
    findings
}

/// Every test that a row names is a function of the crates.
pub(super) fn tests(tree: &Tree) -> Vec<Finding> {
    let named: Vec<(&str, usize, &str)> = PAGES.iter().filter_map(|path| tree.file(path)).flat_map(named).collect();
    if named.is_empty() {
        return vec![];
    }
    let functions = functions(tree);
    let missing = named.into_iter().filter(|(_, _, name)| !functions.contains(*name));
    let repair = "name the test as it is called now";
    missing
        .map(|(path, line, name)| Finding::failure(path, line, format!("there is no test `{name}`"), repair))
        .collect()
}

/// The rows of tables, each with its line from 1. A sign in a cell that is escaped parts nothing.
fn cells(page: &TextFile) -> impl Iterator<Item = (usize, Vec<&str>)> {
    page.text.lines().enumerate().filter_map(|(index, line)| {
        let row = line.strip_prefix('|')?.strip_suffix('|')?;
        let mut cells = vec![];
        let mut begin = 0;
        for (at, _) in row.match_indices('|').filter(|(at, _)| !row[..*at].ends_with('\\')) {
            cells.push(row[begin..at].trim());
            begin = at + 1;
        }
        cells.push(row[begin..].trim());
        Some((index + 1, cells))
    })
}

/// The names of tests in the last cells of a page.
fn named(page: &TextFile) -> Vec<(&str, usize, &str)> {
    let tests = cells(page).filter_map(|(line, cells)| cells.last().map(|cell| (line, *cell)));
    let names = tests.flat_map(|(line, cell)| cell.split('`').skip(1).step_by(2).map(move |name| (line, name)));
    // A file, or a family of tests, is none.
    names.filter(|(_, name)| is_name(name)).map(|(line, name)| (page.path.as_str(), line, name)).collect()
}

fn is_name(name: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let is_family = name.strip_prefix("escape_").is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit()));
    name.contains('_') && name.chars().all(is_of_name) && !is_family
}

/// The names of all functions.
fn functions(tree: &Tree) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in tree.with_ending(".rs") {
        let code = code_of(&file.text);
        let mut before = "";
        for (_, word) in words(&code) {
            if before == "fn" {
                names.insert(word.to_owned());
            }
            before = word;
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::{NUMBERS, rows, tests};
    use crate::tidy::found;

    fn page(change: impl Fn(usize) -> String) -> String {
        (1..=NUMBERS).map(|number| change(number) + "\n").collect()
    }

    fn row(number: usize) -> String {
        format!("| {number} | a `b \\| c` | mounts | `it_holds` |")
    }

    #[test]
    fn every_escape_has_one_row_with_a_test() {
        assert_eq!(found(rows, &[("docs/escapes.md", &page(row))]), Vec::<String>::new());
        let odd = page(|number| match number {
            3 => String::new(),
            4 => row(5),
            6 => "| 6 | a | mounts | none |".to_owned(),
            7 => "| 7 | a | **not held** | none |".to_owned(),
            _ => row(number),
        });
        let findings = found(rows, &[("docs/escapes.md", &odd)]);
        assert_eq!(
            findings,
            [
                "docs/escapes.md:5 5 is no number, or has a row",
                "docs/escapes.md:6 escape 6 has no test",
                "docs/escapes.md:1 escape 3 has no row",
                "docs/escapes.md:1 escape 4 has no row",
            ]
        );
    }

    #[test]
    fn every_test_that_a_page_names_exists() {
        let code = ("crates/a/src/a.rs", "#[test]\nfn it_holds() {}\n");
        let fine = ("docs/security.md", "| a | b | `it_holds`, confine `files.rs`, `escape_63` |\n");
        assert_eq!(found(tests, &[code, fine]), Vec::<String>::new());
        let wrong = ("docs/security.md", "| a | b_c | `it_held` |\n");
        assert_eq!(found(tests, &[code, wrong]), ["docs/security.md:1 there is no test `it_held`"]);
    }
}
