//! Checks docs/internals/provider-faults.md against the sources: every test and every fault that it names exists. A
//! test beside the list of the kill harness checks that the page has all of its faults.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const PAGE: &str = include_str!("../../../../docs/internals/provider-faults.md");
const KILLS: &str = include_str!("../../src/bin/kills/faults.rs");
const DRAWN: &str = include_str!("../../../simulator/src/random/draw.rs");

/// A row of the table.
struct Row<'a> {
    number: &'a str,
    outcome: &'a str,
    sockets: Vec<&'a str>,
    kills: Vec<&'a str>,
    simulator: &'a str,
}

/// The words in backticks.
fn names(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn rows(page: &str) -> Vec<Row<'_>> {
    let lines = page.lines().filter(|line| line.starts_with("| P"));
    let row = |line| {
        let cells: Vec<&str> = str::split(line, '|').map(str::trim).collect();
        let &[_, number, _, outcome, sockets, kills, simulator, _] = cells.as_slice() else {
            panic!("a row has six cells: {line}")
        };
        Row { number, outcome, sockets: names(sockets), kills: names(kills), simulator }
    };
    lines.map(row).collect()
}

/// The names of all functions that are tests, in the sources of all crates.
fn tests() -> BTreeSet<String> {
    let mut tests = BTreeSet::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                tests.extend(tests_of(&fs::read_to_string(path).unwrap()));
            }
        }
    }
    tests
}

/// The function after each `#[test]` or `#[tokio::test]`, except ignored ones.
fn tests_of(source: &str) -> BTreeSet<String> {
    let mut tests = BTreeSet::new();
    let mut is_test = false;
    for line in source.lines().map(str::trim) {
        let name = line.split_once("fn ").and_then(|(_, rest)| rest.split_once('(')).map(|(name, _)| name);
        match name {
            Some(name) if is_test => {
                tests.insert(name.to_owned());
                is_test = false;
            }
            None if line.starts_with("#[test]") || line.starts_with("#[tokio::test") => is_test = true,
            None if line.starts_with("#[ignore") => is_test = false,
            _ => {}
        }
    }
    tests
}

/// False statements of the page.
fn wrong(page: &str, tests: &BTreeSet<String>) -> Vec<String> {
    let mut wrong = vec![];
    let rows = rows(page);
    for number in 1..=13 {
        let number = format!("P{number:02}");
        if !rows.iter().any(|row| row.number == number) {
            wrong.push(format!("{number} has no row"));
        }
    }
    for row in &rows {
        if row.sockets.is_empty() {
            wrong.push(format!("{} names no test", row.number));
        }
        let unknown = row.sockets.iter().filter(|name| !tests.contains(**name));
        wrong.extend(unknown.map(|name| format!("no test is called {name}")));
        let not_met = row.kills.iter().filter(|name| !KILLS.contains(&format!("\"{name}\"")));
        wrong.extend(not_met.map(|name| format!("no fault of `kills` is called {name}")));
        let classes = names(row.outcome).into_iter().filter(|name| !name.contains('.'));
        let drawn: Vec<&str> =
            classes.filter(|class| DRAWN.contains(&format!("FailureClass::{},", camel(class)))).collect();
        let has = |what: &str| row.simulator.split(", ").any(|word| word == what);
        if has("odd calls") != (row.number == "P11") {
            wrong.push(format!("{} is in the simulator: {}", row.number, row.simulator));
        }
        if has("class") == drawn.is_empty() {
            wrong.push(format!("{} is in the simulator: {}; it draws {drawn:?}", row.number, row.simulator));
        }
    }
    wrong
}

/// Converts `rate_limit` to `RateLimit`.
fn camel(name: &str) -> String {
    let words = name.split('_').filter_map(|word| Some((word.get(..1)?.to_uppercase(), &word[1..])));
    words.map(|(first, rest)| first + rest).collect()
}

#[test]
fn r51_every_name_on_the_page_of_a_providers_faults_is_in_the_sources() {
    let tests = tests();
    assert!(tests.len() > 1_000, "{} tests", tests.len());
    let wrong = wrong(PAGE, &tests);
    assert!(wrong.is_empty(), "docs/internals/provider-faults.md:\n{}", wrong.join("\n"));
}

#[test]
fn r51_false_statements_of_the_page_are_found() {
    let tests = tests_of("#[test]\nfn there() {}\n#[test]\n#[ignore = \"slow\"]\nfn ignored() {}\nfn helper() {}\n");
    assert_eq!(tests, BTreeSet::from(["there".to_owned()]));
    let found = |row: &str| {
        let page = PAGE.replace("| P13 | a redirect |", "| P13 | a redirect, not |") + row;
        let known: BTreeSet<String> =
            rows(PAGE).iter().flat_map(|row| &row.sockets).map(|name| (*name).to_owned()).collect();
        wrong(&page, &known.union(&tests).cloned().collect())
    };
    assert_eq!(found("| P01 | x | `rate_limit` | `there` | `fail=429x1` | class |\n"), [""; 0]);
    for name in ["ignored", "helper", "gone"] {
        let row = format!("| P01 | x | `rate_limit` | `{name}` | – | class |\n");
        assert_eq!(found(&row), [format!("no test is called {name}")]);
    }
    assert_eq!(found("| P01 | x | whole | – | – | – |\n"), ["P01 names no test"]);
    assert_eq!(
        found("| P01 | x | whole | `there` | `odd=gonex1` | – |\n"),
        ["no fault of `kills` is called odd=gonex1"]
    );
    assert_eq!(found("| P01 | x | whole | `there` | – | class |\n"), ["P01 is in the simulator: class; it draws []"]);
    assert_eq!(found("| P01 | x | whole | `there` | – | odd calls |\n"), ["P01 is in the simulator: odd calls"]);
    assert_eq!(wrong("", &tests).len(), 13);
}
